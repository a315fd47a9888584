from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import lxml.html
import numpy as np
import pytest

from graphdoc import read_documents
from graphdoc.encoder import DocumentEncoder
from graphdoc.evaluation import ClassificationEvaluator

Command = Callable[..., Any]
Classifiers = Callable[..., str]
LABELS = ["rice", "<b>sea</b>", "[clocks]"]
WORDS = dict(zip(LABELS, ("rice steam koji mould grain", "tide wave marsh wall flood", "hour gear tick"), strict=True))
SIZES = {"train": 12, "test": 9, "dev": 6}


def rows_of(part: str) -> list[dict[str, Any]]:
    draw = np.random.default_rng(len(part))
    return [
        {
            "id": f"{part}{number}",
            "title": f"[bold]{part} {number}",
            "text": " ".join(draw.choice(WORDS[label].split(), 30 + number)) + ".",
            "label": label,
            "split": part,
        }
        for number in range(SIZES[part])
        for label in [LABELS[number % 3]]
    ]


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "corpus.jsonl", [row for part in SIZES for row in rows_of(part)])


def test_everything(graphdoc: Command, corpus: Path, classifiers: Classifiers, tmp_path: Path) -> None:
    model = classifiers()
    status, out, err = graphdoc("evaluate", "classify", "--data", corpus, "--model", model, "--output", "out")
    assert (status, err) == (0, "")
    names = ["scores.json", "classes.csv", "confusion.png", "reliability.png", "mistakes.html"]
    assert sorted(path.name for path in (tmp_path / "out").glob("[!.]*")) == sorted(names)
    assert out.endswith("".join(f"wrote out/{name}\n" for name in names))

    content = json.loads((tmp_path / "out" / "scores.json").read_text(encoding="utf-8"))
    encoder = DocumentEncoder.from_pretrained(model, device="cpu")
    test = [one for one in read_documents(corpus) if one.metadata["split"] == "test"]
    evaluation = ClassificationEvaluator(test)
    expected = evaluation(encoder)
    assert content["format"] == "graphdoc.classification/1"
    assert content["classes"] == LABELS
    assert content["data"] == {
        "documents": 9, "without_label": 0, "with_several_labels": 0, "train": 12, "ids_in_train_and_test": 0,
    }  # fmt: skip
    first, words = content["rows"]
    assert (first["name"], first["role"]) == (model, "model")
    assert first["accuracy"] == expected["accuracy"]
    assert first["calibration"]["error"] == pytest.approx(expected["calibration_error"])
    assert np.sum(first["confusion"]) == 9
    assert (words["name"], words["accuracy"], words["calibration"]) == ("TF-IDF + linear SVM", 1.0, None)
    assert content["coverage"]["documents"] == 9

    with (tmp_path / "out" / "classes.csv").open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    assert [(line["role"], line["label"]) for line in table[:3]] == [("model", label) for label in LABELS]
    assert len(table) == 6
    assert [float(line["f1"]) for line in table[:3]] == [entry["f1"] for entry in first["classes"]]

    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0] == "labels by kind accuracy macro F1 calibration error"
    assert f"{expected['accuracy']:.3f} {expected['macro_f1']:.3f} {expected['calibration_error']:.3f}" in lines[1]
    assert lines[2] == "TF-IDF + linear SVM words 1.000 1.000"
    scores = first["classes"][1]
    assert (
        f"<b>sea</b> {scores['precision']:.3f} {scores['recall']:.3f} {scores['f1']:.3f} 3 {scores['given']}" in lines
    )
    assert "9 documents with labels, 3 classes; TF-IDF + linear SVM learned from 12 train documents" in lines


def test_mistakes(graphdoc: Command, corpus: Path, classifiers: Classifiers, tmp_path: Path) -> None:
    command = ("evaluate", "classify", "--data", corpus, "--model", classifiers(), "--no-baseline")
    out = graphdoc(*command, "--html", "out/m.html", "--json", "s.json", "--mistakes", "2", "--passages", "1").out
    content = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))
    found = content["mistakes"]
    assert len(content["rows"]) == 1
    assert len(found) == 2
    assert found[0]["confidence"] >= found[1]["confidence"]
    for mistake in found:
        line = int(mistake["id"].removeprefix("test")) + 1 + SIZES["train"]
        assert mistake["place"] == f"{corpus}:{line}"
        assert len(mistake["passages"]) == 1
        assert mistake["given"] != mistake["truth"]
        assert f"{mistake['confidence']:.3f} {mistake['id']} gets {mistake['label']}, labelled" in out
    page = lxml.html.document_fromstring((tmp_path / "out" / "m.html").read_text(encoding="utf-8"))
    assert [link.get("href") for link in page.findall(".//article//a")] == ["../corpus.jsonl"] * 2
    assert [title.text_content()[:6] for title in page.findall(".//h2")] == ["[bold]"] * 2
    # Without files the terminal has the strongest few.
    printed = graphdoc(*command).out
    assert f"{found[0]['confidence']:.3f} {found[0]['id']} gets" in printed


