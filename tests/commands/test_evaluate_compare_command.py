from __future__ import annotations

import csv
import json
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.evaluation import LabelledPair, PairEvaluator

Command = Callable[..., Any]
WORDS = {"rice": "rice steam koji mould grain", "sea": "tide wave marsh wall flood"}


def rows_of(part: str, count: int = 6) -> list[dict[str, Any]]:
    draw = np.random.default_rng(len(part))
    return [
        {
            "id": f"{part}{number}",
            "sections": [
                {"heading": "Abstract", "text": f"{topic} in short."},
                {"heading": "Body", "text": " ".join(draw.choice(WORDS[topic].split(), 20 + 10 * number)) + "."},
            ],
        }
        for number in range(count)
        for topic in [list(WORDS)[number % 2]]
    ]


def pairs_of(part: str, count: int = 6) -> list[tuple[str, str, int]]:
    return [(f"{part}{a}", f"{part}{b}", int(a % 2 == b % 2)) for a, b in combinations(range(count), 2)]


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_pairs(path: Path, pairs: list[tuple[str, str, int]]) -> Path:
    path.write_text("".join(f"{a}\t{b}\t{label}\n" for a, b, label in pairs), encoding="utf-8")
    return path


@pytest.fixture
def backbone(backbone_folder: Callable[[str], Path]) -> Path:
    return backbone_folder("bert")


@pytest.fixture
def files(tmp_path: Path) -> tuple[str | Path, ...]:
    """Documents and pairs, as arguments."""
    corpus = write_rows(tmp_path / "corpus.jsonl", [*rows_of("test"), *rows_of("dev"), *rows_of("other")])
    test = write_pairs(tmp_path / "test.tsv", pairs_of("test"))
    dev = write_pairs(tmp_path / "dev.tsv", pairs_of("dev"))
    return "--data", corpus, "--pairs", test, "--validation-pairs", dev


def test_everything(
    graphdoc: Command, files: tuple[str | Path, ...], backbone: Path, model: str, tmp_path: Path
) -> None:
    command = ("evaluate", "compare", *files, "--model", model, "--baseline", backbone, "--cls-baseline", backbone)
    status, out, err = graphdoc(*command, "--lengths", "40,70", "--resamples", "50", "--seed", "3", "--output", "out")
    assert (status, err) == (0, "")
    names = sorted(path.name for path in (tmp_path / "out").glob("[!.]*"))
    assert names == ["pairs.csv", "pairs.png", "scores.csv", "scores.json", "scores.md"]
    content = json.loads((tmp_path / "out" / "scores.json").read_text(encoding="utf-8"))
    assert content["format"] == "graphdoc.pair_comparison/1"
    assert content["data"] == {
        "documents": 12,
        "pairs": 15,
        "similar": 6,
        "validation_pairs": 15,
        "left_out": {"unknown": 0, "with_themselves": 0},
        "test_pairs_in_validation": 0,
        "repeated": 0,
        "sections_left_out": {},
    }
    assert content["threshold"] == {"by": "f1", "chosen_on": "validation"}
    assert content["bootstrap"] == {"resamples": 50, "seed": 3, "confidence": 0.95}
    rows = content["rows"]
    assert [(row["name"], row["role"]) for row in rows] == [
        ("TF-IDF cosine", "words"),
        ("tiny-bert, [CLS]", "[CLS]"),
        ("tiny-bert, untrained mean", "untrained"),
        (model, "model"),
    ]
    assert (rows[0]["auc"], rows[0]["coverage"], rows[0]["model"]) == (1, None, None)
    row = rows[3]
    documents = [Document.from_mapping(one) for part in ("test", "dev") for one in rows_of(part)]
    comparison = PairEvaluator(
        documents,
        *([LabelledPair(*pair) for pair in pairs_of(part)] for part in ("test", "dev")),
        lengths=(40, 70),
        resamples=50,
        seed=3,
    )
    similarities = comparison.similarities(DocumentEncoder.from_pretrained(model, device="cpu"))
    expected = comparison.score(similarities)
    assert {key: row[key] for key in expected.to_dict()} == json.loads(json.dumps(expected.to_dict()))
    assert row["more_than_words"]["auc"]["value"] == pytest.approx(row["auc"] - 1)
    # The vocabulary of the tiny model is another one in every run, and sometimes it tells all pairs apart as words do.
    low, high = row["more_than_words"]["auc"]["interval"]
    assert low <= row["auc"] - 1 <= high and (low < 0) == (row["auc"] < 1)
    assert (row["coverage"]["documents"], row["model"]["graph_kind"]) == (12, "section")

    with (tmp_path / "out" / "pairs.csv").open(encoding="utf-8", newline="") as file:
        scored = list(csv.DictReader(file))
    assert len(scored) == 30
    for line, pair, similarity in zip(scored[:15], pairs_of("test"), similarities.test, strict=True):
        assert (line["part"], line["id_a"], line["id_b"], int(line["label"])) == ("test", *pair)
        assert float(line[model]) == pytest.approx(similarity, abs=1e-6)
        assert int(line[f"{model}: similar"]) == (similarity >= expected.test.threshold)
    assert [int(line["words"]) for line in scored[:15]] == comparison.words.tolist()
    assert {line["part"] for line in scored[15:]} == {"validation"}

    with (tmp_path / "out" / "scores.csv").open(encoding="utf-8", newline="") as file:
        table = [line for line in csv.DictReader(file) if line["model"] == model]
    assert [line["words"] for line in table] == ["all", "up to 39 words", "40-69 words", "70 words and more"]
    assert float(table[0]["f1"]) == expected.test.values["f1"]
    assert float(table[0]["auc_low"]) == expected.test.interval("auc")[0]  # type: ignore[index]

    lines = out.splitlines()
    assert lines[0].split() == ["similarity", "of", "text", "P", "R", "F1", "accuracy", "AUC", "AP"]
    low, high = expected.test.interval("auc") or (0.0, 0.0)
    assert f"{expected.test.values['auc']:.3f} ± {(high - low) / 2:.3f}" in lines[4]
    assert lines[6].split() == ["AUC", "by", "words", "up", "to", "39", "40-69", "70", "and", "more"]
    assert "15 test pairs, 6 similar, of 12 documents" in lines
    assert "thresholds have the best F1 on 15 validation pairs" in lines
    (against,) = (line for line in lines if line.startswith(f"against TF-IDF, {model}: AUC "))
    assert float(against.split("AUC ")[1].split()[0]) == pytest.approx(row["auc"] - 1, abs=5e-4)
    assert lines[-5:] == [f"wrote out/{name}" for name in ("scores.json", "scores.csv", "scores.md", "pairs.csv",
                                                           "pairs.png")]  # fmt: skip
    text = (tmp_path / "out" / "scores.md").read_text(encoding="utf-8")
    assert f"{expected.test.values['auc']:.3f} [{low:.3f}, {high:.3f}]" in text
    assert "| AUC by words | up to 39 | 40-69 | 70 and more |" in text
    assert r"| TF\-IDF cosine | 100% | 1.000 [1.000, 1.000] |" in text


