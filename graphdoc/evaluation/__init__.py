"""How good vectors and predictions are, and what they are compared with."""

from __future__ import annotations

from ..documents.readers.pair_files import LabelledPair, Pairs, read_pair_file
from .baselines import untrained_mean
from .classification import ClassificationEvaluator
from .classification_scores import ClassificationScores, classification_scores
from .clustering import ClusteringEvaluator, LabelledVectors, VectorScores
from .clustering_scores import ClusteringScores, SeedScores, cluster, purity
from .evaluator import Evaluator
from .faithfulness.study import FaithfulnessEvaluation
from .fusion_weight import BestWeight, best_weight
from .judgements import Judgements, read_judgements
from .labels import LabelledDocuments
from .linear_probe import ProbeScores, linear_probe
from .pair_scores import PairScores, best_threshold, pair_auc, score_pairs
from .pairs import ComparisonScores, PairEvaluator, PairSimilarities
from .permutation import paired_p_value
from .rank_measures import Candidates
from .ranking import RankingScores, score_run
from .ranking_table import RankingTable
from .relevant import read_relevant, relevant_by_field
from .text_chunks import first_chunk_encoder
from .trec import own_documents, read_qrels, read_run, write_qrels, write_run

__all__ = [
    "BestWeight",
    "Candidates",
    "ClassificationEvaluator",
    "ClassificationScores",
    "ClusteringEvaluator",
    "ClusteringScores",
    "ComparisonScores",
    "Evaluator",
    "FaithfulnessEvaluation",
    "Judgements",
    "LabelledDocuments",
    "LabelledPair",
    "LabelledVectors",
    "PairEvaluator",
    "PairScores",
    "PairSimilarities",
    "Pairs",
    "ProbeScores",
    "RankingScores",
    "RankingTable",
    "SeedScores",
    "VectorScores",
    "best_threshold",
    "best_weight",
    "classification_scores",
    "cluster",
    "first_chunk_encoder",
    "linear_probe",
    "own_documents",
    "pair_auc",
    "paired_p_value",
    "purity",
    "read_judgements",
    "read_pair_file",
    "read_qrels",
    "read_relevant",
    "read_run",
    "relevant_by_field",
    "score_pairs",
    "score_run",
    "untrained_mean",
    "write_qrels",
    "write_run",
]
