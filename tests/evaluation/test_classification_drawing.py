"""Pictures of how well classes are predicted, and the page of a classifier's mistakes."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import lxml.etree
import lxml.html
import numpy as np
import pytest
from matplotlib.figure import Figure

from graphdoc.documents.document import Document
from graphdoc.documents.section import Section
from graphdoc.evaluation import classification_scores
from graphdoc.evaluation.classification import ClassificationScores, Mistake, calibration
from graphdoc.evaluation.drawing import mistakes_page, plot_confusion, plot_reliability
from graphdoc.prediction import Decision, Prediction
from graphdoc.segmentation.spans import Coverage, SegmentedDocument, Span

DRAWN = ("a", "$b$", "<c>")


def one(*names: str) -> list[tuple[str, ...]]:
    return [(name,) for name in names]


@pytest.fixture
def drawn() -> ClassificationScores:
    return classification_scores(one("a", "a", "$b$", "new", "a"), one("a", "$b$", "$b$", "a", "a"), DRAWN)


def texts_of(figure: Figure) -> list[str]:
    figure.canvas.draw()
    return [text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text"))]


def test_confusion(drawn: ClassificationScores) -> None:
    figure = plot_confusion(drawn, "Title with a $ sign", None)
    drawn = figure.axes[0].images[0].get_array()
    np.testing.assert_allclose(drawn, [[2 / 3, 1 / 3, 0], [0, 1, 0], [0, 0, 0], [1, 0, 0]])
    shown = texts_of(figure)
    assert {"a", r"\$b\$", "<c>", "new (unknown)", "2", r"Title with a \$ sign"} <= set(shown)
    assert figure.axes[0].get_ylabel() == "label"


def test_several_labels_are_bars_by_class() -> None:
    truth = [("a", "$b$"), ("a",), ("a",), ()]
    found = classification_scores(truth, [("a",), ("a", "<c>"), (), ("<c>",)], DRAWN, multi_label=True)
    figure = plot_confusion(found, "several", None)
    axes = figure.axes[0]
    widths = [[bar.get_width() for bar in container] for container in axes.containers]
    assert widths == [[2, 0, 0], [1, 1, 0], [0, 0, 2]]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["a", r"\$b\$", "<c>"]


def test_reliability() -> None:
    measured = calibration(np.array([0.15, 0.19, 0.95, 0.9]), np.array([False, True, True, True]), bins=5)
    figure = plot_reliability(measured, "model", None)
    upper, lower = figure.axes
    assert [round(bar.get_height(), 6) for bar in upper.containers[0]] == [0.5, 1]
    assert [bar.get_height() for bar in lower.containers[0]] == [2, 0, 0, 0, 2]
    assert any(f"calibration error {measured.error:.3f}" in text for text in texts_of(figure))


def test_a_file_of_many_classes(tmp_path: Path) -> None:
    names = [f"class {n}" for n in range(60)]
    found = classification_scores(one(*names), one(*names[1:], names[0]), names)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shown = texts_of(plot_confusion(found, "many", tmp_path / "new" / "c.svg"))
    assert "class 1" not in shown and shown.count("1") < 60
    lxml.etree.parse(tmp_path / "new" / "c.svg")


EVIL = "<script>alert(1)</script>\"'&{{ 7 * 7 }}"
CLASSES = (EVIL, "b", "c")
TEXT = f"First passage, {EVIL}. Second passage. Third passage."
SPANS = ((0, 42), (43, 58), (59, 73))


def explained(number: int = 0, text: str = TEXT, **changes: Any) -> Mistake:
    sections = (Section(text, EVIL), Section("", "Empty"), Section("Other text.", "Last"))
    document = Document(f"d{number} {EVIL}", sections, f"Title {EVIL}")
    spans = (*(Span(0, start, end, 3) for start, end in SPANS), Span(2, 0, 11, 3))
    segmented = SegmentedDocument(document, spans, (), Coverage(100, 50, 20, 10, 8, 4))
    probabilities = np.array([0.75, 0.25, 0.0], np.float32)
    decisions = (
        Decision(EVIL, 0.75, 1.5, np.array([-0.5, 2.0, 0.25, 1.0], np.float32)),
        Decision("b", 0.25, 0.5, np.array([0.5, -1.0, 0.0, 0.125], np.float32)),
    )
    prediction = Prediction(segmented, CLASSES, probabilities, probabilities, (EVIL,), decisions)
    return Mistake(
        EVIL, changes.get("confidence", 0.75), changes.get("missed", False), changes.get("truth", ("b",)), prediction
    )


@pytest.fixture
def scores() -> ClassificationScores:
    return classification_scores([("b",), ("c",)], [(EVIL,), ("c",)], CLASSES)


def words(element: Any) -> str:
    return " ".join(element.text_content().split())


def test_what_is_shown(scores: ClassificationScores) -> None:
    html = mistakes_page([explained()], scores, "my model", passages=2)
    page = lxml.html.document_fromstring(html)
    assert "1 of 2 documents got other labels than theirs (accuracy 0.500" in words(page.find(".//main"))
    assert "below is the mistake that the model is most sure of." in words(page.find(".//main"))
    (article,) = page.findall(".//article")
    assert words(article.find("h2")) == f"Title {EVIL}"
    verdict = article.find_class("verdict")[0]
    assert words(verdict) == f"Gets {EVIL} at 0.750; labelled b (0.250). Only 50% of the text was encoded."
    rows = [[words(cell) for cell in row] for row in article.findall(".//tbody/tr")]
    assert [row[:2] for row in rows] == [["+2.000", "-1.000"], ["+1.000", "+0.125"]]
    assert rows[1][2] == "Last Other text."
    marked = [mark.text_content() for mark in article.findall(".//mark")]
    assert marked == [TEXT[43:58], "Other text."]
    assert TEXT in article.find(".//details").text_content()
    assert [words(heading) for heading in article.findall(".//h3")] == [" ".join(EVIL.split()), "Empty", "Last"]


def test_nothing_of_a_document_or_a_label_is_markup(scores: ClassificationScores) -> None:
    html = mistakes_page([explained()], scores, EVIL, places={f"d0 {EVIL}": EVIL})
    page = lxml.html.document_fromstring(html)
    assert len(page.findall(".//script")) == 2
    assert "49" not in words(page.find(".//main"))
    policy = page.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")[0]
    assert policy.startswith("default-src 'none'; script-src 'sha256-") and "unsafe" not in policy
    assert not [name for element in page.iter() for name in element.attrib if name.startswith("on")]


def test_classes_that_are_missed_and_labels_that_are_unknown(scores: ClassificationScores) -> None:
    missed = explained(confidence=0.25, missed=True, truth=(EVIL, "x"))
    page = lxml.html.document_fromstring(mistakes_page([missed, explained(truth=())], scores, "m"))
    first, second = (words(part) for part in page.find_class("verdict"))
    assert first.startswith(
        f"Has {EVIL} and gets it at 0.750 only; labelled {EVIL} (0.750), x (unknown to the model)."
    )
    assert second.startswith(f"Gets {EVIL} at 0.750; labelled with no class.")


def test_links_to_files(scores: ClassificationScores, tmp_path: Path) -> None:
    folder = tmp_path / "a & b"
    folder.mkdir()
    for name in ("one #1.md", "corpus.jsonl", "javascript:alert(1).txt"):
        (folder / name).write_text("x")
    mistakes = [explained(number) for number in range(5)]
    places = [str(folder / "one #1.md"), f"{folder / 'corpus.jsonl'}:12", str(folder / "javascript:alert(1).txt")]
    places += ["standard input"]
    names = {one.prediction.id: place for one, place in zip(mistakes, places, strict=False)}
    page = lxml.html.document_fromstring(mistakes_page(mistakes, scores, "m", places=names, folder=tmp_path / "out"))
    links = [link.get("href") for link in page.findall(".//article//a")]
    assert links == [
        "../a%20%26%20b/one%20%231.md",
        "../a%20%26%20b/corpus.jsonl",
        "../a%20%26%20b/javascript%3Aalert%281%29.txt",
    ]
    shown = [words(article) for article in page.findall(".//article")]
    assert f"{folder / 'corpus.jsonl'}:12" in shown[1]
    assert "standard input" in shown[3]
