"""The index in LanceDB: a folder or an object store, with several readers and writers at once."""

from __future__ import annotations

import importlib
import json
import math
import os
import sys
import warnings
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

from ..errors import MissingExtraError, RetrievalError
from ..runtime.memory import quick_imports
from .connection import fall_back_from_damage, folder_of, is_unfinished, next_of, translate_errors, wait_for
from .table import DOCUMENT, PASSAGE, quoted

# Languages that LanceDB can reduce to stems, by the two-letter codes that documents are cut with.
_STEMMED = {
    "ar": "Arabic", "da": "Danish", "de": "German", "el": "Greek", "en": "English", "es": "Spanish", "fi": "Finnish",
    "fr": "French", "hu": "Hungarian", "it": "Italian", "nl": "Dutch", "no": "Norwegian", "pt": "Portuguese",
    "ro": "Romanian", "ru": "Russian", "sv": "Swedish", "ta": "Tamil", "tr": "Turkish",
}  # fmt: skip
# Scripts without spaces between words are cut by a dictionary.
_WITHOUT_SPACES = ("ja", "km", "lo", "my", "th", "zh")
# Processes that are forked to cut documents never search, and an index refuses to be used in a fork: no warning.
warnings.filterwarnings("ignore", "lancedb fork support", RuntimeWarning)


def word_settings(language: str) -> dict[str, Any]:
    """How texts in a language, given as a two-letter code, become terms of word search; BM25 as in Lucene.

    >>> word_settings("de")["language"], word_settings("ja")["tokenizer"]
    ('German', 'icu')
    """
    code = language.partition("-")[0].lower()
    name = _STEMMED.get(code, "")
    return {
        "language": name,
        "stem": bool(name),
        "stop_words": not name,
        "tokenizer": "icu" if code in _WITHOUT_SPACES else "simple",
        "formula": "bm25 k1=1.2 b=0.75",
    }


Found = TypeVar("Found")

TABLE = "documents"
RECORD = b"graphdoc"
PASSAGE_TEXT, DOCUMENT_TEXT = "text", "document_text"
PASSAGE_VECTOR, DOCUMENT_VECTOR = "passage_vector", "document_vector"
# Below this number of rows a search that reads all of them is quick, and finds the best for certain.
ROWS_FOR_VECTOR_INDEX = 20_000
# Below this number of vectors there is nothing to learn the structure from.
_LEAST_FOR_VECTOR_INDEX = 1_024
# Readers of an older version have this long to finish.
KEPT_VERSIONS = timedelta(hours=1)
_SCALAR = {"key": "BTree", "id": "BTree", "level": "Bitmap"}
# Bits of a number in the search structure. A search among a million takes as long with 3 as with 4, in 48 MB less;
# with 2 it reads twice as many rows as are wanted to find the best.
_BITS = 3
_PARTITION = 8_192
# Partitions that a search looks into, and whole vectors that it compares for each that is wanted.
_PROBES, _READ = 80, 1.5
# Parts of a search structure: a maintenance adds one, and a search looks into all. With ten it takes twice as long;
# making one of them takes 12 CPU minutes for a million passages.
_MOST_PARTS = 8
_LEVELS = {PASSAGE_VECTOR: PASSAGE, DOCUMENT_VECTOR: DOCUMENT}
# Rows of sections have such vectors too.
_SHARED = (DOCUMENT_VECTOR,)
# The level of a row that a shorter document left over, until it is deleted: no search and no reader sees it.
_GONE = "gone"
# A store that does not answer ends a search within a minute or two; keys and address come from AWS_* variables.
STORE_OPTIONS = {"timeout": "30s", "connect_timeout": "10s", "client_max_retries": "3", "client_retry_timeout": "30"}


@dataclass(frozen=True, slots=True)
class Candidates:
    """What one search of a store finds, best first.

    Args:
        ids: document of every row found.
        numbers: number of the passage, 0 for documents.
        scores: ``(rows,)``, larger is better.
    """

    ids: tuple[str, ...]
    numbers: tuple[int, ...]
    scores: npt.NDArray[np.float64]

    def __len__(self) -> int:
        """Number of rows found."""
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class State:
    """How large an index is, and what maintenance is due.

    Args:
        documents: number of documents.
        passages: number of passages.
        rows: rows at all levels.
        waiting: rows that came after the last maintenance: word search counts them roughly, and vector search reads
            all of them.
        version: number of the last change.
    """

    documents: int
    passages: int
    rows: int
    waiting: int
    version: int


