"""Search by words and vectors: passages that are found, grouped to documents, fused, and shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice
from typing import Any, Literal, NamedTuple, TypedDict, get_args

import numpy as np
import numpy.typing as npt

from ..errors import RetrievalError, SettingsError
from ..runtime.text import require_one_of, require_whole
from ..similarity.hierarchical import By as BySentences
from ..similarity.hierarchical import Direction, Normalisation
from .filters import store_filter
from .lance import DOCUMENT, IS_DOCUMENT, PASSAGE, Candidates, LanceStore, all_of, is_one_of, key_of, quoted
from .results import Explanation, Hit, Part, PassageHit, PassagePart, TermPart
from .table import field_columns, filter_columns, ids_of, vectors_of
from .terms import Query, counted_words, words_of

Unit = Literal["passage", "document"]
WordsUnit = Literal["passage", "document", "both"]
By = Literal["hybrid", "words", "vectors"]
Fusion = Literal["reciprocal_rank", "weighted"]
Scores = dict[str, float]
"""Scores by document."""
BY_PASSAGES: tuple[str, ...] = get_args(By)
BY_SENTENCES: tuple[str, ...] = get_args(BySentences)
MOST_ROWS = 10_000_000
# Each ranking, the column that it searches by what is ranked.
RANKINGS: dict[str, dict[str, str]] = {
    "words": {"passage": "text", "document": "document_text"},
    "vectors": {"passage": "passage_vector", "document": "document_vector"},
}
# The score of a document is the sum of those of its best passages.
BEST_PASSAGES = 3
# Cormack, Clarke and Buettcher 2009.
RANK_CONSTANT = 60.0
# With more rows the three best passages of a document are more often all found; by words they cost little time.
_DEPTH = {"words": 1_000, "vectors": 200}
_CHOICES: dict[str, tuple[str, ...]] = {
    "by": (*BY_PASSAGES, *BY_SENTENCES),
    "fusion": get_args(Fusion),
    "words_unit": get_args(WordsUnit),
    "vectors_unit": get_args(Unit),
    "normalisation": get_args(Normalisation),
    "direction": get_args(Direction),
}
# By ranking, document and number of the passage.
_PassageScores = dict[str, dict[str, Mapping[int, float]]]


class SearchOptions(TypedDict, total=False):
    """How a search is made, beside the number of documents, as :class:`SearchSettings` describes it."""

    by: By | BySentences
    where: str | None
    weight: float | None
    words_unit: WordsUnit | None
    passages: int
    fusion: Fusion | None
    vectors_unit: Unit | None
    depth: int | None
    pool: int | None
    candidates: Iterable[str] | None
    normalisation: Normalisation
    direction: Direction


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """How a search is made.

    Args:
        k: documents wanted.
        by: ``words``, ``vectors`` or ``hybrid`` for both; or with a document by its sentences: ``sentences`` (SDR,
            equations 4 to 6), ``flat`` (every sentence to the best of the whole document), ``paragraphs`` (one vector
            each) or ``document`` (one vector of all sentences).
        where: a filter such as ``year >= 2010`` (:func:`~graphdoc.retrieval.filters.store_filter`).
        weight: weight of words in a weighted sum of scores, 0 to 1; the other ranking has the rest. None for 0.5 of
            both rankings, and for no words beside sentences.
        words_unit: whether word search ranks passages, of which the best three count, whole documents, or both added
            up; None for passages, and for documents beside sentences.
        passages: passages shown of each document. Not by sentences, nor are the three that follow.
        fusion: how both rankings are fused (:func:`fuse`); None for ``weighted`` where there is a weight, else
            ``reciprocal_rank``.
        vectors_unit: whether vector search ranks passages or whole documents; None for passages where the query is a
            text, and for documents where it is a document.
        depth: rows that each ranking fetches; None for 20 a document wanted, and at least 1,000 by words and 200 by
            vectors.
        pool: how many of the documents that a hybrid search finds are ranked by sentences; None for all. By sentences
            alone, as are the three that follow.
        candidates: ids of the documents that are ranked; None for all.
        normalisation: ``none`` or ``zscore`` as in the paper: scores of a paragraph are compared with those that it
            has with the documents of the index, or a sample of them.
        direction: ``source`` looks for the document in the candidate, as the paper does, or ``both`` also for the
            candidate in the document, and takes the mean, which measures best
            (benchmarks/results/document_ranking_dev.md).

    Raises:
        SettingsError: a value is unknown or out of range.
    """

    k: int = 10
    by: By | BySentences = "hybrid"
    where: str | None = None
    weight: float | None = None
    words_unit: WordsUnit | None = None
    passages: int = 3
    fusion: Fusion | None = None
    vectors_unit: Unit | None = None
    depth: int | None = None
    pool: int | None = None
    candidates: Iterable[str] | None = None
    normalisation: Normalisation = "none"
    direction: Direction = "both"

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) is not None:
                require_one_of(name, getattr(self, name), choices)
        for name, least in (("k", 1), ("passages", 0), ("depth", 1), ("pool", 1)):
            require_whole(name, getattr(self, name), least=least, may_be_none=name in ("depth", "pool"))
            if (getattr(self, name) or 0) > MOST_ROWS:
                raise SettingsError(f"{name}={getattr(self, name)} is more than {MOST_ROWS:,}; give less")
        if self.weight is not None and not 0 <= self.weight <= 1:
            raise SettingsError(f"weight={self.weight!r} is the weight of words; give a number from 0 to 1")
        if self.candidates is not None:
            object.__setattr__(self, "candidates", tuple(dict.fromkeys(ids_of(self.candidates))))
            if not self.candidates:
                raise SettingsError("candidates is empty; give the ids of the documents to rank, or None for all")

    @property
    def rankings(self) -> tuple[str, ...]:
        """The rankings that are made of words and vectors."""
        return tuple(RANKINGS) if self.by == "hybrid" else (self.by,)

    @property
    def fused_by(self) -> Fusion | None:
        """How rankings are fused; None where there is one."""
        if self.by == "hybrid":
            return self.fusion or ("reciprocal_rank" if self.weight is None else "weighted")
        return "weighted" if self.by in BY_SENTENCES and self.weight else None


@dataclass(frozen=True, slots=True)
class Ranking:
    """The documents that one search finds.

    Args:
        scores: by document, best first; those of equal score by id.
        passages: scores of the passages found by their number, best first, by document; none of a document that was
            found as a whole.
    """

    scores: Scores
    passages: Mapping[str, Mapping[int, float]] = field(default_factory=dict)

    @classmethod
    def of_passages(cls, rows: Candidates) -> Ranking:
        """Rank documents by the sum of their best passages.

        >>> Ranking.of_passages(Candidates(("a", "b", "b"), (0, 0, 4), np.array([3.0, 2.0, 2.0]))).scores
        {'b': 4.0, 'a': 3.0}
        """
        passages: dict[str, dict[int, float]] = {}
        scores = rows.scores.tolist()
        # Once for all documents: best first, and those of equal score in their order in the document.
        for row in np.lexsort((np.asarray(rows.numbers), -rows.scores)).tolist():
            passages.setdefault(rows.ids[row], {})[rows.numbers[row]] = scores[row]
        totals = {id: sum(list(scored.values())[:BEST_PASSAGES]) for id, scored in passages.items()}
        return cls(_best_first(totals), passages)


class Fused(NamedTuple):
    """A document in the fused ranking: its score, the sum of the shares of its parts, by ranking that found it."""

    id: str
    score: float
    parts: Mapping[str, Part]


def fuse(
    rankings: Mapping[str, Mapping[str, float]],
    fusion: Fusion = "reciprocal_rank",
    weights: Mapping[str, float] | None = None,
    most: int | None = None,
) -> list[Fused]:
    """Fuse rankings; the scores of a single one stay as they are.

    ``reciprocal_rank``: a document has ``weight / (60 + rank)`` from each ranking that found it. ``weighted``: scores
    of a ranking are brought to 0 to 1, by its lowest and its highest, and added up with the weights (Graph-RoBERTa,
    section 3.3); a ranking that did not find a document gives it 0.

    Args:
        rankings: scores by document of every ranking, larger is better.
        fusion: how they are fused.
        weights: weight of every ranking; None for the same.
        most: documents wanted; None for all.

    Returns:
        The documents, best first; those of equal score by id. The score is the sum of the shares.

    >>> best = fuse({"words": {"a": 9.0, "b": 7.0}, "vectors": {"b": 0.8, "c": 0.1}})
    >>> [document.id for document in best]
    ['b', 'a', 'c']
    """
    shares = _shares(rankings, fusion, weights)
    chosen = dict(islice(_summed(shares.values()).items(), most))
    parts: dict[str, dict[str, Part]] = {id: {} for id in chosen}
    for name, shared in shares.items():
        for rank, (id, share) in enumerate(shared.items(), start=1):
            if id in parts:
                parts[id][name] = Part(rank, rankings[name][id], share)
    return [Fused(id, score, parts[id]) for id, score in chosen.items()]


def fused_scores(
    rankings: Mapping[str, Mapping[str, float]],
    fusion: Fusion = "reciprocal_rank",
    weights: Mapping[str, float] | None = None,
) -> Scores:
    """Scores of rankings fused as by :func:`fuse`, by document, best first."""
    return _summed(_shares(rankings, fusion, weights).values())


def _best_first(scores: Mapping[str, float]) -> Scores:
    """The same scores, best first; those of equal score by id, so that no run depends on chance."""
    return dict(sorted(scores.items(), key=lambda scored: (-scored[1], scored[0])))


def _summed(parts: Iterable[Mapping[str, float]]) -> Scores:
    totals: Scores = {}
    for scores in parts:
        for id, score in scores.items():
            totals[id] = totals.get(id, 0.0) + score
    return _best_first(totals)


def _shares(
    rankings: Mapping[str, Mapping[str, float]], fusion: Fusion, weights: Mapping[str, float] | None
) -> dict[str, Scores]:
    """What every ranking adds to the score of its documents, best first."""
    shares = {}
    for name, ranking in rankings.items():
        scores = shares[name] = _best_first(ranking)
        if len(rankings) == 1:
            continue
        weight, values = 1.0 if weights is None else weights[name], list(scores.values())
        lowest, highest = (values[-1], values[0]) if values else (0.0, 0.0)
        if fusion == "reciprocal_rank":
            values = [1 / (RANK_CONSTANT + rank) for rank in range(1, len(values) + 1)]
        else:
            # Where all are alike there is nothing to tell them by, and each was found.
            values = [(score - lowest) / (highest - lowest) if highest > lowest else 1.0 for score in values]
        shares[name] = {id: weight * share for id, share in zip(scores, values, strict=True)}
    return shares


class Search:
    """One search of an index by words and vectors."""

    def __init__(self, store: LanceStore, query: Query, settings: SearchSettings) -> None:
        self._store, self._query, self._settings = store, query, settings
        self._where = condition_of(store, settings.where, query.id)
        self._units: dict[str, WordsUnit] = {
            "words": settings.words_unit or "passage",
            "vectors": settings.vectors_unit or ("passage" if query.id is None else "document"),
        }
        # What the reader should know of the query.
        self.warnings = list(query.warnings)

    @cached_property
    def _vector(self) -> npt.NDArray[np.float32]:
        """The vector of the query, after the search by words, which finds mistakes at once."""
        return np.asarray(self._query.vector(), np.float32)

    def run(self) -> tuple[Hit, ...]:
        """The hits, best first."""
        if "words" in self._settings.rankings and not self._store.tokens(self._query.text):
            self.warnings.append("no word of the query is searched for: all are stop words or signs")
        rankings, fusion = self.rankings(), self._settings.fused_by
        weight = 0.5 if self._settings.weight is None else self._settings.weight
        weights = {"words": weight, "vectors": 1 - weight} if fusion == "weighted" else None
        scores = {name: ranking.scores for name, ranking in rankings.items()}
        chosen = fuse(scores, fusion or "reciprocal_rank", weights, self._settings.k)
        if not chosen:
            return ()
        ids = [fused.id for fused in chosen]
        found = {name: {id: ranking.passages.get(id, {}) for id in ids} for name, ranking in rankings.items()}
        passages = self._with_passages(ids, found) if self._settings.passages else {}
        numbers = self._best_numbers(ids, passages)
        documents, rows = rows_of_hits(self._store, ids, numbers)
        shown = self._shown_passages(rows, passages)
        hits = []
        for rank, fused in enumerate(chosen, start=1):
            row = documents[fused.id]
            explained = partial(self._explain, fused, found, row["content_hash"])
            best = tuple(shown[fused.id, number] for number in numbers[fused.id] if (fused.id, number) in shown)
            about = (rank, fused.id, row["title"] or "", fused.score, fused.parts)
            hits.append(Hit(*about, best, row["metadata"], explained))
        return tuple(hits)

    def rankings(self, where: str | None = None) -> dict[str, Ranking]:
        """The documents that each ranking finds, before they are fused, where a further condition holds."""
        return {name: self.ranking(name, self._units[name], where) for name in self._settings.rankings}

    def ranking(self, name: str, unit: WordsUnit, where: str | None = None, depth: int | None = None) -> Ranking:
        """The documents that ``words`` or ``vectors`` find, by what is ranked, among ``depth`` rows."""
        if unit == "both":
            # What one of both did not find adds nothing.
            passages, whole = (self.ranking(name, one, where, depth) for one in ("passage", "document"))
            return Ranking(_summed([passages.scores, whole.scores]), passages.passages)
        most = depth or self._settings.depth or max(_DEPTH[name], 20 * self._settings.k)
        column, condition = RANKINGS[name][unit], all_of(self._where, where)
        if name == "words":
            rows = self._store.by_words(self._query.text, column, most, condition)
        else:
            rows = self._store.by_vector(self._vector, column, most, condition)
        if unit == "passage":
            return Ranking.of_passages(rows)
        return Ranking(_best_first(dict(zip(rows.ids, rows.scores.tolist(), strict=True))))

    def _with_passages(self, ids: Sequence[str], passages: _PassageScores) -> _PassageScores:
        """Scores of passages, with those of documents that were found as wholes."""
        without = [id for id in ids if not any(scores[id] for scores in passages.values())]
        if not without:
            return passages
        name = self._settings.rankings[-1]
        ranking = self.ranking(name, "passage", is_one_of("id", without), 100 * len(without))
        return {**passages, name: {**passages[name], **ranking.passages}}

    def _best_numbers(self, ids: Sequence[str], passages: _PassageScores) -> dict[str, list[int]]:
        """The best passages of every document, by their scores relative to the best of each ranking."""
        totals: dict[str, dict[int, float]] = {id: {} for id in ids}
        for scores in passages.values():
            top = max((max(scored.values()) for scored in scores.values() if scored), default=0.0) or 1.0
            for id in ids:
                for number, score in scores.get(id, {}).items():
                    totals[id][number] = totals[id].get(number, 0.0) + score / top
        return {
            id: sorted(total, key=lambda number: (-total[number], number))[: self._settings.passages]
            for id, total in totals.items()
        }

    def _shown_passages(
        self, rows: Mapping[tuple[str, int], Mapping[str, Any]], scores: _PassageScores
    ) -> dict[tuple[str, int], PassageHit]:
        """Passages by document and number, with the words that match."""
        texts = [row["text"][row["text_start"] :] for row in rows.values()]
        terms = set(self._store.tokens(self._query.text)) if texts else set()
        words = words_of(texts, self._store.tokens, only=terms)
        shown = {}
        for ((id, number), row), text, matching in zip(rows.items(), texts, words, strict=True):
            of_words, of_vectors = (scores.get(name, {}).get(id, {}).get(number) for name in RANKINGS)
            matches = tuple((word.start, word.end) for word in matching)
            where = (row["section"], row["heading"] or "", row["start"], row["end"])
            shown[id, number] = PassageHit(number, *where, text, of_words, of_vectors, matches)
        return shown

    def _explain(self, fused: Fused, passages: _PassageScores, content_hash: str) -> Explanation:
        """Take the score of a document apart."""
        rows = self._store.select(["content_hash"], IS_DOCUMENT, ids=[fused.id])
        if rows.column("content_hash").to_pylist() != [content_hash]:
            raise RetrievalError(f"document {fused.id!r} has changed or was removed since; search again")
        words, vectors = (passages.get(name, {}).get(fused.id, {}) for name in RANKINGS)
        terms = term_parts(self._store, self._query.text, fused, self._units["words"], words)
        parts = self._passage_parts(fused, vectors) if "vectors" in fused.parts else []
        return Explanation(*fused, terms, tuple(sorted(parts, key=lambda part: (-part.part, part.number))))

    def _passage_parts(self, fused: Fused, passages: Mapping[int, float]) -> list[PassagePart]:
        """What every passage adds to the score of vector search."""
        if self._units["vectors"] == "passage":
            best = dict(list(passages.items())[:BEST_PASSAGES])
            keys = [key_of(fused.id, PASSAGE, number) for number in best]
            rows = self._store.select(["number", "heading"], is_one_of("key", keys))
            values = [best[number] for number in rows.column("number").to_pylist()]
        else:
            columns = ["number", "heading", "share"]
            rows = self._store.select(columns, f"level = '{PASSAGE}'", ids=[fused.id])
            length = float(np.linalg.norm(self._vector)) if self._store.record["similarity"] == "cosine" else 1.0
            shares = vectors_of(rows, "share").astype(np.float64) @ self._vector.astype(np.float64) / (length or 1.0)
            # Shares are kept in half precision; what rounding took is given back in proportion.
            lost = fused.parts["vectors"].score - shares.sum()
            values = (shares + lost * np.abs(shares) / (np.abs(shares).sum() or 1.0)).tolist()
        numbers, headings = (rows.column(name).to_pylist() for name in ("number", "heading"))
        parts = zip(numbers, headings, values, strict=True)
        return [PassagePart(number, heading or "", part) for number, heading, part in parts]


def condition_of(store: LanceStore, where: str | None, query_id: str | None) -> str | None:
    """The condition that documents have to meet: a filter, and that the query document is not its own hit."""
    translated = None if where is None else store_filter(where, filter_columns(store.schema))
    return all_of(translated, None if query_id is None else f"id != {quoted(query_id)}")


def rows_of_hits(
    store: LanceStore, ids: Sequence[str], numbers: Mapping[str, Sequence[int]]
) -> tuple[dict[str, dict[str, Any]], dict[tuple[str, int], dict[str, Any]]]:
    """The rows of documents by id, with ``metadata``, and those of passages by id and number, read at once."""
    fields = field_columns(store.schema)
    columns = ["id", "level", "title", "label", "content_hash", *(column.stored for column in fields.values())]
    keys = [key_of(id, DOCUMENT, 0) for id in ids]
    keys += [key_of(id, PASSAGE, number) for id, best in numbers.items() for number in best]
    if len(keys) > len(ids):
        columns += ["number", "section", "heading", "start", "end", "text", "text_start"]
    removed: dict[str, Any] = {"title": "", "content_hash": None, "metadata": {}}
    documents, passages = dict.fromkeys(ids, removed), {}
    for row in store.select(columns, is_one_of("key", keys)).to_pylist():
        if row["level"] == PASSAGE:
            passages[row["id"], row["number"]] = row
            continue
        values = {"label": row["label"]} | {name: row[column.stored] for name, column in fields.items()}
        row["metadata"] = {name: value for name, value in values.items() if value is not None}
        documents[row["id"]] = row
    return documents, passages


def term_parts(
    store: LanceStore, text: str, fused: Fused, unit: WordsUnit, passages: Mapping[int, float]
) -> tuple[TermPart, ...]:
    """What every term of a query adds to the score of word search, as the store itself counts it, largest first."""
    if "words" not in fused.parts:
        return ()
    best = list(passages.items())[:BEST_PASSAGES]
    keys: dict[str, list[str]] = {}
    if unit != "document" and best:
        keys["passage"] = [key_of(fused.id, PASSAGE, number) for number, _ in best]
    # Of both, the whole document counts where word search found it too.
    if unit == "document" or fused.parts["words"].score > sum(score for _, score in best):
        keys["document"] = [key_of(fused.id, DOCUMENT, 0)]
    parts: dict[str, TermPart] = {}
    for scored, rows in keys.items():
        column, where, most = RANKINGS["words"][scored], is_one_of("key", rows), max(1, store.state().rows)
        texts = store.select([column], where).column(column).to_pylist()
        frequencies = Counter(term for row in texts for term in store.tokens(row or ""))
        for term, word, count in counted_words(text, store.tokens):
            if term not in frequencies:
                continue
            part = count * float(store.by_words(word, column, len(rows), where).scores.sum())
            if word in parts:
                parts[word] = parts[word]._replace(part=parts[word].part + part)
            else:
                total = len(store.by_words(word, column, most).ids)
                parts[word] = TermPart(word, frequencies[term], total, part)
    return tuple(sorted(parts.values(), key=lambda part: (-part.part, part.term)))
