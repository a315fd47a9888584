"""graphdoc match: two documents, pairs of a file, and the hits of a first stage."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpus_examples import write_rows

from graphdoc import DocumentEncoder, read_documents
from graphdoc.evaluation.baselines import tfidf_similarities
from graphdoc.evaluation.trec import read_run
from graphdoc.settings.views import ViewSettings

Command = Callable[..., Any]
TEXTS = {
    "rice": "Rice is steamed. Koji grows on rice. The mould is warm. Salt is added. It ripens for months.",
    "miso": "Koji and beans are mixed. Salt keeps it. Rice koji is sweet. The mash ripens. It is brown.",
    "tide": "The tide rises. Gates close. The barrier holds the sea. A storm passes. The gates open.",
}


@pytest.fixture(scope="module")
def matcher(tiny_encoder: Callable[..., DocumentEncoder], tmp_path_factory: pytest.TempPathFactory) -> str:
    """A cross-encoder of random weights."""
    encoder = tiny_encoder("bert", projection_size=None, graph_layers=0, readout="mean", passage_tokens=40)
    encoder.model.add_head(["different", "similar"])
    encoder.model.config.views = ViewSettings(view_tokens=30, cluster_size=3).as_values()
    encoder.model.config.trained = True
    return str(encoder.save_pretrained(tmp_path_factory.mktemp("models") / "matcher"))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "corpus.jsonl", [{"id": id, "text": text} for id, text in TEXTS.items()])


def test_two_documents(graphdoc: Command, matcher: str, corpus: Path, tmp_path: Path) -> None:
    output, table = tmp_path / "match.json", tmp_path / "match.csv"
    arguments = (f"{corpus}#rice", f"{corpus}#miso", "--model", matcher, "--json", output, "--csv", table)
    status, out, err = graphdoc("match", *arguments)
    assert (status, err) == (0, "")
    encoder = DocumentEncoder.from_pretrained(matcher, device="cpu")
    documents = {document.id: document for document in read_documents(corpus)}
    expected = encoder.match(documents["rice"], documents["miso"])
    assert f"{expected.probability:.3f}" in out
    found = json.loads(output.read_text(encoding="utf-8"))
    assert found["score"] == pytest.approx(expected.score, abs=1e-6)
    assert [view["a"] for view in found["views"]] == [list(view.a) for view in expected.views]
    for view in expected.views:
        for sentence in view.a:
            assert expected.a.text(expected.a.passages[sentence])[:20] in out
    rows = list(csv.DictReader(table.open(encoding="utf-8")))
    assert len(rows) == sum(len(view.a) + len(view.b) for view in expected.views)


def test_pairs_of_a_file(graphdoc: Command, matcher: str, corpus: Path, tmp_path: Path) -> None:
    pairs, table = tmp_path / "pairs.tsv", tmp_path / "scores.csv"
    pairs.write_text("rice\tmiso\t1\nrice\ttide\t0\n", encoding="utf-8")
    status, out, err = graphdoc("match", "--pairs", pairs, "--data", corpus, "--model", matcher, "--csv", table)
    assert (status, err) == (0, "")
    encoder = DocumentEncoder.from_pretrained(matcher, device="cpu")
    documents = {document.id: document for document in read_documents(corpus)}
    rows = list(csv.DictReader(table.open(encoding="utf-8")))
    assert [(row["a"], row["b"]) for row in rows] == [("rice", "miso"), ("rice", "tide")]
    for row in rows:
        expected = encoder.match(documents[row["a"]], documents[row["b"]])
        assert float(row["score"]) == pytest.approx(expected.score, abs=1e-5)
        assert f"{expected.score:.3f}" in out


def test_hits_are_ranked_again(graphdoc: Command, matcher: str, corpus: Path, tmp_path: Path) -> None:
    first, output = tmp_path / "first.run", tmp_path / "matched.run"
    lines = ["rice Q0 tide 1 9 bm25", "rice Q0 miso 2 8 bm25", "tide Q0 rice 1 7 bm25", "tide Q0 miso 2 6 bm25"]
    first.write_text("\n".join(lines) + "\n", encoding="utf-8")
    arguments = ("--candidates", first, "--queries", corpus, "--corpus", corpus, "--model", matcher)
    status, _, err = graphdoc("match", *arguments, "--run", output)
    assert (status, err) == (0, "")
    run = read_run(output)
    encoder = DocumentEncoder.from_pretrained(matcher, device="cpu")
    documents = {document.id: document for document in read_documents(corpus)}
    assert {query: set(hits) for query, hits in run.items()} == {"rice": {"tide", "miso"}, "tide": {"rice", "miso"}}
    for query, hits in run.items():
        for id, score in hits.items():
            assert score == pytest.approx(encoder.match(documents[query], documents[id]).score, abs=1e-5)
    status, _, _ = graphdoc("match", *arguments, "--run", output, "--top", "1")
    assert {query: set(hits) for query, hits in read_run(output).items()} == {"rice": {"tide"}, "tide": {"rice"}}


@pytest.mark.parametrize("weight", [0.3, 1.0])
def test_words_count_beside_the_model(
    graphdoc: Command, matcher: str, corpus: Path, tmp_path: Path, weight: float
) -> None:
    pairs, table, output = tmp_path / "pairs.tsv", tmp_path / "scores.csv", tmp_path / "scores.json"
    pairs.write_text("rice\tmiso\nrice\ttide\nmiso\ttide\n", encoding="utf-8")
    arguments = ("--pairs", pairs, "--data", corpus, "--model", matcher)
    status, out, _ = graphdoc("match", *arguments, "--words", weight, "--csv", table, "--json", output)
    assert status == 0
    encoder = DocumentEncoder.from_pretrained(matcher, device="cpu")
    documents = {document.id: document for document in read_documents(corpus)}
    rows = list(csv.DictReader(table.open(encoding="utf-8")))
    model = np.array([encoder.match(documents[row["a"]], documents[row["b"]]).score for row in rows])
    ids = list(TEXTS)
    words = tfidf_similarities(
        list(TEXTS.values()), np.array([[ids.index(row[side]) for side in "ab"] for row in rows])
    )
    assert words[0] > words[1:].max()
    np.testing.assert_allclose([float(row["words"]) for row in rows], words, atol=1e-9)
    np.testing.assert_allclose([float(row["match"]) for row in rows], model, atol=1e-5)
    alike = [(one - one.mean()) / one.std() for one in (model, words)]
    expected = (1 - weight) * alike[0] + weight * alike[1]
    np.testing.assert_allclose([float(row["score"]) for row in rows], expected, atol=1e-3)
    assert f"{expected[0]:.2f}" in out
    found = json.loads(output.read_text(encoding="utf-8"))
    assert found["weight_of_words"] == weight
    assert [one["words"] for one in found["pairs"]] == [float(row["words"]) for row in rows]
    first, ranked = tmp_path / "first.run", tmp_path / "matched.run"
    first.write_text("rice Q0 tide 1 9 bm25\nrice Q0 miso 2 8 bm25\nmiso Q0 tide 1 7 bm25\n", encoding="utf-8")
    run = ("--candidates", first, "--queries", corpus, "--corpus", corpus, "--model", matcher, "--run", ranked)
    assert graphdoc("match", *run, "--words", weight)[0] == 0
    scores = read_run(ranked)
    assert [scores[row["a"]][row["b"]] for row in rows] == pytest.approx(
        [float(row["score"]) for row in rows], abs=1e-4
    )


def test_words_of_pairs_that_are_all_alike_count_nothing(
    graphdoc: Command, matcher: str, corpus: Path, tmp_path: Path
) -> None:
    pairs, table = tmp_path / "pairs.tsv", tmp_path / "scores.csv"
    pairs.write_text("rice\ttide\ntide\trice\n", encoding="utf-8")
    arguments = ("--pairs", pairs, "--data", corpus, "--model", matcher, "--words", "1", "--csv", table)
    assert graphdoc("match", *arguments)[0] == 0
    assert [float(row["score"]) for row in csv.DictReader(table.open(encoding="utf-8"))] == [0.0, 0.0]
    # Cosines of copies are 1 but for rounding, which is no difference.
    pairs.write_text("rice\trice\nmiso\tmiso\n", encoding="utf-8")
    assert graphdoc("match", *arguments)[0] == 0
    assert [float(row["score"]) for row in csv.DictReader(table.open(encoding="utf-8"))] == [0.0, 0.0]
    pairs.write_text("rice\tnobody\n", encoding="utf-8")
    assert graphdoc("match", *arguments, "--on-error", "skip")[0] == 0


def test_hits_of_unknown_documents(
    graphdoc: Command, refused: Command, matcher: str, corpus: Path, tmp_path: Path
) -> None:
    first = tmp_path / "first.run"
    first.write_text("rice Q0 tide 1 9 bm25\nrice Q0 gone 2 8 bm25\nnobody Q0 miso 1 3 bm25\n", encoding="utf-8")
    arguments = ("--candidates", first, "--queries", corpus, "--corpus", corpus, "--model", matcher)
    message = refused("match", *arguments)
    assert "gone" in message and "--on-error skip" in message
    status, out, _ = graphdoc("match", *arguments, "--on-error", "skip")
    assert status == 0
    assert "2 hits of unknown documents" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ["A B", "--pairs", "--candidates"]),
        (("{corpus}#rice",), ["B"]),
        (("--pairs", "{pairs}"), ["--data"]),
        (("--pairs", "{pairs}", "--data", "{corpus}", "--corpus", "{corpus}"), ["--corpus"]),
        (("--candidates", "{pairs}", "--queries", "{corpus}"), ["--corpus"]),
        (("{corpus}#rice", "{corpus}#miso", "--run", "{pairs}.run"), ["--run", "--candidates"]),
        (("{corpus}#rice", "{corpus}#miso", "--views", "0"), ["--views", "0"]),
        (("--pairs", "{pairs}", "--data", "{corpus}"), ["nobody", "pairs.tsv:2"]),
        (("{corpus}#rice", "{corpus}#miso", "--words", "0.5"), ["--words", "--pairs"]),
        (("--pairs", "{pairs}", "--data", "{corpus}", "--words", "1.5"), ["--words", "'1.5'", "0 to 1"]),
        (("--pairs", "{pairs}", "--data", "{corpus}", "--words", "nan"), ["--words", "'nan'", "0 to 1"]),
        (("--pairs", "{pairs}", "--data", "{corpus}", "--words", "half"), ["--words", "'half'", "0 to 1"]),
        (
            ("--pairs", "{pairs}", "--data", "{corpus}", "--words", "0.5", "--on-error", "skip"),
            ["--words", "one alone"],
        ),
    ],
)
def test_what_does_not_go_together_is_refused(
    refused: Command, matcher: str, corpus: Path, tmp_path: Path, arguments: tuple[str, ...], words: list[str]
) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("rice\tmiso\nrice\tnobody\n", encoding="utf-8")
    filled = [argument.format(corpus=corpus, pairs=pairs) for argument in arguments]
    message = refused("match", *filled, "--model", matcher)
    assert all(word in message for word in words), message


def test_a_model_of_single_documents_is_refused(refused: Command, model: str, corpus: Path) -> None:
    message = refused("match", f"{corpus}#rice", f"{corpus}#miso", "--model", model)
    assert "graphdoc finetune views" in message


def test_a_matcher_is_measured_on_pairs(graphdoc: Command, matcher: str, corpus: Path, tmp_path: Path) -> None:
    pairs, output = tmp_path / "pairs.tsv", tmp_path / "scores.json"
    pairs.write_text("rice\tmiso\t1\nrice\ttide\t0\nmiso\ttide\t0\n", encoding="utf-8")
    status, _, err = graphdoc(
        "evaluate", "compare", "--data", corpus, "--pairs", pairs, "--model", matcher, "--json", output
    )
    assert (status, err) == (0, "")
    encoder = DocumentEncoder.from_pretrained(matcher, device="cpu")
    documents = {document.id: document for document in read_documents(corpus)}
    scores = [encoder.match(documents[a], documents[b]).score for a, b in (("rice", "miso"), ("rice", "tide"))]
    scores.append(encoder.match(documents["miso"], documents["tide"]).score)
    expected = sum(scores[0] > other for other in scores[1:]) / 2
    (found,) = [one for one in json.loads(output.read_text(encoding="utf-8"))["rows"] if "matcher" in one["name"]]
    assert found["auc"] == pytest.approx(expected)


def test_a_model_that_reads_two_documents_has_nothing_to_index(
    refused: Command, matcher: str, corpus: Path, tmp_path: Path
) -> None:
    message = refused("index", corpus, "--model", matcher, "--output", tmp_path / "index")
    assert "graphdoc match" in message
    assert not (tmp_path / "index").exists()