def test_words_and_titles_are_fused_with_a_model(
    graphdoc: Command, refused: Command, files: tuple[str | Path, ...], model: str, tmp_path: Path
) -> None:
    command = ("evaluate", "compare", *files, "--model", model, "--no-baseline", "--lengths", "none")
    assert "title" in refused(*command, "--fuse-titles")
    titled = [{**row, "title": f"Of {WORDS[topic].split()[0]}"} for part in ("test", "dev") for row, topic in
              zip(rows_of(part), [*WORDS] * 3, strict=True)]  # fmt: skip
    write_rows(tmp_path / "corpus.jsonl", titled)
    status, _, err = graphdoc(*command, "--fuse-words", "--fuse-titles", "--json", "scores.json")
    assert (status, err) == (0, "")
    rows = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))["rows"]
    assert [(row["name"], row["role"]) for row in rows] == [
        ("TF-IDF cosine", "words"),
        ("titles in texts", "titles"),
        (model, "model"),
        (f"{model} + words + titles", "model, fused"),
    ]
    # Texts of a topic all hold the word of its titles.
    assert rows[1]["auc"] == 1
    write_rows(tmp_path / "corpus.jsonl", [{**row, "title": ""} if n < 2 else row for n, row in enumerate(titled)])
    status, out, _ = graphdoc(*command, "--fuse-titles", "--json", "scores.json")
    assert status == 0 and "2 documents without a title" in out
    assert "without a title" not in graphdoc(*command).out
    names = [row["name"] for row in json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))["rows"]]
    assert names == ["TF-IDF cosine", "titles in texts", model, f"{model} + titles"]


