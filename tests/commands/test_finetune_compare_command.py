from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from graphdoc import DocumentEncoder
from graphdoc.training import step as cached_step

GROUPS = ("rice mould steam grain koji", "tide marsh flood silt wall", "clock log order entry vote",
          "letter code byte page table")  # fmt: skip


def rows(count: int = 32, *, seed: int = 0) -> list[dict[str, Any]]:
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
def compare(
    graphdoc: Callable[..., Any],
    backbone_folder: Callable[[str], Path],
    tmp_path: Path,
    write: Callable[..., Path],
) -> Callable[..., Any]:
    """Trains a tiny CoLDE on 32 documents of four groups: ``compare("training.epochs=2")``."""
    config = tmp_path / "config.yaml"
    settings = {"pooling": "mean", "projection_size": None, "graph_layers": 0, "passage_words": 10,
                "structural_embeddings": True, "readout": "sections", "chunk_attention_heads": 2,
                "section_lstm_size": 12, "section_projection_size": 8}  # fmt: skip
    values = {
        "corpus": {
            "source": str(write("papers.jsonl", rows())), "preparing_processes": 1, "cache": str(tmp_path / "cache")
        },
        "model": {"start": str(backbone_folder("roberta")), "settings": settings},
        "training": {
            "batch_size": 8, "epochs": 6, "learning_rate": 3e-3, "padding": 0.5, "loading_processes": 0, "log_steps": 1
        },
        "output": str(tmp_path / "run"),
    }  # fmt: skip
    config.write_text(yaml.safe_dump(values), encoding="utf-8")

    def run(*arguments: str) -> Any:
        return graphdoc("finetune", "compare", "--config", config, "--device", "cpu", *arguments)

    return run


def results_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return found


def log_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_a_trained_model_tells_groups_apart(
    compare: Callable[..., Any], write: Callable[..., Path], tmp_path: Path
) -> None:
    held_out = write("dev.jsonl", [{**row, "id": f"d{100 + n}"} for n, row in enumerate(rows(16, seed=7))])
    dev = write("dev.tsv", pairs(116, first=100))
    result = compare(f"validation.pairs={dev}", f"validation.source={held_out}")
    assert result.status == 0, result.err
    told = " ".join((result.out + result.err).split())
    assert "groups: 32 documents, 4 groups, 8 largest train: 32 measured: 23 pairs, 16 documents" in told
    assert "trained on too" not in told
    assert "24 steps of 8 documents" in told
    results = results_of(tmp_path / "run")
    assert results["after"]["pair_auc"] > 0.97
    assert results["after"]["pair_auc"] >= results["before"]["pair_auc"]
    names = ("auc", "average_precision", "f1", "accuracy", "precision", "recall")
    assert set(results["after"]) == {f"pair_{name}" for name in names}
    assert results["best"]["score"] == results["after"]["pair_auc"]
    losses = [entry for entry in log_of(tmp_path / "run") if "loss" in entry]
    assert losses[-1]["loss"] < losses[0]["loss"] - 0.3
    assert {entry["skipped_anchors"] for entry in losses} == {0.0}
    encoder = DocumentEncoder.from_pretrained(tmp_path / "run" / "model", device="cpu")
    assert encoder.model.config.trained
    assert encoder.compare("rice mould steam.", "grain koji rice.").document > 0.5
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    assert "Comparison of documents that belong together (CoLDE)" in card


@pytest.mark.parametrize(
    "settings",
    [
        ("model.tune=frozen", "model.settings.structural_embeddings=false"),
        ("model.settings.graph_layers=1", "model.settings.graph_heads=2", "sections.number=3", "sections.by=length"),
        ("model.settings.section_aggregation=mean", "sections.section_positions=shuffled"),
    ],
    ids=["frozen", "graph", "without lstm"],
)
def test_variants_learn(compare: Callable[..., Any], tmp_path: Path, settings: tuple[str, ...]) -> None:
    result = compare("training.epochs=8", *settings)
    assert result.status == 0, result.err
    assert "the last model is the result" in " ".join(result.out.split())
    losses = [entry["loss"] for entry in log_of(tmp_path / "run") if "loss" in entry]
    assert np.mean(losses[-4:]) < np.mean(losses[:4]) - 0.2


