"""Queries, and which documents answer them: from a folder in BEIR's layout, or from pairs of query and document."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from ..documents.parsing.formats import is_corpus, numbered_lines, split_suffix
from ..documents.parsing.rows import Columns, is_missing, row_id
from ..documents.readers.corpora import read_corpus
from ..documents.section import clean_text
from ..errors import DocumentError, EvaluationError, SettingsError
from ..runtime.text import counted, one_line
from .labels import named
from .trec import Qrels, read_qrels

TEXT_COLUMN, SPLIT = "text", "split"
_QRELS_FILES = ("qrels.tsv", "qrels.tsv.gz", "qrels.txt", "qrels.txt.gz")

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Judgements:
    """Queries with a positive, and the documents that were judged for them.

    A query without a positive has no best ranking; as in TREC's campaigns it is left out of queries and means, and
    counted.

    Args:
        queries: texts by query id.
        qrels: grades by query id and document id, of these queries.
        source: the folder or file, for messages.
        without_positive: ids of queries that were left out because no document has a grade above 0.
        without_text: ids of queries that were left out because their text is empty.
        unknown_queries: ids in the judgements that no query has.
        unknown_documents: ids of documents that were judged and are not there (see :meth:`among`).
    """

    queries: Mapping[str, str]
    qrels: Mapping[str, Mapping[str, int]]
    source: str = ""
    without_positive: tuple[str, ...] = ()
    without_text: tuple[str, ...] = ()
    unknown_queries: tuple[str, ...] = ()
    unknown_documents: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, queries: Mapping[str, str], qrels: Qrels, *, source: str = "", known: Collection[str] | None = None
    ) -> Judgements:
        """Put queries and judgements together.

        Args:
            queries: texts by query id.
            qrels: grades by query id and document id.
            source: where both are from, for messages.
            known: ids that judgements may have besides; they are of queries that were not chosen.

        Raises:
            EvaluationError: no judgement is of one of the queries, or no query has a positive.
        """
        there = queries.keys() | set(known or ())
        unknown = tuple(query for query in qrels if query not in there)
        place = f"{source}: " if source else ""
        if qrels and len(unknown) == len(qrels):
            raise EvaluationError(
                f"{place}none of the {counted(len(unknown), 'query id')} in the judgements is the id of a query "
                f"({named(map(repr, unknown))})"
            )
        without_text = tuple(query for query, text in queries.items() if not text.strip())
        asked = {query: text for query, text in queries.items() if text.strip()}
        return cls(asked, qrels, source, (), without_text, unknown)._with_positive()

    def __len__(self) -> int:
        """Number of queries."""
        return len(self.queries)

    @property
    def left_out(self) -> dict[str, int]:
        """How many of what was left out, by reason; only what there is."""
        reasons = {
            "queries without a positive": self.without_positive,
            "queries without text": self.without_text,
            "judged queries that are unknown": self.unknown_queries,
            "judged documents that are unknown": self.unknown_documents,
        }
        return {reason: len(ids) for reason, ids in reasons.items() if ids}

    def positives(self, query: str) -> list[str]:
        """Ids of the documents that answer a query, those of the highest grade first."""
        grades = self.qrels[query]
        return sorted((id for id, grade in grades.items() if grade > 0), key=lambda id: (-grades[id], id))

    def among(self, documents: Collection[str]) -> Judgements:
        """The judgements of documents that are there; the others are counted in ``unknown_documents``.

        A positive that is not there cannot be found. Measured with these judgements it does not count; measured with
        all of them it counts as missed.

        Args:
            documents: ids of the documents that are there.

        Raises:
            EvaluationError: none of the judged documents is there, or no query keeps a positive.
        """
        there = documents if isinstance(documents, set | frozenset | dict) else set(documents)
        judged = dict.fromkeys(id for grades in self.qrels.values() for id in grades)
        unknown = tuple(id for id in judged if id not in there)
        if not unknown:
            return self
        if len(unknown) == len(judged):
            raise EvaluationError(
                f"{self.source or 'the judgements'}: none of the {counted(len(unknown), 'judged document')} is there "
                f"({named(map(repr, unknown))})"
            )
        kept = {
            query: {id: grade for id, grade in grades.items() if id in there} for query, grades in self.qrels.items()
        }
        return replace(self, qrels=kept, unknown_documents=(*self.unknown_documents, *unknown))._with_positive()

    def _with_positive(self) -> Judgements:
        """The queries that have a positive, with their judgements alone."""
        answered = {query for query, grades in self.qrels.items() if any(grade > 0 for grade in grades.values())}
        queries = {query: text for query, text in self.queries.items() if query in answered}
        if not queries:
            raise EvaluationError(
                f"{self.source or 'the judgements'}: 0 of {len(self.queries):,} queries have a document with a grade "
                "above 0"
            )
        missed = tuple(query for query in self.queries if query not in answered)
        qrels = {query: self.qrels[query] for query in queries}
        return replace(self, queries=queries, qrels=qrels, without_positive=(*self.without_positive, *missed))


def read_judgements(
    source: str | Path, *, split: str | None = None, only: Sequence[str] = (), text_column: str = TEXT_COLUMN
) -> Judgements:
    r"""Read queries and judgements.

    A folder is in BEIR's layout: queries in ``queries.jsonl`` (or another file of rows of that name) with ``_id`` and
    text; judgements in ``qrels/<split>.tsv``, or in ``qrels.tsv`` for all splits. A file holds pairs of query and
    document (see :func:`read_query_pairs`).

    Args:
        source: the folder or file.
        split: of a folder with ``qrels/`` the file of that name, otherwise the queries whose field ``split`` has this
            value; None for all.
        only: conditions on fields of the queries, such as ``kind=specific``; of several on one field one must hold.
        text_column: the field that holds the text of a query.

    Raises:
        EvaluationError: a file is missing, a line is malformed, an id occurs twice, no query fits the conditions, or
            what there is does not fit together; the message names file and line.
        SettingsError: a condition is none.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "pairs.tsv"
    >>> _ = path.write_text("steamed rice\trice\n")
    >>> read_judgements(path).qrels
    {'q1': {'rice': 1}}
    """
    path = Path(source)
    if not path.is_dir():
        if split is not None or only or text_column != TEXT_COLUMN:
            raise SettingsError(f"{source} is no folder, whose queries alone have fields to choose by")
        return read_query_pairs(path)
    files, by_file = _qrels_files(path, split)
    conditions = only if split is None or by_file else (*only, f"{SPLIT}={split}")
    texts, known = read_queries(_queries_file(path), conditions, text_column)
    qrels: dict[str, dict[str, int]] = {}
    for file in files:
        for query, grades in read_qrels(file).items():
            own = qrels.setdefault(query, {})
            for id, grade in grades.items():
                if own.setdefault(id, grade) != grade:
                    raise EvaluationError(
                        f"{file}: document {id!r} has the grade {grade} for query {query!r}, but {own[id]} in another "
                        "split"
                    )
    if by_file:
        # The other queries are of other splits.
        texts = {query: text for query, text in texts.items() if query in qrels}
    return Judgements.of(texts, qrels, source=str(source), known=known)


def read_query_pairs(path: str | Path) -> Judgements:
    """Read pairs from a file of two columns separated by a tab: the text of a query and the id of a document.

    Every pair is a positive of grade 1. Lines with the same text are one query; queries are called ``q1``, ``q2`` and
    so on. A first line of two column names, ``query`` and one that ends in ``id``, is a heading. A name that ends in
    ``.gz`` is uncompressed.

    Raises:
        EvaluationError: the file cannot be read, has no pairs, or a line is not of this form.
    """
    names: dict[str, str] = {}
    qrels: dict[str, dict[str, int]] = {}
    first = True
    try:
        for number, line in numbered_lines(path):
            cells = [clean_text(cell).strip() for cell in line.split("\t")]
            is_heading, first = first and _is_heading(cells), False
            if is_heading:
                continue
            if len(cells) != 2 or not all(cells):
                raise EvaluationError(f"{path}:{number}: expected the text of a query, a tab and the id of a document")
            text, document = cells
            query = names.setdefault(text, f"q{len(names) + 1}")
            qrels.setdefault(query, {})[document] = 1
    except DocumentError as error:
        raise EvaluationError(str(error)) from error.__cause__
    if not qrels:
        raise EvaluationError(f"{path}: there is no pair in it")
    return Judgements.of({id: text for text, id in names.items()}, qrels, source=str(path))


def find_corpus(folder: str | Path) -> Path | None:
    """The file of documents of a folder in BEIR's layout, such as ``corpus.jsonl.gz``; None if it has none."""
    return _file_of_rows(Path(folder), "corpus")


