"""The transformer that turns the tokens of a passage into one vector."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.random import SFC64
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from transformers import MODEL_MAPPING, AutoModel, PreTrainedConfig

from ..registry import POOLINGS, load

# A random number of 64 bits decides on four elements, each with 16 of them.
ELEMENTS, STEPS = 4, 2**16


def dropout(values: Tensor, share: float) -> Tensor:
    """Set a share of the elements to zero and scale the others, so that their expectation stays.

    Where torch draws one random number after the other for every element (measured on AMD), that is half of the
    forward pass of MiniLM in training. Here torch draws the seed of a faster generator, a draw of which decides on
    four elements. The share is rounded to a multiple of 2⁻¹⁶, and the scale is that of the rounded share.
    """
    threshold = round(share * STEPS)
    if not 0 < threshold < STEPS:
        return functional.dropout(values, share)
    count = values.numel()
    draws = SFC64(int(torch.randint(2**62, ()))).random_raw(-(-count // ELEMENTS)).view(np.int16)
    is_kept = torch.from_numpy(draws[:count]).view(values.shape)
    torch.ge(is_kept, threshold - STEPS // 2, out=is_kept)
    mask = is_kept.to(values.dtype).mul_(STEPS / (STEPS - threshold))
    # Fresh memory costs as much as the arithmetic, and without gradients nothing has to be remembered.
    return values * mask if torch.is_grad_enabled() else mask.mul_(values)


class QuickDropout(TorchFunctionMode):
    """A context in which dropout, also that inside of attention, is :func:`dropout` for tensors on a processor.

    It reaches every transformer, whatever the modules it is built of.
    """

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        options: dict[str, Any] | None = None,
    ) -> Any:
        options = options or {}
        if function is functional.dropout:
            return _dropout(*args, **options)
        if function is functional.scaled_dot_product_attention and options.get("dropout_p"):
            return _attention(*args, **options)
        return function(*args, **options)


def quick_dropout(transformer: nn.Module, device: torch.device) -> AbstractContextManager[Any]:
    """The context to run a transformer in: :class:`QuickDropout` in training on a processor.

    Not with gradient checkpointing, which must draw the same masks a second time, nor for a compiled transformer.
    """
    is_recomputed = getattr(transformer, "is_activation_checkpointing", False)
    is_plain = not is_recomputed and transformer._compiled_call_impl is None
    return QuickDropout() if transformer.training and device.type == "cpu" and is_plain else nullcontext()


def _has_numbers(values: Tensor) -> bool:
    # Subclasses, such as tensors that only know their shape, have no numbers to draw for.
    return values.device.type == "cpu" and type(values) in (Tensor, nn.Parameter)


def _dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """``torch.nn.functional.dropout`` with its names of arguments."""
    if training and not inplace and _has_numbers(input):
        return dropout(input, p)
    return functional.dropout(input, p, training, inplace)


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """``torch.nn.functional.scaled_dot_product_attention`` with its names of arguments."""
    if is_causal or enable_gqa or not _has_numbers(query):
        return functional.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    if torch.is_autocast_enabled("cpu"):
        query, key, value = (part.to(torch.get_autocast_dtype("cpu")) for part in (query, key, value))
    scores = torch.matmul(query * (query.shape[-1] ** -0.5 if scale is None else scale), key.transpose(-2, -1))
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            # A finite fill keeps rows where everything is masked free of NaN.
            lowest = torch.finfo(scores.dtype).min
            attn_mask = torch.zeros(attn_mask.shape, dtype=scores.dtype).masked_fill_(~attn_mask, lowest)
        scores = scores + attn_mask
    return torch.matmul(dropout(torch.softmax(scores, dim=-1), dropout_p), value)


def cls_pooling(hidden: Tensor, attention_mask: Tensor) -> Tensor:
    """The first token's vector (Graph-RoBERTa, eq. 1); arguments and result as for every pooling.

    Args:
        hidden: ``(passages, tokens, encoder hidden)``.
        attention_mask: ``(passages, tokens)``, 1 for tokens and 0 for padding.

    Returns:
        Passage vectors in fp32, ``(passages, encoder hidden)``.
    """
    return hidden[:, 0].float()


def mean_pooling(hidden: Tensor, attention_mask: Tensor) -> Tensor:
    """The mean over the tokens that are no padding."""
    weights = attention_mask.to(torch.float32)
    weights = weights / weights.sum(dim=1, keepdim=True).clamp(min=1)
    return torch.bmm(weights.unsqueeze(1), hidden.float()).squeeze(1)


def last_pooling(hidden: Tensor, attention_mask: Tensor) -> Tensor:
    """The vector of the last token that is no padding."""
    return hidden[torch.arange(len(hidden), device=hidden.device), attention_mask.sum(dim=1) - 1].float()


class StructuralEmbeddings(nn.Module):
    r"""Learned embeddings of section and chunk that are added to the input embeddings of a passage's tokens.

    .. math::
        \tilde T_{pqr} = S_p + C_q + T_{pqr}

    where T is the input embedding of token r in chunk q of section p. Source: CoLDE, section 3.1 and figure 3; the
    sums in the paper's equation are read as "for every". The tables start at zero, so that a model starts at its
    pretrained passage encoder; sections and chunks beyond the last row use the last row.
    """

    def __init__(self, sections: int, chunks: int, embedding_size: int) -> None:
        super().__init__()
        self.sections = nn.Parameter(torch.zeros(sections, embedding_size))
        self.chunks = nn.Parameter(torch.zeros(chunks, embedding_size))

    def forward(self, structure: Tensor) -> Tensor:
        """Embeddings ``(passages, embedding)``, to be added to tokens, of section and chunk ids ``(passages, 2)``."""
        section, chunk = structure.unbind(dim=1)
        sections = self.sections[section.clamp(max=len(self.sections) - 1)]
        return sections + self.chunks[chunk.clamp(max=len(self.chunks) - 1)]


class PassageEncoder(nn.Module):
    """Any encoder of transformers with pooling over its tokens (Graph-RoBERTa, eq. 1, the part called phi)."""

    def __init__(self, config: PreTrainedConfig, pooling: str) -> None:
        super().__init__()
        self.transformer = AutoModel.from_config(
            copy.deepcopy(config), trust_remote_code=False, **pooler_options(config)
        )
        # A configuration may ask for plain tuples.
        self.transformer.config.return_dict = True
        self.pooling: Callable[[Tensor, Tensor], Tensor] = load(POOLINGS[pooling])

    @property
    def embedding_size(self) -> int:
        """Width of an input embedding; in some encoders not that of a passage vector."""
        return int(self.transformer.get_input_embeddings().weight.shape[1])

    def tokens(
        self, input_ids: Tensor, attention_mask: Tensor, added: Tensor | None = None, token_types: Tensor | None = None
    ) -> Tensor:
        """Vectors of all tokens of passages, before pooling, ``(passages, tokens, encoder hidden)``.

        Args:
            input_ids: ``(passages, tokens)``.
            attention_mask: ``(passages, tokens)``, 1 for tokens and 0 for padding.
            added: ``(passages, embedding)``, what is added to the input embeddings of all tokens of a passage.
            token_types: ``(passages, tokens)``, 1 for tokens of a second text; a transformer without such embeddings
                tells the texts by what stands between them.
        """
        inputs = {"input_ids": input_ids}
        if added is not None:
            embeddings = self.transformer.get_input_embeddings()(input_ids)
            inputs = {"inputs_embeds": embeddings + added.unsqueeze(1).to(embeddings.dtype)}
        if token_types is not None and (getattr(self.transformer.config, "type_vocab_size", None) or 0) > 1:
            inputs["token_type_ids"] = token_types
        with quick_dropout(self.transformer, input_ids.device):
            hidden: Tensor = self.transformer(**inputs, attention_mask=attention_mask).last_hidden_state
        return hidden

    def pool(self, hidden: Tensor, attention_mask: Tensor) -> Tensor:
        """Passage vectors in fp32, ``(passages, passage size)``, of the vectors of their tokens."""
        with torch.autocast(hidden.device.type, enabled=False):
            return self.pooling(hidden, attention_mask)


def pooler_options(config: PreTrainedConfig) -> dict[str, bool]:
    """Options that leave out a pooler, whose weights would never get a gradient, which stops distributed training."""
    model_class: Any = MODEL_MAPPING[type(config)]
    return {"add_pooling_layer": False} if "add_pooling_layer" in inspect.signature(model_class).parameters else {}
