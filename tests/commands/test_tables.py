"""Tables and files of commands: what comes from outside has no effect on a terminal, a spreadsheet or Markdown."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from graphdoc.cli import parse
from graphdoc.commands.tables import MOST_ROWS, Column, Table, half_interval, names, signed_interval, whole_interval
from graphdoc.evaluation.resampling import Estimate

Command = Callable[..., Any]
HOSTILE = ["\x1b[31mred\x1b[0m", "[bold]b[/bold]", "=1+1", "+1", "-1", "@x", "\tx", "\rx", "a|b", "<b>*x*</b>"]


def printed(table: Table, noun: str | None = None) -> str:
    target = Console(file=io.StringIO(), width=120, force_terminal=True, color_system=None)
    table.print(target, noun)
    return target.file.getvalue()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("text", HOSTILE)
def test_text_from_outside(text: str) -> None:
    table = Table([names("name"), "count"], [(text, 1)])
    shown = printed(table).splitlines()[1]
    assert "\x1b" not in shown.replace("\x1b[1m", "").replace("\x1b[0m", "") and "\t" not in shown
    assert text.strip() in shown or not text.isprintable()
    (_, (cell, count)) = csv.reader(io.StringIO(table.csv()))
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r")) and cell.removeprefix("'") == text.replace("\r", "\n")
    assert count == "1"
    cell = table.markdown().splitlines()[2]
    assert cell.count("|") - cell.count(r"\|") == 3
    assert "<b>" not in cell and "[bold]" not in cell and "\x1b" not in cell


def test_numbers_as_people_and_programs_read_them() -> None:
    estimate = Estimate(0.5, np.array([0.25, 0.75, 0.25, 0.75]))
    columns = [names("name"), "n", "x", Column("half", half_interval, whole_interval), Column("more", signed_interval)]
    table = Table([*columns, Column("hidden", None)], [("a", 1234, 0.12345, estimate, estimate, 0.5)])
    assert printed(table).splitlines()[1].split() == [
        "a",
        "1,234",
        "0.123",
        "0.500",
        "±",
        "0.250",
        "+0.500",
        "[+0.250,",
        "+0.750]",
    ]
    assert table.markdown().splitlines()[2] == (
        "| a | 1,234 | 0.123 | 0.500 [0.250, 0.750] | +0.500 [+0.250, +0.750] | 0.500 |"
    )
    assert Table(["n", "x"], [(1234, 0.12345), (None, float("nan"))]).csv() == "n,x\n1234,0.12345\n,\n"


def test_long_tables_are_cut_on_the_terminal_and_say_so() -> None:
    table = Table(["n"], [(number,) for number in range(MOST_ROWS + 3)])
    lines = printed(table, "label").splitlines()
    assert len(lines) == MOST_ROWS + 2 and "3 more labels" in lines[-1]
    assert len(table.csv().splitlines()) == MOST_ROWS + 4


def test_what_follows_a_double_dash_is_no_option(graphdoc: Command, model: str, tmp_path: Path) -> None:
    (tmp_path / "-dash.txt").write_text("Rice is steamed and spread.", encoding="utf-8")
    run = graphdoc("encode", "--model", model, "--json", "-", "--", "-dash.txt")
    assert (run.status, json.loads(run.out)["ids"]) == (0, ["-dash"])
    assert parse(["compare", "--top", "3", "--", "-a.md", "--json"]).b == "--json"


def test_too_many_arguments_after_a_double_dash(refused: Command) -> None:
    line = refused("graph", "--", "-a", "-b")
    assert "'-b'" in line


def test_ids_and_labels_in_files(graphdoc: Command, classifiers: Command, tmp_path: Path) -> None:
    rows = [
        {"id": "=cmd|' /C calc'!A0", "text": "rice koji mould grain", "label": "+sea", "split": "test"},
        {"id": "@a", "text": "tide wave marsh wall", "label": "rice", "split": "\x1b]0;owned\x07test"},
    ]
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    model = classifiers()
    assert graphdoc("encode", corpus, "--model", model, "--csv", "v.csv").status == 0
    run = graphdoc("evaluate", "classify", "--test", corpus, "--model", model, "--output", "scores")
    assert run.status == 0
    for path in (tmp_path / "v.csv", tmp_path / "scores" / "classes.csv"):
        with path.open(encoding="utf-8", newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert not [cell for cell in cells if cell.startswith(("=", "@", "+"))]
    line = graphdoc("evaluate", "classify", "--data", corpus, "--test-split", "none", "--model", model).err
    assert "'none'" in line and "\x1b" not in line and "\x07" not in line
