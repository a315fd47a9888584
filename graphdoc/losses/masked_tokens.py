"""Cross entropy over masked tokens: masked language modelling."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from .contract import LossOutput
from .gathering import ONE_PROCESS, Gather


@dataclass(frozen=True)
class MaskedTokens:
    r"""Measures how far logits are from the tokens that were masked, as a mean over those of all processes.

    .. math::
        \ell = w \, \frac{1}{N} \sum_{i=1}^N -\log p_{i t_i}

    The tokens of a batch may come in parts, such as mini-batches: given the number of all of them, the losses and
    metrics of the parts add up to those of the whole. Everything is in fp32. Source: Devlin et al. 2019, "BERT",
    section 3.1; the first term of SDR, eq. 3.

    Args:
        weight: factor of the loss; metrics are without it.

    Raises:
        ValueError: the weight is negative.

    >>> output = MaskedTokens()(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0]))
    >>> round(output.loss.item(), 3), output.metrics["masked_accuracy"].item()
    (0.72, 0.5)
    """

    weight: float = 1.0

    def __post_init__(self) -> None:
        if not self.weight >= 0:
            raise ValueError(f"weight={self.weight} must be 0 or more")

    def __call__(
        self, logits: Tensor, tokens: Tensor, among: Tensor | None = None, *, gather: Gather = ONE_PROCESS
    ) -> LossOutput:
        """Compute the loss of this process's masked tokens.

        Args:
            logits: ``(masked, vocabulary)``, at masked places alone.
            tokens: ``(masked,)``, the tokens that stood there.
            among: how many masked tokens the whole batch has over all processes, where these are a part of them; None
                where they are all that this process has.
            gather: how masked tokens of other processes are counted.

        Returns:
            The loss, with ``masked_loss``, its mean without the weight, and ``masked_accuracy``, the share of tokens
            that were the most likely.

        Raises:
            ValueError: shapes do not fit.
        """
        if logits.dim() != 2 or tokens.shape != logits.shape[:1]:
            raise ValueError(
                f"logits {tuple(logits.shape)} and tokens {tuple(tokens.shape)} must have the shapes (masked, "
                "vocabulary) and (masked,)"
            )
        if among is None:
            among = gather.rows(torch.tensor([len(tokens)], device=tokens.device))[0].sum()
        # The mean over processes must be the mean over masked tokens, also where processes hold different numbers.
        factor = gather.processes / among.clamp(min=1)
        with torch.autocast(logits.device.type, enabled=False):
            loss = functional.cross_entropy(logits.float(), tokens, reduction="sum") * factor
            right = (logits.detach().argmax(dim=1) == tokens).sum() * factor
        return LossOutput(self.weight * loss, {"masked_loss": loss.detach(), "masked_accuracy": right})