def _queries_file(folder: Path) -> Path:
    path = _file_of_rows(folder, "queries")
    if path is None:
        raise EvaluationError(f"{folder}: there is no file of queries in it, such as queries.jsonl")
    return path


def _file_of_rows(folder: Path, stem: str) -> Path | None:
    found = [path for path in folder.iterdir() if split_suffix(path)[0] == stem and is_corpus(split_suffix(path)[1])]
    return min(found, default=None)


def _qrels_files(folder: Path, split: str | None) -> tuple[list[Path], bool]:
    """The files of judgements, and whether the split is chosen by them."""
    files = {
        split_suffix(path)[0]: path
        for path in (sorted((folder / "qrels").iterdir()) if (folder / "qrels").is_dir() else ())
        if split_suffix(path)[1] == "tsv"
    }
    if files and split is not None:
        if split not in files:
            raise EvaluationError(f"{folder / 'qrels'}: there is no split {split!r}; choose one of {', '.join(files)}")
        return [files[split]], True
    if files:
        return list(files.values()), False
    for name in _QRELS_FILES:
        if (folder / name).is_file():
            return [folder / name], False
    raise EvaluationError(f"{folder}: there are no judgements in it, such as qrels.tsv or qrels/test.tsv")


def _is_heading(cells: list[str]) -> bool:
    return len(cells) == 2 and cells[0].lower() == "query" and cells[1].lower().endswith("id")


