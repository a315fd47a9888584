"""The table of an index in LanceDB: a folder or an object store, with several readers and writers at once."""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import warnings
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
import pyarrow.compute as pc  # type: ignore[import-untyped, unused-ignore]

from ..errors import GraphdocError, MissingExtraError, RetrievalError
from ..runtime.arrays import Vectors
from ..runtime.imports import defer_package, quick_imports
from ..runtime.memory import give_back_memory, limit_heaps
from ..runtime.text import one_line
from ..segmentation.term_weights import terms_of
from ..settings.document import Paragraph

# The table, and its folder within that of an index.
TABLE, TABLE_FOLDER = "documents", "documents.lance"
RECORD = b"graphdoc"
# Numbers that a table keeps: what queries of random words reach, and rows that have search structures, but are newer.
RANDOM_SCORE, ADMITTED = "random_score", "admitted"
DOCUMENT, PASSAGE = "document", "passage"
IS_DOCUMENT = f"level = '{DOCUMENT}'"
# The level of a row that a shorter document left over, until it is deleted: no search and no reader sees it.
_GONE = "gone"
_TEXTS, _VECTORS = ("text", "document_text"), ("passage_vector", "document_vector")
# Below this number of rows a search that reads all of them is quick, and finds the best for certain.
ROWS_FOR_VECTOR_INDEX = 20_000
# With fewer vectors there is nothing to learn the structure from.
_LEAST_FOR_VECTOR_INDEX = 1_024
# Maintenance is due where more than this share of the rows came after the last one.
_DUE = 0.05
# Readers of an older version have this long to finish.
KEPT_VERSIONS = timedelta(hours=1)
# Bits of a number in the search structure: 4 take more memory and 2 more time, both for nothing.
_BITS = 3
_PARTITION = 8_192
# Partitions that a search looks into, and whole vectors that it compares for each that is wanted.
_PROBES, _READ = 80, 1.5
# Parts of a search structure: each time that rows are admitted adds one, and a search looks into all. With more than
# these it takes twice as long.
_MOST_PARTS = 16
# Words whose terms are kept.
_KEPT_WORDS = 100_000
# A store that does not answer ends a search within a minute or two; keys and address come from AWS_* variables.
STORE_OPTIONS = {"timeout": "30s", "connect_timeout": "10s", "client_max_retries": "3", "client_retry_timeout": "30"}
# Processes that are forked to cut documents never search, and an index refuses to be used in a fork: no warning.
warnings.filterwarnings("ignore", "lancedb fork support", RuntimeWarning)

Result = TypeVar("Result")


def quoted(value: str) -> str:
    """A string as a filter writes it."""
    return "'" + value.replace("'", "''") + "'"


def is_one_of(column: str, values: Iterable[str]) -> str:
    """The condition that a column holds one of some texts."""
    return "false" if not (values := list(values)) else f"{column} IN ({', '.join(map(quoted, values))})"


def all_of(*conditions: str | None) -> str | None:
    """The condition that all of some hold; None where there is none."""
    return " AND ".join(f"({condition})" for condition in conditions if condition) or None


def key_of(id: str, level: str, number: int) -> str:
    """The key of a row. An id can hold the control character between its parts only by intent."""
    return f"{id}\x1f{level}\x1f{number:06d}"


class RankedRows(NamedTuple):
    """The rows that a search finds, best first: their documents, ``(rows,)`` scores, and whether all matches are here.

    Of passages also their numbers in the document, and how many it has.
    """

    ids: Sequence[str]
    scores: npt.NDArray[np.float64]
    is_complete: bool
    passage_numbers: Sequence[int] = ()
    passages: Sequence[int] = ()


class State(NamedTuple):
    """The size of an index; ``waiting`` rows came after the last maintenance.

    The last of them, ``unindexed``, have no search structures: a search reads them all, and counts words roughly.
    """

    documents: int
    passages: int
    rows: int
    waiting: int
    version: int
    unindexed: int

    @property
    def is_search_slow(self) -> bool:
        """Whether so many rows are unindexed that indexing them costs less than searching them."""
        return self.unindexed**2 > self.rows

    @property
    def is_maintenance_due(self) -> bool:
        """Whether more than a twentieth of the rows wait for it."""
        return self.waiting > _DUE * self.rows


