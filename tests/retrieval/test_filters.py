"""Filters: what each finds, what is refused before the store sees it, and the names that people gave their fields."""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typed import Folders

from graphdoc import Document, DocumentEncoder, DocumentIndex, Section
from graphdoc.errors import GraphdocError, SettingsError
from graphdoc.retrieval.filters import MOST_CHARACTERS
from graphdoc.retrieval.search import condition_of
from graphdoc.retrieval.table import filter_columns

# By id: named like columns of the table, like words of the language, and like nothing that SQL takes.
FIELDS: dict[str, dict[str, object]] = {
    "a": {"number": 1066, "level": "low", "year of issue": 1990, "Größe": 1.5, "tags": ["rice", "tea"], "new": True,
          "cell": "2024"},
    "b": {"number": 7, "level": "high", "year of issue": 2005, "Größe": -2, "tags": ["sea"], "and": "x",
          "text": "it's", "cell": " 1999.5"},
    "c": {"number": -3, "level": "100%", "Year of issue": 1, 'q"uo`te.': "y", "": "e", "new": False, "id": "own",
          "cell": "NaN"},
}  # fmt: skip


@pytest.fixture(scope="module")
def index(tmp_path_factory: Folders, encoder: DocumentEncoder) -> DocumentIndex:
    """Three documents that share words, each with fields of its own."""
    made = DocumentIndex.create(tmp_path_factory.mktemp("fields") / "index", encoder)
    made.update([Document(id, [Section("Tides rise.")], metadata=fields) for id, fields in FIELDS.items()])
    return made


FOUND = [
    ("number > 1000", "a"), ("7 <= number", "ab"), ("number BETWEEN -5 AND 7.0", "bc"),
    ("number NOT BETWEEN -5 AND 7", "a"), ("number NOT IN (7)", "ac"), ("number != 7 and NOT number <> 1066", "a"),
    ("number = 7 OR number = -3 AND level = 'low'", "b"), ("(number = 7 OR number = -3) AND level = 'high'", "b"),
    ("level NOT LIKE 'l%'", "bc"), ("level ILIKE 'L_W'", "a"), ("level > 'high'", "a"), ("`Year of issue` = 1", "c"),
    ("Größe < 1e300", "ab"), ("number > Größe", "ab"), ("'sea' = tags", "b"), ("tags != 'rice'", "b"),
    ("NOT tags IN ('tea')", "b"), ("tags IS NULL", "c"), ("\"and\" = 'x'", "b"), ('"q""uo`te." IS NOT NULL', "c"),
    ("\"\" = 'e'", "c"), ("NOT new", "c"), ("new != true", "c"), ("text = 'it''s'", "b"), ("id = 'own'", "c"),
    ("title IS NULL OR title = ''", "abc"), ("level LIKE '%;)--%'", ""), ("cell >= 2023", "a"), ("2000 > cell", "b"),
    ("cell IN (2024, 7)", "a"), ("cell BETWEEN 1e3 AND 2e3", "b"), ("cell = '2024'", "a"), ("level = 7", ""),
    ("-3=number", "c"), ("number > -9223372036854775808", "abc"), ("cell > number", "ab"),
    ("number = level", ""), ("number < 6.5", "c"), ("number IN (-3, .5)", "c"),
]  # fmt: skip


def test_what_a_filter_finds(index: DocumentIndex) -> None:
    for where, ids in FOUND:
        for by in ("words", "vectors"):
            found = {hit.id for hit in index.search("tides", where=where, by=by)}
            assert found == set(ids), where


REFUSED = [
    ("repeat(id, 10000000) = 'b'", "repeat"), ("number::int = 1", "::"), ("number = 1/0", "/"),
    ("number = 1 -- all", "--"), ("number = 1; DROP", ";"), ("id IN (SELECT id FROM documents)", "SELECT"),
    ("CASE WHEN new THEN 1 END = 1", "CASE"), ("number", "number"), ("(number = 7", ")"),
    ("number = 7) OR (new", ")"), ("level = 'low", "'low"), ("new AND", "EOF"), ("number IN ()", "IN ( )"),
    ("and = 'x'", "and"), ("level > \ud800", "ud800"), (" ", "' '"), (5, "5 (int)"),
    ("number = 1e20", "1e20"), (f"number = {'9' * 5000}", "999"), ("Größe = 1e999", "1e999"),
    ("number LIKE 'x'", "'x'"), ("level IN ('low', 7)", "7"), ("tags > 'a'", "field_tags"), ("number-7 = 0", "-7"),
    ("tags = level", "level"), ("level = low", "'low'"), ('level = "low"', "'low'"),
    ("document_vector = 1", "document_vector"), ("NUMBER > 3", "NUMBER"),
    ("x" * (MOST_CHARACTERS + 1), f"{MOST_CHARACTERS:,}"),
    *(("nummer > 3", name) for name in ("nummer", '"year of issue"', "Größe", '"and"', "title")),
]  # fmt: skip


def test_what_is_no_filter(index: DocumentIndex) -> None:
    for where, named in REFUSED:
        with pytest.raises(SettingsError) as error:
            index.search("tides", where=where)
        assert named in str(error.value) and "\n" not in str(error.value) and len(str(error.value)) < 1_000


