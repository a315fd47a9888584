"""Evaluators, and measures of vectors, rankings and predictions."""

from __future__ import annotations

from ..documents.readers.pair_files import LabelledPair, Pairs, read_pair_file
from .classification import ClassificationEvaluator, classification_scores
from .clustering import ClusteringEvaluator, purity
from .evaluator import Evaluator
from .judgements import Judgements, read_judgements
from .labels import LabelledDocuments
from .measures import RankedDocuments
from .pairs import PairEvaluator
from .query_ranking import RankingEvaluator
from .ranking import RankingTable, best_weight, score_run
from .trec import read_qrels, read_relevant, read_run, write_run

__all__ = [
    "ClassificationEvaluator",
    "ClusteringEvaluator",
    "Evaluator",
    "Judgements",
    "LabelledDocuments",
    "LabelledPair",
    "PairEvaluator",
    "Pairs",
    "RankedDocuments",
    "RankingEvaluator",
    "RankingTable",
    "best_weight",
    "classification_scores",
    "purity",
    "read_judgements",
    "read_pair_file",
    "read_qrels",
    "read_relevant",
    "read_run",
    "score_run",
    "write_run",
]
