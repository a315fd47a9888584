"""Measuring an encoder on labelled documents: from the command line, from Python, and while it is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.preprocessing import normalize as unit_length

from ..documents.readers.pair_files import LabelledPair
from ..encoder import DocumentEncoder
from ..errors import EvaluationError
from ..inference.precision import Precision
from ..segmentation.coverage import CoverageTotals
from .clustering import ClusteringScores, cluster, require_labels
from .labels import ReadyDocument, label_of, plain_document, require_known
from .linear_probe import ProbeScores, linear_probe
from .pairs import pair_auc, require_ids
from .ready_documents import MadeReady

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class LabelledVectors:
    """Vectors of train and test documents with their labels.

    Args:
        train: ``(train documents, hidden)``.
        train_labels: ``(train documents,)``.
        test: ``(test documents, hidden)``.
        test_labels: ``(test documents,)``.
        by_id: vectors ``(hidden,)`` of the documents that occur in pairs.
    """

    train: Vectors
    train_labels: tuple[str, ...]
    test: Vectors
    test_labels: tuple[str, ...]
    by_id: Mapping[str, Vectors]


@dataclass(frozen=True, slots=True)
class EvaluationScores:
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


class ClusterEvaluation(MadeReady):
    """Labelled documents that encoders are measured on, always in the same way.

    A trainer calls it with the encoder every so many steps and logs what it gives: ``evaluation(encoder)``. The model
    is in training mode again afterwards, and no random generator but k-means' own is used.

    Args:
        train: documents that k-means and the probe are fitted on, segmented or not.
        test: documents that are measured. Documents without a label, or with several, are left out and counted.
        others: documents that only occur in pairs.
        clusters: number of clusters; None takes the number of labels in train.
        seeds: seeds of k-means.
        probe: whether to fit a linear probe.
        pairs: pairs of documents that belong together or not; an id in both parts means the test document.
        normalize: whether vectors are brought to unit length before anything is measured; None does so for models
            that compare by cosine, to which length means nothing.
        dtype: precision that the transformer computes in; None is that of its weights.

    Raises:
        EvaluationError: there are too few labels or documents to measure anything.
    """

    def __init__(
        self,
        train: Sequence[ReadyDocument],
        test: Sequence[ReadyDocument],
        *,
        others: Sequence[ReadyDocument] = (),
        clusters: int | None = None,
        seeds: Sequence[int] = range(3),
        probe: bool = False,
        pairs: Sequence[LabelledPair] = (),
        normalize: bool | None = None,
        dtype: Precision | None = None,
    ) -> None:
        labelled = [
            [(document, label) for document in part if (label := label_of(plain_document(document))) is not None]
            for part in (train, test)
        ]
        self.train_labels, self.test_labels = (tuple(label for _, label in part) for part in labelled)
        self.left_out = {"train": len(train) - len(labelled[0]), "test": len(test) - len(labelled[1])}
        require_labels(self.train_labels, "train")
        require_labels(self.test_labels, "test")
        self.clusters = len(set(self.train_labels)) if clusters is None else clusters
        if self.clusters > len(self.train_labels):
            raise EvaluationError(
                f"k-means cannot make {self.clusters} clusters of {len(self.train_labels)} train documents; "
                "give more documents or fewer clusters"
            )
        if probe:
            require_known(self.test_labels, self.train_labels)
        self.seeds, self.probe, self.pairs, self.normalize, self.dtype = tuple(seeds), probe, pairs, normalize, dtype
        self.documents = [document for part in labelled for document, _ in part]
        known = {plain_document(document).id: document for document in (*others, *train, *test)}
        require_ids(pairs, known)
        # Labelled documents are encoded anyway; of the rest only those that pairs ask for.
        self._rows = {plain_document(document).id: row for row, document in enumerate(self.documents)}
        for id in dict.fromkeys(id for pair in pairs for id in (pair.a, pair.b)):
            if id not in self._rows:
                self._rows[id] = len(self.documents)
                self.documents.append(known[id])

    def __call__(self, encoder: DocumentEncoder) -> dict[str, float]:
        """Measure an encoder.

        Args:
            encoder: the encoder, also one whose model is being trained.

        Returns:
            ``nmi``, ``nmi_std``, ``purity``, ``purity_std``; with a probe ``probe_accuracy`` and ``probe_macro_f1``;
            with pairs ``pair_auc``.
        """
        return self.score(self.encode(encoder, show_progress=False)).metrics()

    def normalizes(self, encoder: DocumentEncoder) -> bool:
        """Whether the vectors of an encoder are brought to unit length."""
        return encoder.model.config.similarity == "cosine" if self.normalize is None else self.normalize

    def encode(
        self, encoder: DocumentEncoder, *, totals: CoverageTotals | None = None, show_progress: bool | None = None
    ) -> LabelledVectors:
        """Encode all documents.

        Args:
            encoder: the encoder.
            totals: where coverage is added up.
            show_progress: show a bar; None shows it on a terminal when the work is long.

        Raises:
            DocumentError: a document has no text to encode.
        """
        # While a model is trained, what its documents leave out would be told again with every evaluation.
        totals = CoverageTotals() if totals is None else totals
        stream = encoder.stream(self.documents, dtype=self.dtype, totals=totals, show_progress=show_progress)
        vectors = np.concatenate([vector.numpy() for _, vector in stream])
        if self.normalizes(encoder):
            vectors = unit_length(vectors)
        train, test = len(self.train_labels), len(self.train_labels) + len(self.test_labels)
        by_id = {id: vectors[self._rows[id]] for pair in self.pairs for id in (pair.a, pair.b)}
        return LabelledVectors(vectors[:train], self.train_labels, vectors[train:test], self.test_labels, by_id)

    def score(self, vectors: LabelledVectors) -> EvaluationScores:
        """Measure vectors.

        Args:
            vectors: what :meth:`encode` gave.
        """
        return EvaluationScores(
            cluster(vectors.train, vectors.test, vectors.test_labels, self.clusters, self.seeds),
            linear_probe(vectors.train, vectors.train_labels, vectors.test, vectors.test_labels)
            if self.probe
            else None,
            pair_auc(vectors.by_id, self.pairs) if self.pairs else None,
        )
