"""Runs that learn subtopics: what they leave, how they go on, how the model is used, and what they refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from corpus_examples import write_rows
from safetensors.torch import load_file

from graphdoc import DocumentEncoder
from graphdoc.cli import main
from graphdoc.errors import EvaluationError, SettingsError
from graphdoc.losses import PairedSentences, SubtopicLoss
from graphdoc.recipes.subtopics import SubtopicRecipe
from graphdoc.runtime.processes import Processes
from graphdoc.settings.finetuning import SubtopicRunSettings
from graphdoc.settings.loading import load_settings
from graphdoc.training.run import RunContext, load_start
from graphdoc.training.step import CachedStep

CONFIG = Path(__file__).parents[2] / "configs" / "finetune" / "subtopics.yaml"
WORDS = {
    "rice": ["rice", "koji", "mould", "steam", "malt", "barley", "soya", "brine"],
    "tide": ["tide", "marsh", "flood", "dike", "sluice", "barrier", "storm", "sea"],
}


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
def overrides(backbone_folder: Callable[[str], Path], tmp_path: Path) -> list[str]:
    """Settings of a quick run on all pairs of eight documents; those of the same subject are similar."""
    pairs = [(a, b) for a in range(8) for b in range(a + 1, 8)]
    lines = [f"d{a}\td{b}\t{int((a - b) % 2 == 0)}\n" for a, b in pairs]
    (tmp_path / "pairs.tsv").write_text("".join(lines), encoding="utf-8")
    return [
        f"corpus.source={write_rows(tmp_path / 'corpus.jsonl', documents())}", f"corpus.cache={tmp_path / 'cache'}",
        "corpus.preparing_processes=1", "corpus.max_passages=12", f"model.start={backbone_folder('bert')}",
        f"pairs.file={tmp_path / 'pairs.tsv'}", "subtopics.cluster_size=4", "subtopics.neighbours=5",
        "training.batch_size=8", "training.epochs=2", "training.loading_processes=0", "training.log_steps=1",
    ]  # fmt: skip


@pytest.fixture
def finetune(overrides: list[str], tmp_path: Path) -> Callable[..., int]:
    """Runs the command: ``finetune("name", "loss.dissimilar_weight=10")``."""

    def run(name: str, *options: str) -> int:
        arguments = ["finetune", "subtopics", "--config", str(CONFIG), "--device", "cpu", *overrides]
        return main([*arguments, f"output={tmp_path / name}", *options])

    return run


def start_of(overrides: list[str], *options: str) -> RunContext[SubtopicRunSettings]:
    settings = load_settings(SubtopicRunSettings, CONFIG, [*overrides, *options])
    device = torch.device("cpu")
    return RunContext(settings, load_start(settings.model, device, "cosine"), Processes(device))


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_a_run_leaves_a_model_that_finds_subtopics(finetune: Callable[..., int], tmp_path: Path, capsys: Any) -> None:
    assert finetune("run", f"validation.pairs={tmp_path / 'pairs.tsv'}") == 0
    assert "14 sentences beyond corpus.max_passages" in capsys.readouterr().out
    results = read(tmp_path / "run" / "results.json")
    names = {"loss", "auc", "modularity", "collapse", "similar_divergence", "dissimilar_orthogonality"}
    assert names < results["before"].keys() == results["after"].keys()
    assert results["after"]["loss"] < results["before"]["loss"]
    record = read(tmp_path / "run" / "record.json")["corpus"]
    assert (record["pairs"], record["similar"], record["train"]) == (28, 12, 8)

    folder = tmp_path / "run" / "model"
    encoder = DocumentEncoder.from_pretrained(folder, device="cpu")
    config = encoder.model.config
    # Twice 12 sentences in subtopics of 4.
    assert config.subtopics == {"columns": 6, "neighbours": 5, "receptive_field": 12, "cluster_size": 4}
    assert (config.unit, config.trained) == ("sentence", False)
    first, second = (row["text"] for row in documents()[:2])
    table = encoder.compare(
        first, second, subtopics="adaptive", subtopic_model=folder, cluster_size=4, receptive_field=12
    ).subtopics
    assert table is not None
    assert 1 <= len(table.rows) <= 6
    assert sum(len(row.a) + len(row.b) for row in table.rows) == 24
    turned = encoder.compare(
        second, first, subtopics="adaptive", subtopic_model=folder, cluster_size=4, receptive_field=12
    ).subtopics
    assert turned is not None
    assert {(row.a, row.b) for row in table.rows} == {(row.b, row.a) for row in turned.rows}


def test_document_vectors_stay_the_mean_of_the_sentences(finetune: Callable[..., int], tmp_path: Path) -> None:
    assert finetune("run") == 0
    encoder = DocumentEncoder.from_pretrained(tmp_path / "run" / "model", device="cpu")
    text = documents()[0]["text"]
    (_, sentences), *_ = encoder.stream([text], level="sentence")
    np.testing.assert_allclose(encoder.encode([text])[0], sentences.mean(0).numpy(), atol=1e-5)
    assert encoder.encode([text]).shape == (1, 24)
    assert encoder.compare(text, documents()[1]["text"]).passages.shape == (14, 14)
    with pytest.raises(SettingsError, match="--subtopics"):
        encoder.attention(text)


def test_a_model_is_trained_on(finetune: Callable[..., int], tmp_path: Path) -> None:
    assert finetune("run") == 0
    before = load_file(tmp_path / "run" / "model" / "model.safetensors")
    on = f"model.start={tmp_path / 'run' / 'model'}"
    assert finetune("same", on, "training.learning_rate=1.0e-9", "model.settings={}") == 0
    for name, weight in load_file(tmp_path / "same" / "model" / "model.safetensors").items():
        torch.testing.assert_close(weight, before[name], atol=1e-6, rtol=0)
    # Another number of subtopics has a new head.
    assert finetune("other", on, "subtopics.cluster_size=3", "model.settings={}") == 0
    assert DocumentEncoder.from_pretrained(tmp_path / "other" / "model").model.config.clustering.columns == 8


def test_gradients_are_those_of_plain_autograd(overrides: list[str]) -> None:
    start = start_of(overrides)
    recipe = SubtopicRecipe(start)
    recipe.load()
    batch = next(iter(recipe.loader.batches()))
    assert batch.targets["label"].tolist() == [1] * 4 + [0] * 4
    model = start.encoder.model.eval()
    logits = model(batch.graphs).subtopics
    # The sentences of a pair are the passages of its graph, those of the first document first.
    sizes = batch.graphs.passage_counts
    places = torch.cat([torch.arange(size) for size in sizes])
    offsets = torch.tensor([sum(sizes[:number]) for number in range(len(sizes))])
    edges, weights = [], []
    for (source, target), weight in zip(
        batch.graphs.edge_index.T.tolist(), batch.graphs.edge_weights.tolist(), strict=True
    ):
        if source != target:
            pair = int(batch.graphs.document_of[source])
            edges.append((source - pair - 1, target - pair - 1))
            weights.append(weight)
            assert offsets[pair] <= source - pair - 1 < offsets[pair] + sizes[pair]
    sentences = PairedSentences(
        torch.repeat_interleave(torch.arange(8), torch.tensor(sizes)),
        batch.graphs.section_of[batch.graphs.section_of >= 0] == 1,
        batch.targets["columns"],
        torch.tensor(edges).T,
        torch.tensor(weights),
    )
    assert len(places) == len(logits)
    expected_loss = SubtopicLoss()(logits, sentences, batch.targets["label"]).loss
    expected_loss.backward()
    expected = {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}
    assert {"subtopic_head.linear.weight", "graph.layers.0.conv.lin.weight"} <= expected.keys()
    for graph_numbers in (None, 1):
        model.zero_grad()
        found = CachedStep(model, recipe.objective, graph_numbers=graph_numbers)(batch)
        torch.testing.assert_close(found.loss, expected_loss.detach())
        for name, gradient in expected.items():
            own = dict(model.named_parameters())[name].grad
            assert own is not None
            torch.testing.assert_close(own, gradient, rtol=1e-4, atol=1e-6)


def test_what_is_measured_is_what_the_loss_gives(overrides: list[str], tmp_path: Path) -> None:
    start = start_of(overrides, f"validation.pairs={tmp_path / 'pairs.tsv'}", "training.batch_size=32")
    recipe = SubtopicRecipe(start)
    assert recipe.evaluation is not None
    recipe.load()
    start.encoder.model.eval()
    measured = recipe.evaluation.measure()
    batch = next(iter(recipe.loader.batches()))
    trained = CachedStep(start.encoder.model, recipe.objective).measure(batch)
    # 16 pairs that are not similar are all in the batch, and 12 that are, four of them twice.
    assert float(trained.metrics["dissimilar_orthogonality"]) == pytest.approx(measured["dissimilar_orthogonality"])
    assert float(trained.metrics["dissimilar_shared"]) == pytest.approx(measured["dissimilar_shared"], rel=1e-5)
    assert 0 <= measured["auc"] <= 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["model.settings.graph_layers=0"], ["graph_layers=0", "1 or more"]),
        (["model.settings.readout=mean"], ["readout=mean", "initial_mean"]),
        (["pairs.file=nowhere.tsv"], ["nowhere.tsv"]),
        (["training.batch_size=7"], ["7 pairs"]),
        (["validation.pairs=dev.tsv", "validation.best=f1"], ["validation.best='f1'", "auc"]),
        (["validation.pairs=nowhere.tsv"], ["nowhere.tsv"]),
    ],
)
def test_what_cannot_be_trained_on_is_refused(
    finetune: Callable[..., int], capsys: pytest.CaptureFixture[str], options: list[str], words: list[str]
) -> None:
    assert finetune("run", *options) == 2
    message = capsys.readouterr().err.strip().splitlines()[-1]
    assert all(word in message for word in words), message


def test_labels_all_alike_are_refused(overrides: list[str], tmp_path: Path) -> None:
    (tmp_path / "alike.tsv").write_text("d0\td2\t1\nd1\td3\t1\n", encoding="utf-8")
    for setting in ("pairs.file", "validation.pairs"):
        with pytest.raises(EvaluationError, match="both labels"):
            SubtopicRecipe(start_of(overrides, f"{setting}={tmp_path / 'alike.tsv'}"))


def test_unknown_documents_stop_a_run_or_are_counted(
    finetune: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "some.tsv"
    path.write_text("d0\td2\t1\nd1\td0\t0\nd1\tnobody\t0\nd3\td3\t1\n", encoding="utf-8")
    assert finetune("run", f"pairs.file={path}") == 2
    message = capsys.readouterr().err.strip().splitlines()[-1]
    assert "some.tsv:3" in message and "nobody" in message and "pairs.unknown=leave_out" in message
    assert finetune("run", f"pairs.file={path}", "pairs.unknown=leave_out") == 0
    assert "1 of unknown documents, 1 with themselves" in capsys.readouterr().out
