"""Predictions against NumPy, what passages add to them, thresholds, streams and refusals."""

from __future__ import annotations

import csv
import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from typed import Documents, Encoders, Log, Patch

from graphdoc.documents.document import Document
from graphdoc.documents.section import Section
from graphdoc.errors import DocumentError, GraphdocError, ModelError, OutputError, SettingsError
from graphdoc.prediction import (
    Decision,
    Prediction,
    Predictions,
    explain,
    predict,
    stream_predictions,
    write_predictions,
)
from graphdoc.prediction.predicting import given_labels
from graphdoc.registry import READOUTS
from graphdoc.segmentation.spans import Coverage, SegmentedDocument, Span

LABELS = ["rice", "<b>sea</b>", "[clocks]"]


@pytest.mark.parametrize("layers", [0, 2])
@pytest.mark.parametrize("readout", READOUTS)
def test_probabilities_and_contributions_are_those_of_the_vectors(
    tiny_classifier: Encoders, structured: Documents, readout: str, layers: int
) -> None:
    encoder = tiny_classifier(readout=readout, graph_layers=layers, graph_kind="section")
    weight, bias = (value.detach().double().numpy() for value in encoder.model.head.linear.parameters())
    logits = encoder.encode(structured).astype(np.float64) @ weight.T + bias
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    predictions = predict(encoder, structured)
    assert [item.id for item in predictions] == ["first", "second", "third"]
    np.testing.assert_allclose(predictions.probabilities, shifted / shifted.sum(axis=1, keepdims=True), atol=1e-5)
    np.testing.assert_allclose([item.logits for item in predictions], logits, atol=1e-4)
    assert predictions.labels == [LABELS[number] for number in logits.argmax(1)]
    assert len(predictions[0].segmented.passages) > 3 and np.ptp(predictions.probabilities) > 0.05
    for item in predictions:
        (decision,) = item.decisions
        place = LABELS.index(decision.label)
        assert item.labels == (item.label,) == (decision.label,)
        assert (decision.probability, decision.logit) == (item.probability, item.logits[place])
        # What passages add and the bias of the class add up to the logit.
        assert decision.contributions.shape == (len(item.segmented.passages),)
        assert decision.rest == pytest.approx(bias[place], abs=2e-5)
        order = decision.strongest(None)
        assert sorted(order) == list(range(len(item.segmented.passages))) and decision.strongest(2) == order[:2]
        assert list(decision.contributions[order]) == sorted(decision.contributions, reverse=True)


def test_several_labels(tiny_classifier: Encoders, structured: Documents) -> None:
    encoder = tiny_classifier(multi_label=True)
    predictions = predict(encoder, structured)
    logits = np.array([item.logits for item in predictions], np.float64)
    np.testing.assert_allclose(predictions.probabilities, 1 / (1 + np.exp(-logits)), atol=1e-6)
    assert predictions.threshold == 0.5
    for threshold in (0.01, 0.5, 0.9):
        found = predict(encoder, structured, threshold=threshold, explain=False)
        assert found.labels == [
            tuple(name for name, probability in zip(LABELS, row, strict=True) if probability >= threshold)
            for row in predictions.probabilities
        ]
    for item in predict(encoder, structured, threshold=0.001):
        assert tuple(decision.label for decision in item.decisions) == item.labels and len(item.labels) > 1
        assert item.label == max(item.labels, key=item.probability_of)
    assert given_labels(np.array([0.5, 0.4999], np.float32), ("a", "b"), 0.5) == ("a",)
    assert given_labels(np.array([0.2, 0.4, 0.4], np.float32), ("a", "b", "c"), None) == ("b",)
    # Where a document gets no class, the likeliest is explained.
    for item in predict(encoder, structured, threshold=0.9999):
        assert item.labels == () and item.label is None
        assert [decision.label for decision in item.decisions] == [LABELS[int(item.logits.argmax())]]


@pytest.mark.parametrize(
    ("settings", "options", "error", "named"),
    [
        ({"multi_label": True}, {"threshold": 0}, SettingsError, "threshold=0"),
        ({"multi_label": True}, {"threshold": float("nan")}, SettingsError, "threshold=nan"),
        ({"multi_label": True}, {"threshold": True}, SettingsError, "threshold=True"),
        ({}, {"threshold": 0.4}, SettingsError, "tiny-bert"),
        ({}, {"dtype": "int4"}, GraphdocError, "int4"),
        ({"labels": None}, {}, ModelError, "tiny-bert"),
    ],
)
def test_bad_input(
    tiny_classifier: Encoders, tiny_encoder: Encoders, settings: Any, options: Any, error: Any, named: str
) -> None:
    encoder = tiny_encoder("bert") if "labels" in settings else tiny_classifier(**settings)
    with pytest.raises(error, match=named):
        predict(encoder, "Some text.", **options)
    if not options:
        # Before a document is asked for.
        with pytest.raises(error, match=named):
            stream_predictions(encoder, ["Some text."])
        with pytest.raises(error, match=named):
            explain(encoder, "Some text.", ["a"])


