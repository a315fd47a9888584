"""Rankings and judgements as plain dictionaries, and as files: TREC's, BEIR's, and links between documents."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ..documents.document import Document
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
_Grades = dict[str, dict[str, int]]

BEIR_HEADER = ("query-id", "corpus-id", "score")
# Measures of gain hold a number for every grade up to the highest.
MOST_GRADE = 10_000


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


def own_documents(qrels: Qrels, grade: int | None = None) -> dict[str, frozenset[str]]:
    """The documents that queries were written from, which find themselves.

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
    own = {query: frozenset(id for id, given in grades.items() if given == grade) for query, grades in qrels.items()}
    return {query: documents for query, documents in own.items() if documents}


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


def read_qrels(path: str | Path) -> _Grades:
    r"""Read judgements: TREC's four columns, or the three of BEIR with their header.

    Columns are separated by tabs, or by any white space in a file that has no tab in its first line. A name that ends
    in ``.gz`` is uncompressed. A line may occur again.

    Returns:
        Grades by query id and document id.

    Raises:
        EvaluationError: the file cannot be read, has no judgements, or a line is malformed or contradicts another.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "qrels.tsv"
    >>> _ = path.write_text("q1\t0\trice\t1\n")
    >>> read_qrels(path)
    {'q1': {'rice': 1}}
    """
    qrels: _Grades = {}
    columns = 0
    for place, cells in _rows(path):
        if not columns and tuple(cell.lower() for cell in cells) == BEIR_HEADER:
            columns = len(BEIR_HEADER)
            continue
        columns = columns or (3 if len(cells) == 3 else 4)
        if len(cells) != columns:
            raise EvaluationError(f"{place}: expected query id, 0, document id and grade, or these without the 0")
        _add(
            qrels,
            cells[0],
            cells[-2],
            _number(int, cells[-1], f"{place}: the grade of {cells[-2]!r} for {cells[0]!r}"),
            place,
        )
    if not qrels:
        raise EvaluationError(f"{path}: there is no judgement in it")
    return qrels


def read_relevant(path: str | Path, *, mutual: bool = False) -> _Grades:
    r"""Read which documents are relevant to which.

    A file of two columns holds links, from the first document to the second. One of three or four columns holds
    judgements (see :func:`read_qrels`), with a document's id in place of a query's. A JSON file holds an object of
    lists of ids by id; an object of grades by id can take the place of a list. As in judgements a document of grade 0
    or less is not relevant, and a pair may occur again, but not with another grade.

    Args:
        path: the file.
        mutual: whether only pairs count that are relevant both ways.

    Returns:
        Grades by id and id, as judgements have them.

    Raises:
        EvaluationError: the file cannot be read, has no pairs, or something in it is malformed.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "links.tsv"
    >>> _ = path.write_text("rice\tsalt\nsalt\trice\nrice\ttides\n")
    >>> read_relevant(path), read_relevant(path, mutual=True)
    ({'rice': {'salt': 1, 'tides': 1}, 'salt': {'rice': 1}}, {'rice': {'salt': 1}, 'salt': {'rice': 1}})
    """
    is_json = split_suffix(Path(path))[1] == "json"
    relevant = _read_lists(Path(path)) if is_json else _read_links(path) or read_qrels(path)
    return _mutual(relevant, str(path)) if mutual else relevant


def relevant_by_field(documents: Iterable[Document], field: str, *, mutual: bool = False) -> _Grades:
    """Take from a field of documents, such as ``references``, which others are relevant to each.

    Args:
        documents: the documents.
        field: a field beside text and title that holds an id or a list of ids.
        mutual: whether only pairs count that are relevant both ways.

    Raises:
        EvaluationError: no document has the field, or something else is in it.

    >>> papers = [Document.from_text("Rice.", id="a", metadata={"cites": ["b"]}), Document.from_text("Salt.", id="b")]
    >>> relevant_by_field(papers, "cites")
    {'a': {'b': 1}}
    """
    relevant: _Grades = {}
    fields: dict[str, None] = {}
    for document in documents:
        value = document.metadata.get(field)
        fields.update(dict.fromkeys(document.metadata))
        if value is not None:
            ids = tuple(value.items()) if isinstance(value, Mapping) else value
            _add_list(relevant, document.id, [ids] if isinstance(ids, str) else ids, f"document {document.id!r}")
    if not any(relevant.values()):
        there = ", ".join(map(repr, list(fields)[:20])) or "none"
        raise EvaluationError(f"no document names others in a field {field!r}; fields: {there}")
    return _mutual(relevant, f"the field {field!r}") if mutual else relevant