class LanceStore:
    """A table of LanceDB, whose rows can be searched by words and by vectors.

    A change of documents is one commit: readers see all rows of a document, or none.

    Args:
        table: the table, opened for asynchronous use.
        place: where it lies, for messages.
        schema: its columns.
    """

    def __init__(self, table: Any, place: str, schema: Any) -> None:
        self._opened, self.place = table, place
        self._process = os.getpid()
        self.record: Mapping[str, Any] = json.loads(schema.metadata[RECORD])
        self._metric = self.record.get("similarity")
        self._is_prepared = False
        # What is known of the version that is read.
        self._schema: Any = schema
        self._state: State | None = None

    @classmethod
    def create(cls, place: str | Path, schema: Any, record: Mapping[str, Any]) -> LanceStore:
        """Make an empty table.

        Args:
            place: a folder, or an address such as ``s3://bucket/folder``.
            schema: its columns.
            record: what the index is made with.

        Raises:
            RetrievalError: there is one already, or the place cannot be written.
        """
        place = _address(place)
        content = json.dumps(record, ensure_ascii=False).encode()
        with_record = schema.with_metadata({RECORD: content})
        connection = _connected(place)
        is_there = TABLE in _names(connection, place)
        if is_there and not _is_unfinished(connection, place):
            raise RetrievalError(f"{place} holds an index already, or what is left of one; choose another place")
        mode = "overwrite" if is_there else "create"
        table = _waited(place, lambda: connection.create_table(TABLE, schema=with_record, mode=mode))
        store = cls(table, place, with_record)
        store._prepare()
        return store

    @classmethod
    def exists(cls, place: str | Path) -> bool:
        """Whether there is a table."""
        place = _address(place)
        connection = _connected(place)
        return TABLE in _names(connection, place) and not _is_unfinished(connection, place)

    @classmethod
    def open(cls, place: str | Path) -> LanceStore:
        """Open a table.

        Raises:
            RetrievalError: there is none, or it was not made by graphdoc.
        """
        place = _address(place)
        connection = _connected(place)
        if TABLE not in _names(connection, place) or _is_unfinished(connection, place):
            raise RetrievalError(f"{place} holds no index; make one with: graphdoc index CORPUS --output {place}")
        if (folder := folder_of(place)) is not None:
            fall_back_from_damage(folder)
        table = _waited(place, lambda: connection.open_table(TABLE))
        schema = _waited(place, lambda: table.schema())
        try:
            record = json.loads((schema.metadata or {})[RECORD])
            is_own = isinstance(record, dict) and "format_version" in record
        except (KeyError, ValueError):
            is_own = False
        if not is_own:
            raise RetrievalError(f"{place} holds a table that graphdoc did not write; choose another place")
        return cls(table, place, schema)

    @property
    def _table(self) -> Any:
        # What LanceDB started is not there in a process that was forked, which may end it with a segmentation fault.
        if os.getpid() != self._process:
            raise RetrievalError(
                f"{self.place} was opened before this process was forked; start workers with spawn, and open the "
                "index in each"
            )
        return self._opened

    @property
    def schema(self) -> Any:
        """Columns of the table (an Arrow schema)."""
        return self._schema

    def refresh(self) -> None:
        """See what other processes have written."""
        self._do(lambda: self._table.checkout_latest())
        if self._state is None or self._state.version != int(self._do(lambda: self._table.version())):
            self._changed()

    def _changed(self) -> None:
        schema = self._do(lambda: self._table.schema())
        if schema.metadata != self._schema.metadata:
            raise RetrievalError(f"{self.place} is another index than the one that was opened here; open it again")
        self._schema, self._state = schema, None

    def add_columns(self, columns: Mapping[str, Any]) -> None:
        """Add columns of metadata, by name and Arrow type; rows that are there have nothing in them."""
        self._do(lambda: self._table.add_columns([pa.field(name, kind) for name, kind in columns.items()]))
        self._changed()

    def write(self, rows: Any, ids: Sequence[str]) -> None:
        """Put the rows of some documents in the place of those that the documents had, in one commit."""
        self._prepare()
        there = self.select(["key"], ids=ids).column("key").to_pylist()
        if not there:
            self._do(lambda: self._table.add(rows, on_bad_vectors="null"))
            return self._changed()
        # A merge that deletes reads the whole table: rows that are no longer needed are marked by it instead.
        left = sorted(set(there) - set(rows.column("key").to_pylist()))
        if left:
            nothing = [{"key": key, "id": "", "level": _GONE, "number": 0} for key in left]
            rows = pa.concat_tables([rows, pa.Table.from_pylist(nothing, rows.schema)])
        merge = self._table.merge_insert("key").when_matched_update_all().when_not_matched_insert_all()
        # A row of one level has no vectors of the others.
        self._do(lambda: merge.execute(rows, on_bad_vectors="null"))
        if left:
            self._do(lambda: self._table.delete(f"level = '{_GONE}'"))
        self._changed()

    def delete(self, ids: Sequence[str]) -> int:
        """Remove documents, and give the number of those that were there."""
        count = int(self._do(lambda: self._table.count_rows(f"{_is_one_of(ids)} AND level = '{DOCUMENT}'")))
        if count:
            self._do(lambda: self._table.delete(_is_one_of(ids)))
            self._changed()
        return count

    def select(
        self, columns: Sequence[str], where: str | None = None, *, ids: Sequence[str] = (), most: int | None = None
    ) -> Any:
        """Rows that meet a condition, of some documents where any are named (an Arrow table)."""
        condition = " AND ".join(f"({part})" for part in (_is_one_of(ids) if ids else None, where) if part)

        def found() -> Coroutine[Any, Any, Any]:
            query = self._table.query().select(list(columns))
            query = query.where(condition) if condition else query
            return (query if most is None else query.limit(most)).to_arrow()  # type: ignore[no-any-return]

        return self._do(found)

    def batches(self, columns: Sequence[str], where: str | None = None, *, most: int | None = None) -> Iterator[Any]:
        """All rows that meet a condition, some at a time (Arrow record batches)."""
        condition = f"level != '{_GONE}'" + (f" AND ({where})" if where else "")
        found = self._do(
            lambda: self._table.query().select(list(columns)).where(condition).to_batches(max_batch_length=most)
        )
        while (batch := self._do(partial(next_of, found))) is not None:
            yield batch

    def by_words(self, words: str, column: str, most: int, where: str | None = None) -> Candidates:
        """Rows by BM25 of a text column."""

        def query() -> Any:
            match = _library("lancedb.query").MatchQuery(words, column)
            return self._table.query().nearest_to_text(match).limit(most)

        return self._found(query, "_score", most, where)

    def by_vector(
        self, vector: npt.NDArray[np.float32], column: str, most: int, where: str | None = None
    ) -> Candidates:
        """Rows by similarity of a vector column, by the measure that the index was made for."""
        if column in _SHARED:
            where = f"level = '{_LEVELS[column]}'" + (f" AND ({where})" if where else "")
        query = partial(self._nearest, vector, column, most)
        found = self._found(partial(query, is_bounded=where is None), "_distance", most, where)
        if where is None and len(found) < min(most, self.state().passages):
            found = self._found(partial(query, is_bounded=False), "_distance", most, None)
        return found

    def _nearest(self, vector: npt.NDArray[np.float32], column: str, most: int, *, is_bounded: bool) -> Any:
        nearest = self._table.query().nearest_to(vector).column(column).distance_type(self._metric)
        # Without a bound more partitions are searched until there are enough rows, as where a filter leaves few in
        # each. Where rows of the table were deleted, LanceDB then searches all partitions.
        nearest = nearest.maximum_nprobes(0).minimum_nprobes(_PROBES)
        nearest = nearest.maximum_nprobes(_PROBES) if is_bounded else nearest
        return nearest.refine_factor(1).limit(math.ceil(_READ * most))

    def tokens(self, text: str) -> list[str]:
        """The terms that word search makes of a text."""
        found = self._do(lambda: self._table.tokenize(text, column=PASSAGE_TEXT))
        return [str(token.text) for token in found]

    def maintain(self) -> None:
        """Bring statistics and search structures up to date, and remove what no reader needs."""
        self._prepare()
        self._do(lambda: self._table.delete(f"level = '{_GONE}'"))
        self._do(lambda: self._table.optimize(cleanup_older_than=KEPT_VERSIONS))
        present = {index.columns[0]: index.name for index in self._do(lambda: self._table.list_indices())}
        # A search without the structure reads the column of all rows, those of other levels too.
        is_large = self._do(lambda: self._table.count_rows()) >= ROWS_FOR_VECTOR_INDEX
        for column in _LEVELS:
            count = self._do(partial(self._table.count_rows, f"{column} IS NOT NULL"))
            is_due = self._is_divided(present[column]) if column in present else is_large
            if is_due and count >= _LEAST_FOR_VECTOR_INDEX:
                # LanceDB would count the rows that have no vector here, and look for centres of its partitions there.
                kind = partial(_library("lancedb.index").IvfRq, num_partitions=max(1, round(count / _PARTITION)))
                self._index(column, kind(distance_type=self._metric, num_bits=_BITS))
        self._changed()

    def _is_divided(self, name: str) -> bool:
        """Whether a search structure has so many parts that it is made anew."""
        return bool(self._do(lambda: self._table.index_stats(name)).num_indices > _MOST_PARTS)

    def state(self) -> State:
        """How large it is, and what is waiting."""
        if self._state is None:
            self._state = self._do(lambda: self._counted())
        return self._state

    async def _counted(self) -> State:
        table = self._table
        documents, passages = [await table.count_rows(f"level = '{level}'") for level in (DOCUMENT, PASSAGE)]
        waiting = max((index.num_unindexed_rows or 0 for index in await table.list_indices()), default=0)
        return State(documents, passages, await table.count_rows(), waiting, int(await table.version()))

    def _prepare(self) -> None:
        """Make the search structures that every index has; one whose making was cut short may lack some."""
        if self._is_prepared:
            return
        present = {index.columns[0] for index in self._do(lambda: self._table.list_indices())}
        for column, kind in _SCALAR.items():
            if column not in present:
                self._index(column, getattr(_library("lancedb.index"), kind)())
        for column in (PASSAGE_TEXT, DOCUMENT_TEXT):
            if column not in present:
                words = self.record["words"]
                kind = _library("lancedb.index").FTS
                self._index(
                    column,
                    kind(
                        language=words["language"] or "English",
                        stem=words["stem"],
                        remove_stop_words=not words["stop_words"],
                        base_tokenizer=words["tokenizer"],
                    ),
                )
        self._is_prepared = True

    def _index(self, column: str, config: Any) -> None:
        self._do(lambda: self._table.create_index(column, config=config, replace=True))

    def _found(self, query: Callable[[], Any], score: str, most: int, where: str | None) -> Candidates:
        def rows_of_query() -> Coroutine[Any, Any, Any]:
            asked = query().select(["id", "number", score])
            return (asked.where(where) if where else asked).to_arrow()  # type: ignore[no-any-return]

        rows = self._do(rows_of_query)[:most]
        values = rows.column(score).to_numpy().astype(np.float64)
        # LanceDB gives one minus the cosine, or one minus the dot product.
        scores = values if score == "_score" else 1.0 - values
        return Candidates(tuple(rows.column("id").to_pylist()), tuple(rows.column("number").to_pylist()), scores)

    def _do(self, work: Callable[[], Coroutine[Any, Any, Found]]) -> Found:
        return translate_errors(self.place, lambda: wait_for(work()))


