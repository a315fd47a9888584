"""Heads: classification, subtopics, and predicting masked tokens."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.activations import ACT2FN
from transformers.modeling_outputs import BaseModelOutput

from ..errors import SettingsError
from ..graphs.batch import BatchTerms, NodeRows
from .readouts import mean_by_group

# Lower bound of the variance, so that sentences that are all the same are not divided by zero.
SMALLEST_VARIANCE = 1e-12


class ClassificationHead(nn.Module):
    r"""Separates classes by document vectors (Graph-RoBERTa, section 3.2, "End-to-end Classification").

    .. math::
        z = W \, \mathrm{dropout}(d) + U w + b

    One linear layer on the vector :math:`d` that the readout gives, so that a logit is a sum over whatever the vector
    is a sum of, and one on the tf-idf weights :math:`w` of the document's terms where the head reads words too. With a
    single label probabilities are the softmax over the logits, with several the sigmoid of each. ``words`` are the
    terms of the lexical part; 0 for a head that does not read them.
    """

    def __init__(self, width: int, classes: int, dropout: float = 0.1, words: int = 0) -> None:
        super().__init__()
        if not 0 <= dropout < 1:
            raise SettingsError(f"classifier_dropout={dropout!r} must be a number of at least 0 and below 1")
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(width, classes)
        self.words = nn.EmbeddingBag(words, classes, mode="sum") if words else None

    def forward(self, documents: Tensor, words: BatchTerms | None = None) -> Tensor | None:
        """Logits, ``(documents, classes)``, of ``(documents, width)``; None where words are read and not known."""
        logits: Tensor = self.linear(self.dropout(documents))
        if self.words is None:
            return logits
        if words is None:
            return None
        read: Tensor = self.words(words.terms, words.starts, per_sample_weights=words.weights)
        return logits + read


class SubtopicHead(nn.Module):
    r"""Puts the sentences of a pair of documents into subtopics (SST, section 3.2).

    .. math::
        z_i = W \frac{v_i - \bar{v}}{\sigma} + b, \quad \bar{v} = \frac{1}{n} \sum_j v_j, \quad
        \sigma^2 = \frac{1}{n w} \sum_j \Vert v_j - \bar{v} \Vert^2

    What all :math:`n` sentences of a pair have in common is taken off, and what is left is scaled over their width
    :math:`w`: from assignments that are nearly even, modularity has no gradient to begin with. The head has one width
    for all pairs; a pair of fewer subtopics leaves the last columns out.
    """

    def __init__(self, width: int, columns: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, columns)

    def forward(self, sentences: Tensor, rows: NodeRows) -> Tensor:
        """Logits, ``(sentences, columns)``, of sentences after the graph, ``(sentences, width)``, pair after pair."""
        centred = sentences - mean_by_group(sentences, rows.document_of, rows.counts).index_select(0, rows.document_of)
        squares = centred.square().mean(dim=1, keepdim=True)
        variance = mean_by_group(squares, rows.document_of, rows.counts).clamp(min=SMALLEST_VARIANCE)
        logits: Tensor = self.linear(centred * variance.rsqrt().index_select(0, rows.document_of))
        return logits


# Standard deviation of new weights where the transformer names none, as in BERT and RoBERTa.
SPREAD = 0.02


class NewHead(nn.Module):
    """An untrained head of RoBERTa's form, whose last layer is the transformer's table of input embeddings."""

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
        """Logits, ``(masked, vocabulary)``, of the tokens at masked places, ``(masked, encoder hidden)``."""
        logits: Tensor = self.decoder(self.layer_norm(self.activation(self.dense(tokens))))
        return logits


class PretrainedHead(nn.Module):
    """The head of a language model of transformers, whatever its layers are, taken off the transformer below it.

    Its last layer shares the table of input embeddings with the transformer that it reads, where it did with its own.

    Raises:
        ValueError: they do not fit each other.
    """

    def __init__(self, language_model: PreTrainedModel, transformer: PreTrainedModel) -> None:
        super().__init__()
        tied = cast(nn.Embedding, language_model.get_input_embeddings()).weight
        embeddings = cast(nn.Embedding, transformer.get_input_embeddings()).weight
        decoder = language_model.get_output_embeddings()
        if decoder is None or tied.shape != embeddings.shape:
            raise ValueError(f"embeddings are {tuple(tied.shape)}, not {tuple(embeddings.shape)}")
        if decoder.weight is tied:
            decoder.weight = cast(nn.Parameter, embeddings)
        setattr(language_model, language_model.base_model_prefix, _Given())
        self.language_model = language_model

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the vocabulary, as :meth:`NewHead.forward` gives them."""
        logits: Tensor = self.language_model(tokens.unsqueeze(0)).logits
        return logits.squeeze(0)


class _Given(nn.Module):
    """Stands where a transformer was, and gives the vectors of tokens that came in the place of their ids."""

    def forward(self, input_ids: Tensor, *_: Any, **__: Any) -> BaseModelOutput:
        return BaseModelOutput(last_hidden_state=input_ids)
