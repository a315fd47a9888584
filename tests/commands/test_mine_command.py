"""graphdoc mine: the lists, what is printed, and mistakes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphdoc.retrieval.negatives import CLOSE, JUDGED, SIMILAR, NegativeLists

pytest.importorskip("lancedb", reason="needs the extra graphdoc[retrieval]")

Command = Callable[..., Any]
TEXTS = {
    "tides": "Tides rise twice a day. The moon pulls the sea.",
    "copy": "Tides rise twice a day. The moon pulls the sea.",
    "marsh": "Salt marshes slow the sea, the sea, the sea.",
    "moon": "The moon has no air and no water on it, and the sea of calm is dry: nothing rises there.",
    "lathe": "A lathe turns wood.",
}
QUERIES = {"q1": "the moon pulls the sea", "q2": "turning wood", "q3": "nothing of this"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder in BEIR's layout: q1 asks for tides, q2 for the lathe; q3 was not judged, and one document is gone."""
    folder = tmp_path / "judged"
    folder.mkdir()
    rows = {
        "corpus": [{"_id": id, "text": text} for id, text in TEXTS.items()],
        "queries": [{"_id": id, "text": text} for id, text in QUERIES.items()],
    }
    for name, own in rows.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in own))
    (folder / "qrels.tsv").write_text("q1 0 tides 1\nq2 0 lathe 1\nq2 0 gone 1\n")
    return folder


def test_lists_by_words(graphdoc: Command, data: Path, model: str) -> None:
    status, out, err = graphdoc(
        *("mine", data / "corpus.jsonl", "--data", data, "--model", model, "--by", "words", "--similar", "none"),
        *("--margin", "none", "--output", "new/lists.jsonl", "--json", "done.json"),
    )
    assert (status, err) == (0, "")
    found = NegativeLists.read("new/lists.jsonl", documents=TEXTS, queries=QUERIES)
    assert {query: set(ids) for query, ids in found.lists.items()} == {"q1": {"marsh", "moon"}, "q2": set()}
    assert found.excluded == {JUDGED: 2, CLOSE: 0, SIMILAR: 1}
    for text in (
        "2 mined negatives",
        "1 query has none left",
        "q1: the moon",
        "answers: tides",
        "wrote new/lists.jsonl",
    ):
        assert text in out
    assert "left out: 1 query without a positive" in out
    done = json.loads(Path("done.json").read_text())
    assert done["excluded"] == found.excluded
    assert done["by"] == "words"
    assert len(done["model"]["weights"]) == 32
    assert done["left_out"]["judged documents that are unknown"] == 1


def test_an_index_by_both_and_scores_that_are_close(graphdoc: Command, data: Path, model: str) -> None:
    assert graphdoc("index", data / "corpus.jsonl", "--output", "kept", "--model", model).status == 0
    status, _, _ = graphdoc("mine", "kept", "--data", data, "--output", "lists.jsonl.gz", "--depth", 1)
    assert status == 0
    found = NegativeLists.read("lists.jsonl.gz")
    assert found.record["by"] == "both"
    assert all(len(ids) <= 1 for ids in found.lists.values())
    assert "copy" not in found.lists["q1"]
    assert found.excluded[CLOSE] > 0


def test_own_documents_are_no_negatives(graphdoc: Command, data: Path, model: str) -> None:
    (data / "qrels.tsv").write_text("q1 0 tides 1\nq1 0 marsh 2\n")
    arguments = ("mine", data / "corpus.jsonl", "--data", data, "--model", model, "--by", "words", "--margin", "none")
    assert graphdoc(*arguments, "--own-grade", 2, "--similar", "none", "--output", "lists.jsonl").status == 0
    assert NegativeLists.read("lists.jsonl").lists == {"q1": ("moon",)}


def test_mistakes(refused: Command, data: Path, model: str) -> None:
    start = ("mine", data / "corpus.jsonl", "--data", data, "--model", model)
    assert "depth" in refused(*start, "--output", "lists.jsonl", "--depth", 0)
    assert "margin" in refused(*start, "--output", "lists.jsonl", "--margin", "2")
    assert "'much'" in refused(*start, "--output", "lists.jsonl", "--margin", "much")
    assert "corpus.jsonl" in refused(*start, "--output", data / "corpus.jsonl")
    assert "standard output" in refused(*start, "--output", "-")
    assert "grade 7" in refused(*start, "--output", "lists.jsonl", "--own-grade", 7)
    (data / "qrels.tsv").write_text("q1 0 nowhere 1\n")
    assert "'nowhere'" in refused(*start, "--output", "lists.jsonl")
