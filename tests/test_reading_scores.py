"""The scores of benchmarks/reading.py, and how well graphdoc reads the pages of the project's own set."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
BODY = "The tide came in over the marsh at noon and left it again before the night had begun"


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("reading")


def test_a_perfect_reading(reading: ModuleType) -> None:
    right = reading.Reading("Tides", [(2, "Marsh"), (3, "Noon"), (2, "Night")], BODY, "Menu Search")
    same = reading.Reading("Tides", [(1, "marsh"), (2, "Noon."), (1, "Night")], BODY.upper())
    one = reading.score(same, right)
    assert (one.f1, one.nesting, one.coverage, one.order, one.furniture, one.surplus) == (1, 1, 1, 1, 0, 0)
    # The title is as good as a heading.
    assert reading.score(reading.Reading("", [(1, "Tides"), *same.headings], BODY), right).f1 == 1


def test_what_is_missing_or_too_much(reading: ModuleType) -> None:
    right = reading.Reading("Tides", [(2, "Marsh"), (3, "Noon")], BODY, "Menu Search")
    words = BODY.split()
    found = reading.Reading("Tides", [(2, "Menu")], " ".join([*words[6:], *words[:6], "Search", "Extra"]))
    one = reading.score(found, right)
    assert one.precision == 1 / 2 and one.recall == 1 / 3
    # "Noon" as a heading is missing; "Marsh" too: both words stand in the body once, not twice.
    assert one.coverage == pytest.approx(1 - 2 / 21)
    assert one.furniture == pytest.approx(2 / 22) and one.surplus == pytest.approx(3 / 22)
    # 14 groups of four words; three are broken by the move; of the rest those of the longer part are right.
    assert one.order == pytest.approx(9 / 12)
    flat = reading.Reading("Tides", [(2, "Marsh"), (2, "Noon")], BODY)
    assert reading.score(flat, right).nesting == 0


def test_a_set_is_read_and_shown(reading: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "html" / "own"
    folder.mkdir(parents=True)
    (folder / "tides.html").write_text(f"<title>Tides</title><nav>Menu</nav><h1>Tides</h1><p>{BODY}</p>")
    row = {"title": "Tides", "headings": [], "body": BODY, "furniture": ["Menu"]}
    (folder / "tides.html.json").write_text(json.dumps(row))
    (folder / "broken.md").write_bytes(b"\xff\xfe\xff")
    (folder / "broken.md.json").write_text(json.dumps(row))
    reading.main([str(tmp_path), "--save", str(tmp_path / "scores.json"), "--worst", "1"])
    shown = capsys.readouterr().out
    assert "html/own/broken.md" in shown and "2 (1 not read)" in shown
    rows = json.loads((tmp_path / "scores.json").read_text())["graphdoc"]
    assert rows["html/own/tides.html"]["coverage"] == 1 and rows["html/own/tides.html"]["precision"] == 1
    assert rows["html/own/broken.md"]["error"]


def test_the_projects_own_set_is_read_right(reading: ModuleType) -> None:
    paths = reading.files(ROOT / "tests" / "documents" / "parsing" / "reading_set")
    scores = {path: reading.measure(reading.read_with_graphdoc, path, attempts=1) for path in paths}
    assert {path.parts[-3] for path in paths} >= {"html", "text"} and len(paths) >= 10
    wrong = {
        path.name: one
        for path, one in scores.items()
        if one.error or one.f1 < 1 or one.nesting < 1 or one.coverage < 0.995 or one.order < 1 or one.furniture > 0.01
    }
    assert not wrong
