from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.evaluation import ClusteringEvaluator, LabelledPair
from graphdoc.graphs.packing import MiniBatch
from graphdoc.modeling import DocumentModel

Command = Callable[..., Any]
WORDS = {"rice": "rice steam koji mould grain", "sea": "tide wave marsh wall flood"}
SIZES = {"train": 12, "test": 6, "dev": 4}


def rows_of(part: str) -> list[dict[str, str]]:
    draw = np.random.default_rng(len(part))
    return [
        {
            "id": f"{part}{number}",
            "text": " ".join(draw.choice(WORDS[label].split(), 30)) + ".",
            "label": label,
            "split": part,
        }
        for number in range(SIZES[part])
        for label in [list(WORDS)[number % 2]]
    ]


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "corpus.jsonl", [row for part in SIZES for row in rows_of(part)])


@pytest.fixture
def backbone(backbone_folder: Callable[[str], Path]) -> Path:
    return backbone_folder("bert")


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text("id_a\tid_b\tlabel\ntest0\ttest2\t1\ntest0\tdev1\t0\ntest1\ttrain3\t1\ntest1\ttest4\t0\n")
    return path


def test_passages_are_encoded_once_for_all_models_on_one_backbone(
    graphdoc: Command, corpus: Path, backbone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"projection_size": 8, "passage_words": 20, "device": "cpu"}
    for name, seed in (("a", 0), ("b", 1)):
        DocumentEncoder.from_backbone(backbone, seed=seed, **settings).save_pretrained(name)
    encoded: list[int] = []
    plain = DocumentModel.encode_mini_batch

    def counting(self: DocumentModel, mini_batch: MiniBatch) -> torch.Tensor:
        encoded.append(len(mini_batch.passage_order))
        return plain(self, mini_batch)

    monkeypatch.setattr(DocumentModel, "encode_mini_batch", counting)

    def rows(*models: str) -> tuple[list[dict[str, str]], int]:
        encoded.clear()
        chosen = [part for name in models for part in ("--model", name)]
        command = ("evaluate", "cluster", "--data", corpus, "--baseline", backbone, "--csv", "scores.csv")
        assert graphdoc(*command, *chosen)[0] == 0
        with (tmp_path / "scores.csv").open(encoding="utf-8") as file:
            return list(csv.DictReader(file)), sum(encoded)

    together, passages = rows("a", "b")
    assert len(together) == 3
    alone = [rows(name) for name in ("a", "b")]
    assert [count for _, count in alone] == [passages, passages]
    assert together == [*alone[0][0], alone[1][0][1]]
    assert {row["nmi"] for row in together} != {""}


def test_everything(graphdoc: Command, corpus: Path, backbone: Path, pairs: Path, model: str, tmp_path: Path) -> None:
    command = ("evaluate", "cluster", "--data", corpus, "--model", model, "--baseline", backbone, "--probe")
    options = ("--pairs", pairs, "--cls-baseline", backbone, "--seeds", "3", "--output", "out")
    status, out, err = graphdoc(*command, *options)
    assert (status, err) == (0, "")
    assert sorted(path.name for path in (tmp_path / "out").glob("[!.]*")) == [
        "projection.png",
        "scores.csv",
        "scores.json",
    ]
    content = json.loads((tmp_path / "out" / "scores.json").read_text(encoding="utf-8"))
    assert content["format"] == "graphdoc.clustering/1"
    assert content["data"] == {
        "train": 12,
        "test": 6,
        "without_label": {"train": 0, "test": 0},
        "ids_in_train_and_test": 0,
        "labels": ["rice", "sea"],
        "pairs": 4,
        "pairs_left_out": 0,
    }
    assert content["skipped"] == []
    assert [(row["name"], row["role"]) for row in content["rows"]] == [
        ("tiny-bert, [CLS]", "[CLS]"),
        ("tiny-bert, untrained mean", "untrained"),
        (model, "model"),
    ]
    row = content["rows"][2]
    encoder = DocumentEncoder.from_pretrained(model, device="cpu")
    parts = {part: [Document.from_mapping(row) for row in rows_of(part)] for part in SIZES}
    expected = ClusteringEvaluator(
        parts["train"],
        parts["test"],
        others=parts["dev"],
        seeds=range(3),
        probe=True,
        pairs=[
            LabelledPair("test0", "test2", 1),
            LabelledPair("test0", "dev1", 0),
            LabelledPair("test1", "train3", 1),
            LabelledPair("test1", "test4", 0),
        ],
    )(encoder)
    assert row["nmi"]["mean"] == pytest.approx(expected["nmi"])
    assert row["purity"]["std"] == pytest.approx(expected["purity_std"])
    assert row["probe"]["macro_f1"] == pytest.approx(expected["probe_macro_f1"])
    assert row["pair_auc"] == pytest.approx(expected["pair_auc"])
    assert (row["clusters"], row["seeds"], len(row["nmi"]["values"])) == (2, [0, 1, 2], 3)
    assert (row["normalized"], row["same_vectors_as"], row["coverage"]["documents"]) == (True, None, 19)
    assert row["model"]["graph_kind"] == "section"
    with (tmp_path / "out" / "scores.csv").open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    assert [line["model"] for line in table] == [row["name"] for row in content["rows"]]
    assert {name: float(table[2][name]) for name in expected} == pytest.approx(expected)
    lines = out.splitlines()
    assert " ".join(lines[0].split()) == "vectors of kind coverage NMI purity accuracy macro F1 pair AUC"
    assert f"{expected['nmi']:.3f} ± {expected['nmi_std']:.3f}" in lines[3]
    assert lines[3].split()[-1] == f"{expected['pair_auc']:.3f}"
    assert "12 train and 6 test documents with 2 labels; k-means with 2 clusters, 3 seeds" in out
    assert "wrote out/scores.json\nwrote out/scores.csv\nwrote out/projection.png\n" in out


