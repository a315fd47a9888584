"""How good vectors and predictions are, and the baselines they are held against."""

from __future__ import annotations

from ..readers.pair_files import LabelledPair
from .baselines import first_chunk_encoder, untrained_mean
from .classification import ClassificationScores, classification_scores
from .classification_evaluation import ClassificationEvaluation
from .cluster_evaluation import ClusterEvaluation, EvaluationScores, LabelledVectors
from .clustering import ClusteringScores, SeedScores, cluster, purity
from .labels import LabelledDocuments
from .linear_probe import ProbeScores, linear_probe
from .pairs import pair_auc, read_pairs

__all__ = [
    "ClassificationEvaluation",
    "ClassificationScores",
    "ClusterEvaluation",
    "ClusteringScores",
    "EvaluationScores",
    "LabelledDocuments",
    "LabelledPair",
    "LabelledVectors",
    "ProbeScores",
    "SeedScores",
    "classification_scores",
    "cluster",
    "first_chunk_encoder",
    "linear_probe",
    "pair_auc",
    "purity",
    "read_pairs",
    "untrained_mean",
]
