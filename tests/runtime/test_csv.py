from __future__ import annotations

import csv
from pathlib import Path

import pytest

from graphdoc.errors import OutputError
from graphdoc.runtime.csv import csv_text, safe_cell, write_csv


@pytest.mark.parametrize("text", ["=1+1", "+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1"])
def test_text_that_a_spreadsheet_would_compute_is_escaped(text: str) -> None:
    assert safe_cell(text) == f"'{text}"
    assert csv_text(["id"], [[text]]).splitlines()[1].lstrip('"').startswith("'")


@pytest.mark.parametrize("value", ["koji", "", "a=1", "'x", " =1", -1.5, 0, -3, None, True])
def test_all_else_stays(value: object) -> None:
    assert safe_cell(value) == value


def test_a_file_reads_back(tmp_path: Path) -> None:
    rows = [["a,b", -0.5, float("nan")], ["line\nend", 3, None], ["half \ud800", 1e-7, 'a "b"']]
    path = write_csv(tmp_path / "new" / "table.csv", ["id", "x", "=y"], iter(rows))
    with path.open(encoding="utf-8", newline="") as file:
        found = list(csv.reader(file))
    assert found == [["id", "x", "'=y"], ["a,b", "-0.5", ""], ["line\nend", "3", ""], ["half ?", "1e-07", 'a "b"']]
    assert csv_text(["id"], [["a"]]) == "id\na\n"


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError) as error:
        write_csv(tmp_path / "file" / "table.csv", ["id"], [])
    assert str(tmp_path / "file" / "table.csv") in str(error.value)
