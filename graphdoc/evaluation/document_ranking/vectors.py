"""Documents ranked by one vector each."""

from __future__ import annotations

import numpy as np

from ...similarity.cosine import similarity_matrix
from ..text_chunks import chunk_encoder
from .corpus import RankedCorpus
from .row import Scorer


def document_vectors(corpus: RankedCorpus) -> Scorer:
    """The model's own document vectors, compared as the model says."""
    encoder = corpus.encoder
    vectors = encoder.encode(corpus.documents, show_progress=corpus.show_progress)
    return _compared(vectors, encoder.model.config.vector_similarity)


def first_token(corpus: RankedCorpus) -> Scorer:
    """CLS of SDR, section 4.4: the vector of the first token over as much text as the transformer takes at once."""
    encoder = chunk_encoder(corpus.encoder, "cls", 1)
    return _compared(encoder.encode(corpus.documents, show_progress=corpus.show_progress))


def first_chunk(corpus: RankedCorpus) -> Scorer:
    """FIRST of SDR, section 4.4: the mean over the tokens that the transformer takes at once."""
    encoder = chunk_encoder(corpus.encoder, "mean", 1)
    return _compared(encoder.encode(corpus.documents, show_progress=corpus.show_progress))


def all_chunks(corpus: RankedCorpus) -> Scorer:
    """ALL of SDR, section 4.4: the mean over the tokens of all chunks of a text."""
    encoder = chunk_encoder(corpus.encoder, "mean", None)
    means = []
    found = encoder.stream(corpus.documents, level="passage", show_progress=corpus.show_progress)
    for segmented, vectors in found:
        tokens = np.array([len(one) for one in segmented.token_ids], np.float64)
        means.append(tokens @ vectors.double().numpy() / tokens.sum())
    return _compared(np.stack(means))


def _compared(vectors: np.ndarray, kind: str = "cosine") -> Scorer:
    return lambda place: similarity_matrix(vectors[place : place + 1], vectors, kind)[0]
