"""graphdoc search: what it finds in an index, a folder and a corpus, and what it writes."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphdoc.evaluation.trec import read_run

pytest.importorskip("lancedb", reason="needs the extra graphdoc[retrieval]")

Command = Callable[..., Any]
TEXTS = {
    "tides": "Tides rise twice a day. The moon pulls the sea.",
    "rice": "Steamed rice is cooled before koji is sown.",
    "marsh": "Salt marshes slow the sea.",
}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A corpus of three documents with a year each."""
    path = tmp_path / "corpus.jsonl"
    rows = [
        {"id": id, "text": text, "title": f"About {id}", "year": 2000 + number}
        for number, (id, text) in enumerate(TEXTS.items())
    ]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    return path


@pytest.fixture
def index(graphdoc: Command, corpus: Path, model: str) -> str:
    """An index of the corpus."""
    assert graphdoc("index", corpus, "--output", "made.index", "--model", model).status == 0
    return "made.index"


def test_an_index_is_searched_by_words(graphdoc: Command, index: str) -> None:
    status, out, err = graphdoc("search", index, "steamed rice", "--by", "words")
    assert (status, err) == (0, "")
    assert "About rice [rice]" in out and "About tides" not in out
    assert "Steamed rice is cooled" in out and out.splitlines()[-1].startswith("3 documents, 3 passages, model tiny")


def test_a_corpus_is_searched_without_an_index(graphdoc: Command, corpus: Path, index: str, model: str) -> None:
    _, ours, _ = graphdoc("search", corpus, "the sea", "--model", model, "--json", "-")
    _, theirs, _ = graphdoc("search", index, "the sea", "--json", "-")
    hits = [[(hit["id"], hit["score"]) for hit in json.loads(out)["hits"]] for out in (ours, theirs)]
    assert hits[0] == hits[1] and len(hits[0]) == 3
    assert sorted(path.name for path in corpus.parent.iterdir()) == ["corpus.jsonl", "made.index"]


def test_a_document_is_asked_with(graphdoc: Command, index: str, corpus: Path) -> None:
    _, out, _ = graphdoc("search", index, "--document", f"{corpus}#tides", "--json", "-")
    found = json.loads(out)
    assert found["query"]["document"] == "tides"
    assert {hit["id"] for hit in found["hits"]} == {"rice", "marsh"}
    assert all(hit["explanation"]["vectors"] for hit in found["hits"])


def test_all_outputs(graphdoc: Command, index: str, corpus: Path, tmp_path: Path) -> None:
    status, out, _ = graphdoc("search", index, "--document", f"{corpus}#tides", "--output", "found")
    assert status == 0
    found = tmp_path / "found"
    assert all(f"wrote found/{name}" in out for name in ("hits.html", "hits.json", "hits.csv", "hits.run"))
    ids = [hit["id"] for hit in json.loads((found / "hits.json").read_text())["hits"]]
    assert list(read_run(found / "hits.run")[f"{corpus}#tides"]) == ids
    assert [row["id"] for row in csv.DictReader((found / "hits.csv").open())] == ids
    page = (found / "hits.html").read_text()
    for rank in (1, 2):
        assert f"hits-comparisons/{rank:03d}.html" in page
        assert (found / "hits-comparisons" / f"{rank:03d}.html").is_file()


def test_filters_and_explanations(graphdoc: Command, index: str) -> None:
    _, out, _ = graphdoc("search", index, "the sea", "--where", "year >= 2002", "--explain")
    assert "marsh" in out and "tides" not in out and "sea (once" in out
    status, out, _ = graphdoc("search", index, "the sea", "--where", "year > 3000")
    assert status == 0 and "note: nothing was found where year > 3000" in out


def test_mistakes(graphdoc: Command, refused: Callable[..., str], index: str, corpus: Path, model: str) -> None:
    assert "--document" in refused("search", index)
    assert "--document" in refused("search", index, "a", "--document", corpus)
    assert "empty" in refused("search", index, " ")
    assert "yaer" in refused("search", index, "a", "--where", "yaer > 3")
    assert "missing" in refused("search", "missing", "a", "--model", model)
    assert "weight" in refused("search", index, "a", "--fusion", "weighted", "--weight", "7")
    assert "passages" in refused("search", index, "a", "--passages", "-1")
