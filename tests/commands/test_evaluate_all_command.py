"""graphdoc evaluate all: sets of every kind, verdicts, files, and what is refused."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from graphdoc.documents.readers import read_documents
from graphdoc.encoder import DocumentEncoder
from graphdoc.evaluation import ClusteringEvaluator, PairEvaluator, read_pair_file

Command = Callable[..., Any]
WORDS = {"rice": "rice steam koji mould grain", "sea": "tide wave marsh wall flood"}
SIZES = {"train": 24, "test": 14, "dev": 4}


def rows() -> list[dict[str, str]]:
    draw = np.random.default_rng(0)
    return [
        {
            "id": f"{part}{number}",
            "text": " ".join(draw.choice(WORDS[label].split(), 30)) + ".",
            "label": label,
            "split": part,
        }
        for part, size in SIZES.items()
        for number in range(size)
        for label in [list(WORDS)[number % 2]]
    ]


@pytest.fixture
def backbone(backbone_folder: Callable[[str], Path]) -> Path:
    return backbone_folder("bert")


@pytest.fixture
def sets(tmp_path: Path, backbone: Path) -> Path:
    write = Path.write_text
    lines = [json.dumps(row) + "\n" for row in rows()]
    write(tmp_path / "corpus.jsonl", "".join(lines))
    pairs = [(f"test{n}", f"test{n + 2}", 1) for n in range(10)] + [(f"test{n}", f"test{n + 1}", 0) for n in range(10)]
    write(tmp_path / "pairs.tsv", "".join(f"{a}\t{b}\t{label}\n" for a, b, label in [*pairs, ("test1", "gone", 1)]))
    judged = tmp_path / "judged"
    judged.mkdir()
    queries = [{"_id": f"q{n}", "text": words} for n, words in enumerate(["rice koji", "tide marsh"])]
    write(judged / "queries.jsonl", "".join(json.dumps(one) + "\n" for one in queries))
    write(judged / "qrels.tsv", "q0\t0\ttrain0\t1\nq0\t0\ttrain2\t1\nq1\t0\ttrain1\t1\n")
    content = {
        "sets": [
            {"name": "labelled", "documents": ["corpus.jsonl"], "pairs": "pairs.tsv"},
            {"name": "asked", "documents": ["corpus.jsonl"], "judged": "judged", "labels": False, "measures": ["MAP"]},
        ]
    }
    write(tmp_path / "sets.yaml", yaml.safe_dump(content))
    DocumentEncoder.from_backbone(backbone, projection_size=8, passage_words=20, device="cpu").save_pretrained(
        tmp_path / "a"
    )
    return tmp_path / "sets.yaml"


def test_every_kind_of_set_is_measured_beside_words_and_the_untrained_mean(
    graphdoc: Command, sets: Path, backbone: Path, tmp_path: Path
) -> None:
    command = ("evaluate", "all", "--sets", sets, "--model", "a", "--baseline", backbone, "--seeds", 2)
    files = ("--resamples", 30, "--json", "s.json", "--csv", "s.csv", "--markdown", "s.md")
    status, out, err = graphdoc(*command, *files)
    assert status == 0, err
    content = json.loads((tmp_path / "s.json").read_text())
    found = {(line["set"], line["measure"]): line["cells"] for line in content["lines"]}
    assert list(found) == [
        *(("labelled", name) for name in ("NMI", "purity", "10-NN", "pair AUC", "random pair AUC")),
        ("asked", "MAP"),
    ]
    for cells in found.values():
        assert list(cells) == ["TF-IDF", "untrained mean", "centred mean", "a"]
        assert cells["untrained mean"]["verdict"] is None
        for way in ("TF-IDF", "centred mean", "a"):
            cell = cells[way]
            assert cell["difference"]["value"] == pytest.approx(cell["value"] - cells["untrained mean"]["value"])
            low, high = cell["difference"]["interval"]
            expected = "better" if low > 0 else "worse" if high < 0 else "no difference"
            assert cell["verdict"] == expected
    # Words of the two labels are never mixed.
    assert found["labelled", "10-NN"]["TF-IDF"]["value"] == 1
    assert found["labelled", "pair AUC"]["TF-IDF"]["value"] == 1
    assert found["labelled", "pair AUC"]["a"]["count"] == 20
    # What is measured of a model is what its evaluators measure.
    encoder = DocumentEncoder.from_pretrained(tmp_path / "a", device="cpu")
    documents = list(read_documents(tmp_path / "corpus.jsonl"))
    parts = [[one for one in documents if one.metadata["split"] == part] for part in ("train", "test")]
    pairs = PairEvaluator(documents, read_pair_file(tmp_path / "pairs.tsv"), unknown="leave_out")
    assert found["labelled", "pair AUC"]["a"]["value"] == pytest.approx(pairs(encoder)["pair_auc"], abs=1e-6)
    seeds = ClusteringEvaluator(*parts, seeds=range(2))(encoder)
    assert found["labelled", "NMI"]["a"]["value"] <= seeds["nmi"] + 0.2
    with (tmp_path / "s.csv").open(encoding="utf-8") as file:
        assert len(list(csv.reader(file))) == 1 + 6 * 4
    assert "| labelled | NMI |" in (tmp_path / "s.md").read_text()
    assert "1 pair left out" in out


def test_a_set_alone_and_a_model_that_is_the_untrained_mean(
    graphdoc: Command, sets: Path, backbone: Path, tmp_path: Path
) -> None:
    DocumentEncoder.from_backbone(
        backbone, projection_size=None, normalize_passages=True, graph_layers=0, readout="mean", device="cpu"
    ).save_pretrained(tmp_path / "mean")
    command = ("evaluate", "all", "--sets", sets, "--only", "asked", "--model", "mean", "--baseline", backbone)
    status, _, err = graphdoc(*command, "--resamples", 20, "--json", "s.json")
    assert status == 0, err
    content = json.loads((tmp_path / "s.json").read_text())
    (line,) = content["lines"]
    assert line["set"] == "asked"
    assert line["cells"]["mean"]["difference"]["value"] == 0
    assert line["cells"]["mean"]["verdict"] == "no difference"


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"documents": []}, "sets[0]"),
        ({"train": ["corpus.jsonl"]}, "train"),
        ({"pairs": None, "labels": False}, "labelled"),
        ({"pairs": "none.tsv"}, "none.tsv"),
        ({"measure": "MAP"}, "measure"),
        ({"leave_out_sections": ["Abstract"]}, "Abstract"),
        ({"without": ["nmi"]}, "without"),
        ({"documents": ["nothing.jsonl"]}, "nothing.jsonl"),
    ],
)
def test_sets_that_say_nothing_or_contradict_themselves(
    refused: Command, sets: Path, backbone: Path, change: dict[str, Any], key: str
) -> None:
    content = yaml.safe_load(sets.read_text())
    content["sets"][0] |= change
    sets.write_text(yaml.safe_dump(content))
    line = refused("evaluate", "all", "--sets", sets, "--model", "a", "--baseline", backbone)
    assert key.replace("sets[0]", "documents") in line


def test_names_of_sets(refused: Command, sets: Path) -> None:
    assert "'other'" in refused("evaluate", "all", "--sets", sets, "--only", "other")
    content = yaml.safe_load(sets.read_text())
    content["sets"][1]["name"] = "labelled"
    sets.write_text(yaml.safe_dump(content))
    assert "'labelled'" in refused("evaluate", "all", "--sets", sets)


def test_files_that_are_read_are_not_written(refused: Command, sets: Path) -> None:
    assert "pairs.tsv" in refused("evaluate", "all", "--sets", sets, "--csv", "pairs.tsv")
