"""Ways to rank documents: the searches of an index for texts, and rankers of a corpus for one of its documents."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import get_args

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import CountVectorizer

from ..documents.document import Document
from ..encoder import DocumentEncoder
from ..errors import EvaluationError, RetrievalError, SettingsError
from ..retrieval.fusion import Scores, fused_scores
from ..retrieval.index import DocumentIndex, index_words
from ..retrieval.mining import bm25_weights
from ..retrieval.search import SearchOptions
from ..retrieval.sentences import encode_sentences
from ..runtime.arrays import Floats
from ..runtime.progress import progress_bar
from ..settings.document import Paragraph
from ..similarity.hierarchical import Direction, DocumentScorer, Normalization, SentenceScoring, SentenceSet
from ..similarity.kinds import similarity_matrix, similarity_of
from .baselines import TfidfVectors, text_of
from .measures import DEFAULT_MEASURES
from .ranking import FOLDS, BestWeight, best_weight
from .trec import Qrels, Run, ranked

# Joins two rankers by a weighted sum.
JOINED = "+"

Scorer = Callable[[int], Floats]
"""Gives the scores of all documents, ``(documents,)``, by the place of the query document."""


@dataclass(frozen=True)
class Rankings:
    """Documents ranked for queries in several ways: scores by query id and document id, by ranker.

    ``milliseconds`` is the time of one query, the median of a search and the mean of a ranker of a corpus; ``weights``
    has those of weighted sums.
    """

    runs: Mapping[str, Run]
    milliseconds: Mapping[str, float]
    weights: Mapping[str, BestWeight] = field(default_factory=dict)


# The searches of an index; rows of tables 3 to 5 of Graph-RoBERTa have its names, whatever the model is.
SEARCHES: dict[str, SearchOptions] = {
    "words": {"by": "words", "words_level": "passage"},
    "bm25": {"by": "words", "words_level": "document"},
    "vectors": {"by": "vectors", "vectors_level": "passage"},
    "graph-roberta": {"by": "vectors", "vectors_level": "document"},
    "hybrid": {},
}
# Weighted sums of a search by words and one by vectors, with weights from cross-validation (section 3.3).
WEIGHTED = {"graph-roberta+bm25": ("bm25", "graph-roberta")}


def rank_queries(
    index: DocumentIndex,
    queries: Mapping[str, str],
    qrels: Qrels,
    *,
    top_k: int = 1000,
    measure: str = DEFAULT_MEASURES[0],
    folds: int = FOLDS,
    excluded: Mapping[str, Collection[str]] | None = None,
) -> Rankings:
    """Rank documents for every query by every search of an index, and by words and vectors fused.

    Args:
        index: the documents.
        queries: texts by query id, at least one.
        qrels: grades by query id and document id, which the weight of the fusion is chosen by.
        top_k: documents that are kept of each ranking.
        measure: what the weight makes greatest.
        folds: folds of the cross-validation; where there are fewer queries, there is no ``graph-roberta+bm25``.
        excluded: documents by query id that are taken out before rankings are fused (see
            :func:`~graphdoc.evaluation.trec.source_documents`).
    """
    excluded = excluded or {}
    runs: dict[str, dict[str, Scores]] = {name: {} for name in SEARCHES}
    times: dict[str, list[float]] = {name: [] for name in SEARCHES}
    # What is loaded on first use is no part of a query's time.
    index.scores(next(iter(queries.values())))
    with progress_bar(None, len(queries), "Searching", "queries") as bar:
        for query, text in queries.items():
            # One at a time, as a search does: together, the last digits of vectors would differ.
            start, asked = time.perf_counter(), index.query(text)
            asked.vector()
            encoding = time.perf_counter() - start
            for name, options in SEARCHES.items():
                start = time.perf_counter() - (0.0 if options.get("by") == "words" else encoding)
                scores = index.ranked(asked, top_k, **options)
                times[name].append(time.perf_counter() - start)
                runs[name][query] = {id: score for id, score in scores.items() if id not in excluded.get(query, ())}
            bar.update(1)
    answered = sum(any(grade > 0 for grade in qrels.get(query, {}).values()) for query in queries)
    every: dict[str, Run] = dict(runs)
    weights = {}
    for name, (words, others) in WEIGHTED.items() if answered >= folds else ():
        weights[name] = best_weight(
            runs[words], runs[others], qrels, fused, measure=measure, folds=folds, excluded=excluded
        )
        every[name] = weights[name].run
        times[name] = [sum(parts) for parts in zip(times[words], times[others], strict=True)]
    return Rankings(
        {
            name: {query: {id: scores[id] for id in ranked(scores)[:top_k]} for query, scores in run.items()}
            for name, run in every.items()
        },
        {name: 1000 * float(np.median(times[name])) for name in every},
        weights,
    )


def fused(words: Scores, vectors: Scores, weight: float) -> Scores:
    """A weighted sum of the scores of two rankings, as a search fuses them; vectors have the rest of the weight."""
    return fused_scores({"words": words, "vectors": vectors}, "weighted", {"words": weight, "vectors": 1 - weight})


class RankedCorpus:
    """Documents that are ranked by each other, with what the rankers share, computed once.

    Args:
        documents: the documents, with text and unique ids.
        encoder: gives the model, where a ranker takes one.
        paragraph: which sentences belong together; None for what the model says.
        normalization: see :func:`~graphdoc.similarity.hierarchical.score_documents`, as for ``direction``.
        direction: see there.
        show_progress_bar: show bars; None shows them on a terminal when the work is long.
    """

    def __init__(
        self,
        documents: Sequence[Document],
        encoder: Callable[[], DocumentEncoder],
        *,
        paragraph: Paragraph | None = None,
        normalization: Normalization = "none",
        direction: Direction = "both",
        show_progress_bar: bool | None = None,
    ) -> None:
        self.documents, self._encoder, self._paragraph = documents, encoder, paragraph
        self.normalization, self.direction, self.show_progress_bar = normalization, direction, show_progress_bar
        self.places: dict[str, int] = {}
        for place, document in enumerate(documents):
            if self.places.setdefault(document.id, place) != place:
                raise RetrievalError(f"two documents have the id {document.id!r}; give each its own id")

    @cached_property
    def encoder(self) -> DocumentEncoder:
        """The model."""
        return self._encoder()

    @cached_property
    def texts(self) -> list[str]:
        """Title, headings and text of every document."""
        return [text_of(document) for document in self.documents]

    @cached_property
    def sentences(self) -> SentenceSet:
        """The sentences of all documents."""
        paragraph = self._paragraph or self.encoder.model.config.paragraph
        encoded = encode_sentences(self.encoder, self.documents, paragraph, self.show_progress_bar)
        parts = [(document.vectors, document.places[:, 3]) for document in encoded]
        return SentenceSet.from_vectors(*zip(*parts, strict=True))


def tfidf(corpus: RankedCorpus) -> Scorer:
    """Cosine of TF-IDF vectors (see :class:`~graphdoc.evaluation.baselines.TfidfVectors`)."""
    vectors = TfidfVectors(corpus.texts)
    return lambda place: vectors.scores(vectors.matrix[place])


def bm25(corpus: RankedCorpus) -> Scorer:
    """BM25 with every word of the query document as often as it occurs, by Lucene's formula (k1 = 1.2, b = 0.75)."""
    try:
        counts = csr_matrix(CountVectorizer().fit_transform(corpus.texts), dtype=np.float64)
    except ValueError as error:
        raise RetrievalError("the documents have no words; rank them by vectors or sentences") from error
    weights = bm25_weights(counts)
    return lambda place: np.asarray((weights @ counts[place].T).todense(), np.float64).ravel()


