"""The published data sets of SST as documents, pairs and judgements that graphdoc reads."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from graphdoc import read_documents
from graphdoc.documents.readers.pair_files import read_pair_file
from graphdoc.evaluation.trec import read_qrels

ROOT = Path(__file__).parent.parent
HEADER = "label|doc_id1|doc_id2|title1|title2|content1|content2|keywords1|keywords2|time1|time2"
Convert = Callable[..., int]


@pytest.fixture
def convert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Convert:
    """Runs the script; gives its exit status."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.chdir(tmp_path)
    script = importlib.import_module("matching_data")

    def run(*arguments: str) -> int:
        try:
            script.main([*arguments, "--output", "out"])
        except SystemExit as error:
            return int(error.code or 0)
        return 0

    return run


def news(rows: list[str]) -> None:
    Path("pairs.txt").write_text("\ufeff" + "\r\n".join([HEADER, *rows]) + "\r\n", encoding="utf-8")


def row(label: int, a: str, b: str) -> str:
    return f"{label}|{a}|{b}|三星 发布 {a}|标题|三星 Galaxy S8 的 屏幕 {a}|内容 {b} 。|k|k|1|2"


def test_pairs_of_news(convert: Convert, capsys: pytest.CaptureFixture[str]) -> None:
    news([row(number % 2, f"n{number}", f"m{number % 3}") for number in range(11)])
    assert convert("cnse", "pairs.txt") == 0
    documents = {document.id: document for document in read_documents("out/documents.jsonl")}
    assert len(documents) == 14
    assert documents["n4"].text == "三星Galaxy S8的屏幕n4"
    assert documents["n4"].title == "三星发布n4"
    parts = [list(read_pair_file(f"out/{name}.tsv")) for name in ("train", "dev", "test")]
    # 60, 20 and 20 % of the lines, rounded up.
    assert [len(part) for part in parts] == [7, 2, 2]
    assert [pair.a for part in parts for pair in part] == [f"n{number}" for number in range(11)]
    assert parts[0][1] == ("n1", "m1", 1)
    assert "14 documents and 11 pairs" in capsys.readouterr().out


@pytest.mark.parametrize("bad", [row(1, "a", "b") + "|more", row(2, "a", "b"), "1|a|b|t|t| |text|k|k|1|2"])
def test_bad_lines_are_counted(convert: Convert, capsys: pytest.CaptureFixture[str], bad: str) -> None:
    news([row(1, "c", "d"), bad, row(0, "c", "e")])
    assert convert("cnse", "pairs.txt") == 0
    out = capsys.readouterr().out
    assert "2 pairs" in out and "skipped 1" in out and "pairs.txt:3" in out


def test_legal_cases_with_grades(convert: Convert, capsys: pytest.CaptureFixture[str]) -> None:
    Path("cases/1").mkdir(parents=True)
    cases = [
        {"pid": 7, "qw": "all", "fact": "事实", "reason": "理由", "charge": ["盗窃"], "article": [264]},
        {"pid": 9},
    ]
    for case in cases:
        Path(f"cases/1/{case['pid']}.json").write_text(json.dumps(case), encoding="utf-8")
    Path("queries.json").write_text('{"id": 7, "query": "查询", "fact": "f"}\n', encoding="utf-8")
    Path("grades.trec").write_text("7 0 7 3\n7 0 9 0\n", encoding="utf-8")
    arguments = ("lecardv2", "--queries", "queries.json", "--cases", "cases", "--qrels", "grades.trec")
    assert convert(*arguments) == 0
    assert "skipped 1" in (out := capsys.readouterr().out) and "9.json" in out
    (case,) = read_documents("out/corpus.jsonl")
    assert (case.id, [section.heading for section in case.sections]) == ("7", ["fact", "reason", "charge", "article"])
    # A query and a case may have one number.
    assert [query.id for query in read_documents("out/queries.jsonl")] == ["q-7"]
    assert read_qrels("out/qrels.tsv") == {"q-7": {"7": 3, "9": 0}}


def test_cases_that_cite_each_other(convert: Convert, capsys: pytest.CaptureFixture[str]) -> None:
    Path("cases").mkdir()
    for name in ("001", "002", "003"):
        Path(f"cases/{name}.txt").write_text(f"Case {name}.", encoding="utf-8")
    Path("labels.json").write_text('{"001.txt": ["002.txt", "009.txt"], "003.txt": []}', encoding="utf-8")
    assert convert("coliee", "--cases", "cases", "--labels", "labels.json") == 0
    assert "1 citations of cases that are not there" in capsys.readouterr().out
    assert read_qrels("out/qrels.tsv") == {"001": {"002": 1}}
    assert [document.id for document in read_documents("out/corpus.jsonl")] == ["001", "002", "003"]
