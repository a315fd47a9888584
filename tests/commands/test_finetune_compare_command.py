"""graphdoc finetune compare: CoLDE trained by groups, or by pairs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_runs import corpus_of, losses_of, refusal, results_of, told, write_config
from typed import Backbones, Command, Patch

from graphdoc import DocumentEncoder

GROUPS = ("rice mould steam grain koji", "tide marsh flood silt wall", "clock log order entry vote",
          "letter code byte page table")  # fmt: skip


def rows(count: int = 32, *, seed: int = 0, **changes: Any) -> list[dict[str, Any]]:
    """Documents in two sections; those with a number equal modulo four have the same words."""
    draw = np.random.default_rng(seed)
    made = []
    for number in range(count):
        words = GROUPS[number % 4].split()
        sections = [
            {"heading": heading, "text": " ".join(f"{' '.join(draw.permutation(words))}." for _ in range(int(length)))}
            for heading, length in zip(("Abstract", "Methods"), draw.integers(1, 6, size=2), strict=True)
        ]
        made.append({"id": f"d{number}", "sections": sections, "label": f"g{number % 4}"})
        made[-1] |= {name: value(number) if callable(value) else value for name, value in changes.items()}
    return made


def pairs(count: int = 32, *, first: int = 0) -> list[tuple[str, str, int]]:
    """Every document with the next one of its group, and with the next one of another."""
    found = [(f"d{a}", f"d{a + 4}", 1) for a in range(first, count - 4)]
    return found + [(f"d{a}", f"d{a + 5}", 0) for a in range(first, count - 5)]


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes documents as JSON Lines, or pairs and links as columns: ``write("pairs.tsv", pairs())``."""

    def run(name: str, lines: list[Any]) -> Path:
        texts = ["\t".join(map(str, line)) if isinstance(line, tuple) else json.dumps(line) for line in lines]
        path = tmp_path / name
        path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        return path

    return run


@pytest.fixture
def compare(graphdoc: Command, backbone_folder: Backbones, tmp_path: Path, write: Command) -> Command:
    """Trains a tiny CoLDE on 32 documents of four groups: ``compare("training.epochs=2")``."""
    settings = {"projection_size": None, "graph_layers": 0, "passage_words": 10, "structural_embeddings": True,
                "readout": "sections", "readout_settings": {
                    "chunk_attention_heads": 2, "section_lstm_size": 12, "section_projection_size": 8}}  # fmt: skip
    training, source = {"epochs": 6, "learning_rate": 3e-3, "padding": 0.5}, write("papers.jsonl", rows())
    config = write_config(tmp_path, source, backbone_folder("roberta"), settings, training=training)
    return lambda *arguments: graphdoc("finetune", "compare", "--config", config, "--device", "cpu", *arguments)


def test_a_trained_model_tells_groups_apart(compare: Command, write: Command, tmp_path: Path) -> None:
    held_out = write("dev.jsonl", rows(16, seed=7, id=lambda number: f"d{100 + number}"))
    dev = write("dev.tsv", pairs(116, first=100))
    assert "measured: 23 pairs, 16 documents" in told(
        compare(f"validation.pairs={dev}", f"validation.source={held_out}")
    )
    record, results = corpus_of(tmp_path / "run"), results_of(tmp_path / "run")
    assert (record["train"], record["groups"]["largest"], record["groups"]["alone"]) == (32, 8, 0)
    assert results["after"]["pair_auc"] > 0.97
    assert results["after"]["pair_auc"] >= results["before"]["pair_auc"]
    # Chance would choose by 23 pairs.
    assert "best" not in results
    losses = losses_of(tmp_path / "run")
    assert len(losses) == 24 and losses[-1]["loss"] < losses[0]["loss"] - 0.3
    assert {entry["skipped_anchors"] for entry in losses} == {0.0}
    encoder = DocumentEncoder.from_pretrained(tmp_path / "run" / "model", device="cpu")
    assert encoder.model.config.trained
    assert encoder.compare("rice mould steam.", "grain koji rice.").document > 0.5


@pytest.mark.parametrize(
    "settings",
    [
        ("model.tune=frozen", "model.settings.structural_embeddings=false"),
        ("model.settings.graph_layers=1", "model.settings.graph_heads=2", "sections.number=3", "sections.by=length"),
        ("model.settings.readout_settings.section_aggregation=mean", "sections.section_positions=shuffled"),
    ],
    ids=["frozen", "graph", "without lstm"],
)
def test_variants_learn(compare: Command, tmp_path: Path, settings: tuple[str, ...]) -> None:
    told(compare("training.epochs=6", *settings))
    losses = [entry["loss"] for entry in losses_of(tmp_path / "run")]
    assert np.mean(losses[-4:]) < np.mean(losses[:4]) - 0.15


