"""Rows and files of predictions: the same in every kind, whole or not there."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typed import Patch

from graphdoc.documents.document import Document
from graphdoc.documents.section import Section
from graphdoc.errors import DocumentError, OutputError, SettingsError
from graphdoc.prediction import Decision, Prediction, Predictions, write_predictions
from graphdoc.segmentation.spans import Coverage, SegmentedDocument, Span

CLASSES = ("a,b", 'the "sea"', "<i>")
TEXT = "One, two.\nThree 'four'; \u2603."


def prediction(number: int, probabilities: list[float], *, multi_label: bool = False, passages: int = 4) -> Prediction:
    document = Document(f"d{number}", (Section(TEXT, "Head, ing"), Section(TEXT)), "A <title>")
    spans = tuple(Span(row % 2, row, 10 + row, 3) for row in range(passages))
    segmented = SegmentedDocument(document, spans, (), Coverage(60, 45, 20, 15, 9, passages))
    values = np.array(probabilities, np.float32)
    labels = tuple(name for name, p in zip(CLASSES, probabilities, strict=True) if p >= 0.5)
    contributions = np.array([0.25, -1.0, 2.0, 0.5][:passages], np.float32)
    decisions = tuple(Decision(name, float(values.max()), 2.0, contributions) for name in labels)
    return Prediction(segmented, CLASSES, 2 * values, values, labels, decisions, multi_label)


SINGLE = [prediction(0, [0.75, 0.25, 0.0]), prediction(1, [0.25, 0.125, 0.625])]
SEVERAL = [prediction(0, [0.75, 0.5, 0.0], multi_label=True), prediction(1, [0.25, 0.125, 0.0], multi_label=True)]


def test_a_row() -> None:
    def passage(row: int, added: float, section: int, heading: str) -> dict[str, object]:
        place = {"section": section, "heading": heading, "start": row, "end": 10 + row, "text": TEXT[row : 10 + row]}
        return {"label": "a,b", "contribution": added, "passage": row, **place}

    assert SINGLE[0].to_dict(2) == {
        "id": "d0",
        "title": "A <title>",
        "label": "a,b",
        "probability": 0.75,
        "coverage": 0.75,
        "probabilities": {"a,b": 0.75, 'the "sea"': 0.25, "<i>": 0.0},
        "passages": [passage(2, 2.0, 0, "Head, ing"), passage(3, 0.5, 1, "")],
    }
    assert len(SINGLE[0].to_dict(None)["passages"]) == 4
    near = [0.39, 0.31, 0.3]
    assert prediction(0, near).is_near_chance and not prediction(0, near, multi_label=True).is_near_chance
    row = SEVERAL[0].to_dict(1)
    assert row["labels"] == ["a,b", 'the "sea"']
    assert "label" not in row
    assert [passage["label"] for passage in row["passages"]] == row["labels"]


@pytest.mark.parametrize("several", [False, True])
def test_the_same_in_every_kind_of_file(tmp_path: Path, monkeypatch: Patch, several: bool) -> None:
    items = SEVERAL if several else SINGLE
    name = "labels" if several else "label"
    rows = [item.to_dict(2) for item in items]
    for suffix in ("jsonl", "csv", "parquet"):
        path = tmp_path / "new" / f"p.{suffix}"
        assert write_predictions(path, iter(items), CLASSES, multi_label=several, passages=2) == 2
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["p.csv", "p.jsonl", "p.parquet"]

    # A spreadsheet computes nothing, and several groups of rows are one table.
    attacked = replace(items[0].document, id="=1+1", title="@x")
    item = replace(items[0], segmented=replace(items[0].segmented, document=attacked))
    write_predictions(tmp_path / "p.csv", [item], CLASSES, multi_label=several)
    row = next(csv.DictReader((tmp_path / "p.csv").read_text(encoding="utf-8").splitlines()))
    assert (row["id"], row["title"]) == ("'=1+1", "'@x")
    monkeypatch.setattr("graphdoc.prediction.records._GROUP_ROWS", 2)
    write_predictions(tmp_path / "p.parquet", items * 3, CLASSES, multi_label=several)
    assert pd.read_parquet(tmp_path / "p.parquet")["id"].tolist() == ["d0", "d1"] * 3
    lines = (tmp_path / "new" / "p.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == rows
    with (tmp_path / "new" / "p.csv").open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    frame = pd.read_parquet(tmp_path / "new" / "p.parquet")
    columns = ["id", "title", name, "probability", "coverage", "p(a,b)", 'p(the "sea")', "p(<i>)", "passages"]
    assert list(table[0]) == list(frame.columns) == columns
    for row, line, (_, other) in zip(rows, table, frame.iterrows(), strict=True):
        assert (json.loads(line[name]) if several else line[name]) == row[name]
        assert (list(other[name]) if several else other[name]) == row[name]
        assert json.loads(line["passages"]) == row["passages"]
        assert [dict(passage) for passage in other["passages"]] == row["passages"]
        for label, value in row["probabilities"].items():
            assert float(line[f"p({label})"]) == other[f"p({label})"] == value


def test_nothing_stays_of_what_breaks_off(tmp_path: Path) -> None:
    def broken() -> Iterator[Prediction]:
        yield SINGLE[0]
        raise DocumentError("row 2 is broken")

    for suffix in ("jsonl", "csv", "parquet"):
        with pytest.raises(DocumentError):
            write_predictions(tmp_path / f"p.{suffix}", broken(), CLASSES)
        assert not list(tmp_path.glob("*p.*"))
        assert write_predictions(tmp_path / suffix / f"p.{suffix}", [], CLASSES) == 0
    with pytest.raises(OutputError, match=r"p\.json"):
        write_predictions(tmp_path / "p.json", SINGLE, CLASSES)


def test_many_predictions(tmp_path: Path) -> None:
    def predictions(items: list[Prediction], threshold: float | None) -> Predictions:
        several = items[0].multi_label
        return Predictions(tuple(items), CLASSES, several, threshold, {"name": "m"}, Coverage(documents=2))

    found, several = predictions(SINGLE, None), predictions(SEVERAL, 0.5)
    assert (len(found), found[1], found[:1], list(found)) == (2, SINGLE[1], (SINGLE[0],), SINGLE)
    assert found.labels == ["a,b", "<i>"] and several.labels == [("a,b", 'the "sea"'), ()]
    assert found.probabilities.tolist() == [[0.75, 0.25, 0.0], [0.25, 0.125, 0.625]]
    assert "2 documents" in repr(found) and "a,b 0.750" in repr(found[0])
    frame, empty = found.to_frame(), replace(found, items=()).to_frame()
    assert frame["label"].tolist() == ["a,b", "<i>"] and frame["p(a,b)"].tolist() == [0.75, 0.25]
    assert "passages" not in frame and list(empty.columns) == list(frame.columns)
    assert several.to_frame()["labels"].tolist() == [["a,b", 'the "sea"'], []]
    content = json.loads(several.to_json(tmp_path / "p.json", passages=1).read_text(encoding="utf-8"))
    assert content == several.to_dict(1) and content["documents"] == [item.to_dict(1) for item in SEVERAL]
    assert (content["classes"], content["multi_label"], content["threshold"]) == (list(CLASSES), True, 0.5)
    with pytest.raises(SettingsError, match="'x'"):
        SINGLE[0].probability_of("x")
