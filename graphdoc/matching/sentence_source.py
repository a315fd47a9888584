"""Vectors of sentences by which subtopics are found, by a model of its own that is not trained along."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ..checkpoints.folders import name_of
from ..checkpoints.load import load_checkpoint
from ..documents.document import Document
from ..documents.section import Section
from ..inference.pipeline import EncodingPipeline
from ..inference.vectors import encode_queries
from ..modeling.document_model import weights_hash
from ..settings.views import DEFAULT_SUBTOPIC_MODEL
from ..subtopics.ways import SubtopicFinder

Vectors = npt.NDArray[np.float32]


class SentenceFeatures:
    """Makes what subtopics are found by, of the sentences of a document.

    Args:
        finder: what finds subtopics; where it reads vectors, the model for them is loaded.
        model: name or folder of that model; None for the usual one.
        device: where that model runs.

    Attributes:
        identity: what subtopics depend on beside the settings: a hash of the model's weights, or nothing.

    Raises:
        ModelError: there is no such model.
    """

    def __init__(self, finder: SubtopicFinder, model: str | Path | None, device: torch.device) -> None:
        self._finder = finder
        self._source: EncodingPipeline | None = None
        self.identity = finder.identity
        if finder.reads_vectors:
            name = DEFAULT_SUBTOPIC_MODEL if model is None else model
            loaded, tokenizer = load_checkpoint(name)
            self.identity = weights_hash(loaded.state_dict())
            self._source = EncodingPipeline(loaded, tokenizer, name=name_of(name), device=device)

    def __call__(self, texts: Sequence[str]) -> Any:
        """The features of some sentences."""
        vectors = None if self._source is None else sentence_features(self._source, texts)
        return self._finder.features(texts, vectors)


def sentence_features(source: EncodingPipeline, texts: Sequence[str]) -> Vectors:
    """Vectors of sentences, each by itself, ``(sentences, hidden)``; one without a letter or digit has zeros.

    Args:
        source: the model.
        texts: the sentences.
    """
    vectors = np.zeros((len(texts), source.hidden_size), np.float32)
    written = [number for number, text in enumerate(texts) if any(map(str.isalnum, text))]
    if written:
        documents = [Document(str(number), (Section(texts[number]),)) for number in written]
        vectors[written] = encode_queries(source, documents).numpy()
    return vectors
