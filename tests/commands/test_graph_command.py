from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphdoc.graphs.joined_graphs import graph_of_sections
from graphdoc.registry import GRAPH_KINDS

Command = Callable[..., Any]


def test_summary(graphdoc: Command, two: tuple[Path, Path], model: str) -> None:
    status, out, err = graphdoc("graph", two[0], "--model", model)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[:2] == ["Rice and mould", "section graph: 4 nodes, 16 edges"]
    rows = [line.split() for line in lines]
    assert ["section", "passages", "words", "tokens"] in rows
    assert next(row for row in rows if row[:1] == ["Steaming"])[1:3] == ["1", "15"]
    assert ["self", "loop", "4"] in rows
    assert lines[-1] == "a: 3 passages, 73 tokens"


@pytest.mark.parametrize("kind", GRAPH_KINDS)
def test_every_output(graphdoc: Command, two: tuple[Path, Path], model: str, tmp_path: Path, kind: str) -> None:
    window = ("--window", "1") if kind == "window" else ()
    status, out, err = graphdoc(
        "graph", two[0], "--model", model, "--kind", kind, *window, "--output", "out", "--plot", "own.svg"
    )
    assert (status, err) == (0, "")
    assert sorted(path.name for path in (tmp_path / "out").glob("[!.]*")) == ["edges.csv", "graph.json"]
    assert "wrote own.svg" in out
    content = json.loads((tmp_path / "out" / "graph.json").read_text(encoding="utf-8"))
    expected = graph_of_sections([0, 1, 2], kind, window=1)
    assert content["kind"] == kind
    assert [content["edges"]["source"], content["edges"]["target"]] == expected.edge_index.tolist()
    assert len(content["nodes"]) == expected.num_nodes
    assert content["nodes"][2] == {
        "node": 2,
        "kind": "passage",
        "heading": "Steaming",
        "text": "The grains must stay whole. They are spread on a table in a warm room.",
    }
    with (tmp_path / "out" / "edges.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["source", "target", "edge_kind"]
    assert [row["edge_kind"] for row in rows] == content["edges"]["edge_kind"]


def test_json_to_standard_output(graphdoc: Command, model: str) -> None:
    status, out, _ = graphdoc("graph", "-", "--model", model, "--json", "-", stdin=b"Two clocks never agree.")
    assert status == 0
    assert json.loads(out)["id"] == "stdin"


def test_sections_beyond_the_passage_limit(graphdoc: Command, tmp_path: Path, model: str) -> None:
    (tmp_path / "many.md").write_text("".join(f"# Part {number}\n\nText {number}.\n\n" for number in range(3000)))
    status, out, _ = graphdoc("graph", "many.md", "--model", model)
    assert status == 0
    assert "section graph: 31 nodes, " in out
    assert "... and 2,940 more sections" in out
    assert "less than 1% of the text was encoded" in " ".join(out.split())


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (("--kind", "no_such_kind"), ("--kind", "'no_such_kind'")),
        (("--window", "0"), ("--window", "'0'", "at least 1")),
        (("--kind", "full", "--window", "1"), ("graph_settings.window", "full")),
        (("--plot", "g.jpg"), ("g.jpg", ".svg")),
    ],
)
def test_refusals(
    refused: Command, two: tuple[Path, Path], model: str, options: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    line = refused("graph", two[0], "--model", model, *options)
    assert all(part in line for part in parts), line


def test_a_graph_too_large_for_memory(
    refused: Command, two: tuple[Path, Path], model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphdoc.graphs.joined_graphs.MAXIMUM_EDGES", 5)
    message = refused("graph", two[0], "--model", model, "--json", "g.json")
    assert "use graph kind 'window' with a small window, or a smaller max_passages" in message
