"""Runs on the vectors of a teacher: what they learn, how they go on, and what they refuse."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from corpus_examples import write_rows
from safetensors.torch import load_file

from graphdoc import DocumentEncoder, read_documents
from graphdoc.cli import main
from graphdoc.errors import GraphdocError
from graphdoc.recipes import distillation, teacher_vectors
from graphdoc.recipes.base import Start
from graphdoc.recipes.distillation_data import DistillationData
from graphdoc.runtime.processes import Processes
from graphdoc.settings.distillation import DistillationSettings
from graphdoc.settings.loading import load_settings
from graphdoc.training.starting_model import load_start
from graphdoc.vectors.shards import read_rows

CONFIG = Path(__file__).parents[2] / "configs" / "pretrain" / "distillation.yaml"
EncoderFactory = Callable[..., DocumentEncoder]


def rows(name: str, count: int) -> list[dict[str, Any]]:
    """Documents of two sections, of three passages of ten words and more."""
    draw = np.random.default_rng(len(name))
    words = ["rice", "mould", "tide", "log", "clock", "order", "here"]

    def text(sentences: int) -> str:
        return " ".join(f"The {' '.join(draw.choice(words, 8))} is." for _ in range(sentences))

    return [
        {"id": f"{name}{number}", "sections": [text(2 + number % 3), text(1)], "label": name}
        for number in range(count)
    ]


@pytest.fixture
def corpora(tmp_path: Path) -> tuple[Path, Path]:
    return write_rows(tmp_path / "a.jsonl", rows("a", 12)), write_rows(tmp_path / "bb.jsonl", rows("bb", 10))


@pytest.fixture
def teacher(tiny_encoder: EncoderFactory, tmp_path: Path) -> DocumentEncoder:
    """A model of other weights, another width and one graph layer, that cuts documents alike."""
    encoder = tiny_encoder("bert", passage_words=10, projection_size=16, graph_layers=1, language="en")
    encoder.save_pretrained(tmp_path / "teacher-model")
    return encoder


@pytest.fixture
def encode(teacher: DocumentEncoder, tmp_path: Path) -> Callable[..., str]:
    """Runs the command that makes a teacher's vectors: ``encode(source, "passage")``."""

    def run(source: Path, level: str = "passage", *options: str) -> str:
        folder = tmp_path / f"{source.stem}-{level}{len(options)}"
        common = ["--model", str(tmp_path / "teacher-model"), "--device", "cpu", "--dtype", "float32"]
        assert main(["encode", str(source), "--level", level, *common, "--output", str(folder), *options]) == 0
        return str(folder)

    return run


@pytest.fixture
def overrides(backbone_folder: Callable[[str], Path], corpora: tuple[Path, Path], tmp_path: Path) -> list[str]:
    return [
        f"corpus.source=[{corpora[0]}, {corpora[1]}]", f"corpus.cache={tmp_path / 'cache'}",
        "corpus.preparing_processes=1", f"model.start={backbone_folder('roberta')}", "model.tune=full",
        "model.store=whole", "model.lora={}", "model.settings.passage_words=10", "training.learning_rate=3.0e-3",
        "training.batch_size=5", "training.precision=float32", "training.log_steps=1", "training.warmup=0",
        "evaluation.held_out=0.1",
    ]  # fmt: skip


def start_of(overrides: Sequence[str]) -> Start[DistillationSettings]:
    settings = load_settings(DistillationSettings, CONFIG, overrides)
    device = torch.device("cpu")
    return Start(settings, load_start(settings.model, device, "cosine"), Processes(device))


