from __future__ import annotations

import gzip
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoc.errors import EvaluationError, OutputError
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
