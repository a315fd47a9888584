"""Evaluate an encoder on pairs of documents that belong together and others (CoLDE, 4.2)."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from ..documents.readers.pair_files import Pairs, Unknown
from ..encoder import DocumentEncoder
from ..errors import DocumentError, EvaluationError
from ..inference.precision import Precision
from ..inference.segmenting import ManyDocuments, Workers, segment_in_order
from ..matching.matcher import PairDocument, PairMatcher, SampledViews
from ..modeling.lexical import PassageTerms
from ..runtime.arrays import Floats, Rows
from ..runtime.processes import Processes, gathered, interleaved, share_of
from ..runtime.progress import progress_bar
from ..runtime.text import require_one_of
from ..segmentation.spans import Coverage, SegmentedDocument
from ..similarity.evidence import Evidence, Reference
from ..similarity.kinds import DocumentFeatures, maxsim_of_pairs, row_similarities, similarity_of
from .baselines import TfidfVectors
from .evaluator import Evaluator, measured_once
from .labels import ReadyDocument, plain_document, ready_documents
from .pair_scores import METRICS, Criterion, PairScores, best_threshold, score_pairs, standard_scores
from .resampling import RESAMPLES

KindOfDocument = TypeVar("KindOfDocument", bound=ReadyDocument)
SampledPair = tuple[int, PairDocument, PairDocument, SampledViews]

# Words of the longer document of a pair, from where a bucket begins.
LENGTHS = (500, 1000, 2000, 4000, 8000)


@dataclass(frozen=True, slots=True)
class ComparisonScores:
    """Scores of one similarity: on test pairs, validation pairs, and test pairs by length.

    Validation pairs are measured with the threshold that is best there, and all others with that one too; lengths are
    those of the longer document, such as ``500-999 words``.
    """

    test: PairScores
    validation: PairScores | None
    lengths: Mapping[str, PairScores]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON."""
        return {
            **self.test.to_dict(),
            "validation": self.validation and self.validation.to_dict(),
            "lengths": {name: scores.to_dict() for name, scores in self.lengths.items()},
        }

    def metrics(self) -> dict[str, float]:
        """All numbers in one flat table, for trackers."""
        return {f"pair_{name}": value for name, value in self.test.values.items() if value is not None}


