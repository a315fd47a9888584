from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from graphdoc import DocumentEncoder, read_documents
from graphdoc.evaluation import ClassificationEvaluator
from graphdoc.training import step as cached_step

WORDS = {"rice": "rice mould steam grain koji", "tide": "tide marsh flood silt wall"}


def text_of(name: str, draw: np.random.Generator) -> str:
    return " ".join(f"{' '.join(draw.permutation(WORDS[name].split()))}." for _ in range(int(draw.integers(2, 9))))


def rows(count: int = 40, *, several: bool = False) -> list[dict[str, Any]]:
    draw = np.random.default_rng(0)
    made = []
    for number in range(count):
        name = list(WORDS)[number % 2]
        label: Any = [name, "text"] if several else name
        made.append({"id": f"d{number}", "text": text_of(name, draw), "label": label})
    return made


@pytest.fixture
def corpus(tmp_path: Path) -> Callable[..., Path]:
    """Writes rows as JSON Lines: ``corpus(rows())``."""

    def write(lines: list[dict[str, Any]]) -> Path:
        path = tmp_path / "letters.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in lines), encoding="utf-8")
        return path

    return write


@pytest.fixture
def classify(
    graphdoc: Callable[..., Any], backbone_folder: Callable[[str], Path], tmp_path: Path
) -> Callable[..., Any]:
    """Trains a tiny model: ``classify(source, "training.epochs=2")``."""
    config = tmp_path / "config.yaml"
    settings = {"pooling": "mean", "projection_size": 16, "graph_heads": 2, "graph_layers": 1, "passage_words": 10}
    values = {
        "corpus": {"source": "unset", "preparing_processes": 1, "cache": str(tmp_path / "cache")},
        "model": {"start": str(backbone_folder("roberta")), "settings": settings},
        "training": {
            "batch_size": 8, "epochs": 6, "learning_rate": 5e-3, "padding": 0.5, "loading_processes": 0, "log_steps": 1
        },
        "validation": {"share": 0.2},
        "output": str(tmp_path / "run"),
    }  # fmt: skip
    config.write_text(yaml.safe_dump(values), encoding="utf-8")

    def run(source: Path, *arguments: str) -> Any:
        return graphdoc(
            *("finetune", "classify", "--config", config, "--device", "cpu", f"corpus.source={source}"), *arguments
        )

    return run


@pytest.mark.parametrize("tune", ["full", "frozen"])
def test_a_trained_model_predicts_what_it_was_taught(
    classify: Callable[..., Any], corpus: Callable[..., Path], tmp_path: Path, tune: str
) -> None:
    source = corpus(rows())
    result = classify(source, f"model.tune={tune}", "training.epochs=10")
    assert result.status == 0, result.err
    assert "classes: 16 rice, 16 tide\ntrain: 32\nvalidation: 8" in result.out
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["after"]["accuracy"] == 1.0
    encoder = DocumentEncoder.from_pretrained(tmp_path / "run" / "model", device="cpu")
    assert encoder.model.config.labels == ["rice", "tide"]
    documents = list(read_documents(source))
    predictions = encoder.predict(documents)
    given = [prediction.labels for prediction in predictions]
    assert np.mean([names == (document.label,) for names, document in zip(given, documents, strict=True)]) > 0.9
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    assert "Classification of documents" in card


def test_documents_name_their_part_by_the_field_split(
    classify: Callable[..., Any], corpus: Callable[..., Path]
) -> None:
    made = rows()
    splits = ["train", "Train", "training", ""] * 5 + ["dev"] * 10 + ["test", " TEST"] * 5
    for row, split in zip(made, splits, strict=True):
        row["split"] = split
    made[21]["label"] = "moss"
    del made[3]["label"]
    result = classify(corpus(made), "training.epochs=1")
    assert result.status == 0, result.err
    told = result.out + result.err
    assert "train: 19\nvalidation: 10\nmeasured with unknown labels: 1 moss\n" in told
    assert "left out: 1 without a label, 10 whose split is test" in told


def test_what_is_measured_meanwhile_is_what_the_trained_model_gives(
    classify: Callable[..., Any], corpus: Callable[..., Path], tmp_path: Path
) -> None:
    made = rows()
    for number, row in enumerate(made):
        row["split"] = "dev" if number % 4 == 3 else "train"
    # Copies in both parts, and the same id for another document.
    made += [{**made[3], "split": "train"}, {**made[4], "split": "dev"}, {**made[7], "id": "d3", "text": "Rice."}]
    source = corpus(made)
    changes = ("corpus.deduplicate=false", "corpus.max_passages=1", "model.tune=frozen", "training.epochs=1")
    result = classify(source, *changes, "model.settings.max_passages=null")
    assert result.status == 0, result.err
    measured = json.loads((tmp_path / "run" / "results.json").read_text())["after"]
    encoder = DocumentEncoder.from_pretrained(tmp_path / "run" / "model", device="cpu")
    documents = [one for one in read_documents(source, unique_ids=False) if one.metadata["split"] == "dev"]
    assert len(documents) == 12
    assert measured == pytest.approx(ClassificationEvaluator(documents)(encoder), abs=1e-5)
    # What is trained on is less.
    short = DocumentEncoder.from_pretrained(tmp_path / "run" / "model", device="cpu", max_passages=1)
    assert measured["loss"] != pytest.approx(ClassificationEvaluator(documents)(short)["loss"], abs=1e-4)


