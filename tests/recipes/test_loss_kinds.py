"""Kinds of a loss that settings choose among."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Self

import pytest
from pydantic import model_validator

from graphdoc.errors import SettingsError
from graphdoc.recipes import compare, views
from graphdoc.settings.base import Settings
from graphdoc.settings.compare import ComparisonLossSettings
from graphdoc.settings.loss_kinds import require_read
from graphdoc.settings.view_training import ViewLossSettings

KINDS: dict[str, Any] = {
    "plain": SimpleNamespace(own=()),
    "pair": SimpleNamespace(own=("margin",)),
    "triplet": SimpleNamespace(own=("margin", "mined")),
}


class ToyLossSettings(Settings):
    """A loss of three kinds, two of which share a setting."""

    kind: str = "plain"
    margin: float = 0.0
    mined: int = 1

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        require_read(self, self.kind, KINDS)
        return self


def test_kinds_share_a_setting() -> None:
    for kind in ("pair", "triplet"):
        assert ToyLossSettings(kind=kind, margin=0.3).margin == 0.3
    assert ToyLossSettings(kind="triplet", mined=3).mined == 3


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"kind": "plain", "margin": 0.3}, ["margin=0.3", "kind=plain", "margin=0.0", "pair or triplet"]),
        ({"kind": "pair", "mined": 3}, ["mined=3", "kind=pair", "kind=triplet"]),
    ],
)
def test_a_setting_of_other_kinds_is_refused(values: dict[str, Any], told: list[str]) -> None:
    with pytest.raises(SettingsError) as caught:
        ToyLossSettings(**values)
    assert all(part in str(caught.value) for part in told)


def test_every_kind_has_an_objective() -> None:
    for kind in compare.LOSS_KINDS:
        loss = ComparisonLossSettings(kind=kind)
        model: Any = SimpleNamespace(config=SimpleNamespace(similarity="cosine"))
        assert compare.objective_of(SimpleNamespace(loss=loss), model) is not None  # type: ignore[arg-type]
    for kind in views.LOSS_KINDS:
        settings: Any = SimpleNamespace(loss=ViewLossSettings(kind=kind))
        assert views.objective_of(settings) is not None
