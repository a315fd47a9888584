from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from graphdoc.errors import EvaluationError, SettingsError
from graphdoc.evaluation.judgements import Judgements, find_rows, read_judgements, read_queries

DATA = Path(__file__).parents[3] / "shared" / "data"
QUERIES = [
    {"_id": "q1", "text": "high tide", "split": "test"},
    {"_id": "q2", "text": "low tide", "split": "train"},
    {"_id": "q3", "text": "waves", "split": "test"},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "queries.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in QUERIES), encoding="utf-8")
    return tmp_path


def qrels_file(path: Path, *lines: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in ("query-id\tcorpus-id\tscore", *lines)), encoding="utf-8")
    return path


def test_one_file_of_judgements(folder: Path) -> None:
    (folder / "qrels.tsv").write_text(
        "q1\t0\ttide\t2\nq1\t0\tebb\t1\nq1\t0\twave\t0\nq2\t0\ttide\t1\n", encoding="utf-8"
    )
    found = read_judgements(folder)
    assert found.queries == {"q1": "high tide", "q2": "low tide"}
    assert found.qrels == {"q1": {"tide": 2, "ebb": 1, "wave": 0}, "q2": {"tide": 1}}
    assert found.positives("q1") == ["tide", "ebb"]
    assert found.left_out == {"queries without a positive": 1}
    test = read_judgements(folder, split="test")
    # Judgements of queries that were not chosen are neither used nor unknown.
    assert (dict(test.queries), test.left_out) == ({"q1": "high tide"}, {"queries without a positive": 1})
    assert read_judgements(folder, only=["split=test"]) == test
    assert len(test) == 1


def test_a_file_of_judgements_per_split(folder: Path) -> None:
    qrels_file(folder / "qrels" / "test.tsv", "q1\ttide\t1", "q3\ttide\t0")
    qrels_file(folder / "qrels" / "train.tsv", "q2\ttide\t1", "q1\tebb\t1")
    test = read_judgements(folder, split="test")
    # Queries of other splits are no queries without a positive.
    assert (test.qrels, test.left_out) == ({"q1": {"tide": 1}}, {"queries without a positive": 1})
    everything = read_judgements(folder)
    assert everything.qrels == {"q1": {"tide": 1, "ebb": 1}, "q2": {"tide": 1}}
    with pytest.raises(EvaluationError, match=r"qrels.*'dev'.*test, train"):
        read_judgements(folder, split="dev")


def test_unknown_queries(folder: Path) -> None:
    qrels_file(folder / "qrels.tsv", "q1\ttide\t1", "q8\ttide\t1", "q9\ttide\t1")
    found = read_judgements(folder)
    assert found.left_out == {"queries without a positive": 2, "judged queries that are unknown": 2}
    qrels_file(folder / "qrels.tsv", "q8\ttide\t1", "q9\ttide\t1")
    with pytest.raises(EvaluationError) as raised:
        read_judgements(folder)
    assert str(raised.value).startswith(f"{folder}: ") and "'q8', 'q9'" in str(raised.value)


def test_unknown_documents() -> None:
    found = Judgements.of(
        {"q1": "high tide", "q2": "waves", "q3": " "},
        {"q1": {"tide": 1, "ebb": 1}, "q2": {"wave": 1}, "q3": {"ebb": 1}},
    )
    assert found.left_out == {"queries without text": 1}
    assert found.without({"q1": ["tide", "ebb"]}).queries == {"q2": "waves"}
    assert found.among(["tide", "ebb", "wave"]) is found
    known = found.among({"tide", "other"})
    assert (known.queries, known.qrels) == ({"q1": "high tide"}, {"q1": {"tide": 1}})
    assert known.left_out == {
        "queries without a positive": 1,
        "queries without text": 1,
        "judged documents that are unknown": 2,
    }
    with pytest.raises(EvaluationError, match=r"3 judged documents.*'tide', 'ebb', 'wave'"):
        found.among(["other"])


