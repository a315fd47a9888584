"""How well document vectors find labels: by k-means, and by a linear probe and in pairs if asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt
from sklearn.preprocessing import normalize as unit_length

from ..documents.readers.pair_files import LabelledPair, Pairs, Unknown
from ..encoder import DocumentEncoder
from ..inference.precision import Precision
from ..runtime.processes import Processes
from ..similarity.cosine import row_cosines
from .clustering_scores import ClusteringScores, cluster, require_clusters
from .evaluator import Evaluator, Vectors, WorkOptions, measured_once
from .labels import LabelledDocuments, ReadyDocument, plain_document, require_known, require_labels
from .linear_probe import ProbeScores, linear_probe
from .pair_scores import pair_auc
from .pairs import require_both_labels


@dataclass(frozen=True, slots=True)
class LabelledVectors:
    """Vectors of train and test documents with their labels.

    Args:
        train: ``(train documents, hidden)``.
        train_labels: ``(train documents,)``.
        test: ``(test documents, hidden)``.
        test_labels: ``(test documents,)``.
        pairs: ``(pairs,)``, cosines of the pairs.
    """

    train: Vectors
    train_labels: tuple[str, ...]
    test: Vectors
    test_labels: tuple[str, ...]
    pairs: npt.NDArray[np.float64]

    def same_as(self, other: LabelledVectors) -> bool:
        """Whether two encoders gave the same vectors."""
        return all(_agree(getattr(self, part), getattr(other, part)) for part in ("train", "test", "pairs"))


@dataclass(frozen=True, slots=True)
class VectorScores:
    """What was measured of one encoder.

    Args:
        clustering: k-means on train, applied to test.
        probe: the linear probe, if asked for.
        pair_auc: area under the ROC curve on pairs, if there are any.
    """

    clustering: ClusteringScores
    probe: ProbeScores | None = None
    pair_auc: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON; what was not measured is None."""
        return {
            **self.clustering.to_dict(),
            "probe": self.probe and self.probe.to_dict(),
            "pair_auc": self.pair_auc,
        }

    def metrics(self) -> dict[str, float]:
        """What was measured as one flat table, as trackers take it."""
        result = {
            "nmi": self.clustering.nmi.mean,
            "nmi_std": self.clustering.nmi.std,
            "purity": self.clustering.purity.mean,
            "purity_std": self.clustering.purity.std,
        }
        if self.probe is not None:
            result |= {"probe_accuracy": self.probe.accuracy, "probe_macro_f1": self.probe.macro_f1}
        if self.pair_auc is not None:
            result["pair_auc"] = self.pair_auc
        return result


def _agree(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> bool:
    return left.shape == right.shape and np.allclose(left, right, rtol=0, atol=1e-6)


class ClusteringEvaluator(Evaluator):
    """Labelled documents whose vectors are clustered, and read by a linear probe and compared in pairs if asked for.

    Args:
        train: documents that k-means and the probe are fitted on, segmented or not.
        test: documents that are measured. Documents without a label, or with several, are left out and counted.
        others: documents that only occur in pairs.
        clusters: number of clusters; None takes the number of labels in train.
        seeds: seeds of k-means.
        probe: whether to fit a linear probe.
        pairs: pairs of documents that belong together or not; an id in both parts means the test document.
        unknown: ``stop`` at a pair of which a document is not there, or ``leave_out`` such pairs and count them.
        normalize: whether vectors are brought to unit length before anything is measured; None does so for models
            that compare by cosine, to which length means nothing.
        dtype: precision that the transformer computes in; None is that of its weights.
        best: name of the number by which models are ranked.

    Raises:
        DocumentError: a document of a pair is not there.
        EvaluationError: there are too few labels, documents or pairs to measure anything.
    """

    task = "cluster"

    def __init__(
        self,
        train: Sequence[ReadyDocument],
        test: Sequence[ReadyDocument],
        *,
        others: Sequence[ReadyDocument] = (),
        clusters: int | None = None,
        seeds: Sequence[int] = range(3),
        probe: bool = False,
        pairs: Pairs | Sequence[LabelledPair] = (),
        unknown: Unknown = "stop",
        normalize: bool | None = None,
        dtype: Precision | None = None,
        best: str = "nmi",
    ) -> None:
        parts = {"train": LabelledDocuments.of(train), "test": LabelledDocuments.of(test)}
        self.left_out = {name: part.left_out for name, part in parts.items()}
        self.train_labels, self.test_labels = (tuple(name for (name,) in part.labels) for part in parts.values())
        require_labels(self.train_labels, "train")
        require_labels(self.test_labels, "test")
        self.clusters = len(set(self.train_labels)) if clusters is None else clusters
        require_clusters(self.clusters, len(self.train_labels))
        if probe:
            require_known(self.test_labels, self.train_labels)
        self.seeds, self.probe, self.normalize = tuple(seeds), probe, normalize
        self.dtype, self.best = dtype, best
        labelled = [document for part in parts.values() for document in part.documents]
        known = {plain_document(document).id: document for document in (*others, *train, *test)}
        given = Pairs.of(pairs)
        self.pairs = given.among(known, unknown)
        if given:
            require_both_labels(self.pairs, len(given))
        # Labelled documents are encoded anyway; of the rest only those that pairs ask for.
        row_of = {plain_document(document).id: row for row, document in enumerate(labelled)}
        for id in dict.fromkeys(id for pair in self.pairs for id in (pair.a, pair.b)):
            if row_of.setdefault(id, len(labelled)) == len(labelled):
                labelled.append(known[id])
        self.documents: Sequence[ReadyDocument] = labelled
        self._rows_of_pairs = np.array([(row_of[pair.a], row_of[pair.b]) for pair in self.pairs], int).reshape(-1, 2)

    def __call__(self, encoder: DocumentEncoder, processes: Processes | None = None) -> dict[str, float]:
        """Measure an encoder (see :meth:`Evaluator.__call__`).

        Returns:
            ``nmi``, ``nmi_std``, ``purity``, ``purity_std``; with a probe ``probe_accuracy`` and ``probe_macro_f1``;
            with pairs ``pair_auc``.
        """
        vectors = self.vectors(encoder, processes, show_progress=False)
        return measured_once(processes, lambda: self.score(vectors).metrics())

    def normalizes(self, encoder: DocumentEncoder) -> bool:
        """Whether the vectors of an encoder are brought to unit length."""
        return encoder.model.config.vector_similarity == "cosine" if self.normalize is None else self.normalize

    def vectors(
        self, encoder: DocumentEncoder, processes: Processes | None = None, **options: Unpack[WorkOptions]
    ) -> LabelledVectors:
        """Encode all documents (see :meth:`Evaluator.encode`)."""
        vectors = self.encode(encoder, processes, **options)
        cosines = row_cosines(*(vectors[self._rows_of_pairs[:, side]] for side in (0, 1)))
        if self.normalizes(encoder):
            vectors = unit_length(vectors)
        train, test = len(self.train_labels), len(self.train_labels) + len(self.test_labels)
        return LabelledVectors(vectors[:train], self.train_labels, vectors[train:test], self.test_labels, cosines)

    def score(self, vectors: LabelledVectors) -> VectorScores:
        """Measure vectors.

        Args:
            vectors: what :meth:`vectors` gave.
        """
        return VectorScores(
            cluster(vectors.train, vectors.test, vectors.test_labels, self.clusters, self.seeds),
            linear_probe(vectors.train, vectors.train_labels, vectors.test, vectors.test_labels)
            if self.probe
            else None,
            pair_auc([pair.label for pair in self.pairs], vectors.pairs) if self.pairs else None,
        )