def test_a_folder_of_every_class(graphdoc: Command, classifiers: Classifiers, tmp_path: Path) -> None:
    for part in ("train", "test"):
        for number, row in enumerate(rows_of(part)):
            # A slash would be another folder.
            file = tmp_path / part / row["label"].replace("/", "") / f"{number} &.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(row["text"], encoding="utf-8")
    (tmp_path / "test" / "loose.txt").write_text("Some text.", encoding="utf-8")
    command = ("evaluate", "classify", "--train", "train", "--test", "test", "--label-from", "folder")
    out = graphdoc(*command, "--model", classifiers(), "--json", "s.json", "--html", "out/m.html").out
    assert "left out: 1 without a label, 0 with several or an empty list" in out
    content = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))
    assert content["data"]["documents"] == 9
    assert content["rows"][0]["unknown_labels"] == {"<b>sea<b>": 3}
    assert content["rows"][1]["accuracy"] == 1
    page = lxml.html.document_fromstring((tmp_path / "out" / "m.html").read_text(encoding="utf-8"))
    links = [link.get("href") for link in page.findall(".//article//a")]
    assert links
    for link in links:
        assert (tmp_path / "out" / unquote(link)).is_file()


def test_two_sources_are_the_same_as_two_splits(
    graphdoc: Command, corpus: Path, classifiers: Classifiers, tmp_path: Path
) -> None:
    train = write_rows(tmp_path / "train.jsonl", rows_of("train"))
    test = write_rows(tmp_path / "test.jsonl", rows_of("test"))
    command = ("evaluate", "classify", "--model", classifiers(), "--json", "-")
    expected = json.loads(graphdoc(*command, "--data", corpus).out)
    both = json.loads(graphdoc(*command, "--train", train, "--test", test).out)
    for content in (expected, both):
        for mistake in content["mistakes"]:
            del mistake["place"]
    assert both == expected
    alone = json.loads(graphdoc(*command, "--test", test).out)
    assert alone["rows"] == expected["rows"][:1]
    assert alone["data"]["train"] is None
    dev = json.loads(graphdoc(*command, "--data", corpus, "--test-split", "dev").out)
    assert dev["data"]["documents"] == 6


def test_documents_without_label_and_labels_that_the_model_does_not_know(
    graphdoc: Command, classifiers: Classifiers, tmp_path: Path
) -> None:
    rows = rows_of("test")
    rows[0]["label"], rows[1]["label"], rows[2]["label"] = None, ["rice", "[clocks]"], "[red]new"
    rows.append({"id": "zero", "text": "\u200b", "label": "rice", "split": "test"})
    test = write_rows(tmp_path / "test.jsonl", rows)
    command = ("evaluate", "classify", "--test", test, "--train", test, "--model", classifiers(), "--on-error", "skip")
    status, out, _ = graphdoc(*command, "--json", "s.json", "--plot", "c.svg")
    assert status == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "left out: 1 without a label, 1 with several or an empty list" in lines
    content = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))
    row = content["rows"][0]
    assert row["unknown_labels"] == {"[red]new": 1}
    note = "labels that the model does not know count as missed: [red]new (1); without these documents "
    assert f"{note}{row['accuracy_known']:.3f}" in lines
    assert row["accuracy"] == pytest.approx(row["accuracy_known"] * 6 / 7)
    assert any(line.startswith("[red]new (unknown to the model) 0.000 0.000 0.000 1 0") for line in lines)
    assert "skipped zero: it has no text to encode; leave it out" in lines
    assert "9 ids occur in train and in test" in lines
    assert content["data"]["documents"] == 7
    # The baseline learned the label from train, and knows it.
    assert content["rows"][1]["unknown_labels"] == {}


