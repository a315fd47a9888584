"""Rankings and judgements as plain dictionaries, and as the files that TREC's tools exchange."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from ..documents.readers.lines import numbered_lines
from ..documents.section import clean_text
from ..errors import DocumentError, EvaluationError
from ..runtime.files import write_atomically
from ..runtime.text import one_line

Run = Mapping[str, Mapping[str, float]]
"""Scores of the documents that were found, by query id and document id."""
Qrels = Mapping[str, Mapping[str, int]]
"""Grades of the documents that were judged, by query id and document id; 0 and less is not relevant."""

_Value = TypeVar("_Value", int, float)

BEIR_HEADER = ("query-id", "corpus-id", "score")
# Measures of gain hold a number for every grade up to the highest.
MOST_GRADE = 10_000
_QRELS = "a judgement is expected as query id, 0, document id and a whole number, or without the 0"
_LINK = "a link is expected as the ids of two documents"
_RUN = "a hit is expected as query id, Q0, document id, rank, score and name of the run"


def ranked(scores: Mapping[str, float]) -> list[str]:
    """Put documents in order: by falling score, those of the same score by their ids.

    Raises:
        EvaluationError: a score is no finite number.

    >>> ranked({"wave": 0.5, "tide": 0.5, "gate": 2})
    ['gate', 'tide', 'wave']
    """
    for id, score in scores.items():
        if not math.isfinite(score):
            raise EvaluationError(f"document {id!r} has the score {score}; give finite numbers")
    return sorted(scores, key=lambda id: (-scores[id], id))


def own_documents(qrels: Qrels, grade: int | None = None) -> dict[str, frozenset[str]]:
    """The documents that queries were made of, which find themselves.

    Args:
        qrels: the judgements.
        grade: the grade by which such documents are known, such as 2 where a query is the title of an article that
            has this grade; None for the document whose id is the query's.

    Returns:
        Ids of documents by query id; queries that have no such document are missing.

    >>> own_documents({"q1": {"tide": 2, "wave": 1}, "q2": {"gate": 1}}, grade=2)
    {'q1': frozenset({'tide'})}
    """
    if grade is None:
        return {query: frozenset({query}) for query in qrels}
    found = {query: frozenset(id for id, given in grades.items() if given == grade) for query, grades in qrels.items()}
    return {query: documents for query, documents in found.items() if documents}


def leave_out(
    rankings: Mapping[str, Mapping[str, _Value]], documents: Mapping[str, Collection[str]]
) -> dict[str, dict[str, _Value]]:
    """Take some documents out of rankings or judgements.

    Args:
        rankings: a run or judgements.
        documents: ids of the documents to take out, by query id (see :func:`own_documents`).

    >>> leave_out({"q1": {"tide": 2, "wave": 1}}, {"q1": {"tide"}})
    {'q1': {'wave': 1}}
    """
    return {
        query: {id: value for id, value in values.items() if id not in documents.get(query, ())}
        for query, values in rankings.items()
    }


def read_qrels(path: str | Path) -> dict[str, dict[str, int]]:
    r"""Read judgements: TREC's four columns, or the three of BEIR with their header.

    Columns are separated by tabs, or by any white space in a file that has no tab in its first line. A name that ends
    in ``.gz`` is uncompressed. A line may occur again.

    Args:
        path: the file.

    Returns:
        Grades by query id and document id.

    Raises:
        EvaluationError: the file cannot be read, has no judgements, or a line is not of this form or contradicts
            another.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "qrels.tsv"
    >>> _ = path.write_text("q1\t0\trice\t1\n")
    >>> read_qrels(path)
    {'q1': {'rice': 1}}
    """
    result: dict[str, dict[str, int]] = {}
    columns = 0
    for number, cells in _rows(path):
        if not columns and tuple(cell.lower() for cell in cells) == BEIR_HEADER:
            columns = len(BEIR_HEADER)
            continue
        columns = columns or (3 if len(cells) == 3 else 4)
        if len(cells) != columns:
            raise _malformed(path, number, _QRELS)
        query, document, grade = cells[0], cells[-2], _number(int, cells[-1])
        if not query or not document:
            raise _malformed(path, number, _QRELS)
        if grade is None:
            raise EvaluationError(
                f"{path}:{number}: the grade of document {document!r} for query {query!r} is "
                f"{one_line(repr(cells[-1]), 40)}; give a whole number, such as 0, 1 and 2"
            )
        if abs(grade) > MOST_GRADE:
            raise EvaluationError(
                f"{path}:{number}: the grade of document {document!r} for query {query!r} is "
                f"{one_line(cells[-1], 40)}; give {MOST_GRADE:,} at most, such as 0, 1 and 2"
            )
        before = result.setdefault(query, {}).setdefault(document, grade)
        if before != grade:
            raise EvaluationError(
                f"{path}:{number}: document {document!r} has the grade {grade} for query {query!r}, but {before} in a "
                "line before; keep one of the two"
            )
    if not result:
        raise EvaluationError(f"{path}: there is no judgement in it; {_QRELS}, one in a line")
    return result


def read_links(path: str | Path) -> dict[str, dict[str, int]] | None:
    """Read links between documents: two ids in a line, from the one to the other.

    Columns are separated as in :func:`read_qrels`; a link may occur again.

    Args:
        path: the file.

    Returns:
        1 by both ids; None for a file whose first line is not of two columns.

    Raises:
        EvaluationError: the file cannot be read, or a line is not of this form.
    """
    result: dict[str, dict[str, int]] = {}
    for number, cells in _rows(path):
        if len(cells) != 2 and not result:
            return None
        if len(cells) != 2 or not all(cells):
            raise _malformed(path, number, _LINK)
        result.setdefault(cells[0], {})[cells[1]] = 1
    return result or None


def write_qrels(path: str | Path, qrels: Qrels) -> Path:
    r"""Write judgements in TREC's four columns with tabs between, atomically.

    Raises:
        EvaluationError: an id is empty or holds a tab or line end.
        OutputError: the file cannot be written.

    >>> import tempfile
    >>> path = write_qrels(Path(tempfile.mkdtemp()) / "qrels.tsv", {"q1": {"rice": 1}})
    >>> path.read_text()
    'q1\t0\trice\t1\n'
    """
    lines = (
        f"{_written(query)}\t0\t{_written(id)}\t{grade}\n"
        for query, grades in qrels.items()
        for id, grade in grades.items()
    )
    return _write(path, lines)


def read_run(path: str | Path) -> dict[str, dict[str, float]]:
    r"""Read rankings in TREC's six columns: query id, ``Q0``, document id, rank, score, name of the run.

    Scores count, ranks do not, as in TREC's own tools. Columns are separated as in :func:`read_qrels`.

    Args:
        path: the file.

    Returns:
        Scores by query id and document id.

    Raises:
        EvaluationError: the file cannot be read, has no hits, a line is not of this form, or a document occurs twice
            for a query.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "run.txt"
    >>> _ = path.write_text("q1 Q0 rice 1 0.9 mine\n")
    >>> read_run(path)
    {'q1': {'rice': 0.9}}
    """
    result: dict[str, dict[str, float]] = {}
    for number, cells in _rows(path):
        if len(cells) != 6 or not cells[0] or not cells[2]:
            raise _malformed(path, number, _RUN)
        score = _number(float, cells[4])
        if score is None or not math.isfinite(score):
            raise EvaluationError(
                f"{path}:{number}: the score of document {cells[2]!r} for query {cells[0]!r} is "
                f"{one_line(repr(cells[4]), 40)}; give a finite number"
            )
        hits = result.setdefault(cells[0], {})
        if cells[2] in hits:
            raise EvaluationError(
                f"{path}:{number}: document {cells[2]!r} occurs twice for query {cells[0]!r}; keep one of the lines"
            )
        hits[cells[2]] = score
    if not result:
        raise EvaluationError(f"{path}: there is no hit in it; {_RUN}, one in a line")
    return result


def write_run(path: str | Path, run: Run, name: str = "graphdoc") -> Path:
    r"""Write rankings in TREC's six columns with tabs between, in order (see :func:`ranked`) and atomically.

    Scores are written in full. Where scores are equal, ``trec_eval`` takes ids in falling order, and the order here is
    another one. A query without hits is not in the file, and counts as one that found nothing.

    Args:
        path: the file.
        run: scores by query id and document id.
        name: name of the run, without white space.

    Raises:
        EvaluationError: an id is empty or holds a tab or line end, the name white space, or a score is no finite
            number.
        OutputError: the file cannot be written.

    >>> import tempfile
    >>> path = write_run(Path(tempfile.mkdtemp()) / "run.txt", {"q1": {"salt": 0.2, "rice": 0.9}})
    >>> path.read_text().splitlines()
    ['q1\tQ0\trice\t1\t0.9\tgraphdoc', 'q1\tQ0\tsalt\t2\t0.2\tgraphdoc']
    """
    if not name or name.split() != [name]:
        raise EvaluationError(f"the name of a run is {name!r}; give one without white space")
    lines = (
        f"{_written(query)}\tQ0\t{_written(id)}\t{rank}\t{float(scores[id])!r}\t{name}\n"
        for query, scores in run.items()
        for rank, id in enumerate(ranked(scores), start=1)
    )
    return _write(path, lines)


def _rows(path: str | Path) -> Iterator[tuple[int, list[str]]]:
    """Numbers and cells of lines; ids are cleaned as those of documents are."""
    separator: str | None = None
    try:
        for number, (line, text) in enumerate(numbered_lines(path)):
            if not number:
                separator = "\t" if "\t" in text else None
            yield line, [clean_text(cell).strip() for cell in text.split(separator)]
    except DocumentError as error:
        raise EvaluationError(str(error)) from error.__cause__


def _number(kind: Callable[[str], _Value], cell: str) -> _Value | None:
    try:
        return kind(cell)
    except ValueError:
        return None


def _malformed(path: str | Path, number: int, expected: str) -> EvaluationError:
    return EvaluationError(f"{path}:{number}: {expected}; mend the line")


def require_ids(ids: Iterable[str]) -> None:
    """Refuse ids that cannot stand in a file of TREC, before anything is written.

    Raises:
        EvaluationError: an id is empty or holds a tab or line end.
    """
    for id in ids:
        _written(id)


def _written(id: str) -> str:
    if not id.strip() or any(sign in id for sign in "\t\n\r"):
        raise EvaluationError(f"the id {id!r} cannot stand in a file of TREC; give ids without tabs and line ends")
    return id


def _write(path: str | Path, lines: Iterable[str]) -> Path:
    def write(temporary: Path) -> None:
        with temporary.open("w", encoding="utf-8", errors="replace", newline="") as file:
            file.writelines(lines)

    return write_atomically(path, write)
