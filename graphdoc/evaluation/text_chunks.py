"""Encoders that see a text in chunks as long as their transformer takes, without sections, passages or graph."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ..checkpoints.configuration import token_limit
from ..checkpoints.tokenizers import segmenter_of
from ..documents.document import Document
from ..documents.section import Section
from ..encoder import DocumentEncoder
from ..inference.precision import Precision
from ..modeling.configuration import DocumentConfig
from ..modeling.document_model import DocumentModel
from ..registry import POOLINGS, load
from ..segmentation.segmenter import Segmenter
from ..segmentation.spans import SegmentedDocument
from ..settings.document import Pooling

TOKEN_LIMIT = "token limit"
# A model that is a transformer alone: no projection, no graph, passage vectors as they are.
_ALONE: dict[str, Any] = {
    "projection_size": None,
    "graph_layers": 0,
    "readout": "mean",
    "similarity": "cosine",
    "max_passages": 1,
}


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

    >>> encoder = first_chunk_encoder("sentence-transformers/all-MiniLM-L6-v2", device="cpu")
    >>> encoder.encode(["Rice is steamed.", "Tides rise."]).shape
    (2, 384)
    """
    encoder = DocumentEncoder.from_backbone(backbone, device=device, dtype=dtype, pooling="cls", **_ALONE)
    encoder.segmenter = TextChunks(encoder, 1)
    encoder.name = f"{Path(backbone).name}, [CLS]"
    return encoder


def chunk_encoder(encoder: DocumentEncoder, pooling: Pooling, most: int | None) -> DocumentEncoder:
    """The transformer of an encoder, its weights and their precision shared, over chunks of a text (SDR, section 4.4).

    Args:
        encoder: the encoder.
        pooling: how the tokens of a chunk become a vector.
        most: chunks that are encoded of a document; None for all.
    """
    config = encoder.model.config
    alone = DocumentConfig(encoder_config=config.encoder_config, pooling=pooling, language=config.language, **_ALONE)
    # Chosen before weights are shared, which choosing it later would change under the encoder.
    encoder.settle_precision()
    with torch.device("meta"):
        model = DocumentModel(alone)
    # The same weights, pooled in another way.
    model.passage_encoder = copy.copy(encoder.model.passage_encoder)
    model.passage_encoder.pooling = load(POOLINGS[pooling])()
    result = copy.copy(encoder)
    result.model, result.name = model.train(False), f"{encoder.name}, chunks"
    result.segmenter = segmenter_of(alone, encoder.tokenizer, result.name)
    result.segmenter = TextChunks(result, most)
    return result


class TextChunks(Segmenter):
    """Cuts the text of a document, across sections, into chunks as long as the encoder's limit.

    Args:
        encoder: the encoder whose tokenizer and limit count.
        most: chunks of a document; None for all.
    """

    def __init__(self, encoder: DocumentEncoder, most: int | None) -> None:
        tokenizer: Any = encoder.tokenizer
        super().__init__(tokenizer, encoder.segmenter.config)
        # Positions of some encoders are counted from 2, which only the tokenizer's limit takes into account.
        self.tokens = min(token_limit(encoder.model.config.encoder_config), tokenizer.model_max_length)
        self.most = most

    def segment_many(self, documents: Iterable[Document]) -> Iterator[SegmentedDocument]:
        """Take the first chunks of every document; what does not fit is counted as left out."""
        for document in documents:
            whole = self.chunks(replace(document, sections=(Section(document.text),)), self.tokens)
            passages, coverage = whole.passages[: self.most], whole.coverage
            characters = sum(passage.end - passage.start for passage in passages)
            rest = coverage.encoded_characters - characters
            yield SegmentedDocument(
                whole.document,
                passages,
                whole.token_ids[: self.most],
                replace(
                    coverage,
                    encoded_characters=characters,
                    encoded_tokens=sum(passage.tokens for passage in passages),
                    encoded_passages=len(passages),
                    left_out={**coverage.left_out, **({TOKEN_LIMIT: rest} if rest else {})},
                ),
            )