class LanceStore:
    """A table of LanceDB, searched by words and by vectors; a change of documents is one commit."""

    def __init__(self, table: Any, path: str, schema: Any) -> None:
        self._opened, self.path, self._process = table, path, os.getpid()
        self.record: Mapping[str, Any] = json.loads(schema.metadata[RECORD])
        self._is_prepared = False
        self._terms: dict[str, list[str]] = {}
        # Of the version that is read, as the state is.
        self.schema = schema
        self._state: State | None = None

    @classmethod
    def create(cls, path: str | Path, schema: Any, record: Mapping[str, Any]) -> LanceStore:
        """Make an empty table with a record of what the index is made with; RetrievalError if something is there."""
        if folder := folder_of(path):
            with suppress(OSError, ValueError):
                if others := {entry.name for entry in folder.iterdir()} - {".lock", TABLE_FOLDER}:
                    raise RetrievalError(f"{path} holds other files, such as {min(others)}; give an empty folder")
        connection, address, is_there = _connect(path)
        if is_there and not _is_unfinished(folder):
            raise RetrievalError(f"{path} holds an index already, or what is left of one; choose another path")
        schema = schema.with_metadata({RECORD: json.dumps(record, ensure_ascii=False).encode()})
        mode = "overwrite" if is_there else "create"
        store = cls(_run(address, lambda: connection.create_table(TABLE, schema=schema, mode=mode)), address, schema)
        store.prepare()
        return store

    @classmethod
    def exists(cls, path: str | Path) -> bool:
        """Whether there is a table."""
        # LanceDB would make a folder that is missing.
        if folder := folder_of(path):
            return has_table(folder) and not _is_unfinished(folder)
        return _connect(path)[2]

    @classmethod
    def open(cls, path: str | Path) -> LanceStore:
        """Open a table; RetrievalError if there is none, or it was not made by graphdoc."""
        if not cls.exists(path):
            raise RetrievalError(f"{path} holds no index; make one with: graphdoc index CORPUS --output {path}")
        connection, address, _ = _connect(path)
        table = _run(address, lambda: connection.open_table(TABLE))
        schema = _run(address, lambda: table.schema())
        if "format_version" not in json.loads((schema.metadata or {}).get(RECORD, "{}")):
            raise RetrievalError(f"{path} holds a table that graphdoc did not write; choose another path")
        return cls(table, address, schema)

    @property
    def paragraph(self) -> Paragraph | None:
        """Which of its sentences belong together; None where it keeps no sentences."""
        paragraph: Paragraph | None = self.record.get("sentences", {}).get("paragraph")
        return paragraph

    @property
    def _table(self) -> Any:
        # What LanceDB started is not there in a process that was forked, which may end it with a segmentation fault.
        if os.getpid() != self._process:
            raise RetrievalError(
                f"{self.path} was opened before this process was forked; start workers with spawn, and open the "
                "index in each"
            )
        return self._opened

    def _do(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        return _run(self.path, work)

    def refresh(self) -> None:
        """See what other processes have written."""
        self._do(lambda: self._table.checkout_latest())
        if self._state is None or self._state.version != int(self._do(lambda: self._table.version())):
            self._changed()

    def _changed(self) -> None:
        schema = self._do(lambda: self._table.schema())
        if schema.metadata != self.schema.metadata:
            raise RetrievalError(f"{self.path} is another index than the one that was opened here; open it again")
        self.schema, self._state = schema, None

    def add_columns(self, columns: Mapping[str, Any]) -> None:
        """Add columns of metadata, by name and Arrow type; rows that are there have nothing in them."""
        self._do(lambda: self._table.add_columns([pa.field(name, kind) for name, kind in columns.items()]))
        self._changed()

    def write(self, rows: Any, ids: Sequence[str]) -> None:
        """Put the rows of some documents in the place of those that the documents had, in one commit."""
        self.prepare()
        give_back_memory()
        before = self.select(["key"], ids=ids).column("key").to_pylist()
        if not before:
            self._do(lambda: self._table.add(rows, on_bad_vectors="null"))
            return self._changed()
        # A merge that deletes reads the whole table: rows that are no longer needed are marked by it instead.
        left = sorted(set(before) - set(rows.column("key").to_pylist()))
        if left:
            nothing = [{"key": key, "id": "", "level": _GONE, "number": 0} for key in left]
            rows = pa.concat_tables([rows, pa.Table.from_pylist(nothing, rows.schema)])
        merge = self._table.merge_insert("key").when_matched_update_all().when_not_matched_insert_all()
        # A row of one level has no vectors of the others.
        self._do(lambda: merge.execute(rows, on_bad_vectors="null"))
        if left:
            self._do(lambda: self._table.delete(f"level = '{_GONE}'"))
        self._changed()

    def recorded(self, name: str) -> float | None:
        """A number that the table keeps, None where it does not."""
        value = (self.schema.field("passage_vector").metadata or {}).get(name.encode())
        return None if value is None else float(value)

    def keep(self, name: str, value: float) -> None:
        """Keep a number."""
        if value != self.recorded(name):
            update = {"path": "passage_vector", "metadata": {name: repr(value)}}
            self._do(lambda: self._table.update_field_metadata(update))
            self._changed()

    def delete(self, ids: Sequence[str]) -> int:
        """Remove documents, and give the number of those that were there."""
        if count := len(self.select(["id"], IS_DOCUMENT, ids=ids)):
            self._do(lambda: self._table.delete(is_one_of("id", ids)))
            self._changed()
        return count

    def select(self, columns: Iterable[str], where: str | None = None, *, ids: Sequence[str] | None = None) -> Any:
        """Rows that meet a condition, of all documents or those that are named (an Arrow table)."""
        condition = all_of(None if ids is None else is_one_of("id", ids), where)
        return self._do(lambda: _restricted(self._table.query(), columns, condition).to_arrow())

    def refusal(self, where: str) -> str | None:
        """Why no row can be looked for by a condition, in LanceDB's words; None where it can be."""
        try:
            self._do(lambda: self._table.query().where(where).explain_plan())
        except RetrievalError as error:
            if "Invalid input" not in str(error):
                raise
            return one_line(_SOURCE.sub("", str(error.__cause__)))
        return None

    def batches(
        self, columns: Iterable[str], where: str | None = None, *, max_batch_length: int | None = None
    ) -> Iterator[Any]:
        """All rows that meet a condition, some at a time (Arrow record batches)."""
        query = _restricted(self._table.query(), columns, all_of(f"level != '{_GONE}'", where))
        batches = self._do(lambda: query.to_batches(max_batch_length=max_batch_length))

        async def next_batch() -> Any:
            return await anext(batches, None)

        while (batch := self._do(next_batch)) is not None:
            yield batch

    def sample(self, columns: Sequence[str], level: str, limit: int) -> Any:
        """Rows of a level that stand evenly over the table, about so many (an Arrow table)."""
        state = self.state()
        count = state.documents if level == DOCUMENT else state.passages
        offsets = np.linspace(0, state.rows, min(state.rows, limit * state.rows // (count or 1)), False, dtype=np.int64)
        rows = self._do(lambda: self._table.take_offsets(offsets.tolist()).select(["level", *columns]).to_arrow())
        return rows.filter(pc.equal(rows.column("level"), level))

    def find(self, *searches: Coroutine[Any, Any, RankedRows]) -> list[RankedRows]:
        """What searches find, which are made at once: each waits for much of its time."""

        async def together() -> list[RankedRows]:
            return await asyncio.gather(*searches)

        return self._do(together)

    async def by_words(self, words: str, column: str, top_k: int, where: str | None = None) -> RankedRows:
        """Search for rows by BM25 of a text column."""
        nearest = self._table.query().nearest_to_text(_lancedb().query.MatchQuery(words, column)).limit(top_k)
        return await self._ranked(nearest, column, top_k, where)

    def holds_all(self, words: str) -> bool:
        """Whether one passage holds every term of a text."""
        match = _lancedb().query.MatchQuery(words, _TEXTS[0], operator=_lancedb().query.FullTextOperator.AND)
        nearest = self._table.query().nearest_to_text(match).limit(1)
        return bool(self.find(self._ranked(nearest, _TEXTS[0], 1, None))[0].ids)

    async def by_vector(self, vector: Vectors, column: str, top_k: int, where: str | None = None) -> RankedRows:
        """Search for rows by similarity of a vector column, by the measure that the index was made for."""
        if column == "document_vector":
            # With a condition partitions are searched until there are enough: documents are few among the rows.
            where = all_of(IS_DOCUMENT, where)
        if where is None:
            found = await self._ranked(self._nearest(vector, column, top_k, is_bounded=True), column, top_k, None)
            self._state = self._state or await self._counted()
            if len(found.ids) >= min(top_k, self._state.passages):
                return found
        return await self._ranked(self._nearest(vector, column, top_k, is_bounded=False), column, top_k, where)

    def _nearest(self, vector: Vectors, column: str, top_k: int, *, is_bounded: bool) -> Any:
        nearest = self._table.query().nearest_to(vector).column(column).distance_type(self.record["similarity"])
        # Without a bound more partitions are searched until there are enough rows, as where a filter leaves few in
        # each. Where rows of the table were deleted, LanceDB then searches all partitions.
        nearest = nearest.maximum_nprobes(0).minimum_nprobes(_PROBES)
        nearest = nearest.maximum_nprobes(_PROBES) if is_bounded else nearest
        return nearest.refine_factor(1).limit(math.ceil(_READ * top_k))

    async def _ranked(self, query: Any, column: str, top_k: int, where: str | None) -> RankedRows:
        columns = ("id", "number", "passages") if column in (_TEXTS[0], _VECTORS[0]) else ("id",)
        score = "_score" if column in _TEXTS else "_distance"
        found = await _restricted(query, (*columns, score), where).to_arrow()
        rows = found[:top_k]
        values = rows.column(score).to_numpy().astype(np.float64)
        # LanceDB gives one minus the cosine, or one minus the dot product.
        scores = values if column in _TEXTS else 1.0 - values
        ids, *counts = (rows.column(name).to_pylist() for name in columns)
        return RankedRows(ids, scores, len(found) < top_k, *counts)

    def tokens(self, text: str) -> list[str]:
        """The terms that word search makes of a text."""
        return [str(token.text) for token in self._do(lambda: self._table.tokenize(text, column=_TEXTS[0]))]

    def terms(self, words: Sequence[str]) -> list[list[str]]:
        """The terms of each of some words, which are kept, since most words come again."""
        if len(self._terms) > _KEPT_WORDS:
            self._terms = {}
        terms = self._terms
        if new := list(set(words).difference(terms)):
            terms.update(zip(new, terms_of(new, self.tokens), strict=True))
        return [terms[word] for word in words]

    def maintain(self) -> None:
        """Bring statistics and search structures up to date, and remove what no reader needs."""
        self.admit()
        self.keep(ADMITTED, 0)

    def admit(self) -> None:
        """Bring search structures up to date; rows that wait for maintenance still do."""
        self.prepare()
        # If it is killed then, more rows seem to wait than do, and none is forgotten.
        self.keep(ADMITTED, self.state().waiting)
        pa.default_memory_pool().release_unused()
        give_back_memory()
        self._do(self._maintained)
        self._changed()

    async def _maintained(self) -> None:
        table = self._table
        await table.delete(f"level = '{_GONE}'")
        await table.optimize(cleanup_older_than=KEPT_VERSIONS)
        present = {index.columns[0]: index.name for index in await table.list_indices()}
        # A search without the structure reads the column of all rows, those of other levels too.
        is_large = await table.count_rows() >= ROWS_FOR_VECTOR_INDEX
        for column in _VECTORS:
            count, is_due = await table.count_rows(f"{column} IS NOT NULL"), is_large
            if column in present:
                is_due = (await table.index_stats(present[column])).num_indices > _MOST_PARTS
            if is_due and count >= _LEAST_FOR_VECTOR_INDEX:
                # LanceDB would count the rows that have no vector here, and look for centres of its partitions there.
                partitions, metric = max(1, round(count / _PARTITION)), self.record["similarity"]
                kind = _lancedb().index.IvfRq(distance_type=metric, num_bits=_BITS, num_partitions=partitions)
                await table.create_index(column, config=kind, replace=True)

    def state(self) -> State:
        """How large it is, and what is waiting."""
        self._state = self._state or self._do(self._counted)
        return self._state

    async def _counted(self) -> State:
        table = self._table
        documents, passages = [await table.count_rows(f"level = '{level}'") for level in (DOCUMENT, PASSAGE)]
        unindexed = max((index.num_unindexed_rows or 0 for index in await table.list_indices()), default=0)
        rows, waiting = await table.count_rows(), unindexed + int(self.recorded(ADMITTED) or 0)
        return State(documents, passages, rows, waiting, int(await table.version()), unindexed)

    def prepare(self) -> None:
        """Make the search structures that every index has; one whose making was cut short may lack some."""
        if not self._is_prepared:
            self._do(self._prepared)
            self._is_prepared = True

    async def _prepared(self) -> None:
        kinds, words = _lancedb().index, self.record["words"]
        by = {"language": words["language"] or "English", "stem": words["stem"], "base_tokenizer": words["tokenizer"]}
        texts = kinds.FTS(**by, remove_stop_words=not words["stop_words"])
        structures = {"key": kinds.BTree(), "id": kinds.BTree(), "level": kinds.Bitmap()} | dict.fromkeys(_TEXTS, texts)
        present = {index.columns[0] for index in await self._table.list_indices()}
        for column, kind in structures.items():
            if column not in present:
                await self._table.create_index(column, config=kind, replace=True)


def folder_of(path: str | Path) -> Path | None:
    """The folder that an index lies in; None for an address, such as of an object store."""
    return None if "://" in str(path) else Path(path).absolute()


def has_table(folder: Path) -> bool:
    """Whether a folder has the table of an index, also one that is damaged or half made."""
    try:
        return (folder / TABLE_FOLDER).exists()
    except OSError:  # No folder can have the name.
        return False


def _is_unfinished(folder: Path | None) -> bool:
    """Whether the making of a table was cut short before anything could be kept in it; not known of a store."""
    files = [path for path in (folder / TABLE_FOLDER).rglob("*") if path.is_file()] if folder else []
    return folder is not None and all(
        path.parent.name in ("_transactions", "_versions") and path.suffix != ".manifest" for path in files
    )


def _restricted(query: Any, columns: Iterable[str], where: str | None) -> Any:
    query = query.select(list(columns))
    return query.where(where) if where else query


def _connect(path: str | Path) -> tuple[Any, str, bool]:
    """A connection to LanceDB, the path as it takes it, and whether the table is there, whole or not."""
    address = str(folder_of(path) or path)
    options = STORE_OPTIONS if "://" in address and not address.startswith("memory:") else None
    connection = _run(address, lambda: _lancedb().connect_async(address, storage_options=options))
    return connection, address, TABLE in _run(address, lambda: connection.list_tables()).tables


@cache
def _lancedb() -> Any:
    # Its warnings are said as errors, in one line, where they matter; it reads this when it is imported.
    os.environ.setdefault("LANCEDB_LOG", "error")
    # Read ahead of those who wait for it; maintenance would fill the 2 GB that LanceDB takes by itself.
    os.environ.setdefault("LANCE_DEFAULT_IO_BUFFER_SIZE", str(32 << 20))
    limit_heaps()
    try:
        with quick_imports():
            # A client of catalogues takes .4 s to import whole, and LanceDB needs types below it alone.
            defer_package("lance_namespace_urllib3_client")
            import lancedb
            import lancedb.background_loop
            import lancedb.index
            import lancedb.query
    except ImportError as error:
        raise MissingExtraError("lancedb", "retrieval", "keep an index of documents") from error
    return lancedb


# Where in LanceDB's own source an error arose.
_SOURCE = re.compile(r",?\s*(?:/\S+)?/(?:registry/src|rustc)/\S+|(?<=\s)/rustc/\S+")
# Signs in a message, and what to do then; the first that fits.
_FIXES = {
    "no space left|file too large|quota|os error 2[78]": "free some disk space and try again, nothing is lost",
    "forbidden|status: 40[13]|accessdenied|unauthorized|invalidaccesskey":
        "the store refuses access; check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the rights of this user",
    "nosuchbucket|status: 404|bucket does not exist": "there is no such bucket; make it or correct the address",
    "error sending request|connection refused|timed out|timeout|connect error|error trying to":
        "the store does not answer; check AWS_ENDPOINT, AWS_REGION and the network",
    "permission denied|read-only file system": "it may not be written; change its rights, or choose another",
    "commit conflict|too many concurrent writers|concurrent commit|retryable":
        "another writer changed it at the same time; run the same again",
    "not found|failed to fill whole buffer|invalid range|too small|invalid magic|corrupt|panicked":
        "the index is damaged; take it from a copy, or remove it and index the documents again",
}  # fmt: skip


def _run(path: str, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Wait for work in LanceDB's own loop, so that a notebook with a loop can call; errors become one line."""
    loop = _lancedb().background_loop.LOOP
    try:
        result: Result = loop.run(work())
    except GraphdocError:
        raise
    except Exception as error:
        # A panic of the library has a class of its own, which no module of it exports.
        if not isinstance(error, RuntimeError | OSError | ValueError) and type(error).__name__ != "RustPanic":
            raise
        text = one_line(_SOURCE.sub("", str(error)))
        fix = next((f"; {fix}" for signs, fix in _FIXES.items() if re.search(signs, text.lower())), "")
        raise RetrievalError(f"{one_line(path)} cannot be used: {text[:300]}{fix}") from error
    return result
