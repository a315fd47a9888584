"""graphdoc evaluate search: the table, the files it writes, an index that is kept, and mistakes."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphdoc.evaluation import read_qrels, read_run, score_run
from graphdoc.evaluation.rankings import WAYS

pytest.importorskip("lancedb", reason="needs the extra graphdoc[retrieval]")

Command = Callable[..., Any]
TEXTS = {
    "tides": "Tides rise twice a day. The moon pulls the sea.",
    "rice": "Steamed rice is cooled before koji is sown.",
    "marsh": "Salt marshes slow the sea.",
    "lathe": "A lathe turns wood.",
}
QUERIES = [
    {"_id": "q1", "text": "moon and sea", "title": "tides", "kind": "plain"},
    {"_id": "q2", "text": "steamed koji", "title": "rice", "kind": "plain"},
    {"_id": "q3", "text": "turning wood on a lathe", "title": "lathe", "kind": "odd"},
]
QRELS = "q1 0 tides 2\nq1 0 marsh 1\nq2 0 rice 1\nq3 0 lathe 1\n"


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder in BEIR's layout with four documents and three queries."""
    folder = tmp_path / "judged"
    folder.mkdir()
    write_rows(folder / "corpus.jsonl", [{"_id": id, "title": "", "text": text} for id, text in TEXTS.items()])
    write_rows(folder / "queries.jsonl", QUERIES)
    (folder / "qrels.tsv").write_text(QRELS)
    return folder


@pytest.fixture
def evaluate(graphdoc: Command, data: Path, model: str) -> Command:
    """Runs the command on the folder with the tiny model."""
    return lambda *more: graphdoc("evaluate", "search", "--data", data, "--model", model, "--folds", "3", *more)


def test_everything(evaluate: Command, data: Path, tmp_path: Path) -> None:
    status, out, err = evaluate(
        "--output", "out", "--run-folder", "out/runs", "--measure", "ndcg@2", "--measure", "map"
    )
    assert (status, err) == (0, "")
    for text in (
        *WAYS,
        "nDCG@2",
        "3 queries; 4 documents",
        "weight of words in hybrid-weighted",
        "wrote out/runs/words.run",
    ):
        assert text in out
    content = json.loads((tmp_path / "out" / "scores.json").read_text())
    assert content["format"] == "graphdoc.search/1"
    assert content["data"] == {
        "queries": 3, "documents": 4, "left_out": {}, "judged_documents_not_indexed": 0, "own_grade": None
    }  # fmt: skip
    assert list(content["systems"]) == list(WAYS) == list(content["milliseconds"])
    assert content["systems"]["words"]["p_values"] is None
    assert 0 <= content["systems"]["hybrid"]["p_values"]["nDCG@2"] <= 1
    assert set(content["weight"]["folds"]) == {"q1", "q2", "q3"}
    rows = list(csv.DictReader((tmp_path / "out" / "scores.csv").open()))
    assert [row["system"] for row in rows] == list(WAYS)
    assert rows[0]["p MAP"] == "" and float(rows[1]["p MAP"]) <= 1
    queries = list(csv.DictReader((tmp_path / "out" / "queries.csv").open()))
    assert [(row["system"], row["query"]) for row in queries[:3]] == [("words", f"q{n}") for n in (1, 2, 3)]
    # Another tool finds the same numbers in the runs.
    qrels = read_qrels(tmp_path / "out" / "runs" / "qrels.tsv")
    for name in WAYS:
        scores = score_run(read_run(tmp_path / "out" / "runs" / f"{name}.run"), qrels, ["ndcg@2", "map"])
        assert scores.means == pytest.approx(content["systems"][name]["means"], abs=1e-12)
    assert score_run(read_run(tmp_path / "out/runs/words.run"), qrels, ["success@1"]).means["success@1"] == 1.0


def test_an_index_is_kept(evaluate: Command, graphdoc: Command, data: Path, tmp_path: Path) -> None:
    _, first, _ = evaluate("--index", "kept.index")
    assert "added 4 documents" in first
    _, again, _ = evaluate("--index", "kept.index")
    assert "left 4 as they were; encoded 0 passages" in again
    # Without a corpus the index is taken as it is.
    (data / "corpus.jsonl").unlink()
    status, out, _ = graphdoc("evaluate", "search", "--data", data, "--index", "kept.index")
    assert status == 0 and "added" not in out
    assert "hybrid-weighted needs at least as many queries as folds, 5" in out


def test_queries_are_chosen_and_own_documents_taken_out(evaluate: Command, tmp_path: Path) -> None:
    chosen = ("--only", "kind=plain", "--folds", "2", "--query-column", "title")
    assert evaluate(*chosen, "--json", "one.json").status == 0
    assert json.loads((tmp_path / "one.json").read_text())["data"]["queries"] == 2
    status, out, _ = evaluate("--own-grade", "2", "--folds", "2", "--run-folder", "runs", "--json", "two.json")
    assert status == 0 and "taken out of rankings and judgements: 1 of grade 2" in out
    assert "tides" not in read_run(tmp_path / "runs" / "words.run")["q1"]
    assert read_qrels(tmp_path / "runs" / "qrels.tsv")["q1"] == {"marsh": 1}
    assert json.loads((tmp_path / "two.json").read_text())["systems"]["words"]["means"]["success@1"] == 1.0


def test_rankings_of_other_systems_are_rows(evaluate: Command, tmp_path: Path) -> None:
    (tmp_path / "other.run").write_text("q1 Q0 rice 1 3.0 other\nq2 Q0 rice 1 3.0 other\n")
    status, out, _ = evaluate("--run", "other.run", "--against", "other", "--json", "scores.json")
    assert status == 0 and "against other" in out
    systems = json.loads((tmp_path / "scores.json").read_text())["systems"]
    assert systems["other"]["means"]["success@1"] == pytest.approx(1 / 3)
    assert systems["words"]["p_values"]["success@1"] == 0.5


def test_judged_documents_that_are_not_there_count_as_not_found(evaluate: Command, data: Path, tmp_path: Path) -> None:
    (data / "qrels.tsv").write_text(QRELS + "q2 0 missing 1\n")
    status, out, _ = evaluate("--json", "scores.json", "--measure", "recall@4")
    assert status == 0 and "1 judged document not in the index" in out
    content = json.loads((tmp_path / "scores.json").read_text())
    assert content["data"]["judged_documents_not_indexed"] == 1
    assert content["systems"]["words"]["per_query"]["q2"]["recall@4"] == 0.5


def test_mistakes(refused: Command, data: Path, model: str, tmp_path: Path) -> None:
    def line(*more: str | Path) -> str:
        return refused("evaluate", "search", "--data", data, "--model", model, *more)

    assert "ndgc@10" in line("--measure", "ndgc@10")
    assert "'bm25'" in line("--against", "bm25") and "words-documents" in line("--against", "bm25")
    assert "kind=unheard" in line("--only", "kind=unheard")
    assert "'headline'" in line("--query-column", "headline")
    assert "grade 7" in line("--own-grade", "7")
    assert "missing.run" in line("--run", "missing.run")
    (tmp_path / "words.run").write_text("q1 Q0 rice 1 3.0 other\n")
    assert "'words' is taken" in line("--run", "words.run")
    assert "nowhere" in line("--corpus", "nowhere")
    (data / "corpus.jsonl").rename(data / "texts.jsonl")
    assert "--corpus" in line()
    (data / "qrels.tsv").unlink()
    assert "qrels.tsv" in line()
    assert "missing" in refused("evaluate", "search", "--data", "missing")
