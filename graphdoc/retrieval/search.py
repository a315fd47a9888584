"""One search: candidates by words and by vectors, grouped to documents, joined, and shown with their best passages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, TypedDict, get_args

import numpy as np
import numpy.typing as npt

from ..errors import RetrievalError, SettingsError
from ..runtime.text import require_one_of, require_whole
from .explain import Explanation
from .fields import filter_columns
from .filters import require_filter, store_filter
from .fusion import FUSIONS, Fused, Fusion, as_they_are, fuse
from .grouping import Scored, as_run, group_passages, whole_documents, with_whole
from .hit_rows import rows_of_hits
from .lance import LanceStore
from .query import Query
from .results import Hit, PassageHit
from .rows import quoted
from .score_parts import RANKINGS, Unit, WordsUnit, shares_of, terms_of
from .terms import words_of_many

MOST_ROWS = 10_000_000
By = Literal["hybrid", "words", "vectors"]
# With more rows the three best passages of a document are more often all found; by words they cost little time.
_DEPTH = {"words": 1_000, "vectors": 200}


class SearchOptions(TypedDict, total=False):
    """How a search is made, beside the number of documents, as :class:`SearchSettings` describes it."""

    by: By
    where: str | None
    passages: int
    fusion: Fusion
    weight: float
    words_unit: WordsUnit
    vectors_unit: Unit | None
    depth: int | None


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """How a search is made.

    Args:
        k: documents wanted.
        by: ``words``, ``vectors`` or both.
        where: a filter such as ``year >= 2010`` (:func:`~graphdoc.retrieval.filters.store_filter`).
        passages: passages shown of each document.
        fusion: how both rankings are joined.
        weight: weight of words in a weighted fusion, 0 to 1; vectors have the rest.
        words_unit: whether word search ranks passages, of which the best three count, whole documents, or both added
            up.
        vectors_unit: whether vector search ranks passages or whole documents; None for passages where the query is a
            text, and for documents where it is a document.
        depth: rows that each ranking fetches; None for 20 a document wanted, and at least 1,000 by words and 200 by
            vectors.

    Raises:
        SettingsError: a value is unknown or out of range.
    """

    k: int = 10
    by: By = "hybrid"
    where: str | None = None
    passages: int = 3
    fusion: Fusion = "reciprocal_rank"
    weight: float = 0.5
    words_unit: WordsUnit = "passage"
    vectors_unit: Unit | None = None
    depth: int | None = None

    def __post_init__(self) -> None:
        require_whole("k", self.k, may_be_none=False)
        require_whole("passages", self.passages, least=0, may_be_none=False)
        require_whole("depth", self.depth)
        require_one_of("by", self.by, get_args(By))
        require_one_of("fusion", self.fusion, FUSIONS)
        require_one_of("words_unit", self.words_unit, get_args(WordsUnit))
        if self.vectors_unit is not None:
            require_one_of("vectors_unit", self.vectors_unit, get_args(Unit))
        if isinstance(self.weight, bool) or not isinstance(self.weight, int | float) or not 0 <= self.weight <= 1:
            raise SettingsError(f"weight is {self.weight!r}; give a number from 0 to 1")
        require_filter(self.where)
        for name, value in (("k", self.k), ("passages", self.passages), ("depth", self.depth or 0)):
            if value > MOST_ROWS:
                raise SettingsError(f"{name}={value} is more than {MOST_ROWS:,}; give less")

    @property
    def rankings(self) -> tuple[str, ...]:
        """The rankings that are made."""
        return tuple(RANKINGS) if self.by == "hybrid" else (self.by,)


class Search:
    """One search of an index.

    Args:
        store: the index.
        query: what is searched for.
        settings: how.
    """

    def __init__(self, store: LanceStore, query: Query, settings: SearchSettings) -> None:
        self._store, self._query, self._settings = store, query, settings
        self._where = store_filter(settings.where, filter_columns(store.schema))
        self._units: dict[str, WordsUnit] = {
            "words": settings.words_unit,
            "vectors": settings.vectors_unit or ("passage" if query.id is None else "document"),
        }

    @cached_property
    def _vector(self) -> npt.NDArray[np.float32] | None:
        """The vector of the query, after the search by words, which finds mistakes of a filter at once."""
        return None if "vectors" not in self._settings.rankings else np.asarray(self._query.vector(), np.float32)

    def run(self) -> tuple[Hit, ...]:
        """The hits, best first."""
        found = self.rankings()
        own = {name: as_run(ranking) for name, ranking in found.items()}
        if self._settings.by == "hybrid":
            weights = {"words": self._settings.weight, "vectors": 1 - self._settings.weight}
            how = weights if self._settings.fusion == "weighted" else None
            chosen = fuse(own, self._settings.fusion, how, self._settings.k)
        else:
            chosen = as_they_are(own, self._settings.k)
        ids = {one.id for one in chosen}
        passages = {
            name: {one.id: dict(one.passages) for one in ranking if one.id in ids} for name, ranking in found.items()
        }
        return self._hits(chosen, passages)

    def rankings(self, where: str | None = None) -> dict[str, list[Scored]]:
        """The documents that each ranking finds, best first, before they are joined.

        Args:
            where: a further condition, in the SQL of the store.
        """
        return {name: self.ranking(name, self._units[name], where) for name in self._settings.rankings}

    def ranking(self, name: str, unit: WordsUnit, where: str | None = None, depth: int | None = None) -> list[Scored]:
        """The documents that one ranking finds, best first.

        Args:
            name: ``words`` or ``vectors``.
            unit: what it ranks.
            where: a further condition, in the SQL of the store.
            depth: rows that it fetches; None for as many as the settings say.
        """
        if unit == "both":
            return with_whole(*(self.ranking(name, one, where, depth) for one in get_args(Unit)))
        settings = self._settings
        most = depth or settings.depth or max(_DEPTH[name], 20 * settings.k)
        conditions = [part for part in (self._where, where, self._not_itself()) if part]
        condition = " AND ".join(f"({part})" for part in conditions) or None
        column = RANKINGS[name][unit]
        if name == "words":
            found = self._store.by_words(self._query.text, column, most, condition)
        else:
            assert self._vector is not None
            found = self._store.by_vector(self._vector, column, most, condition)
        return group_passages(found) if unit == "passage" else whole_documents(found)

    def _not_itself(self) -> str | None:
        """A document that is asked with is not its own hit."""
        return None if self._query.id is None else f"id != {quoted(self._query.id)}"

    def _hits(
        self, chosen: Sequence[Fused], found: Mapping[str, Mapping[str, Mapping[int, float]]]
    ) -> tuple[Hit, ...]:
        ids = [one.id for one in chosen]
        if not ids:
            return ()
        scores = self._with_passages(ids, found)
        numbers = self._best_numbers(ids, scores)
        documents, shown = rows_of_hits(self._store, ids, numbers)
        passages = self._passages(shown, numbers, scores)
        hits = []
        for rank, one in enumerate(chosen, start=1):
            row = documents.get(one.id, {})
            hits.append(
                Hit(
                    rank,
                    one.id,
                    row.get("title") or "",
                    one.score,
                    one.parts,
                    tuple(passages.get(one.id, ())),
                    row.get("metadata", {}),
                    partial(self._explain, one, found, row.get("content_hash")),
                )
            )
        return tuple(hits)

    def _with_passages(
        self, ids: Sequence[str], found: Mapping[str, Mapping[str, Mapping[int, float]]]
    ) -> Mapping[str, Mapping[str, Mapping[int, float]]]:
        """Scores of passages by ranking, document and number, with those of documents that were found as wholes."""
        if not self._settings.passages:
            return {}
        without = [id for id in ids if not any(own.get(id) for own in found.values())]
        if not without:
            return found
        name = "vectors" if self._vector is not None else "words"
        return {**found, name: {**found.get(name, {}), **self._best_passages(without, name)}}

    def _best_numbers(
        self, ids: Sequence[str], scores: Mapping[str, Mapping[str, Mapping[int, float]]]
    ) -> dict[str, list[int]]:
        """The best passages of every document, by their scores relative to the best of each ranking."""
        tops = {
            name: max((max(own.values()) for own in by.values() if own), default=0.0) or 1.0
            for name, by in scores.items()
        }
        chosen: dict[str, list[int]] = {}
        for id in ids:
            totals: dict[int, float] = {}
            for name, by in scores.items():
                for number, score in by.get(id, {}).items():
                    totals[number] = totals.get(number, 0.0) + score / tops[name]
            best = sorted(totals, key=lambda number: (-totals[number], number))
            chosen[id] = best[: self._settings.passages]
        return chosen

    def _passages(
        self,
        shown: Mapping[tuple[str, int], Mapping[str, Any]],
        numbers: Mapping[str, Sequence[int]],
        scores: Mapping[str, Mapping[str, Mapping[int, float]]],
    ) -> dict[str, list[PassageHit]]:
        """The best passages of every document, with the words that match."""
        if not shown:
            return {}
        terms = set(self._store.tokens(self._query.text))
        texts = {place: row["text"][row["text_start"] :] for place, row in shown.items()}
        words = words_of_many(list(texts.values()), self._store.tokens, only=terms)
        matches = {
            place: tuple((word.start, word.end) for word in own) for place, own in zip(texts, words, strict=True)
        }
        return {
            id: [
                self._passage_hit(shown[id, number], scores, matches[id, number])
                for number in own
                if (id, number) in shown
            ]
            for id, own in numbers.items()
        }

    def _best_passages(self, ids: Sequence[str], name: str) -> dict[str, dict[int, float]]:
        """Passages of documents that were found as wholes, by what they share with the query."""
        where = f"id IN ({', '.join(map(quoted, ids))})"
        return {one.id: dict(one.passages) for one in self.ranking(name, "passage", where, 100 * len(ids))}

    def _passage_hit(
        self,
        row: Mapping[str, Any],
        scores: Mapping[str, Mapping[str, Mapping[int, float]]],
        matches: tuple[tuple[int, int], ...],
    ) -> PassageHit:
        own = {name: by.get(row["id"], {}).get(row["number"]) for name, by in scores.items()}
        return PassageHit(
            row["number"],
            row["section"],
            row["heading"] or "",
            row["start"],
            row["end"],
            row["text"][row["text_start"] :],
            own.get("words"),
            own.get("vectors"),
            matches,
        )

    def _explain(
        self, one: Fused, found: Mapping[str, Mapping[str, Mapping[int, float]]], content_hash: str | None
    ) -> Explanation:
        """Take the score of a document apart."""
        rows = self._store.select(["content_hash"], "level = 'document'", ids=[one.id])
        if rows.column("content_hash").to_pylist() != [content_hash]:
            raise RetrievalError(f"document {one.id!r} has changed or was removed since; search again")
        words, vectors = (found.get(name, {}).get(one.id, {}) for name in RANKINGS)
        terms = terms_of(self._store, self._query.text, one, self._units["words"], words)
        shares = (
            [] if self._vector is None else shares_of(self._store, self._vector, one, self._units["vectors"], vectors)
        )
        return Explanation(
            one.id,
            one.score,
            one.parts,
            tuple(sorted(terms, key=lambda part: (-part.part, part.term))),
            tuple(sorted(shares, key=lambda part: (-part.part, part.number))),
        )