def test_groups_by_pairs_and_links(compare: Callable[..., Any], write: Callable[..., Path], tmp_path: Path) -> None:
    given = [*pairs(30), ("d0", "d0", 1), ("d4", "d0", 1), ("d0", "elsewhere", 1)]
    path = write("pairs.tsv", given)
    options = ("groups.by=pairs", f"groups.file={path}", "training.max_steps=2")
    result = compare(*options, "groups.unknown=leave_out", f"validation.pairs={write('dev.tsv', pairs())}")
    assert result.status == 0, result.err
    told = " ".join((result.out + result.err).split())
    assert "groups: 32 documents, 6 groups, " in told and " 8 largest groups: pairs: " in told
    for part in ("26 used", "26 within", "25 dissimilar", "1 unknown", "1 repeated", "1 with_themselves", "train: 32"):
        assert part in told
    assert "32 documents trained on too" in told

    links = write("links.tsv", [("citing", "cited"), *((a, b) for a, b, label in given if label)])
    result = compare("groups.by=links", f"groups.file={links}", "training.max_steps=2", "groups.joining=stars",
                     "groups.most=3", "groups.smallest=2", f"output={tmp_path / 'stars'}")  # fmt: skip
    assert result.status == 0, result.err
    record = json.loads((tmp_path / "stars" / "record.json").read_text())["corpus"]
    assert record["groups"]["largest"] == 3
    assert record["groups"]["pairs"]["unknown"] == 1
    assert record["train"] + sum(record["left_out"].values()) == 32
    assert record["left_out"]["alone in their group (groups.smallest=1 trains on them)"] == record["groups"]["alone"]


def test_pairs_themselves(compare: Callable[..., Any], write: Callable[..., Path], tmp_path: Path) -> None:
    path = write("pairs.tsv", [*pairs(28), ("d0", "d0", 1), ("d4", "d0", 1)])
    result = compare("loss.kind=cosine", "groups.by=pairs", f"groups.file={path}", "training.epochs=8",
                     f"validation.pairs={write('dev.tsv', pairs(32, first=8))}", "validation.best=f1")  # fmt: skip
    assert result.status == 0, result.err
    told = " ".join((result.out + result.err).split())
    assert "pairs: 47 similar: 24 train: 28 left out: 1 repeated, 1 with themselves" in told
    assert "88 steps of 4 pairs" in told
    results = results_of(tmp_path / "run")
    assert results["after"]["pair_auc"] > 0.97
    assert results["best"]["score"] == results["after"]["pair_f1"]
    entry = next(entry for entry in log_of(tmp_path / "run") if "loss" in entry)
    assert {"positive_similarity", "negative_similarity"} <= entry.keys()


