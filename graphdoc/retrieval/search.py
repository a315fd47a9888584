"""One search: candidates by words and by vectors, grouped to documents, joined, and shown with their best passages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypedDict, get_args

import numpy as np

from ..errors import RetrievalError, SettingsError
from ..runtime.arguments import require_one_of, require_whole
from .engine import Engine, quoted
from .explain import Explanation, PassagePart, TermPart
from .fields import plain_value
from .filters import require_filter
from .fusion import FUSIONS, Fused, Fusion, as_they_are, fuse
from .grouping import BEST_PASSAGES, Scored, as_run, group_passages, whole_documents, with_whole
from .query import Query
from .results import Hit, PassageHit
from .rows import DOCUMENT, PASSAGE, key_of, metadata_columns
from .terms import unique_words, words_of_many

MOST_ROWS = 10_000_000
By = Literal["hybrid", "words", "vectors"]
Unit = Literal["passage", "document"]
WordsUnit = Literal["passage", "document", "both"]
# Each way to search, the column it searches by what is ranked.
RANKINGS: dict[str, dict[str, str]] = {
    "words": {"passage": "text", "document": "document_text"},
    "vectors": {"passage": "passage_vector", "document": "document_vector"},
}
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
        where: a filter over the columns of the index, as in SQL.
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
        engine: the index.
        query: what is searched for.
        settings: how.
    """

    def __init__(self, engine: Engine, query: Query, settings: SearchSettings) -> None:
        self._engine, self._query, self._settings = engine, query, settings
        self._units: dict[str, WordsUnit] = {
            "words": settings.words_unit,
            "vectors": settings.vectors_unit or ("passage" if query.id is None else "document"),
        }
        self._vector = None if "vectors" not in settings.rankings else np.asarray(query.vector(), np.float32)

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

    def rankings(self) -> dict[str, list[Scored]]:
        """The documents that each ranking finds, best first, before they are joined."""
        return {name: self._ranking(name, self._units[name]) for name in self._settings.rankings}

    def _ranking(self, name: str, unit: WordsUnit, where: str | None = None, depth: int | None = None) -> list[Scored]:
        if unit == "both":
            return with_whole(*(self._ranking(name, one, where, depth) for one in get_args(Unit)))
        settings = self._settings
        most = depth or settings.depth or max(_DEPTH[name], 20 * settings.k)
        conditions = [part for part in (settings.where, where, self._not_itself()) if part]
        condition = " AND ".join(f"({part})" for part in conditions) or None
        column = RANKINGS[name][unit]
        if name == "words":
            found = self._engine.by_words(self._query.text, column, most, condition)
        else:
            assert self._vector is not None
            found = self._engine.by_vector(self._vector, column, most, condition)
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
        documents, shown = self._rows(ids, numbers)
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
                    {
                        name: plain_value(value)
                        for name, value in row.items()
                        if name not in ("id", "title", "content_hash") and value is not None
                    },
                    partial(self._explain, one, found, row.get("content_hash")),
                )
            )
        return tuple(hits)

    def _rows(
        self, ids: Sequence[str], numbers: Mapping[str, Sequence[int]]
    ) -> tuple[dict[str, dict[str, Any]], dict[tuple[str, int], dict[str, Any]]]:
        """The rows of documents by id, and those of their passages by id and number, read at once."""
        of_document = ["id", "title", "label", "content_hash", *metadata_columns(self._engine.schema)]
        of_passage = ["id", "number", "section", "heading", "start", "end", "text", "text_start"]
        keys = [key_of(id, "document", 0) for id in ids]
        keys += [key_of(id, "passage", number) for id, own in numbers.items() for number in own]
        columns = dict.fromkeys([*of_document, "level", *(of_passage if len(keys) > len(ids) else ())])
        rows = self._engine.select(list(columns), f"key IN ({', '.join(map(quoted, keys))})").to_pylist()
        return (
            {row["id"]: {name: row[name] for name in of_document} for row in rows if row["level"] == DOCUMENT},
            {
                (row["id"], row["number"]): {name: row[name] for name in of_passage}
                for row in rows
                if row["level"] == PASSAGE
            },
        )

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
        terms = set(self._engine.tokens(self._query.text))
        texts = {place: row["text"][row["text_start"] :] for place, row in shown.items()}
        words = words_of_many(list(texts.values()), self._engine.tokens, only=terms)
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
        return {one.id: dict(one.passages) for one in self._ranking(name, "passage", where, 100 * len(ids))}

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
        rows = self._engine.select(["content_hash"], "level = 'document'", ids=[one.id])
        if rows.column("content_hash").to_pylist() != [content_hash]:
            raise RetrievalError(f"document {one.id!r} has changed or was removed since; search again")
        words = self._terms_of(one, found["words"].get(one.id, {})) if "words" in one.parts else []
        vectors = self._shares_of(one, found["vectors"].get(one.id, {})) if "vectors" in one.parts else []
        return Explanation(
            one.id,
            one.score,
            one.parts,
            tuple(sorted(words, key=lambda part: (-part.part, part.term))),
            tuple(sorted(vectors, key=lambda part: (-part.part, part.number))),
        )

    def _terms_of(self, one: Fused, passages: Mapping[int, float]) -> list[TermPart]:
        """What every term of the query adds to the score of word search, as the engine itself counts it."""
        unit, best = self._units["words"], list(passages.items())[:BEST_PASSAGES]
        places: dict[Unit, list[str]] = {}
        if unit != "document" and best:
            places["passage"] = [key_of(one.id, "passage", number) for number, _ in best]
        # Of both, the whole document counts where word search found it too.
        if unit == "document" or one.parts["words"].score > sum(score for _, score in best):
            places["document"] = [key_of(one.id, "document", 0)]
        parts: dict[str, TermPart] = {}
        for place, keys in places.items():
            for part in self._terms_in(RANKINGS["words"][place], keys):
                also = parts.get(part.term)
                parts[part.term] = part if also is None else replace(also, part=also.part + part.part)
        return list(parts.values())

    def _terms_in(self, column: str, keys: Sequence[str]) -> list[TermPart]:
        """What terms add to the scores of some rows."""
        where = f"key IN ({', '.join(map(quoted, keys))})"
        rows = self._engine.select([column], where).to_pylist()
        frequencies: dict[str, int] = {}
        for row in rows:
            for term in self._engine.tokens(row[column] or ""):
                frequencies[term] = frequencies.get(term, 0) + 1
        state = self._engine.state()
        parts = []
        for word in unique_words(self._query.text, self._engine.tokens):
            if word.term not in frequencies:
                continue
            own = self._engine.by_words(word.text, column, len(keys), where)
            everywhere = self._engine.by_words(word.text, column, max(1, state.rows))
            part = word.count * float(own.scores.sum())
            parts.append(TermPart(word.text, frequencies[word.term], len(everywhere), part))
        return parts

    def _shares_of(self, one: Fused, passages: Mapping[int, float]) -> list[PassagePart]:
        """What every passage adds to the score of vector search."""
        if self._units["vectors"] == "passage":
            best = dict(list(passages.items())[:BEST_PASSAGES])
            keys = ", ".join(quoted(key_of(one.id, "passage", number)) for number in best)
            headings = self._engine.select(["number", "heading"], f"key IN ({keys})").to_pylist()
            names = {row["number"]: row["heading"] or "" for row in headings}
            return [PassagePart(number, names.get(number, ""), score) for number, score in best.items()]
        rows = self._engine.select(["number", "heading", "share"], "level = 'passage'", ids=[one.id])
        assert self._vector is not None
        shares = rows.column("share").combine_chunks().flatten().to_numpy().reshape(len(rows), -1).astype(np.float64)
        length = float(np.linalg.norm(self._vector)) if self._engine.record["similarity"] == "cosine" else 1.0
        values = shares @ self._vector.astype(np.float64) / (length or 1.0)
        # Shares are kept in half precision; what rounding took is given back in proportion.
        lost = one.parts["vectors"].score - values.sum()
        values += lost * np.abs(values) / (np.abs(values).sum() or 1.0)
        numbers, headings = rows.column("number").to_pylist(), rows.column("heading").to_pylist()
        return [
            PassagePart(number, heading or "", value)
            for number, heading, value in zip(numbers, headings, values.tolist(), strict=True)
        ]
