from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from graphdoc import read_documents
from graphdoc.encoder import DocumentEncoder

Command = Callable[..., Any]
WORDS = ["rice", "steam", "koji", "mould", "grain", "tide", "wave", "marsh", "wall", "flood"]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    rows = []
    for n in range(5):
        words = [WORDS[(n * k + k // 7) % 10] + "." * (k % 8 == 7) for k in range(40 + 8 * n)]
        rows.append({"id": f"d{n}", "title": f"[bold]Title {n}", "text": " ".join(words)})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_many_documents(graphdoc: Command, corpus: Path, classifiers: Callable[..., str]) -> None:
    model = classifiers()
    status, out, err = graphdoc("predict", corpus, "--model", model)
    assert (status, err) == (0, "")
    expected = DocumentEncoder.from_pretrained(model, device="cpu").predict(list(read_documents(corpus)))
    lines = out.splitlines()
    assert " ".join(lines[0].split()) == "document label probability coverage passage that speaks most for it"
    for line, item in zip(lines[1:], expected, strict=False):
        row = item.decisions[0].strongest(1)[0]
        assert line.split()[:3] == [item.id, item.label, f"{item.probability:.3f}"]
        assert item.segmented.texts[row][:20] in line
    label, count = max(((name, expected.labels.count(name)) for name in set(expected.labels)), key=lambda one: one[1])
    assert f"{label} {count}" in " ".join(out.split())
    assert out.endswith("5 documents, model topics\n")


def test_one_document(graphdoc: Command, corpus: Path, classifiers: Callable[..., str]) -> None:
    model = classifiers()
    status, out, err = graphdoc("predict", f"{corpus}#d3", "--model", model, "--passages", "2")
    assert (status, err) == (0, "")
    (item,) = DocumentEncoder.from_pretrained(model, device="cpu").predict(list(read_documents(f"{corpus}#d3")))
    (decision,) = item.decisions
    lines = out.splitlines()
    assert lines[0] == "[bold]Title 3"
    assert f"{item.label} {item.probability:.3f} *" in " ".join(out.split())
    start = lines.index(f"passages that speak for {item.label} (logit {decision.logit:.3f})")
    for line, row in zip(lines[start + 1 : start + 3], decision.strongest(2), strict=True):
        assert line.startswith(f"{decision.contributions[row]:+.3f} Whole text: {item.segmented.texts[row][:30]}")
    assert lines[start + 3] == f"{decision.rest:+.3f} from no passage"
    assert lines[-1].startswith("d3: 3 passages, ")
    without = graphdoc("predict", f"{corpus}#d3", "--model", model, "--passages", "0").out
    assert "speak for" not in without and f"{item.label} {item.probability:.3f} *" in " ".join(without.split())


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_files(graphdoc: Command, corpus: Path, classifiers: Callable[..., str], tmp_path: Path, suffix: str) -> None:
    model = classifiers()
    command = ("predict", corpus, "--model", model, "--passages", "1")
    status, out, _ = graphdoc(*command, "--output", f"out/p.{suffix}", "--json", "out/p.json")
    assert status == 0
    assert f"wrote out/p.{suffix}\nwrote out/p.json\n" in out
    content = json.loads((tmp_path / "out" / "p.json").read_text(encoding="utf-8"))
    expected = DocumentEncoder.from_pretrained(model, device="cpu").predict(list(read_documents(corpus)))
    assert content == expected.to_dict(1)
    path = tmp_path / "out" / f"p.{suffix}"
    ids = [row["id"] for row in content["documents"]]
    if suffix == "jsonl":
        assert [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] == content["documents"]
    elif suffix == "csv":
        with path.open(encoding="utf-8", newline="") as file:
            assert [row["id"] for row in csv.DictReader(file)] == ids
    else:
        frame = pd.read_parquet(path)
        assert frame["id"].tolist() == ids
        assert frame["p(<b>sea</b>)"].tolist() == pytest.approx(
            [row["probabilities"]["<b>sea</b>"] for row in content["documents"]]
        )


def test_json_on_standard_output(graphdoc: Command, corpus: Path, classifiers: Callable[..., str]) -> None:
    out = graphdoc("predict", corpus, "--model", classifiers(), "--json", "-").out
    content = json.loads(out)
    assert content["format"] == "graphdoc.predictions/1"
    assert len(content["documents"]) == 5
    assert content["contributions"] == "exact"
    assert content["coverage"]["documents"] == 5


def test_several_labels(graphdoc: Command, corpus: Path, classifiers: Callable[..., str]) -> None:
    model = classifiers(multi_label=True)
    for threshold in ("0.01", "0.999"):
        status, out, _ = graphdoc("predict", corpus, "--model", model, "--threshold", threshold, "--json", "p.json")
        assert status == 0
        rows = json.loads(Path("p.json").read_text())["documents"]
        for row in rows:
            assert row["labels"] == [name for name, p in row["probabilities"].items() if p >= float(threshold)]
            assert {passage["label"] for passage in row["passages"]} >= set(row["labels"])
    assert any(not row["labels"] for row in rows)
    assert "(none)" in out


def test_what_is_left_out_is_reported(
    graphdoc: Command, corpus: Path, classifiers: Callable[..., str], tmp_path: Path
) -> None:
    with corpus.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"id": "zero", "text": "\u200b"}) + "\nnot json\n" + json.dumps({"text": "rice"}) + "\n")
    command = ("predict", corpus, "--model", classifiers(), "--max-passages", "1", "--output", "p.jsonl")
    status, out, err = graphdoc(*command, "--on-error", "skip")
    assert status == 0
    assert "5 of 6 documents were not encoded whole" in err
    assert "skipped zero: it has no text to encode" in out
    assert "corpus.jsonl:7: invalid JSON" in out
    assert "1 document had no id and got a hash of the content" in out
    assert len((tmp_path / "p.jsonl").read_text().splitlines()) == 6
    assert graphdoc(*command).status == 2


