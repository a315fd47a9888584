"""Which documents are relevant to which: links, judgements, lists and fields."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoc import Document
from graphdoc.errors import EvaluationError, OutputError
from graphdoc.evaluation import read_relevant, relevant_by_field
from graphdoc.evaluation.trec import (
    leave_out,
    own_documents,
    ranked,
    read_qrels,
    read_run,
    write_qrels,
    write_run,
)

IDS = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=6)
SCORES = st.floats(allow_nan=False, allow_infinity=False)
FORMS = {
    "trec.tsv": "q1\t0\ttide gate\t2\nq1\t0\twave\t0\n\nq2\t0\twave\t1\n",
    "beir.tsv": "query-id\tcorpus-id\tscore\nq1\ttide gate\t2\nq1\twave\t0\nq2\twave\t1\n",
    "three.tsv": "q1\ttide gate\t2\r\nq1\twave\t0\r\nq2\twave\t1\r\n",
}


def test_forms_of_judgements(tmp_path: Path) -> None:
    for name in ("trec.tsv", "beir.tsv", "three.tsv"):
        (tmp_path / name).write_bytes(FORMS[name].encode())
        assert read_qrels(tmp_path / name) == {"q1": {"tide gate": 2, "wave": 0}, "q2": {"wave": 1}}
    (tmp_path / "trec.tsv.gz").write_bytes(gzip.compress(FORMS["trec.tsv"].encode()))
    assert read_qrels(tmp_path / "trec.tsv.gz") == read_qrels(tmp_path / "trec.tsv")
    (tmp_path / "spaces.qrels").write_text("q1 0 tide 2\nq1   0 wave -1\n", encoding="utf-8")
    assert read_qrels(tmp_path / "spaces.qrels") == {"q1": {"tide": 2, "wave": -1}}


@pytest.mark.parametrize(
    ("content", "line", "value"),
    [
        ("q1\t0\ttide\t1\nq1\ttide\t1\n", 2, ""),
        ("q1\t0\ttide\tyes\n", 1, ""),
        ("q1\t0\ttide\t1.5\n", 1, ""),
        ("q1\t0\t\t1\n", 1, ""),
        ("\t0\ttide\t1\n", 1, ""),
        ("q1\ttide\n", 1, ""),
        ("q1\t0\ttide\t1\nq1\t0\twave\t10001\n", 2, "10001"),
        (f"q1\t0\ttide\t-{10**30}\n", 1, "'tide'"),
        ("\n\nquery-id\tcorpus-id\tscore\nq1\t0\ttide\t1\n", 4, ""),
        ("q1\t0\ttide\t1\nq1\t0\ttide\t1\nq1\t0\ttide\t0\n", 3, "'tide'"),
    ],
)
def test_malformed_judgements(tmp_path: Path, content: str, line: int, value: str) -> None:
    path = tmp_path / "qrels.tsv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(EvaluationError) as raised:
        read_qrels(path)
    assert str(raised.value).startswith(f"{path}:{line}: ") and value in str(raised.value)


def test_bad_scores_are_named(tmp_path: Path) -> None:
    for value in ("nan", "inf", "much"):
        (tmp_path / "a.run").write_text(f"q Q0 tide 1 {value} x\n")
        with pytest.raises(EvaluationError, match=f"a.run:1.*'tide'.*{value}"):
            read_run(tmp_path / "a.run")


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("q1\tQ0\ttide\t1\t2.5\n", 1),
        ("q1\tQ0\ttide\t1\tnan\tx\n", 1),
        ("q1\tQ0\ttide\t1\tinf\tx\n", 1),
        ("q1\tQ0\ttide\t1\thigh\tx\n", 1),
        ("q1\tQ0\ttide\t1\t2\tx\nq1\tQ0\t\t2\t1\tx\n", 2),
        ("q1\tQ0\ttide\t1\t2\tx\n\nq1\tQ0\ttide\t2\t1\tx\n", 3),
    ],
)
def test_malformed_runs(tmp_path: Path, content: str, line: int) -> None:
    path = tmp_path / "bm25.run"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(EvaluationError) as raised:
        read_run(path)
    assert str(raised.value).startswith(f"{path}:{line}: ")


@pytest.mark.parametrize("read", [read_qrels, read_run])
def test_files_without_anything(tmp_path: Path, read: Callable[[Path], object]) -> None:
    (tmp_path / "empty.tsv").write_text("\n", encoding="utf-8")
    (tmp_path / "latin.tsv").write_bytes(b"q1 0 \xe9t\xe9 1")
    (tmp_path / "header.tsv").write_text("query-id\tcorpus-id\tscore\n", encoding="utf-8")
    for name in ("empty.tsv", "latin.tsv", "header.tsv", "none.tsv", ""):
        with pytest.raises(EvaluationError, match=rf"^{tmp_path / name}:"):
            read(tmp_path / name)


@given(st.dictionaries(IDS, st.dictionaries(IDS, SCORES, min_size=1, max_size=5), min_size=1, max_size=4))
def test_runs_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, run: dict[str, dict[str, float]]
) -> None:
    path = tmp_path_factory.mktemp("run") / "run.tsv"
    assert read_run(write_run(path, run, "mine")) == run
    lines = [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
    for query, scores in run.items():
        own = [cells for cells in lines if cells[0] == query]
        assert [cells[2] for cells in own] == ranked(scores)
        assert [cells[3] for cells in own] == [str(rank) for rank in range(1, len(scores) + 1)]
        assert {(cells[1], cells[5]) for cells in own} == {("Q0", "mine")}


@given(st.dictionaries(IDS, st.dictionaries(IDS, st.integers(-2, 5), min_size=1, max_size=5), min_size=1, max_size=4))
def test_judgements_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, qrels: dict[str, dict[str, int]]
) -> None:
    assert read_qrels(write_qrels(tmp_path_factory.mktemp("qrels") / "qrels.tsv", qrels)) == qrels


def test_what_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "run.tsv"
    for run, name, value in (
        ({"q1": {"tide\tgate": 1.0}}, "mine", "tide"),
        ({"q\n1": {"tide": 1.0}}, "mine", "q"),
        ({"q1": {" ": 1.0}}, "mine", "' '"),
        ({"q1": {"tide": math.nan}}, "mine", "'tide'"),
        ({"q1": {"tide": 1.0}}, "my run", "'my run'"),
        ({"q1": {"tide": 1.0}}, "", "''"),
    ):
        with pytest.raises(EvaluationError, match=value):
            write_run(path, run, name)
    with pytest.raises(EvaluationError, match="tide"):
        write_qrels(path, {"q1": {"tide\r": 1}})
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(OutputError, match=r"run\.tsv"):
        write_run(tmp_path / "file" / "run.tsv", {"q1": {"tide": 1.0}})


def test_a_run_that_fails_keeps_the_one_before(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run.tsv", {"q1": {"tide": 1.0}})
    with pytest.raises(EvaluationError):
        write_run(path, {"q1": {"wave": 1.0}, "q2": {"tide": math.inf}})
    assert read_run(path) == {"q1": {"tide": 1.0}}


def test_own_documents() -> None:
    qrels = {"q:tide": {"tide": 2, "wave": 1, "ebb": 2}, "wave": {"tide": 1}, "gate": {"gate": 1}}
    assert own_documents(qrels, grade=2) == {"q:tide": {"tide", "ebb"}}
    by_id = own_documents(qrels)
    assert by_id == {"q:tide": {"q:tide"}, "wave": {"wave"}, "gate": {"gate"}}
    run = {"wave": {"wave": 3.0, "tide": 1.0}, "other": {"other": 1.0}}
    assert leave_out(run, by_id) == {"wave": {"tide": 1.0}, "other": {"other": 1.0}}
    assert leave_out(qrels, by_id)["gate"] == {}
    assert run["wave"] == {"wave": 3.0, "tide": 1.0}


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
