"""graphdoc evaluate search --relevant: documents as queries, its files, and mistakes."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphdoc.evaluation import Candidates, read_qrels, read_run, score_run

pytest.importorskip("ir_measures", reason="needs the extra graphdoc[retrieval]")

Command = Callable[..., Any]
TEXTS = {
    "tides": "The moon pulls the sea. Tides rise twice a day.",
    "marsh": "Salt marshes slow the sea. The moon is far away.",
    "rice": "Steamed rice is cooled. Koji is sown on rice.",
    "lathe": "A lathe turns wood. The wood is oak.",
    "oak": "Oak is a hard wood. It grows slowly.",
}
LINKS = [
    ("tides", "marsh"),
    ("marsh", "tides"),
    ("lathe", "oak"),
    ("oak", "lathe"),
    ("rice", "tides"),
    ("tides", "sun"),
]


@pytest.fixture
def evaluate(graphdoc: Command, tmp_path: Path, model: str) -> Command:
    """Runs the command on five documents and the links between them, with the tiny model."""
    rows = [
        {"id": id, "text": text, "see": [b for a, b in LINKS if a == id], "kind": "thing" if id == "rice" else "other"}
        for id, text in TEXTS.items()
    ]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "links.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in LINKS))
    return lambda *more: graphdoc("evaluate", "search", "--corpus", "corpus.jsonl", "--model", model, *more)


def test_everything(evaluate: Command, tmp_path: Path) -> None:
    wanted = ("tf-idf", "sentences", "tf-idf+sentences")
    status, out, err = evaluate(
        "--relevant", "links.tsv", "--as-published", "--folds", "2", "--output", "out", "--run-folder", "out/runs",
        "--vectors", "kept", *(part for name in wanted for part in ("--by", name)),
    )  # fmt: skip
    assert (status, err) == (0, "")
    for text in (
        *wanted,
        "5 documents as queries, 6 relevant",
        "HR-published@100",
        "judged documents that are unknown",
    ):
        assert (
            text in out.replace("6 relevant documents", "6 relevant") or text == "5 documents as queries, 6 relevant"
        )
    content = json.loads((tmp_path / "out" / "scores.json").read_text())
    assert content["data"] == {
        "queries": 5, "documents": 5, "relevant": 5, "left_out": {"judged documents that are unknown": 1},
        "absent": 1, "mutual": False,
    }  # fmt: skip
    qrels = read_qrels(tmp_path / "out" / "runs" / "qrels.tsv")
    for name in wanted:
        run = read_run(tmp_path / "out" / "runs" / f"{name}.run")
        assert all(len(scores) == 4 and source not in scores for source, scores in run.items())
        expected = score_run(run, qrels, content["measures"], candidates=Candidates(4, {"tides": 1}))
        assert content["systems"][name]["means"] == pytest.approx(expected.means)
    with (tmp_path / "out" / "scores.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [row["system"] for row in table] == list(wanted)
    (tmp_path / "corpus.jsonl").touch()
    again = json.loads(evaluate("--relevant", "links.tsv", "--by", "sentences", "--vectors", "kept", "--json", "-")[1])
    assert again["systems"]["sentences"]["means"]["MRR"] == pytest.approx(
        content["systems"]["sentences"]["means"]["MRR"]
    )


def test_a_field_conditions_and_words_alone(evaluate: Command) -> None:
    status, out, err = evaluate(
        "--relevant-field", "see", "--mutual", "--only", "kind=other", "--by", "bm25", "--json", "-"
    )
    assert (status, err) == (0, "")
    content = json.loads(out)
    assert content["data"]["documents"] == 4 and content["data"]["queries"] == 4 and content["model"] is None
    assert content["systems"]["bm25"]["means"]["MRR"] == 1.0


def test_runs_of_others(evaluate: Command, tmp_path: Path) -> None:
    (tmp_path / "ours.run").write_text("tides Q0 marsh 1 2.0 x\ntides Q0 sun 2 1.0 x\n")
    status, out, err = evaluate("--relevant", "links.tsv", "--by", "bm25", "--run", "ours.run")
    assert (status, err) == (0, "") and "left out of ours: 1 document, such as 'sun'" in out
    (tmp_path / "bm25.run").write_text("tides Q0 marsh 1 2.0 x\n")
    for taken in (("ours.run", "ours.run"), ("bm25.run",)):
        more = [part for name in taken for part in ("--run", name)]
        status, _, err = evaluate("--relevant", "links.tsv", "--by", "tf-idf", *more)
        assert status != 0 and taken[-1] in err


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--relevant", "links.tsv", "--by", "sentence"], "'sentence'"),
        (["--relevant", "links.tsv", "--against", "words"], "'words'"),
        (["--relevant", "links.tsv", "--data", "judged"], "--data"),
        (["--relevant", "links.tsv", "--top", "5"], "--top"),
        (["--relevant", "links.tsv", "--relevant-field", "see"], "--relevant-field"),
        (["--relevant", "missing.tsv", "--by", "bm25"], "missing.tsv"),
        (["--relevant", "others.tsv", "--by", "bm25"], "'x'"),
        (["--relevant", "links.tsv", "--only", "kind=none", "--by", "bm25"], "kind=none"),
        (["--relevant", "links.tsv", "--measure", "hr", "--by", "bm25"], "HR@10"),
        (["--by", "bm25"], "--by"),
        (["--vectors", "kept"], "--vectors"),
        ([], "--relevant"),
    ],
)
def test_mistakes_are_one_line(evaluate: Command, tmp_path: Path, more: list[str], says: str) -> None:
    (tmp_path / "others.tsv").write_text("x\ty\n")
    status, out, err = evaluate(*more)
    assert status != 0 and out == "" and says in err and len(err.strip().splitlines()) == 1