class PairEvaluator(Evaluator):
    """Pairs of documents whose similarity is measured; every document is encoded once.

    Pairs are compared as the model compares two documents: by evidence where it has a reference, passage by passage,
    or by their vectors. Those whose similarity reaches a threshold are taken for similar. The threshold
    is the best one on the validation pairs. Without these it is the best one on the test pairs themselves, which makes
    precision, recall, F1 and accuracy upper bounds; AUC and average precision need none.

    Args:
        documents: the documents, segmented or not; those that occur in no pair are passed over.
        pairs: the test pairs, two ids and a label each. A pair of a document with itself is left out and counted, since
            any similarity finds it.
        validation: pairs that the threshold is chosen on.
        by: what the threshold is best for, ``f1`` or ``accuracy``.
        unknown: ``stop`` at a pair of which a document is not there, or ``leave_out`` such pairs and count them.
        lengths: words of the longer document of a pair where buckets begin, rising; none for no scores by length.
        resamples: number of bootstrap resamples for intervals; 0 for none.
        seed: draws the resamples.
        dtype: precision that the transformer computes in; None is that of its weights.
        primary_metric: name of the number by which models are ranked.

    Attributes:
        left_out: number of test and validation pairs left out: of ``unknown`` documents, ``with_themselves``.
        words: ``(test pairs,)``, words of the longer document.
    """

    def __init__(
        self,
        documents: ManyDocuments,
        pairs: Pairs | Sequence[tuple[str, str, int]],
        validation: Pairs | Sequence[tuple[str, str, int]] = (),
        *,
        by: Criterion = "f1",
        unknown: Unknown = "stop",
        lengths: Sequence[int] = LENGTHS,
        resamples: int = RESAMPLES,
        seed: int = 0,
        dtype: Precision | None = None,
        primary_metric: str = "pair_auc",
    ) -> None:
        require_one_of("primary_metric", primary_metric, [f"pair_{name}" for name in METRICS])
        self.by, self.resamples, self.seed = by, resamples, seed
        self.dtype, self.primary_metric = dtype, primary_metric
        self._lengths = tuple(lengths)
        parts = [Pairs.from_sequence(pairs), Pairs.from_sequence(validation)]
        known = documents_of_pairs(ready_documents(documents), *parts)
        self.left_out = {"unknown": 0, "with_themselves": 0}
        measured: list[Pairs] = []
        for part in parts:
            part.require_agreement()
            there = part.among(known, unknown)
            kept = there.select([number for number, pair in enumerate(there) if pair.a != pair.b])
            # There may be no validation pairs, but test pairs there have to be.
            if len(part) or not measured:
                require_both_labels(kept, len(part))
            self.left_out["unknown"] += len(part) - len(there)
            self.left_out["with_themselves"] += len(there) - len(kept)
            measured.append(kept)
        self.pairs, self.validation = measured
        ids = dict.fromkeys(id for pair in (*self.pairs, *self.validation) for id in (pair.a, pair.b))
        self.documents: Sequence[ReadyDocument] = [known[id] for id in ids]
        row_of = {id: row for row, id in enumerate(ids)}
        self._rows = np.array([(row_of[pair.a], row_of[pair.b]) for pair in (*self.pairs, *self.validation)], np.int64)
        self._matched = MatchedPairs(self.documents, self._rows)
        words = np.array([plain_document(document).words for document in self.documents])
        self.words = words[self._rows[: len(self.pairs)]].max(axis=1)

    @property
    def repeated_in_validation(self) -> int:
        """Number of test pairs that are validation pairs as well, in either order."""
        known = {pair.documents for pair in self.validation}
        return sum(pair.documents in known for pair in self.pairs)

    @property
    def labels(self) -> list[int]:
        """The label of every test pair."""
        return [pair.label for pair in self.pairs]

    def __call__(self, encoder: DocumentEncoder, processes: Processes | None = None) -> dict[str, float]:
        """``pair_auc``, ``pair_f1`` and the other metrics of the test pairs."""
        similarities = self.similarities(encoder, processes, show_progress_bar=False)
        return measured_once(processes, lambda: self.score(similarities, resamples=0).metrics())

    def similarities(
        self,
        encoder: DocumentEncoder,
        processes: Processes | None = None,
        *,
        by_vectors: bool = False,
        totals: Coverage | None = None,
        show_progress_bar: bool | None = None,
    ) -> Floats:
        """Compare the documents of test pairs, and behind them validation pairs, ``(pairs,)``.

        It is as the model compares two documents, views included; ``by_vectors`` leaves evidence out (for others see
        :meth:`Evaluator.encode`).
        """
        if encoder.model.config.matching is not None:
            return self._matched.scores(encoder, processes, dtype=self.dtype, show_progress_bar=show_progress_bar)
        if encoder.evidence is not None and not by_vectors:
            return self._by_evidence(encoder, encoder.evidence, processes, totals, show_progress_bar)
        kind = similarity_of(encoder.model.config.similarity)
        level: Any = "passage" if kind.reads_passages else "document"
        vectors = self.encode(encoder, processes, level=level, totals=totals, show_progress_bar=show_progress_bar)
        if kind.reads_passages:
            return maxsim_of_pairs(vectors, self._rows)
        a, b = np.concatenate(vectors)[self._rows.T]
        return row_similarities(a, b, kind.vector_similarity)

    def _by_evidence(
        self,
        encoder: DocumentEncoder,
        reference: Reference,
        processes: Processes | None,
        totals: Coverage | None,
        show_progress_bar: bool | None,
    ) -> Floats:
        language = str(encoder.model.config.language)

        def compute(documents: Sequence[ReadyDocument], coverage: Coverage) -> list[DocumentFeatures]:
            encoded = encoder.stream(documents, dtype=self.dtype, totals=coverage, show_progress_bar=show_progress_bar)
            return [
                DocumentFeatures(rows[0].numpy(), rows.numpy(), PassageTerms.from_segmented(one, language).totals())
                for one, rows in encoded
            ]

        features, kind = self.in_shares(compute, processes, totals), Evidence(reference)
        similarities = np.empty(len(self._rows))
        for row in np.unique(self._rows[:, 0]).tolist():
            places = np.flatnonzero(self._rows[:, 0] == row)
            others = [features[other] for other in self._rows[places, 1].tolist()]
            similarities[places] = kind.scores([features[row]], others)[0]
        return similarities

    def tfidf(self, encoder: DocumentEncoder | None = None) -> Floats:
        """Compare the same pairs by words of whole texts, or of the passages that an encoder reads: ``(pairs,)``."""
        if encoder is None:
            return TfidfVectors([plain_document(one).text for one in self.documents]).similarities(self._rows)
        ready = (one if isinstance(one, SegmentedDocument) else encoder.segment(one) for one in self.documents)
        return TfidfVectors(["\n".join(one.texts) for one in ready]).similarities(self._rows)

    def fused(self, *similarities: Floats) -> Floats:
        """The sum of the z-scores of several similarities, ``(pairs,)``.

        Means and deviations are those of the validation pairs, or of the test pairs where there are none.
        """
        reference = slice(len(self.pairs), None) if len(self.validation) else slice(None)
        return np.asarray(np.sum([standard_scores(part, part[reference]) for part in similarities], axis=0))

    def score(self, similarities: Floats, *, resamples: int | None = None) -> ComparisonScores:
        """Measure similarities of the test pairs, and behind them of the validation pairs, ``(pairs,)``."""
        labels, test = np.array(self.labels), similarities[: len(self.pairs)]
        options: Any = {"resamples": self.resamples if resamples is None else resamples, "seed": self.seed}
        validation = None
        if len(self.validation):
            truth, others = [pair.label for pair in self.validation], similarities[len(self.pairs) :]
            threshold = best_threshold(truth, others, self.by)
            validation = score_pairs(truth, others, threshold, **options)
        else:
            threshold = best_threshold(labels, test, self.by)
        buckets = {}
        for least, end in pairwise((0, *self._lengths, sys.maxsize)) if self._lengths else ():
            chosen = (self.words >= least) & (self.words < end)
            if chosen.any():
                name = f"{least:,} words and more" if end == sys.maxsize else f"{least:,}-{end - 1:,} words"
                name = name if least else f"up to {end - 1:,} words"
                buckets[name] = score_pairs(labels[chosen], test[chosen], threshold, **options)
        return ComparisonScores(score_pairs(labels, test, threshold, **options), validation, buckets)


