"""The index in Qdrant: a folder that one process has open, or a collection of a server.

Qdrant changes one point at a time. So that a change of documents is one change to readers, every row carries the
number of the change that brought it and of the one that took it away; readers see the rows of the last change that was
finished, whose number is kept in one point. What a writer that was killed left behind is undone by the next one.
"""

from __future__ import annotations

import json
import math
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

from ..errors import RetrievalError, SettingsError
from ..registry import load
from .engine import Candidates, State
from .qdrant_conditions import Condition, Filter, every
from .qdrant_points import FOLDER, FolderPoints, Point, Points, WordQuery
from .qdrant_rows import BORN, DIED, LEVELS, NEVER, TERMS, as_schema, as_text, kind_of, points_of, requests_of, row_of
from .rows import DOCUMENT, PASSAGE, key_of, table_of
from .word_settings import WordSettings

Found = TypeVar("Found")

# The level of the rows that have a text.
_TEXTS = {"text": PASSAGE, "document_text": DOCUMENT}
_STATE = str(uuid.uuid5(uuid.NAMESPACE_URL, "graphdoc index"))
_INDEXED = {"key": "keyword", "id": "keyword", "level": "keyword", BORN: "integer", DIED: "integer"}
# Points of one request, and different texts in a column that a filter compares.
_BLOCK, _MOST_VALUES = 256, 10_000_000
_SERVER = "graphdoc.retrieval.qdrant_server:ServerPoints"