def test_nothing_is_written_when_a_document_cannot_be_read(
    refused: Command, corpus: Path, classifiers: Callable[..., str]
) -> None:
    with corpus.open("a", encoding="utf-8") as file:
        file.write("not json\n")
    line = refused("predict", corpus, "--model", classifiers(), "--output", "p.csv")
    assert "corpus.jsonl:6: invalid JSON" in line


def test_help(graphdoc: Command) -> None:
    from graphdoc.cli import parse

    status, out, err = graphdoc("predict", "--help")
    assert (status, err) == (0, "")
    examples = [line.split() for line in out.splitlines() if line.startswith("  graphdoc predict")]
    assert len(examples) == 4
    assert all(parse(words[1:]).command == "predict" for words in examples)
    for option in (
        "--model",
        "--device",
        "--dtype",
        "--json",
        "--output",
        "--max-passages",
        "--passages",
        "--threshold",
    ):
        assert option in out


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (("corpus.jsonl",), ("--model", "required")),
        (("corpus.jsonl", "--model", "MODEL"), ("tiny", "head")),
        (("none.jsonl", "--model", "MODEL"), ("none.jsonl", "no such file")),
        (("corpus.jsonl", "--model", "./none"), ("./none", "model folder")),
        (("corpus.jsonl", "--model", "TOPICS", "--threshold", "0.4"), ("several labels",)),
        (("corpus.jsonl", "--model", "TOPICS", "--threshold", "1"), ("'1'", "above 0 and below 1")),
        (("corpus.jsonl", "--model", "TOPICS", "--threshold", "x"), ("'x'", "above 0 and below 1")),
        (("corpus.jsonl", "--model", "TOPICS", "--passages", "-1"), ("'-1'", "at least 0")),
        (
            ("corpus.jsonl", "--model", "TOPICS", "--output", "p.txt"),
            ("p.txt", ".parquet"),
        ),
        (("corpus.jsonl", "--model", "TOPICS", "--output", "-"), ("--output", "--json", "standard output")),
        (("corpus.jsonl", "--model", "TOPICS", "--output", "corpus.jsonl"), ("corpus.jsonl", "read")),
        (
            ("blank.jsonl", "--model", "TOPICS", "--on-error", "skip"),
            ("blank.jsonl", "no documents"),
        ),
        (("bad.jsonl", "--model", "TOPICS", "--on-error", "skip"), ("bad.jsonl", "bad.jsonl:1", "no documents")),
        (("corpus.jsonl", "--model", "TOPICS", "--modle", "x"), ("--modle", "--model")),
    ],
)
def test_refusals(
    refused: Command,
    corpus: Path,
    model: str,
    classifiers: Callable[..., str],
    options: tuple[str, ...],
    parts: tuple[str, ...],
) -> None:
    (corpus.parent / "blank.jsonl").write_text(json.dumps({"id": "zero", "text": "\u200b"}) + "\n")
    (corpus.parent / "bad.jsonl").write_text("x\n")
    names = {"MODEL": model, "TOPICS": classifiers()}
    line = refused("predict", *(names.get(option, option) for option in options))
    assert line.startswith("graphdoc predict: ")
    assert all(part in line for part in parts), line
