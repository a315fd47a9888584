"""How well an encoder's similarity separates pairs of documents that belong together from others (CoLDE, 4.2)."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeVar, Unpack

import numpy as np
import numpy.typing as npt

from ..documents.readers.pair_files import LabelledPair, Pairs, Unknown
from ..encoder import DocumentEncoder
from ..errors import DocumentError, EvaluationError
from ..inference.precision import Precision
from ..inference.segmenting import Workers, segment_in_order
from ..matching.matcher import MANY_PAIRS, DrawnPair, PairDocument, PairMatcher, draw_in_order
from ..runtime.processes import Processes
from ..runtime.progress import progress_bar
from ..segmentation.spans import SegmentedDocument
from ..similarity.kinds import maxsim_of_pairs, row_cosines, similarity_of
from .baselines import TfidfVectors
from .evaluator import EncodeOptions, Evaluator, gathered, measured_once
from .labels import ReadyDocument, plain_document
from .pair_scores import Criterion, PairScores, best_threshold, score_pairs, standard_scores
from .resampling import RESAMPLES, Floats

AnyDocument = TypeVar("AnyDocument", bound=ReadyDocument)
Rows = npt.NDArray[np.int64]
Drawn = tuple[int, PairDocument, PairDocument, DrawnPair]

# Words of the longer document of a pair, from where a bucket begins.
LENGTHS = (500, 1000, 2000, 4000, 8000)


@dataclass(frozen=True, slots=True)
class PairSimilarities:
    """What an encoder, or another way to compare, gives for all pairs.

    Args:
        test: ``(test pairs,)``.
        validation: ``(validation pairs,)``.
    """

    test: Floats
    validation: Floats

    def fused_with(self, *others: PairSimilarities) -> PairSimilarities:
        """The sum of all z-scores, whose mean and deviation are those of the validation pairs, else of the test pairs.

        Args:
            *others: other ways to compare the same pairs.
        """
        test, validation = np.zeros(len(self.test)), np.zeros(len(self.validation))
        for part in (self, *others):
            reference = part.validation if len(part.validation) else part.test
            test += standard_scores(part.test, reference)
            validation += standard_scores(part.validation, reference)
        return PairSimilarities(test, validation)


@dataclass(frozen=True, slots=True)
class LengthScores:
    """The scores of the pairs whose longer document has so many words.

    Args:
        least: fewest words.
        most: most words; None where there is no limit.
        scores: the scores, with the threshold of all pairs.
    """

    least: int
    most: int | None
    scores: PairScores

    @property
    def name(self) -> str:
        """The bucket in words, such as ``500-999 words``."""
        if self.most is None:
            return f"{self.least:,} words and more"
        return f"{self.least:,}-{self.most:,} words" if self.least else f"up to {self.most:,} words"

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON."""
        return {"least_words": self.least, "most_words": self.most, **self.scores.to_dict()}


