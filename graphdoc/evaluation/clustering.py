"""Measures of vectors beside labels: k-means (Graph-RoBERTa, table 1), nearest neighbours and a linear probe."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score, log_loss
from sklearn.metrics.cluster import contingency_matrix
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler, normalize

from ..encoder import DocumentEncoder
from ..errors import EvaluationError
from ..inference.precision import Precision
from ..inference.segmenting import ManyDocuments
from ..runtime.arrays import Floats, Vectors
from ..runtime.processes import Processes
from ..runtime.text import require_one_of
from ..segmentation.spans import Coverage
from ..similarity.kinds import similarity_of
from .evaluator import Evaluator, measured_once
from .labels import HELD_OUT, LabelledDocuments, ReadyDocument, first_three_names, held_out_rows, require_labels
from .resampling import RESAMPLES, Estimate, mean_estimate, resampled

STARTS = 10
NEIGHBOURS = 10
# Inverse regularizations that a linear probe tries.
STRENGTHS = (0.001, 0.01, 0.1, 1.0)
MOST_STEPS = 500
METRICS = ("nmi", "nmi_std", "purity", "purity_std", "probe_accuracy", "probe_macro_f1")


class ProbeScores(NamedTuple):
    """Scores of a linear classifier on frozen vectors, on test documents."""

    accuracy: float
    macro_f1: float
    strength: float
    """the inverse regularization C that was best on the held-out part of train"""


@dataclass(frozen=True, slots=True)
class ClusteringScores:
    """Measures of vectors beside labels: clusters over several seeds of k-means, and a linear probe if asked for.

    Args:
        nmi: ``(seeds,)``, normalized mutual information, divided by the arithmetic mean of both entropies.
        purity: ``(seeds,)``, share of documents that have the most frequent label of their cluster.
        clusters: number of clusters.
        seeds: the seeds.
        cells: ``(seeds, documents)``, number of the label of a document times ``clusters``, plus its cluster.
        probe: the linear probe; None where none was fitted.
    """

    nmi: tuple[float, ...]
    purity: tuple[float, ...]
    clusters: int
    seeds: tuple[int, ...]
    cells: npt.NDArray[np.int64] = field(repr=False, compare=False)
    probe: ProbeScores | None = None

    def estimates(self, resamples: int = RESAMPLES, seed: int = 0) -> dict[str, Estimate]:
        """NMI and purity, means over seeds, with resamples of the documents; the clusters stay."""
        draws = resampled(self.cells.shape[1], resamples, seed)
        samples = np.array([_agreement(self.cells, self.clusters, counts).mean(axis=1) for counts in draws])
        nmi, pure = samples.reshape(-1, 2).T
        return {"NMI": Estimate(_spread(self.nmi)[0], nmi), "purity": Estimate(_spread(self.purity)[0], pure)}

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON; a probe that was not fitted is None."""
        spreads = {name: (*_spread(values), values) for name, values in (("nmi", self.nmi), ("purity", self.purity))}
        return {
            **{name: dict(zip(("mean", "std", "values"), parts, strict=True)) for name, parts in spreads.items()},
            "clusters": self.clusters,
            "seeds": list(self.seeds),
            "probe": self.probe and self.probe._asdict(),
        }

    def metrics(self) -> dict[str, float]:
        """Means, and standard deviations of the sample, as one flat table, as trackers take it."""
        probed = () if self.probe is None else (self.probe.accuracy, self.probe.macro_f1)
        return dict(zip(METRICS, (*_spread(self.nmi), *_spread(self.purity), *probed), strict=False))


