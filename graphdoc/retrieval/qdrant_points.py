"""Points of Qdrant in a folder, kept by this process itself (qdrant-edge)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any, ClassVar, Protocol, TypeVar
from weakref import WeakValueDictionary

from ..errors import GraphdocError, MissingExtraError, RetrievalError
from ..runtime.plain_text import one_line
from .qdrant_conditions import Filter

Found = TypeVar("Found")
Vectors = Mapping[str, list[float]]
FOLDER = "documents.qdrant"

# What a message holds, in small letters, and what to do then; the first that fits.
_WAYS_OUT: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("can't init wal", "wouldblock"),
        "another process has it open, and a folder is for one process; end that, or use a server: "
        "qdrant://host:6333/collection",
    ),
    (
        ("no space left", "file too large", "os error 28", "os error 27"),
        "the disk is full or a file may not grow; free some space and run the same again, nothing is lost",
    ),
    (("permission denied", "read-only file system"), "it may not be written; change its rights, or choose another"),
    (
        ("401", "403", "unauthorized", "forbidden"),
        "the server refuses access; give its key in the variable QDRANT_API_KEY",
    ),
    (
        (
            "failed to parse",
            "connection refused",
            "timed out",
            "timeout",
            "connect",
            "name or service not known",
            "disconnected",
        ),
        "the server does not answer; check its address and the network",
    ),
)
_ELSE = "the index is damaged; take it from a copy, or remove it and index the documents again"


@dataclass(frozen=True, slots=True)
class Point:
    """A point: its columns, and its vectors by name."""

    id: str
    payload: Mapping[str, Any]
    vectors: Vectors


@dataclass(frozen=True, slots=True)
class WordQuery:
    """Terms with spaces between them, by BM25 of a column of terms."""

    terms: str
    k1: float
    b: float


class Points(Protocol):
    """The part of Qdrant that an index uses; filters are written as in its REST interface."""

    def index(self, column: str, kind: str) -> None:
        """Make a column quick to filter by (``keyword``, ``integer``, ``float``), or to search (``words``)."""

    def upsert(self, points: Sequence[Point]) -> None:
        """Put points, in the place of those that have the same id."""

    def set_payload(self, payload: Mapping[str, Any], where: Filter) -> None:
        """Change columns of all points that meet a filter."""

    def delete(self, where: Filter) -> None:
        """Remove all points that meet a filter."""

    def one(self, id: str) -> Mapping[str, Any] | None:
        """The columns of a point; None where it is not there."""

    def some(
        self, where: Filter, columns: Sequence[str], vectors: Sequence[str], most: int, start: str | None
    ) -> tuple[list[Point], str | None]:
        """Points that meet a filter, in the order of their ids from one on, and the id that comes next."""

    def nearest(
        self, query: Sequence[float] | WordQuery, column: str, where: Filter, most: int, columns: Sequence[str]
    ) -> list[tuple[Mapping[str, Any], float]]:
        """The best points by a vector or by words, with their scores."""

    def count(self, where: Filter) -> int:
        """Points that meet a filter."""

    def values(self, column: str, where: Filter, most: int) -> list[str]:
        """The different values of a keyword column."""

    def optimize(self) -> None:
        """Build the search structures that wait to be built."""

    def finished(self) -> Points:
        """The same, at the place where it is looked for, once all is in it that makes an index."""


def said(place: str, work: Callable[[], Found]) -> Found:
    """What some work gives; errors of Qdrant become one line.

    Raises:
        RetrievalError: the store cannot be used.
    """
    try:
        return work()
    except (GraphdocError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # A panic of the library is no Exception.
        low = str(error).lower()
        way = next((way for signs, way in _WAYS_OUT if any(sign in low for sign in signs)), _ELSE)
        raise RetrievalError(f"{place} cannot be used: {one_line(str(error), 200)}; {way}") from error


class FolderPoints:
    """Points in a folder. One process has it open at a time; within it everything shares one object.

    Args:
        path: the folder.
        place: as people named it, for messages.
        shard: the store.
    """

    _open: ClassVar[WeakValueDictionary[tuple[int, str], FolderPoints]] = WeakValueDictionary()

    def __init__(self, path: Path, place: str, shard: Any) -> None:
        self._path, self._place, self._shard, self._process = path, place, shard, os.getpid()
        self._edge = edge()
        self._open[self._process, str(path)] = self

    @classmethod
    def create(cls, path: Path, place: str, vectors: Mapping[str, int]) -> FolderPoints:
        """Make an empty store for points with vectors of some lengths, compared by their dot product.

        It is made in a folder beside its own, so that one whose making was cut short is not taken for an index.
        """
        library = edge()
        sizes = {name: library.EdgeVectorParams(size, library.Distance.Dot) for name, size in vectors.items()}
        config = library.EdgeConfig(vectors=sizes)
        path = path.with_name(f"making{path.suffix}")

        def made() -> Any:
            rmtree(path, ignore_errors=True)
            path.mkdir(parents=True)
            return library.EdgeShard.create(str(path), config)

        return cls(path, place, said(place, made))

    def finished(self) -> FolderPoints:
        """The same, at the place where it is looked for, once all is in it that makes an index."""
        path = self._path.with_name(FOLDER)
        self._do(self._shard.close)
        said(self._place, lambda: self._path.rename(path))
        return self.open(path, self._place)

    @classmethod
    def open(cls, path: Path, place: str) -> FolderPoints:
        """Open a store, or share the one that this process has open."""
        library = edge()
        found = cls._open.get((os.getpid(), str(path)))
        return found or cls(path, place, said(place, lambda: library.EdgeShard.load(str(path))))

    def index(self, column: str, kind: str) -> None:
        """Make a column quick to filter by, or to search."""
        library = self._edge
        schema = (
            library.TextIndexParams(tokenizer=library.TokenizerType.Whitespace, lowercase=False, scoring=True)
            if kind == "words"
            else getattr(library.PayloadSchemaType, kind.capitalize())
        )
        self._update(library.UpdateOperation.create_field_index, column, schema)

    def upsert(self, points: Sequence[Point]) -> None:
        """Put points, in the place of those that have the same id."""
        made = [self._edge.Point(point.id, dict(point.vectors), dict(point.payload)) for point in points]
        self._update(self._edge.UpdateOperation.upsert_points, made)

    def set_payload(self, payload: Mapping[str, Any], where: Filter) -> None:
        """Change columns of all points that meet a filter."""
        self._update(self._edge.UpdateOperation.set_payload_by_filter, self._filter(where), dict(payload))

    def delete(self, where: Filter) -> None:
        """Remove all points that meet a filter."""
        self._update(self._edge.UpdateOperation.delete_points_by_filter, self._filter(where))

    def one(self, id: str) -> Mapping[str, Any] | None:
        """The columns of a point; None where it is not there."""
        found = self._do(lambda: self._shard.retrieve([id], with_payload=True, with_vector=False))
        return (found[0].payload or {}) if found else None

    def some(
        self, where: Filter, columns: Sequence[str], vectors: Sequence[str], most: int, start: str | None
    ) -> tuple[list[Point], str | None]:
        """Points that meet a filter, in the order of their ids from one on, and the id that comes next."""
        request = self._edge.ScrollRequest(
            offset=start,
            limit=most,
            filter=self._filter(where),
            with_payload=list(columns) or False,
            with_vector=list(vectors) or False,
        )
        found, after = self._do(lambda: self._shard.scroll(request))
        return [Point(str(one.id), one.payload or {}, one.vector or {}) for one in found], after and str(after)

    def nearest(
        self, query: Sequence[float] | WordQuery, column: str, where: Filter, most: int, columns: Sequence[str]
    ) -> list[tuple[Mapping[str, Any], float]]:
        """The best points by a vector or by words, with their scores."""
        library = self._edge
        if isinstance(query, WordQuery):
            asked = library.TextQuery(column, query.terms, library.Bm25Params(query.k1, query.b))
        else:
            asked = library.Query.Nearest(list(query), column)
        request = library.QueryRequest(
            limit=most,
            query=asked,
            filter=self._filter(where),
            with_payload=list(columns),
            params=library.SearchParams(hnsw_ef=2 * most),
        )
        return [(one.payload or {}, one.score) for one in self._do(lambda: self._shard.query(request))]

    def count(self, where: Filter) -> int:
        """Points that meet a filter."""
        request = self._edge.CountRequest(True, self._filter(where))
        return int(self._do(lambda: self._shard.count(request)))

    def values(self, column: str, where: Filter, most: int) -> list[str]:
        """The different values of a keyword column."""
        request = self._edge.FacetRequest(column, most, True, self._filter(where))
        return [hit.value for hit in self._do(lambda: self._shard.facet(request)).hits]

    def optimize(self) -> None:
        """Build the search structures that wait to be built."""
        self._do(self._shard.optimize)
        self._do(self._shard.flush)

    def _update(self, operation: Callable[..., Any], *values: Any) -> None:
        self._do(lambda: self._shard.update(operation(*values)))

    def _do(self, work: Callable[[], Found]) -> Found:
        if os.getpid() != self._process:
            raise RetrievalError(
                f"{self._place} was opened before this process was forked, and a folder is for one process; start "
                "workers with spawn, or use a server: qdrant://host:6333/collection"
            )
        return said(self._place, work)

    def _filter(self, where: Filter) -> Any:
        library = self._edge
        parts = {
            name: [self._condition(part) for part in where[name]]
            for name in ("must", "should", "must_not")
            if name in where
        }
        return library.Filter(**parts)

    def _condition(self, part: Filter) -> Any:
        library = self._edge
        if "match" in part:
            ((kind, value),) = part["match"].items()
            match = library.MatchAny(value) if kind == "any" else library.MatchValue(value)
            return library.FieldCondition(part["key"], match=match)
        if "range" in part:
            return library.FieldCondition(part["key"], range=library.RangeFloat(**part["range"]))
        if "is_empty" in part:
            return library.IsEmptyCondition(part["is_empty"]["key"])
        if "has_vector" in part:
            return library.HasVectorCondition(part["has_vector"])
        return self._filter(part)


def edge() -> Any:
    """The library that keeps points in a folder.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import qdrant_edge
    except ImportError as error:
        raise MissingExtraError("qdrant_edge", "qdrant", "keep an index in Qdrant") from error
    return qdrant_edge