def documents_of_pairs(documents: Iterable[KindOfDocument], *pairs: Pairs) -> dict[str, KindOfDocument]:
    """The documents that pairs name, by id; ids have to be unique."""
    wanted = {id for part in pairs for pair in part for id in (pair.a, pair.b)}
    result: dict[str, KindOfDocument] = {}
    for document in documents:
        id = plain_document(document).id
        if id in result:
            raise DocumentError(f"several documents have the id {id!r}, so that pairs do not say which is meant")
        if id in wanted:
            result[id] = document
    return result


def require_both_labels(pairs: Pairs, read: int | None = None) -> None:
    """Refuse pairs that all have the same label; ``read`` of them were read, where some cannot be used."""
    if len({pair.label for pair in pairs}) < 2:
        used = "" if read in (None, len(pairs)) else f" among the {len(pairs):,} of {read:,} pairs that can be used"
        raise EvaluationError(f"{pairs.name} do not have both labels, 0 and 1{used}")


class MatchedPairs:
    """Pairs, ``(pairs, 2)`` rows, whose views are sampled once for all models of the same views."""

    def __init__(self, documents: Sequence[ReadyDocument], rows: Rows) -> None:
        self._documents, self._rows = documents, rows
        self._sampled: tuple[object, list[SampledPair]] | None = None

    def scores(
        self,
        encoder: DocumentEncoder,
        processes: Processes | None = None,
        *,
        dtype: Precision | None = None,
        show_progress_bar: bool | None = None,
    ) -> Floats:
        """Match all pairs with a model that was trained on views, ``(pairs,)``; each process takes its share."""
        matcher = PairMatcher(encoder)
        rows = self._rows[share_of(processes)]
        scores = np.empty(len(rows))
        with progress_bar(show_progress_bar, len(rows), doing="Matching", unit="pairs") as bar:
            for place, of_views in matcher.view_scores(self._sample(matcher, encoder, rows), dtype):
                scores[place] = matcher.aggregate(of_views)
                bar.update(1)
        return np.array(interleaved(gathered(processes, scores.tolist())))

    def _sample(self, matcher: PairMatcher, encoder: DocumentEncoder, rows: Rows) -> Iterator[SampledPair]:
        """The pairs of this process with their views, sampled with the first model of such views."""
        sampled_by = encoder.model.config.views, encoder.tokenizer.get_vocab(), matcher.identity
        if self._sampled is not None and self._sampled[0] == sampled_by:
            yield from self._sampled[1]
            return
        wanted = np.unique(rows).tolist()
        plain = (plain_document(self._documents[row]) for row in wanted)
        # Workers end with an error, not when its traceback is forgotten.
        with closing(segment_in_order(plain, matcher.segmenter, Workers.on(encoder.device))) as cut:
            ready = dict(zip(wanted, matcher.documents(cut), strict=True))
        sampled: list[SampledPair] = []
        for place, (a, b) in enumerate(rows.tolist()):
            sampled.append((place, ready[a], ready[b], matcher.sample(ready[a], ready[b])))
            yield sampled[-1]
        self._sampled = (sampled_by, sampled)
