"""Documents ranked by their words: TF-IDF, BM25 and topics."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.preprocessing import normalize

from ...errors import RetrievalError
from ...retrieval.candidates import index_words, word_rows
from ...runtime.progress import progress_bar
from ...similarity.cosine import Floats
from ..baselines import fitted_vectors
from .corpus import RankedCorpus
from .row import Scorer

# Lucene's, which an index has too.
_K1, _B = 1.2, 0.75
# Words that topics are made of, of how many documents at least and of what share at most.
_TOPIC_WORDS: dict[str, Any] = {"stop_words": "english", "min_df": 5, "max_df": 0.5, "max_features": 20_000}
_TOPICS, _PRIORS = (20, 50, 100), (None, 0.01)
# Words of a topic that its coherence is measured on.
_TOP_WORDS = 10


def tf_idf(corpus: RankedCorpus) -> Scorer:
    """Cosine of TF-IDF vectors (see :func:`~graphdoc.evaluation.baselines.fitted_vectors`)."""
    fitted = fitted_vectors(corpus.texts)
    if fitted is None:
        raise RetrievalError("the documents have no words; rank them by vectors or sentences")
    vectors = fitted[1].tocsr()
    return lambda place: _dense(vectors @ vectors[place].T)


def bm25(corpus: RankedCorpus) -> Scorer:
    """BM25 with every word of the source as often as it occurs there, by Lucene's formula (k1 = 1.2, b = 0.75)."""
    counts = _counts(corpus)
    documents = counts.shape[0]
    lengths = np.asarray(counts.sum(axis=1)).ravel()
    having = np.bincount(counts.indices, minlength=counts.shape[1])
    idf = np.log1p((documents - having + 0.5) / (having + 0.5))
    rows = np.repeat(np.arange(documents), np.diff(counts.indptr))
    norms = _K1 * (1 - _B + _B * lengths / max(lengths.mean(), 1e-12))
    data = idf[counts.indices] * counts.data / (counts.data + norms[rows])
    weights = csr_matrix((data, counts.indices, counts.indptr), counts.shape)
    return lambda place: _dense(weights @ counts[place].T)


def telling_words(corpus: RankedCorpus) -> Scorer:
    """BM25 of whole documents, asked with the words that say most about the source, as a search with a document asks.

    Raises:
        MissingExtraError: the store of an index is not installed.
    """
    segmented = corpus.encoder.segmenter.segment_many(corpus.documents)
    index = index_words(map(word_rows, segmented), corpus.encoder.model.config.language)
    ids, count = [document.id for document in corpus.documents], len(corpus)

    def scores(place: int) -> Floats:
        asked = corpus.documents[place]
        found = index.scores(asked, count, by="words", words_unit="document", depth=count)["words"]
        # What has none of the words is not found.
        return np.array([found.get(id, 0.0) for id in ids])

    return scores


def lda(corpus: RankedCorpus) -> Scorer:
    """Cosine of topics (latent Dirichlet allocation), of the most coherent of several models (SDR, section 4.3).

    Coherence is the mean normalised pointwise mutual information of a topic's ten best words within documents.
    """
    counts = _counts(corpus, **_TOPIC_WORDS)
    grid = [(topics, prior) for topics in _TOPICS for prior in _PRIORS]
    best, chosen = -np.inf, None
    with progress_bar(corpus.show_progress, len(grid), "Finding topics", "models") as bar:
        for topics, prior in grid:
            model = LatentDirichletAllocation(
                topics, doc_topic_prior=prior, learning_method="online", batch_size=256, random_state=corpus.seed
            )
            found = model.fit_transform(counts)
            coherence = npmi(counts, model.components_)
            if coherence > best:
                best, chosen = coherence, found
            bar.update(1)
    assert chosen is not None
    vectors = normalize(chosen)
    return lambda place: np.asarray(vectors @ vectors[place])


def npmi(counts: csr_matrix, topics: Floats) -> float:
    """Mean over topics and pairs of their best words of the normalised pointwise mutual information (Bouma 2009).

    Args:
        counts: ``(documents, words)``.
        topics: ``(topics, words)``, the weight of every word.
    """
    documents = counts.shape[0]
    words = np.argsort(-topics, axis=1, kind="stable")[:, :_TOP_WORDS]
    has = (counts > 0).astype(np.float64).tocsc()
    values = []
    for own in words:
        together = (has[:, own].T @ has[:, own]).toarray() / documents
        single = together.diagonal()
        first, second = np.triu_indices(len(own), k=1)
        joint, apart = together[first, second], single[first] * single[second]
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.log(joint / apart) / -np.log(joint)
        # Words that never meet are as far apart as can be; such as are everywhere say nothing of each other.
        values.append(np.where(joint == 0, -1.0, np.where(joint == 1, 0.0, found)))
    return float(np.mean(np.concatenate(values))) if len(np.concatenate(values)) else 0.0


def _counts(corpus: RankedCorpus, **settings: Any) -> csr_matrix:
    for options in (settings, {}):
        try:
            return csr_matrix(CountVectorizer(**options).fit_transform(corpus.texts), dtype=np.float64)
        except ValueError:
            # No word is left of few or short texts.
            continue
    raise RetrievalError("the documents have no words; rank them by vectors or sentences")


def _dense(column: Any) -> Floats:
    return np.asarray(column.todense(), np.float64).ravel()
