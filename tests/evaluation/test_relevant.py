"""Which documents are relevant to which: links, judgements, lists and fields."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from graphdoc import Document
from graphdoc.errors import EvaluationError
from graphdoc.evaluation import read_relevant, relevant_by_field

EXPECTED = {"a": {"b": 1, "c": 1}, "b": {"a": 1}}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("links.tsv", "a\tb\na\tc\nb\ta\na\tb\n"),
        ("links.txt", "a b\na c\nb a\n"),
        ("qrels.tsv", "a 0 b 1\na 0 c 1\nb 0 a 1\n"),
        ("lists.json", json.dumps({"a": ["b", "c"], "b": ["a"]})),
        ("objects.json", json.dumps({"a": {"b": 1, "c": 1}, "b": {"a": 1}})),
    ],
)
def test_every_form(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    assert read_relevant(tmp_path / name) == EXPECTED
    assert read_relevant(tmp_path / name, mutual=True) == {"a": {"b": 1}, "b": {"a": 1}}
    if not name.endswith("json"):
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content.encode()))
        assert read_relevant(tmp_path / f"{name}.gz") == EXPECTED


def test_a_field() -> None:
    documents = [
        Document.from_text("One.", id="a", metadata={"references": ["b", "c"]}),
        Document.from_text("Two.", id="b", metadata={"references": "a"}),
        Document.from_text("Three.", id="c", metadata={"references": []}),
        Document.from_text("Four.", id="d"),
    ]
    assert relevant_by_field(documents, "references") == {**EXPECTED, "c": {}}
    assert relevant_by_field(documents, "references", mutual=True)["a"] == {"b": 1}
    with pytest.raises(EvaluationError, match=r"'links'.*'references'"):
        relevant_by_field(documents, "links")
    with pytest.raises(EvaluationError, match=r"'a'.*1990"):
        relevant_by_field([Document.from_text("One.", id="a", metadata={"year": 1990})], "year")


def test_grades_of_objects_count(tmp_path: Path) -> None:
    grades = {"a": {"b": 0, "c": 2, "d": -1, "e": 1.0, "f": True}, "b": {"a": 0}}
    (tmp_path / "grades.json").write_text(json.dumps(grades))
    assert read_relevant(tmp_path / "grades.json") == {"a": {"b": 0, "c": 2, "d": -1, "e": 1, "f": 1}, "b": {"a": 0}}
    document = Document.from_text("One.", id="a", metadata={"see": {"b": 0, "c": 2}})
    assert relevant_by_field([document], "see") == {"a": {"b": 0, "c": 2}}


def test_names_that_occur_again_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lists.json"
    path.write_text('{"a": ["b"], "b": {"a": 1, "c": 1, "a": 1}, "a": ["c"], " a": {"b": 1}}')
    assert read_relevant(path) == {"a": {"b": 1, "c": 1}, "b": {"a": 1, "c": 1}}
    for content in ('{"a": {"b": 1, "b": 0}}', '{"a": {"b": 1}, "a": {"b": 0}}', '{"a": ["b"], "a": {"b": 2}}'):
        path.write_text(content)
        with pytest.raises(EvaluationError, match=r"lists.json: 'a': 'b'"):
            read_relevant(path)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("grades.json", '{"a": {"b": 0}}', "grades.json"),
        ("grades.json", '{"a": {"b": NaN}}', "grades.json: 'a'.*'b'.*nan"),
        ("grades.json", '{"a": {"b": 0.5}}', "grades.json: 'a'.*'b'.*0.5"),
        ("grades.json", '{"a": {"b": "1"}}', "grades.json: 'a'.*'b'.*'1'"),
        ("grades.json", '{"a": {"b": 1e9}}', "grades.json.*'b'.*1000000000"),
        ("qrels.tsv", "a 0 b high\n", "qrels.tsv:1.*'b'.*'a'.*'high'"),
        ("links.tsv", "a\tb\na\t\n", "links.tsv:2"),
        ("links.tsv", "a\tb\na\tb\tc\n", "links.tsv:2"),
        ("links.tsv", "", "links.tsv"),
        ("lists.json", "[1]", "lists.json"),
        ("lists.json", "{", "lists.json"),
        ("lists.json", "[" * 100_000, "lists.json"),
        ("lists.json", json.dumps({"a": "b"}), "lists.json.*'a'"),
        ("lists.json", json.dumps({"a": ["b", 3]}), "lists.json.*'a'"),
        ("lists.json", json.dumps({"a": []}), "lists.json"),
        ("lists.json", json.dumps({" ": ["b"]}), "lists.json"),
    ],
)
def test_mistakes_name_the_place(tmp_path: Path, name: str, content: str, says: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(EvaluationError, match=says):
        read_relevant(tmp_path / name)


def test_nothing_mutual_and_no_file(tmp_path: Path) -> None:
    (tmp_path / "links.tsv").write_text("a\tb\n")
    with pytest.raises(EvaluationError, match=r"links\.tsv"):
        read_relevant(tmp_path / "links.tsv", mutual=True)
    for name in ("none.tsv", "none.json"):
        with pytest.raises(EvaluationError, match=name):
            read_relevant(tmp_path / name)
