"""Subtopics in the report: against the comparison that it shows, in the page and in a real browser."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lxml.html
import pytest
from open_report import Report

from graphdoc import Document, DocumentEncoder, Section
from graphdoc.analysis.report.page import render_report
from graphdoc.similarity.comparison import Comparison

ATTACK = "The <script>window.attacked=1</script> sluice opens."


@pytest.fixture(scope="module")
def documents() -> tuple[Document, Document]:
    a = [
        Section(f"The tide turns the turbines. A barrage holds the tide. {ATTACK}", heading="Power"),
        Section("Koji grows on rice. Rice is steamed for koji. Steamed rice cools.", heading="Rice"),
        Section("Birds feed on mud. Birds leave the mud in spring. Mud dries.", heading="Birds"),
    ]
    b = [
        Section("A barrage stops the tide. Turbines turn with the tide. Tide gates close.", heading="Works"),
        Section("Clocks strike hours. Hours are kept by clocks. Clocks need oil.", heading="Clocks"),
        Section("Waders are birds of the mud. Birds eat worms in the mud.", heading="Waders"),
    ]
    return Document("a", a, title="A"), Document("b", b, title="B")


@pytest.fixture(scope="module")
def comparison(tiny_encoder: Callable[..., DocumentEncoder], documents: tuple[Document, Document]) -> Comparison:
    encoder = tiny_encoder("roberta", graph_layers=0, readout="mean")
    return encoder.compare(*documents, subtopics="words", cluster_size=4)


@pytest.fixture(scope="module")
def path(comparison: Comparison, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return comparison.to_html(tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture
def report(browser: Any, path: Path) -> Iterator[Report]:
    report = Report(browser, path)
    yield report
    assert report.page.evaluate("window.attacked") is None
    report.close()


def spans(report: Report, side: str, name: str) -> list[int]:
    """Sentences of a text that have a class."""
    found = report.page.locator(f"#pane-{side} [data-sentence].{name}")
    return sorted(int(found.nth(place).get_attribute("data-sentence")) for place in range(found.count()))


def test_the_page_lists_all_subtopics(comparison: Comparison) -> None:
    page = lxml.html.fromstring(comparison.to_html())
    table = comparison.subtopics
    assert table is not None
    holders = {row.holder for row in table.rows}
    assert {"both", "a", "b"} == holders, "the example shows nothing"
    buttons = page.xpath("//button[contains(@class,'subtopic')]")
    assert [int(button.get("data-subtopic")) for button in buttons] == [row.number for row in table.rows]
    for button, row in zip(buttons, table.rows, strict=True):
        text = " ".join(button.text_content().split())
        assert ", ".join(row.words) in text
        assert (f"A {len(row.a)} sentence" in text) == bool(row.a)
        assert (f"B {len(row.b)} sentence" in text) == bool(row.b)
        assert ("mean similarity" in text) == (row.similarity is not None)
    titles = [" ".join(one.text_content().split()) for one in page.xpath("//*[@id='panel-subtopics']/h2")]
    assert [title.rsplit(" ", 1)[0] for title in titles[1:]] == ["In both documents", "Only in A", "Only in B"]
    data = json.loads(page.get_element_by_id("data").text)
    assert data["subtopics"]["a"] == table.subtopics.sides[0].tolist()
    assert data["subtopics"]["b"] == table.subtopics.sides[1].tolist()


def test_without_subtopics_there_is_no_panel(
    tiny_encoder: Callable[..., DocumentEncoder], documents: tuple[Document, Document]
) -> None:
    encoder = tiny_encoder("roberta", graph_layers=0, readout="mean")
    page = lxml.html.fromstring(encoder.compare(*documents, sentences=True).to_html())
    assert not page.xpath("//*[@id='tab-subtopics' or @id='panel-subtopics']")
    # Comparisons that were written before there were any.
    payload = encoder.compare(*documents).to_dict()
    del payload["subtopics"]
    assert not lxml.html.fromstring(render_report(payload)).xpath("//*[@id='panel-subtopics']")


def test_words_of_a_page_are_text(comparison: Comparison) -> None:
    payload = json.loads(json.dumps(comparison.to_dict()))
    payload["subtopics"]["rows"][0]["words"] = ["<img src=x onerror=window.attacked=1>", "</script>"]
    page = lxml.html.fromstring(render_report(payload))
    assert not page.xpath("//img")
    assert "<img src=x" in page.xpath("//button[contains(@class,'subtopic')]")[0].text_content()


def test_sentences_have_the_colour_of_their_subtopic(report: Report, comparison: Comparison) -> None:
    table = comparison.subtopics
    assert table is not None
    report.page.click("#tab-subtopics")
    alone = {row.number for row in table.rows if row.holder != "both"}
    colours: dict[int, set[str]] = {}
    for side, clusters in zip("ab", table.subtopics.sides, strict=True):
        assert spans(report, side, "has-subtopic") == list(range(len(clusters)))
        assert spans(report, side, "is-alone") == [place for place, one in enumerate(clusters) if one in alone]
        for place, cluster in enumerate(clusters.tolist()):
            span = report.page.locator(f"#pane-{side} [data-sentence='{place}']")
            colours.setdefault(cluster, set()).add(span.evaluate("one => getComputedStyle(one).backgroundColor"))
    assert all(len(found) == 1 for found in colours.values())
    assert len(set().union(*colours.values())) == len(table.rows)
    # Elsewhere, and with the switch off, texts are as they were.
    report.page.uncheck("#colour-sentences")
    assert spans(report, "a", "has-subtopic") == []
    report.page.check("#colour-sentences")
    report.page.click("#tab-matches")
    assert spans(report, "a", "has-subtopic") == []


def test_a_subtopic_is_chosen_in_the_list_and_in_a_text(report: Report, comparison: Comparison) -> None:
    table = comparison.subtopics
    assert table is not None
    report.page.click("#tab-subtopics")
    shared = next(row for row in table.rows if row.holder == "both")
    button = report.page.locator(f"button.subtopic[data-subtopic='{shared.number}']")
    button.focus()
    report.page.keyboard.press("Enter")
    assert button.get_attribute("aria-pressed") == "true"
    faded = spans(report, "a", "is-other")
    assert faded == [place for place in range(len(table.subtopics.sides[0])) if place not in shared.a]
    assert ", ".join(shared.words) in report.page.locator("#announcement").inner_text()
    report.page.keyboard.press("Escape")
    assert spans(report, "a", "is-other") == []

    alone = next(row for row in table.rows if row.holder == "b")
    report.page.locator(f"#pane-b [data-sentence='{alone.b[0]}']").click()
    pressed = report.page.locator("button.subtopic[aria-pressed='true']")
    assert pressed.get_attribute("data-subtopic") == str(alone.number)
    assert spans(report, "a", "is-other") == list(range(len(table.subtopics.sides[0])))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_can_be_used_on_a_telephone(browser: Any, path: Path, theme: str) -> None:
    report = Report(browser, path, viewport={"width": 390, "height": 844})
    if theme == "dark":
        report.page.click("#theme")
    report.page.click("#tab-subtopics")
    assert report.page.locator("#panel-subtopics").is_visible()
    assert report.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    boxes = report.page.locator("button.subtopic")
    assert boxes.count() >= 3
    assert all(boxes.nth(place).bounding_box()["height"] >= 40 for place in range(boxes.count()))
    boxes.first.click()
    report.page.click("#tab-a")
    assert report.page.locator("#pane-a .has-subtopic").first.is_visible()
    report.close()


def test_one_document_within_itself(
    tiny_encoder: Callable[..., DocumentEncoder], documents: tuple[Document, Document], browser: Any, tmp_path: Path
) -> None:
    encoder = tiny_encoder("roberta", graph_layers=0, readout="mean")
    comparison = encoder.compare(documents[0], subtopics="words", cluster_size=3)
    report = Report(browser, comparison.to_html(tmp_path / "within.html"))
    report.page.click("#tab-subtopics")
    assert spans(report, "a", "has-subtopic") == spans(report, "b", "has-subtopic") == list(range(9))
    assert spans(report, "a", "is-alone") == []
    report.close()