def _spread(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation of the sample; 0 for a single value."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def _agreement(cells: npt.NDArray[np.int64], clusters: int, weights: npt.NDArray[np.int64] | None = None) -> Floats:
    """NMI and purity of every seed, ``(2, seeds)``, where every document counts as often as its weight says."""
    labels = int(cells.max()) // clusters + 1
    tables = np.stack([np.bincount(one, weights, labels * clusters).reshape(labels, clusters) for one in cells])
    return np.stack([mutual_information(tables), tables.max(axis=1).sum(axis=1) / cells.shape[1]])


def mutual_information(tables: npt.NDArray[Any]) -> Floats:
    """Normalized mutual information of labels and clusters, divided by the arithmetic mean of both entropies.

    It is 1 where all documents have one label and one cluster; tables of counts are ``(..., labels, clusters)``.
    """
    shares = tables / tables.sum(axis=(-2, -1), keepdims=True)
    total = _entropy(shares.sum(axis=-1)) + _entropy(shares.sum(axis=-2))
    both = _entropy(shares.reshape(*shares.shape[:-2], -1))
    return np.where(total > 0, np.clip(2 * (total - both) / np.where(total > 0, total, 1.0), 0, 1), 1.0)


def _entropy(shares: npt.NDArray[Any]) -> Floats:
    return np.asarray(-(shares * np.log(np.where(shares > 0, shares, 1.0))).sum(axis=-1))


def purity(truth: Sequence[Any] | npt.NDArray[Any], clusters: Sequence[Any] | npt.NDArray[Any]) -> float:
    """Share of documents that have the most frequent label of their cluster, of ``(documents,)`` each.

    >>> purity(["sea", "sea", "land"], [0, 0, 0])
    0.6666666666666666
    """
    return float(contingency_matrix(truth, clusters).max(axis=0).sum() / len(truth))


def cluster(
    train_vectors: Any,
    test_vectors: Any,
    test_labels: Sequence[Any],
    clusters: int,
    seeds: Sequence[int] = range(5),
    *,
    starts: int = STARTS,
) -> ClusteringScores:
    """Fit k-means on train vectors and measure its clusters on test vectors, once per seed.

    K-means goes by Euclidean distance, so vectors of a model that compares by cosine are to be L2-normalized first, as
    :class:`ClusteringEvaluator` does.

    Args:
        train_vectors: ``(train documents, hidden)``, dense or sparse.
        test_vectors: ``(test documents, hidden)``.
        test_labels: ``(test documents,)``.
        clusters: number of clusters, usually that of the labels.
        seeds: seeds of k-means, at least one.
        starts: starts of a seed, of which the best by k-means' own criterion is taken.

    >>> near, far = np.zeros((4, 2)), np.ones((4, 2))
    >>> vectors = np.concatenate([near, far]) + np.arange(16).reshape(8, 2) / 100
    >>> cluster(vectors, vectors, ["a"] * 4 + ["b"] * 4, clusters=2, seeds=[0]).nmi
    (1.0,)
    """
    if not 1 <= clusters <= train_vectors.shape[0]:
        raise EvaluationError(f"k-means cannot make {clusters} clusters of {train_vectors.shape[0]} train documents")
    require_labels(test_labels, "test")
    _, truth = np.unique(np.asarray(test_labels), return_inverse=True)
    cells = []
    for seed in seeds:
        with warnings.catch_warnings():
            # Vectors that fell together in training give fewer clusters; their scores show it.
            warnings.simplefilter("ignore", UserWarning)
            fitted = KMeans(clusters, n_init=starts, random_state=seed).fit(train_vectors)
            cells.append(truth * clusters + fitted.predict(test_vectors))
    nmi, pure = _agreement(np.array(cells), clusters).tolist()
    return ClusteringScores(tuple(nmi), tuple(pure), clusters, tuple(seeds), np.array(cells))


def nearest_labels(
    train_vectors: Any, train_labels: Sequence[str], test_vectors: Any, neighbours: int = NEIGHBOURS
) -> list[str]:
    """The most frequent label among the nearest train documents, by cosine, of every test document.

    Of labels that are as frequent, that of the nearer documents is taken (the sum of their cosines). Vectors are
    ``(documents, hidden)``, dense or sparse.
    """
    names, truth = np.unique(np.asarray(train_labels), return_inverse=True)
    finder = NearestNeighbors(n_neighbors=min(neighbours, len(truth)), metric="cosine").fit(train_vectors)
    nearest = []
    for distances, places in zip(*finder.kneighbors(test_vectors), strict=True):
        votes = np.bincount(truth[places], minlength=len(names))
        nearness = np.bincount(truth[places], 1 - distances, len(names))
        nearest.append(str(names[np.lexsort((nearness, votes))[-1]]))
    return nearest


def linear_probe(
    train_vectors: npt.NDArray[Any],
    train_labels: Sequence[str],
    test_vectors: npt.NDArray[Any],
    test_labels: Sequence[str],
    seed: int = 0,
) -> ProbeScores:
    """Fit logistic regression on train vectors and measure it on test vectors.

    Every dimension is scaled to mean 0 and variance 1 over train. C is chosen on a fifth of every label's train
    documents, by accuracy, ties by cross entropy; then the classifier is fitted on all of them. If the fifth has fewer
    than two labels, C is 1.

    Vectors are ``(documents, hidden)``, labels ``(documents,)``; the seed draws the held-out part.

    >>> vectors = np.arange(40.0).reshape(20, 2)
    >>> labels = ["low"] * 10 + ["high"] * 10
    >>> linear_probe(vectors, labels, vectors, labels).accuracy
    1.0
    """
    require_labels(train_labels, "train")
    _require_known(test_labels, train_labels)
    truth = np.asarray(train_labels)
    held_out = held_out_rows(train_labels, HELD_OUT, seed)
    strength = 1.0
    if len(np.unique(truth[held_out])) > 1:
        tried = []
        for c in STRENGTHS:
            probe = _fitted_probe(train_vectors[~held_out], truth[~held_out], c)
            probabilities = probe.predict_proba(train_vectors[held_out])
            accuracy = float((probe.classes_[probabilities.argmax(axis=1)] == truth[held_out]).mean())
            tried.append((accuracy, -log_loss(truth[held_out], probabilities, labels=probe.classes_), c))
        strength = max(tried)[-1]
    predicted = _fitted_probe(train_vectors, truth, strength).predict(test_vectors)
    macro_f1 = f1_score(test_labels, predicted, average="macro", zero_division=0.0)
    return ProbeScores(float(accuracy_score(test_labels, predicted)), float(macro_f1), strength)


def _fitted_probe(vectors: npt.NDArray[Any], labels: npt.NDArray[Any], strength: float) -> Pipeline:
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=MOST_STEPS))
    with warnings.catch_warnings():
        # A C that has not converged is one of several, judged as it is.
        warnings.simplefilter("ignore", UserWarning)
        return pipeline.fit(vectors, labels)