def test_documents_in_any_form(tiny_classifier: Encoders, structured: Documents) -> None:
    encoder = tiny_classifier()
    expected = encoder.predict([structured[1]])
    for form in (structured[1], structured[1].to_dict(), encoder.segment(structured[1])):
        found = encoder.predict(form, explain=False)
        np.testing.assert_array_equal(found.probabilities, expected.probabilities)
        assert found[0].decisions == () and found[0].to_dict()["passages"] == []
    for wrong in (5, [structured[0], Document.from_text("\u200b")]):
        with pytest.raises(DocumentError):
            encoder.predict(wrong)
    assert encoder.predict([]).probabilities.shape == (0, 3)


def test_documents_are_asked_for_as_they_are_needed(
    tiny_classifier: Encoders, structured: Documents, monkeypatch: Patch
) -> None:
    monkeypatch.setattr("graphdoc.inference.segmenting.WINDOW_PASSAGES", 4)
    monkeypatch.setattr("graphdoc.inference.segmenting.BLOCK_DOCUMENTS", 1)
    asked: list[int] = []

    def documents() -> Iterator[Document]:
        for number in range(6):
            asked.append(number)
            yield replace(structured[number % 2], id=str(number))

    encoder, totals = tiny_classifier(), Coverage()
    stream = stream_predictions(encoder, documents(), totals=totals)
    assert asked == []
    first = next(stream)
    assert len(asked) == 1
    rest = list(stream)
    assert len(asked) == 6 == totals.documents
    whole = encoder.predict(structured[:2], explain=False)
    for item in (first, *rest):
        np.testing.assert_allclose(item.probabilities, whole.probabilities[int(item.id) % 2], atol=1e-5)
        assert item.segmented.token_ids == () and item.segmented.texts[0]


def test_what_is_left_out_is_counted_and_said(tiny_classifier: Encoders, structured: Documents, caplog: Log) -> None:
    with caplog.at_level(logging.WARNING):
        predictions = tiny_classifier(max_passages=2).predict(structured)
    assert "2 of 3" in caplog.text and predictions.coverage.documents_not_whole == 2
    assert len(predictions[0].decisions[0].contributions) == 2 and predictions[0].to_dict()["coverage"] < 1


def test_any_classes_are_explained(tiny_classifier: Encoders, structured: Documents) -> None:
    encoder = tiny_classifier()
    given, every = encoder.predict(structured[0])[0], explain(encoder, structured[0], ["[clocks]", "rice", LABELS[1]])
    assert [decision.label for decision in every.decisions] == ["[clocks]", "rice", LABELS[1]]
    assert every.labels == given.labels
    for decision in every.decisions:
        assert decision.logit == pytest.approx(float(given.logits[LABELS.index(decision.label)]), abs=1e-5)
        if decision.label == given.label:
            np.testing.assert_allclose(decision.contributions, given.decisions[0].contributions, atol=1e-6)
    with pytest.raises(SettingsError, match="'x'"):
        explain(encoder, "Some text.", ["rice", "x"])


def test_precision_dropout_and_weights_that_are_nan(tiny_classifier: Encoders, structured: Documents) -> None:
    encoder = tiny_classifier(classifier_dropout=0.5)
    encoder.model.train()
    exact, rounded = (encoder.predict(structured, dtype=dtype).probabilities for dtype in (None, "bfloat16"))
    assert 0 < np.abs(exact - rounded).max() < 0.1
    np.testing.assert_array_equal(exact, encoder.predict(structured).probabilities)
    assert encoder.model.training and encoder.model.head.training
    with torch.no_grad():
        encoder.model.head.linear.bias.fill_(torch.nan)
    with pytest.raises(ModelError, match="NaN"):
        encoder.predict(structured)


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
        return Predictions(tuple(items), CLASSES, items[0].multi_label, threshold, {"name": "m"}, Coverage(documents=2))

    found, several = predictions(SINGLE, None), predictions(SEVERAL, 0.5)
    assert (len(found), found[1], found[:1], list(found)) == (2, SINGLE[1], (SINGLE[0],), SINGLE)
    assert found.labels == ["a,b", "<i>"] and several.labels == [("a,b", 'the "sea"'), ()]
    assert found.probabilities.tolist() == [[0.75, 0.25, 0.0], [0.25, 0.125, 0.625]]
    assert "2 documents" in repr(found) and "a,b 0.750" in repr(found[0])
    frame, empty = found.to_frame(), replace(found, items=()).to_frame()
    assert frame["label"].tolist() == ["a,b", "<i>"] and frame["p(a,b)"].tolist() == [0.75, 0.25]
    assert "passages" not in frame and list(empty.columns) == list(frame.columns)
    assert several.to_frame()["labels"].tolist() == [["a,b", 'the "sea"'], []]
    content = json.loads(json.dumps(several.to_dict(passages=1)))
    assert content == several.to_dict(1) and content["documents"] == [item.to_dict(1) for item in SEVERAL]
    assert (content["classes"], content["multi_label"], content["threshold"]) == (list(CLASSES), True, 0.5)
    with pytest.raises(SettingsError, match="'x'"):
        SINGLE[0].probability_of("x")
