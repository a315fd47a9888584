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
        "1 judged document that is unknown",
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


def test_caches_and_rankings_do_not_become_documents(
    graphdoc: Command, refused: Callable[..., str], model: str, tmp_path: Path
) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    for id, text in TEXTS.items():
        (folder / f"{id}.md").write_text(text)
    (tmp_path / "links.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in LINKS))
    asked = ("evaluate", "search", "--corpus", "texts", "--relevant", "links.tsv", "--model", model)
    for option, place in (("--vectors", "texts"), ("--run-folder", "texts/runs"), ("--output", "texts/scores")):
        assert "lies in texts" in refused(*asked, option, place)
    assert "lies in texts" in refused(
        "evaluate", "search", "--data", "links.tsv", "--corpus", "texts", "--index", "texts/index"
    )
    # A ranking is written under the name of its file, and judgements as qrels.tsv.
    (tmp_path / "ours.run").write_text("tides Q0 marsh 1 2.0 x\n")
    (tmp_path / "qrels.tsv").write_text("tides 0 marsh 1\n")
    assert "ours.run is read" in refused(*asked, "--run", "ours.run", "--run-folder", ".")
    assert "qrels.tsv is read" in refused(*asked[:4], "--relevant", "qrels.tsv", "--run-folder", ".")


def test_runs_of_other_queries_or_documents_are_not_measured(evaluate: Command, tmp_path: Path) -> None:
    run = tmp_path / "ours.run"
    for content, says in (("q1 Q0 marsh 1 2.0 x\n", "'q1'"), ("tides Q0 sun 1 2.0 x\n", "'sun'")):
        run.write_text(content)
        status, out, err = evaluate("--relevant", "links.tsv", "--by", "bm25", "--run", "ours.run")
        assert status == 2 and out == "" and says in err and len(err.splitlines()) == 1
    run.write_text("tides Q0 marsh 1 2.0 x\n")
    _, out, _ = evaluate("--relevant", "links.tsv", "--by", "bm25", "--run", "ours.run")
    assert "ours has no hits for 4 of 5 queries, such as 'marsh'" in out


def test_links_to_itself_are_counted(evaluate: Command, tmp_path: Path) -> None:
    (tmp_path / "own.tsv").write_text("tides\ttides\ntides\tmarsh\nlathe\tlathe\n")
    _, out, _ = evaluate("--relevant", "own.tsv", "--by", "bm25")
    assert "left out: 2 documents relevant to themselves" in out
    (tmp_path / "own.tsv").write_text("tides\ttides\ntides\tmarsh\n")
    _, out, _ = evaluate("--relevant", "own.tsv", "--by", "bm25", "--json", "-")
    assert json.loads(out)["data"]["left_out"] == {"documents relevant to themselves": 1}


def test_vectors_of_encode_are_taken(evaluate: Command, graphdoc: Command, model: str, tmp_path: Path) -> None:
    status, *_ = graphdoc(
        *("encode", "corpus.jsonl", "--level", "sentence", "--output", "kept", "--model", model),
        *("--shard-size", 2, "--normalize", "--dtype", "float32"),
    )
    assert status == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "kept").iterdir()}
    asked = ("--relevant", "links.tsv", "--by", "sentences", "--json", "-")
    status, ours, _ = evaluate(*asked, "--vectors", "kept")
    assert status == 0 and {path.name: path.read_bytes() for path in (tmp_path / "kept").iterdir()} == before
    measured = [json.loads(out)["systems"]["sentences"]["means"] for out in (ours, evaluate(*asked).out)]
    assert measured[0] == pytest.approx(measured[1])
    # What differs is said in full.
    graphdoc("encode", "corpus.jsonl", "--output", "documents", "--model", model, "--dtype", "float32")
    status, _, err = evaluate(*asked, "--vectors", "documents")
    assert status == 2 and "level was 'document', now 'sentence'" in err and "another folder for vectors" in err
    status, _, err = evaluate(*asked, "--vectors", "kept", "--max-passages", "3", "--dtype", "bfloat16")
    assert status == 2 and "max_passages was 30, now 3" in err and "dtype was" in err


def test_nothing_is_written_before_ids_are_checked(
    graphdoc: Command, refused: Callable[..., str], model: str, tmp_path: Path
) -> None:
    rows = [{"id": f"{id}\nb", "text": text} for id, text in TEXTS.items()]
    (tmp_path / "lines.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "lists.json").write_text(json.dumps({"tides\nb": ["marsh\nb"]}))
    message = refused(
        *("evaluate", "search", "--corpus", "lines.jsonl", "--relevant", "lists.json", "--by", "bm25"),
        *("--output", "scores", "--run-folder", "runs"),
    )
    assert "b' cannot stand in a file of TREC" in message
