"""graphdoc finetune retrieve."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from retrieval_examples import write_beir, write_lines
from safetensors.torch import load_file

from graphdoc import DocumentEncoder
from graphdoc.evaluation import read_run

pytest.importorskip("ir_measures", reason="needs the extra graphdoc[retrieval]")


@pytest.fixture
def retrieve(
    graphdoc: Callable[..., Any], backbone_folder: Callable[[str], Path], tmp_path: Path
) -> Callable[..., Any]:
    """Trains a tiny model on 30 documents of six topics: ``retrieve("training.epochs=2")``."""
    folder = write_beir(tmp_path / "beir")
    config = tmp_path / "config.yaml"
    values = {
        "corpus": {
            "source": str(folder / "corpus.jsonl"), "preparing_processes": 1, "cache": str(tmp_path / "cache"),
        },
        "model": {
            "start": str(backbone_folder("roberta")), "tune": "frozen",
            "settings": {"pooling": "mean", "projection_size": 16, "graph_layers": 1, "passage_words": 10},
        },
        "loss": {"similarity": "cosine", "temperature": 0.1},
        "training": {
            "batch_size": 8, "epochs": 4, "learning_rate": 1e-2, "loading_processes": 0, "log_steps": 1,
        },
        "output": str(tmp_path / "run"),
    }  # fmt: skip
    config.write_text(yaml.safe_dump(values), encoding="utf-8")

    def run(*arguments: str) -> Any:
        return graphdoc("finetune", "retrieve", "--config", config, "--device", "cpu", *arguments)

    return run


@pytest.fixture
def judged(tmp_path: Path) -> tuple[str, ...]:
    """Settings of queries in BEIR's layout, trained on one split and measured on another."""
    return (f"queries.source={tmp_path / 'beir'}", "queries.split=train", "validation.split=dev")


def results_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return found


def log_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model" / "model.safetensors")


def assert_same(one: Path, other: Path) -> None:
    first, second = weights(one), weights(other)
    assert first.keys() == second.keys()
    assert all(torch.equal(value, second[name]) for name, value in first.items())


def words(result: Any) -> str:
    return " ".join((result.out + result.err).split())


def test_a_trained_model_finds_answers(retrieve: Callable[..., Any], judged: tuple[str, ...], tmp_path: Path) -> None:
    result = retrieve(*judged, "negatives.per_query=2", "training.epochs=8")
    assert result.status == 0, result.err
    told = words(result)
    assert "queries: 30 pairs: 60 train: 30" in told and "measured queries: 6" in told
    assert "56 steps of 8 pairs" in told
    found = results_of(tmp_path / "run")
    assert set(found["after"]) == {"ndcg_at_10", "map", "mrr_at_10", "recall_at_100"}
    assert found["after"]["ndcg_at_10"] > found["before"]["ndcg_at_10"] + 0.1
    assert found["best"]["score"] == found["after"]["ndcg_at_10"]
    losses = [entry for entry in log_of(tmp_path / "run") if "loss" in entry]
    # Other answers of a query are in its batch now and then.
    assert 0 < sum(entry["left_out_share"] for entry in losses) / len(losses) < 0.3
    # Vectors of the model are compared as the loss does.
    encoder = DocumentEncoder.from_pretrained(tmp_path / "run" / "model", device="cpu")
    assert encoder.model.config.similarity == "cosine"


@pytest.mark.parametrize("tune", ["frozen", "full"])
def test_a_run_that_was_interrupted_ends_the_same(
    retrieve: Callable[..., Any], judged: tuple[str, ...], tmp_path: Path, tune: str
) -> None:
    settings = (*judged, f"model.tune={tune}", "negatives.per_query=2", "negatives.kind=judged",
                "training.save_steps=5", "training.epochs=2",
                "training.keep_checkpoints=9")  # fmt: skip
    assert retrieve(*settings).status == 0
    shutil.copytree(tmp_path / "run", tmp_path / "cut", symlinks=True)
    for checkpoint in sorted((tmp_path / "cut").glob("checkpoint-*")):
        if int(checkpoint.name.rpartition("-")[2]) > 5:
            shutil.rmtree(checkpoint)
    shutil.rmtree(tmp_path / "cut" / "model")
    result = retrieve(*settings, f"output={tmp_path / 'cut'}", "--resume", "training.loading_processes=1")
    assert result.status == 0, result.err
    assert_same(tmp_path / "run", tmp_path / "cut")
    assert results_of(tmp_path / "run") == results_of(tmp_path / "cut")