class QdrantEngine:
    """Rows as points of Qdrant.

    Args:
        points: where they are.
        place: where that is, for messages.
    """

    SUFFIX = ".qdrant"

    def __init__(self, points: Points, place: str) -> None:
        self._points, self.place = points, place
        self._state: State | None = None
        self.record: Mapping[str, Any] = {}
        self._schema: Any = None
        self._version, self._waiting = 0, 0
        self._read()

    @cached_property
    def _tokenize(self) -> Callable[[str], list[str]]:
        return WordSettings(**self.record["words"]).term_maker()

    @classmethod
    def create(cls, place: str, schema: Any, record: Mapping[str, Any]) -> QdrantEngine:
        """Make an empty index.

        Args:
            place: a folder, or ``//host:port/collection``, or the same with ``http:`` or ``https:`` before it.
            schema: its columns.
            record: what the index is made with.

        Raises:
            RetrievalError: there is one already, or the place cannot be written.
        """
        if cls.exists(place):
            raise RetrievalError(f"qdrant:{place} holds an index already; open it, or choose another place")
        sizes = {name: schema.field(name).type.list_size for name in LEVELS}
        if _is_server(place):
            points: Points = load(_SERVER).create(place, sizes)
        else:
            points = FolderPoints.create(Path(place) / FOLDER, f"qdrant:{place}", sizes)
        for column, kind in _INDEXED.items():
            points.index(column, kind)
        for column in TERMS.values():
            points.index(column, "words")
        content = {"record": json.dumps(record), "schema": as_text(schema), "version": 1, "cleaned": 0, "waiting": 0}
        points.upsert([Point(_STATE, content, {})])
        return cls(points.finished(), f"qdrant:{place}")

    @classmethod
    def exists(cls, place: str) -> bool:
        """Whether there is an index; one whose making was cut short is none."""
        if not _is_server(place) and not (Path(place) / FOLDER).is_dir():
            return False
        points = _opened(place)
        return points is not None and points.one(_STATE) is not None

    @classmethod
    def open(cls, place: str) -> QdrantEngine:
        """Open an index.

        Raises:
            RetrievalError: there is none, or it was not made by graphdoc.
        """
        points = _opened(place) if _is_server(place) or (Path(place) / FOLDER).is_dir() else None
        if points is None or points.one(_STATE) is None:
            raise RetrievalError(
                f"qdrant:{place} holds no index; make one with: graphdoc index CORPUS --output qdrant:{place}"
            )
        return cls(points, f"qdrant:{place}")

    @property
    def schema(self) -> Any:
        """Columns of the index (an Arrow schema)."""
        return self._schema

    def refresh(self) -> None:
        """See what other processes have written."""
        before = self._version
        self._read()
        if self._version != before:
            self._state = None

    def add_columns(self, columns: Mapping[str, Any]) -> None:
        """Add columns of metadata, by name and Arrow type; rows that are there have nothing in them."""
        for name, kind in columns.items():
            self._points.index(name, kind_of(kind))
            self._schema = self._schema.append(pa.field(name, kind))
        self._commit(self._waiting)

    def write(self, rows: Any, ids: Sequence[str]) -> None:
        """Put the rows of some documents in the place of those that the documents had, as one change."""
        self._undo()
        change = self._version + 1
        for block in requests_of(rows, _BLOCK):
            self._points.upsert(points_of(block, self._schema, change, self._tokenize))
        old = self._take_away(ids)
        self._commit(self._waiting + len(rows) + old)

    def delete(self, ids: Sequence[str]) -> int:
        """Remove documents, and give the number of those that were there."""
        self._undo()
        count = self._points.count(self._seen({"must": [_is_one_of("id", ids), _is_level(DOCUMENT)]}))
        if count:
            self._commit(self._waiting + self._take_away(ids))
        return count

    def select(
        self, columns: Sequence[str], where: str | None = None, *, ids: Sequence[str] = (), most: int | None = None
    ) -> Any:
        """Rows that meet a condition, of some documents where any are named (an Arrow table)."""
        own: Condition = {"must": [_is_one_of("id", ids)]} if ids else True
        condition = every([own, self._filter(where)])
        rows = self._whole(lambda: [row for block in self._blocks(columns, condition, most) for row in block])
        return table_of(rows, self._columns(columns))

    def batches(self, columns: Sequence[str], where: str | None = None, *, most: int | None = None) -> Iterator[Any]:
        """All rows that meet a condition, some at a time (Arrow record batches)."""
        for block in self._blocks(columns, self._filter(where), None, min(most or _BLOCK, _BLOCK)):
            if self._is_cleaned():
                raise RetrievalError(f"{self.place} was changed while its rows were read; read them again")
            yield from table_of(block, self._columns(columns)).to_batches()

    def by_words(self, words: str, column: str, most: int, where: str | None = None) -> Candidates:
        """Rows by BM25 of a text column."""
        counts = Counter(self.tokens(words))
        condition = self._filter(where)
        if not counts or condition is False:
            return Candidates((), (), np.zeros(0))
        formula = dict(part.split("=") for part in self.record["words"]["formula"].split()[1:])
        # Qdrant counts a term of a query once: terms that are there more often are asked for again.
        steps = sorted(set(counts.values()))
        asked: list[tuple[int, WordQuery]] = []
        for before, step in zip((0, *steps), steps, strict=False):
            terms = " ".join(sorted(term for term, count in counts.items() if count >= step))
            asked.append((step - before, WordQuery(terms, float(formula["k1"]), float(formula["b"]))))
        scores: dict[tuple[str, int], float] = {}
        if len(asked) > 1:
            # An answer ends before rows that are best in all of them together, so those of all are scored again.
            deep = most * len(asked)
            found = {place for _, one in asked for place, _ in self._nearest(one, TERMS[column], deep, condition)}
            keys = [key_of(id, _TEXTS[column], number) for id, number in sorted(found)]
            condition, most_asked = every([condition, _is_one_of("key", keys)]), len(keys)
        else:
            most_asked = most
        for times, one in asked if most_asked else ():
            for place, score in self._nearest(one, TERMS[column], most_asked, condition):
                scores[place] = scores.get(place, 0.0) + times * score
        best = sorted(scores, key=lambda place: (-scores[place], place))[:most]
        return _candidates([(place, scores[place]) for place in best])

    def by_vector(
        self, vector: npt.NDArray[np.float32], column: str, most: int, where: str | None = None
    ) -> Candidates:
        """Rows by similarity of a vector column, by the measure that the index was made for."""
        condition = every([{"must": [_is_level(LEVELS[column])]}, self._filter(where)])
        if condition is False:
            return Candidates((), (), np.zeros(0))
        # Vectors of rows have unit length where they are compared by cosine.
        length = float(np.linalg.norm(vector)) if self.record["similarity"] == "cosine" else 1.0
        query = (np.asarray(vector, np.float32) / (length or 1.0)).tolist()
        return _candidates(self._nearest(query, column, most, condition))

    def tokens(self, text: str) -> list[str]:
        """The terms that word search makes of a text."""
        return self._tokenize(text)

    def maintain(self) -> None:
        """Bring search structures up to date, and remove what no reader needs."""
        self._undo()
        self._points.optimize()
        self._commit(0)

    def state(self) -> State:
        """How large it is, and what is waiting."""
        if self._state is None:
            documents, passages, rows = (
                self._points.count(self._seen(condition))
                for condition in (_is_level(DOCUMENT), _is_level(PASSAGE), True)
            )
            self._state = State(documents, passages, rows, self._waiting, self._version)
        return self._state

    def _read(self) -> None:
        content = self._points.one(_STATE)
        if content is None:
            raise RetrievalError(f"{self.place} holds no index any more; index the documents again")
        self.record = json.loads(content["record"])
        self._schema = as_schema(content["schema"])
        self._version, self._waiting = int(content["version"]), int(content["waiting"])

    def _whole(self, read: Callable[[], Found]) -> Found:
        """Read, and read again at the last change where rows were removed meanwhile that belong to what is read."""
        found = read()
        while self._is_cleaned():
            self.refresh()
            found = read()
        return found

    def _is_cleaned(self) -> bool:
        content = self._points.one(_STATE)
        return content is not None and int(content["cleaned"]) > self._version

    def _commit(self, waiting: int) -> None:
        """Let readers see a change."""
        self._write_state(self._version + 1, waiting)
        self._version, self._waiting, self._state = self._version + 1, waiting, None

    def _write_state(self, version: int, waiting: int) -> None:
        # Rows that changes up to the version before took away are gone, or may be soon.
        content = {
            "record": json.dumps(self.record),
            "schema": as_text(self._schema),
            "version": version,
            "cleaned": self._version,
            "waiting": waiting,
        }
        self._points.upsert([Point(_STATE, content, {})])

    def _undo(self) -> None:
        """Undo a change that was not finished, and remove what finished ones took away."""
        self._points.delete({"must": [{"key": BORN, "range": {"gt": self._version}}]})
        unfinished = {"must": [{"key": DIED, "range": {"gt": self._version, "lt": NEVER}}]}
        self._points.set_payload({DIED: NEVER}, unfinished)
        # Readers have to know before rows go.
        self._write_state(self._version, self._waiting)
        self._points.delete({"must": [{"key": DIED, "range": {"lte": self._version}}]})

    def _take_away(self, ids: Sequence[str]) -> int:
        """Let the rows that some documents have end with the next change, and count them."""
        own = self._seen({"must": [_is_one_of("id", ids)]})
        count = self._points.count(own)
        if count:
            self._points.set_payload({DIED: self._version + 1}, own)
        return count

    def _seen(self, condition: Condition) -> Filter:
        """A filter for rows that readers see."""
        lives = [
            {"key": BORN, "range": {"lte": self._version}},
            {"key": DIED, "range": {"gt": self._version}},
        ]
        return {"must": [*lives, condition] if isinstance(condition, dict) else lives}

    def _filter(self, where: str | None) -> Condition:
        if where is None:
            return True
        # Which store a folder has is asked without the libraries that read filters.
        from .qdrant_filters import Filters

        return Filters(self._schema, LEVELS, self._values_of).of(where)

    def _values_of(self, column: str) -> list[str]:
        # Few filters compare titles and headings: what makes that quick is made for the first.
        self._points.index(column, "keyword")
        return self._points.values(column, self._seen(True), _MOST_VALUES)

    def _nearest(
        self, query: Sequence[float] | WordQuery, column: str, most: int, condition: Condition
    ) -> list[tuple[tuple[str, int], float]]:
        most = min(most, max(1, self.state().rows))
        found = self._whole(lambda: self._points.nearest(query, column, self._seen(condition), most, ["id", "number"]))
        return [((content["id"], content["number"]), score) for content, score in found]

    def _blocks(
        self, columns: Sequence[str], condition: Condition, most: int | None, block: int = _BLOCK
    ) -> Iterator[list[dict[str, Any]]]:
        """Rows by column, some at a time."""
        schema = self._columns(columns)
        start: str | None = None
        left = math.inf if most is None else most
        while condition is not False and left > 0:
            payload = [name for name in columns if name not in LEVELS]
            vectors = [name for name in columns if name in LEVELS]
            found, start = self._points.some(
                self._seen(condition), payload or ["key"], vectors, int(min(left, block)), start
            )
            if found:
                yield [row_of(point, schema) for point in found]
            left -= len(found)
            if start is None:
                return

    def _columns(self, columns: Sequence[str]) -> Any:
        unknown = [name for name in columns if name not in self._schema.names]
        if unknown:
            raise SettingsError(f"there is no column {unknown[0]!r}; there are {', '.join(self._schema.names)}")
        return pa.schema([self._schema.field(name) for name in columns])


def _is_server(place: str) -> bool:
    return "//" in place[:8]


def _opened(place: str) -> Points | None:
    if _is_server(place):
        found: Points | None = load(_SERVER).open(place)
        return found
    return FolderPoints.open(Path(place) / FOLDER, f"qdrant:{place}")


def _is_level(level: str) -> Filter:
    return {"key": "level", "match": {"value": level}}


def _is_one_of(column: str, values: Sequence[str]) -> Filter:
    return {"key": column, "match": {"any": list(values)}}


def _candidates(found: Sequence[tuple[tuple[str, int], float]]) -> Candidates:
    places = [place for place, _ in found]
    scores = np.array([score for _, score in found], np.float64)
    return Candidates(tuple(id for id, _ in places), tuple(number for _, number in places), scores)
