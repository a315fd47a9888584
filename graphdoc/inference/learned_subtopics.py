"""Subtopics as a model has learned to find them (SST, section 3.2, "Adaptive Clustering")."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch

from ..checkpoints.folders import name_of
from ..checkpoints.load import load_checkpoint
from ..errors import ModelError, SettingsError
from ..graphs.batch import GraphBatch
from ..losses.clustering import assignment
from ..modeling.document_model import weights_hash
from ..registry import SUBTOPICS, load
from ..runtime.arrays import Floats, Vectors
from ..segmentation.segmenter import Segmenter
from ..segmentation.spans import short_token_ids
from ..subtopics.subtopics import (
    SubtopicFinder,
    Subtopics,
    columns_of,
    number_of_subtopics,
    pair_graphs,
    vector_similarity,
)
from .levels import sentence_segmenter
from .pipeline import EncodingPipeline
from .precision import as_numpy, inference, require_finite

logger = logging.getLogger(__name__)


class AdaptiveSubtopics(SubtopicFinder):
    """Finds subtopics with a model that ``graphdoc finetune subtopics`` has trained.

    Sentences are encoded by the model's own passage encoder. A sentence is in the subtopic that it belongs to most;
    subtopics without sentences are left out.
    """

    reads_model = True

    def __init__(self, pipeline: EncodingPipeline) -> None:
        settings = pipeline.model.config.clustering
        if settings is None:
            raise ModelError(
                f"{pipeline.name} has not learned to find subtopics; train a model by graphdoc finetune subtopics, or "
                "find them by vectors or words"
            )
        self._pipeline, self.settings = pipeline, settings
        self._has_warned = False

    @classmethod
    def make(cls, language: str, model: str | Path | None = None) -> Self:
        """A finder with a model; the language does not matter."""
        assert model is not None
        loaded, tokenizer = load_checkpoint(model)
        return cls(EncodingPipeline(loaded, tokenizer, name=name_of(model)))

    @property
    def identity(self) -> str:
        """Hash of the model's weights."""
        return weights_hash(self._pipeline.model.state_dict())

    @property
    def segmenter(self) -> Segmenter:
        """Cuts documents into sentences as the model reads them."""
        return sentence_segmenter(self._pipeline, with_context=False)

    def features(self, texts: Sequence[str], vectors: npt.NDArray[np.floating[Any]] | None = None) -> Vectors:
        """Vectors of sentences by the model's own passage encoder, ``(sentences, encoder hidden)``."""
        model = self._pipeline.model
        if not len(texts):
            return np.empty((0, model.config.passage_size), np.float32)
        tokens = short_token_ids(self._pipeline.tokenizer, texts, model.config.passage_tokens)
        with inference(model):
            encoded = model.encode_passages(GraphBatch.from_passages(tuple(tokens)))
        require_finite(encoded)
        return as_numpy(encoded)

    def similarity(self, first: Vectors, second: Vectors) -> Floats:
        """Cosines of the nearest, as the model's graph has them."""
        return vector_similarity(np.concatenate([first, second]), self.settings.neighbours)

    def assignments(self, first: Vectors, second: Vectors, *, cluster_size: int | None = None) -> Floats:
        """How much every sentence belongs to every subtopic, ``(sentences, subtopics)``; rows add up to 1."""
        sentences, most = len(first) + len(second), self.settings.columns
        wanted = number_of_subtopics(sentences, cluster_size or self.settings.cluster_size)
        if wanted > most and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "%d sentences would make %d subtopics, and %s knows %d at most, which they are put into; give a "
                "smaller receptive_field (it was trained on %d sentences of a document) or a larger cluster_size",
                *(sentences, wanted, self._pipeline.name, most, self.settings.receptive_field),
            )
        columns = columns_of(sentences, self.settings, cluster_size)
        if columns < 2:
            return np.ones((sentences, columns))
        model = self._pipeline.model
        batch = pair_graphs([(first, second)], self.settings.neighbours).to(self._pipeline.device)
        with inference(model):
            assert batch.passage_vectors is not None
            logits = model.encode_graphs(batch.passage_vectors, batch).subtopics
        assert logits is not None
        require_finite(logits)
        shares = assignment(logits, torch.full((sentences,), columns, device=logits.device))
        return np.asarray(shares[:, :columns].double().cpu().numpy())

    def find(self, first: Vectors, second: Vectors, *, cluster_size: int = 6, seed: int = 0) -> Subtopics:
        """Find the subtopics of a pair; nothing in it is random."""
        shares = self.assignments(first, second, cluster_size=cluster_size)
        return Subtopics.from_labels(shares.argmax(axis=1) if shares.size else np.zeros(0, np.int64), len(first))


def subtopic_finder(name: str, language: str, model: str | Path | None = None) -> SubtopicFinder:
    """The way to find subtopics of a name: ``words``, ``vectors`` or ``adaptive``, which alone reads the model.

    Raises:
        ModelError: there is no such model, or it has not learned that.
        SettingsError: there is no such way, or it needs a model.
    """
    if name not in SUBTOPICS:
        raise SettingsError(f"subtopics={name!r} is unknown; use one of {', '.join(SUBTOPICS)}")
    kind: type[SubtopicFinder] = load(SUBTOPICS[name])
    if kind.reads_model and model is None:
        raise SettingsError(
            f"subtopics={name!r} needs a model that has learned to find them; give its folder as subtopic_model, on "
            "the command line --subtopics MODEL (graphdoc finetune subtopics trains one)"
        )
    return kind.make(language, model)
