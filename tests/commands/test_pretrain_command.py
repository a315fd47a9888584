"""graphdoc pretrain: what a run writes, how it goes on, and what is refused."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpus_examples import write_rows
from safetensors.torch import load_file, save_file
from training_runs import corpus_of, cut, losses_of, refusal, results_of, same_model, told, write_config
from typed import Backbones, Folders, Patch

from graphdoc import DocumentEncoder, __version__
from graphdoc.runtime import files
from graphdoc.settings.loading import load_settings
from graphdoc.settings.pretraining import SubDocumentSettings

Pretrain = Callable[..., Any]
ONE_STEP = "training.max_steps=1"


@pytest.fixture(scope="session")
def corpus_cache(tmp_path_factory: Folders) -> Path:
    """Prepared corpora, which all tests may use again."""
    return tmp_path_factory.mktemp("corpora")


@pytest.fixture
def config(backbone_folder: Backbones, examples: Path, corpus_cache: Path, tmp_path: Path) -> Path:
    """A configuration on the example documents, six passages of each: four steps."""
    settings = {"projection_size": 16, "passage_words": 20}
    parts = {
        "corpus": {"max_passages": 6, "cache": str(corpus_cache)},
        "loss": {"similarity": "cosine", "temperature": 0.2},
        "training": {"batch_size": 4, "epochs": 2, "learning_rate": 1e-3, "padding": 0.5},
    }
    return write_config(tmp_path, examples, backbone_folder("roberta"), settings, **parts)


@pytest.fixture
def pretrain(graphdoc: Callable[..., Any], config: Path) -> Pretrain:
    """Runs the command with that configuration: ``pretrain("split=half", "--resume")``."""
    return lambda *arguments: graphdoc("pretrain", "--config", config, "--device", "cpu", *arguments)


def test_the_folder_holds_all_that_a_run_was_and_gave(
    pretrain: Pretrain, config: Path, tmp_path: Path, structured: Any
) -> None:
    told(pretrain())
    run = tmp_path / "run"
    names = {"config.yaml", "record.json", "results.json", "log.jsonl", "checkpoint-2", "checkpoint-4", "model"}
    assert {path.name for path in run.iterdir()} == names | {"curve.png", ".lock"}
    assert load_settings(SubDocumentSettings, run / "config.yaml") == load_settings(SubDocumentSettings, config)
    record, corpus = json.loads((run / "record.json").read_text(encoding="utf-8")), corpus_of(run)
    assert record["versions"]["graphdoc"] == __version__
    assert (record["seed"], record["processes"], record["device"]) == (0, 1, "cpu")
    assert (corpus["documents"], corpus["documents_cut"], corpus["held_out"]) == (11, 11, 0)
    assert record["trained_weights"] == record["weights"] > 0
    losses = losses_of(run)
    assert [entry["step"] for entry in losses] == [1, 2, 3, 4]
    assert results_of(run) == {"loss": losses[3]["loss"], "steps": 4}
    encoder = DocumentEncoder.from_pretrained(run / "model", device="cpu")
    vectors = encoder.encode(structured)
    assert vectors.shape == (3, 16) and np.isfinite(vectors).all()
    made = encoder.model.config
    assert made.trained and (made.similarity, made.pooling) == ("cosine", "mean")
    # Nothing that could run code when it is loaded.
    assert not [path for path in run.rglob("*") if path.suffix in (".bin", ".pt", ".pth", ".pkl")]


def test_the_same_settings_give_the_same_weights_and_another_seed_others(pretrain: Pretrain, tmp_path: Path) -> None:
    for output, seed in (("a", 0), ("b", 0), ("c", 1)):
        told(pretrain(f"output={output}", f"training.seed={seed}", "training.max_steps=2"))
    assert same_model(tmp_path / "a", tmp_path / "b") and not same_model(tmp_path / "a", tmp_path / "c")


def test_printing_settings_does_nothing_else(pretrain: Pretrain, config: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    changes = ["training.epochs=7", "model.start=no/such-model"]
    status, out, err = pretrain("--print", *changes)
    assert (status, err) == (0, "") and sorted(tmp_path.rglob("*")) == before
    (tmp_path / "printed.yaml").write_text(out, encoding="utf-8")
    expected = load_settings(SubDocumentSettings, config, changes)
    assert load_settings(SubDocumentSettings, tmp_path / "printed.yaml") == expected


@pytest.mark.parametrize("tune", ["full", "lora", "frozen"])
def test_what_is_tuned_changes_and_what_is_not_does_not(
    pretrain: Pretrain, backbone_folder: Backbones, tmp_path: Path, tune: str
) -> None:
    if tune == "lora":
        pytest.importorskip("peft")
    told(pretrain(f"model.tune={tune}", "training.learning_rate=1e-2", "training.max_steps=2"))
    trained = load_file(tmp_path / "run" / "model" / "model.safetensors")
    start = load_file(backbone_folder("roberta") / "model.safetensors")
    name = "encoder.layer.0.attention.self.query.weight"
    assert trained[f"passage_encoder.transformer.{name}"].equal(start[name]) == (tune == "frozen")
    assert not any("lora" in name for name in trained)
    record = json.loads((tmp_path / "run" / "record.json").read_text(encoding="utf-8"))
    assert (record["trained_weights"] == record["weights"]) == (tune == "full")
    # With the vectors of passages at hand no token is read.
    assert ("tokens_per_second" in (tmp_path / "run" / "log.jsonl").read_text()) == (tune != "frozen")
    DocumentEncoder.from_pretrained(tmp_path / "run" / "model", device="cpu")


def test_documents_held_out_are_measured_and_a_run_that_is_over_stays_as_it_is(
    pretrain: Pretrain, tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.setattr("graphdoc.training.recipe.FEWEST_TO_CHOOSE", 3)
    options, run = ("validation.share=0.3", "training.save_steps=2"), tmp_path / "run"
    told(pretrain(*options))
    assert corpus_of(run)["held_out"] == 3
    results = results_of(run)
    assert results["before"].keys() == results["after"].keys() > set(SubDocumentSettings.metric_names)
    assert results["before"]["loss"] != results["after"]["loss"]
    entries = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    measured = {entry["step"]: entry["eval_loss"] for entry in entries if "eval_loss" in entry}
    assert list(measured) == [2, 4]
    best = min(measured, key=lambda step: measured[step])
    assert results["best"] == {"step": best, "score": measured[best]}
    assert results["after"]["loss"] == measured[best]
    # An evaluation at the end of an epoch is in its checkpoint: a resumed run would never make up for it.
    for step in (2, 4):
        state = json.loads((run / f"checkpoint-{step}" / "trainer_state.json").read_text(encoding="utf-8"))
        assert [entry["step"] for entry in state["log_history"] if "eval_loss" in entry][-1] == step
        assert state["best_metric"] is not None
    shutil.copytree(run, tmp_path / "before")
    told(pretrain(*options, "--resume"))
    assert same_model(run, tmp_path / "before") and results_of(run) == results


@pytest.mark.parametrize(
    "options",
    [
        ("split=one_passage", "loss.directions=one", "training.lr_scheduler_type=cosine"),
        ("training.keep_activations=500", "training.token_budget=200", "training.dataloader_num_workers=1"),
    ],
)
def test_settings_go_together(pretrain: Pretrain, options: tuple[str, ...]) -> None:
    told(pretrain("training.max_steps=3", *options))


def test_a_run_goes_on_with_its_settings_data_and_weights_alone(
    pretrain: Pretrain, backbone_folder: Backbones, tmp_path: Path
) -> None:
    text = " ".join(f"Sentence {number} says something." for number in range(40))
    rows = [{"id": str(number), "text": f"{number}. {text}"} for number in range(6)]
    path, start = write_rows(tmp_path / "corpus.jsonl", rows), tmp_path / "start"
    shutil.copytree(backbone_folder("roberta"), start)
    options = ("corpus.source=corpus.jsonl", ONE_STEP, "model.start=start", "model.tune=frozen")
    told(pretrain(*options))
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")}
    assert "run holds a run" in refusal(pretrain(*options))
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")} == before
    line = refusal(pretrain(*options, "model.settings.graph_kind=section", "--resume"))
    assert "model.settings.graph_kind" in line and "'section'" in line
    # Numbers of documents would mean others, and all counts are as they were.
    write_rows(path, reversed(rows))
    assert "content" in refusal(pretrain(*options, "--resume"))
    write_rows(path, rows)
    weights = load_file(start / "model.safetensors")
    changed = {name: 1.5 * weight for name, weight in weights.items()}
    save_file(changed, start / "model.safetensors", {"format": "pt"})
    assert "model.start" in refusal(pretrain(*options, "--resume"))
    save_file(weights, start / "model.safetensors", {"format": "pt"})
    told(pretrain(*options, "--resume"))


def test_two_runs_in_one_folder(pretrain: Pretrain, tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(files, "LONGEST_WAIT_SECONDS", 0.2)
    under_way = files.FolderLock(tmp_path / "run")
    under_way.acquire()
    for resume in ((), ("--resume",)):
        assert "run" in refusal(pretrain(ONE_STEP, *resume))
    under_way.release()
    told(pretrain(ONE_STEP))


def test_trained_model_is_start_and_no_checkpoint_of_model_of_another_size(pretrain: Pretrain, tmp_path: Path) -> None:
    told(pretrain(ONE_STEP, "output=first", "model.settings.projection_size=8"))
    options = ("training.max_steps=2", "training.save_steps=1", "training.save_total_limit=9")
    told(pretrain(*options, "model.start=first/model", "model.settings={}"))
    made = json.loads((tmp_path / "run" / "model" / "config.json").read_text(encoding="utf-8"))
    assert (made["projection_size"], made["passage_words"], made["pooling"]) == (8, 20, "mean")
    told(pretrain(*options, "output=other"))
    shutil.copytree(tmp_path / "first" / "checkpoint-1", cut(tmp_path / "other", tmp_path / "cut", 0) / "checkpoint-1")
    assert "checkpoint-1/model.safetensors" in refusal(pretrain(*options, "output=cut", "--resume"))


def test_a_file_that_is_called_like_the_settings_of_a_run(pretrain: Pretrain, config: Path, tmp_path: Path) -> None:
    own = tmp_path / "own" / "config.yaml"
    own.parent.mkdir()
    shutil.copy(config, own)
    for options in ((), ("--resume",)):
        assert "own/config.yaml" in refusal(pretrain("output=own", *options))
    assert own.read_bytes() == config.read_bytes() and list(own.parent.iterdir()) == [own]


def test_a_corpus_smaller_than_a_batch_is_trained_on_with_a_warning(pretrain: Pretrain) -> None:
    assert "batch_size=1536" in told(pretrain("training.batch_size=1536", ONE_STEP))


def test_a_broken_line_is_named_and_skipped_or_stops(pretrain: Pretrain, tmp_path: Path) -> None:
    text = "Rice is polished, soaked and steamed. The grains must stay whole, and dry enough for the mould. " * 4
    path = write_rows(tmp_path / "broken.jsonl", [{"id": f"d{n}", "text": f"Number {n}. {text}"} for n in range(6)])
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:3], lines[3][:40], *lines[4:]]), encoding="utf-8")
    source = ("corpus.source=broken.jsonl", "corpus.on_error=skip")
    assert "broken.jsonl:4" in refusal(pretrain(source[0], "corpus.on_error=stop"))
    seen = told(pretrain(*source, ONE_STEP))
    assert seen.count("kept 5 of 5 documents") == 1 and "broken.jsonl" in seen
    # What is streamed is read again in every epoch, and told once.
    run = pretrain(*source, "corpus.streaming=true", "training.max_steps=4", "output=streamed")
    assert run.status == 0 and run.err.count("broken.jsonl:4: ") == 1
    kept = re.search(r"streamed in the last epoch: kept (\d) of \d documents", run.out)
    assert kept is not None and int(kept[1]) > 0


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        (("trainig.epochs=3",), "training"),
        (("training.epochs=many",), "training.epochs='many'"),
        (("validation.share=0.3", "validation.best=nmi"), "validation.best='nmi'"),
        (("validation.share=0.95",), "11 documents"),
        (("model.settings.graph_kind=ful",), "model.settings.graph_kind='ful'"),
        (("model.start=nowhere",), "'nowhere'"),
        # A token that occurs nowhere, which the loss would never tell, is not a number.
        (("model.tune=frozen", "model.start=spoiled"), "embeddings.word_embeddings.weight"),
        (("output=config.yaml/run",), "config.yaml/run"),
        (("output=occupied",), "occupied"),
        (("--device", "tpu"), "--device"),
        (("corpus.streaming=true",), "training.max_steps"),
        (("corpus.source=-",), "corpus.source='-'"),
        (("corpus.source=papers", "output=papers/run"), "output='papers/run'"),
        (("corpus.source=papers",), "papers"),
        (("corpus.source=empty.jsonl",), "empty.jsonl"),
        (("corpus.source=nowhere",), "nowhere"),
        (("corpus.source=short.jsonl",), "2 passages"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_mistakes_are_named_and_leave_no_folder(
    pretrain: Pretrain, backbone_folder: Backbones, tmp_path: Path, arguments: tuple[str, ...], value: str
) -> None:
    for name in ("occupied", "papers"):
        (tmp_path / name).mkdir()
    (tmp_path / "occupied" / "thesis.txt").touch()
    (tmp_path / "empty.jsonl").touch()
    write_rows(tmp_path / "short.jsonl", [{"id": number, "text": "Rice is here."} for number in range(5)])
    shutil.copytree(backbone_folder("roberta"), tmp_path / "spoiled")
    weights = load_file(tmp_path / "spoiled" / "model.safetensors")
    weights["embeddings.word_embeddings.weight"][3, 0] = float("nan")
    save_file(weights, tmp_path / "spoiled" / "model.safetensors", metadata={"format": "pt"})
    assert value in refusal(pretrain(*arguments))
    assert not (tmp_path / "run").exists() and not (tmp_path / "papers" / "run").exists()
