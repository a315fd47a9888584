"""Negatives are mined: candidates by words and by vectors, without what may answer the query after all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import normalize

from ..errors import RetrievalError, SettingsError
from ..runtime.progress import progress_bar
from ..runtime.text import described, require_one_of, require_whole
from .fusion import Scores, fused_scores
from .negatives import CLOSE, JUDGED, REASONS, SIMILAR, NegativeLists

Rows = npt.NDArray[np.int64]
Vectors = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float64]
Way = Literal["words", "vectors", "both"]
# Gives the scores of documents for the query of an id, those of its positives among them.
WordScores = Callable[[str, Sequence[str]], Scores]

# Documents that are compared with some queries at once, and queries whose candidates are looked for together.
_BLOCK, _QUERIES = 16_384, 256


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
        if len(set(self.ids)) < len(self.ids):
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
        order = np.empty(len(self.ids), np.int64)
        order[sorted(range(len(self.ids)), key=lambda row: self.ids[row])] = np.arange(len(self.ids))
        return order

    def units(self, rows: Rows) -> Vectors:
        """Vectors of some documents at unit length, ``(rows, hidden)``."""
        assert self.vectors is not None
        found = np.asarray(self.vectors[rows], np.float32)
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        return np.asarray(found / np.where(lengths > 0, lengths, 1), np.float32)

    def is_similar(self, rows: Rows, positives: Rows, bound: float | None) -> npt.NDArray[np.bool_]:
        """Which documents are copies or near-duplicates of a positive, ``(rows,)``."""
        found = np.isin(self.groups[rows], self.groups[positives])
        if bound is not None and self.vectors is not None and len(rows):
            found |= (self.units(rows) @ self.units(positives).T).max(axis=1) > bound
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Candidates of a query that are neither its positives nor too close to the best of them.

    Args:
        rows: places of the documents, best first, those of equal score by id, ``(candidates,)``.
        scores: ``(candidates,)``, falling.
        positives: scores of the positives, ``(positives,)``; minus infinity for those that were not found.
        close: how many documents were left out because their score is above the limit.
        close_rows: their places, where they are known.
    """

    rows: Rows
    scores: Floats
    positives: Floats
    close: int
    close_rows: frozenset[int] = frozenset()


def nearest(
    queries: Vectors,
    documents: Vectors,
    positives: Sequence[Rows],
    order: Rows,
    most: int,
    limit: Callable[[float], float],
    similarity: str = "cosine",
    device: torch.device | str = "cpu",
    *,
    left_out: Sequence[Rows] | None = None,
    block: int = _BLOCK,
) -> list[Pool]:
    """Find the nearest documents of every query among those whose score is not above a limit.

    Args:
        queries: ``(queries, hidden)``.
        documents: ``(documents, hidden)``; memory is needed for a block of them, where they are mapped.
        positives: places of the documents that answer each query, one at least.
        order: ``(documents,)``, by which documents of equal score are put in order.
        most: how many.
        limit: gives the highest score that is wanted, of the score of the best positive.
        similarity: ``cosine`` or ``dot``.
        device: where they are compared.
        left_out: places of further documents by query that are not looked for, nor counted.
        block: documents that are compared at once.
    """
    asked = as_compared(queries, similarity, device)
    answers = [scores_of(one, documents, rows, similarity) for one, rows in zip(asked, positives, strict=True)]
    limits = torch.tensor([limit(float(own.max())) for own in answers], dtype=torch.float32, device=device)
    hidden = [np.concatenate(some) for some in zip(positives, left_out or positives, strict=True)]
    numbers = torch.from_numpy(np.repeat(np.arange(len(queries)), [len(rows) for rows in hidden]))
    unwanted = torch.from_numpy(np.concatenate(hidden))
    places = torch.from_numpy(np.ascontiguousarray(order)).to(device)
    scores = torch.empty((len(queries), 0), device=device)
    rows = torch.empty((len(queries), 0), dtype=torch.int64, device=device)
    close = torch.zeros(len(queries), dtype=torch.int64, device=device)
    for start in range(0, len(documents), block):
        found = asked @ as_compared(documents[start : start + block], similarity, device).T
        here = (unwanted >= start) & (unwanted < start + block)
        found[numbers[here].to(device), (unwanted[here] - start).to(device)] = -torch.inf
        is_close = found > limits[:, None]
        close += is_close.sum(dim=1)
        found[is_close] = -torch.inf
        new = _best(found, places[start : start + block], most)
        scores, rows = torch.cat([scores, found.gather(1, new)], dim=1), torch.cat([rows, new + start], dim=1)
        chosen = _in_order(scores, places[rows])[:, :most]
        scores, rows = scores.gather(1, chosen), rows.gather(1, chosen)
    return [
        Pool(own_rows[is_there], own_scores[is_there].astype(np.float64), own_answers, count)
        for own_rows, own_scores, own_answers, count in zip(
            rows.cpu().numpy(), scores.cpu().numpy(), answers, close.tolist(), strict=True
        )
        for is_there in [own_scores > -np.inf]
    ]


