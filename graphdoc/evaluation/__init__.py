"""How good vectors and predictions are, and the baselines they are held against."""

from __future__ import annotations

from ..documents.readers.pair_files import LabelledPair, Pairs, read_pair_file
from .baselines import first_chunk_encoder, untrained_mean
from .classification import ClassificationScores, classification_scores
from .classification_evaluation import ClassificationEvaluation
from .cluster_evaluation import ClusterEvaluation, EvaluationScores, LabelledVectors
from .clustering import ClusteringScores, SeedScores, cluster, purity
from .labels import LabelledDocuments
from .linear_probe import ProbeScores, linear_probe
from .pair_comparison import ComparisonScores, PairComparison, PairSimilarities
from .pair_scores import PairScores, best_threshold, score_pairs
from .pairs import pair_auc, read_pairs

__all__ = [
    "ClassificationEvaluation",
    "ClassificationScores",
    "ClusterEvaluation",
    "ClusteringScores",
    "ComparisonScores",
    "EvaluationScores",
    "LabelledDocuments",
    "LabelledPair",
    "LabelledVectors",
    "PairComparison",
    "PairScores",
    "PairSimilarities",
    "Pairs",
    "ProbeScores",
    "SeedScores",
    "best_threshold",
    "classification_scores",
    "cluster",
    "first_chunk_encoder",
    "linear_probe",
    "pair_auc",
    "purity",
    "read_pair_file",
    "read_pairs",
    "score_pairs",
    "untrained_mean",
]