@dataclass(frozen=True, slots=True)
class ComparisonScores:
    """What was measured of one way to compare.

    Args:
        test: the scores of the test pairs.
        validation: the scores of the validation pairs with the threshold that is best there; None without them.
        lengths: the scores by length.
    """

    test: PairScores
    validation: PairScores | None
    lengths: tuple[LengthScores, ...]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON."""
        return {
            **self.test.to_dict(),
            "validation": self.validation and self.validation.to_dict(),
            "lengths": [bucket.to_dict() for bucket in self.lengths],
        }

    def metrics(self) -> dict[str, float]:
        """What was measured as one flat table, as trackers take it."""
        return {f"pair_{name}": value for name, value in self.test.values.items() if value is not None}


class PairEvaluator(Evaluator):
    """Pairs of documents whose similarity is measured; every document is encoded once.

    Pairs are compared by the cosine of their vectors, or passage by passage where the model does so. Those whose
    similarity reaches a threshold are taken for similar. The threshold is the best one on the validation pairs.
    Without these it is the best one on the test pairs themselves, which makes precision, recall, F1 and accuracy upper
    bounds; AUC and average precision need none.

    Args:
        documents: the documents, segmented or not; those that occur in no pair are passed over.
        pairs: the test pairs. A pair of a document with itself is left out and counted, since any similarity finds it.
        validation: pairs that the threshold is chosen on.
        by: what the threshold is best for, ``f1`` or ``accuracy``.
        unknown: ``stop`` at a pair of which a document is not there, or ``leave_out`` such pairs and count them.
        lengths: words of the longer document of a pair where buckets begin, rising; none for no scores by length.
        resamples: number of bootstrap resamples for intervals; 0 for none.
        seed: draws the resamples.
        dtype: precision that the transformer computes in; None is that of its weights.
        best: name of the number by which models are ranked.

    Attributes:
        pairs: the test pairs that are measured.
        validation: the validation pairs that are measured.
        left_out: number of test and validation pairs left out: of ``unknown`` documents, ``with_themselves``.
        documents: the documents that occur in pairs.
        words: ``(test pairs,)``, words of the longer document.

    Raises:
        DocumentError: a document of a pair is not there or there twice, or pairs contradict each other.
        EvaluationError: test or validation pairs do not have both labels.
    """

    task = "compare"

    def __init__(
        self,
        documents: Iterable[ReadyDocument],
        pairs: Pairs | Sequence[LabelledPair],
        validation: Pairs | Sequence[LabelledPair] = (),
        *,
        by: Criterion = "f1",
        unknown: Unknown = "stop",
        lengths: Sequence[int] = LENGTHS,
        resamples: int = RESAMPLES,
        seed: int = 0,
        dtype: Precision | None = None,
        best: str = "pair_auc",
    ) -> None:
        self.by, self.resamples, self.seed, self.dtype, self.best = by, resamples, seed, dtype, best
        self._lengths = tuple(lengths)
        given = [Pairs.of(pairs), Pairs.of(validation)]
        known = documents_of_pairs(documents, *given)
        self.left_out = {"unknown": 0, "with_themselves": 0}
        self.pairs, self.validation = (self._measured(part, known, unknown) for part in given)
        require_both_labels(self.pairs, len(given[0]))
        if len(given[1]):
            require_both_labels(self.validation, len(given[1]))
        ids = dict.fromkeys(id for part in (self.pairs, self.validation) for pair in part for id in (pair.a, pair.b))
        self.documents: Sequence[ReadyDocument] = [known[id] for id in ids]
        row_of = {id: row for row, id in enumerate(ids)}
        # Test pairs, and behind them validation pairs.
        self._rows = np.array([(row_of[pair.a], row_of[pair.b]) for pair in (*self.pairs, *self.validation)], np.int64)
        self._matched = MatchedPairs(self.documents, self._rows)
        words = np.array([plain_document(document).words for document in self.documents])
        self.words = words[self._rows[: len(self.pairs)]].max(axis=1)

    def _measured(self, pairs: Pairs, known: dict[str, ReadyDocument], unknown: Unknown) -> Pairs:
        pairs.require_agreement()
        there = pairs.among(known, unknown)
        kept = there.chosen([number for number, pair in enumerate(there) if pair.a != pair.b])
        self.left_out["unknown"] += len(pairs) - len(there)
        self.left_out["with_themselves"] += len(there) - len(kept)
        return kept

    @property
    def shared(self) -> int:
        """Number of test pairs that are validation pairs as well, in either order."""
        known = {pair.documents for pair in self.validation}
        return sum(pair.documents in known for pair in self.pairs)

    @property
    def labels(self) -> list[int]:
        """The label of every test pair."""
        return [pair.label for pair in self.pairs]

    def __call__(self, encoder: DocumentEncoder, processes: Processes | None = None) -> dict[str, float]:
        """Measure an encoder (see :meth:`Evaluator.__call__`).

        Returns:
            ``pair_precision``, ``pair_recall``, ``pair_f1``, ``pair_accuracy``, ``pair_auc`` and
            ``pair_average_precision`` of the test pairs.
        """
        similarities = self.similarities(encoder, processes, show_progress=False)
        return measured_once(processes, lambda: self.score(similarities, resamples=0).metrics())

    def similarities(
        self, encoder: DocumentEncoder, processes: Processes | None = None, **options: Unpack[EncodeOptions]
    ) -> PairSimilarities:
        """Encode all documents, each once, and compare those of pairs by cosine (see :meth:`Evaluator.encode`).

        A model that compares passages, or that was trained on views, gives scores of its own.
        """
        if encoder.model.config.matching is not None:
            show_progress = options.get("show_progress")
            return self._split(self._matched.scores(encoder, processes, dtype=self.dtype, show_progress=show_progress))
        if similarity_of(encoder.model.config.similarity).reads_passages:
            passages = self.encode_passages(encoder, processes, **options)
            return self._split(maxsim_of_pairs(passages, self._rows))
        vectors = self.encode(encoder, processes, **options)
        return self._split(row_cosines(vectors[self._rows[:, 0]], vectors[self._rows[:, 1]]))

    def tfidf(self) -> PairSimilarities:
        """Compare the whole texts of every pair by the words they share."""
        texts = [plain_document(document).text for document in self.documents]
        return self._split(TfidfVectors(texts).similarities(self._rows))

    def passage_words(self, encoder: DocumentEncoder) -> PairSimilarities:
        """Compare every pair by the words of the passages that an encoder reads."""
        segmented = (
            document if isinstance(document, SegmentedDocument) else encoder.segmenter.segment(document)
            for document in self.documents
        )
        texts = ["\n".join(document.texts) for document in segmented]
        return self._split(TfidfVectors(texts).similarities(self._rows))

    def _split(self, similarities: Floats) -> PairSimilarities:
        """Similarities of the test pairs, and behind them those of the validation pairs."""
        return PairSimilarities(similarities[: len(self.pairs)], similarities[len(self.pairs) :])

    def score(self, similarities: PairSimilarities, *, resamples: int | None = None) -> ComparisonScores:
        """Measure similarities.

        Args:
            similarities: what :meth:`similarities` or :meth:`tfidf` gave, or another way to compare.
            resamples: number of bootstrap resamples; None for that of the evaluator.

        Raises:
            EvaluationError: they are not of these pairs.
        """
        if (len(similarities.test), len(similarities.validation)) != (len(self.pairs), len(self.validation)):
            raise EvaluationError(
                f"there are {len(similarities.test):,} and {len(similarities.validation):,} similarities for "
                f"{len(self.pairs):,} test and {len(self.validation):,} validation pairs"
            )
        labels, validation_labels = np.array(self.labels), [pair.label for pair in self.validation]
        options = {"resamples": self.resamples if resamples is None else resamples, "seed": self.seed}
        validation = None
        if validation_labels:
            threshold = best_threshold(validation_labels, similarities.validation, self.by)
            validation = score_pairs(validation_labels, similarities.validation, threshold, **options)
        else:
            threshold = best_threshold(self.labels, similarities.test, self.by)
        buckets = []
        for least, after in zip((0, *self._lengths), (*self._lengths, None), strict=True):
            chosen = (self.words >= least) & (self.words < (after or np.inf))
            if self._lengths and chosen.any():
                scores = score_pairs(labels[chosen].tolist(), similarities.test[chosen], threshold, **options)
                buckets.append(LengthScores(least, after and after - 1, scores))
        test = score_pairs(self.labels, similarities.test, threshold, **options)
        return ComparisonScores(test, validation, tuple(buckets))


def documents_of_pairs(documents: Iterable[AnyDocument], *pairs: Pairs) -> dict[str, AnyDocument]:
    """The documents that pairs name, by id.

    Args:
        documents: these and others, segmented or not.
        *pairs: the pairs.

    Raises:
        DocumentError: two of them have one id.
    """
    wanted = {id for part in pairs for pair in part for id in (pair.a, pair.b)}
    found: dict[str, AnyDocument] = {}
    for document in documents:
        id = plain_document(document).id
        if id in found:
            raise DocumentError(f"several documents have the id {id!r}, so that pairs do not say which is meant")
        if id in wanted:
            found[id] = document
    return found


def require_both_labels(pairs: Pairs, read: int | None = None) -> None:
    """Refuse pairs that all have the same label.

    Args:
        pairs: the pairs that are used.
        read: number of pairs that were read, where some of them cannot be used.

    Raises:
        EvaluationError: not both labels occur.
    """
    if len({pair.label for pair in pairs}) < 2:
        used = "" if read in (None, len(pairs)) else f" among the {len(pairs):,} of {read:,} pairs that can be used"
        raise EvaluationError(f"{pairs.name} do not have both labels, 0 and 1{used}")


class MatchedPairs:
    """Pairs whose views are drawn once, however many models of the same views are measured on them.

    Args:
        documents: the documents, segmented or not.
        rows: ``(pairs, 2)``, rows of both documents of every pair.
    """

    def __init__(self, documents: Sequence[ReadyDocument], rows: Rows) -> None:
        self._documents, self._rows = documents, rows
        self._drawn: tuple[object, list[Drawn]] | None = None

    def scores(
        self,
        encoder: DocumentEncoder,
        processes: Processes | None = None,
        *,
        dtype: Precision | None = None,
        show_progress: bool | None = None,
    ) -> Floats:
        """Match all pairs; each process takes its share.

        Args:
            encoder: the encoder; its model was trained on views.
            processes: the processes that share the work; None for this one alone.
            dtype: precision that the transformer computes in; None is that of its weights.
            show_progress: show a bar in pairs; None shows it on a terminal when the work is long.

        Returns:
            ``(pairs,)``, in every process.
        """
        matcher = PairMatcher(encoder)
        rank, count = (processes.rank, processes.count) if processes is not None else (0, 1)
        share = range(rank, len(self._rows), count)
        scores = np.empty(len(share))
        with (
            progress_bar(show_progress, len(share), doing="Matching", unit="pairs") as bar,
            closing(self._draw(matcher, encoder, share)) as drawn,
        ):
            for place, of_views in matcher.view_scores(drawn, dtype):
                scores[place] = matcher.aggregate(of_views)
                bar.update(1)
        result = np.empty(len(self._rows))
        for number, part in enumerate(gathered(processes, scores)):
            result[number::count] = part
        return result

    def _draw(self, matcher: PairMatcher, encoder: DocumentEncoder, share: range) -> Generator[Drawn]:
        """The pairs of this process with their views, drawn with the first model of such views."""
        drawn_by = encoder.model.config.views, encoder.tokenizer.get_vocab(), matcher.identity
        if self._drawn is not None and self._drawn[0] == drawn_by:
            yield from self._drawn[1]
            return
        rows = self._rows[share.start :: share.step]
        wanted = np.unique(rows).tolist()
        plain = (plain_document(self._documents[row]) for row in wanted)
        # Workers end with an error, not when its traceback is forgotten.
        with closing(segment_in_order(plain, matcher.segmenter, Workers.on(encoder.device))) as cut:
            ready = dict(zip(wanted, matcher.documents(cut), strict=True))
        pairs = ((place, ready[first], ready[second]) for place, (first, second) in enumerate(rows.tolist()))
        drawn: list[Drawn] = []
        with closing(draw_in_order(matcher, pairs, Workers.on(encoder.device, after=MANY_PAIRS))) as ahead:
            for pair in ahead:
                drawn.append(pair)
                yield pair
        self._drawn = (drawn_by, drawn)