def test_whatever_is_given_is_answered_or_refused(index: DocumentIndex) -> None:
    draw = random.Random(0)
    names = ['"' + name.replace('"', '""') + '"' for name in filter_columns(index._store.schema)]
    values = ["1", "-2", ".5", "3.", "1e20", "'a'", "'it''s'", "''", "'%_\\'", "'\\'", "true", "NULL"]
    forms = ["{n} = {v}", "{v} <= {n}", "{n} != {v}", "{n} NOT IN ({v}, {w})", "{n} LIKE {v}", "{n} IS NULL", "{n}",
             "{n} NOT BETWEEN {v} AND {w}", "{n} < {m}"]  # fmt: skip

    def condition(depth: int) -> str:
        n, m, v, w = draw.choice(names), draw.choice(names), draw.choice(values), draw.choice(values)
        single = draw.choice(forms).format(n=n, m=m, v=v, w=w)
        if depth == 0:
            return single
        a, b = condition(depth - 1), condition(depth - 1)
        return draw.choice([single, f"({a})", f"NOT {a}", f"{a} AND {b}", f"{a} OR {b}", a[draw.randrange(len(a)) :]])

    answered = 0
    for _ in range(400):
        try:
            index._store.select(["id"], condition_of(index._store, condition(2) + " ", None))
        except GraphdocError:
            continue
        answered += 1
    assert answered > 40


def test_fields_keep_the_names_that_people_gave(index: DocumentIndex) -> None:
    names = {name for fields in FIELDS.values() for name in fields}
    assert set(index.fields) == names and names < set(index.columns)
    assert index.fields["number"] == "whole numbers" and index.fields["tags"] == "lists of texts"
    for hit in index.search("tides", top_k=3):
        assert {name: value for name, value in hit.metadata.items() if name != "label"} == FIELDS[hit.id]
        assert dict(index.document(hit.id).metadata) == {
            name: tuple(value) if isinstance(value, list) else value for name, value in FIELDS[hit.id].items()
        }


def test_a_filter_cannot_bring_back_the_document_that_is_asked_with(index: DocumentIndex) -> None:
    ids = ", ".join(f"'document number {number}'" for number in range(3_000))
    for where in ("number = 1 OR number < 9999", "new OR NOT new OR number = 7", f"title NOT IN ({ids})"):
        assert {hit.id for hit in index.search(index.document("a"), where=where)} <= {"b", "c"}
    with pytest.raises(GraphdocError):
        index.search(index.document("a"), where="number = 1) OR (number < 9999")


# Some have no value, some one that no filter finds, and some one that looks like a part of the language.
CITIES = ["Köln", "Kö%ln", "it's", 'say "so"', "NULL", "", "東京", "Ålesund", "and"]
MANY = {
    f"d{number:02d}": {
        "year": None if number % 7 == 0 else 1980 + number,
        "score": math.nan if number % 5 == 0 else number / 4 - 2,
        "day": f"20{number % 30:02d}-0{number % 9 + 1}-1{number % 10}",
        "my city": CITIES[number % len(CITIES)],
    }
    for number in range(40)
}
VALUES: dict[str, list[Any]] = {
    "year": [1985, 2003], "score": [-1.5, 3.25], "day": ["2004-05-14", "2020-01-01"], "my city": ["it's", "東京"]
}  # fmt: skip
COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge
}  # fmt: skip


def as_sql(value: Any) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


def test_filters_find_what_a_loop_finds(tmp_path: Path, encoder: DocumentEncoder) -> None:
    index = DocumentIndex.create(tmp_path / "index", encoder)
    index.update([Document(id, [Section("Tides rise.")], metadata=fields) for id, fields in MANY.items()])
    expected: dict[str, Callable[[Any], bool]] = {}
    for field, (low, high) in VALUES.items():
        name = f'"{field}"'
        for sign, holds in COMPARED.items():
            expected[f"{name} {sign} {as_sql(low)}"] = lambda value, holds=holds, low=low: holds(value, low)
        between, chosen = f"{as_sql(low)} AND {as_sql(high)}", f"({as_sql(low)}, {as_sql(high)})"
        expected |= {
            f"{name} BETWEEN {between}": lambda value, low=low, high=high: low <= value <= high,
            f"{name} NOT BETWEEN {between}": lambda value, low=low, high=high: not low <= value <= high,
            f"{name} IN {chosen}": lambda value, low=low, high=high: value in (low, high),
            f"NOT {name} IN {chosen}": lambda value, low=low, high=high: value not in (low, high),
            f"{name} > {as_sql(low)} AND {name} < {as_sql(high)}": lambda value, low=low, high=high: low < value < high,
            f"{name} = {as_sql(low)} OR {name} = {as_sql(high)}": lambda value, low=low, high=high: (
                value in (low, high)
            ),
            f"NOT ({name} = {as_sql(low)})": lambda value, low=low: value != low,
            f"{name} IS NOT NULL": lambda value: True,
        }
    missing = dict.fromkeys(f'"{field}" IS NULL' for field in VALUES)
    assert len(expected) + len(missing) == 60
    for where in [*expected, *missing]:
        field = where.split('"')[1]
        ids = set()
        for id, fields in MANY.items():
            value = fields[field]
            is_there = value is not None and value == value
            if is_there and where in expected:
                ids |= {id} if expected[where](value) else set()
            elif not is_there and where in missing:
                ids.add(id)
        assert {hit.id for hit in index.search("tides", 100, where=where, by="words")} == ids, where