@pytest.mark.parametrize("level", ["passage", "document"])
def test_a_run_learns_the_cosines_of_its_teacher(
    encode: Callable[..., str], overrides: list[str], corpora: tuple[Path, Path], tmp_path: Path, level: str
) -> None:
    folders = ", ".join(encode(source, level) for source in corpora)
    output = tmp_path / "run"
    arguments = ["pretrain", "--config", str(CONFIG), "--device", "cpu", *overrides, f"output={output}"]
    assert main([*arguments, f"teacher=[{folders}]", "training.epochs=10"]) == 0

    results = json.loads((output / "results.json").read_text(encoding="utf-8"))
    assert results["before"].keys() == {"loss", "cosine_error", "correlation", "embedding_norm", "spread"}
    log = [json.loads(line) for line in (output / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    losses = [entry["loss"] for entry in log if "loss" in entry]
    assert np.mean(losses[-6:]) < 0.7 * np.mean(losses[:6])
    record = json.loads((output / "record.json").read_text(encoding="utf-8"))["corpus"]
    assert (record["kept"], record["held_out"]) == (22, 4)
    student = DocumentEncoder.from_pretrained(output / "model", device="cpu")
    assert student.encode(["The rice is here."]).shape == (1, 24)


@pytest.mark.parametrize("level", ["passage", "document"])
def test_targets_are_the_vectors_of_the_rows_of_a_batch(
    encode: Callable[..., str], overrides: list[str], corpora: tuple[Path, Path], teacher: DocumentEncoder, level: str
) -> None:
    folders = [encode(source, level) for source in corpora]
    data = DistillationData(start_of([*overrides, f"teacher=[{folders[1]}, {folders[0]}]"]))
    documents = {one.id: one for source in corpora for one in read_documents(source)}
    seen = []
    for batch in [*data.loader.batches(), *data.held_out]:
        assert len({id.rstrip("0123456789") for id in batch.ids}) == 1
        expected = []
        for id in batch.ids:
            level_vectors = [vectors for _, vectors in teacher.stream([documents[id]], level=level)]  # type: ignore[arg-type]
            expected.append(level_vectors[0].reshape(-1, 16))
        found = batch.targets["teacher"]
        torch.testing.assert_close(found, torch.cat(expected).float(), atol=1e-5, rtol=0)
        assert len(found) == (len(batch.graphs.token_ids) if level == "passage" else len(batch.ids))
        seen.append(len(batch.ids))
    # Three epochs of ten and eight documents, five a batch.
    assert seen == [5] * 9 + [2, 2] and data.steps == 9


def test_a_frozen_encoder_trains_a_graph(
    encode: Callable[..., str], overrides: list[str], corpora: tuple[Path, Path]
) -> None:
    folders = ", ".join(encode(source) for source in corpora)
    settings = ["model.tune=frozen", "model.settings.graph_layers=1", "training.keep_activations=0"]
    made = distillation.recipe(start_of([*overrides, f"teacher=[{folders}]", *settings]))
    batch = next(iter(made.task.data.loader.batches()))
    assert batch.graphs.passage_vectors is not None
    assert len(batch.targets["teacher"]) == len(batch.graphs.passage_vectors)


def test_a_run_goes_on_as_if_nothing_had_been(
    encode: Callable[..., str], overrides: list[str], corpora: tuple[Path, Path], tmp_path: Path
) -> None:
    pytest.importorskip("peft")
    folders = ", ".join(encode(source) for source in corpora)
    output = tmp_path / "run"
    arguments = [
        "pretrain", "--config", str(CONFIG), "--device", "cpu", *overrides, f"output={output}",
        f"teacher=[{folders}]", "model.tune=lora", "model.lora.rank=2", "loss.temperature=0.1",
        "training.save_steps=1", "training.keep_checkpoints=9", "training.max_steps=3",
    ]  # fmt: skip
    assert main(arguments) == 0
    expected = load_file(output / "model" / "model.safetensors")
    for name in ("checkpoint-3", "checkpoint-2", "model"):
        (output / name).rename(tmp_path / f"before-{name}")

    assert main([*arguments, "--resume"]) == 0

    for name, weight in load_file(output / "model" / "model.safetensors").items():
        assert torch.equal(weight, expected[name]), name

    # Vectors of another teacher are not those that the run was begun with.
    (output / "model").rename(tmp_path / "once-more")
    other = ", ".join(encode(source, "passage", "--normalize") for source in corpora)
    assert main([*arguments, f"teacher=[{other}]", "--resume"]) != 0


@pytest.mark.parametrize(
    ("level", "changes", "options", "words"),
    [
        ("section", {}, [], ["sections", "--level passage or document"]),
        ("passage", {}, ["--max-passages", "2"], ["2 passages", "--max-passages", "corpus.max_passages"]),
        ("passage", {"drop": True}, [], ["1 document", "no vectors", "'a3'"]),
        ("passage", {"sections": ["The rice.", "A tide. " * 30]}, [], ["'a3'", "passage_words", "--level document"]),
    ],
)  # fmt: skip
def test_vectors_of_something_else_are_refused(
    encode: Callable[..., str],
    overrides: list[str],
    corpora: tuple[Path, Path],
    tmp_path: Path,
    level: str,
    changes: dict[str, Any],
    options: list[str],
    words: list[str],
) -> None:
    found = rows("a", 12)
    if changes.get("drop"):
        del found[3]
    else:
        found[3] |= changes
    source = write_rows(tmp_path / "changed.jsonl", found)
    folder = encode(source, level, *options)
    with pytest.raises(GraphdocError) as error:
        DistillationData(start_of([*overrides, f"corpus.source={corpora[0]}", f"teacher={folder}"]))
    assert all(word in str(error.value) for word in words), error.value
    assert str(error.value).isprintable()


def test_what_leaves_nothing_to_learn_is_refused(
    encode: Callable[..., str], overrides: list[str], corpora: tuple[Path, Path], tmp_path: Path
) -> None:
    folder = encode(corpora[0])
    common = [*overrides, f"corpus.source={corpora[0]}", f"teacher={folder}"]
    with pytest.raises(GraphdocError, match=r"model\.settings\.readout=attention.*--level document"):
        distillation.recipe(start_of([*common, "model.settings.readout=attention"]))
    with pytest.raises(GraphdocError, match=r"evaluation\.held_out"):
        DistillationData(start_of([*common, "evaluation.held_out=0.999"]))
    with pytest.raises(GraphdocError, match=r"not finished|no folder"):
        DistillationData(start_of([*overrides, f"teacher={tmp_path / 'nowhere'}"]))
    with pytest.raises(GraphdocError, match=r"document 'a0' is there twice"):
        DistillationData(start_of([*common, f"teacher=[{folder}, {folder}]"]))
    doubled = write_rows(tmp_path / "doubled.jsonl", [{**row, "id": "x"} for row in rows("a", 3)])
    with pytest.raises(GraphdocError, match=r"'x'.*its own"):
        DistillationData(start_of([*common, f"corpus.source={doubled}"]))


def test_vectors_that_leave_out_repeats_or_are_not_finite_are_refused(
    encode: Callable[..., str], overrides: list[str], tmp_path: Path
) -> None:
    def unfinished(path: Path) -> tuple[list[str], Any]:
        ids, vectors = read_rows(path)
        return ids, vectors * np.nan

    licence = "You may copy and change this text for any purpose, and give it to others as it is."
    found = [row | {"sections": [licence, *row["sections"]]} for row in rows("a", 12)]
    source = write_rows(tmp_path / "licensed.jsonl", found)
    own = [*overrides, f"corpus.source={source}"]
    with pytest.raises(GraphdocError, match="--repeats keep"):
        DistillationData(start_of([*own, f"teacher={encode(source)}"]))
    folder = encode(source, "passage", "--repeats", "keep")
    DistillationData(start_of([*own, f"teacher={folder}"]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(teacher_vectors, "read_rows", unfinished)
        with pytest.raises(GraphdocError, match="not finite"):
            DistillationData(start_of([*own, f"teacher={folder}"]))
