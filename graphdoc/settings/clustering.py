"""How a model finds the subtopics of pairs of documents that it has learned to find."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from .base import Count, Settings

Neighbours = Annotated[int, Field(ge=1, le=10_000)]
ClusterSize = Annotated[int, Field(ge=1, le=10_000)]


class ClusteringSettings(Settings):
    """What a model with learned subtopics has to know of the graphs of pairs, and of its head (SST, section 3.2)."""

    columns: Annotated[int, Field(ge=1, le=4096)]
    """most subtopics of a pair, the width of the head"""
    neighbours: Neighbours | None = 10
    """similar sentences that a sentence keeps in the graph; null for all"""
    receptive_field: Count = 40
    """sentences of a document that it was trained on, its first ones"""
    cluster_size: ClusterSize = 6
    """sentences of a subtopic that it was trained with, about"""