def _read_links(path: str | Path) -> _Grades | None:
    """Links, two ids in a line; None for a file whose first line is not of two columns."""
    links: _Grades = {}
    for place, cells in _rows(path):
        if len(cells) != 2:
            if not links:
                return None
            raise EvaluationError(f"{place}: expected the ids of two documents")
        _add(links, cells[0], cells[1], 1, place)
    return links or None


def _read_lists(path: Path) -> _Grades:
    """An object of lists, or of objects of grades; objects are read as tuples, which keep names that occur again."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=tuple)
    except (OSError, ValueError, RecursionError) as error:
        raise EvaluationError(f"{path}: cannot be read as JSON ({one_line(str(error), 120)})") from error
    if not isinstance(content, tuple):
        raise EvaluationError(f'{path}: expected an object of lists, such as {{"a.md": ["b.md", "c.md"]}}')
    relevant: _Grades = {}
    for id, ids in content:
        _add_list(relevant, id, ids, str(path))
    if not any(grade > 0 for grades in relevant.values() for grade in grades.values()):
        raise EvaluationError(f"{path}: no document is relevant to another")
    return relevant


def _add_list(qrels: _Grades, id: str, ids: Any, place: str) -> None:
    """Add ids, or with a tuple pairs of id and grade."""
    if not isinstance(ids, list | tuple):
        raise EvaluationError(f"{place}: expected a list of ids for {id!r}, not {one_line(repr(ids), 60)}")
    qrels.setdefault(clean_text(id).strip(), {})
    for other, grade in ids if isinstance(ids, tuple) and ids and isinstance(ids[0], tuple) else ((o, 1) for o in ids):
        # Data frames make decimal numbers of whole ones.
        whole = int(grade) if isinstance(grade, int | float) and grade == grade // 1 else None
        if not isinstance(other, str) or whole is None:
            raise EvaluationError(f"{place}: {id!r}: {one_line(repr((other, grade)), 60)} is no id with a whole grade")
        _add(qrels, id, other, whole, place)


def _add(qrels: _Grades, query: str, document: str, grade: int, place: str) -> None:
    query, document = clean_text(query).strip(), clean_text(document).strip()
    if not query or not document:
        raise EvaluationError(f"{place}: an id is empty")
    if abs(grade) > MOST_GRADE:
        raise EvaluationError(
            f"{place}: the grade of {document!r} is {one_line(str(grade), 40)}, above {MOST_GRADE:,}"
        )
    before = qrels.setdefault(query, {}).setdefault(document, grade)
    if before != grade:
        raise EvaluationError(f"{place}: {query!r}: {document!r} has the grades {before} and {grade}")


def _mutual(relevant: Qrels, place: str) -> _Grades:
    both = {
        source: {id: grade for id, grade in grades.items() if grade > 0 and relevant.get(id, {}).get(source, 0) > 0}
        for source, grades in relevant.items()
    }
    if not any(both.values()):
        raise EvaluationError(f"{place}: no two documents are relevant to each other")
    return both


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
    return _write(
        path, ((query, "0", id, str(grade)) for query, grades in qrels.items() for id, grade in grades.items())
    )


def read_run(path: str | Path) -> dict[str, dict[str, float]]:
    r"""Read rankings in TREC's six columns: query id, ``Q0``, document id, rank, score, name of the run.

    Scores count, ranks do not, as in TREC's own tools. Columns are separated as in :func:`read_qrels`.

    Returns:
        Scores by query id and document id.

    Raises:
        EvaluationError: the file cannot be read, has no hits, a line is malformed, or a document occurs twice for a
            query.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "run.txt"
    >>> _ = path.write_text("q1 Q0 rice 1 0.9 mine\n")
    >>> read_run(path)
    {'q1': {'rice': 0.9}}
    """
    run: dict[str, dict[str, float]] = {}
    for place, cells in _rows(path):
        if len(cells) != 6 or not cells[0] or not cells[2]:
            raise EvaluationError(f"{place}: expected query id, Q0, document id, rank, score and name of the run")
        score = _number(float, cells[4], f"{place}: the score of {cells[2]!r} for {cells[0]!r}")
        hits = run.setdefault(cells[0], {})
        if cells[2] in hits or not math.isfinite(score):
            problem = f"has the score {score}" if cells[2] not in hits else f"occurs twice for query {cells[0]!r}"
            raise EvaluationError(f"{place}: document {cells[2]!r} {problem}")
        hits[cells[2]] = score
    if not run:
        raise EvaluationError(f"{path}: there is no hit in it")
    return run


def write_run(path: str | Path, run: Run, name: str = "graphdoc") -> Path:
    r"""Write rankings in TREC's six columns with tabs between, in order (see :func:`ranked`) and atomically.

    Scores are written in full. Where scores are equal, ``trec_eval`` takes ids in falling order, and the order here is
    another one. A query without hits is not in the file, and counts as one that found nothing.

    Args:
        path: the file.
        run: scores by query id and document id.
        name: name of the run, without white space.

    Raises:
        EvaluationError: an id is empty or holds a tab or line end, the name white space, or a score is not finite.
        OutputError: the file cannot be written.

    >>> import tempfile
    >>> path = write_run(Path(tempfile.mkdtemp()) / "run.txt", {"q1": {"salt": 0.2, "rice": 0.9}})
    >>> path.read_text().splitlines()
    ['q1\tQ0\trice\t1\t0.9\tgraphdoc', 'q1\tQ0\tsalt\t2\t0.2\tgraphdoc']
    """
    if name.split() != [name]:
        raise EvaluationError(f"the name of a run is {name!r}; give one without white space")
    return _write(
        path,
        (
            (query, "Q0", id, str(rank), repr(float(scores[id])), name)
            for query, scores in run.items()
            for rank, id in enumerate(ranked(scores), start=1)
        ),
    )


def require_ids(ids: Iterable[str]) -> None:
    """Refuse ids that cannot stand in a file of TREC, before anything is written.

    Raises:
        EvaluationError: an id is empty or holds a tab or line end.
    """
    for id in ids:
        if not id.strip() or any(sign in id for sign in "\t\n\r"):
            raise EvaluationError(f"the id {id!r} cannot stand in a file of TREC; give ids without tabs and line ends")


def _rows(path: str | Path) -> Iterator[tuple[str, list[str]]]:
    """Places and cells of lines; ids are cleaned as those of documents are."""
    separator: str | None = None
    try:
        for number, (line, text) in enumerate(numbered_lines(path)):
            if not number:
                separator = "\t" if "\t" in text else None
            yield f"{path}:{line}", [clean_text(cell).strip() for cell in text.split(separator)]
    except DocumentError as error:
        raise EvaluationError(str(error)) from error.__cause__


def _number(kind: Callable[[str], _Value], cell: str, place: str) -> _Value:
    try:
        return kind(cell)
    except ValueError as error:
        what = "a whole number" if kind is int else "a number"
        raise EvaluationError(f"{place} is {one_line(repr(cell), 40)}, not {what}") from error


def _write(path: str | Path, rows: Iterable[tuple[str, ...]]) -> Path:
    def write(temporary: Path) -> None:
        with temporary.open("w", encoding="utf-8", errors="replace", newline="") as file:
            for row in rows:
                require_ids((row[0], row[2]))
                file.write("\t".join(row) + "\n")

    return write_atomically(path, write)