def test_groups_by_pairs_and_links(compare: Command, write: Command, tmp_path: Path) -> None:
    given = [*pairs(30), ("d0", "d0", 1), ("d4", "d0", 1), ("d0", "elsewhere", 1)]
    path = write("pairs.tsv", given)
    options = ("groups.by=pairs", f"groups.file={path}", "training.max_steps=2")
    seen = told(compare(*options, "groups.unknown=leave_out", f"validation.pairs={write('dev.tsv', pairs())}"))
    assert all(part in seen for part in ("26 used", "26 within", "25 dissimilar", "1 repeated", "1 with_themselves"))
    assert "32 documents trained on too" in seen
    record = corpus_of(tmp_path / "run")
    assert (record["train"], record["groups"]["largest"], record["groups"]["pairs"]["unknown"]) == (32, 8, 1)

    links = write("links.tsv", [("citing", "cited"), *((a, b) for a, b, label in given if label)])
    told(compare("groups.by=links", f"groups.file={links}", "training.max_steps=2", "groups.joining=stars",
                 "groups.star_size=3", "groups.smallest=2", f"output={tmp_path / 'stars'}"))  # fmt: skip
    record = corpus_of(tmp_path / "stars")
    assert (record["groups"]["largest"], record["groups"]["pairs"]["unknown"]) == (3, 1)
    assert record["train"] + sum(record["left_out"].values()) == 32
    assert record["groups"]["alone"] in record["left_out"].values()


def test_pairs_themselves(compare: Command, write: Command, tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr("graphdoc.training.recipe.FEWEST_TO_CHOOSE", 20)
    path = write("pairs.tsv", [*pairs(28), ("d0", "d0", 1), ("d4", "d0", 1)])
    told(compare("loss.kind=cosine", "groups.by=pairs", f"groups.file={path}", "training.epochs=3",
                 f"validation.pairs={write('dev.tsv', pairs(32, first=8))}", "validation.best=f1"))  # fmt: skip
    record, results = corpus_of(tmp_path / "run"), results_of(tmp_path / "run")
    assert (record["pairs"], record["train"], record["similar"]) == (47, 28, 24)
    assert sorted(filter(None, record["left_out"].values())) == [1, 1]
    assert results["after"]["pair_auc"] > 0.97
    assert results["best"]["score"] == results["after"]["pair_f1"]
    assert {"positive_similarity", "negative_similarity"} <= losses_of(tmp_path / "run")[0].keys()


def test_bad_input(compare: Command, write: Command) -> None:
    files = {
        name: write(name, lines)
        for name, lines in {
            "one.jsonl": rows(8, label="rice"),
            "none.jsonl": rows(8, label=None),
            "apart.jsonl": rows(8, label=lambda number: f"{number}"),
            "twice.jsonl": [*rows(8), *rows(8)],
            "pairs.tsv": pairs(8),
            "unknown.tsv": [("d0", "d4", 1), ("d0", "nobody", 0)],
            "itself.tsv": [("d0", "d0", 1), ("d1", "d0", 0)],
        }.items()
    }
    by_pairs, cosine, unknown = "groups.by=pairs", "loss.kind=cosine", ["unknown.tsv:2", "'nobody'"]
    for options, values in (
        (["corpus.source=one.jsonl"], ["8 documents"]),
        (["corpus.source=none.jsonl"], ["none.jsonl", "corpus.columns.label"]),
        (["corpus.source=apart.jsonl", "sections.number=1"], ["0 groups"]),
        ([by_pairs, "groups.file=unknown.tsv"], [*unknown, "groups.unknown"]),
        ([cosine, by_pairs, "groups.file=unknown.tsv"], [*unknown, "groups.unknown"]),
        (["validation.pairs=unknown.tsv"], [*unknown, "groups.unknown"]),
        ([by_pairs, "groups.file=itself.tsv"], ["no pair"]),
        ([cosine, by_pairs, "groups.file=itself.tsv"], ["itself.tsv"]),
        (["validation.pairs=nowhere.tsv"], ["nowhere.tsv"]),
        (["corpus.source=twice.jsonl", by_pairs, "groups.file=pairs.tsv"], ["'d0'"]),
        ([by_pairs], ["groups.file"]),
        (["sections.number=9"], ["sections.number=9"]),
    ):
        paths = {option: option.partition("=")[2] for option in options}
        line = refusal(compare(*(option.replace(name, str(files.get(name, name))) for option, name in paths.items())))
        assert all(value in line for value in values), line


def test_documents_without_others_of_their_group(compare: Command, write: Command, tmp_path: Path) -> None:
    """Those that cannot be split are one section, and batches without any positive change nothing."""
    made = rows(12)
    for row in made[:4]:
        del row["sections"]
        row |= {"text": "Rice and mould.", "label": f"alone {row['id']}"}
    del made[11]["label"]
    made[10]["label"] = ["g2", "g3"]
    told(compare(f"corpus.source={write('some.jsonl', made)}", "training.epochs=1"))
    record = corpus_of(tmp_path / "run")
    assert (record["train"], sum(record["left_out"].values())) == (10, 2)
    assert max(entry["skipped_anchors"] for entry in losses_of(tmp_path / "run")) > 0
    made = [{"id": f"d{number}", "text": "Rice and mould.", "label": str(number)} for number in range(40)] + rows(2)
    options = ("training.epochs=1", "training.warmup_steps=0", f"output={tmp_path / 'alone'}")
    told(compare(f"corpus.source={write('alone.jsonl', made)}", *options))
    without = [entry for entry in losses_of(tmp_path / "alone") if entry["without_positives"] == 1]
    assert without and {(entry["loss"], entry["grad_norm"]) for entry in without} == {(0.0, 0.0)}