def keywords(corpus: RankedCorpus) -> Scorer:
    """BM25 of whole documents for the 60 best words of the query document, as the first stage of a search does."""
    index = index_words(corpus.encoder.segmenter.segment_many(corpus.documents), corpus.encoder.model.config.language)
    count = len(corpus.documents)

    def scores(place: int) -> Floats:
        hits = index.scores(corpus.documents[place], by="words", words_level="document", depth=count)["words"]
        return np.array([hits.get(id, 0.0) for id in corpus.places])

    return scores


def document_vectors(corpus: RankedCorpus) -> Scorer:
    """The model's own document vectors, compared as the model says."""
    encoder = corpus.encoder
    vectors = encoder.encode(corpus.documents, show_progress_bar=corpus.show_progress_bar)
    return by_vectors(vectors, similarity_of(encoder.model.config.similarity).vector_similarity)


def by_vectors(vectors: np.ndarray, kind: str = "cosine") -> Scorer:
    """Similarity of one vector a document, ``(documents, hidden)``."""
    return lambda place: similarity_matrix(vectors[place : place + 1], vectors, kind)[0]


def by_sentences(corpus: RankedCorpus, by: SentenceScoring) -> Scorer:
    """Scores by sentences (SDR, section 3.3); the query document, with which nothing is compared, gets 0."""
    sentences = corpus.sentences

    def scores(place: int) -> Floats:
        scorer = DocumentScorer(
            sentences.document(place), by=by, normalization=corpus.normalization, direction=corpus.direction
        )
        for first, last in ((0, place), (place + 1, len(sentences))):
            if last > first:
                scorer.add(sentences.part(first, last))
        return np.insert(scorer.scores(), place, 0.0)

    return scores


