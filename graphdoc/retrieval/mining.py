"""Negatives are mined: candidates by words and by vectors, without what may answer the query after all."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_matrix
from torch import Tensor
from torch.nn.functional import normalize

from ..errors import RetrievalError, SettingsError
from ..runtime.progress import progress_bar
from ..runtime.text import described, require_one_of, require_whole
from ..segmentation.spans import SegmentedDocument
from ..segmentation.terms import TermMaker
from ..similarity.encoded_document import EncodedDocument
from .fusion import Ranking, Scores, fused_scores
from .index import DocumentIndex
from .lance import DOCUMENT, Candidates, LanceStore
from .negatives import CLOSE, JUDGED, REASONS, SIMILAR, NegativeLists
from .table import (
    DOCUMENT_COLUMNS,
    FORMAT,
    FORMAT_VERSION,
    Fields,
    document_of,
    headings_above,
    rows_of,
    schema_of,
    table_of,
    text_hash,
    vectors_of,
)
from .terms import word_settings

Rows = npt.NDArray[np.int64]
Vectors = npt.NDArray[np.float32]
Ranker = Literal["words", "vectors", "both"]
# Gives the scores of documents for the query of an id, those of its positives among them.
WordScores = Callable[[str, Sequence[str]], Scores]

# Documents that are compared with some queries at once, queries at most, and scores that are held, 4 bytes each.
_BLOCK, _QUERIES, _MOST_SCORES = 16_384, 256, 2**26
# Documents wanted of a word search for one negative, since some of those found are none.
_FOUND_PER_NEGATIVE = 2
# Positives whose scores are asked for at once, and documents that are written to an index of words at once.
_POSITIVES, _WRITTEN = 500, 2_000
# Passages that a search takes at least, as an index does; k1 and b of BM25 are Lucene's.
_FEWEST_PASSAGES, K1, B = 1_000, 1.2, 0.75


@dataclass(frozen=True, eq=False)
class MinedDocuments:
    """The documents among which negatives are looked for.

    Args:
        ids: their ids.
        groups: ``(documents,)``, equal numbers for documents of the same text.
        vectors: ``(documents, hidden)``, their vectors, held or mapped; None where there are none.
        similarity: ``cosine`` or ``dot``, the measure by which the model compares.
    """

    ids: Sequence[str]
    groups: Rows
    vectors: Vectors | None = None
    similarity: str = "cosine"

    def __post_init__(self) -> None:
        if len(self.rows) < len(self.ids):
            twice = next(id for id, count in Counter(self.ids).items() if count > 1)
            raise RetrievalError(f"two documents have the id {twice!r}; give each its own to mine negatives")

    @cached_property
    def rows(self) -> dict[str, int]:
        """Places of the documents by id."""
        return {id: row for row, id in enumerate(self.ids)}

    def rows_of(self, ids: Collection[str]) -> Rows:
        """Places of those documents that are there, each once."""
        return np.array(sorted({self.rows[id] for id in ids if id in self.rows}), np.int64)

    @cached_property
    def order(self) -> Rows:
        """The place of every document among the ids in order, by which ties are broken, ``(documents,)``."""
        return np.argsort(sorted(range(len(self.ids)), key=self.ids.__getitem__))

    def similarities(self, queries: Vectors, device: torch.device | str = "cpu") -> Vectors:
        """Similarities of all documents to queries, ``(queries, documents)``, computed in blocks of documents."""
        assert self.vectors is not None
        scores = np.empty((len(queries), len(self.ids)), np.float32)
        query = self._compared(queries).to(device)
        for start in range(0, len(self.ids), _BLOCK):
            block = self._compared(self.vectors[start : start + _BLOCK]).to(device)
            scores[:, start : start + _BLOCK] = (query @ block.T).cpu().numpy()
        return scores

    def _compared(self, vectors: Vectors) -> Tensor:
        rows = torch.from_numpy(np.array(vectors, np.float32))
        return normalize(rows, dim=-1) if self.similarity == "cosine" else rows

    def is_similar(self, rows: Rows, positives: Rows, bound: float | None) -> npt.NDArray[np.bool_]:
        """Which documents are copies or near-duplicates of a positive, ``(rows,)``."""
        similar = np.isin(self.groups[rows], self.groups[positives])
        if bound is not None and self.vectors is not None and len(rows):
            units, others = (normalize(torch.from_numpy(np.array(self.vectors[some]))) for some in (rows, positives))
            similar |= (units @ others.T).amax(dim=1).numpy() > bound
        return similar


@dataclass(frozen=True, slots=True)
class MiningSettings:
    """How negatives are mined.

    Args:
        by: candidates by ``words`` (BM25), by ``vectors`` or by both, fused by reciprocal rank.
        depth: negatives of a query, at most.
        margin: candidates whose score is above that of the best positive less this share of it are no negatives,
            since they may answer the query too (NV-Retriever's percentage margin); None takes all.
        mask_similar: cosine of document vectors above which a candidate is a near-duplicate of a positive and no
            negative; None takes all but exact copies.

    Raises:
        SettingsError: a value is unknown or out of range.
    """

    by: Ranker = "both"
    depth: int = 100
    margin: float | None = 0.05
    mask_similar: float | None = 0.98

    def __post_init__(self) -> None:
        require_one_of("by", self.by, get_args(Ranker))
        require_whole("depth", self.depth, may_be_none=False)
        for name, value in (("margin", self.margin), ("mask_similar", self.mask_similar)):
            if value is not None and not 0 <= value <= 1:
                raise SettingsError(f"{name} is {described(value)}; give a number from 0 to 1, or None")

    @property
    def rankings(self) -> tuple[str, ...]:
        """The rankings that candidates come from."""
        return ("words", "vectors") if self.by == "both" else (self.by,)

    def limit(self, best: float) -> float:
        """The score above which a candidate is too close to the best positive.

        >>> MiningSettings(margin=0.05).limit(0.8), MiningSettings(margin=None).limit(0.8)
        (0.76, inf)
        """
        return np.inf if self.margin is None else best - self.margin * abs(best)


def mine(
    documents: MinedDocuments,
    positives: Mapping[str, Collection[str]],
    settings: MiningSettings,
    *,
    words: WordScores | None = None,
    vectors: Vectors | None = None,
    never: Mapping[str, Collection[str]] | None = None,
    record: Mapping[str, Any] | None = None,
    device: torch.device | str = "cpu",
    show_progress: bool | None = None,
) -> NegativeLists:
    """Mine negatives for queries.

    A list holds the best ``depth`` of the candidates that remain. Not among them are judged positives, documents
    whose score is too close to that of the best positive, and copies and near-duplicates of a positive; how many of
    each were passed over is counted. With both rankings a document that is too close in one of them is no negative.

    Args:
        documents: where negatives are looked for.
        positives: ids of the documents that answer a query, by query id. Those that are not among the documents are
            counted; a query that has no other is left out.
        settings: how.
        words: gives the scores of word search (see :func:`word_scores`); needed by ``words`` and ``both``.
        vectors: ``(queries, hidden)``, vectors of the queries in their order; needed by ``vectors`` and ``both``.
        never: ids of further documents that are no negatives by query id, such as those that queries were made of.
        record: what else is written down about the lists, such as the model.
        device: where vectors are compared.
        show_progress: show a bar; None shows it on a terminal when the work is long.

    Raises:
        RetrievalError: no query has a positive among the documents.
        SettingsError: words or vectors are missing.
    """
    for name, source in (("words", words), ("vectors", vectors if documents.vectors is not None else None)):
        if name in settings.rankings and source is None:
            raise SettingsError(f"by={settings.by} needs {name} of queries and documents; give them, or another by")
    answers = {query: documents.rows_of(ids) for query, ids in positives.items()}
    queries = [(place, query) for place, query in enumerate(positives) if len(answers[query])]
    if positives and not queries:
        raise RetrievalError(
            f"none of {len(positives):,} queries has a positive among the {len(documents.ids):,} documents; give the "
            "documents that the judgements are of"
        )
    excluded: Counter[str] = Counter(dict.fromkeys(REASONS, 0))
    lists: dict[str, tuple[str, ...]] = {}
    together = min(_QUERIES, max(1, _MOST_SCORES // max(1, len(documents.ids))))
    with progress_bar(show_progress, len(queries), "Mining negatives", "queries") as bar:
        for start in range(0, len(queries), together):
            some = queries[start : start + together]
            similarities: Vectors | None = None
            if "vectors" in settings.rankings:
                assert vectors is not None
                similarities = documents.similarities(vectors[[place for place, _ in some]], device)
            for row, (_, query) in enumerate(some):
                scores: dict[str, npt.NDArray[Any]] = {}
                if "words" in settings.rankings:
                    assert words is not None
                    scores["words"] = _word_row(
                        documents, words(query, [documents.ids[row] for row in answers[query]])
                    )
                if similarities is not None:
                    scores["vectors"] = similarities[row]
                others = documents.rows_of((never or {}).get(query, ()))
                lists[query], counts = _negatives(documents, answers[query], others, scores, settings)
                excluded.update(counts)
                bar.update(1)
    return NegativeLists(
        {
            **asdict(settings),
            **(record or {}),
            "similar_by": "text" if documents.vectors is None or settings.mask_similar is None else "text and vectors",
            "documents": len(documents.ids),
            "queries": len(lists),
            "queries_without_positive": len(positives) - len(queries),
            "unknown_positives": sum(id not in documents.rows for ids in positives.values() for id in set(ids)),
            "queries_without_negatives": sum(not ids for ids in lists.values()),
            "excluded": dict(excluded),
        },
        lists,
    )


def _word_row(documents: MinedDocuments, scores: Scores) -> npt.NDArray[np.float64]:
    """Scores of all documents, minus infinity for those that were not found."""
    row = np.full(len(documents.ids), -np.inf)
    for id, score in scores.items():
        if score > 0 and id in documents.rows:
            row[documents.rows[id]] = score
    return row


def _negatives(
    documents: MinedDocuments,
    positives: Rows,
    never: Rows,
    scores: Mapping[str, npt.NDArray[Any]],
    settings: MiningSettings,
) -> tuple[tuple[str, ...], dict[str, int]]:
    """The negatives of a query, best first, and numbers of candidates passed over by reason.

    ``scores`` are ``(documents,)`` by ranking, minus infinity for documents that were not found.
    """
    is_close = np.zeros(len(documents.ids), np.bool_)
    for row in scores.values():
        best = float(row[positives].max())
        # A positive that has no word of the query has the score 0.
        is_close |= row > settings.limit(best if best > -np.inf else 0.0)
    is_close[positives] = is_close[never] = False
    kept: dict[str, list[int]] = {}
    judged: set[int] = set()
    similar: set[int] = set()
    for name, row in scores.items():
        free = np.where(is_close, -np.inf, row)
        free[positives] = free[never] = -np.inf
        kept[name], passed, last = _walk(documents, free, positives, settings)
        similar |= passed
        judged.update(place for place in positives.tolist() if (-row[place], documents.order[place]) < last)
    counts = {JUDGED: len(judged), CLOSE: int(is_close.sum()), SIMILAR: len(similar)}
    if len(kept) == 1:
        return tuple(documents.ids[row] for rows in kept.values() for row in rows), counts
    ranks = {name: {documents.ids[row]: -float(rank) for rank, row in enumerate(rows)} for name, rows in kept.items()}
    return tuple(islice(fused_scores(ranks), settings.depth)), counts


def _walk(
    documents: MinedDocuments, scores: npt.NDArray[Any], positives: Rows, settings: MiningSettings
) -> tuple[list[int], set[int], tuple[float, float]]:
    """Go down a ranking until there are enough negatives.

    Gives places of the negatives; those of near-duplicates that were passed over; and the score of the last negative,
    with the sign turned, with its place in order, which come after those of all candidates if there are too few.
    """
    most, candidates = 2 * settings.depth, np.flatnonzero(scores > -np.inf)
    while True:
        rows = candidates
        if len(rows) > most:
            # All that tie with the last of the best are among them.
            rows = rows[scores[rows] >= np.partition(scores[rows], -most)[-most]]
        rows = rows[np.lexsort((documents.order[rows], -scores[rows]))]
        is_similar = documents.is_similar(rows, positives, settings.mask_similar)
        places = np.flatnonzero(~is_similar)[: settings.depth]
        if len(places) == settings.depth:
            last = int(rows[places[-1]])
            passed = rows[: places[-1]][is_similar[: places[-1]]]
            return rows[places].tolist(), set(passed.tolist()), (-scores[last], documents.order[last])
        if len(rows) == len(candidates):
            return rows[places].tolist(), set(rows[is_similar].tolist()), (np.inf, -1)
        most *= 4


def merged(parts: Iterable[NegativeLists], order: Iterable[str]) -> NegativeLists:
    """Lists that several processes have mined, each for some of the queries, in the order of all of them."""
    all_parts = list(parts)
    lists = {query: ids for part in all_parts for query, ids in part.lists.items()}
    counts = Counter[str]()
    for part in all_parts:
        counts.update(part.excluded)
    record = {**all_parts[0].record, "excluded": dict(counts)}
    for name in ("queries", "queries_without_positive", "queries_without_negatives", "unknown_positives"):
        record[name] = sum(part.record[name] for part in all_parts)
    return NegativeLists(record, {query: lists[query] for query in order if query in lists})


def documents_of_index(index: DocumentIndex, *, vectors: bool = True) -> MinedDocuments:
    """The documents of an index, to mine negatives among them; vectors take ``documents x hidden x 4`` bytes."""
    columns = [*DOCUMENT_COLUMNS, *(["document_vector"] if vectors else [])]
    ids: list[str] = []
    texts: list[str] = []
    parts: list[Vectors] = []
    for batch in index.rows(columns, level=DOCUMENT):
        ids += batch.column("id").to_pylist()
        texts += [text_hash(document_of(row)) for row in batch.select(DOCUMENT_COLUMNS).to_pylist()]
        if vectors:
            parts.append(vectors_of(batch, "document_vector"))
    groups = np.unique(texts, return_inverse=True)[1].astype(np.int64)
    return MinedDocuments(ids, groups, np.concatenate(parts) if parts else None, index.record["similarity"])


def word_scores(index: DocumentIndex, queries: Mapping[str, str], depth: int) -> WordScores:
    """The word search of an index, as :func:`mine` asks it for ``depth`` negatives of queries.

    A document's score is the sum of its three best passages. Positives that are not among those found are searched
    for by themselves.
    """

    def scores(query: str, positives: Sequence[str]) -> Scores:
        wanted = _FOUND_PER_NEGATIVE * depth + len(positives)
        found = index.scores(queries[query], wanted, by="words")["words"]
        missing = [id for id in positives if id not in found]
        for start in range(0, len(missing), _POSITIVES):
            some = missing[start : start + _POSITIVES]
            found |= index.scores(queries[query], len(some), ids=some, by="words")["words"]
        return found

    return scores


class PassageWords:
    """BM25 of passages in this process, which data loaders may fork: LanceDB's threads do not go together with forks.

    Terms are those of :class:`~graphdoc.segmentation.terms.TermMaker`, the formula is Lucene's, as in an index, and a
    document's score is the sum of its three best passages.

    Args:
        documents: the documents, held as counts of their terms.
        language: their language, as a two-letter code.
    """

    def __init__(self, documents: Iterable[SegmentedDocument], language: str) -> None:
        self._terms, self._numbers = TermMaker(language), dict[str, int]()
        ids, owners, numbers = list[str](), array("q"), array("q")
        columns, counts, ends = array("i"), array("f"), array("q", [0])
        for segmented in documents:
            for number, (span, above) in enumerate(zip(segmented.passages, headings_above(segmented), strict=True)):
                counted = Counter(self._terms.occurrences(above + segmented.text(span)))
                columns.extend(self._numbers.setdefault(term, len(self._numbers)) for term in counted)
                counts.extend(counted.values())
                ends.append(len(columns))
                owners.append(len(ids))
                numbers.append(number)
            ids.append(segmented.document.id)
        self._ids, self._owners, self._passages = ids, np.array(owners), np.array(numbers)
        shape = (len(owners), len(self._numbers))
        matrix = csr_matrix((np.array(counts), np.array(columns), np.array(ends)), shape, dtype=np.float32)
        self._weights = bm25_weights(matrix).T.tocsr()

    def scores(self, query: str, positives: Sequence[str], depth: int) -> Scores:
        """Scores of documents for a query (see :func:`word_scores`)."""
        terms = [self._numbers[term] for term in self._terms.occurrences(query) if term in self._numbers]
        scores = np.asarray(self._weights[terms].sum(axis=0), np.float64).ravel()
        most = min(len(scores), max(_FEWEST_PASSAGES, 20 * (_FOUND_PER_NEGATIVE * depth + len(positives))))
        wanted = [place for place, id in enumerate(self._ids) if id in frozenset(positives)]
        rows = np.union1d(np.argsort(-scores, kind="stable")[:most], np.flatnonzero(np.isin(self._owners, wanted)))
        rows = rows[scores[rows] > 0]
        ids = [self._ids[owner] for owner in self._owners[rows]]
        return Ranking.of_passages(Candidates(ids, self._passages[rows].tolist(), scores[rows])).scores


def bm25_weights(counts: csr_matrix) -> csr_matrix:
    """What every term adds to the BM25 score of every text, of the counts of terms ``(texts, terms)``."""
    texts = counts.shape[0]
    lengths = np.asarray(counts.sum(axis=1)).ravel()
    having = np.bincount(counts.indices, minlength=counts.shape[1])
    idf = np.log1p((texts - having + 0.5) / (having + 0.5))
    norms = K1 * (1 - B + B * lengths / max(lengths.mean() if texts else 0.0, 1e-12))
    saturated = counts.data / (counts.data + np.repeat(norms, np.diff(counts.indptr)))
    return csr_matrix(
        ((idf[counts.indices] * saturated).astype(counts.dtype), counts.indices, counts.indptr), counts.shape
    )


def index_words(documents: Iterable[SegmentedDocument], language: str, place: str = "memory://") -> DocumentIndex:
    """Index the words of documents without vectors, to search by words alone; it takes a fraction of the time."""
    about = {"format": FORMAT, "format_version": FORMAT_VERSION, "similarity": "cosine", "source": None}
    model = {"model": {"name": "none: words alone"}, "weights": None}
    schema = schema_of(1, 1, 1)
    store = LanceStore.create(place, schema, {**about, **model, "words": word_settings(language)})
    waiting = iter(documents)
    while window := list(islice(waiting, _WRITTEN)):
        rows = [row for segmented in window for row in _word_rows(segmented, Fields(schema))]
        store.write(table_of(rows, schema), [segmented.document.id for segmented in window])
    store.maintain()
    return DocumentIndex(store)


def _word_rows(segmented: SegmentedDocument, fields: Fields) -> list[dict[str, Any]]:
    """The rows of a document without its vectors."""
    count = len(segmented.passages)
    nothing = np.zeros((count, 1), np.float32)
    encoded = EncodedDocument(segmented, np.zeros(1, np.float32), nothing, nothing, np.ones(count, np.float32))
    rows = rows_of(encoded, None, fields, unit_length=False)
    return [{name: value for name, value in row.items() if not isinstance(value, np.ndarray)} for row in rows]
