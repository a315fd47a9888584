"""Kinds of a loss that settings choose among."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from graphdoc.recipes import compare, views
from graphdoc.settings.finetuning import COMPARISON_LOSSES, ComparisonLossSettings
from graphdoc.settings.views import VIEW_LOSSES, ViewLossSettings


def test_every_kind_has_an_objective() -> None:
    for kind in COMPARISON_LOSSES:
        loss = ComparisonLossSettings(kind=kind)
        model: Any = SimpleNamespace(config=SimpleNamespace(similarity="cosine"))
        assert compare.objective_of(SimpleNamespace(loss=loss), model) is not None  # type: ignore[arg-type]
    for kind in VIEW_LOSSES:
        settings: Any = SimpleNamespace(loss=ViewLossSettings(kind=kind))
        assert views.objective_of(settings) is not None
