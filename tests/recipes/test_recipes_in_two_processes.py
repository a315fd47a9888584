"""Runs of recipes in two processes: the same as in one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from corpus_examples import write_rows
from test_two_processes_pretraining import log_of
from two_processes import run_commands

from graphdoc import DocumentEncoder
from graphdoc.cli import main

pytest.importorskip("ir_measures", reason="needs the extra graphdoc[retrieval]")
pytestmark = [pytest.mark.distributed, pytest.mark.slow]
WORDS = [["rice", "mould", "steam"], ["tide", "marsh", "flood"], ["clock", "log", "order"], ["code", "page", "byte"]]
SENTENCES = ["model.settings.projection_size=null", "model.settings.graph_layers=0", "model.settings.readout=mean"]
SECTIONS = {"readout": "sections", "structural_embeddings": True, "chunk_attention_heads": 2, "section_lstm_size": 12,
            "section_projection_size": 8, "projection_size": None}  # fmt: skip
VIEWS = ["pairs.file=pairs.tsv", "model.start=matcher", "views.view_tokens=24", "views.receptive_field=12",
         "views.cluster_size=4", *SENTENCES]  # fmt: skip
# What is trained, and the settings beside those that all share; no dropout, whose draws differ between processes.
RUNS: dict[str, tuple[str, list[str]]] = {
    "classes": ("classify", ["labels.dropout=0"]),
    "groups": ("compare", [*(f"model.settings.{name}={json.dumps(value)}" for name, value in SECTIONS.items()),
                           "validation.pairs=pairs.tsv"]),
    "pairs": ("compare", ["groups.by=pairs", "groups.file=pairs.tsv", "loss.kind=cosine", "sections.number=1"]),
    "queries": ("retrieve", ["queries.source=queries", "queries.split=train", "validation.split=dev",
                             "negatives.per_query=2"]),
    "judged": ("retrieve", ["queries.source=queries", "queries.split=train", "validation.split=dev",
                            "negatives.per_query=3", "negatives.kind=judged", "model.tune=frozen"]),
    "made queries": ("retrieve", ["queries.made_from=[titles,first_sentences]", "folds.number=2"]),
    "views": ("views", [*VIEWS, "validation.pairs=pairs.tsv"]),
    "towers": ("views", [*VIEWS, "views.encoder=dual", "loss.kind=contrast", "loss.negatives=2",
                         "loss.temperature=0.3"]),
    "subtopics": ("subtopics", ["pairs.file=pairs.tsv", "validation.pairs=pairs.tsv", "subtopics.cluster_size=3",
                                "model.settings.projection_size=null", "model.settings.readout=initial_mean",
                                "training.batch_size=10"]),
}  # fmt: skip
MISTAKES = {
    "unknown documents": ("classify", "corpus.source=nowhere"),
    "unknown queries": ("retrieve", "queries.source=nowhere"),
}


@pytest.fixture
def _files(
    backbone_folder: Callable[[str], Path],
    tiny_encoder: Callable[..., DocumentEncoder],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Documents of four subjects in the working folder, with pairs, queries and a model that has a head for views."""
    monkeypatch.chdir(tmp_path)
    draw, rows = np.random.default_rng(0), []
    for number in range(24):
        own = WORDS[number % 4]
        text = " ".join(f"{' '.join(draw.choice(own, 10))}." for _ in range(int(draw.integers(1, 6))))
        rows.append({"id": f"d{number}", "title": " ".join(draw.permutation(own)), "text": text, "label": number % 4})
    write_rows(tmp_path / "corpus.jsonl", rows)
    pairs = [f"d{a}\td{(a + step) % 24}\t{int(step == 4)}\n" for a in range(24) for step in (4, 5)]
    (tmp_path / "pairs.tsv").write_text("".join(pairs), encoding="utf-8")
    queries = [{"_id": f"q{n}", "text": WORDS[n % 4][n % 3], "split": "dev" if n > 15 else "train"} for n in range(20)]
    write_rows(tmp_path / "queries" / "queries.jsonl", queries)
    judged = [f"q{n}\td{n}\t1\nq{n}\td{n + 1}\t0\nq{n}\td{n + 2}\t0\n" for n in range(20)]
    (tmp_path / "queries" / "qrels.tsv").write_text("".join(["query-id\tcorpus-id\tscore\n", *judged]))
    matcher = tiny_encoder("bert", projection_size=None, graph_layers=0, readout="mean", passage_tokens=40)
    matcher.model.add_head(["different", "similar"], dropout=0.0)
    matcher.save_pretrained(tmp_path / "matcher")
    values = {
        "corpus": {"source": "corpus.jsonl", "preparing_processes": 1},
        "model": {"start": str(backbone_folder("roberta")),
                  "settings": {"pooling": "mean", "projection_size": 16, "graph_layers": 1, "passage_words": 10}},
        "training": {"batch_size": 9, "learning_rate": 1e-4, "loading_processes": 0, "log_steps": 1, "max_steps": 3,
                     "warmup": 0},
    }  # fmt: skip
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")


def command(task: str, output: str, *options: str) -> list[str]:
    shared = ["--config", "config.yaml", "--device", "cpu", f"output={output}", f"corpus.cache=cache-{output[-3:]}"]
    return ["finetune", task, *shared, *options]


def results(folder: str) -> Any:
    return json.loads((Path(folder) / "results.json").read_text(encoding="utf-8")).get("after", {})


@pytest.mark.usefixtures("_files")
def test_two_processes_do_what_one_does(tmp_path: Path) -> None:
    commands = [command(task, f"{name}-two", *options) for name, (task, options) in RUNS.items()]
    commands += [command(task, "x", option) for task, option in MISTAKES.values()]
    seen = run_commands(commands, tmp_path)
    first, second = (dict(zip([*RUNS, *MISTAKES], of_rank, strict=True)) for of_rank in seen)
    for name, (task, options) in RUNS.items():
        assert (first[name]["status"], second[name]["status"]) == (0, 0), first[name]["err"] + second[name]["err"]
        assert "2 processes" in first[name]["out"] and second[name]["out"] == ""
        assert main(command(task, f"{name}-one", *options)) == 0
        # Of gradients that are rounding errors Adam makes whole steps; their length shows whether they are the same.
        one, two = (log_of(Path(f"{name}-{count}")) for count in ("one", "two"))
        assert len(one) == 3 and two == pytest.approx(one, rel=1e-4), name
        assert results(f"{name}-two") == pytest.approx(results(f"{name}-one"), rel=1e-4, abs=1e-6), name
    assert Path("made queries-two/test.run").is_file()
    pools = [
        sorted(path.read_bytes() for path in Path(cache).rglob("part-*.npy")) for cache in ("cache-one", "cache-two")
    ]
    assert pools[0] == pools[1] != []
    for name, (_, option) in MISTAKES.items():
        for of_rank in (first, second):
            assert of_rank[name]["status"] == 2 and option.rpartition("=")[2] in of_rank[name]["err"]
            assert "Traceback" not in of_rank[name]["err"]
    assert not Path("x").exists()
