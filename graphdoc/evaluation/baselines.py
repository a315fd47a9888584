"""What a trained model is held against: its own backbone untrained, and the [CLS] vector of a long-input encoder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ..checkpoints.loading import token_limit
from ..documents.document import Document
from ..documents.section import Section
from ..encoder import DocumentEncoder
from ..errors import ModelError
from ..inference.precision import Precision
from ..segmentation.segmenter import Segmenter
from ..segmentation.spans import SegmentedDocument

TOKEN_LIMIT = "token limit"
# What the vectors of a model without trained parts depend on, besides its backbone.
_KEPT = ("pooling", "unit", "passage_words", "passage_tokens", "max_passages", "language")


def untrained_mean(
    encoder: DocumentEncoder,
    backbone: str | Path | None = None,
    *,
    device: str | torch.device | None = None,
    dtype: Precision = "float32",
) -> DocumentEncoder:
    """The backbone of a model as it was before training, with a mean over unit-length passage vectors.

    Passages, pooling and limits are the model's own; there is no projection and no graph.

    Args:
        encoder: the model.
        backbone: name or folder of the backbone, if it is not found under the name that the model knows.
        device: where it runs; None takes an accelerator when there is one.
        dtype: precision of the transformer's weights.

    Raises:
        ModelError: the backbone cannot be found.
    """
    config = encoder.model.config
    source = backbone or config.backbone
    if not source:
        raise ModelError(f"{encoder.name} does not say what its backbone is; name one")
    found = DocumentEncoder.from_backbone(
        source,
        device=device,
        dtype=dtype,
        projection_size=None,
        normalize_passages=True,
        graph_layers=0,
        readout="mean",
        similarity="cosine",
        **{name: getattr(config, name) for name in _KEPT},
    )
    found.name = f"{Path(source).name}, untrained mean"
    return found


def is_same_model(a: DocumentEncoder, b: DocumentEncoder) -> bool:
    """Whether two encoders give the same vectors: the same settings and the same weights."""
    described, other = a.describe(), b.describe()
    if described.keys() != other.keys():
        return False
    ignored = {"name", "trained", "backbone"}
    # A graph plays no part where there are no layers, or where vectors are read off before them.
    if _is_mean(a) and _is_mean(b):
        ignored |= {"readout", "graph_kind", "window", "graph_layers", "graph_heads"}
    elif not a.model.config.graph_layers:
        ignored |= {"graph_kind", "window", "graph_heads"}
    if type(a.segmenter) is not type(b.segmenter) or any(
        described[key] != other[key] for key in described if key not in ignored
    ):
        return False
    left, right = (
        {
            key: weight
            for key, weight in one.model.state_dict().items()
            if not (_is_mean(one) and key.startswith("graph."))
        }
        for one in (a, b)
    )
    return left.keys() == right.keys() and all(torch.equal(left[key].cpu(), right[key].cpu()) for key in left)


def has_same_passage_vectors(a: DocumentEncoder, b: DocumentEncoder) -> bool:
    """Whether the passage encoders of two encoders give the same vectors for the same passages of a document."""
    if any(one.model.structural_embeddings is not None for one in (a, b)):
        return False
    if type(a.segmenter) is not type(b.segmenter) or a.segmenter.config != b.segmenter.config:
        return False
    if a.model.config.pooling != b.model.config.pooling or a.tokenizer.get_vocab() != b.tokenizer.get_vocab():
        return False
    left, right = (one.model.passage_encoder.state_dict() for one in (a, b))
    return left.keys() == right.keys() and all(torch.equal(left[key].cpu(), right[key].cpu()) for key in left)


def _is_mean(encoder: DocumentEncoder) -> bool:
    """Whether document vectors are the mean of passages that no graph has seen."""
    config = encoder.model.config
    return encoder.model.reads_initial_nodes or (config.readout == "mean" and not config.graph_layers)


def first_chunk_encoder(
    backbone: str | Path, *, device: str | torch.device | None = None, dtype: Precision = "float32"
) -> DocumentEncoder:
    """An encoder whose document vector is that of the first token over as much text as fits into one pass.

    This is how the paper takes vectors from RoBERTa (512 tokens), Longformer and BigBird (4,096 tokens); section 3.2.

    Args:
        backbone: name or folder of any transformers encoder.
        device: where it runs; None takes an accelerator when there is one.
        dtype: precision of the transformer's weights.

    Raises:
        ModelError: the backbone cannot be found.
    """
    encoder = DocumentEncoder.from_backbone(
        backbone,
        device=device,
        dtype=dtype,
        pooling="cls",
        projection_size=None,
        graph_layers=0,
        readout="mean",
        similarity="cosine",
        max_passages=1,
    )
    encoder.segmenter = FirstChunk(encoder)
    encoder.name = f"{Path(backbone).name}, [CLS]"
    return encoder


class FirstChunk(Segmenter):
    """Takes the text of a document up to the encoder's limit as its only passage, across sections.

    Args:
        encoder: the encoder whose tokenizer and limit count.
    """

    def __init__(self, encoder: DocumentEncoder) -> None:
        tokenizer: Any = encoder.tokenizer
        super().__init__(tokenizer, encoder.segmenter.config)
        # Positions of some encoders are counted from 2, which only the tokenizer's limit takes into account.
        self.tokens = min(token_limit(encoder.model.config.encoder_config), tokenizer.model_max_length)

    def segment_many(self, documents: Iterable[Document]) -> Iterator[SegmentedDocument]:
        """Take the first chunk of every document; what does not fit is counted as left out."""
        for document in documents:
            whole = self.chunks(replace(document, sections=(Section(document.text),)), self.tokens)
            passages, coverage = whole.passages[:1], whole.coverage
            characters = sum(passage.end - passage.start for passage in passages)
            rest = coverage.encoded_characters - characters
            yield SegmentedDocument(
                whole.document,
                passages,
                whole.token_ids[:1],
                replace(
                    coverage,
                    encoded_characters=characters,
                    encoded_tokens=sum(passage.tokens for passage in passages),
                    encoded_passages=len(passages),
                    left_out={**coverage.left_out, **({TOKEN_LIMIT: rest} if rest else {})},
                ),
            )
