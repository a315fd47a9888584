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

from graphdoc.errors import EvaluationError, OutputError
from graphdoc.evaluation import read_relevant
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


@pytest.mark.parametrize(
    ("read", "name", "content", "value"),
    [
        (read_qrels, "qrels.tsv", "q1\t0\ttide\t1\nq1\ttide\t1\n", "qrels.tsv:2"),
        (read_qrels, "qrels.tsv", "q1\t0\ttide\t1.5\n", "qrels.tsv:1: .*'tide'.*1.5"),
        (read_qrels, "qrels.tsv", "q1\t0\ttide\t1\nq1\t0\ttide\t1\nq1\t0\ttide\t0\n", "qrels.tsv:3: .*'tide'"),
        (read_qrels, "qrels.tsv", "query-id\tcorpus-id\tscore\n", "qrels.tsv"),
        (read_run, "a.run", "q1\tQ0\ttide\t1\t2.5\n", "a.run:1"),
        (read_run, "a.run", "q1\tQ0\ttide\t1\t2\tx\n\nq1\tQ0\ttide\t2\t1\tx\n", "a.run:3"),
        (read_run, "a.run", "", "a.run"),
        (read_relevant, "links.tsv", "a\tb\na\t\n", "links.tsv:2"),
        (read_relevant, "lists.json", '{"a": {"b": 0}}', "lists.json"),
        (read_relevant, "lists.json", '{"a": {"b": NaN}}', "lists.json: 'a'.*'b'.*nan"),
        (read_relevant, "lists.json", "[" * 100_000, "lists.json"),
        (read_relevant, "lists.json", '{"a": 3}', "lists.json"),
    ],
)
def test_bad_input(tmp_path: Path, read: Callable[[Path], object], name: str, content: str, value: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(EvaluationError, match=value):
        read(tmp_path / name)


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


def test_own_documents() -> None:
    qrels = {"q:tide": {"tide": 2, "wave": 1, "ebb": 2}, "gate": {"gate": 1}}
    assert own_documents(qrels, grade=2) == {"q:tide": {"tide", "ebb"}}
    by_id = own_documents(qrels)
    assert by_id == {"q:tide": {"q:tide"}, "gate": {"gate"}}
    run = {"gate": {"gate": 3.0, "tide": 1.0}, "other": {"other": 1.0}}
    assert leave_out(run, by_id) == {"gate": {"tide": 1.0}, "other": {"other": 1.0}}
    assert leave_out(qrels, by_id)["gate"] == {}


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
    (tmp_path / "grades.json").write_text(json.dumps({"a": {"b": 0, "c": 2, "d": -1, "e": 1.0}}))
    assert read_relevant(tmp_path / "grades.json") == {"a": {"b": 0, "c": 2, "d": -1, "e": 1}}