def test_two_sources_are_the_same_as_two_splits(
    graphdoc: Command, corpus: Path, backbone: Path, model: str, tmp_path: Path
) -> None:
    train = write_rows(tmp_path / "train.jsonl", rows_of("train"))
    test = write_rows(tmp_path / "test.jsonl", rows_of("test"))
    command = ("evaluate", "cluster", "--model", model, "--baseline", backbone, "--json", "-")
    expected = graphdoc(*command, "--data", corpus)
    assert expected.status == 0
    assert graphdoc(*command, "--train", train, "--test", test).out == expected.out
    dev = json.loads(graphdoc(*command, "--data", corpus, "--test-split", "dev").out)
    assert dev["data"]["test"] == 4


def test_models_and_baselines(
    graphdoc: Command, corpus: Path, backbone: Path, model: str, tiny_encoder: Callable[..., Any], tmp_path: Path
) -> None:
    plain = {"projection_size": None, "graph_layers": 0, "readout": "mean", "normalize_passages": True}
    tiny_encoder("bert", **plain, max_passages=30).save_pretrained(tmp_path / "plain")
    command = ("evaluate", "cluster", "--data", corpus, "--json", "-", "--model", model, "--model", "plain")
    rows = json.loads(graphdoc(*command, "--baseline", backbone).out)["rows"]
    assert [row["name"] for row in rows] == ["tiny-bert, untrained mean", model, "plain"]
    # The plain model is its own baseline, and both models share theirs.
    assert rows[2]["same_vectors_as"] == "tiny-bert, untrained mean"
    assert rows[2]["nmi"] == rows[0]["nmi"]
    content = json.loads(graphdoc(*command, "--no-baseline").out)
    assert [row["name"] for row in content["rows"]] == [model, "plain"]
    assert content["skipped"] == []


def test_what_cannot_be_loaded_is_left_out_with_a_note(graphdoc: Command, corpus: Path, model: str) -> None:
    command = ("evaluate", "cluster", "--data", corpus, "--model", model, "--cls-baseline", "allenai/none")
    status, out, _ = graphdoc(*command)
    assert status == 0
    assert "not measured: allenai/none ([CLS]): model 'allenai/none' is neither a folder nor" in out
    assert f"not measured: backbone of {model} (untrained): model 'tiny-bert' is neither" in out
    content = json.loads(graphdoc(*command, "--json", "-").out)
    assert [entry["role"] for entry in content["skipped"]] == ["[CLS]", "untrained"]
    assert [row["name"] for row in content["rows"]] == [model]


