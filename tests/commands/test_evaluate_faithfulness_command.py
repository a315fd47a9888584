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
from graphdoc.evaluation import LabelledPair
from graphdoc.evaluation.faithfulness.study import FaithfulnessEvaluation

Command = Callable[..., Any]
WORDS = {"rice": "rice steam koji mould grain", "sea": "tide wave marsh wall flood"}


def sentence(topic: str, draw: np.random.Generator) -> str:
    return " ".join(draw.choice(WORDS[topic].split(), 14)) + "."


def rows_of(count: int = 5) -> list[dict[str, Any]]:
    """Documents of two topics, each with some passages on the other topic."""
    draw = np.random.default_rng(0)
    return [
        {"id": f"d{number}", "text": " ".join(sentence(topic, draw) for topic in (*topics, topics[number % 2]))}
        for number in range(count)
        for topics in [list(WORDS) * 2]
    ]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows_of()), encoding="utf-8")
    return path


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    lines = [f"{a}\t{b}\t{int(a[1] != '0')}\n" for a, b in combinations([f"d{number}" for number in range(4)], 2)]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def test_similarity(graphdoc: Command, corpus: Path, pairs: Path, model: str, tmp_path: Path) -> None:
    options = ("--steps", "4", "--orders", "3", "--resamples", "50", "--seed", "2", "--output", "out")
    status, out, err = graphdoc(
        "evaluate", "faithfulness", "--data", corpus, "--pairs", pairs, "--model", model, *options
    )
    assert (status, err) == (0, "")
    names = sorted(path.name for path in (tmp_path / "out").glob("[!.]*"))
    assert names == ["curves.csv", "curves.png", "faithfulness.json", "faithfulness.md"]

    documents = [Document.from_mapping(row) for row in rows_of()]
    given = [LabelledPair(f"d{a}", f"d{b}", 1) for a, b in combinations(range(4), 2)]
    encoder = DocumentEncoder.from_pretrained(model, device="cpu")
    expected = FaithfulnessEvaluation(documents, given, steps=4, orders=3, resamples=50, seed=2).measure(encoder)
    content = json.loads((tmp_path / "out" / "faithfulness.json").read_text(encoding="utf-8"))
    assert content["format"] == "graphdoc.faithfulness/1"
    assert content["data"] == {"documents": 4, "pairs": 6}
    (row,) = content["rows"]
    assert row["name"] == model
    assert {key: row[key] for key in expected.to_dict()} == json.loads(json.dumps(expected.to_dict()))
    assert len(row["cases"]) == 12
    assert row["coverage"]["documents"] == 4

    with (tmp_path / "out" / "curves.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 4 * 2 * 5
    for line in lines:
        method, kind = line["passages_by"], line["curve"]
        place = round(float(line["fraction"]) * 4)
        assert float(line["value"]) == pytest.approx(expected.curve(method, kind)[place])  # type: ignore[arg-type]
        ends = expected.band(method, kind)[place]  # type: ignore[arg-type]
        assert (float(line["low"]), float(line["high"])) == pytest.approx(ends)

    text = (tmp_path / "out" / "faithfulness.md").read_text(encoding="utf-8")
    ahead = expected.ahead("contribution", "deletion")
    assert ahead.interval is not None
    cell = f"{ahead.value:+.3f} [{ahead.interval[0]:+.3f}, {ahead.interval[1]:+.3f}]"
    assert f"| contribution | {expected.area('contribution', 'deletion').value:.3f} | {cell} |" in text
    assert cell in out
    assert "similarity of 6 pairs; 4 documents shortened, 12 cases" in out
    assert "contribution against attention: deletion" in out
    assert "attention: the weights of the readout" in out
    assert "random: mean of 3 orders; intervals: 95 % of 50 bootstrap resamples of the documents" in out
    assert "wrote out/curves.png" in out


def test_classes_of_several_models(
    graphdoc: Command, corpus: Path, classifiers: Callable[..., str], tmp_path: Path
) -> None:
    first, second = classifiers(), classifiers(readout="attention")
    status, out, err = graphdoc(
        "evaluate", "faithfulness", "--data", corpus, "--model", first, "--model", second, "--resamples", "20",
        "--sample", "3", "--json", "-", "--csv", "curves.csv",
    )  # fmt: skip
    assert (status, err) == (0, "")
    content = json.loads(out)
    assert content["data"] == {"documents": 3, "pairs": None}
    assert [row["name"] for row in content["rows"]] == [first, second]
    assert {row["watched"] for row in content["rows"]} == {"probability"}
    assert {case["class"] for case in content["rows"][0]["cases"]} <= {"rice", "<b>sea</b>", "[clocks]"}
    assert list(content["rows"][1]["methods"]) == ["contribution", "attention", "words", "random"]
    assert "random" in (tmp_path / "curves.csv").read_text(encoding="utf-8")


def test_one_document_has_no_intervals(graphdoc: Command, corpus: Path, classifiers: Callable[..., str]) -> None:
    command = ("evaluate", "faithfulness", "--data", corpus, "--model", classifiers(), "--sample", "1")
    status, out, _ = graphdoc(*command, "--resamples", "5")
    assert status == 0
    assert "random: mean of 5 orders; no intervals, which need two documents" in out
    assert "bootstrap" not in out


def test_what_is_left_out_is_reported(graphdoc: Command, corpus: Path, pairs: Path, model: str) -> None:
    with corpus.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"id": "short", "text": "Tides."}) + "\n")
    with pairs.open("a", encoding="utf-8") as file:
        file.write("short\td0\t1\nd0\td0\t1\nd1\td0\t0\ngone\td1\t0\n")
    command = ("evaluate", "faithfulness", "--data", corpus, "--pairs", pairs, "--model", model, "--resamples", "10")
    status, _, err = graphdoc(*command)
    assert status == 2
    assert "there is no document 'gone'" in err
    status, out, err = graphdoc(*command, "--on-error", "skip")
    assert (status, err) == (0, "")
    assert "1 pair left out for documents that are not there" in out
    assert "1 pair of a document with itself left out" in out
    assert "1 pair given before, and left out" in out
    assert "1 document of one passage, too short to be shortened" in out
    assert "similarity of 7 pairs; 4 documents shortened, 13 cases" in out
    status, out, err = graphdoc(*command, "--on-error", "skip", "--similar-only")
    assert "similarity of 4 pairs; 4 documents shortened" in out


def test_bad_input_is_refused(
    refused: Callable[..., str], corpus: Path, pairs: Path, model: str, tmp_path: Path
) -> None:
    data = ("evaluate", "faithfulness", "--data", corpus, "--model", model)
    assert "has no classification head, and there are no pairs" in refused(*data)
    assert "--similar-only chooses among pairs" in refused(*data, "--similar-only")
    assert "no image suffix" in refused(*data, "--pairs", pairs, "--plot", "curves.gif")
    assert "--seed: '-1'" in refused(*data, "--pairs", pairs, "--seed", "-1")
    assert "'0' is not a whole number of at least 1" in refused(*data, "--pairs", pairs, "--steps", "0")
    assert "no document has two passages" in refused(*data, "--pairs", pairs, "--max-passages", "1")
    other = tmp_path / "other.tsv"
    other.write_text("d0\td1\t0\n", encoding="utf-8")
    assert "has no pair of label 1; leave out --similar-only" in refused(*data, "--pairs", other, "--similar-only")
    other.write_text("d0\td0\t1\n", encoding="utf-8")
    assert "no pair of two documents" in refused(*data, "--pairs", other)
    assert "is read, and would be replaced" in refused(*data, "--pairs", pairs, "--json", pairs)
