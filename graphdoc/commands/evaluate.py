"""graphdoc evaluate: how good the vectors and the labels of a model are, one task each."""

from __future__ import annotations

HELP = "measure models on labelled documents and pairs, and searches on queries"
DESCRIPTION = """Measure models on labelled documents: their vectors next to those of untrained models, or the labels
that they give next to those that words alone give, or whether scores of passages explain them. Or measure searches on
queries whose answers are known."""
EPILOG = """examples:
  graphdoc evaluate all --sets sets.yaml --model mini --model runs/a/model
  graphdoc evaluate cluster --data corpus.jsonl --model mini
  graphdoc evaluate classify --data corpus.jsonl --model runs/topics/model
  graphdoc evaluate compare --data corpus.jsonl --pairs pairs.tsv --model mini
  graphdoc evaluate faithfulness --data corpus.jsonl --pairs pairs.tsv --model mini
  graphdoc evaluate search --data judged --index papers.index
  graphdoc evaluate TASK --help   says more about the task
"""
