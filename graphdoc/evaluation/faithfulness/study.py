"""Do scores of passages explain what a model says? Deletion and insertion curves of documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from zlib import crc32

import numpy as np
import numpy.typing as npt

from ...documents.readers.pair_files import LabelledPair, Pairs, Unknown, require_known_handling
from ...encoder import DocumentEncoder
from ...errors import EvaluationError, ModelError, SettingsError
from ...inference.precision import Precision
from ...modeling import DocumentModel
from ...prediction.predicting import classes_of
from ...runtime.progress import progress_bar
from ...segmentation.spans import Coverage
from ..bootstrap import RESAMPLES
from ..labels import ReadyDocument, plain_document
from ..pairs import require_own_ids
from .explained_documents import ExplainedDocument, ProbabilityOf, SimilarityTo, explained_documents
from .passage_rankings import WordOverlap, attention_source
from .removal_curves import KINDS, STEPS, curve, is_uniform, kept_passages, key_of, order_by
from .scores import METHODS, RANDOM, Case, FaithfulnessScores
from .shortened import encode_shortened

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Watched = SimilarityTo | ProbabilityOf

ORDERS = 5


class FaithfulnessEvaluation:
    """Documents that are shortened passage by passage, always in the same way, to see what a model goes by.

    With pairs, the similarity of two documents is watched while one of them is shortened: each of them in turn, with
    the other whole. Without pairs it is the probability of the class that a document most likely belongs to, and the
    model needs a head. Passages are taken out, or put in, by contribution, by attention, by the words they share with
    the other document or the class, and at random. Every document goes through the transformer once.

    Args:
        documents: the documents, segmented or not; those that occur in no pair are passed over.
        pairs: the pairs, whatever their labels; None to watch classes. Pairs of a document with itself, and pairs that
            were given before, are left out and counted.
        steps: most steps of a curve.
        orders: number of random orders, whose curves are averaged.
        sample: measure so many of the pairs, or of the documents without pairs, drawn at random; None for all.
        unknown: ``stop`` at a pair of which a document is not there, or ``leave_out`` such pairs and count them.
        resamples: number of bootstrap resamples of documents, for intervals; 0 for none.
        seed: draws orders, resamples and the sample.
        dtype: precision that the transformer computes in; None is that of its weights.

    Attributes:
        pairs: the pairs that are measured; None where classes are watched.
        documents: the documents that are encoded.
        left_out: what is not measured, counted by reason.

    Raises:
        DocumentError: a document of a pair is not there, or two documents have one id.
        EvaluationError: there is nothing to measure.
        SettingsError: a setting is unknown or out of range.
    """

    def __init__(
        self,
        documents: Iterable[ReadyDocument],
        pairs: Pairs | Sequence[LabelledPair] | None = None,
        *,
        steps: int = STEPS,
        orders: int = ORDERS,
        sample: int | None = None,
        unknown: Unknown = "stop",
        resamples: int = RESAMPLES,
        seed: int = 0,
        dtype: Precision | None = None,
    ) -> None:
        for name, value, least in (
            ("steps", steps, 1),
            ("orders", orders, 1),
            ("sample", 1 if sample is None else sample, 1),
            ("resamples", resamples, 0),
            ("seed", seed, 0),
        ):
            if value < least:
                raise SettingsError(f"{name}={value} must be at least {least}")
        self.steps, self.orders, self.resamples, self.seed, self.dtype = steps, orders, resamples, seed, dtype
        self.left_out: dict[str, int] = {}
        self.pairs: Pairs | None = None
        require_known_handling(unknown)
        ready = list(documents)
        require_own_ids(ready)
        if pairs is None:
            self.documents = [ready[place] for place in self._drawn(len(ready), sample)]
            if not self.documents:
                raise EvaluationError("there are no documents to explain; give at least one")
            return
        known = {plain_document(one).id: one for one in ready}
        self.pairs = self._measured(Pairs.of(pairs), known, unknown, sample)
        ids = dict.fromkeys(id for pair in self.pairs for id in (pair.a, pair.b))
        self.documents = [known[id] for id in ids]

    def _drawn(self, count: int, sample: int | None) -> list[int]:
        """Places of what is measured, in their order."""
        if sample is None or sample >= count:
            return list(range(count))
        return sorted(np.random.default_rng(self.seed).choice(count, sample, replace=False).tolist())

    def _measured(self, pairs: Pairs, known: dict[str, ReadyDocument], unknown: Unknown, sample: int | None) -> Pairs:
        there = pairs.among(known, unknown)
        first = {pair.documents: number for number, pair in reversed(list(enumerate(there)))}
        apart = [number for number, pair in enumerate(there) if pair.a != pair.b]
        once = there.chosen([number for number in apart if first[there.pairs[number].documents] == number])
        self.left_out = {
            "unknown": len(pairs) - len(there),
            "with_themselves": len(there) - len(apart),
            "repeated": len(apart) - len(once),
        }
        if not len(once):
            raise EvaluationError(f"{pairs.name} hold no pair of two documents that are there; give at least one")
        return once.chosen(self._drawn(len(once), sample))

    def measure(
        self, encoder: DocumentEncoder, *, totals: Coverage | None = None, show_progress: bool | None = None
    ) -> FaithfulnessScores:
        """Measure an encoder.

        Args:
            encoder: the encoder; without pairs its model has a head.
            totals: where coverage is added up.
            show_progress: show bars; None shows them on a terminal when the work is long.

        Raises:
            ModelError: there are no pairs, and the model has no head.
            EvaluationError: no document has two passages.
            DocumentError: a document has no text to encode.
        """
        self.require_target(encoder)
        totals = Coverage() if totals is None else totals
        found = list(
            explained_documents(
                encoder,
                list(self.documents),
                classes=self.pairs is None,
                dtype=self.dtype,
                totals=totals,
                show_progress=show_progress,
            )
        )
        short = sum(len(one) < 2 for one in found)
        watched = [one for one in self._watched(encoder, found) if len(one.document) > 1]
        if not watched:
            raise EvaluationError(
                f"no document has two passages for {encoder.name}, so that nothing can be taken out; give longer "
                "documents, or a greater --max-passages"
            )
        scores = [one.scores() for one in watched]
        methods, notes = _methods(encoder.model, scores)
        curves = np.empty((len(watched), len(methods), len(KINDS), self.steps + 1))
        with progress_bar(show_progress, len({one.document.id for one in watched}), "Removing passages") as bar:
            for _, group in groupby(range(len(watched)), key=lambda row: id(watched[row].document)):
                rows = list(group)
                curves[rows] = self._curves(encoder, [watched[row] for row in rows],
                                            [scores[row] for row in rows], methods)  # fmt: skip
                bar.update()
        return FaithfulnessScores(
            "probability" if self.pairs is None else "similarity",
            methods,
            tuple(
                # Deletion begins with the whole document, whatever the order.
                Case(one.document.id, one.name, len(one.document), float(whole))
                for one, whole in zip(watched, curves[:, 0, KINDS.index("deletion"), 0], strict=True)
            ),
            curves,
            {**self.left_out, "one_passage": short},
            notes,
            self.resamples,
            self.seed,
        )

    def require_target(self, encoder: DocumentEncoder) -> None:
        """Refuse a model that there is nothing to watch of.

        Raises:
            ModelError: there are no pairs, and the model has no head.
        """
        if self.pairs is None and encoder.model.head is None:
            raise ModelError(
                f"{encoder.name} has no classification head, and there are no pairs whose similarity could be "
                "explained; give pairs of documents, or a checkpoint that was fine-tuned on labels"
            )

    def _watched(self, encoder: DocumentEncoder, found: list[ExplainedDocument]) -> list[Watched]:
        """All cases, those of one document one after the other."""
        words = WordOverlap([one.segmented for one in found])
        config = encoder.model.config
        if self.pairs is None:
            classes = classes_of(encoder)
            likeliest = np.array([one.likeliest for one in found])
            return [
                ProbabilityOf(
                    one,
                    classes[likeliest[row]],
                    bool(config.multi_label),
                    words.with_class(one.segmented, row, likeliest == likeliest[row]),
                )
                for row, one in enumerate(found)
            ]
        row_of = {one.id: row for row, one in enumerate(found)}
        both = [(row_of[a], row_of[b]) for pair in self.pairs for a, b in ((pair.a, pair.b), (pair.b, pair.a))]
        directed = sorted(both, key=lambda rows: rows[0])
        return [
            SimilarityTo(found[a], found[b], config.similarity, words.with_document(found[a].segmented, b))
            for a, b in directed
        ]

    def _curves(
        self,
        encoder: DocumentEncoder,
        watched: list[Watched],
        scores: list[dict[str, Floats]],
        methods: tuple[str, ...],
    ) -> Floats:
        """The curves of all cases of one document, ``(cases, methods, 2, steps + 1)``."""
        document = watched[0].document
        chance = self._random_orders(document)
        orders = [
            [chance if method == RANDOM else [order_by(of_case[method], chance[0])] for method in methods]
            for of_case in scores
        ]
        # Orders have passages in common, if only at their ends; cases have attention and chance.
        wanted = {
            key_of(kept): kept
            for of_case in orders
            for of_method in of_case
            for order in of_method
            for kind in KINDS
            for kept in kept_passages(order, kind, self.steps)
        }
        found = encode_shortened(encoder.model, document.segmented, list(wanted.values()), encoder.lexical)
        result = []
        for one, of_case in zip(watched, orders, strict=True):
            measured = dict(zip(wanted, one.values(found).tolist(), strict=True))
            result.append(
                [
                    [np.mean([curve(order, kind, self.steps, measured) for order in of_method], 0) for kind in KINDS]
                    for of_method in of_case
                ]
            )
        return np.array(result)

    def _random_orders(self, document: ExplainedDocument) -> list[Integers]:
        """Orders that depend on the seed and the document's id, not on what else is measured."""
        draw = np.random.default_rng([self.seed, crc32(document.id.encode("utf-8", "replace"))])
        return [draw.permutation(len(document)) for _ in range(self.orders)]


def _methods(model: DocumentModel, scores: Sequence[dict[str, Floats]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The methods that rank passages, and what has to be known of them."""
    notes = []
    gone = [name for name in ("attention", "words") if all(is_uniform(one[name]) for one in scores)]
    if "attention" in gone:
        notes.append("attention is not measured: the model has none that differs between passages")
    else:
        notes.append(f"attention: {attention_source(model)}")
    if "words" in gone:
        notes.append("words are not measured: no passage shares any with the other document or the class")
    if model.structural_embeddings is not None:
        notes.append("structural embeddings: passages keep the places that they have in the whole document")
    return tuple(name for name in METHODS if name not in gone), tuple(notes)
