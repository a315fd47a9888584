"""graphdoc finetune retrieve with lists of negatives: when they are made, and that a resumed run reads the same."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from retrieval_examples import write_beir
from safetensors.torch import load_file

from graphdoc.recipes import mined_negatives
from graphdoc.retrieval.mining import CLOSE, JUDGED, SIMILAR, NegativeLists

pytest.importorskip("lancedb", reason="needs the extra graphdoc[retrieval]")


@pytest.fixture
def train(graphdoc: Callable[..., Any], backbone_folder: Callable[[str], Path], tmp_path: Path) -> Callable[..., Any]:
    """Trains a tiny model on lists for six epochs of 7 steps: ``train("run", "negatives.kind=words")``."""
    folder = write_beir(tmp_path / "beir")
    values = {
        "corpus": {"source": str(folder / "corpus.jsonl"), "preparing_processes": 1, "cache": str(tmp_path / "cache")},
        "model": {
            "start": str(backbone_folder("roberta")), "tune": "frozen",
            "settings": {"pooling": "mean", "projection_size": 16, "graph_layers": 1, "passage_words": 10},
        },
        "queries": {"source": str(folder), "split": "train"},
        "validation": {"split": "dev"},
        "negatives": {"per_query": 2, "kind": "vectors", "depth": 6, "margin": 0.0},
        "loss": {"similarity": "cosine", "temperature": 0.1},
        "training": {"batch_size": 8, "epochs": 4, "learning_rate": 1e-2, "loading_processes": 0, "log_steps": 1,
                     "keep_checkpoints": 99},
    }  # fmt: skip
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(values), encoding="utf-8")

    def run(name: str, *arguments: str) -> Any:
        output = f"output={tmp_path / name}"
        return graphdoc("finetune", "retrieve", "--config", config, "--device", "cpu", output, *arguments)

    return run


@pytest.fixture
def minings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ways of every mining that takes place."""
    seen: list[str] = []
    found = mined_negatives.mine

    def counted(documents: Any, positives: Any, settings: Any, **more: Any) -> NegativeLists:
        seen.append(settings.by)
        return found(documents, positives, settings, **more)

    monkeypatch.setattr(mined_negatives, "mine", counted)
    return seen


def cut(folder: Path, target: Path, step: int) -> Path:
    """A copy of a run as it would be if it had been killed before any checkpoint after a step."""
    shutil.copytree(folder, target, symlinks=True)
    for checkpoint in target.glob("checkpoint-*"):
        if int(checkpoint.name.rpartition("-")[2]) > step:
            shutil.rmtree(checkpoint)
    shutil.rmtree(target / "model")
    return target


def assert_same(one: Path, other: Path) -> None:
    first, second = (load_file(folder / "model" / "model.safetensors") for folder in (one, other))
    assert first.keys() == second.keys()
    assert all(torch.equal(value, second[name]) for name, value in first.items())
    assert (one / "results.json").read_text() == (other / "results.json").read_text()


