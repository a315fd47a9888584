from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from corpus_examples import rows_of, write_rows

from graphdoc import DocumentEncoder
from graphdoc.corpus.corpus import TrainingCorpus
from graphdoc.settings.loading import load_settings
from graphdoc.settings.sub_documents import PretrainingSettings
from graphdoc.training.run import load_segmenter

Command = Callable[..., Any]


@pytest.fixture
def config(backbone_folder: Callable[[str], Path], tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    model = {"start": str(backbone_folder("roberta")), "tune": "full", "settings": {"passage_words": 20}}
    corpus = {"source": str(write_rows(tmp_path / "corpus.jsonl", rows_of(20))), "cache": str(tmp_path / "cache")}
    training = {"batch_size": 4, "max_steps": 1, "loading_processes": 0}
    values = {"model": model, "corpus": corpus, "training": training, "split": "half", "output": str(tmp_path / "run")}
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


def corpora(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "cache" / "corpora").iterdir())


def test_the_run_finds_what_was_prepared_without_weights(
    graphdoc: Command, config: Path, tmp_path: Path, backbone_folder: Callable[[str], Path]
) -> None:
    bare = shutil.copytree(
        backbone_folder("roberta"), tmp_path / "bare", ignore=shutil.ignore_patterns("*.safetensors")
    )
    assert not list(bare.glob("*.safetensors"))
    status, out, err = graphdoc("prepare", "--config", config, f"model.start={bare}")
    assert status == 0, err
    (folder,) = corpora(tmp_path)
    assert "kept 18 of 20 documents" in out and str(folder) in out.replace("\n", "")
    assert len(TrainingCorpus(folder)) == 18
    written = (folder / "manifest.json").stat().st_mtime_ns
    assert graphdoc("pretrain", "--config", config, "--device", "cpu")[0] == 0
    assert corpora(tmp_path) == [folder] and (folder / "manifest.json").stat().st_mtime_ns == written
    # A second time nothing is done.
    assert graphdoc("prepare", "--config", config)[0] == 0
    assert corpora(tmp_path) == [folder] and (folder / "manifest.json").stat().st_mtime_ns == written


def test_checkpoints_give_the_segmenter_that_their_encoder_has(
    config: Path, tmp_path: Path, tiny_encoder: Callable[..., DocumentEncoder]
) -> None:
    encoder = tiny_encoder(passage_words=30)
    folder = encoder.save_pretrained(tmp_path / "checkpoint")
    (folder / "model.safetensors").unlink()
    settings = load_settings(PretrainingSettings, config, [f"model.start={folder}", "model.settings={language: de}"])
    segmenter, _ = load_segmenter(settings.model)
    assert segmenter.config.passage_words == 30
    assert segmenter.config.language == "de"
    assert segmenter.tokenizer.get_vocab() == encoder.tokenizer.get_vocab()


def test_the_recipe_is_found_by_the_keys(graphdoc: Command, config: Path, tmp_path: Path) -> None:
    values = yaml.safe_load(config.read_text(encoding="utf-8"))
    del values["split"]
    config.write_text(yaml.safe_dump(values), encoding="utf-8")
    status, _, err = graphdoc("prepare", "--config", config)
    assert status == 2 and "--recipe" in err and "pretrain or finetune" in err
    assert graphdoc("prepare", "--config", config, "--recipe", "pretrain")[0] == 0
    (folder,) = corpora(tmp_path)
    assert json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["settings"]["least_passages"] == 2


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["corpus.streaming=true"], ["corpus.streaming=true"]),
        (["corpus.colour=red"], ["corpus.colour"]),
        (["training.epochs=-1"], ["training.epochs", "-1"]),
        (["corpus.source=missing.jsonl"], ["missing.jsonl"]),
        (["model.start=/no/model"], ["/no/model"]),
    ],
)
def test_mistakes_are_one_line(graphdoc: Command, config: Path, arguments: list[str], parts: list[str]) -> None:
    status, _, err = graphdoc("prepare", "--config", config, *arguments)
    assert status == 2
    assert len(err.splitlines()) == 1
    assert all(part in err for part in parts), err
