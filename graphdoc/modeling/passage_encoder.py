"""The transformer that turns the tokens of a passage into one vector."""

from __future__ import annotations

import copy
import importlib.util
import inspect
import textwrap
from typing import Any

import torch
from torch import Tensor, nn
from transformers import MODEL_MAPPING, AutoModel, PreTrainedConfig

from ..errors import SettingsError
from ..registry import POOLINGS, load
from ..runtime.text import require_one_of
from .dropout import quick_dropout
from .pooling import Pooling

# Ways in which transformers computes attention.
ATTENTIONS = ("eager", "sdpa", "flash_attention_2")


class PassageEncoder(nn.Module):
    """Any encoder of transformers with pooling over its tokens (Graph-RoBERTa, eq. 1, the part called phi).

    Args:
        config: configuration of the transformer; it is copied, since building a model changes it.
        pooling: ``cls`` or ``mean`` (see :mod:`graphdoc.modeling.pooling`).
    """

    def __init__(self, config: PreTrainedConfig, pooling: str) -> None:
        super().__init__()
        self.transformer = AutoModel.from_config(
            copy.deepcopy(config), trust_remote_code=False, **pooler_options(config)
        )
        # A configuration may ask for plain tuples.
        self.transformer.config.return_dict = True
        self.pooling: Pooling = load(POOLINGS[pooling])()

    @property
    def embedding_size(self) -> int:
        """Width of an input embedding; in some encoders not that of a passage vector."""
        return int(self.transformer.get_input_embeddings().weight.shape[1])

    def use_attention(self, implementation: str, dtype: str, device: torch.device) -> None:
        """Let the transformer compute attention in another way; the vectors are the same but for rounding.

        Args:
            implementation: one of :data:`ATTENTIONS`.
            dtype: precision that the transformer will compute in.
            device: where it will compute.

        Raises:
            SettingsError: there is no such way, or this transformer or machine does not have it.
        """
        require_one_of("attn_implementation", implementation, ATTENTIONS)
        known = f"use one of {', '.join(one for one in ATTENTIONS if one != implementation)}"
        kind = self.transformer.config.model_type
        # Without the package transformers would fetch a kernel, which is foreign code, from the hub.
        if implementation == "flash_attention_2" and importlib.util.find_spec("flash_attn") is None:
            raise SettingsError(f"attn_implementation {implementation!r} needs the package flash-attn; {known}")
        if implementation == "flash_attention_2" and dtype not in ("bfloat16", "float16"):
            raise SettingsError(
                f"attn_implementation {implementation!r} needs dtype bfloat16 or float16, not {dtype!r}"
            )
        try:
            self.transformer.set_attn_implementation(implementation)
        except (ValueError, ImportError, NotImplementedError) as error:
            reason = textwrap.shorten(str(error).strip().partition("\n")[0], 120, placeholder=" ...")
            raise SettingsError(
                f"attn_implementation {implementation!r} does not go with {kind} here ({reason}); {known}"
            ) from error
        if self.transformer.config._attn_implementation != implementation:
            raise SettingsError(f"attn_implementation {implementation!r} does not go with {kind}; {known}")

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        added: Tensor | None = None,
        token_types: Tensor | None = None,
    ) -> Tensor:
        """Encode passages.

        Args:
            input_ids: ``(passages, tokens)``.
            attention_mask: ``(passages, tokens)``, 1 for tokens and 0 for padding.
            added: ``(passages, embedding)``, what is added to the input embeddings of all tokens of a passage.
            token_types: see :meth:`tokens`.

        Returns:
            Passage vectors in fp32, ``(passages, passage size)``.
        """
        tokens = self.tokens(input_ids, attention_mask, added, token_types)
        return self.pool(tokens, attention_mask)

    @property
    def reads_token_types(self) -> bool:
        """Whether the transformer tells the tokens of a second text by an embedding of their own, as BERT does."""
        return int(getattr(self.transformer.config, "type_vocab_size", None) or 0) > 1

    def tokens(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        added: Tensor | None = None,
        token_types: Tensor | None = None,
    ) -> Tensor:
        """Vectors of all tokens, before pooling.

        Args:
            input_ids: see :meth:`forward`.
            attention_mask: see there.
            added: see there.
            token_types: ``(passages, tokens)``, 1 for tokens of a second text; a transformer without such embeddings
                tells the texts by what stands between them.

        Returns:
            ``(passages, tokens, encoder hidden)``.
        """
        inputs = {"input_ids": input_ids}
        if added is not None:
            embeddings = self.transformer.get_input_embeddings()(input_ids)
            inputs = {"inputs_embeds": embeddings + added.unsqueeze(1).to(embeddings.dtype)}
        if token_types is not None and self.reads_token_types:
            inputs["token_type_ids"] = token_types
        with quick_dropout(self.transformer, input_ids.device):
            hidden: Tensor = self.transformer(**inputs, attention_mask=attention_mask).last_hidden_state
        return hidden

    def pool(self, hidden: Tensor, attention_mask: Tensor) -> Tensor:
        """Passage vectors in fp32, ``(passages, passage size)``, of the vectors of their tokens."""
        with torch.autocast(hidden.device.type, enabled=False):
            return self.pooling(hidden, attention_mask)


def pooler_options(config: PreTrainedConfig) -> dict[str, bool]:
    """Options that build the transformer of a configuration without a pooler.

    A pooler's weights would never get a gradient, which stops distributed training.
    """
    model_class: Any = MODEL_MAPPING[type(config)]
    return {"add_pooling_layer": False} if "add_pooling_layer" in inspect.signature(model_class).parameters else {}