def test_any_number_of_classes(classify: Callable[..., Any], corpus: Callable[..., Path], tmp_path: Path) -> None:
    options = ("labels.multi_label=true", "labels.class_weights=balanced", "validation.best=micro_f1")
    result = classify(corpus(rows(several=True)), *options)
    assert result.status == 0, result.err
    config = DocumentEncoder.from_pretrained(tmp_path / "run" / "model", device="cpu").model.config
    assert config.labels == ["rice", "text", "tide"] and config.multi_label
    assert json.loads((tmp_path / "run" / "results.json").read_text())["after"]["micro_f1"] > 0.9


def test_one_folder_per_class(classify: Callable[..., Any], tmp_path: Path) -> None:
    for row in rows(16):
        path = tmp_path / "classes" / row["label"] / f"{row['id']}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(row["text"])
    result = classify(tmp_path / "classes", "corpus.label_from=folder", "training.epochs=1")
    assert "classes: 7 rice, 7 tide\ntrain: 14\nvalidation: 2\n" in result.out


def test_a_run_that_was_interrupted_ends_as_if_nothing_had_been(
    classify: Callable[..., Any], corpus: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = corpus(rows())
    options = ("training.epochs=2", "training.save_steps=3", "labels.dropout=0.3")
    assert classify(source, *options, f"output={tmp_path / 'whole'}").status == 0
    original, calls = cached_step.CachedStep.__call__, 0

    def failing(self: Any, batch: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 6:
            raise KeyboardInterrupt
        return original(self, batch)

    monkeypatch.setattr(cached_step.CachedStep, "__call__", failing)
    assert classify(source, *options).status != 0
    monkeypatch.undo()
    assert classify(source, *options, "--resume").status == 0
    files = [tmp_path / run / "model" / "model.safetensors" for run in ("whole", "run")]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert calls == 6


class TestBadInput:
    def refused(self, result: Any) -> str:
        assert result.status == 2, result.err
        (line,) = [line for line in result.err.splitlines() if line.startswith("graphdoc finetune")]
        return str(line)

    @pytest.mark.parametrize(
        ("labels", "options", "values"),
        [
            ([None] * 6, (), ["corpus.columns.label", "corpus.label_from"]),
            ([["a", "b"]] * 3 + [[]] * 2 + [None], (), ["5 ", "1 ", "labels.multi_label=true"]),
            (["rice"] * 6, (), ["rice"]),
            (["rice", "tide"] * 3, ("corpus.label_from=folder",), ["corpus.label_from"]),
            (["rice", "tide"] * 3, ("labels.multi_lable=true",), ["labels.multi_label"]),
            (["rice", "tide"] * 3, ("model.lora_rank=0",), ["model.lora_rank=0"]),
        ],
        ids=["none", "several", "one", "folders", "name", "bounds"],
    )
    def test_labels_and_settings_that_cannot_be(
        self,
        classify: Callable[..., Any],
        corpus: Callable[..., Path],
        labels: list[Any],
        options: tuple[str, ...],
        values: list[str],
    ) -> None:
        made = [{**row, "label": label} for row, label in zip(rows(6), labels, strict=True)]
        told = self.refused(classify(corpus(made), *options))
        assert all(value in told for value in values)

    def test_a_model_that_diverges_is_reported_before_it_is_measured(
        self, classify: Callable[..., Any], corpus: Callable[..., Path]
    ) -> None:
        options = ("training.learning_rate=1e22", "training.warmup=0", "training.save_steps=1")
        result = classify(corpus(rows(12)), *options)
        line = self.refused(result)
        assert "NaN" in line
        assert "RuntimeWarning" not in result.err

    def test_labels_to_measure_that_training_does_not_have(
        self, classify: Callable[..., Any], corpus: Callable[..., Path], tmp_path: Path
    ) -> None:
        made = [{**row, "split": "dev", "label": "moss"} if n < 4 else row for n, row in enumerate(rows(12))]
        line = self.refused(classify(corpus(made)))
        assert "rice, tide" in line and "moss" in line
        several = [{**row, "label": [row["label"]]} for row in rows(12)]
        for row in several[:4]:
            row |= {"split": "dev", "label": [*row["label"], "moss"]}
        options = ("labels.multi_label=true", "training.max_steps=1")
        line = self.refused(classify(corpus(several), *options, "validation.best=loss"))
        assert "validation.best=loss" in line
        assert classify(corpus(several), *options).status == 0
        after = json.loads((tmp_path / "run" / "results.json").read_text())["after"]
        assert "macro_f1" in after
        assert "loss" not in after

    def test_going_on_with_other_documents(
        self, classify: Callable[..., Any], corpus: Callable[..., Path], tmp_path: Path
    ) -> None:
        options = ("training.max_steps=1", "validation.share=0")
        source = corpus(rows(12))
        assert classify(source, *options).status == 0
        # The same documents once more, written later: stored anew, and the same.
        corpus([{**row} for row in rows(12)])
        assert classify(source, *options, "--resume").status == 0
        corpus([{**row, "label": "moss"} if row["id"] == "d0" else row for row in rows(12)])
        line = self.refused(classify(source, *options, "--resume"))
        assert str(tmp_path / "run") in line and "classes." in line
        # Two documents change their classes, and all counts are as they were.
        swapped = {"d0": rows(12)[1]["label"], "d1": rows(12)[0]["label"]}
        assert swapped["d0"] != swapped["d1"]
        corpus([{**row, "label": swapped.get(row["id"], row["label"])} for row in rows(12)])
        assert "labels_hash" in self.refused(classify(source, *options, "--resume"))
        corpus(rows(12))
        state = tmp_path / "run" / "checkpoint-1" / "trainer_state.json"
        state.write_text("{")
        assert str(state.parent) in self.refused(classify(source, *options, "--resume"))
        state.unlink()
        assert str(state) in self.refused(classify(source, *options, "--resume"))