def test_without_validation_pairs_scores_are_upper_bounds(
    graphdoc: Command, files: tuple[str | Path, ...], model: str
) -> None:
    command = ("evaluate", "compare", *files[:4], "--model", model, "--no-baseline", "--resamples", "9")
    status, out, _ = graphdoc(*command, "--threshold-by", "accuracy", "--lengths", "none")
    assert status == 0
    assert "thresholds have the best accuracy on the test pairs themselves: P, R, F1 and accuracy are upper" in out
    assert "by words" not in out
    content = json.loads(graphdoc(*command, "--json", "-").out)
    assert content["threshold"] == {"by": "f1", "chosen_on": "test"}
    assert [row["role"] for row in content["rows"]] == ["words", "model"]
    assert content["rows"][1]["validation"] is None
    assert content["rows"][1]["lengths"][0]["most_words"] == 499


def test_models_that_give_the_same_vectors_are_encoded_once(
    graphdoc: Command, files: tuple[str | Path, ...], backbone: Path, tiny_encoder: Callable[..., Any], tmp_path: Path
) -> None:
    plain = {"projection_size": None, "graph_layers": 0, "readout": "mean", "normalize_passages": True}
    tiny_encoder("bert", **plain, max_passages=30).save_pretrained(tmp_path / "plain")
    command = ("evaluate", "compare", *files, "--model", "plain", "--baseline", backbone, "--resamples", "9")
    rows = json.loads(graphdoc(*command, "--json", "-").out)["rows"]
    assert rows[2]["same_vectors_as"] == rows[1]["name"] == "tiny-bert, untrained mean"
    assert rows[2]["auc"] == rows[1]["auc"]
    out = graphdoc(*command).out
    assert "plain gives the same vectors as tiny-bert, untrained mean" in out
    assert "against TF-IDF, plain" not in out


def test_sections_are_left_out_by_their_heading(
    graphdoc: Command, files: tuple[str | Path, ...], model: str, tmp_path: Path
) -> None:
    command = (
        "evaluate",
        "compare",
        *files,
        "--model",
        model,
        "--no-baseline",
        "--resamples",
        "9",
        "--json",
        "a.json",
    )
    status, out, _ = graphdoc(*command, "--leave-out-section", "abstract", "--markdown", "a.md")
    assert status == 0
    # Also those of documents that are in no pair were counted.
    assert "18 sections left out for the heading 'abstract'" in out
    content = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert content["data"]["sections_left_out"] == {"abstract": 18}
    bodies = [Document.from_mapping(row | {"sections": row["sections"][1:]}) for row in rows_of("test")]
    comparison = PairEvaluator(bodies, [LabelledPair(*pair) for pair in pairs_of("test")])
    expected = comparison.score(comparison.similarities(DocumentEncoder.from_pretrained(model, device="cpu")))
    assert content["rows"][1]["auc"] == pytest.approx(expected.test.values["auc"])


def test_what_is_left_out_is_reported(
    graphdoc: Command, files: tuple[str | Path, ...], model: str, tmp_path: Path
) -> None:
    rows = [*rows_of("test"), {"id": "zero", "text": "\u200b"}, {"id": "[red]<b>", "text": "Tide and wave."}]
    source = write_rows(tmp_path / "rows.jsonl", rows)
    pairs = [
        *pairs_of("test"),
        ("zero", "test0", 0),
        ("gone", "test1", 1),
        ("test2", "test2", 1),
        ("test1", "test0", 0),
    ]
    pairs += [("[red]<b>", "test1", 1)]
    path = write_pairs(tmp_path / "more.tsv", pairs)
    command = ("evaluate", "compare", "--data", source, "--pairs", path, "--model", model, "--no-baseline")
    status, out, _ = graphdoc(*command, "--on-error", "skip", "--validation-pairs", path, "--scored", "scored.csv")
    assert status == 0
    assert "17 test pairs, 7 similar, of 7 documents" in out
    assert "pairs left out: 4 of documents that are not there, 2 of a document with itself" in out
    assert "17 test pairs among the validation pairs as well" in out
    assert "1 test pair given before, and counted again" in out
    assert "skipped zero: it has no text to encode" in out
    with (tmp_path / "scored.csv").open(encoding="utf-8", newline="") as file:
        assert "[red]<b>" in {line["id_a"] for line in csv.DictReader(file)}


def test_names_are_text_in_every_output(
    graphdoc: Command, files: tuple[str | Path, ...], tiny_encoder: Callable[..., Any], tmp_path: Path
) -> None:
    name = "[red]a|b$_"
    tiny_encoder("bert").save_pretrained(tmp_path / name)
    command = ("evaluate", "compare", *files, "--model", f"./{name}", "--no-baseline", "--resamples", "9")
    status, out, _ = graphdoc(*command, "--output", "out")
    assert status == 0
    assert f"./{name}" in out
    assert r"| ./\[red\]a\|b$\_ |" in (tmp_path / "out" / "scores.md").read_text(encoding="utf-8")


