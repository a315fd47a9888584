"""graphdoc repeats, and how other commands leave repeated passages out, as a user runs them."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphdoc.vectors.folder import Manifest, read_vectors

Command = Callable[..., Any]
POPUP = (
    "Press the left or the right arrow to go from chapter to chapter. Press S or the slash to search in the book. "
    "Press the question mark to show this help again, and Escape to hide this help. "
)
SUBJECTS = {
    "vectors": "A vector holds values of one type, side by side in memory, and grows as values are pushed onto it. ",
    "strings": "A string is text in UTF-8; one letter can be several bytes, so that no index gives a letter. ",
    "maps": "A hash map finds a value by its key, and a hasher that nobody can predict says where each lies. ",
    "loops": "A loop runs until it breaks; a while loop asks before each turn, and a for loop takes what comes. ",
    "owners": "Every value has one owner, and is dropped when its owner goes out of scope, unless it was moved. ",
    "borrows": "A reference borrows a value without owning it, and the checker sees that no reference outlives it. ",
}


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    """Six pages of a book, each with the same help at its end, and one of one line."""
    folder = tmp_path / "book"
    folder.mkdir()
    for name, text in SUBJECTS.items():
        turns = " ".join(f"Of {name}, remark {number}: {text}" for number in range(6))
        (folder / f"{name}.md").write_text(f"# {name.title()}\n\n{turns}\n\n## Keyboard shortcuts\n\n{POPUP}\n")
    return folder


def test_the_list(graphdoc: Command, pages: Path, model: str, tmp_path: Path) -> None:
    arguments = ("--model", model, "--json", "r.json", "--csv", "r.csv")
    status, out, err = graphdoc("repeats", pages, *arguments)
    assert (status, err) == (0, "")
    found = json.loads((tmp_path / "r.json").read_text())
    assert (found["documents"], found["with_repeats"], found["kept"], found["least_documents"]) == (6, 6, 0, 3)
    assert all(one["text"] in POPUP for one in found["passages"])
    assert sum(len(one["text"]) for one in found["passages"]) > 0.9 * len(POPUP)
    with (tmp_path / "r.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["documents"] for row in rows} == {"6"} and rows[0]["examples"] == "borrows; loops; maps"
    assert "6 documents, 6 with a passage that 3 or more have" in out


def test_nearest_sections_are_about_the_subject(graphdoc: Command, pages: Path, model: str) -> None:
    kept = graphdoc("compare", pages, "--model", model, "--repeats", "keep").out
    status, out, _ = graphdoc("compare", pages, "--model", model)
    assert status == 0 and "Keyboard" in kept and "Keyboard" not in out
    assert re.search(r"\d+ characters: repeated; --repeats keep", out)
    # Where nothing was left out, nothing is said.
    assert "--repeats" not in kept


def test_two_documents_are_no_corpus(graphdoc: Command, pages: Path, model: str) -> None:
    status, out, _ = graphdoc("compare", pages / "maps.md", pages / "loops.md", "--model", model)
    assert status == 0 and "Keyboard" in out and "repeated" not in out


def test_vectors_in_a_folder_and_on_the_screen(graphdoc: Command, pages: Path, model: str, tmp_path: Path) -> None:
    assert graphdoc("encode", pages, "--model", model, "--output", "v").status == 0
    assert graphdoc("encode", pages, "--model", model, "--json", "v.json").status == 0
    ids, vectors = read_vectors(tmp_path / "v")
    on_screen = json.loads((tmp_path / "v.json").read_text())
    assert on_screen["ids"] == ids
    np.testing.assert_allclose(on_screen["vectors"], vectors, atol=1e-5)
    manifest = Manifest.read(tmp_path / "v")
    assert manifest.model["repeats"] == on_screen["model"]["repeats"]
    assert manifest.coverage.left_out == {"repeated": 6 * len(POPUP.strip())}
    assert graphdoc("encode", pages, "--model", model, "--output", "v").status == 0
    status, _, err = graphdoc("encode", pages, "--model", model, "--output", "v", "--repeats", "keep")
    assert status == 2 and "repeats" in err
    # Documents that can be read once alone are the same corpus.
    rows = "".join(json.dumps({"id": path.stem, "text": path.read_text()}) + "\n" for path in sorted(pages.iterdir()))
    status, out, _ = graphdoc("encode", "-", "--model", model, "--output", "w", stdin=rows.encode())
    assert status == 0, out


def test_an_overview_and_its_reports(graphdoc: Command, pages: Path, model: str, tmp_path: Path) -> None:
    arguments = ("overview", pages, "--model", model, "--html", "o.html", "--reports", "2")
    for _ in range(2):
        assert graphdoc(*arguments).status == 0
        report = (tmp_path / "o-reports" / "0001.html").read_text(encoding="utf-8")
        assert "repeated" in report
    # The vectors are there, and no model but that of the reports is loaded.
    assert graphdoc("overview", pages, "--model", model, "--vectors", "o-vectors", *arguments[4:]).status == 0
    assert (tmp_path / "o-reports" / "0001.html").read_text(encoding="utf-8") == report


def test_stored_vectors_leave_out_what_their_folder_records(
    graphdoc: Command, pages: Path, model: str, tmp_path: Path
) -> None:
    assert graphdoc("encode", pages, "--model", model, "--output", "v").status == 0
    # Of two documents nothing would be found.
    for name in ("vectors", "strings", "owners", "borrows"):
        (pages / f"{name}.md").unlink()
    arguments = ("overview", pages, "--model", model, "--vectors", "v", "--html", "o.html", "--json", "o.json")
    status, out, _ = graphdoc(*arguments, "--reports", "15")
    assert status == 0
    # Of the fifteen pairs both documents of one were read.
    (made,) = (tmp_path / "o-reports").glob("[!.]*")
    assert "repeated" in made.read_text()
    found = json.loads((tmp_path / "o.json").read_text())["repeats"]
    characters = 2 * sum(len(passage["text"]) for passage in found["passages"])
    assert (found["documents"], found["kept"], found["characters"]) == (2, 0, characters)
    assert characters > 1.9 * len(POPUP.strip())
    assert f"left out as repeated: {len(found['passages'])} passages, {characters:,} characters " in out
    # Where it is not kept, two of the documents do not say what repeats in all.
    (tmp_path / "v" / "repeats.safetensors").unlink()
    status, out, _ = graphdoc(*arguments)
    assert status == 0 and "not known" in out
    assert json.loads((tmp_path / "o.json").read_text())["repeats"] is None
    status, _, err = graphdoc(*arguments, "--repeats", "keep")
    assert status == 2 and "encode anew" in err


def test_an_overview_of_what_was_kept_and_of_what_nobody_read(graphdoc: Command, model: str, tmp_path: Path) -> None:
    folder = tmp_path / "notices"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.txt").write_text(f"{POPUP} {number}")
    arguments = ("--model", model, "--vectors", "v", "--json", "o.json")
    status, out, _ = graphdoc("overview", folder, *arguments)
    assert status == 0 and "4 documents of little else" in out
    found = json.loads((tmp_path / "o.json").read_text())["repeats"]
    assert (found["kept"], found["passages"]) == (4, [])
    # All documents say what repeats where it is not kept; vectors alone do not.
    (tmp_path / "v" / "repeats.safetensors").unlink()
    assert graphdoc("overview", folder, *arguments).status == 0
    assert json.loads((tmp_path / "o.json").read_text())["repeats"] == found
    status, out, _ = graphdoc("overview", *arguments)
    assert status == 0 and "not known" in out
    assert json.loads((tmp_path / "o.json").read_text())["repeats"] is None


def test_nothing_to_list(graphdoc: Command, pages: Path, model: str, refused: Callable[..., str]) -> None:
    status, out, _ = graphdoc("repeats", pages / "maps.md", "--model", model)
    assert status == 0 and "0 passages" in out
    (pages.parent / "none").mkdir()
    assert "none" in refused("repeats", pages.parent / "none", "--model", model)


def test_what_a_folder_cannot_leave_out_of_two_documents_is_said(
    graphdoc: Command, refused: Callable[..., str], pages: Path, model: str, tmp_path: Path
) -> None:
    first, second = sorted(pages.iterdir())[:2]
    for name, repeats in (("v", "leave-out"), ("kept", "keep")):
        settings = ("--model", model, "--repeats", repeats, "--output", name)
        assert graphdoc("encode", pages, *settings).status == 0
    compare = ("compare", first, second, "--model", model)
    assert graphdoc(*compare, "--repeats-of", "v").status == 0
    assert "kept has no effect" in refused(*compare, "--repeats-of", "kept")
    assert "''" in refused(*compare, "--repeats-of", "")
    (tmp_path / "v" / "repeats.safetensors").unlink()
    assert "is missing" in refused(*compare, "--repeats-of", "v")
