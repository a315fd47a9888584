"""Losses over vectors; they know nothing of models."""

from __future__ import annotations

from .gathering import gather_rows
from .gradient_cache import GradientCache
from .info_nce import InfoNCE
from .outputs import ContrastiveLoss, LossOutput

__all__ = ["ContrastiveLoss", "GradientCache", "InfoNCE", "LossOutput", "gather_rows"]
