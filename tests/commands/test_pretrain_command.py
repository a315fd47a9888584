from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from safetensors.torch import load_file, save_file

from graphdoc import DocumentEncoder, __version__
from graphdoc.runtime import files
from graphdoc.settings.loading import load_settings
from graphdoc.settings.pretraining import PretrainingSettings

TRAINING = {
    "batch_size": 4,
    "epochs": 2,
    "learning_rate": 1e-3,
    "padding": 0.5,
    "loading_processes": 0,
    "log_steps": 1,
}
CONFIG: dict[str, Any] = {
    "model": {"tune": "full", "settings": {"pooling": "mean", "projection_size": 16, "passage_words": 20}},
    "loss": {"similarity": "cosine", "temperature": 0.2},
    "training": TRAINING,
    "output": "run",
}


@pytest.fixture(scope="session")
def corpus_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prepared corpora, which all tests may use again."""
    return tmp_path_factory.mktemp("corpora")


@pytest.fixture
def config(backbone_folder: Callable[[str], Path], examples: Path, corpus_cache: Path, tmp_path: Path) -> Path:
    """A configuration on the example documents, six passages of each."""
    path = tmp_path / "config.yaml"
    values = {
        **CONFIG,
        "model": {**CONFIG["model"], "start": str(backbone_folder("roberta"))},
        "corpus": {
            "source": str(examples), "max_passages": 6, "preparing_processes": 1, "cache": str(corpus_cache)
        },
    }  # fmt: skip
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


@pytest.fixture
def pretrain(graphdoc: Callable[..., Any], config: Path) -> Callable[..., Any]:
    """Runs the command with that configuration: ``pretrain("split=half", "--resume")``."""
    return lambda *arguments: graphdoc("pretrain", "--config", config, "--device", "cpu", *arguments)


@pytest.fixture
def refused(pretrain: Callable[..., Any]) -> Callable[..., str]:
    """Runs the command, expects that it ends with one line of complaint, and gives the line."""

    def run(*arguments: str) -> str:
        status, _, err = pretrain(*arguments)
        assert status == 2, err
        (line,) = [line for line in err.splitlines() if not line.startswith("graphdoc: ")]
        assert line.startswith("graphdoc pretrain: ")
        assert line.isprintable()
        return str(line.removeprefix("graphdoc pretrain: "))

    return run


def entries(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]


def read(path: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return result


class TestRun:
    def test_the_folder_holds_all_that_a_run_was_and_gave(
        self, pretrain: Callable[..., Any], config: Path, tmp_path: Path, structured: Any
    ) -> None:
        status, out, _ = pretrain()
        assert status == 0
        assert "wrote run/model" in out
        assert "train: 11\n" in out
        assert "4 steps of 4 documents" in out
        assert "(full passage encoder), on cpu, 1 process" in out
        assert "over max_passages" in out

        run = tmp_path / "run"
        assert {path.name for path in run.iterdir()} == {
            "config.yaml", "record.json", "results.json", "log.jsonl", "checkpoint-2", "checkpoint-4", "model",
            "curve.png", ".lock",
        }  # fmt: skip
        assert load_settings(PretrainingSettings, run / "config.yaml") == load_settings(PretrainingSettings, config)
        record = read(run / "record.json")
        assert record["versions"]["graphdoc"] == __version__
        assert {"python", "torch", "transformers", "numpy"} <= record["versions"].keys()
        assert (record["seed"], record["processes"], record["device"]) == (0, 1, "cpu")
        assert record["corpus"]["held_out"] == 0
        assert (record["corpus"]["documents"], record["corpus"]["documents_cut"]) == (11, 11)
        assert record["trained_weights"] == record["weights"] > 0
        git = subprocess.run(["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True)
        if git.returncode == 0:
            assert record["git_revision"].removesuffix("-dirty") == git.stdout.strip()
        log = entries(run)
        assert [entry["step"] for entry in log if "loss" in entry] == [1, 2, 3, 4]
        assert read(run / "results.json") == {"loss": log[3]["loss"], "steps": 4}

        encoder = DocumentEncoder.from_pretrained(run / "model", device="cpu")
        vectors = encoder.encode(structured)
        assert vectors.shape == (3, 16)
        assert np.isfinite(vectors).all()
        assert encoder.model.config.trained
        assert (encoder.model.config.similarity, encoder.model.config.pooling) == ("cosine", "mean")
        card = (run / "model" / "README.md").read_text(encoding="utf-8")
        for part in ("temperature: 0.2", "kept 11 of 11 documents", "passage_words: 20", "seed 0"):
            assert part in card
        assert not [path for path in run.rglob("*") if path.suffix in (".bin", ".pt", ".pth", ".pkl")]

    def test_the_same_settings_give_the_same_weights_and_another_seed_others(
        self, pretrain: Callable[..., Any], tmp_path: Path
    ) -> None:
        for output, seed in (("a", 0), ("b", 0), ("c", 1)):
            assert pretrain(f"output={output}", f"training.seed={seed}", "training.max_steps=2").status == 0
        a, b, c = (load_file(tmp_path / name / "model" / "model.safetensors") for name in "abc")
        assert all(a[name].equal(b[name]) for name in a)
        assert not a["projection.weight"].equal(c["projection.weight"])

    def test_printing_settings_does_nothing_else(
        self, pretrain: Callable[..., Any], config: Path, tmp_path: Path
    ) -> None:
        before = sorted(tmp_path.rglob("*"))
        status, out, err = pretrain("--print", "training.epochs=7", "model.start=no/such-model")
        assert (status, err) == (0, "")
        assert sorted(tmp_path.rglob("*")) == before
        (tmp_path / "printed.yaml").write_text(out, encoding="utf-8")
        expected = load_settings(PretrainingSettings, config, ["training.epochs=7", "model.start=no/such-model"])
        assert load_settings(PretrainingSettings, tmp_path / "printed.yaml") == expected


class TestSettings:
    @pytest.mark.parametrize("tune", ["full", "lora", "frozen"])
    def test_what_is_tuned_changes_and_what_is_not_does_not(
        self, pretrain: Callable[..., Any], backbone_folder: Callable[[str], Path], tmp_path: Path, tune: str
    ) -> None:
        if tune == "lora":
            pytest.importorskip("peft")
        run = pretrain(f"model.tune={tune}", "training.learning_rate=1e-2")
        assert run.status == 0, run.err
        assert f"({tune} passage encoder)" in run.out
        trained = load_file(tmp_path / "run" / "model" / "model.safetensors")
        start = load_file(backbone_folder("roberta") / "model.safetensors")
        name = "encoder.layer.0.attention.self.query.weight"
        found = trained[f"passage_encoder.transformer.{name}"]
        assert found.equal(start[name]) == (tune == "frozen")
        assert not any("lora" in name for name in trained)
        record = read(tmp_path / "run" / "record.json")
        assert (record["trained_weights"] == record["weights"]) == (tune == "full")
        DocumentEncoder.from_pretrained(tmp_path / "run" / "model", device="cpu")

    def test_documents_held_out_are_measured_and_not_trained_on(
        self, pretrain: Callable[..., Any], tmp_path: Path
    ) -> None:
        run = pretrain("validation.share=0.3")
        assert run.status == 0, run.err
        assert "train: 8\nheld out: 3\n" in run.out
        assert "before" in run.out
        results = read(tmp_path / "run" / "results.json")
        assert results["before"].keys() == results["after"].keys()
        assert set(results["before"]) == set(PretrainingSettings.model_construct().numbers)
        assert results["before"]["loss"] != results["after"]["loss"]
        measured = {entry["step"]: entry["eval_loss"] for entry in entries(tmp_path / "run") if "eval_loss" in entry}
        assert list(measured) == [2, 4]
        best = min(measured, key=lambda step: measured[step])
        assert results["best"] == {"step": best, "score": measured[best]}
        assert results["after"]["loss"] == measured[best]

    @pytest.mark.parametrize(
        "options",
        [
            ("split=one_passage", "loss.directions=one", "training.schedule=cosine", "training.loading_processes=1"),
            ("training.keep_activations=500", "training.token_budget=200"),
        ],
    )
    def test_settings_go_together(self, pretrain: Callable[..., Any], options: tuple[str, ...]) -> None:
        run = pretrain("training.max_steps=3", *options)
        assert run.status == 0, run.err


class TestResuming:
    def test_a_run_goes_on_with_its_settings_data_and_weights_alone(
        self,
        pretrain: Callable[..., Any],
        refused: Callable[..., str],
        backbone_folder: Callable[[str], Path],
        tmp_path: Path,
    ) -> None:
        text = " ".join(f"Sentence {number} says something." for number in range(40))
        rows = [json.dumps({"id": str(number), "text": f"{number}. {text}"}) for number in range(6)]
        path, start = tmp_path / "corpus.jsonl", tmp_path / "start"
        path.write_text("\n".join(rows), encoding="utf-8")
        shutil.copytree(backbone_folder("roberta"), start)
        options = ("corpus.source=corpus.jsonl", "training.max_steps=1", "model.start=start", "model.tune=frozen")
        assert pretrain(*options).status == 0
        before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")}
        assert refused(*options).startswith("run holds a run already")
        assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")} == before
        message = refused(*options, "model.settings.graph_kind=section", "--resume")
        assert "model.settings.graph_kind" in message and "'section'" in message
        # Numbers of documents would mean others, and all counts are as they were.
        path.write_text("\n".join(reversed(rows)), encoding="utf-8")
        assert "other data: content" in refused(*options, "--resume")
        path.write_text("\n".join(rows), encoding="utf-8")
        weights = load_file(start / "model.safetensors")
        save_file(
            {name: 1.5 * weight for name, weight in weights.items()}, start / "model.safetensors", {"format": "pt"}
        )
        assert "other data: model.start" in refused(*options, "--resume")
        save_file(weights, start / "model.safetensors", {"format": "pt"})
        assert pretrain(*options, "--resume").status == 0

    def test_two_runs_in_one_folder(
        self,
        pretrain: Callable[..., Any],
        refused: Callable[..., str],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(files, "LONGEST_WAIT_SECONDS", 0.2)
        under_way = files.FolderLock(tmp_path / "run")
        under_way.acquire()
        for resume in ((), ("--resume",)):
            assert "a run is under way in run" in refused("training.max_steps=1", *resume)
        under_way.release()
        assert pretrain("training.max_steps=1").status == 0

    def test_an_evaluation_at_the_end_of_an_epoch_is_in_its_checkpoint(
        self, pretrain: Callable[..., Any], tmp_path: Path
    ) -> None:
        """A run that is resumed from it would never make up for it."""
        assert pretrain("validation.share=0.3", "training.save_steps=2").status == 0
        for step in (2, 4):
            state = read(tmp_path / "run" / f"checkpoint-{step}" / "trainer_state.json")
            assert [entry["step"] for entry in state["log_history"] if "eval_loss" in entry][-1] == step
            assert state["best_metric"] is not None

    def test_a_run_that_is_over_stays_as_it_is(self, pretrain: Callable[..., Any], tmp_path: Path) -> None:
        assert pretrain("validation.share=0.3").status == 0
        results = read(tmp_path / "run" / "results.json")
        before = load_file(tmp_path / "run" / "model" / "model.safetensors")
        again = pretrain("validation.share=0.3", "--resume")
        assert again.status == 0 and "the run was at its end already, after step 4" in again.err
        after = load_file(tmp_path / "run" / "model" / "model.safetensors")
        assert all(after[name].equal(before[name]) for name in before)
        assert read(tmp_path / "run" / "results.json") == results

    def test_a_trained_model_is_a_start(self, pretrain: Callable[..., Any], tmp_path: Path) -> None:
        assert pretrain("training.max_steps=1", "output=first").status == 0
        run = pretrain("training.max_steps=1", "model.start=first/model", "model.settings={}")
        assert run.status == 0, run.err
        config = read(tmp_path / "run" / "model" / "config.json")
        assert (config["projection_size"], config["passage_words"], config["pooling"]) == (16, 20, "mean")


class TestBadInput:
    def test_a_file_that_is_called_like_the_settings_of_a_run(
        self, refused: Callable[..., str], config: Path, tmp_path: Path
    ) -> None:
        own = tmp_path / "own" / "config.yaml"
        own.parent.mkdir()
        shutil.copy(config, own)
        for options in ((), ("--resume",)):
            assert "own/config.yaml" in refused("output=own", *options)
        assert own.read_bytes() == config.read_bytes()
        assert [path.name for path in own.parent.iterdir()] == ["config.yaml"]

    @pytest.mark.parametrize(
        ("options", "named"),
        [
            (("corpus.source=papers", "output=papers/run"), "output='papers/run'"),
            (("corpus.source=papers",), "papers"),
            (("corpus.source=empty.jsonl",), "empty.jsonl"),
            (("corpus.source=nowhere",), "nowhere"),
            (("corpus.source=short.jsonl",), "2 passages"),
        ],
    )
    def test_a_corpus_that_cannot_be_trained_on(
        self, refused: Callable[..., str], tmp_path: Path, options: tuple[str, ...], named: str
    ) -> None:
        (tmp_path / "papers").mkdir()
        (tmp_path / "empty.jsonl").touch()
        rows = [json.dumps({"id": number, "text": "Rice is here."}) for number in range(5)]
        (tmp_path / "short.jsonl").write_text("\n".join(rows), encoding="utf-8")
        assert named in refused(*options)
        assert not (tmp_path / "run").exists() and not (tmp_path / "papers" / "run").exists()

    def test_a_corpus_smaller_than_a_batch_is_trained_on_with_a_warning(self, pretrain: Callable[..., Any]) -> None:
        run = pretrain("training.batch_size=1536", "training.max_steps=1")
        assert run.status == 0 and "batch_size=1536" in run.err and "1 steps of 11 documents" in run.out

    def test_a_broken_line_is_named_and_skipped_or_stops(
        self, pretrain: Callable[..., Any], refused: Callable[..., str], tmp_path: Path
    ) -> None:
        text = "Rice is polished, soaked and steamed. The grains must stay whole, and dry enough for the mould. " * 4
        lines = [json.dumps({"id": f"d{number}", "text": f"Number {number}. {text}"}) for number in range(6)]
        lines[3] = lines[3][:40]
        (tmp_path / "broken.jsonl").write_text("\n".join(lines), encoding="utf-8")
        message = refused("corpus.source=broken.jsonl", "corpus.on_error=stop")
        assert "broken.jsonl" in message
        assert "4" in message
        run = pretrain("corpus.source=broken.jsonl", "corpus.on_error=skip", "training.max_steps=1")
        assert run.status == 0, run.err
        # Said once.
        assert (run.out + run.err).count("kept 5 of 5 documents") == 1
        assert "could not read 1 (the first is broken.jsonl" in run.out
        # What is streamed is read again in every epoch, and told once.
        streaming = ("corpus.streaming=true", "training.max_steps=4", "output=streamed")
        run = pretrain("corpus.source=broken.jsonl", "corpus.on_error=skip", *streaming)
        assert run.status == 0, run.err
        assert run.err.count("broken.jsonl:4: ") == 1
        told = re.search(r"streamed in the last epoch: kept (\d) of \d documents", run.out)
        assert told is not None and int(told[1]) > 0

    def test_weights_that_are_no_numbers(
        self, refused: Callable[..., str], backbone_folder: Callable[[str], Path], tmp_path: Path
    ) -> None:
        shutil.copytree(backbone_folder("roberta"), tmp_path / "spoiled")
        weights = load_file(tmp_path / "spoiled" / "model.safetensors")
        # A token that occurs nowhere, which the loss would never tell.
        weights["embeddings.word_embeddings.weight"][3, 0] = float("nan")
        save_file(weights, tmp_path / "spoiled" / "model.safetensors", metadata={"format": "pt"})
        message = refused("model.tune=frozen", "model.start=spoiled", "training.max_steps=2")
        assert "model.start=spoiled" in message and "embeddings.word_embeddings.weight" in message
        assert not (tmp_path / "run").exists()

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("trainig.epochs=3",), "training"),
            (("training.epochs=many",), "training.epochs='many'"),
            (("validation.share=0.3", "validation.best=nmi"), "validation.best='nmi'"),
            (("corpus.source=-",), "corpus.source='-'"),
            (("model.settings.graph_kind=ful",), "model.settings.graph_kind='ful'"),
            (("model.start=nowhere",), "'nowhere'"),
            (("output=config.yaml/run",), "config.yaml/run"),
            (("output=occupied",), "occupied"),
            (("validation.share=0.95",), "11 documents"),
            (("--device", "tpu"), "--device"),
            (("corpus.streaming=true",), "training.max_steps"),
        ],
        ids=lambda value: value if isinstance(value, str) else None,
    )
    def test_mistakes_are_reported_and_leave_no_folder(
        self, refused: Callable[..., str], tmp_path: Path, arguments: tuple[str, ...], message: str
    ) -> None:
        (tmp_path / "occupied").mkdir()
        (tmp_path / "occupied" / "thesis.txt").touch()
        assert message in refused(*arguments)
        assert not (tmp_path / "run").exists()

    def test_a_checkpoint_of_another_model(
        self, pretrain: Callable[..., Any], refused: Callable[..., str], tmp_path: Path
    ) -> None:
        assert pretrain("training.max_steps=1", "output=other", "model.settings.projection_size=8").status == 0
        assert pretrain("training.max_steps=2").status == 0
        shutil.rmtree(tmp_path / "run" / "checkpoint-2")
        shutil.copytree(tmp_path / "other" / "checkpoint-1", tmp_path / "run" / "checkpoint-1")
        assert "checkpoint-1/model.safetensors" in refused("training.max_steps=2", "--resume")
