"""Two texts in one passage that are read almost apart: what they see of each other, and where each begins."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from transformers import PreTrainedConfig

# Transformers with learned positions that take a mask for every pair of tokens, and whether positions are counted from
# behind that of padding.
KINDS = {"bert": False, "electra": False, "camembert": True, "roberta": True, "xlm-roberta": True}


def check_transformer(config: PreTrainedConfig) -> None:
    """Refuse a transformer in which attention between two texts cannot be weighed.

    Raises:
        ValueError: it is of another kind.
    """
    if config.model_type not in KINDS:
        raise ValueError(
            f"attention_across with a transformer of the kind {config.model_type} cannot be; leave it out, or take "
            f"one of {', '.join(KINDS)}"
        )
    if getattr(config, "is_decoder", False):
        raise ValueError(
            f"attention_across with a decoder (is_decoder of {config.model_type} is true) cannot be; set it to 1, or "
            "take an encoder"
        )


def weighed_mask(token_types: Tensor, attention_mask: Tensor, weight: float, dtype: torch.dtype) -> Tensor:
    r"""What is added to attention scores, so that a token's attention to the other text is weighed.

    .. math::
        a_{ij} = \frac{w_{ij} \, e^{s_{ij}}}{\sum_k w_{ik} \, e^{s_{ik}}}, \quad
        w_{ij} = 1 \text{ in one text, } w \text{ across}

    so that the logarithm of the weight is added to the score s.

    Args:
        token_types: ``(passages, tokens)``, 1 for tokens of the second text.
        attention_mask: ``(passages, tokens)``, 1 for tokens and 0 for padding.
        weight: the weight w, from 0 (the texts do not see each other) to 1 (as usual).
        dtype: what attention is computed in.

    Returns:
        ``(passages, 1, tokens, tokens)``, a row for every token that looks.
    """
    lowest = torch.finfo(dtype).min
    across = math.log(weight) if weight else lowest
    scores = torch.where(token_types[:, :, None] == token_types[:, None, :], 0.0, across)
    return torch.where(attention_mask[:, None, :].bool(), scores, lowest).to(dtype).unsqueeze(1)


def own_positions(token_types: Tensor, attention_mask: Tensor, config: PreTrainedConfig) -> Tensor:
    """Positions of tokens that begin anew with the second text, ``(passages, tokens)``.

    Args:
        token_types: see :func:`weighed_mask`.
        attention_mask: see there.
        config: configuration of the transformer.
    """
    count = torch.arange(token_types.shape[1], device=token_types.device).expand_as(token_types)
    first = (attention_mask * (1 - token_types)).sum(dim=1, keepdim=True)
    # Padding is of no text; where it stands tells nobody anything.
    positions = torch.where(token_types.bool(), count - first, count)
    return positions + (int(config.pad_token_id or 0) + 1 if KINDS[config.model_type] else 0)
