"""One set of documents, and everything that can be measured on it of one way to make vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.preprocessing import normalize

from ..documents.readers.pair_files import LabelledPair, Pairs
from ..encoder import DocumentEncoder
from ..errors import EvaluationError
from .baselines import fitted_vectors
from .clustering import ClusteringEvaluator
from .clustering_scores import require_clusters
from .judgements import Judgements
from .labels import LabelledDocuments, ReadyDocument, plain_document, require_labels
from .outcomes import Outcome, Resampling, cluster_outcomes, mean_outcome, neighbour_outcome, pair_outcome
from .pairs import PairEvaluator, require_both_labels
from .query_ranking import DEPTH, RankingEvaluator
from .ranking import require_measures, score_run
from .trec import Run, own_documents

SEEDS = 20
LABEL_MEASURES = ("NMI", "purity", "10-NN")
PAIR_AUC, RANDOM_AUC = "pair AUC", "random pair AUC"


@dataclass(frozen=True)
class MeasuredSet:
    """A set of documents with labels, pairs or judgements.

    Args:
        name: what to call it.
        train: documents for fitting.
        test: documents for testing.
        others: documents that only occur in pairs, or are ranked.
        labels: whether vectors are measured by the labels of train and test.
        without: measures of labels that are left out.
        pairs: pairs of documents.
        random_pairs: whether the positive pairs are also measured against random ones.
        judgements: queries and what answers them; every document is ranked.
        own_grade: grade of documents that queries were made of; None where there are none.
        measures: measures of rankings.
    """

    name: str
    train: Sequence[ReadyDocument]
    test: Sequence[ReadyDocument]
    others: Sequence[ReadyDocument] = ()
    labels: bool = False
    without: Sequence[str] = ()
    pairs: Pairs = field(default_factory=lambda: Pairs(()))
    random_pairs: bool = True
    judgements: Judgements | None = None
    own_grade: int | None = None
    measures: Sequence[str] = ("nDCG@10", "MAP")

    def __post_init__(self) -> None:
        if not (self.labels or self.pairs or self.judgements):
            raise EvaluationError(
                f"set {self.name!r} has neither labels nor pairs nor judgements, so that nothing can be measured; "
                "name pairs or judged, or a column of labels"
            )
        if self.labels:
            labels = [LabelledDocuments.of(part).labels for part in (self.train, self.test)]
            for found, part in zip(labels, ("train", "test"), strict=True):
                require_labels([name for (name,) in found], f"{self.name}, {part}")
            require_clusters(len(set(labels[0])), len(labels[0]))
        if self.pairs:
            require_both_labels(self.pairs)
        require_measures(self.measures)

    @property
    def documents(self) -> list[ReadyDocument]:
        """All documents, each once; an id in both parts means the test document."""
        found = {plain_document(one).id: one for one in (*self.others, *self.train, *self.test)}
        return list(found.values())

    def with_documents(self, ready: Mapping[str, ReadyDocument]) -> MeasuredSet:
        """The same set with its documents cut or encoded before.

        Args:
            ready: the documents by id.
        """

        def chosen(part: Sequence[ReadyDocument]) -> list[ReadyDocument]:
            # Ids that are in several parts stand for one of these documents alone.
            return [found if plain_document(found := ready[id]) is plain_document(one) else one
                    for one in part if (id := plain_document(one).id)]  # fmt: skip

        return replace(self, train=chosen(self.train), test=chosen(self.test), others=chosen(self.others))

    def all_pairs(self, seed: int) -> tuple[list[LabelledPair], int]:
        """The given pairs, and behind them as many random ones as are positive.

        A random pair is the first document of a positive pair with the second one of another, which it is in no
        positive pair with.

        Args:
            seed: draws them.

        Returns:
            The pairs; how many of them were given.
        """
        given = list(self.pairs)
        if not self.random_pairs:
            return given, len(given)
        positive = [pair for pair in given if pair.label]
        known = {pair.documents for pair in positive}
        draw = np.random.default_rng(seed)
        drawn = []
        for pair in positive:
            for place in draw.permutation(len(positive)):
                other = LabelledPair(pair.a, positive[place].b, 0)
                if other.a != other.b and other.documents not in known:
                    drawn.append(other)
                    break
        return given + drawn, len(given)


@dataclass(frozen=True, eq=False)
class Made:
    """What one way makes of a set.

    Args:
        train: vectors of train documents with a label, ``(train documents, hidden)``, dense or sparse; None without.
        test: those of test documents.
        similarities: ``(pairs,)``, of all pairs of :meth:`MeasuredSet.all_pairs`.
        run: rankings of the documents by query id; None without judgements.
    """

    train: Any = None
    test: Any = None
    similarities: npt.NDArray[np.float64] | None = None
    run: Run | None = None


class Way(ABC):
    """A way to make vectors of documents."""

    @abstractmethod
    def make(self, data: MeasuredSet, seed: int) -> Made:
        """Make all that is measured of a set.

        Args:
            data: the set.
            seed: draws random pairs.
        """


@dataclass(frozen=True)
class EncoderWay(Way):
    """Vectors and similarities of an encoder."""

    encoder: DocumentEncoder

    def make(self, data: MeasuredSet, seed: int) -> Made:
        """Encode all documents (see :meth:`Way.make`)."""
        train = test = similarities = run = None
        if data.labels:
            found = ClusteringEvaluator(data.train, data.test).vectors(self.encoder, show_progress=False)
            train, test = found.train, found.test
        if data.pairs:
            pairs, _ = data.all_pairs(seed)
            evaluator = PairEvaluator(data.documents, pairs, lengths=(), resamples=0)
            similarities = evaluator.similarities(self.encoder, show_progress=False).test
        if data.judgements is not None:
            judged = data.judgements
            own = None if data.own_grade is None else own_documents(judged.qrels, data.own_grade)
            run = RankingEvaluator(data.documents, judged.queries, judged.qrels, own=own).rank(self.encoder)
        return Made(train, test, similarities, run)


class WordWay(Way):
    """TF-IDF of whole texts, whose document frequencies are those of the set."""

    def make(self, data: MeasuredSet, seed: int) -> Made:
        """Count the words of all documents (see :meth:`Way.make`)."""
        documents = [plain_document(one) for one in data.documents]
        fitted = fitted_vectors([one.text for one in documents])
        if fitted is None:
            raise EvaluationError(f"set {data.name!r} has no words; leave it out")
        vectorizer, vectors = fitted
        row_of = {one.id: row for row, one in enumerate(documents)}
        train = test = similarities = run = None
        if data.labels:
            parts = [LabelledDocuments.of(part).documents for part in (data.train, data.test)]
            train, test = (vectors[[row_of[plain_document(one).id] for one in part]] for part in parts)
        if data.pairs:
            pairs, _ = data.all_pairs(seed)
            left, right = (vectors[[row_of[getattr(pair, side)] for pair in pairs]] for side in ("a", "b"))
            similarities = np.asarray(left.multiply(right).sum(axis=1), np.float64).ravel()
        if data.judgements is not None:
            judged = data.judgements
            own = {} if data.own_grade is None else own_documents(judged.qrels, data.own_grade)
            run = {}
            for query, text in judged.queries.items():
                scores = (vectors @ vectorizer.transform([text]).T).toarray().ravel()
                best = np.argsort(-scores, kind="stable")[:DEPTH]
                hits = {documents[place].id: float(scores[place]) for place in best.tolist() if scores[place] > 0}
                run[query] = {id: score for id, score in hits.items() if id not in own.get(query, ())}
        return Made(train, test, similarities, run)


def measure(data: MeasuredSet, made: Made, resampling: Resampling, seeds: int = SEEDS) -> dict[str, Outcome]:
    """Measure what a way made of a set.

    Args:
        data: the set.
        made: what was made of it.
        resampling: how documents, pairs and queries are resampled.
        seeds: seeds of k-means.

    Returns:
        ``NMI``, ``purity`` and ``10-NN`` (accuracy) with labels, ``pair AUC`` and ``random pair AUC`` with pairs, and
        measures of rankings with judgements.
    """
    found: dict[str, Outcome] = {}
    if data.labels:
        train_labels, test_labels = (
            [name for (name,) in LabelledDocuments.of(part).labels] for part in (data.train, data.test)
        )
        train, test = normalize(made.train), normalize(made.test)
        if not {"NMI", "purity"} <= set(data.without):
            clusters = len(set(train_labels))
            found |= cluster_outcomes(train, test, test_labels, clusters, range(seeds), resampling)
        if "10-NN" not in data.without:
            found["10-NN"] = neighbour_outcome(train, train_labels, test, test_labels, resampling)
        found = {name: outcome for name, outcome in found.items() if name not in data.without}
    if made.similarities is not None:
        pairs, given = data.all_pairs(resampling.seed)
        labels = np.array([pair.label for pair in pairs])
        found[PAIR_AUC] = pair_outcome(labels[:given].tolist(), made.similarities[:given], resampling)
        if given < len(pairs):
            rows = np.append(np.flatnonzero(labels[:given]), np.arange(given, len(pairs)))
            found[RANDOM_AUC] = pair_outcome(labels[rows].tolist(), made.similarities[rows], resampling)
    if made.run is not None and data.judgements is not None:
        own = None if data.own_grade is None else own_documents(data.judgements.qrels, data.own_grade)
        scores = score_run(made.run, data.judgements.qrels, data.measures, own=own)
        found |= {name: mean_outcome(scores.of(name), resampling) for name in scores.measures}
    return found