def test_several_labels(graphdoc: Command, classifiers: Classifiers, tmp_path: Path) -> None:
    model = classifiers(multi_label=True)
    source = tmp_path / "rows.csv"
    with source.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "text", "label", "split"])
        for row in [*rows_of("train"), *rows_of("test")]:
            label = {0: row["label"], 1: "rice; [clocks]", 2: ""}[int(row["id"][-1]) % 3]
            table.writerow([row["id"], row["text"], label, row["split"]])
    command = ("evaluate", "classify", "--data", source, "--model", model, "--label-separator", ";")
    status, out, err = graphdoc(*command, "--threshold", "0.4", "--output", "out")
    assert (status, err) == (0, "")
    assert " ".join(out.splitlines()[0].split()) == "labels by kind all right micro F1 macro F1 calibration error"
    content = json.loads((tmp_path / "out" / "scores.json").read_text(encoding="utf-8"))
    assert (content["multi_label"], content["threshold"]) == (True, 0.4)
    test = [one for one in read_documents(source) if one.metadata["split"] == "test"]
    expected = ClassificationEvaluator(test, multi_label=True, separator=";", threshold=0.4)(
        DocumentEncoder.from_pretrained(model, device="cpu")
    )
    row = content["rows"][0]
    assert (row["accuracy"], row["micro_f1"], row["confusion"]) == (expected["accuracy"], expected["micro_f1"], None)
    assert content["data"]["without_label"] == 3
    assert content["mistakes"]
    for mistake in content["mistakes"]:
        assert mistake["missed"] == (mistake["label"] in mistake["truth"])
        assert mistake["missed"] != (mistake["label"] in mistake["given"])
    assert (tmp_path / "out" / "confusion.png").stat().st_size > 5000


def test_help(graphdoc: Command) -> None:
    from graphdoc.cli import parse

    assert "  classify" in graphdoc("evaluate", "--help").out
    status, out, err = graphdoc("evaluate", "classify", "--help")
    assert (status, err) == (0, "")
    examples = [line for line in out.splitlines() if line.startswith("  graphdoc evaluate classify")]
    assert len(examples) == 3
    assert all(parse(line.split()[1:]).command == "evaluate classify" for line in examples)
    for option in ("--model", "--json", "--csv", "--plot", "--reliability", "--html", "--output", "--label-separator"):
        assert option in out


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ((), ("--data", "--test", "--train")),
        (("--train", "corpus.jsonl"), ("--data",)),
        (("--data", "corpus.jsonl", "--test", "corpus.jsonl"), ("--data",)),
        (("--test", "none.jsonl"), ("none.jsonl", "no such file")),
        (
            ("--test", "corpus.jsonl", "--test-split", "dev"),
            ("--test-split", "--data", "--test"),
        ),
        (("--test", "corpus.jsonl", "--split-column", "x"), ("--split-column", "--data", "--test")),
        (
            ("--data", "corpus.jsonl", "--split-column", "x"),
            ("'x'", "--split-column", "--test", "corpus.jsonl"),
        ),
        (("--data", "corpus.jsonl", "--test-split", "x"), ("'x'", "'split'", "'dev'", "'test'", "'train'")),
        (("--data", "corpus.jsonl", "--label-separator", ";"), ("--label-separator", "';'")),
        (("--test", "blank.jsonl", "--on-error", "skip"), ("blank.jsonl", "no documents")),
        (("--data", "corpus.jsonl", "--label-column", "x"), ("(9 have none, 0 several)",)),
        (
            ("--data", "corpus.jsonl", "--label-column", "id"),
            ("no document", "knows"),
        ),
        (
            ("--data", "corpus.jsonl", "--label-column", "same"),
            ("'rice'",),
        ),
        (("--data", "corpus.jsonl", "--threshold", "0.3"), ("several labels",)),
        (("--data", "corpus.jsonl", "--reliability", "a.gif"), ("a.gif", ".svg")),
        (("--data", "corpus.jsonl", "--json", "corpus.jsonl"), ("corpus.jsonl", "read")),
        (
            ("--data", "corpus.jsonl", "--html", "a", "--csv", "a"),
            ("two outputs",),
        ),
        (("--data", "corpus.jsonl", "--model", "MODEL"), ("tiny", "head")),
    ],
)
def test_refusals(
    refused: Command,
    tmp_path: Path,
    model: str,
    classifiers: Classifiers,
    options: tuple[str, ...],
    parts: tuple[str, ...],
) -> None:
    write_rows(tmp_path / "corpus.jsonl", [row | {"same": "rice"} for part in SIZES for row in rows_of(part)])
    write_rows(tmp_path / "blank.jsonl", [{"id": "zero", "text": "\u200b", "label": "rice"}])
    words = [model if option == "MODEL" else option for option in options]
    line = refused("evaluate", "classify", "--model", classifiers(), *words)
    assert line.startswith("graphdoc evaluate classify: ")
    assert all(part in line for part in parts), line
