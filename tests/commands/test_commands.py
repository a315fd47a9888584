"""Every command once, on the documents that the package has as examples."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from corpus_examples import write_rows

from graphdoc import DocumentEncoder, read_documents
from graphdoc.vectors.folder import read_vectors

Command = Callable[..., Any]


@pytest.fixture
def run(graphdoc: Command, model: str) -> Command:
    """Runs a command with the tiny model, expects that it succeeds, and gives what it printed."""

    def succeed(*arguments: str | Path) -> str:
        status, out, err = graphdoc(*arguments, "--model", model)
        assert status == 0, err
        return str(out)

    return succeed


def content(path: str) -> Any:
    return json.loads(Path(path).read_text(encoding="utf-8"))


def rows(path: str) -> list[dict[str, str]]:
    with Path(path).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_compare(run: Command, examples: Path, model: str) -> None:
    a, b = examples / "koji.md", examples / "storm-surge-barriers.html"
    files = ("--json", "c.json", "--csv", "c.csv", "--html", "c.html", "--plot", "c.png")
    out = run("compare", a, b, "--level", "sentence", "--subtopics", "vectors", *files, "--dtype", "float32")
    expected = DocumentEncoder.from_pretrained(model, device="cpu", dtype="float32").compare(
        *read_documents(a), *read_documents(b)
    )
    assert content("c.json")["document"] == pytest.approx(expected.document, abs=1e-6)
    assert f"{expected.document:.3f}" in out and "subtopics" in out and "strongest sentences" in out
    assert len(rows("c.csv")) > expected.passages.size
    assert all(Path(f"c.{suffix}").stat().st_size > 1000 for suffix in ("html", "png"))


def test_compare_within_one_document(run: Command, examples: Path) -> None:
    assert "the same document" in run("compare", examples / "koji.md")


def test_compare_many(run: Command, examples: Path) -> None:
    files = ("--json", "all.json", "--csv", "all.csv", "--html", "all.html", "--plot", "all.png")
    out = run("compare", examples, *files, "--reports", "2", "--level", "all")
    assert len(content("all.json")["documents"]) == 11 and "the closest of 55 pairs" in out
    assert sorted(path.name for path in Path("all-reports").glob("[!.]*")) == ["0001.html", "0002.html"]
    assert "all-reports/0001.html" in Path("all.html").read_text(encoding="utf-8")


def test_encode(run: Command, examples: Path, model: str) -> None:
    assert "11 documents" in run("encode", examples, "--json", "v.json", "--dtype", "float32")
    run("encode", examples, "--output", "vectors", "--shard-size", "4", "--include", "title", "--dtype", "float32")
    ids, vectors = read_vectors("vectors")
    assert content("v.json")["ids"] == list(ids)
    encoder = DocumentEncoder.from_pretrained(model, device="cpu", dtype="float32")
    expected = encoder.encode(list(read_documents(examples)))
    assert abs(vectors - expected).max() < 1e-5


def test_overview(run: Command, examples: Path) -> None:
    out = run("overview", examples, "--html", "o.html", "--json", "o.json", "--csv", "o.csv")
    assert "11 documents" in out and len(content("o.json")["documents"]) == len(rows("o.csv")) == 11


def test_index_search_and_mine(run: Command, examples: Path) -> None:
    pytest.importorskip("lancedb", reason="needs the extra graphdoc[retrieval]")
    assert "added 11 documents" in run("index", examples, "--output", "my.index", "--sentences", "section")
    assert "unchanged 11" in run("index", examples, "--output", "my.index")
    assert "deleted: 1 document" in run("index", "--output", "my.index", "--delete", "koji", "--describe")
    files = ("--json", "h.json", "--csv", "h.csv", "--html", "h.html")
    run("search", "my.index", "what keeps the sea out of a city", "--top", "3", "--weight", "0.5", *files)
    assert content("h.json")["hits"][0]["id"] == "storm-surge-barriers" or len(content("h.json")["hits"]) == 3
    out = run("search", "my.index", "--document", "vinegar", "--by", "sentences", "--where", "id != 'vinegar'")
    assert "paragraph" in out and "[vinegar]" not in out
    Path("questions.tsv").write_text("what keeps the sea out?\tstorm-surge-barriers\n", encoding="utf-8")
    run("mine", "my.index", "--queries", "questions.tsv", "--by", "words", "--output", "negatives.jsonl")
    (line,) = Path("negatives.jsonl").read_text(encoding="utf-8").splitlines()[-1:]
    assert "storm-surge-barriers" not in json.dumps(json.loads(line).get("negatives", []))


def test_search_without_an_index(run: Command, examples: Path) -> None:
    pytest.importorskip("lancedb", reason="needs the extra graphdoc[retrieval]")
    assert "[koji]" in run("search", examples, "koji mould rice", "--by", "words", "--top", "2")


def test_attention_and_graph(run: Command, examples: Path) -> None:
    run("attention", examples / "koji.md", "--csv", "a.csv", "--json", "a.json", "--plot", "a.png", "--head", "1")
    assert {"layer", "head", "source", "target", "edge_kind", "weight"} <= rows("a.csv")[0].keys()
    out = run("attention", examples / "koji.md", "--graph", "full", "--csv", "g.csv", "--plot", "g.png")
    assert "full graph" in out and {"source", "target", "edge_kind"} == rows("g.csv")[0].keys()


def test_fit_and_predict(run: Command, graphdoc: Command, examples: Path) -> None:
    documents = list(read_documents(examples))
    topics = [("sea" if number % 2 else "food") for number in range(len(documents))]
    write_rows(
        Path("topics.jsonl"),
        [{"name": one.id, "body": one.text, "topic": topic} for one, topic in zip(documents, topics, strict=True)],
    )
    columns = ("--column", "id=name", "--column", "text=body", "--column", "label=topic")
    out = run("fit", "topics.jsonl", *columns, "--lexical", "--classes", "--output", "mine")
    assert "2 classes of 11 documents" in out
    status, out, err = graphdoc(
        "predict", "topics.jsonl", *columns, "--model", "mine", "--output", "p.csv", "--json", "p.json"
    )
    assert status == 0, err
    assert {row["label"] for row in rows("p.csv")} <= {"sea", "food"} and len(content("p.json")["documents"]) == 11
    assert "speak" in graphdoc("predict", "topics.jsonl#koji", *columns, "--model", "mine").out


def test_evaluate(run: Command, graphdoc: Command, examples: Path) -> None:
    pytest.importorskip("ir_measures", reason="needs the extra graphdoc[retrieval]")
    documents = list(read_documents(examples))
    write_rows(
        Path("topics.jsonl"),
        [
            {"id": one.id, "text": one.text, "label": "ab"[number % 2], "split": ("train", "test")[number > 5]}
            for number, one in enumerate(documents)
        ],
    )
    assert "NMI" in run("evaluate", "cluster", "topics.jsonl", "--seeds", "1", "--json", "s.json", "--plot", "s.png")
    pairs = [("koji", "vinegar", 1), ("koji", "storm-surge-barriers", 0), ("vinegar", "agreeing-on-order", 0)]
    Path("pairs.tsv").write_text("".join(f"{a}\t{b}\t{label}\n" for a, b, label in pairs), encoding="utf-8")
    assert "AUC" in run("evaluate", "compare", examples, "--pairs", "pairs.tsv", "--csv", "pairs.csv")
    links = examples.parent / "same-topic.tsv"
    assert (
        "ndcg"
        in run("evaluate", "related", examples, "--relevant", links, "--by", "tf-idf", "--by", "vectors").lower()
    )


def test_recipes_are_listed_and_prepared(graphdoc: Command) -> None:
    assert "quickstart" in graphdoc("pretrain", "--list").out
    assert "own_labels" in graphdoc("finetune", "--list").out
    assert json.loads(graphdoc("finetune", "classify", "--schema").out)["properties"]["labels"]
    assert "anyOf" in json.loads(graphdoc("finetune", "--schema").out)
    assert "batch_size: 11" in graphdoc("pretrain", "--config", "quickstart", "--print").out