def as_compared(vectors: Vectors, similarity: str, device: torch.device | str = "cpu") -> Tensor:
    """Vectors whose dot products are similarities, ``(rows, hidden)``."""
    found = torch.from_numpy(np.array(vectors, np.float32)).to(device)
    return normalize(found, dim=-1) if similarity == "cosine" else found


def scores_of(query: Tensor, documents: Vectors, rows: Rows, similarity: str) -> Floats:
    """Scores of some documents for a query, ``(rows,)``.

    Args:
        query: ``(hidden,)``, as :func:`as_compared` gives it.
        documents: ``(documents, hidden)``.
        rows: places of the documents.
        similarity: ``cosine`` or ``dot``.
    """
    found = as_compared(documents[rows], similarity, query.device) @ query
    return found.cpu().numpy().astype(np.float64)


def _best(scores: Tensor, places: Tensor, most: int) -> Tensor:
    """Columns of the best scores of every row, those of equal score by their places, ``(rows, most)``."""
    width = scores.shape[1]
    if most >= width:
        return torch.arange(width, device=scores.device).expand(len(scores), -1)
    values, columns = scores.topk(most, dim=1)
    last = values[:, -1:]
    # Which of several equal scores are among the best, topk leaves to chance.
    is_tied = ((scores >= last).sum(dim=1) > most) & (last[:, 0] > -torch.inf)
    for row in is_tied.nonzero()[:, 0].tolist():
        rivals = (scores[row] >= last[row]).nonzero()[:, 0]
        columns[row] = rivals[_in_order(scores[row, rivals][None], places[rivals][None])[0, :most]]
    return columns


def _in_order(scores: Tensor, places: Tensor) -> Tensor:
    """Columns of every row by falling score, those of equal score by their places."""
    by_place = places.argsort(dim=1, stable=True)
    by_score = scores.gather(1, by_place).argsort(dim=1, descending=True, stable=True)
    return by_place.gather(1, by_score)


@dataclass(frozen=True, slots=True)
class MiningSettings:
    """How negatives are mined.

    Args:
        by: candidates by ``words`` (BM25), by ``vectors`` or by both, joined by reciprocal rank.
        depth: negatives of a query, at most.
        margin: candidates whose score is above that of the best positive less this share of it are no negatives,
            since they may answer the query too (NV-Retriever's percentage margin); None takes all.
        mask_similar: cosine of document vectors above which a candidate is a near-duplicate of a positive and no
            negative; None takes all but exact copies.

    Raises:
        SettingsError: a value is unknown or out of range.
    """

    by: Way = "both"
    depth: int = 100
    margin: float | None = 0.05
    mask_similar: float | None = 0.98

    def __post_init__(self) -> None:
        require_one_of("by", self.by, get_args(Way))
        require_whole("depth", self.depth, may_be_none=False)
        for name, value, most in (("margin", self.margin, 1.0), ("mask_similar", self.mask_similar, 1.0)):
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and not (is_number and 0 <= value <= most):
                raise SettingsError(f"{name} is {described(value)}; give a number from 0 to {most:g}, or None")

    @property
    def ways(self) -> tuple[str, ...]:
        """The rankings that candidates come from."""
        return ("words", "vectors") if self.by == "both" else (self.by,)

    def limit(self, best: float) -> float:
        """The score above which a candidate is too close to the best positive.

        >>> MiningSettings(margin=0.05).limit(0.8), MiningSettings(margin=None).limit(0.8)
        (0.76, inf)
        """
        return np.inf if self.margin is None else best - self.margin * abs(best)


