"""Queries, and which documents answer them: from a folder in BEIR's layout, or from pairs of query and document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from ..documents.parsing.formats import is_corpus, split_suffix
from ..documents.parsing.rows import Columns, row_id
from ..documents.readers.corpora import read_corpus
from ..documents.section import clean_text, is_missing
from ..errors import DocumentError, EvaluationError, SettingsError
from ..runtime.text import counted
from .labels import first_three_names
from .trec import Qrels, leave_out, read_columns, read_qrels, source_documents

TEXT_COLUMN = "text"
SPLIT = "split"
_QRELS_FILES = ("qrels.tsv", "qrels.tsv.gz", "qrels.txt", "qrels.txt.gz")

# What is left out of judgements.
WITHOUT_POSITIVE, UNKNOWN_DOCUMENTS = "queries without a positive", "judged documents that are unknown"
WITHOUT_TEXT, UNKNOWN_QUERIES = "queries without text", "judged queries that are unknown"


@dataclass(frozen=True)
class Judgements:
    """Queries with a positive, and the documents that were judged for them.

    A query without a positive has no best ranking; as in TREC's campaigns it is left out and counted.

    Args:
        queries: texts by query id.
        qrels: grades by query id and document id, of these queries.
        source: the folder or file, for messages.
        left_out: how many of what was left out, by reason; only what there is.
    """

    queries: Mapping[str, str]
    qrels: Mapping[str, Mapping[str, int]]
    source: str = ""
    left_out: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def from_qrels(
        cls, queries: Mapping[str, str], qrels: Qrels, *, source: str = "", known: Collection[str] = ()
    ) -> Judgements:
        """Put queries and judgements together; ``known`` are ids of queries that were not chosen."""
        unknown = [query for query in qrels if query not in queries and query not in known]
        if qrels and len(unknown) == len(qrels):
            raise EvaluationError(
                f"{source or 'the judgements'}: none of the {counted(len(unknown), 'query id')} in the judgements is "
                f"the id of a query ({first_three_names(map(repr, unknown))})"
            )
        with_text = {query: text for query, text in queries.items() if text.strip()}
        left_out = {WITHOUT_TEXT: len(queries) - len(with_text), UNKNOWN_QUERIES: len(unknown)}
        return cls(with_text, qrels, source, left_out)._answered(qrels)

    def __len__(self) -> int:
        """Number of queries."""
        return len(self.queries)

    def positives(self, query: str) -> list[str]:
        """Ids of the documents that answer a query, those of the highest grade first."""
        grades = self.qrels[query]
        return sorted((id for id, grade in grades.items() if grade > 0), key=lambda id: (-grades[id], id))

    def sources(self, grade: int | None) -> dict[str, frozenset[str]]:
        """The documents of a grade, which queries were written from, by query id; none where no grade is given.

        Raises:
            EvaluationError: no judgement has the grade.
        """
        found = {} if grade is None else source_documents(self.qrels, grade)
        if grade is not None and not found:
            raise EvaluationError(f"{self.source}: no judgement has queries.source_grade={grade} (--source-grade)")
        return found

    def without(self, documents: Mapping[str, Collection[str]]) -> Judgements:
        """The judgements without some documents by query id, such as those that queries were written from."""
        return self._answered(leave_out(self.qrels, documents))

    def among(self, documents: Collection[str]) -> Judgements:
        """The judgements of documents that are there; ``left_out`` counts the others.

        A positive that is not there cannot be found. Measured with these judgements it does not count; measured with
        all of them it counts as missed.
        """
        there = set(documents)
        unknown = list({id: None for grades in self.qrels.values() for id in grades if id not in there})
        if not unknown:
            return self
        kept = {query: {id: gain for id, gain in grades.items() if id in there} for query, grades in self.qrels.items()}
        if not any(kept.values()):
            raise EvaluationError(
                f"{self.source or 'the judgements'}: none of the {counted(len(unknown), 'judged document')} is there "
                f"({first_three_names(map(repr, unknown))})"
            )
        return self._answered(kept, len(unknown))

    def _answered(self, qrels: Qrels, unknown_documents: int = 0) -> Judgements:
        answered = {query for query, grades in qrels.items() if any(grade > 0 for grade in grades.values())}
        queries = {query: text for query, text in self.queries.items() if query in answered}
        if not queries:
            raise EvaluationError(
                f"{self.source or 'the judgements'}: 0 of {len(self.queries):,} queries have a document with a grade "
                "above 0"
            )
        left_out = Counter(self.left_out)
        left_out[WITHOUT_POSITIVE] += len(self.queries) - len(queries)
        left_out[UNKNOWN_DOCUMENTS] += unknown_documents
        return Judgements(queries, {query: qrels[query] for query in queries}, self.source, dict(+left_out))


def read_judgements(
    source: str | Path, *, split: str | None = None, only: Sequence[str] = (), text_column: str = TEXT_COLUMN
) -> Judgements:
    r"""Read queries and judgements.

    A folder is in BEIR's layout: queries in ``queries.jsonl`` (or another file of rows of that name) with ``_id`` and
    text; judgements in ``qrels/<split>.tsv``, or in ``qrels.tsv`` for all splits. A file holds pairs in two columns
    with a tab between: the text of a query, and the id of a document that answers it.

    Args:
        source: the folder or file.
        split: of a folder with ``qrels/`` the file of that name, else the queries whose ``split`` is it; None for all.
        only: conditions on fields of the queries, such as ``kind=specific``; of several on one field one must hold.
        text_column: the field that holds the text of a query.

    Raises:
        EvaluationError: a file is missing or malformed, or what there is does not fit together.

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
        return _read_query_pairs(path)
    files = _qrels_files(path)
    conditions = list(only)
    of_split = split is not None and "" not in files
    if split is not None and of_split:
        if split not in files:
            raise EvaluationError(f"{path / 'qrels'}: there is no split {split!r}; choose one of {', '.join(files)}")
        files = {split: files[split]}
    elif split is not None:
        conditions.append(f"{SPLIT}={split}")
    queries = find_rows(path, "queries")
    if queries is None:
        raise EvaluationError(f"{path}: there is no file of queries in it, such as queries.jsonl")
    texts, known = read_queries(queries, conditions, text_column)
    qrels: dict[str, dict[str, int]] = {}
    for file in files.values():
        for query, grades in read_qrels(file).items():
            qrels.setdefault(query, {}).update(grades)
    if of_split:
        # The other queries are of other splits.
        texts = {query: text for query, text in texts.items() if query in qrels}
    return Judgements.from_qrels(texts, qrels, source=str(source), known=known)


