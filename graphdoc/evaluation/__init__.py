"""How good document vectors are: clustering, linear probe, pairs, and the baselines they are held against."""

from __future__ import annotations

from ..readers.pair_files import LabelledPair
from .baselines import first_chunk_encoder, untrained_mean
from .cluster_evaluation import ClusterEvaluation, EvaluationScores, LabelledVectors
from .clustering import ClusteringScores, SeedScores, cluster, purity
from .linear_probe import ProbeScores, linear_probe
from .pairs import pair_auc, read_pairs

__all__ = [
    "ClusterEvaluation",
    "ClusteringScores",
    "EvaluationScores",
    "LabelledPair",
    "LabelledVectors",
    "ProbeScores",
    "SeedScores",
    "cluster",
    "first_chunk_encoder",
    "linear_probe",
    "pair_auc",
    "purity",
    "read_pairs",
    "untrained_mean",
]
