"""Tasks: how training examples are drawn from documents."""

from __future__ import annotations

from .tasks import Classes, Groups, PairViews, Queries, SentencePairs, SubDocuments, SubtopicPairs, Task

__all__ = ["Classes", "Groups", "PairViews", "Queries", "SentencePairs", "SubDocuments", "SubtopicPairs", "Task"]
