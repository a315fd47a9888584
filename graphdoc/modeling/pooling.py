"""Pooling: how the vectors of the tokens of a passage become its vector."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from ..errors import ModelError
from ..registry import READOUTS, load
from ..settings.document import DocumentFields

# Cosines that MiniLM gives two texts of one passage, which see each other with a weight: their middle and deviation
# where the weight is 0 and where it is 1, between which they move with its root.
COSINE_MIDDLE, COSINE_DEVIATION = (0.43, 0.87), (0.135, 0.03)
# Logits of the two classes of a pair differ by so much at the start for a cosine one deviation above the middle.
START_LOGIT = 0.6
SMALLEST_LENGTH = 1e-12


class Pooling(ABC):
    """Makes one vector of the tokens of a passage.

    Attributes:
        joins_texts: whether it needs passages of two texts that are read together.
        needs: settings of the model without which it cannot be.
    """

    joins_texts: ClassVar[bool] = False
    needs: ClassVar[Mapping[str, object]] = {}

    @classmethod
    def width(cls, hidden: int) -> int:
        """Width of a passage vector, where that of a token's is ``hidden``."""
        return hidden

    @classmethod
    def check(cls, config: DocumentFields) -> None:
        """Check settings that have to fit each other.

        Raises:
            ValueError: they do not; the message names them and the fix.
        """
        if config.attention_across < 1 and not cls.joins_texts:
            raise ValueError(
                f"attention_across={config.attention_across:g} with pooling={config.pooling} cannot be, "
                "which does not tell two texts apart; set pooling=pair, or attention_across=1"
            )
        for name, value in cls.needs.items():
            if (given := getattr(config, name)) != value:
                wanted = "null" if value is None else str(value).lower()
                raise ValueError(f"pooling={config.pooling} with {name}={given} cannot be; set {name}={wanted}")

    @abstractmethod
    def __call__(self, hidden: Tensor, attention_mask: Tensor, token_types: Tensor | None) -> Tensor:
        """Pool the tokens of passages.

        Args:
            hidden: ``(passages, tokens, encoder hidden)``.
            attention_mask: ``(passages, tokens)``, 1 for tokens and 0 for padding.
            token_types: ``(passages, tokens)``, 1 for tokens of a second text; None where no passage has two.

        Returns:
            Passage vectors in fp32, ``(passages, width)``.
        """

    def start_head(self, head: nn.Linear, attention_across: float) -> None:  # noqa: B027 (most begin at random)
        """Let a new head for two classes, of pairs that differ and that are alike, begin with what it can tell.

        Args:
            head: the head.
            attention_across: weight of attention between both texts.
        """


class ClsPooling(Pooling):
    """The first token's vector (Graph-RoBERTa, eq. 1)."""

    def __call__(self, hidden: Tensor, attention_mask: Tensor, token_types: Tensor | None) -> Tensor:
        """The first token."""
        return hidden[:, 0].float()


class MeanPooling(Pooling):
    """The mean over all tokens."""

    def __call__(self, hidden: Tensor, attention_mask: Tensor, token_types: Tensor | None) -> Tensor:
        """The mean of tokens that are no padding."""
        return _means(hidden, attention_mask)


class PairPooling(Pooling):
    r"""Both texts of a passage, and what they have in common.

    .. math::
        [u; v; u \odot v; |u - v|], \quad u = \sqrt{w} \, \bar{h}_1 / \Vert \bar{h}_1 \Vert

    with the mean :math:`\bar{h}` of the tokens of either text, brought to one size over their width :math:`w`,
    whatever the encoder's is. The product's mean is the cosine of both, with which a head begins: a frozen encoder
    that reads both texts at once tells similar ones by it, where a head over one vector of both would have to learn
    that first.
    """

    joins_texts = True
    needs: ClassVar[Mapping[str, object]] = {
        "projection_size": None,
        "graph_layers": 0,
        "normalize_passages": False,
        "centre": None,
    }

    @classmethod
    def width(cls, hidden: int) -> int:
        """Four parts."""
        return 4 * hidden

    @classmethod
    def check(cls, config: DocumentFields) -> None:
        """Nothing may stand between these vectors and the head."""
        super().check(config)
        if load(READOUTS[config.readout]).has_sections:
            raise ValueError(f"pooling=pair with readout={config.readout} cannot be; set readout=mean")

    def __call__(self, hidden: Tensor, attention_mask: Tensor, token_types: Tensor | None) -> Tensor:
        """Both means, their product and their difference."""
        if token_types is None:
            raise ModelError(
                "pooling=pair is for two texts in one passage, as graphdoc finetune views makes them with "
                "views.encoder=cross; use pooling=mean or cls for single documents"
            )
        size = hidden.shape[-1] ** 0.5
        first, second = (
            nn.functional.normalize(_means(hidden, attention_mask * own), dim=-1, eps=SMALLEST_LENGTH) * size
            for own in (1 - token_types, token_types)
        )
        return torch.cat([first, second, first * second, (first - second).abs()], dim=-1)

    @torch.no_grad()
    def start_head(self, head: nn.Linear, attention_across: float) -> None:
        """The cosine of both means, less what is usual, times a slope."""
        middle, deviation = (
            alone + attention_across**0.5 * (joined - alone) for alone, joined in (COSINE_MIDDLE, COSINE_DEVIATION)
        )
        slope = START_LOGIT / deviation
        width = head.in_features // 4
        head.weight.zero_()
        head.weight[:, 2 * width : 3 * width] = slope / (2 * width) * head.weight.new_tensor([[-1.0], [1.0]])
        head.bias.copy_(slope * middle / 2 * head.bias.new_tensor([1.0, -1.0]))


def _means(hidden: Tensor, mask: Tensor) -> Tensor:
    weights = mask.to(torch.float32)
    weights = weights / weights.sum(dim=1, keepdim=True).clamp(min=1)
    return torch.bmm(weights.unsqueeze(1), hidden.float()).squeeze(1)