def _read_query_pairs(path: Path) -> Judgements:
    """Pairs of query and document; lines with the same text are one query, called ``q1``, ``q2`` and so on."""
    names: dict[str, str] = {}
    qrels: dict[str, dict[str, int]] = {}
    for place, cells in read_columns(path):
        if len(cells) != 2 or not all(cells):
            raise EvaluationError(f"{place}: expected the text of a query, a tab and the id of a document")
        if names or cells[0].lower() != "query":
            query = names.setdefault(cells[0], f"q{len(names) + 1}")
            qrels.setdefault(query, {})[cells[1]] = 1
    return Judgements.from_qrels({id: text for text, id in names.items()}, qrels, source=str(path))


def find_rows(folder: str | Path, stem: str) -> Path | None:
    """The file of rows with a name in a folder, such as ``corpus.jsonl.gz``; None if there is none."""
    parts = ((path, *split_suffix(path)) for path in Path(folder).iterdir())
    return min((path for path, name, suffix in parts if name == stem and is_corpus(suffix)), default=None)


def _qrels_files(folder: Path) -> dict[str, Path]:
    """The files of judgements of a folder by split; a single file for all splits by an empty name."""
    splits = sorted((folder / "qrels").iterdir()) if (folder / "qrels").is_dir() else []
    files = {split_suffix(path)[0]: path for path in splits if split_suffix(path)[1] == "tsv"}
    for name in _QRELS_FILES:
        if not files and (folder / name).is_file():
            files = {"": folder / name}
    if not files:
        raise EvaluationError(f"{folder}: there are no judgements in it, such as qrels.tsv or qrels/test.tsv")
    return files


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
    """
    conditions: dict[str, set[str]] = {}
    for condition in only:
        name, _, value = (part.strip() for part in condition.partition("="))
        if not (name and value):
            raise SettingsError(f"{condition!r} is no condition such as kind=specific")
        conditions.setdefault(name, set()).add(value)
    known: set[str] = set()
    texts: dict[str, str] = {}
    for record in read_corpus(path, "utf-8"):
        try:
            if isinstance(record.content, DocumentError):
                raise record.content
            row = cast("Mapping[str, Any]", record.content)
            id = clean_text(row_id(row, Columns()) or "").strip()
            if not id or id in known:
                raise DocumentError(f"the id {id!r} is taken by another query" if id else "the query has no id (_id)")
            known.add(id)
            if all(wanted & _values(row.get(name)) for name, wanted in conditions.items()):
                text = row[text_column]
                texts[id] = "" if is_missing(text) else clean_text(str(text)).strip()
        except KeyError:
            fields = ", ".join(map(str, row))
            raise EvaluationError(f"{record.location}: there is no {text_column!r}; its fields are {fields}") from None
        except DocumentError as error:
            raise EvaluationError(f"{record.location}: {error}") from error.__cause__
    if not texts:
        raise EvaluationError(f"{path}: no query has {', '.join(only) or 'an id and a text'}")
    return texts, known


def _values(field: Any) -> set[str]:
    values = field if isinstance(field, list | tuple) else [] if field is None else [field]
    return {str(value).lower() if isinstance(value, bool) else str(value) for value in values}
