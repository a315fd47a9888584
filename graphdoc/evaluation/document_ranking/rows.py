"""The ways to rank documents by one of them, by name, and the rankings that they give."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ...errors import EvaluationError, SettingsError
from ...runtime.progress import progress_bar
from ...runtime.text import require_one_of
from ...similarity.hierarchical import By
from ..fusion_weight import FOLDS, BestWeight, best_weight
from ..ranking import DEFAULT_MEASURES
from ..rankings import weighted
from ..trec import Qrels, Run
from .corpus import RankedCorpus
from .row import Row, Scorer
from .sentences import by_sentences
from .vectors import all_chunks, document_vectors, first_chunk, first_token
from .words import bm25, lda, telling_words, tf_idf


def _sentences(by: By, explained: str) -> Row:
    return Row(partial(by_sentences, by=by), explained)


ROWS: dict[str, Row] = {
    "tf-idf": Row(tf_idf, "cosine of TF-IDF vectors of whole texts", is_lexical=True, needs_model=False),
    "bm25": Row(bm25, "BM25 of whole texts, asked with all words", is_lexical=True, needs_model=False),
    "words-documents": Row(telling_words, "BM25 of whole documents, asked as a search asks", is_lexical=True),
    "lda": Row(lda, "cosine of topics, of the most coherent of six models", is_lexical=True, needs_model=False),
    "cls": Row(first_token, "vector of the first token of the first chunk"),
    "first": Row(first_chunk, "mean over the tokens of the first chunk"),
    "all": Row(all_chunks, "mean over the tokens of all chunks"),
    "vectors": Row(document_vectors, "the model's document vectors"),
    "document": _sentences("document", "mean of the vectors of all sentences"),
    "paragraphs": _sentences("paragraphs", "best paragraphs, each the mean of its sentences"),
    "flat": _sentences("flat", "best sentences of the whole document"),
    "sentences": _sentences("sentences", "best paragraphs by their best sentences (SDR)"),
}
# What joins a way by words with another, by a weighted sum.
JOINED = "+"


@dataclass(frozen=True)
class DocumentRankings:
    """Documents ranked by others in several ways.

    Args:
        runs: scores by id of the document that is asked with, and id; by way.
        milliseconds: time of one source on average, without what is made of the corpus once; by way.
        weights: how the weight of words was chosen, by way that joins two.
    """

    runs: Mapping[str, Run]
    milliseconds: Mapping[str, float]
    weights: Mapping[str, BestWeight] = field(default_factory=dict)


def require_rows(names: Sequence[str]) -> None:
    """Refuse names of ways that there are not.

    Raises:
        SettingsError: a name is unknown, or two are joined of which the first does not go by words.
    """
    if not names:
        raise SettingsError(f"no row is named; use one of {', '.join(ROWS)}")
    for name in names:
        first, *others = name.split(JOINED)
        for part in (first, *others):
            require_one_of("by", part, tuple(ROWS))
        if len(others) > 1 or (others and (not ROWS[first].is_lexical or others[0] == first)):
            lexical = [other for other, row in ROWS.items() if row.is_lexical]
            raise SettingsError(
                f"by={name!r} joins what cannot be joined; put one of {', '.join(lexical)} before the +, and another "
                "row after it"
            )


def rank_documents(
    corpus: RankedCorpus,
    sources: Sequence[str],
    qrels: Qrels,
    names: Sequence[str] = ("tf-idf", "vectors", "flat", "sentences"),
    *,
    measure: str = DEFAULT_MEASURES[0],
    folds: int = FOLDS,
    seed: int = 0,
) -> DocumentRankings:
    """Rank all documents of a corpus by each of some of them.

    A document is no candidate of itself. All others are ranked, so that every relevant one has a rank.

    Args:
        corpus: the documents.
        sources: ids of the documents that are asked with.
        qrels: grades by id and id, which the weight of words is chosen by where two ways are joined.
        names: names of the ways (see ``ROWS``), or of two joined by ``+``, the first of which goes by words, such as
            ``tf-idf+sentences``: their scores are brought to 0 to 1 over the candidates and added, with weights from
            k-fold cross-validation.
        measure: what the weight makes greatest.
        folds: folds of the cross-validation.
        seed: draws the folds.

    Raises:
        EvaluationError: there is one document only, an id is unknown, or there are fewer queries than folds.
        SettingsError: the name of a way is unknown.
        DocumentError: a document has no text.
    """
    require_rows(names)
    if len(corpus) < 2:
        raise EvaluationError(f"{len(corpus)} document leaves nothing to rank; give two at least")
    unknown = [id for id in sources if id not in corpus.places]
    if unknown:
        raise EvaluationError(f"{len(unknown):,} documents, such as {unknown[0]!r}, are not in the corpus")
    single = dict.fromkeys(part for name in names for part in name.split(JOINED))
    found: dict[str, Run] = {}
    times: dict[str, float] = {}
    for name in single:
        found[name], times[name] = _run(corpus, sources, name, ROWS[name].prepare(corpus))
    weights = {}
    for name in names:
        if JOINED in name:
            words, other = name.split(JOINED)
            weights[name] = best_weight(
                found[words], found[other], qrels, weighted, measure=measure, folds=folds, seed=seed
            )
            found[name], times[name] = weights[name].run, times[words] + times[other]
    return DocumentRankings({name: found[name] for name in names}, {name: times[name] for name in names}, weights)


def _run(corpus: RankedCorpus, sources: Sequence[str], name: str, scorer: Scorer) -> tuple[Run, float]:
    ids = np.array([document.id for document in corpus.documents], object)
    run: dict[str, dict[str, float]] = {}
    start = time.perf_counter()
    with progress_bar(corpus.show_progress, len(sources), f"Ranking by {name}", "documents") as bar:
        for source in sources:
            scores = dict(zip(ids.tolist(), scorer(corpus.places[source]).tolist(), strict=True))
            del scores[source]
            run[source] = scores
            bar.update(1)
    return run, 1000 * (time.perf_counter() - start) / len(sources)
