"""Matching pairs of documents view by view (SST)."""

from __future__ import annotations

from .matcher import MatchOptions, match_pairs
from .result import MatchedView, PairMatch

__all__ = ["MatchOptions", "MatchedView", "PairMatch", "match_pairs"]
