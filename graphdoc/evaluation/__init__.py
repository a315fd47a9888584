"""Measures of vectors, rankings and predictions, and baselines."""

from __future__ import annotations

from ..documents.readers.pair_files import LabelledPair, Pairs, read_pair_file
from .baselines import TfidfVectors, untrained_mean
from .classification import ClassificationEvaluator, classification_scores
from .clustering import ClusteringEvaluator, cluster, linear_probe, purity
from .evaluator import Evaluator
from .judgements import Judgements, read_judgements
from .labels import LabelledDocuments
from .measures import RankedDocuments
from .pair_scores import best_threshold, pair_auc, score_pairs
from .pairs import PairEvaluator
from .query_ranking import RankingEvaluator
from .ranking import RankingTable, best_weight, score_run
from .resampling import Estimate
from .trec import read_qrels, read_relevant, read_run, source_documents, write_qrels, write_run

__all__ = [
    "ClassificationEvaluator",
    "ClusteringEvaluator",
    "Estimate",
    "Evaluator",
    "Judgements",
    "LabelledDocuments",
    "LabelledPair",
    "PairEvaluator",
    "Pairs",
    "RankedDocuments",
    "RankingEvaluator",
    "RankingTable",
    "TfidfVectors",
    "best_threshold",
    "best_weight",
    "classification_scores",
    "cluster",
    "linear_probe",
    "pair_auc",
    "purity",
    "read_judgements",
    "read_pair_file",
    "read_qrels",
    "read_relevant",
    "read_run",
    "score_pairs",
    "score_run",
    "source_documents",
    "untrained_mean",
    "write_qrels",
    "write_run",
]
