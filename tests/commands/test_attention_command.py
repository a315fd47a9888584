from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphdoc.encoder import DocumentEncoder
from graphdoc.evaluation import untrained_mean

Command = Callable[..., Any]


def test_summary(graphdoc: Command, two: tuple[Path, Path], model: str) -> None:
    status, out, err = graphdoc("attention", two[0], "--model", model, "--top", "2")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "Rice and mould"
    assert lines[1].startswith("model tiny, ")
    assert lines[1].endswith("; below those of the attention readout")
    sections = [line.split() for line in lines if line.split()[-2:-1] == ["1"]]
    assert [row[0] for row in sections] == ["Opening", "Steaming", "By"]
    assert sum(float(row[-1]) for row in sections) == pytest.approx(1, abs=0.002)
    assert any(line.startswith("  By night") for line in lines)
    assert len([line for line in lines if " node " in line]) == 2


def test_layer_and_head(graphdoc: Command, two: tuple[Path, Path], model: str) -> None:
    for options, shown in (
        (("--head", "1"), "the document node in layer 1, head 1"),
        (("--layer", "0"), "the document node in layer 0, mean over heads"),
        (("--layer", "-2", "--head", "0"), "the document node in layer 0, head 0"),
        (("--layer", "2"), "the attention readout"),
    ):
        status, out, err = graphdoc("attention", two[0], "--model", model, *options)
        assert (status, err) == (0, "")
        assert f"below those of {shown}\n" in out


def test_passages_that_are_not_looked_at_are_not_listed(
    graphdoc: Command, two: tuple[Path, Path], tiny_encoder: Callable[..., DocumentEncoder], tmp_path: Path
) -> None:
    """In a hierarchical graph the document node sees section nodes alone."""
    encoder = tiny_encoder("bert", graph_kind="hierarchical", readout="document_node", trained=True)
    encoder.save_pretrained(tmp_path / "hierarchical" / "model")
    status, out, err = graphdoc("attention", two[0], "--model", tmp_path / "hierarchical" / "model")
    assert (status, err) == (0, "")
    # The folder "model" of a run is called like the run.
    assert out.splitlines()[1].startswith("model hierarchical, ")
    assert "it looks at no passage itself, only at sections" in out
    assert " node " not in out.replace("the document node", "")


def test_mini_says_that_its_vector_is_a_mean_whatever_its_graph_looks_at(
    graphdoc: Command, two: tuple[Path, Path], mini: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(mini), "from_pretrained", lambda name, **_: mini)
    status, out, _ = graphdoc("attention", two[0])
    assert status == 0
    assert "below those of the document node in layer 1" in out
    assert "this model's document vector is the mean of the passages before the graph" in out


def test_a_mean_says_that_every_passage_has_the_same_weight(
    graphdoc: Command, two: tuple[Path, Path], mini: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mean = untrained_mean(mini, device="cpu")
    monkeypatch.setattr(type(mini), "from_pretrained", lambda name, **_: mean)
    status, out, _ = graphdoc("attention", two[0])
    assert status == 0
    assert "every passage has the same weight" in out


def test_every_output(graphdoc: Command, two: tuple[Path, Path], model: str, tmp_path: Path) -> None:
    status, out, err = graphdoc("attention", two[0], "--model", model, "--output", "out")
    assert (status, err) == (0, "")
    names = sorted(path.name for path in (tmp_path / "out").glob("[!.]*"))
    assert names == ["attention.csv", "attention.json", "attention.png"]
    assert all(f"wrote out/{name}" in out for name in names)
    with (tmp_path / "out" / "attention.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[:6] == ["layer", "head", "source", "target", "edge_kind", "weight"]
    sums: defaultdict[tuple[str, str, str], float] = defaultdict(float)
    for row in rows:
        sums[row["layer"], row["head"], row["target"]] += float(row["weight"])
    assert list(sums.values()) == pytest.approx([1] * len(sums), abs=1e-5)
    # Four nodes in two layers of two heads, and the readout.
    assert len(sums) == 4 * 4 + 1
    content = json.loads((tmp_path / "out" / "attention.json").read_text(encoding="utf-8"))
    assert [node["kind"] for node in content["nodes"]] == ["document", "passage", "passage", "passage"]
    assert len(content["attention"]["weight"]) == len(rows)


def test_outputs_one_by_one(graphdoc: Command, two: tuple[Path, Path], model: str, tmp_path: Path) -> None:
    status, out, _ = graphdoc(
        "attention", two[0], "--model", model, "--csv", "a.csv", "--texts", "--plot", "a.pdf", "--json", "-"
    )
    assert status == 0
    assert json.loads(out)["document"]["title"] == "Rice and mould"
    assert "Rice is polished, soaked and steamed." in (tmp_path / "a.csv").read_text(encoding="utf-8")
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (("--layer", "3"), ("3", "[0, 1, 2]", "no layer")),
        (("--layer", "-3"), ("-3", "no layer")),
        (("--head", "2"), ("2", "[0, 1]", "no head")),
        (("--head", "-1"), ("-1", "no head")),
        (("--layer", "first"), ("--layer", "'first'")),
    ],
)
def test_layers_and_heads_that_do_not_exist(
    refused: Command, two: tuple[Path, Path], model: str, options: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    outputs = ("--csv", "a.csv", "--plot", "a.png", "--json", "a.json")
    line = refused("attention", two[0], "--model", model, *options, *outputs)
    assert all(part in line for part in parts), line


def test_texts_need_a_file(refused: Command, two: tuple[Path, Path], model: str) -> None:
    assert "--texts adds columns to --csv FILE" in refused("attention", two[0], "--model", model, "--texts")