def test_documents_that_are_left_out_are_reported(graphdoc: Command, model: str, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [*rows_of("train"), *rows_of("test")]
    rows[0]["label"], rows[-1]["label"] = None, ["a", "b"]
    rows.append({"id": "zero", "text": "\u200b", "label": "sea", "split": "train"})
    source = write_rows(tmp_path / "rows.jsonl", rows)
    with source.open("a") as file:
        file.write("not json\n")
    command = ("evaluate", "cluster", "--data", source, "--model", model, "--no-baseline", "--on-error", "skip")
    status, out, _ = graphdoc(*command)
    assert status == 0
    assert "11 train and 5 test documents with 2 labels" in out
    assert "left out for want of one label: 1 of train, 1 of test" in out
    assert "skipped zero: it has no text to encode" in out
    assert "rows.jsonl:20: invalid JSON" in out
    train, test = write_rows(tmp_path / "a.jsonl", rows[1:12]), write_rows(tmp_path / "b.jsonl", rows[1:4])
    out = graphdoc("evaluate", "cluster", "--train", train, "--test", test, "--model", model, "--no-baseline").out
    assert "3 ids occur in train and in test" in out


def test_help(graphdoc: Command) -> None:
    from graphdoc.cli import parse

    status, out, err = graphdoc("evaluate", "--help")
    assert (status, err) == (0, "")
    assert "  cluster" in out
    status, out, err = graphdoc("evaluate", "cluster", "--help")
    assert (status, err) == (0, "")
    examples = [line.split() for line in out.splitlines() if line.startswith("  graphdoc evaluate cluster")]
    assert len(examples) == 3
    assert all(parse(words[1:]).command == "evaluate cluster" for words in examples)
    assert "{float32,bfloat16,float16,int8}" in out
    for option in ("--model", "--device", "--json", "--csv", "--output", "--max-passages", "--plot"):
        assert option in out


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ((), ("--data", "--train", "--test")),
        (("--train", "corpus.jsonl"), ("--data",)),
        (("--data", "corpus.jsonl", "--test", "corpus.jsonl"), ("--data",)),
        (("--data", "none.jsonl"), ("none.jsonl", "no such file")),
        (
            ("--data", "corpus.jsonl", "--split-column", "part"),
            ("corpus.jsonl", "'part'", "no document"),
        ),
        (
            ("--data", "corpus.jsonl", "--test-split", "x"),
            ("corpus.jsonl", "'x'", "'split'", "'dev'", "'test'", "'train'", "no document"),
        ),
        (("--data", "corpus.jsonl", "--label-column", "x"), ("train", "label")),
        (("--data", "corpus.jsonl", "--label-column", "same"), ("'one'",)),
        (("--data", "corpus.jsonl", "--clusters", "13"), ("13", "12", "clusters")),
        (("--data", "corpus.jsonl", "--label-column", "other", "--probe"), ("(new)",)),
        (("--data", "corpus.jsonl", "--pairs", "bad.tsv"), ("bad.tsv:1",)),
        (("--data", "corpus.jsonl", "--pairs", "far.tsv"), ("far.tsv:1", "'x'", "no document")),
        (("--data", "corpus.jsonl", "--pairs", ""), ("empty",)),
        (("--data", "corpus.jsonl", "--json", "corpus.jsonl"), ("corpus.jsonl", "read")),
        (("--data", "corpus.jsonl", "--plot", "a.gif"), ("a.gif", ".svg")),
        (("--data", "corpus.jsonl", "--seeds", "0"), ("--seeds", "'0'", "at least 1")),
        (
            ("--data", "corpus.jsonl", "--baseline", "a", "--no-baseline"),
            ("--baseline", "--no-baseline", "contradict"),
        ),
        (("--data", "corpus.jsonl", "--baseline", "./none"), ("./none", "model folder")),
        (("--data", "corpus.jsonl", "--model", "./none"), ("./none", "model folder")),
        (("--data", "corpus.jsonl", "--modle", "x"), ("--modle", "--model")),
    ],
)
def test_refusals(
    refused: Command, tmp_path: Path, model: str, options: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    rows = [row | {"other": row["label"], "same": "one"} for part in SIZES for row in rows_of(part)]
    rows[12]["other"] = "new"
    write_rows(tmp_path / "corpus.jsonl", rows)
    (tmp_path / "bad.tsv").write_text("test0 test1 1\n")
    (tmp_path / "far.tsv").write_text("test0\tx\t1\ntest1\tx\t0\n")
    line = refused("evaluate", "cluster", "--model", model, *options)
    assert line.startswith("graphdoc evaluate cluster: ")
    assert all(part in line for part in parts), line


def test_a_task_is_needed(refused: Command) -> None:
    assert refused("evaluate").startswith("graphdoc evaluate: the following arguments are required: TASK")
    assert "task clusters is unknown; did you mean cluster?" in refused("evaluate", "clusters")