def _require_known(test_labels: Sequence[str], train_labels: Sequence[str]) -> None:
    if unknown := sorted(set(test_labels) - set(train_labels)):
        raise EvaluationError(
            f"test documents have labels that no train document has ({first_three_names(unknown)}); "
            "leave them out, or do without the linear probe"
        )


class ClusteringEvaluator(Evaluator):
    """Labelled documents whose vectors are clustered, and read by a linear probe if asked for.

    Args:
        train: documents that k-means and the probe are fitted on, segmented or not.
        test: documents that are measured. Documents without a label, or with several, are left out and counted.
        seeds: seeds of k-means, which makes as many clusters as train has labels.
        starts: starts of k-means for each seed.
        probe: whether to fit a linear probe.
        normalize: whether vectors are L2-normalized before anything is measured; None does so for models that compare
            by cosine, to which length means nothing.
        dtype: precision that the transformer computes in; None is that of its weights.
        primary_metric: name of the number by which models are ranked.
    """

    def __init__(
        self,
        train: ManyDocuments,
        test: ManyDocuments,
        *,
        seeds: Sequence[int] = range(3),
        starts: int = STARTS,
        probe: bool = False,
        normalize: bool | None = None,
        dtype: Precision | None = None,
        primary_metric: str = "nmi",
    ) -> None:
        require_one_of("primary_metric", primary_metric, METRICS if probe else METRICS[:4])
        parts = {"train": LabelledDocuments.from_documents(train), "test": LabelledDocuments.from_documents(test)}
        self.left_out = {name: part.left_out for name, part in parts.items()}
        self.train_labels, self.test_labels = (part.single_labels for part in parts.values())
        require_labels(self.train_labels, "train")
        require_labels(self.test_labels, "test")
        if probe:
            _require_known(self.test_labels, self.train_labels)
        self.clusters = len(set(self.train_labels))
        self.seeds, self.starts, self.probe, self.normalize = tuple(seeds), starts, probe, normalize
        self.dtype, self.primary_metric = dtype, primary_metric
        self.documents: Sequence[ReadyDocument] = [*parts["train"].documents, *parts["test"].documents]

    def __call__(self, encoder: DocumentEncoder, processes: Processes | None = None) -> dict[str, float]:
        """``nmi``, ``nmi_std``, ``purity``, ``purity_std``; with a probe ``probe_accuracy``, ``probe_macro_f1``."""
        train, test = self.vectors(encoder, processes, show_progress_bar=False)
        return measured_once(processes, lambda: self.score(train, test).metrics())

    def vectors(
        self,
        encoder: DocumentEncoder,
        processes: Processes | None = None,
        *,
        totals: Coverage | None = None,
        show_progress_bar: bool | None = None,
    ) -> tuple[Vectors, Vectors]:
        """Encode all documents (see :meth:`Evaluator.encode`): ``(documents, hidden)`` of train and of test."""
        vectors = np.concatenate(self.encode(encoder, processes, totals=totals, show_progress_bar=show_progress_bar))
        by_cosine = similarity_of(encoder.model.config.similarity).vector_similarity == "cosine"
        if by_cosine if self.normalize is None else self.normalize:
            vectors = normalize(vectors)
        return vectors[: len(self.train_labels)], vectors[len(self.train_labels) :]

    def score(self, train: Any, test: Any) -> ClusteringScores:
        """Measure vectors of train and test documents, ``(documents, hidden)`` each, such as :meth:`vectors` gives."""
        scores = cluster(train, test, self.test_labels, self.clusters, self.seeds, starts=self.starts)
        if not self.probe:
            return scores
        return replace(scores, probe=linear_probe(train, self.train_labels, test, self.test_labels))

    def estimates(
        self, train: Any, test: Any, *, without: Collection[str] = (), resamples: int = RESAMPLES, seed: int = 0
    ) -> dict[str, Estimate]:
        """``NMI`` and ``purity``, means over seeds, and ``10-NN`` (accuracy), with resamples of the test documents.

        Vectors are ``(documents, hidden)``, dense or sparse; those of ``without`` are left out.
        """
        estimates = {} if {"NMI", "purity"} <= set(without) else self.score(train, test).estimates(resamples, seed)
        if "10-NN" not in without:
            nearest = np.array(nearest_labels(train, self.train_labels, test))
            estimates["10-NN"] = mean_estimate(nearest == np.array(self.test_labels), resamples, seed)
        return {name: estimate for name, estimate in estimates.items() if name not in without}
