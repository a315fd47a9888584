"""Passages in mini-batches: sorted by length and packed by token budget, by rules of the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..errors import SettingsError
from ..runtime.text import require_whole

# Small blocks stay in a processor's cache, and little is lost by starting one; accelerators want large ones, filled
# before padding may close them, since there a start costs more than some padding.
CPU_TOKEN_BUDGET, ACCELERATOR_TOKEN_BUDGET = 2048, 65536
ACCELERATOR_FILLED = 0.9
PADDING = 0.03


@dataclass(frozen=True, slots=True)
class MiniBatch:
    """Passages that go through the transformer together.

    Args:
        input_ids: ``(passages, tokens)``.
        attention_mask: ``(passages, tokens)``, 1 for tokens and 0 for padding.
        passage_order: ``(passages,)``, row of every passage among the passages of the batch.
        structure: ``(passages, 2)``, section id and chunk id of every passage; None for a passage encoder that does
            not read them.
        token_types: ``(passages, tokens)``, 1 for tokens of a second text, else 0; None where no passage has two.
    """

    input_ids: Tensor
    attention_mask: Tensor
    passage_order: Tensor
    structure: Tensor | None = None
    token_types: Tensor | None = None

    def to(self, device: torch.device | str) -> MiniBatch:
        """The same mini-batch on another device."""
        return MiniBatch(
            self.input_ids.to(device, non_blocking=True),
            self.attention_mask.to(device, non_blocking=True),
            self.passage_order.to(device, non_blocking=True),
            None if self.structure is None else self.structure.to(device, non_blocking=True),
            None if self.token_types is None else self.token_types.to(device, non_blocking=True),
        )


@dataclass(frozen=True, slots=True)
class Packing:
    """The rule by which passages are packed into mini-batches.

    A mini-batch is closed when one more passage would exceed the token budget; or, once it is well filled, when one
    more would make padding more than ``padding`` of its cells. A passage longer than the budget has a mini-batch of
    its own. Longest first, so that a shortage of memory shows at once.

    Args:
        token_budget: most cells (passages times longest passage) of a mini-batch.
        padding: largest share of padding among the cells of a mini-batch that is well filled.
        filled: share of the token budget from which on a mini-batch is well filled; 0 lets padding close any.

    Raises:
        SettingsError: a value is out of range.
    """

    token_budget: int
    padding: float = PADDING
    filled: float = 0.0

    def __post_init__(self) -> None:
        require_whole("token_budget", self.token_budget, may_be_none=False)
        for name in ("padding", "filled"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) <= 1:
                raise SettingsError(f"{name}={value!r} must be a share between 0 and 1")

    @classmethod
    def on(cls, device: torch.device | str, token_budget: int | None = None, padding: float | None = None) -> Packing:
        """The rule of a device.

        Args:
            device: where the transformer computes.
            token_budget: most cells of a mini-batch; by default small on a CPU and large on accelerators.
            padding: largest share of padding in a well-filled mini-batch; None for the usual one.
        """
        is_cpu = torch.device(device).type == "cpu"
        if token_budget is None:
            token_budget = CPU_TOKEN_BUDGET if is_cpu else ACCELERATOR_TOKEN_BUDGET
        return cls(token_budget, PADDING if padding is None else padding, 0.0 if is_cpu else ACCELERATOR_FILLED)

    def pack(self, lengths: Sequence[int] | npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
        """Pack passages; the result depends on their lengths alone.

        Args:
            lengths: number of tokens of every passage, special tokens included.

        Returns:
            Positions of the passages, one array per mini-batch.

        >>> [positions.tolist() for positions in Packing(8).pack([2, 4, 4, 2, 2])]
        [[1, 2], [0, 3, 4]]
        """
        length = np.asarray(lengths, dtype=np.int64)
        order = np.argsort(-length, kind="stable")
        mini_batches: list[npt.NDArray[np.int64]] = []
        start, used = 0, 0
        for position, tokens in enumerate(length[order].tolist()):
            longest = int(length[order[start]])
            cells = longest * (position - start + 1)
            is_filled = cells - longest >= self.filled * self.token_budget
            is_padded = cells - used - tokens > self.padding * cells
            if position > start and (cells > self.token_budget or (is_filled and is_padded)):
                mini_batches.append(order[start:position])
                start, used = position, 0
            used += tokens
        if len(order):
            mini_batches.append(order[start:])
        return mini_batches
