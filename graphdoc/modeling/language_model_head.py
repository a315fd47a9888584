"""Heads that say which token stands at a masked place."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.activations import ACT2FN
from transformers.modeling_outputs import BaseModelOutput

# Standard deviation of new weights where the transformer names none, as in BERT and RoBERTa.
SPREAD = 0.02


class LanguageModelHead(nn.Module, ABC):
    """Turns vectors of tokens into logits of the vocabulary; its last layer may be the table of input embeddings."""

    @abstractmethod
    def forward(self, tokens: Tensor) -> Tensor:
        """Compute logits.

        Args:
            tokens: ``(masked, encoder hidden)``, vectors of the tokens at masked places alone.

        Returns:
            ``(masked, vocabulary)``.
        """


class NewHead(LanguageModelHead):
    """An untrained head of RoBERTa's form, whose last layer is the table of input embeddings.

    Args:
        transformer: the transformer that it reads, whose embeddings it shares.
    """

    def __init__(self, transformer: PreTrainedModel) -> None:
        super().__init__()
        config: Any = transformer.config
        embeddings = cast(nn.Embedding, transformer.get_input_embeddings())
        vocabulary, width = embeddings.weight.shape
        self.dense = nn.Linear(config.hidden_size, width)
        self.activation = ACT2FN["gelu"]
        self.layer_norm = nn.LayerNorm(width)
        self.decoder = nn.Linear(width, vocabulary, device="meta")
        self.decoder.weight = embeddings.weight
        self.decoder.bias = nn.Parameter(torch.zeros(vocabulary))
        nn.init.normal_(self.dense.weight, std=getattr(config, "initializer_range", SPREAD))
        nn.init.zeros_(self.dense.bias)

    def forward(self, tokens: Tensor) -> Tensor:
        """Compute logits; see :class:`LanguageModelHead`."""
        logits: Tensor = self.decoder(self.layer_norm(self.activation(self.dense(tokens))))
        return logits


class PretrainedHead(LanguageModelHead):
    """The head of a language model of transformers, whatever its layers are.

    Its last layer shares the table of input embeddings with the transformer that it reads, where it did with its own.

    Args:
        language_model: the language model, whose transformer is taken out of it.
        transformer: the transformer that it reads.

    Raises:
        ValueError: they do not fit each other.
    """

    def __init__(self, language_model: PreTrainedModel, transformer: PreTrainedModel) -> None:
        super().__init__()
        own = cast(nn.Embedding, language_model.get_input_embeddings()).weight
        embeddings = cast(nn.Embedding, transformer.get_input_embeddings()).weight
        decoder = language_model.get_output_embeddings()
        if decoder is None or own.shape != embeddings.shape:
            raise ValueError(f"embeddings are {tuple(own.shape)}, not {tuple(embeddings.shape)}")
        if decoder.weight is own:
            decoder.weight = cast(nn.Parameter, embeddings)
        setattr(language_model, language_model.base_model_prefix, _Given())
        self.language_model = language_model

    def forward(self, tokens: Tensor) -> Tensor:
        """Compute logits; see :class:`LanguageModelHead`."""
        logits: Tensor = self.language_model(tokens.unsqueeze(0)).logits
        return logits.squeeze(0)


class _Given(nn.Module):
    """Stands where a transformer was, and gives the vectors of tokens that came in the place of their ids."""

    def forward(self, input_ids: Tensor, *_: Any, **__: Any) -> BaseModelOutput:
        return BaseModelOutput(last_hidden_state=input_ids)
