"""The published articles of SDR as a corpus."""

from __future__ import annotations

import csv
import importlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from graphdoc import read_documents

ROOT = Path(__file__).parent.parent
Convert = Callable[[list[list[str]]], int]


@pytest.fixture
def convert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Convert:
    """Runs the script on some rows; gives its exit status."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.chdir(tmp_path)
    script = importlib.import_module("sdr_articles")
    (tmp_path / "games.json").write_text(json.dumps({"Tides": {"Koji": 1, "Oak": 1}, "Reeds": {"Koji": 1}}))

    def run(rows: list[list[str]]) -> int:
        with (tmp_path / "games.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["", "Title", "Sections"], *rows])
        try:
            script.main(["games.csv", "--output", "games.jsonl", "--relevant", "games.json"])
        except SystemExit as error:
            return int(error.code or 0)
        return 0

    return run


def test_articles_become_documents(convert: Convert, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sections = [("Abstract", "The moon pulls\nthe sea, 'twice' a day."), ("", "It is salt.")]
    assert convert([["0", "Tides", repr(sections)], ["1", "Koji", repr([["Rice", "x" * 200_000]])]]) == 0
    out = capsys.readouterr().out
    assert "1 of 2 sources and 1 of 3 pairs" in out and "missing: Oak, Reeds" in out
    first, second = read_documents(tmp_path / "games.jsonl")
    assert first.id == first.title == "Tides"
    assert [(one.heading, one.text) for one in first.sections] == sections
    assert len(second.text) == 200_000


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (["0", "Tides", "__import__('os').system('touch ran')"], "games.csv:2"),
        (["0", "Tides", "[(1, 2)]"], "games.csv:2"),
        (["0", "Tides", "{}"], "games.csv:2"),
        (["0", " ", "[]"], "games.csv:2"),
    ],
)
def test_nothing_is_executed_and_mistakes_name_the_line(
    convert: Convert, tmp_path: Path, capsys: pytest.CaptureFixture[str], row: list[str], says: str
) -> None:
    assert convert([row]) == 2
    err = capsys.readouterr().err
    assert says in err and len(err.splitlines()) == 1
    assert not (tmp_path / "ran").exists() and not (tmp_path / "games.jsonl").exists()