def test_queries_are_made_of_documents(retrieve: Callable[..., Any], tmp_path: Path) -> None:
    result = retrieve("queries.made_from=[titles,headings,first_sentences]", "validation.share=0.2")
    assert result.status == 0, result.err
    told = words(result)
    # The heading Notes is in all of them.
    assert "queries made of: 30 titles, 30 headings, 30 first sentences" in told
    assert "left out: 1 texts that more than 3 documents share" in told
    assert "queries: 72" in told and "measured queries: 18" in told
    record = json.loads((tmp_path / "run" / "record.json").read_text(encoding="utf-8"))["corpus"]
    assert (record["queries"], record["pairs"]) == (72, 72)


def test_pairs_of_query_and_document(retrieve: Callable[..., Any], tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    lines = ["steamed rice\td0", "high tide\td1", "steamed rice\td6", "code page\td3", "old moss\td99"]
    pairs.write_text("\n".join(lines) + "\n", encoding="utf-8")
    result = retrieve(f"queries.source={pairs}", "validation.share=0", "training.epochs=1", "training.batch_size=2")
    assert result.status == 0, result.err
    told = words(result)
    assert "queries: 3 pairs: 4 train: 4" in told
    assert "1 judged documents that are unknown" in told
    assert "the last model is the result" in told


def test_folds_are_tested_by_runs_that_join(
    retrieve: Callable[..., Any], judged: tuple[str, ...], graphdoc: Callable[..., Any], tmp_path: Path
) -> None:
    joined: dict[str, Any] = {}
    for fold in (1, 2, 3):
        result = retrieve(judged[0], "folds.number=3", f"folds.fold={fold}", f"output={tmp_path / f'fold-{fold}'}",
                          "training.epochs=1")  # fmt: skip
        assert result.status == 0, result.err
        assert all(part in words(result) for part in ("queries: 22 ", "measured queries: 2 ", "tested queries: 12"))
        assert f"fold {fold} of 3, 12 queries: nDCG@10" in words(result)
        run = read_run(tmp_path / f"fold-{fold}" / "test.run")
        assert not joined.keys() & run.keys()
        assert {len(hits) for hits in run.values()} == {30}
        joined |= run
    assert joined.keys() == {f"q{number}" for number in range(36)}
    folds = tmp_path / "folds.tsv"
    folds.write_text("".join(f"q{number}\t{1 + number % 2}\n" for number in range(36)), encoding="utf-8")
    settings = (judged[0], "folds.number=2", "folds.fold=2", f"folds.file={folds}", "training.epochs=1")
    assert retrieve(*settings).status == 0
    assert set(read_run(tmp_path / "run" / "test.run")) == {f"q{number}" for number in range(1, 36, 2)}
    folds.write_text("q0\t1\nq1\t2\n", encoding="utf-8")
    result = retrieve(*settings, f"output={tmp_path / 'other'}")
    assert result.status == 2
    assert "'q2'" in result.err
    assert not (tmp_path / "other").exists()


def test_a_file_of_folds_gives_every_query_one_whole_number(retrieve: Callable[..., Any], tmp_path: Path) -> None:
    folds = ("folds.number=3", "folds.fold=1", f"folds.file={tmp_path / 'folds.tsv'}")
    for line, named in (("q1\t²", "folds.tsv:2"), ("q1\t4", "folds.tsv:2"), ("q0\t2", "'q0'")):
        (tmp_path / "folds.tsv").write_text(f"q0\t1\n{line}\n", encoding="utf-8")
        result = retrieve(f"queries.source={tmp_path / 'beir'}", *folds)
        assert result.status == 2 and named in result.err


def test_queries_that_are_tested_do_not_choose_the_checkpoint(retrieve: Callable[..., Any], tmp_path: Path) -> None:
    # Of the dev split, q30 to q35, two are in every fold.
    (tmp_path / "folds.tsv").write_text("".join(f"q{number}\t{1 + number % 3}\n" for number in range(36)))
    settings = (f"queries.source={tmp_path / 'beir'}", "validation.split=dev", "folds.number=3", "folds.fold=1",
                f"folds.file={tmp_path / 'folds.tsv'}")  # fmt: skip
    result = retrieve(*settings, "training.epochs=1")
    assert result.status == 0, result.err
    assert all(part in words(result) for part in ("queries: 20 ", "measured queries: 4 ", "tested queries: 12"))
    # A fold that holds all of them leaves none to measure.
    (tmp_path / "folds.tsv").write_text("".join(f"q{number}\t{1 if number > 29 else 2}\n" for number in range(36)))
    result = retrieve(*settings, f"output={tmp_path / 'other'}")
    assert result.status == 2
    assert "to measure" in result.err


def test_measured_queries_are_data_of_the_run(
    retrieve: Callable[..., Any], judged: tuple[str, ...], tmp_path: Path
) -> None:
    qrels = tmp_path / "beir" / "qrels.tsv"
    text = qrels.read_text(encoding="utf-8")
    qrels.write_text(text + "q30\t0\tx1\t1\nq31\t0\tx2\t1\n", encoding="utf-8")
    settings = (*judged, "training.epochs=1", "training.save_steps=2", "training.keep_checkpoints=9")
    result = retrieve(*settings)
    assert result.status == 0, result.err
    assert "2 answers of queries to measure or test not in" in words(result)
    shutil.rmtree(tmp_path / "run" / "model")
    qrels.write_text(text, encoding="utf-8")
    result = retrieve(*settings, "--resume")
    assert result.status == 2
    assert "measured_grades_hash" in result.err


def test_one_document_leaves_nothing_to_learn(retrieve: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("a tide\td1\na wave\td1\nwater\td2\n", encoding="utf-8")
    source = tmp_path / "corpus.jsonl"
    options = (f"corpus.source={source}", f"queries.source={tmp_path / 'pairs.tsv'}", "validation.share=0")
    # Copies are one document; of two with one id nobody knows which is meant.
    for second in ({"id": "d2", "text": "Tides rise."}, {"id": "d1", "text": "Tides fall."}):
        write_lines(source, [{"id": "d1", "text": "Tides rise."}, second])
        result = retrieve(*options, "training.batch_size=2")
        assert result.status == 2 and "'d1'" in result.err


def test_documents_that_queries_were_made_of_are_neither_answers_nor_ranked(
    retrieve: Callable[..., Any], judged: tuple[str, ...], tmp_path: Path
) -> None:
    result = retrieve(judged[0], "queries.own_grade=2", "folds.number=2", "folds.fold=1", "training.epochs=1")
    assert result.status == 0, result.err
    run = read_run(tmp_path / "run" / "test.run")
    for query, hits in run.items():
        number = int(query[1:])
        assert f"d{number % 6 + 6 * (number % 5)}" not in hits
        assert len(hits) == 29
    record = json.loads((tmp_path / "run" / "record.json").read_text(encoding="utf-8"))["corpus"]
    assert record["pairs"] == record["queries"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["queries.source=nowhere"], ["nowhere"]),
        (["queries.source={beir}", "queries.own_grade=7"], ["queries.own_grade=7"]),
        (["queries.source={beir}", "validation.source={other}"], ["other.tsv", "corpus.jsonl"]),
        (["queries.source={other}", "validation.share=0"], ["other.tsv", "'x1'"]),
        (["queries.source={pairs}", "negatives.kind=judged", "negatives.per_query=3", "validation.share=0"],
         ["negatives.kind=random"]),
        (["queries.source={beir}", "folds.number=40", "folds.fold=40"], ["folds.number=40", "36 queries"]),
    ],
)  # fmt: skip
def test_queries_that_cannot_be_trained_on_are_named(
    retrieve: Callable[..., Any], tmp_path: Path, settings: list[str], said: list[str]
) -> None:
    (tmp_path / "other.tsv").write_text("a tide\tx1\na wave\tx2\n", encoding="utf-8")
    (tmp_path / "pairs.tsv").write_text("a tide\td1\na wave\td2\n", encoding="utf-8")
    places = {name: tmp_path / f"{name}.tsv" for name in ("other", "pairs")} | {"beir": tmp_path / "beir"}
    result = retrieve(*(setting.format(**places) for setting in settings))
    assert result.status == 2, result.out
    (line,) = result.err.strip().splitlines()
    assert all(part in line for part in said), line
    assert not (tmp_path / "run").exists()