@dataclass(slots=True)
class _Condition:
    """That a field of a query has one of some values; notes which values there are."""

    name: str
    values: set[str] = field(default_factory=set)
    there: dict[str, None] = field(default_factory=dict)

    def holds(self, row: Row) -> bool:
        if self.name not in row:
            return False
        value = row[self.name]
        written = [_as_written(part) for part in (value if isinstance(value, list | tuple) else [value])]
        self.there.update(dict.fromkeys(written))
        return not self.values.isdisjoint(written)

    def require_met(self, place: str, noun: str) -> None:
        if not self.there:
            raise EvaluationError(f"{place}no {noun} has the field {self.name!r}")
        if not self.values & self.there.keys():
            wanted = " or ".join(sorted(self.values))
            shown = named(one_line(value, 40) for value in self.there)
            raise EvaluationError(f"{place}no {noun} has {self.name}={wanted}; there are {shown}")


def read_queries(
    path: Path, only: Sequence[str] = (), text_column: str = TEXT_COLUMN
) -> tuple[dict[str, str], set[str]]:
    """Read queries from a file of rows.

    Args:
        path: a JSON Lines, JSON, CSV, TSV or Parquet file whose rows have ``_id`` or ``id``, and a text.
        only: conditions on fields, such as ``kind=specific``; of several on one field one must hold.
        text_column: the field that holds the text.

    Returns:
        Texts of the queries that fit, by id, empty ones as well; the ids of all queries.

    Raises:
        EvaluationError: a row is malformed, an id occurs twice, or no query fits; the message names file and line.
        SettingsError: a condition is none.
    """
    conditions = _conditions(only)
    places: dict[str, str] = {}
    texts: dict[str, str] = {}
    for record in read_corpus(path, "utf-8"):
        try:
            if isinstance(record.content, DocumentError):
                raise record.content
            row = cast("Row", record.content)
            id = clean_text(row_id(row, Columns()) or "").strip()
            if not id:
                raise DocumentError("the query has no id (_id)")
            if id in places:
                raise DocumentError(f"the id {id!r} is taken by the query of {places[id]}")
            places[id] = record.place
            # All are asked, so that each notes the values that there are.
            if all([condition.holds(row) for condition in conditions]):
                texts[id] = _text(row, text_column)
        except DocumentError as error:
            raise EvaluationError(f"{record.place}: {error}") from error.__cause__
    for condition in conditions:
        condition.require_met(f"{path}: ", "query")
    if not texts:
        raise EvaluationError(f"{path}: no query fits all conditions ({', '.join(only)})")
    return texts, set(places)


def _conditions(only: Sequence[str]) -> list[_Condition]:
    conditions: dict[str, _Condition] = {}
    for text in only:
        name, _, value = (part.strip() for part in str(text).partition("="))
        if not (name and value):
            raise SettingsError(f"{text!r} is no condition such as kind=specific")
        conditions.setdefault(name, _Condition(name)).values.add(value)
    return list(conditions.values())


def _as_written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _text(row: Row, column: str) -> str:
    if column not in row:
        raise DocumentError(f"the query has no field {column!r}, only {', '.join(map(str, row))}")
    text = row[column]
    if is_missing(text):
        return ""
    if not isinstance(text, str):
        raise DocumentError(f"the text of the query, {column!r}, is no string")
    return clean_text(text).strip()
