from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

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


def test_a_row(tmp_path: Path) -> None:
    assert SINGLE[0].to_dict(2) == {
        "id": "d0",
        "title": "A <title>",
        "label": "a,b",
        "probability": 0.75,
        "coverage": 0.75,
        "probabilities": {"a,b": 0.75, 'the "sea"': 0.25, "<i>": 0.0},
        "passages": [
            {
                "label": "a,b",
                "contribution": 2.0,
                "passage": 2,
                "section": 0,
                "heading": "Head, ing",
                "start": 2,
                "end": 12,
                "text": TEXT[2:12],
            },
            {
                "label": "a,b",
                "contribution": 0.5,
                "passage": 3,
                "section": 1,
                "heading": "",
                "start": 3,
                "end": 13,
                "text": TEXT[3:13],
            },
        ],
    }
    assert len(SINGLE[0].to_dict(None)["passages"]) == 4
    row = SEVERAL[0].to_dict(1)
    assert row["labels"] == ["a,b", 'the "sea"']
    assert "label" not in row
    assert [passage["label"] for passage in row["passages"]] == row["labels"]


def test_what_is_left_of_the_logit() -> None:
    decision = SINGLE[0].decisions[0]
    assert decision.rest == pytest.approx(2.0 - 1.75)


@pytest.mark.parametrize("several", [False, True])
def test_the_same_in_every_kind_of_file(tmp_path: Path, several: bool) -> None:
    items = SEVERAL if several else SINGLE
    name = "labels" if several else "label"
    rows = [item.to_dict(2) for item in items]
    for suffix in ("jsonl", "csv", "parquet"):
        path = tmp_path / "new" / f"p.{suffix}"
        assert write_predictions(path, iter(items), CLASSES, multi_label=several, passages=2) == 2
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["p.csv", "p.jsonl", "p.parquet"]

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


def test_ids_and_labels_are_no_formulas_in_csv(tmp_path: Path) -> None:
    item = prediction(0, [0.75, 0.25, 0.0])
    document = replace(item.document, id="=1+1", title="@x")
    item = replace(item, segmented=replace(item.segmented, document=document), decisions=())
    item = replace(item, classes=("+a", "b", "c"), labels=("+a",))
    write_predictions(tmp_path / "p.csv", [item], item.classes)
    with (tmp_path / "p.csv").open(encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["id"], row["title"], row["label"]) == ("'=1+1", "'@x", "'+a")


def test_more_rows_than_one_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphdoc.prediction.records._ROWS_OF_A_GROUP", 2)
    items = [replace(SINGLE[0], segmented=prediction(number, [1, 0, 0]).segmented) for number in range(5)]
    write_predictions(tmp_path / "p.parquet", items, CLASSES)
    assert pd.read_parquet(tmp_path / "p.parquet")["id"].tolist() == [f"d{number}" for number in range(5)]


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_nothing_stays_of_what_breaks_off(tmp_path: Path, suffix: str) -> None:
    def broken() -> Iterator[Prediction]:
        yield SINGLE[0]
        raise DocumentError("row 2 is broken")

    with pytest.raises(DocumentError):
        write_predictions(tmp_path / f"p.{suffix}", broken(), CLASSES)
    assert list(tmp_path.iterdir()) == []
    assert write_predictions(tmp_path / f"p.{suffix}", [], CLASSES) == 0
    assert (tmp_path / f"p.{suffix}").exists()


@pytest.mark.parametrize("name", ["p.json", "p", "p.tsv", ".csv"])
def test_unknown_suffixes(tmp_path: Path, name: str) -> None:
    with pytest.raises(OutputError, match=r"has no suffix of a table; use one of \.jsonl, \.csv, \.parquet"):
        write_predictions(tmp_path / name, SINGLE, CLASSES)
    assert list(tmp_path.iterdir()) == []


class TestPredictions:
    def predictions(self, items: list[Prediction], threshold: float | None) -> Predictions:
        several = items[0].multi_label
        return Predictions(tuple(items), CLASSES, several, threshold, {"name": "m"}, Coverage(documents=2))

    def test_a_sequence(self) -> None:
        found = self.predictions(SINGLE, None)
        assert (len(found), found[1], found[:1], list(found)) == (2, SINGLE[1], (SINGLE[0],), SINGLE)
        assert found.labels == ["a,b", "<i>"]
        assert found.probabilities.tolist() == [[0.75, 0.25, 0.0], [0.25, 0.125, 0.625]]
        assert repr(found) == "Predictions(2 documents, 3 classes, model m)"
        assert repr(found[0]) == "Prediction('d0': a,b 0.750)"
        assert self.predictions(SEVERAL, 0.5).labels == [("a,b", 'the "sea"'), ()]

    def test_frame(self) -> None:
        frame = self.predictions(SINGLE, None).to_frame()
        assert frame["label"].tolist() == ["a,b", "<i>"]
        assert frame["p(a,b)"].tolist() == [0.75, 0.25]
        assert "passages" not in frame
        empty = replace(self.predictions(SINGLE, None), items=()).to_frame()
        assert list(empty.columns) == list(frame.columns)
        assert self.predictions(SEVERAL, 0.5).to_frame()["labels"].tolist() == [["a,b", 'the "sea"'], []]

    def test_json(self, tmp_path: Path) -> None:
        found = self.predictions(SEVERAL, 0.5)
        content = json.loads(found.to_json(tmp_path / "p.json", passages=1).read_text(encoding="utf-8"))
        assert content == found.to_dict(1)
        assert content["documents"] == [item.to_dict(1) for item in SEVERAL]
        del content["documents"], content["coverage"]
        assert content == {
            "format": "graphdoc.predictions/1",
            "model": {"name": "m"},
            "classes": list(CLASSES),
            "multi_label": True,
            "threshold": 0.5,
            "contributions": "exact",
        }

    def test_unknown_labels(self) -> None:
        with pytest.raises(SettingsError, match="label 'x' is unknown to the model; it knows a,b"):
            SINGLE[0].probability_of("x")