def test_a_refresh_and_runs_that_go_on(train: Callable[..., Any], minings: list[str], tmp_path: Path) -> None:
    settings = ("negatives.refresh=0.5", "training.save_steps=5")
    result = train("run", *settings)
    assert result.status == 0, result.err
    run = tmp_path / "run"
    # 28 steps; the first epoch after half of them begins with step 14.
    assert sorted(path.name for path in (run / "negatives").iterdir()) == ["start.jsonl", "step-14.jsonl"]
    assert minings == ["vectors", "vectors"]
    before, after = (NegativeLists.read(run / "negatives" / name) for name in ("start.jsonl", "step-14.jsonl"))
    assert len(before) == len(after) == 30
    assert before.lists != after.lists
    assert before.record["model"] != after.record["model"]
    assert (before.record["step"], after.record["step"]) == (0, 14)
    assert before.excluded[JUDGED] > 0
    for query, ids in after.lists.items():
        answers = {f"d{int(query[1:]) % 6 + 6 * ((int(query[1:]) + place) % 5)}" for place in (0, 1)}
        assert not answers & set(ids)
        assert len(ids) == 6
    assert "180 mined negatives of 30 queries, 6.0 each, by vectors" in " ".join(result.out.split())
    # Before the refresh, right before it without a checkpoint since, and after it.
    for step in (5, 10, 15):
        folder = cut(run, tmp_path / f"cut-{step}", step)
        if step == 5:
            (folder / "negatives" / "step-14.jsonl").unlink()
        minings.clear()
        result = train(f"cut-{step}", *settings, "--resume")
        assert result.status == 0, result.err
        assert minings == (["vectors"] if step == 5 else [])
        assert_same(run, folder)
        for name in ("start.jsonl", "step-14.jsonl"):
            assert (folder / "negatives" / name).read_bytes() == (run / "negatives" / name).read_bytes()
    # Other lists would have led elsewhere: what was mined is read, and counts.
    folder = cut(run, tmp_path / "other", 10)
    others = {query: tuple(reversed(ids)) for query, ids in after.lists.items()}
    NegativeLists(after.record, others).write(folder / "negatives" / "step-14.jsonl")
    assert train("other", *settings, "--resume").status == 0
    with pytest.raises(AssertionError):
        assert_same(run, folder)
    # Lists that a checkpoint was written with cannot be replaced, or be gone.
    for name, step, change in (("step-14", 15, Path.unlink), ("start", 5, lambda path: before_changed(path, before))):
        folder = cut(run, tmp_path / f"bad-{name}", step)
        change(folder / "negatives" / f"{name}.jsonl")
        result = train(folder.name, *settings, "--resume")
        assert result.status == 2
        assert f"{name}.jsonl" in result.err
        assert len(result.err.splitlines()) == 1


def before_changed(path: Path, lists: NegativeLists) -> None:
    """Write lists of which one is shorter."""
    query, ids = next(iter(lists.lists.items()))
    NegativeLists(lists.record, {**lists.lists, query: ids[1:]}).write(path)


def test_lists_by_words(train: Callable[..., Any], minings: list[str], tmp_path: Path) -> None:
    result = train("run", "negatives.kind=words", "negatives.margin=0.02", "training.epochs=1")
    assert result.status == 0, result.err
    assert minings == ["words"]
    lists = NegativeLists.read(tmp_path / "run" / "negatives" / "start.jsonl")
    assert (lists.record["by"], lists.record["margin"]) == ("words", 0.02)
    assert lists.excluded[CLOSE] > 0 and lists.excluded.keys() == {JUDGED, CLOSE, SIMILAR}
    # What has words of the query has its topic.
    assert all(int(id[1:]) % 6 == int(query[1:]) % 6 for query, ids in lists.lists.items() for id in ids)


def test_lists_of_a_file(train: Callable[..., Any], minings: list[str], tmp_path: Path) -> None:
    path = tmp_path / "lists.jsonl"
    NegativeLists({"by": "hand"}, {f"q{number}": ("d9", "nowhere") for number in range(36)}).write(path)
    settings = (f"negatives.kind={path}", "training.epochs=1", "training.save_steps=5")
    defaults = tmp_path / "config.yaml"
    values = yaml.safe_load(defaults.read_text())
    for name in ("depth", "margin"):
        del values["negatives"][name]
    defaults.write_text(yaml.safe_dump(values))
    result = train("run", *settings)
    assert result.status == 0
    assert "1 document of these lists not in the corpus" in " ".join((result.out + result.err).split())
    assert minings == []
    assert not (tmp_path / "run" / "negatives").exists()
    cut(tmp_path / "run", tmp_path / "cut", 5)
    NegativeLists({"by": "hand"}, {"q1": ("d8",)}).write(path)
    result = train("cut", *settings, "--resume")
    assert result.status == 2
    assert "negatives_hash" in result.err
    for lists, value in (({"other": ("d8",)}, ""), ({f"q{number}": ("x1",) for number in range(36)}, "'x1'")):
        NegativeLists({"by": "hand"}, lists).write(path)
        result = train("none", *settings)
        assert result.status == 2
        assert "lists.jsonl" in result.err and value in result.err
    path.unlink()
    result = train("gone", *settings)
    assert result.status == 2
    assert "lists.jsonl" in result.err
    assert not (tmp_path / "gone").exists()
