"""Rankings and judgements as plain dictionaries, and as files: TREC's, BEIR's, and links between documents."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ..documents.parsing.formats import numbered_lines, split_suffix
from ..documents.section import clean_text
from ..errors import DocumentError, EvaluationError
from ..runtime.files import write_atomically
from ..runtime.text import one_line

Run = Mapping[str, Mapping[str, float]]
"""Scores of the documents that were retrieved, by query id and document id."""
Qrels = Mapping[str, Mapping[str, int]]
"""Grades of the documents that were judged, by query id and document id; 0 and less is not relevant."""

_Value = TypeVar("_Value", int, float)

_BEIR_HEADER = ["query-id", "corpus-id", "score"]


def ranked(scores: Mapping[str, float]) -> list[str]:
    """Put documents in order: by falling score, those of the same score by their ids.

    Raises:
        EvaluationError: a score is not finite.

    >>> ranked({"wave": 0.5, "tide": 0.5, "gate": 2})
    ['gate', 'tide', 'wave']
    """
    for id, score in scores.items():
        if not math.isfinite(score):
            raise EvaluationError(f"document {id!r} has the score {score}")
    return sorted(scores, key=lambda id: (-scores[id], id))


def source_documents(qrels: Qrels, grade: int | None = None) -> dict[str, frozenset[str]]:
    """The documents that queries were written from, which find themselves, by query id; only queries that have one.

    Args:
        qrels: the judgements.
        grade: the grade that such documents have; None for the document whose id is the query's.

    >>> source_documents({"q1": {"tide": 2, "wave": 1}, "q2": {"gate": 1}}, grade=2)
    {'q1': frozenset({'tide'})}
    """
    if grade is None:
        return {query: frozenset({query}) for query in qrels}
    own = {query: frozenset(id for id, judged in grades.items() if judged == grade) for query, grades in qrels.items()}
    return {query: documents for query, documents in own.items() if documents}


def leave_out(
    rankings: Mapping[str, Mapping[str, _Value]], documents: Mapping[str, Collection[str]]
) -> dict[str, dict[str, _Value]]:
    """A run or judgements without some documents by query id, such as :func:`source_documents`."""
    return {
        query: {id: value for id, value in values.items() if id not in documents.get(query, ())}
        for query, values in rankings.items()
    }


def read_qrels(path: str | Path) -> dict[str, dict[str, int]]:
    """Read judgements, grades by query id and document id: TREC's four columns, or BEIR's three with their header.

    Columns are separated by tabs, or by any white space in a file that has no tab in its first line. A name that ends
    in ``.gz`` is uncompressed. A line may occur again, but not with another grade.

    >>> import tempfile
    >>> read_qrels(write_qrels(Path(tempfile.mkdtemp()) / "qrels.tsv", {"q1": {"rice": 1}}))
    {'q1': {'rice': 1}}
    """
    return _collected(path, _lines(path, (3, 4)))


def read_relevant(path: str | Path, *, mutual: bool = False) -> dict[str, dict[str, int]]:
    r"""Read which documents are relevant to which.

    A file of two columns holds links, from the first document to the second. One of three or four columns holds
    judgements (see :func:`read_qrels`), with a document's id in place of a query's. A JSON file holds an object of
    lists of ids by id, or of grades by id and id.

    With ``mutual`` only pairs count that are relevant both ways.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "links.tsv"
    >>> _ = path.write_text("rice\tsalt\nsalt\trice\nrice\ttides\n")
    >>> read_relevant(path, mutual=True)
    {'rice': {'salt': 1}, 'salt': {'rice': 1}}
    """
    is_json = split_suffix(Path(path))[1] == "json"
    relevant = _collected(path, _lists(Path(path)) if is_json else _lines(path, (2, 3, 4)))
    positive = {(a, b) for a, grades in relevant.items() for b, grade in grades.items() if grade > 0}
    if mutual:
        positive = {(a, b) for a, b in positive if (b, a) in positive}
        relevant = {a: {b: gain for b, gain in grades.items() if (a, b) in positive} for a, grades in relevant.items()}
    if not positive:
        raise EvaluationError(f"{path}: no document is relevant to another")
    return relevant


def _lines(path: str | Path, widths: Collection[int]) -> Iterator[tuple[str, str, str, str]]:
    """The place, both ids and the grade of every line; links, in two columns, have the grade 1."""
    columns = 0
    for place, cells in read_columns(path):
        columns = columns or len(cells)
        if len(cells) != columns or columns not in widths:
            raise EvaluationError(f"{place}: {len(cells)} columns, not query id, 0, document id and grade")
        if [cell.lower() for cell in cells] != _BEIR_HEADER:
            document, grade = (cells[1], "1") if columns == 2 else cells[-2:]
            yield place, cells[0], document, grade


def _lists(path: Path) -> Iterator[tuple[str, str, Any, Any]]:
    """The same of a JSON object of lists of ids, or of grades by id."""
    try:
        for id, others in json.loads(path.read_text(encoding="utf-8")).items():
            grades = others if isinstance(others, dict) else dict.fromkeys(others, 1)
            yield from ((f"{path}: {id!r}", id, other, grade) for other, grade in grades.items())
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise EvaluationError(f"{path}: cannot be read as lists of ids ({one_line(str(error), 120)})") from error


def _collected(path: str | Path, rows: Iterable[tuple[str, str, Any, Any]]) -> dict[str, dict[str, int]]:
    """Grades by id and id, of rows of a place, two ids and a grade."""
    qrels: dict[str, dict[str, int]] = {}
    for place, query, document, written in rows:
        a, b = clean_text(query).strip(), clean_text(str(document)).strip()
        if not (a and b and re.fullmatch(r"-?[0-9]+(\.0+)?", str(written))):
            raise EvaluationError(f"{place}: {document!r}, {written!r} are no id and no whole number")
        grade = int(float(written))
        if qrels.setdefault(a, {}).setdefault(b, grade) != grade:
            raise EvaluationError(f"{place}: {a!r}: {b!r} has the grades {qrels[a][b]} and {grade}")
    if not qrels:
        raise EvaluationError(f"{path}: there is no judgement in it")
    return qrels


def read_run(path: str | Path) -> dict[str, dict[str, float]]:
    """Read rankings, scores by query id and document id: query id, ``Q0``, document id, rank, score, name of the run.

    Scores count, ranks do not, as in TREC's own tools. Columns are separated as in :func:`read_qrels`.

    >>> import tempfile
    >>> read_run(write_run(Path(tempfile.mkdtemp()) / "mine.run", {"q1": {"rice": 0.9}}))
    {'q1': {'rice': 0.9}}
    """
    run: dict[str, dict[str, float]] = {}
    for place, cells in read_columns(path):
        try:
            query, _, document, _, score, _ = cells
            hits, value = run.setdefault(query, {}), float(score)
        except ValueError as error:
            message = f"{place}: expected query id, Q0, document id, rank, score and name of the run"
            raise EvaluationError(message) from error
        if not math.isfinite(value):
            raise EvaluationError(f"{place}: document {document!r} has the score {value}")
        if document in hits:
            raise EvaluationError(f"{place}: document {document!r} occurs twice for query {query!r}")
        hits[document] = value
    if not run:
        raise EvaluationError(f"{path}: there is no hit in it")
    return run


def read_columns(path: str | Path) -> Iterator[tuple[str, list[str]]]:
    """The place of every line of a file, and its cells, cleaned as ids of documents are.

    They are separated by tabs, or by white space where the first line has no tab.

    Raises:
        EvaluationError: the file cannot be read.
    """
    separator: str | None = None
    try:
        for number, (line, text) in enumerate(numbered_lines(path)):
            if not number:
                separator = "\t" if "\t" in text else None
            yield f"{path}:{line}", [clean_text(cell).strip() for cell in text.split(separator)]
    except DocumentError as error:
        raise EvaluationError(str(error)) from error.__cause__


def write_qrels(path: str | Path, qrels: Qrels) -> Path:
    r"""Write judgements in TREC's four columns with tabs between, atomically; ids hold no tabs and line ends.

    >>> import tempfile
    >>> write_qrels(Path(tempfile.mkdtemp()) / "qrels.tsv", {"rice": {"koji": 2}}).read_text()
    'rice\t0\tkoji\t2\n'
    """
    rows = ((query, "0", id, str(grade)) for query, grades in qrels.items() for id, grade in grades.items())
    return _write(path, rows)


def write_run(path: str | Path, run: Run, name: str = "graphdoc") -> Path:
    r"""Write rankings in TREC's six columns with tabs between, in order (see :func:`ranked`) and atomically.

    Scores are written in full. Where scores are equal, ``trec_eval`` takes ids in falling order, and the order here is
    another one. A query without hits is not in the file, and counts as one that found nothing.

    >>> import tempfile
    >>> write_run(Path(tempfile.mkdtemp()) / "mine.run", {"rice": {"koji": 0.5}}).read_text()
    'rice\tQ0\tkoji\t1\t0.5\tgraphdoc\n'
    """
    if name.split() != [name]:
        raise EvaluationError(f"the name of a run is {name!r}; give one without white space")
    rows = (
        (query, "Q0", id, str(rank), repr(float(scores[id])), name)
        for query, scores in run.items()
        for rank, id in enumerate(ranked(scores), start=1)
    )
    return _write(path, rows)


def _write(path: str | Path, rows: Iterable[tuple[str, ...]]) -> Path:
    def write(temporary: Path) -> None:
        with temporary.open("w", encoding="utf-8", errors="replace", newline="") as file:
            for row in rows:
                for id in (row[0], row[2]):
                    if not id.strip() or any(sign in id for sign in "\t\n\r"):
                        raise EvaluationError(f"the id {id!r} cannot stand in a file of TREC; give ids without tabs")
                file.write("\t".join(row) + "\n")

    return write_atomically(path, write)
