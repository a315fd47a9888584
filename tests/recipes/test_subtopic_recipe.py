"""Runs that learn subtopics: what they leave, how they go on, how the model is used, and what they refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from corpus_examples import context_of, write_rows
from safetensors.torch import load_file
from typed import Backbones
from view_examples import WORDS, write_pairs

from graphdoc import DocumentEncoder
from graphdoc.cli import main
from graphdoc.errors import GraphdocError, SettingsError
from graphdoc.recipes.subtopics import SubtopicRecipe
from graphdoc.settings.finetuning import SubtopicRunSettings
from graphdoc.settings.loading import load_settings
from graphdoc.training.run import RunContext
from graphdoc.training.step import CachedStep

CONFIG = Path(__file__).parents[2] / "configs" / "finetune" / "subtopics.yaml"


def documents(count: int = 8) -> list[dict[str, Any]]:
    """Documents of 14 sentences, the last of one; those of even number are about rice, others about tides."""
    draw = np.random.default_rng(0)
    found = []
    for number in range(count):
        own = list(WORDS.values())[number % 2]
        sentences = [f"The {' and '.join(draw.choice(own, 3))} are here." for _ in range(14)]
        found.append({"id": f"d{number}", "text": " ".join(sentences[: 1 if number == count - 1 else None])})
    return found


@pytest.fixture
def overrides(backbone_folder: Backbones, tmp_path: Path) -> list[str]:
    """Settings of a quick run on all pairs of eight documents; those of the same subject are similar."""
    return [
        f"corpus.source={write_rows(tmp_path / 'corpus.jsonl', documents())}", f"corpus.cache={tmp_path / 'cache'}",
        "corpus.preparing_processes=1", "corpus.max_passages=12", f"model.start={backbone_folder('bert')}",
        f"pairs.file={write_pairs(tmp_path)}", "subtopics.cluster_size=4", "subtopics.neighbours=5",
        "training.batch_size=8", "training.epochs=2", "training.dataloader_num_workers=0", "training.logging_steps=1",
    ]  # fmt: skip


@pytest.fixture
def finetune(overrides: list[str], tmp_path: Path) -> Callable[..., int]:
    """Runs the command: ``finetune("name", "loss.dissimilar_weight=10")``."""
    arguments = ["finetune", "subtopics", "--config", str(CONFIG), "--device", "cpu", *overrides]
    return lambda name, *options: main([*arguments, f"output={tmp_path / name}", *options])


def start_of(overrides: list[str], *options: str) -> RunContext[SubtopicRunSettings]:
    return context_of(load_settings(SubtopicRunSettings, CONFIG, [*overrides, *options]))


def test_a_run_leaves_a_model_that_finds_subtopics(finetune: Callable[..., int], tmp_path: Path, capsys: Any) -> None:
    assert finetune("run", f"validation.pairs={tmp_path / 'pairs.tsv'}") == 0
    assert "14 sentences beyond corpus.max_passages" in capsys.readouterr().out
    run = tmp_path / "run"
    results, record = (json.loads((run / f"{name}.json").read_text(encoding="utf-8")) for name in ("results", "record"))
    names = {"loss", "auc", "modularity", "collapse", "similar_divergence", "dissimilar_orthogonality"}
    assert names < results["before"].keys() == results["after"].keys()
    assert results["after"]["loss"] < results["before"]["loss"]
    assert {"pairs": 28, "similar": 12, "train": 8}.items() <= record["corpus"].items()

    folder = tmp_path / "run" / "model"
    encoder = DocumentEncoder.from_pretrained(folder, device="cpu")
    config = encoder.model.config
    # Twice 12 sentences in subtopics of 4.
    assert config.subtopics == {"columns": 6, "neighbours": 5, "receptive_field": 12, "cluster_size": 4}
    assert (config.unit, config.trained) == ("sentence", False)
    first, second = (row["text"] for row in documents()[:2])
    options: Any = {"subtopics": "adaptive", "subtopic_model": folder, "cluster_size": 4, "receptive_field": 12}
    table, turned = (encoder.compare(*pair, **options).subtopics for pair in ((first, second), (second, first)))
    assert table is not None and turned is not None
    assert 1 <= len(table.rows) <= 6
    assert sum(len(row.a) + len(row.b) for row in table.rows) == 24
    assert {(row.a, row.b) for row in table.rows} == {(row.b, row.a) for row in turned.rows}
    # Document vectors stay the mean of the sentences.
    (_, sentences), *_ = encoder.stream([first], level="sentence")
    np.testing.assert_allclose(encoder.encode([first])[0], sentences.mean(0).numpy(), atol=1e-5)
    assert encoder.encode([first]).shape == (1, 24) and encoder.compare(first, second).passages.shape == (14, 14)
    with pytest.raises(SettingsError, match="--subtopics"):
        encoder.attention(first)

    # The model is trained on; another number of subtopics has a new head.
    before, on = load_file(folder / "model.safetensors"), (f"model.start={folder}", "model.settings={}")
    assert finetune("same", *on, "training.learning_rate=1.0e-9") == 0
    for name, weight in load_file(tmp_path / "same" / "model" / "model.safetensors").items():
        torch.testing.assert_close(weight, before[name], atol=1e-6, rtol=0)
    assert finetune("other", *on, "subtopics.cluster_size=3") == 0
    assert DocumentEncoder.from_pretrained(tmp_path / "other" / "model").model.config.clustering.columns == 8


def test_what_is_measured_is_what_the_loss_gives(overrides: list[str], tmp_path: Path) -> None:
    start = start_of(overrides, f"validation.pairs={tmp_path / 'pairs.tsv'}", "training.batch_size=32")
    recipe = SubtopicRecipe.from_run(start)
    assert recipe.evaluation is not None
    recipe.load()
    start.encoder.model.eval()
    measured = recipe.evaluation.measure()
    trained = CachedStep(start.encoder.model, recipe.objective).measure(next(iter(recipe.loader.batches())))
    # 16 pairs that are not similar are all in the batch, and 12 that are, four of them twice.
    assert float(trained.metrics["dissimilar_orthogonality"]) == pytest.approx(measured["dissimilar_orthogonality"])
    assert float(trained.metrics["dissimilar_shared"]) == pytest.approx(measured["dissimilar_shared"], rel=1e-5)
    assert 0 <= measured["auc"] <= 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["model.settings.graph_layers=0"], ["graph_layers=0"]),
        (["model.settings.readout=mean"], ["readout=mean", "initial_mean"]),
        (["pairs.file=nowhere.tsv"], ["nowhere.tsv"]),
        (["training.batch_size=7"], ["7 pairs"]),
        (["validation.pairs=dev.tsv", "validation.best=f1"], ["validation.best='f1'", "auc"]),
        (["validation.pairs=nowhere.tsv"], ["nowhere.tsv"]),
        (["pairs.file={folder}/alike.tsv"], ["alike.tsv"]),
        (["validation.pairs={folder}/alike.tsv"], ["alike.tsv"]),
    ],
)
def test_what_cannot_be_trained_on_is_refused(
    overrides: list[str], tmp_path: Path, options: list[str], words: list[str]
) -> None:
    (tmp_path / "alike.tsv").write_text("d0\td2\t1\nd1\td3\t1\n", encoding="utf-8")
    with pytest.raises(GraphdocError) as error:
        SubtopicRecipe.from_run(start_of(overrides, *(option.format(folder=tmp_path) for option in options)))
    assert all(word in str(error.value) for word in words), str(error.value)


def test_unknown_documents_stop_a_run_or_are_counted(overrides: list[str], tmp_path: Path) -> None:
    path = tmp_path / "some.tsv"
    path.write_text("d0\td2\t1\nd1\td0\t0\nd1\tnobody\t0\nd3\td3\t1\n", encoding="utf-8")
    with pytest.raises(GraphdocError) as error:
        SubtopicRecipe.from_run(start_of(overrides, f"pairs.file={path}"))
    assert all(word in str(error.value) for word in ("some.tsv:3", "nobody", "pairs.unknown=leave_out"))
    recipe = SubtopicRecipe.from_run(start_of(overrides, f"pairs.file={path}", "pairs.unknown=leave_out"))
    assert recipe.counts()["left_out"] == {"of unknown documents": 1, "repeated": 0, "with themselves": 1}