def _library(name: str) -> Any:
    # Its warnings are said as errors, in one line, where they matter; it reads this when it is imported.
    os.environ.setdefault("LANCEDB_LOG", "error")
    # Read ahead of those who wait for it; maintenance would fill the 2 GB that LanceDB takes by itself.
    os.environ.setdefault("LANCE_DEFAULT_IO_BUFFER_SIZE", str(32 << 20))
    if name in sys.modules:
        return sys.modules[name]
    try:
        with quick_imports():
            return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError("lancedb", "retrieval", "keep an index of documents") from error


def _waited(place: str, work: Callable[[], Coroutine[Any, Any, Found]]) -> Found:
    """What asynchronous work of LanceDB gives; some of its errors come before there is anything to wait for."""
    return translate_errors(place, lambda: wait_for(work()))


def _address(place: str | Path) -> str:
    return str(folder_of(place) or place)


def _connected(place: str) -> Any:
    options = STORE_OPTIONS if "://" in place and not place.startswith("memory:") else None
    return _waited(place, lambda: _library("lancedb").connect_async(place, storage_options=options))


def _names(connection: Any, place: str) -> list[str]:
    return list(_waited(place, lambda: connection.list_tables()).tables)


def _is_unfinished(connection: Any, place: str) -> bool:
    """Whether the making of the table was cut short before anything could be kept in it."""
    folder = folder_of(place)
    # What an object store holds cannot be listed with LanceDB: a part of an index may be there.
    if folder is None or not is_unfinished(folder):
        return False
    try:
        wait_for(connection.open_table(TABLE))
    except Exception as error:
        # Whatever else it is, opening says it.
        return isinstance(error, ValueError) and "was not found" in str(error)
    return False


def _is_one_of(ids: Sequence[str]) -> str:
    return f"id IN ({', '.join(map(quoted, ids))})"