@dataclass(frozen=True, slots=True, eq=False)
class _Query:
    """A query whose negatives are mined.

    Args:
        id: its id.
        positives: places of the documents that answer it.
        never: places of further documents that are no negatives.
        vector: ``(hidden,)``; None where vectors are not asked.
    """

    id: str
    positives: Rows
    never: Rows
    vector: Vectors | None


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
    each were passed over is counted. With both ways a document that is too close by one of them is no negative.

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
        SettingsError: what a way needs is missing.
    """
    for name, given in (("words", words), ("vectors", vectors if documents.vectors is not None else None)):
        if name in settings.ways and given is None:
            raise SettingsError(f"by={settings.by} needs {name} of queries and documents; give them, or another way")
    known = documents.rows
    asked = [
        _Query(
            id,
            documents.rows_of(ids),
            documents.rows_of((never or {}).get(id, ())),
            None if vectors is None else vectors[place],
        )
        for place, (id, ids) in enumerate(positives.items())
    ]
    unknown = sum(one not in known for ids in positives.values() for one in set(ids))
    mined = [query for query in asked if len(query.positives)]
    if asked and not mined:
        raise RetrievalError(
            f"none of {len(asked):,} queries has a positive among the {len(known):,} documents; give the documents "
            "that the judgements are of"
        )
    excluded: Counter[str] = Counter(dict.fromkeys(REASONS, 0))
    lists: dict[str, tuple[str, ...]] = {}
    with progress_bar(show_progress, len(mined), "Mining negatives", "queries") as bar:
        for start in range(0, len(mined), _QUERIES):
            some = mined[start : start + _QUERIES]
            for query, (rows, counts) in zip(some, _mined(documents, some, settings, words, device), strict=True):
                lists[query.id] = tuple(documents.ids[row] for row in rows)
                excluded.update(counts)
                bar.update(1)
    return NegativeLists(
        {
            **asdict(settings),
            **(record or {}),
            "similar_by": "text" if documents.vectors is None or settings.mask_similar is None else "text and vectors",
            "documents": len(known),
            "queries": len(lists),
            "queries_without_positive": len(asked) - len(mined),
            "unknown_positives": unknown,
            "queries_without_negatives": sum(not ids for ids in lists.values()),
            "excluded": dict(excluded),
        },
        lists,
    )


def _mined(
    documents: MinedDocuments,
    queries: Sequence[_Query],
    settings: MiningSettings,
    words: WordScores | None,
    device: torch.device | str,
) -> list[tuple[list[int], dict[str, int]]]:
    """Places of the negatives of every query, best first, and numbers of candidates passed over by reason."""
    found: dict[str, tuple[list[int], dict[str, int]]] = {}
    # Some candidates will turn out to be near-duplicates, and of a query whose candidates are many.
    waiting, most = list(queries), 2 * settings.depth
    while waiting:
        again = []
        for query, pools in zip(waiting, _pools(documents, waiting, most, settings, words, device), strict=True):
            found[query.id], is_enough = _chosen(documents, query, pools, settings)
            if not is_enough and "vectors" in pools and len(pools["vectors"].rows) == most:
                again.append(query)
        waiting, most = again, 4 * most
    return [found[query.id] for query in queries]


def _pools(
    documents: MinedDocuments,
    queries: Sequence[_Query],
    most: int,
    settings: MiningSettings,
    words: WordScores | None,
    device: torch.device | str,
) -> list[dict[str, Pool]]:
    """Candidates of every query by way."""
    found: list[dict[str, Pool]] = [{} for _ in queries]
    if "words" in settings.ways:
        assert words is not None
        for query, own in zip(queries, found, strict=True):
            own["words"] = _word_pool(documents, query, settings, words)
    if "vectors" in settings.ways:
        assert documents.vectors is not None
        vectors = np.stack([query.vector for query in queries if query.vector is not None])
        positives = [query.positives for query in queries]
        # What is too close by words is no candidate by vectors either.
        close = [own["words"].close_rows if "words" in own else () for own in found]
        left_out = [np.array([*query.never, *rows], np.int64) for query, rows in zip(queries, close, strict=True)]
        pools = nearest(
            vectors,
            documents.vectors,
            positives,
            documents.order,
            most,
            settings.limit,
            documents.similarity,
            device,
            left_out=left_out,
        )
        for own, pool in zip(found, pools, strict=True):
            own["vectors"] = pool
    return found


def _word_pool(documents: MinedDocuments, query: _Query, settings: MiningSettings, words: WordScores) -> Pool:
    positives = query.positives.tolist()
    given = words(query.id, [documents.ids[row] for row in positives])
    scores = {documents.rows[id]: score for id, score in given.items() if score > 0 and id in documents.rows}
    answers = np.array([scores.pop(row, -np.inf) for row in positives])
    for row in query.never.tolist():
        scores.pop(row, None)
    # A positive that has no word of the query has the score 0.
    limit = settings.limit(max(float(answers.max()), 0.0))
    close = frozenset(row for row, score in scores.items() if score > limit)
    rows = np.array([row for row in scores if row not in close], np.int64)
    values = np.array([scores[row] for row in rows.tolist()], np.float64)
    order = np.lexsort((documents.order[rows], -values))
    return Pool(rows[order], values[order], answers, len(close), close)


def _chosen(
    documents: MinedDocuments, query: _Query, pools: Mapping[str, Pool], settings: MiningSettings
) -> tuple[tuple[list[int], dict[str, int]], bool]:
    """Places of a query's negatives and numbers of candidates passed over; whether every way has found enough."""
    words, vectors = pools.get("words"), pools.get("vectors")
    not_these: dict[str, frozenset[int]] = {}
    if words is not None and vectors is not None:
        not_these["words"] = _too_near(documents, query, words, settings.limit(float(vectors.positives.max())))
    kept: dict[str, list[int]] = {}
    judged: set[int] = set()
    similar: set[int] = set()
    for way, pool in pools.items():
        kept[way], passed, last = _walk(documents, query, pool, not_these.get(way, frozenset()), settings)
        similar |= passed
        keys = zip((-pool.positives).tolist(), documents.order[query.positives].tolist(), strict=True)
        judged.update(row for row, key in zip(query.positives.tolist(), keys, strict=True) if key < last)
    counts = {JUDGED: len(judged), CLOSE: sum(pool.close for pool in pools.values()), SIMILAR: len(similar)}
    is_enough = min(map(len, kept.values())) == settings.depth
    if len(kept) == 1:
        return (next(iter(kept.values())), counts), is_enough
    ranks = {way: {documents.ids[row]: -float(rank) for rank, row in enumerate(rows)} for way, rows in kept.items()}
    return ([documents.rows[id] for id in islice(fused_scores(ranks), settings.depth)], counts), is_enough


