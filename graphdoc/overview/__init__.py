"""A whole collection at a glance, without labels: a map, groups with names, nearest pairs, copies and outliers."""

from __future__ import annotations

from .overview import Overview

__all__ = ["Overview"]
