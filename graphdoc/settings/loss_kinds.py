"""What the settings share that choose among kinds of a loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from .base import Settings


class KindOfLoss(Protocol):
    """What a loss is, as far as it decides which settings have an effect."""

    @property
    def own(self) -> tuple[str, ...]:
        """Settings of the loss that it reads and not every kind does."""
        ...


def require_read(loss: Settings, kind: str, kinds: Mapping[str, KindOfLoss]) -> None:
    """Refuse settings that only other kinds of the loss read.

    Args:
        loss: settings of the loss, with the setting ``kind``.
        kind: the kind that is chosen.
        kinds: all kinds; several may read one setting.

    Raises:
        Refused: such a setting is not at its default.
    """
    for name in dict.fromkeys(name for one in kinds.values() for name in one.own):
        readers = [other for other, one in kinds.items() if name in one.own]
        loss.require_effect(
            name, kind in readers,
            f"with {{here}}kind={kind}; set {{here}}{name}={loss.default_values()[name]}, or {{here}}kind="
            f"{' or '.join(readers)}",
        )  # fmt: skip