def test_help(graphdoc: Command) -> None:
    from graphdoc.cli import parse

    assert "  compare" in graphdoc("evaluate", "--help").out
    status, out, err = graphdoc("evaluate", "compare", "--help")
    assert (status, err) == (0, "")
    examples = [line.split() for line in out.splitlines() if line.startswith("  graphdoc evaluate compare")]
    assert len(examples) == 3
    assert all(parse(words[1:]).command == "evaluate compare" for words in examples)


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (("--pairs", "test.tsv"), ("--data", "required")),
        (("--data", "corpus.jsonl"), ("--pairs", "required")),
        (("--data", "none.jsonl", "--pairs", "test.tsv"), ("none.jsonl", "no such file")),
        (("--data", "corpus.jsonl", "--pairs", "none.tsv"), ("none.tsv", "no such file")),
        (("--data", "corpus.jsonl", "--pairs", ""), ("empty",)),
        (("--data", "corpus.jsonl", "--pairs", "empty.tsv"), ("empty.tsv", "no pair")),
        (("--data", "corpus.jsonl", "--pairs", "bad.tsv"), ("bad.tsv:1", "0")),
        (("--data", "corpus.jsonl", "--pairs", "far.tsv"), ("far.tsv:2", "'[b]x'", "no document")),
        (("--data", "corpus.jsonl", "--pairs", "one.tsv"), ("one.tsv", "0", "1", "both labels")),
        (
            ("--data", "corpus.jsonl", "--pairs", "self.tsv"),
            ("self.tsv", "1", "2", "cannot be used"),
        ),
        (("--data", "corpus.jsonl", "--pairs", "both.tsv"), ("both.tsv:3", "'test1'", "'test0'")),
        (
            ("--data", "corpus.jsonl", "--pairs", "test.tsv", "--validation-pairs", "one.tsv"),
            ("one.tsv", "both labels"),
        ),
        (
            ("--data", "corpus.jsonl", "--pairs", "test.tsv", "--leave-out-section", "Abstrct"),
            ("'Abstrct'", "--leave-out-section", "no document"),
        ),
        (
            ("--data", "corpus.jsonl", "--pairs", "test.tsv", "--lengths", "9,x"),
            ("--lengths", "'9,x'", "'none'"),
        ),
        (
            ("--data", "corpus.jsonl", "--pairs", "test.tsv", "--lengths", "9,5"),
            ("'9,5'", "rise"),
        ),
        (("--data", "corpus.jsonl", "--pairs", "test.tsv", "--resamples", "0"), ("--resamples", "'0'")),
        (("--data", "corpus.jsonl", "--pairs", "test.tsv", "--seed", "-1"), ("--seed", "'-1'")),
        (("--data", "corpus.jsonl", "--pairs", "test.tsv", "--scored", "test.tsv"), ("test.tsv", "read")),
        (("--data", "corpus.jsonl", "--pairs", "test.tsv", "--markdown", "-"), ("--markdown",)),
        (("--data", "corpus.jsonl", "--pairs", "test.tsv", "--plot", "a.gif"), ("a.gif", ".svg")),
        (
            ("--data", "corpus.jsonl", "--pairs", "test.tsv", "--baseline", "a", "--no-baseline"),
            ("--baseline", "--no-baseline", "contradict"),
        ),
        (("--data", "corpus.jsonl", "--pairs", "test.tsv", "--model", "./none"), ("./none", "model folder")),
    ],
)
@pytest.mark.usefixtures("files")
def test_refusals(
    refused: Command, tmp_path: Path, model: str, options: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    write_pairs(tmp_path / "far.tsv", [("test0", "test1", 0), ("test0", "[b]x", 1)])
    write_pairs(tmp_path / "one.tsv", [("test0", "test1", 1)])
    write_pairs(tmp_path / "self.tsv", [("test0", "test1", 1), ("test0", "test0", 0)])
    write_pairs(tmp_path / "both.tsv", [("test0", "test1", 1), ("test0", "test3", 0), ("test1", "test0", 0)])
    (tmp_path / "bad.tsv").write_text("test0 test1 1\n")
    (tmp_path / "empty.tsv").write_text("")
    line = refused("evaluate", "compare", "--model", model, *options)
    assert line.startswith("graphdoc evaluate compare: ")
    assert all(part in line for part in parts), line
