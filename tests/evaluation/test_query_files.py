from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from graphdoc.errors import EvaluationError, SettingsError
from graphdoc.evaluation.judgements import read_queries

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


def test_other_files_of_rows(tmp_path: Path) -> None:
    frame = pd.DataFrame(ROWS[:2])[["_id", "text", "split"]]
    frame.to_parquet(tmp_path / "queries.parquet")
    frame.to_csv(tmp_path / "queries.csv", index=False)
    frame.rename(columns={"_id": "id"}).to_csv(tmp_path / "queries.tsv", index=False, sep="\t")
    for name in ("queries.parquet", "queries.csv", "queries.tsv"):
        assert read_queries(tmp_path / name, ["split=test"])[0] == {"q1": "high tide", "q2": "Everything"}


@pytest.mark.parametrize(
    ("row", "values"),
    [
        ({"text": "ebb"}, ["_id"]),
        ({"_id": "", "text": "ebb"}, ["_id"]),
        ({"_id": ["q9"], "text": "ebb"}, ["q9"]),
        ({"_id": "q2", "text": "ebb"}, ["'q2'", "queries.jsonl:2"]),
        ({"_id": "q9", "question": "ebb"}, ["'text'", "question"]),
        ({"_id": "q9", "text": 9}, ["'text'"]),
        (["q9", "ebb"], ["list"]),
    ],
)
def test_malformed_queries(tmp_path: Path, row: Any, values: list[str]) -> None:
    path = written(tmp_path / "queries.jsonl", [*ROWS, row])
    with pytest.raises(EvaluationError) as raised:
        read_queries(path)
    assert str(raised.value).startswith(f"{path}:5: ")
    assert all(value in str(raised.value) for value in values)


def test_ids_of_queries_that_were_not_chosen_are_taken_as_well(tmp_path: Path) -> None:
    path = written(tmp_path / "queries.jsonl", [*ROWS, {"_id": "q2", "text": "ebb", "kind": "specific"}])
    with pytest.raises(EvaluationError, match="'q2'"):
        read_queries(path, ["kind=specific"])


@pytest.mark.parametrize("content", [b'{"_id": "q1", "text": "ebb"\n', b"\xff\n", b""])
def test_broken_files(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "queries.jsonl").write_bytes(content)
    with pytest.raises(EvaluationError, match=r"queries\.jsonl"):
        read_queries(tmp_path / "queries.jsonl")


def test_conditions_that_nothing_meets(tmp_path: Path) -> None:
    path = written(tmp_path / "queries.jsonl", ROWS)
    for only, values in (
        (["knd=specific"], ["knd"]),
        (["kind=specfic"], ["kind=specfic", "specific", "general"]),
        (["kind=general", "split=train"], ["kind=general", "split=train"]),
    ):
        with pytest.raises(EvaluationError) as raised:
            read_queries(path, only)
        assert str(raised.value).startswith(f"{path}: ") and all(value in str(raised.value) for value in values)
    for wrong in (["kind"], ["=test"], ["kind="]):
        with pytest.raises(SettingsError, match=r"kind|=test"):
            read_queries(path, wrong)
