"""Baselines of the papers' tables: encoders of whole chunks of text, and topics of their words."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
import torch
from scipy.sparse import csr_matrix
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.preprocessing import normalize

from graphdoc.checkpoints.backbones import segmenter_of
from graphdoc.checkpoints.contents import token_limit
from graphdoc.documents.document import Document
from graphdoc.documents.section import Section
from graphdoc.encoder import DocumentEncoder
from graphdoc.evaluation.rankers import RankedCorpus, Ranker, Scorer, by_vectors
from graphdoc.inference.pipeline import EncodingOptions
from graphdoc.modeling.configuration import DocumentConfig
from graphdoc.modeling.document_model import DocumentModel
from graphdoc.registry import POOLINGS, load
from graphdoc.runtime.progress import progress_bar
from graphdoc.segmentation.segmenter import Segmenter
from graphdoc.segmentation.spans import SegmentedDocument
from graphdoc.settings.document import Pooling

TOKEN_LIMIT = "token limit"
# A model that is a transformer alone: no projection, no graph, passage vectors as they are.
_ALONE: dict[str, Any] = {
    "projection_size": None,
    "graph_layers": 0,
    "readout": "mean",
    "similarity": "cosine",
    "max_passages": 1,
}


def chunk_encoder(encoder: DocumentEncoder, pooling: Pooling, most: int | None) -> DocumentEncoder:
    """The transformer of an encoder, its weights and their precision shared, over chunks of a text (SDR, section 4.4).

    Args:
        encoder: the encoder.
        pooling: how the tokens of a chunk become a vector.
        most: chunks that are encoded of a document; None for all.
    """
    config = encoder.model.config
    alone = DocumentConfig(encoder_config=config.encoder_config, pooling=pooling, language=config.language, **_ALONE)
    with torch.device("meta"):
        model = DocumentModel(alone)
    # The same weights, pooled in another way.
    model.passage_encoder = copy.copy(encoder.model.passage_encoder)
    model.passage_encoder.pooling = load(POOLINGS[pooling])
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


# Words that topics are made of, of how many documents at least and of what share at most.
_TOPIC_WORDS: dict[str, Any] = {"stop_words": "english", "min_df": 5, "max_df": 0.5, "max_features": 20_000}
_TOPICS, _PRIORS = (20, 50, 100), (None, 0.01)
# Words of a topic that its coherence is measured on.
_TOP_WORDS = 10


def chunk_vectors(
    encoder: DocumentEncoder,
    documents: Iterable[Document],
    pooling: Pooling,
    most: int | None,
    **options: Unpack[EncodingOptions],
) -> np.ndarray:
    """CLS, FIRST and ALL of SDR, section 4.4: means over the tokens of the chunks of a text, or its first token.

    One chunk by ``cls`` is how Graph-RoBERTa takes vectors from RoBERTa, Longformer and BigBird (section 3.2).
    """
    means = []
    one = chunk_encoder(encoder, pooling, most)
    for segmented, vectors in one.stream(documents, level="passage", **options):
        tokens = np.array([len(ids) for ids in segmented.token_ids], np.float64)
        means.append(tokens @ vectors.double().numpy() / tokens.sum())
    return np.stack(means)


def chunks(corpus: RankedCorpus, pooling: Pooling, most: int | None) -> Scorer:
    """Cosine of the vectors of chunks."""
    return by_vectors(
        chunk_vectors(corpus.encoder, corpus.documents, pooling, most, show_progress_bar=corpus.show_progress_bar)
    )


def lda(corpus: RankedCorpus) -> Scorer:
    """Cosine of topics (latent Dirichlet allocation), of the most coherent of several models (SDR, section 4.3)."""
    try:
        counts = CountVectorizer(**_TOPIC_WORDS).fit_transform(corpus.texts)
    except ValueError:
        # Of a few short texts these settings leave no word.
        counts = CountVectorizer().fit_transform(corpus.texts)
    counts = csr_matrix(counts, dtype=np.float64)
    grid = [(topics, prior) for topics in _TOPICS for prior in _PRIORS]
    found = []
    with progress_bar(corpus.show_progress_bar, len(grid), "Finding topics", "models") as bar:
        for topics, prior in grid:
            model = LatentDirichletAllocation(
                topics, doc_topic_prior=prior, learning_method="online", batch_size=256, random_state=0
            )
            vectors = model.fit_transform(counts)
            found.append((npmi(counts, model.components_), vectors))
            bar.update(1)
    return by_vectors(normalize(max(found, key=lambda model: model[0])[1]))


def npmi(counts: csr_matrix, topics: np.ndarray) -> float:
    """Coherence: mean normalized pointwise mutual information of pairs of a topic's best words (Bouma 2009).

    Args:
        counts: ``(documents, words)``.
        topics: ``(topics, words)``, the weight of every word.
    """
    documents = counts.shape[0]
    has = (counts > 0).astype(np.float64).tocsc()
    values = []
    for words in np.argsort(-topics, axis=1, kind="stable")[:, :_TOP_WORDS]:
        together = (has[:, words].T @ has[:, words]).toarray() / documents
        single = together.diagonal()
        first, second = np.triu_indices(len(words), k=1)
        joint, apart = together[first, second], single[first] * single[second]
        with np.errstate(divide="ignore", invalid="ignore"):
            information = np.log(joint / apart) / -np.log(joint)
        # Words that never meet are as far apart as can be; those that are everywhere say nothing of each other.
        values.append(np.where(joint == 0, -1.0, np.where(joint == 1, 0.0, information)))
    return float(np.mean(np.concatenate(values)))


PAPER_RANKERS: dict[str, Ranker] = {
    "lda": lda,
    "cls": lambda corpus: chunks(corpus, "cls", 1),
    "first": lambda corpus: chunks(corpus, "mean", 1),
    "all": lambda corpus: chunks(corpus, "mean", None),
}
