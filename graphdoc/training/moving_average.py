"""An exponential moving average of the weights that are trained."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.optim.swa_utils import get_ema_multi_avg_fn

from ..modeling import DocumentModel
from .tuning import trained_weights

FILE = "moving_average.safetensors"


class MovingAverage:
    """Averages weights over the steps: ``average = decay * average + (1 - decay) * weights``.

    Args:
        model: the model in training.
        decay: share of the old average that a step keeps, such as 0.999.

    Raises:
        ValueError: the decay is not between 0 and 1.
    """

    def __init__(self, model: DocumentModel, decay: float) -> None:
        if not 0 < decay < 1:
            raise ValueError(f"moving_average={decay} must be above 0 and below 1, such as 0.999")
        self._weights = trained_weights(model)
        self._average = {name: weight.detach().clone() for name, weight in self._weights.items()}
        self._update = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]

    @torch.no_grad()
    def update(self) -> None:
        """Take in the weights after a step."""
        self._update(list(self._average.values()), [weight.detach() for weight in self._weights.values()], 0)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """A context in which the model has the averaged weights."""
        own = {name: weight.detach().clone() for name, weight in self._weights.items()}
        self._assign(self._average)
        try:
            yield
        finally:
            self._assign(own)

    def save(self, folder: Path) -> None:
        """Write the average."""
        save_file({name: tensor.contiguous() for name, tensor in self._average.items()}, folder / FILE)

    def load(self, folder: Path) -> None:
        """Read what :meth:`save` wrote."""
        for name, tensor in load_file(folder / FILE).items():
            self._average[name].copy_(tensor)

    @torch.no_grad()
    def _assign(self, values: dict[str, Tensor]) -> None:
        for name, weight in self._weights.items():
            weight.copy_(values[name])
