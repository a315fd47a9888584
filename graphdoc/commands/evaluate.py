"""graphdoc evaluate: how good the vectors of a model are, one task each."""

from __future__ import annotations

from . import evaluate_cluster, evaluate_compare

NAME = "evaluate"
HELP = "measure the vectors of models on labelled documents"
DESCRIPTION = """Measure the vectors of models on labelled documents, next to those of untrained models."""
EPILOG = """examples:
  graphdoc evaluate cluster --data corpus.jsonl --model mini
  graphdoc evaluate compare --data corpus.jsonl --pairs pairs.tsv --model mini
  graphdoc evaluate TASK --help   says more about the task
"""

TASKS = (evaluate_cluster, evaluate_compare)
