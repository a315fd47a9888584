"""Which documents of a corpus are relevant to which others: links, judgements, or lists."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..documents.document import Document
from ..documents.parsing.formats import split_suffix
from ..documents.section import clean_text
from ..errors import EvaluationError
from ..runtime.text import described, one_line
from .trec import MOST_GRADE, read_links, read_qrels

_LISTS = 'an object of lists is expected, such as {"a.md": ["b.md", "c.md"]}'


def read_relevant(path: str | Path, *, mutual: bool = False) -> dict[str, dict[str, int]]:
    r"""Read which documents are relevant to which.

    A file of two columns holds links, from the first document to the second. One of three or four columns holds
    judgements (see :func:`~graphdoc.evaluation.trec.read_qrels`), with a document's id in place of a query's. A JSON
    file holds an object of lists of ids by id; an object of grades by id can take the place of a list. As in
    judgements a document of grade 0 or less is not relevant, and a pair may occur again, but not with another grade.

    Args:
        path: the file.
        mutual: whether only pairs count that are relevant both ways.

    Returns:
        Grades by id and id, as judgements have them.

    Raises:
        EvaluationError: the file cannot be read, has no pairs, or something in it is not of this form.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "links.tsv"
    >>> _ = path.write_text("rice\tsalt\nsalt\trice\nrice\ttides\n")
    >>> read_relevant(path), read_relevant(path, mutual=True)
    ({'rice': {'salt': 1, 'tides': 1}, 'salt': {'rice': 1}}, {'rice': {'salt': 1}, 'salt': {'rice': 1}})
    """
    is_json = split_suffix(Path(path))[1] == "json"
    found = _read_lists(Path(path)) if is_json else read_links(path) or read_qrels(path)
    return _mutual(found, str(path)) if mutual else found


def relevant_by_field(documents: Iterable[Document], field: str, *, mutual: bool = False) -> dict[str, dict[str, int]]:
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
    found: dict[str, dict[str, int]] = {}
    others: dict[str, None] = {}
    for document in documents:
        value = document.metadata.get(field)
        others.update(dict.fromkeys(document.metadata))
        if value is None:
            continue
        place = f"document {document.id!r}: its field {field!r}"
        ids = [value] if isinstance(value, str) else value
        found[document.id] = _grades(ids, place)
    if not any(found.values()):
        known = f"they have {', '.join(map(repr, list(others)[:20]))}" if others else "they have no fields"
        raise EvaluationError(f"no document names others in a field {field!r}; {known}")
    return _mutual(found, f"the field {field!r}") if mutual else found


def _read_lists(path: Path) -> dict[str, dict[str, int]]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_Object)
    except OSError as error:
        raise EvaluationError(f"{path}: cannot be read ({error.strerror}); give another file") from error
    except (ValueError, RecursionError) as error:
        raise EvaluationError(f"{path}: is no JSON ({one_line(str(error), 120)}); {_LISTS}") from error
    if not isinstance(content, _Object) or not content:
        raise EvaluationError(f"{path}: {described(content)} is in it; {_LISTS}")
    found: dict[str, dict[str, int]] = {}
    for id, ids in content.pairs:
        name = clean_text(id).strip()
        if not name:
            raise EvaluationError(f"{path}: an id is empty; {_LISTS}")
        place = f"{path}: {one_line(repr(id), 60)}"
        _add(found.setdefault(name, {}), _pairs(ids, place), place)
    if not any(grade > 0 for grades in found.values() for grade in grades.values()):
        raise EvaluationError(f"{path}: no document is relevant to another; {_LISTS}")
    return found


class _Object(dict[str, Any]):
    """A JSON object that keeps the values of names that occur again."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


def _grades(ids: Any, place: str) -> dict[str, int]:
    found: dict[str, int] = {}
    _add(found, _pairs(ids, place), place)
    return found


def _pairs(ids: Any, place: str) -> Iterator[tuple[str, int]]:
    """Ids with their grades, 1 where there are none."""
    if isinstance(ids, Mapping):
        given = list(getattr(ids, "pairs", ids.items()))
    elif isinstance(ids, Sequence) and not isinstance(ids, str | bytes):
        given = [(id, 1) for id in ids]
    else:
        raise EvaluationError(f"{place} holds {described(ids)}; give a list of ids")
    for id, grade in given:
        if not isinstance(id, str) or not id.strip():
            raise EvaluationError(f"{place} holds {described(id)} as an id; give strings that are not empty")
        # Data frames make decimal numbers of whole ones.
        if isinstance(grade, float) and grade.is_integer():
            grade = int(grade)
        if not isinstance(grade, int) or abs(grade) > MOST_GRADE:
            raise EvaluationError(
                f"{place}: the grade of {one_line(repr(id), 60)} is {described(grade)}; give a whole number of "
                f"{MOST_GRADE:,} at most, such as 0 and 1"
            )
        yield clean_text(id).strip(), int(grade)


def _add(found: dict[str, int], pairs: Iterable[tuple[str, int]], place: str) -> None:
    for id, grade in pairs:
        if found.setdefault(id, grade) != grade:
            raise EvaluationError(
                f"{place}: {one_line(repr(id), 60)} has the grades {found[id]} and {grade}; keep one of the two"
            )


def _mutual(found: Mapping[str, Mapping[str, int]], place: str) -> dict[str, dict[str, int]]:
    both = {
        source: {id: grade for id, grade in grades.items() if grade > 0 and found.get(id, {}).get(source, 0) > 0}
        for source, grades in found.items()
    }
    if not any(both.values()):
        raise EvaluationError(f"{place}: no two documents are relevant to each other; leave --mutual out")
    return both