@pytest.mark.parametrize("loss", ["contrastive", "cosine"])
def test_a_run_that_was_interrupted_ends_as_if_nothing_had_been(
    compare: Callable[..., Any],
    write: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    loss: str,
) -> None:
    options = (f"loss.kind={loss}", "groups.by=pairs", f"groups.file={write('pairs.tsv', pairs())}",
               "training.max_steps=8", "training.save_steps=3", "sections.section_positions=shuffled")  # fmt: skip
    assert compare(*options, f"output={tmp_path / 'whole'}").status == 0
    original, calls = cached_step.CachedStep.__call__, 0

    def failing(self: Any, batch: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 6:
            raise KeyboardInterrupt
        return original(self, batch)

    monkeypatch.setattr(cached_step.CachedStep, "__call__", failing)
    assert compare(*options).status != 0
    monkeypatch.undo()
    assert compare(*options, "--resume").status == 0
    files = [tmp_path / run / "model" / "model.safetensors" for run in ("whole", "run")]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert calls == 6


class TestBadInput:
    """Each is a line with the fix, or a result that says what was left out."""

    @pytest.fixture
    def refused(self, compare: Callable[..., Any]) -> Callable[..., str]:
        def run(*arguments: str) -> str:
            result = compare(*arguments)
            assert result.status == 2, result.err
            assert "Traceback" not in result.err
            (line,) = [line for line in result.err.splitlines() if line.startswith("graphdoc finetune")]
            return str(line)

        return run

    def test_groups_pairs_and_settings(self, refused: Callable[..., str], write: Callable[..., Path]) -> None:
        one = write("one.jsonl", [{**row, "label": "rice"} for row in rows(8)])
        none = write("none.jsonl", [{"id": row["id"], "sections": row["sections"]} for row in rows(8)])
        apart = write("apart.jsonl", [{**row, "label": row["id"]} for row in rows(8)])
        unknown = write("unknown.tsv", [("d0", "d4", 1), ("d0", "nobody", 0)])
        itself = write("itself.tsv", [("d0", "d0", 1), ("d1", "d0", 0)])
        twice = f"corpus.source={write('twice.jsonl', [*rows(8), *rows(8)])}"
        by_pairs, cosine = "groups.by=pairs", "loss.kind=cosine"
        for options, values in (
            ((f"corpus.source={one}",), ["8 documents"]),
            ((f"corpus.source={none}",), ["none.jsonl", "corpus.columns.label"]),
            ((f"corpus.source={apart}", "sections.number=1"), ["0 groups"]),
            ((by_pairs, f"groups.file={unknown}"), ["unknown.tsv:2", "'nobody'", "groups.unknown"]),
            ((cosine, by_pairs, f"groups.file={unknown}"), ["unknown.tsv:2", "'nobody'", "groups.unknown"]),
            ((f"validation.pairs={unknown}",), ["unknown.tsv:2", "'nobody'", "validation.unknown"]),
            ((by_pairs, f"groups.file={itself}"), ["no pair"]),
            ((cosine, by_pairs, f"groups.file={itself}"), ["itself.tsv"]),
            (("validation.pairs=nowhere.tsv",), ["nowhere.tsv"]),
            ((twice, by_pairs, f"groups.file={write('pairs.tsv', pairs(8))}"), ["'d0'"]),
            ((by_pairs,), ["groups.file"]),
            (("sections.number=9",), ["sections.number=9"]),
        ):
            line = refused(*options)
            assert all(value in line for value in values), line

    def test_documents_that_cannot_be_split_are_one_section(
        self, compare: Callable[..., Any], write: Callable[..., Path], tmp_path: Path
    ) -> None:
        made = rows(12)
        for row in made[:4]:
            del row["sections"]
            row |= {"text": "Rice and mould.", "label": f"alone {row['id']}"}
        del made[11]["label"]
        made[10]["label"] = ["g2", "g3"]
        result = compare(f"corpus.source={write('some.jsonl', made)}", "training.epochs=1")
        assert result.status == 0, result.err
        told = " ".join((result.out + result.err).split())
        assert "train: 10 left out: 2 without one label" in told
        entries = [entry for entry in log_of(tmp_path / "run") if "loss" in entry]
        assert max(entry["skipped_anchors"] for entry in entries) > 0

    def test_a_batch_without_any_positive_changes_nothing(
        self, compare: Callable[..., Any], write: Callable[..., Path], tmp_path: Path
    ) -> None:
        """Most documents are alone and of one passage, so that some batches hold no others."""
        made: list[dict[str, Any]] = [{"id": f"d{n}", "text": "Rice and mould.", "label": str(n)} for n in range(40)]
        made += rows(2)
        result = compare(f"corpus.source={write('alone.jsonl', made)}", "training.batch_size=8", "training.epochs=1",
                         "training.warmup=0")  # fmt: skip
        assert result.status == 0, result.err
        entries = [entry for entry in log_of(tmp_path / "run") if "loss" in entry]
        without = [entry for entry in entries if entry["without_positives"] == 1]
        assert without
        assert {entry["loss"] for entry in without} == {0.0}
        assert {entry["grad_norm"] for entry in without} == {0.0}
