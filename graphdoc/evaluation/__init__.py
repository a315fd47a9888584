"""How good vectors and predictions are, and what they are compared with."""

from __future__ import annotations

from ..documents.readers.pair_files import LabelledPair, Pairs, read_pair_file
from .baselines import first_chunk_encoder, untrained_mean
from .classification import ClassificationEvaluator
from .classification_scores import ClassificationScores, classification_scores
from .clustering import ClusteringEvaluator, LabelledVectors, VectorScores
from .clustering_scores import ClusteringScores, SeedScores, cluster, purity
from .evaluator import Evaluator
from .faithfulness.study import FaithfulnessEvaluation
from .labels import LabelledDocuments
from .linear_probe import ProbeScores, linear_probe
from .pair_scores import PairScores, best_threshold, pair_auc, score_pairs
from .pairs import ComparisonScores, PairEvaluator, PairSimilarities

__all__ = [
    "ClassificationEvaluator",
    "ClassificationScores",
    "ClusteringEvaluator",
    "ClusteringScores",
    "ComparisonScores",
    "Evaluator",
    "FaithfulnessEvaluation",
    "LabelledDocuments",
    "LabelledPair",
    "LabelledVectors",
    "PairEvaluator",
    "PairScores",
    "PairSimilarities",
    "Pairs",
    "ProbeScores",
    "SeedScores",
    "VectorScores",
    "best_threshold",
    "classification_scores",
    "cluster",
    "first_chunk_encoder",
    "linear_probe",
    "pair_auc",
    "purity",
    "read_pair_file",
    "score_pairs",
    "untrained_mean",
]
