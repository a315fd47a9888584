"""graphdoc index: what it writes, brings up to date, removes and refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lancedb", reason="needs the extra graphdoc[retrieval]")

Command = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of three documents."""
    made = tmp_path / "papers"
    made.mkdir()
    for name, text in (
        ("tides", "Tides rise twice a day."),
        ("rice", "Steamed rice is cooled."),
        ("lathe", "Wood turns."),
    ):
        (made / f"{name}.md").write_text(f"# About {name}\n\n{text}\n")
    return made


def test_an_index_is_made_and_brought_up_to_date(graphdoc: Command, folder: Path, model: str) -> None:
    status, out, err = graphdoc("index", folder, "--output", "papers.index", "--model", model)
    assert (status, err) == (0, "")
    assert "added 3 documents" in out and "3 passages" in out
    status, out, _ = graphdoc("index", folder, "--output", "papers.index", "--json", "-")
    done = json.loads(out)
    assert status == 0 and done["update"]["unchanged"] == 3 and done["index"]["documents"] == 3
    (folder / "rice.md").write_text("# About rice\n\nRice is eaten.\n")
    (folder / "new.md").write_text("New words.\n")
    _, out, _ = graphdoc("index", folder, "--output", "papers.index", "--json", "-")
    done = json.loads(out)
    assert {name: done["update"][name] for name in ("added", "replaced", "unchanged", "encoded_passages")} == {
        "added": 1, "replaced": 1, "unchanged": 2, "encoded_passages": 2,
    }  # fmt: skip


def test_documents_are_deleted(graphdoc: Command, folder: Path, model: str) -> None:
    graphdoc("index", folder, "--output", "papers.index", "--model", model)
    status, out, _ = graphdoc("index", "--output", "papers.index", "--delete", "rice", "--delete", "nowhere")
    assert status == 0 and "1 document; not there: nowhere" in out
    _, out, _ = graphdoc("index", "--output", "papers.index", "--describe", "--json", "-")
    assert json.loads(out)["index"]["documents"] == 2


def test_what_an_index_holds_is_described(graphdoc: Command, folder: Path, model: str) -> None:
    graphdoc("index", folder, "--output", "papers.index", "--model", model)
    status, out, _ = graphdoc("index", "--output", "papers.index", "--describe", "--maintain")
    assert status == 0
    assert all(word in out for word in ("3 documents", "tiny", "section graph", "float32", "fields: none"))
    assert out.count("none") == 1
    (folder / "dated.md").write_text("---\nyear: 2010\ntags: [a, b]\n---\n# Dated\n\nWords.\n")
    graphdoc("index", folder, "--output", "papers.index")
    _, out, _ = graphdoc("index", "--output", "papers.index", "--describe")
    assert "year (text), tags (lists of texts)" in out


def test_mistakes(graphdoc: Command, refused: Callable[..., str], folder: Path, model: str) -> None:
    assert "--delete" in refused("index", "--output", "papers.index")
    assert "missing" in refused("index", "missing", "--output", "papers.index", "--model", model)
    assert "papers.index" in refused("index", "--output", "papers.index", "--describe")
    assert "all of which is read" in refused("index", folder, "--output", folder / "index", "--model", model)
    (folder.parent / "full").mkdir()
    (folder.parent / "full" / "notes.txt").write_text("mine")
    assert "notes.txt" in refused("index", folder, "--output", "full", "--model", model)
    graphdoc("index", folder, "--output", "papers.index", "--model", model)
    for own in (["--model", model], []):
        assert "max_passages" in refused("index", folder, "--output", "papers.index", *own, "--max-passages", "7")
    assert "dtype" in refused("index", folder, "--output", "papers.index", "--dtype", "bfloat16")
