"""graphdoc finetune classify."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpus_examples import write_rows
from training_runs import corpus_of, refusal, results_of, told, write_config
from typed import Backbones

from graphdoc import DocumentEncoder, read_documents
from graphdoc.evaluation import ClassificationEvaluator

Classify = Callable[..., Any]
WORDS = {"rice": "rice mould steam grain koji", "tide": "tide marsh flood silt wall"}
FEW = ("training.max_steps=1", "validation.share=0")


def rows(count: int = 40, **changes: Any) -> list[dict[str, Any]]:
    """Documents of two classes in turns; a change is a value, or made of the number of a document."""
    draw = np.random.default_rng(0)
    made: list[dict[str, Any]] = []
    for number in range(count):
        label = list(WORDS)[number % 2]
        text = [f"{' '.join(draw.permutation(WORDS[label].split()))}." for _ in range(int(draw.integers(2, 9)))]
        made.append({"id": f"d{number}", "text": " ".join(text), "label": label})
        made[-1] |= {name: value(number) if callable(value) else value for name, value in changes.items()}
    return made


@pytest.fixture
def classify(graphdoc: Callable[..., Any], backbone_folder: Backbones, tmp_path: Path) -> Classify:
    """Trains a tiny model on rows, or on a folder: ``classify(rows(), "training.epochs=2")``."""
    settings = {"projection_size": 16, "graph_heads": 2, "graph_layers": 1, "passage_words": 10}
    training, share = {"epochs": 6, "padding": 0.5}, {"share": 0.2}
    config = write_config(tmp_path, "unset", backbone_folder("roberta"), settings, training=training, validation=share)

    def run(source: Path | list[dict[str, Any]], *arguments: str) -> Any:
        if isinstance(source, list):
            source = write_rows(tmp_path / "letters.jsonl", source)
        command = ("finetune", "classify", "--config", config, "--device", "cpu", f"corpus.source={source}")
        return graphdoc(*command, *arguments)

    return run


@pytest.mark.parametrize("tune", ["full", "frozen"])
def test_a_trained_model_predicts_what_it_was_taught(classify: Classify, tmp_path: Path, tune: str) -> None:
    told(classify(rows(), f"model.tune={tune}", "training.epochs=10"))
    found = corpus_of(tmp_path / "run")
    assert (found["classes"], found["train"], found["validation"]) == ({"rice": 16, "tide": 16}, 32, 8)
    assert results_of(tmp_path / "run")["after"]["accuracy"] == 1.0
    encoder = DocumentEncoder.from_pretrained(tmp_path / "run" / "model", device="cpu")
    assert encoder.model.config.labels == ["rice", "tide"]
    documents = list(read_documents(tmp_path / "letters.jsonl"))
    given = [prediction.labels for prediction in encoder.predict(documents)]
    assert np.mean([names == (document.label,) for names, document in zip(given, documents, strict=True)]) > 0.9


def test_parts_and_classes_are_those_of_fields_and_folders(classify: Classify, tmp_path: Path) -> None:
    splits = ["train", "Train", "training", ""] * 5 + ["dev"] * 10 + ["test", " TEST"] * 5
    made = rows(split=lambda number: splits[number])
    made[21]["label"] = "moss"
    del made[3]["label"]
    assert "1 moss" in told(classify(made, "training.epochs=1"))
    found = corpus_of(tmp_path / "run")
    assert (found["classes"], found["validation"]) == ({"rice": 10, "tide": 9}, 10)
    assert sorted(filter(None, found["left_out"].values())) == [1, 10]
    for row in rows(16):
        path = tmp_path / "classes" / row["label"] / f"{row['id']}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(row["text"])
    output = tmp_path / "folders"
    told(classify(tmp_path / "classes", "corpus.label_from=folder", "training.epochs=1", f"output={output}"))
    assert (corpus_of(output)["classes"], corpus_of(output)["validation"]) == ({"rice": 7, "tide": 7}, 2)


def test_what_is_measured_meanwhile_is_what_the_trained_model_gives(classify: Classify, tmp_path: Path) -> None:
    made = rows(split=lambda number: "dev" if number % 4 == 3 else "train")
    # Copies in both parts, and the same id for another document.
    made += [{**made[3], "split": "train"}, {**made[4], "split": "dev"}, {**made[7], "id": "d3", "text": "Rice."}]
    changes = ("corpus.deduplicate=false", "corpus.max_passages=1", "model.tune=frozen", "training.epochs=1")
    told(classify(made, *changes, "model.settings.max_passages=null"))
    measured = results_of(tmp_path / "run")["after"]
    encoder = DocumentEncoder.from_pretrained(tmp_path / "run" / "model", device="cpu")
    read = read_documents(tmp_path / "letters.jsonl", unique_ids=False)
    documents = [one for one in read if one.metadata["split"] == "dev"]
    assert len(documents) == 12
    assert measured == pytest.approx(ClassificationEvaluator(documents)(encoder), abs=1e-5)
    # What is trained on is less.
    short = DocumentEncoder.from_pretrained(tmp_path / "run" / "model", device="cpu", max_passages=1)
    assert measured["loss"] != pytest.approx(ClassificationEvaluator(documents)(short)["loss"], abs=1e-4)


def test_a_share_that_is_no_document_is_said(classify: Classify, tmp_path: Path) -> None:
    said = told(classify(rows(8), "training.max_steps=1"))
    assert "validation.share=0.2" in said and "0.25" in said
    told(classify(rows(8), "training.max_steps=1", "validation.share=0.25", f"output={tmp_path / 'measured'}"))
    assert "after" in results_of(tmp_path / "measured") and "after" not in results_of(tmp_path / "run")


def test_any_number_of_classes(classify: Classify, tmp_path: Path) -> None:
    options = ("labels.multi_label=true", "labels.class_weights=balanced", "validation.best=micro_f1")
    told(classify(rows(label=lambda number: [list(WORDS)[number % 2], "text"]), *options))
    config = DocumentEncoder.from_pretrained(tmp_path / "run" / "model", device="cpu").model.config
    assert config.labels == ["rice", "text", "tide"] and config.multi_label
    assert results_of(tmp_path / "run")["after"]["micro_f1"] > 0.9


@pytest.mark.parametrize(
    ("made", "options", "values"),
    [
        (rows(6, label=None), (), ["corpus.columns.label", "corpus.label_from"]),
        (rows(6, label=lambda n: [["a", "b"], [], None][(n > 2) + (n > 4)]), (), ["5 ", "1 ", "labels.multi_label"]),
        (rows(6, label="rice"), (), ["rice"]),
        (rows(6), ("corpus.label_from=folder",), ["corpus.label_from"]),
        (rows(6), ("labels.multi_lable=true",), ["labels.multi_label"]),
        (rows(6), ("model.lora_rank=0",), ["model.lora_rank=0"]),
        (rows(12)[4:] + rows(4, label="moss", split="dev"), (), ["rice, tide", "moss"]),
        (
            rows(12)[4:] + rows(4, label=["rice", "moss"], split="dev"),
            ("labels.multi_label=true", "validation.best=loss"),
            ["validation.best=loss"],
        ),
        (rows(12), ("training.learning_rate=1e22", "training.warmup_steps=0", "training.save_steps=1"), ["NaN"]),
    ],
    ids=["none", "several", "one", "folders", "name", "bounds", "unknown", "loss of unknown", "diverges"],
)
def test_bad_input(
    classify: Classify, tmp_path: Path, made: list[Any], options: tuple[str, ...], values: list[str]
) -> None:
    line = refusal(classify(made, *options))
    assert all(value in line for value in values), line
    assert made != rows(6, label=None) or not [*tmp_path.rglob("manifest.json")], "documents are cut in vain"


def test_labels_that_training_does_not_have_are_measured_without_a_loss(classify: Classify, tmp_path: Path) -> None:
    made = rows(12)[4:] + rows(4, label=["rice", "moss"], split="dev")
    told(classify(made, "labels.multi_label=true", "training.max_steps=1"))
    after = results_of(tmp_path / "run")["after"]
    assert "macro_f1" in after and "loss" not in after


def test_a_run_does_not_go_on_with_other_labels_or_a_damaged_state(classify: Classify, tmp_path: Path) -> None:
    told(classify(rows(12), *FEW))
    # The same documents once more, written later: stored anew, and the same.
    told(classify(rows(12), *FEW, "--resume"))
    made = rows(12)
    for changed, value in (({"d0": "moss"}, "classes."), ({"d0": "tide", "d1": "rice"}, "labels_hash")):
        other = [{**row, "label": changed.get(row["id"], row["label"])} for row in made]
        line = refusal(classify(other, *FEW, "--resume"))
        assert str(tmp_path / "run") in line and value in line
    state = tmp_path / "run" / "checkpoint-1" / "trainer_state.json"
    state.write_text("{")
    assert str(state.parent) in refusal(classify(made, *FEW, "--resume"))
    state.unlink()
    assert str(state) in refusal(classify(made, *FEW, "--resume"))