def _too_near(documents: MinedDocuments, query: _Query, words: Pool, limit: float) -> frozenset[int]:
    """Places of the candidates by words whose vectors are too close to that of the query."""
    assert documents.vectors is not None
    assert query.vector is not None
    measure = documents.similarity
    scores = scores_of(as_compared(query.vector, measure), documents.vectors, words.rows, measure)
    return frozenset(words.rows[scores > limit].tolist())


def _walk(
    documents: MinedDocuments, query: _Query, pool: Pool, not_these: frozenset[int], settings: MiningSettings
) -> tuple[list[int], set[int], tuple[float, int]]:
    """Go down a ranking until there are enough negatives.

    Returns:
        Places of the negatives; those of near-duplicates that were passed over on the way; the last negative's score,
        with the sign turned, and place in order, which come after those of all that were found if there are too few.
    """
    kept: list[int] = []
    passed: set[int] = set()
    similar = documents.is_similar(pool.rows, query.positives, settings.mask_similar)
    for row, score, is_similar in zip(pool.rows.tolist(), pool.scores.tolist(), similar.tolist(), strict=True):
        if row in not_these:
            continue
        if is_similar:
            passed.add(row)
            continue
        kept.append(row)
        if len(kept) == settings.depth:
            return kept, passed, (-score, int(documents.order[row]))
    return kept, passed, (np.inf, -1)


def merged(parts: Iterable[NegativeLists], order: Iterable[str]) -> NegativeLists:
    """Lists that several processes have mined, each for some of the queries.

    Args:
        parts: the lists; their records differ in counts alone.
        order: the ids of all queries, in the order that they are to have.
    """
    all_parts = list(parts)
    found = {query: ids for part in all_parts for query, ids in part.lists.items()}
    lists = {query: found[query] for query in order if query in found}
    counts = Counter[str]()
    for part in all_parts:
        counts.update(part.excluded)
    record = {**all_parts[0].record, "excluded": dict(counts)}
    for name in ("queries", "queries_without_positive", "queries_without_negatives", "unknown_positives"):
        record[name] = sum(part.record[name] for part in all_parts)
    return NegativeLists(record, lists)