Ranker = Callable[[RankedCorpus], Scorer]
"""Makes of a corpus what scores its documents."""

RANKERS: dict[str, Ranker] = {
    "tf-idf": tfidf,
    "bm25": bm25,
    "bm25-keywords": keywords,
    "vectors": document_vectors,
    **{name: partial(by_sentences, by=name) for name in get_args(SentenceScoring)},
}
"""By name; ``document``, ``paragraphs``, ``flat`` and ``sentences`` compare sentences
(see :mod:`graphdoc.similarity.hierarchical`)."""
WITHOUT_MODEL = ("tf-idf", "bm25")


def parts_of(names: Sequence[str], rankers: Mapping[str, Ranker] = RANKERS) -> list[str]:
    """The rankers of some names, each once; two may be joined by ``+``.

    Raises:
        SettingsError: a name is unknown.
    """
    parts = list(dict.fromkeys(part for name in names for part in name.split(JOINED, 1)))
    if unknown := [part for part in parts if part not in rankers]:
        raise SettingsError(f"by={unknown[0]!r} is unknown; use one of {', '.join(rankers)}, or two with + between")
    return parts


def rank_documents(
    corpus: RankedCorpus,
    sources: Sequence[str],
    qrels: Qrels,
    names: Sequence[str] = ("tf-idf", "vectors", "flat", "sentences"),
    *,
    rankers: Mapping[str, Ranker] = RANKERS,
    measure: str = DEFAULT_MEASURES[0],
    folds: int = FOLDS,
) -> Rankings:
    """Rank all documents of a corpus by each of some of them.

    A document is no candidate of itself. All others are ranked, so that every relevant one has a rank.

    Args:
        corpus: the documents.
        sources: ids of the query documents.
        qrels: grades by id and id, which the weight is chosen by where two rankers are joined.
        names: names of rankers, or two joined by ``+``, such as ``tf-idf+sentences``: their scores are brought to 0 to
            1 over the candidates and added; k-fold cross-validation chooses the weight of the first.
        rankers: rankers by name.
        measure: what the weight makes greatest.
        folds: folds of the cross-validation.

    Raises:
        EvaluationError: there is one document only, or there are fewer queries than folds.
        SettingsError: the name of a ranker is unknown.
    """
    if len(corpus.documents) < 2:
        raise EvaluationError(f"{len(corpus.documents)} document leaves nothing to rank; give two at least")
    runs: dict[str, Run] = {}
    times: dict[str, float] = {}
    for name in parts_of(names, rankers):
        scorer = rankers[name](corpus)
        run: dict[str, dict[str, float]] = {}
        start = time.perf_counter()
        with progress_bar(corpus.show_progress_bar, len(sources), f"Ranking by {name}", "documents") as bar:
            for source in sources:
                run[source] = dict(zip(corpus.places, scorer(corpus.places[source]).tolist(), strict=True))
                del run[source][source]
                bar.update(1)
        runs[name], times[name] = run, 1000 * (time.perf_counter() - start) / len(sources)
    weights = {}
    for name in names:
        if JOINED in name:
            first, second = name.split(JOINED, 1)
            weights[name] = best_weight(runs[first], runs[second], qrels, fused, measure=measure, folds=folds)
            runs[name], times[name] = weights[name].run, times[first] + times[second]
    return Rankings({name: runs[name] for name in names}, {name: times[name] for name in names}, weights)