def test_pairs_of_query_and_document(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("query\tdocument_id\nhigh tide\ttide\n\nwaves\twave\nhigh tide \tebb\nhigh tide\ttide\n", "utf-8")
    found = read_judgements(path)
    assert found.queries == {"q1": "high tide", "q2": "waves"}
    assert found.qrels == {"q1": {"tide": 1, "ebb": 1}, "q2": {"wave": 1}}
    settings: dict[str, Any]
    for content, value in (("high tide\ttide\nwaves\n", "pairs.tsv:2"), ("", "pairs.tsv")):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(EvaluationError, match=value):
            read_judgements(path)
    for settings in ({"split": "test"}, {"only": ["kind=specific"]}, {"text_column": "title"}):
        with pytest.raises(SettingsError, match=str(path)):
            read_judgements(path, **settings)


ROWS: list[dict[str, Any]] = [
    {"_id": "q1", "text": "high tide", "kind": "specific", "split": "test", "tags": ["sea", "moon"], "open": True},
    {"_id": "q2", "text": "Everything", "kind": "general", "split": "test", "tags": ["sea"], "open": False},
    {"_id": 3, "text": " low tide\n", "kind": "specific", "split": "train", "tags": [], "title": "ebb"},
    {"_id": "q4", "text": "", "kind": "none", "split": "dev", "title": None},
]


def written(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def test_queries_by_their_fields(tmp_path: Path) -> None:
    path = written(tmp_path / "queries.jsonl", ROWS)
    everything, known = read_queries(path)
    assert everything == {"q1": "high tide", "q2": "Everything", "3": "low tide", "q4": ""}
    assert known == {"q1", "q2", "3", "q4"}
    for only, ids in (
        (["kind=specific"], {"q1", "3"}),
        (["kind=specific", "split = test"], {"q1"}),
        (["split=test", "split=dev"], {"q1", "q2", "q4"}),
        (["tags=sea"], {"q1", "q2"}),
        (["open=true"], {"q1"}),
    ):
        texts, known = read_queries(path, only)
        assert (texts.keys(), len(known)) == (ids, 4)
    assert read_queries(path, ["split=train", "split=dev"], "title")[0] == {"3": "ebb", "q4": ""}


@pytest.mark.parametrize(
    ("row", "value"),
    [
        ({"text": "ebb"}, "_id"),
        ({"_id": "q2", "text": "ebb", "kind": "specific"}, "'q2'"),
        ({"_id": "q9", "question": "ebb", "kind": "specific"}, "'text'"),
        (["q9", "ebb"], "list"),
    ],
)
def test_bad_queries(tmp_path: Path, row: Any, value: str) -> None:
    path = written(tmp_path / "queries.jsonl", [*ROWS, row])
    with pytest.raises(EvaluationError, match=f"queries.jsonl:5: .*{value}"):
        read_queries(path, ["kind=specific"])


def test_bad_folders_and_conditions(folder: Path) -> None:
    with pytest.raises(EvaluationError, match="qrels"):
        read_judgements(folder)
    qrels_file(folder / "qrels.tsv", "q1\ttide\t0")
    with pytest.raises(EvaluationError, match="0 of 3 queries"):
        read_judgements(folder)
    for only in (["knd=specific"], ["split=tst"], ["split=test", "text=x"]):
        with pytest.raises(EvaluationError, match=only[-1]):
            read_queries(folder / "queries.jsonl", only)
    for wrong in ("kind", "=test", "kind="):
        with pytest.raises(SettingsError, match=wrong):
            read_queries(folder / "queries.jsonl", [wrong])
    assert find_rows(folder, "corpus") is None
    (folder / "queries.jsonl").unlink()
    with pytest.raises(EvaluationError, match="queries"):
        read_judgements(folder)
    with pytest.raises(EvaluationError, match="none"):
        read_judgements(folder / "none")
