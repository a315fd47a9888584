"""Paragraphs and alignments in the report: against the comparison that it shows, in the page and in a real browser."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import lxml.html
import pytest
from open_report import Report

from graphdoc import Document, DocumentEncoder, Section
from graphdoc.analysis.report import content as report_content
from graphdoc.analysis.report import page as report_page
from graphdoc.analysis.report.page import render_report
from graphdoc.similarity.alignment import ParagraphPair
from graphdoc.similarity.comparison import Comparison

ATTACK = "The <script>window.attacked=1</script> sluice opens."
FILLER = "Sand drifts along the coast and settles where the water is slow. " * 6


@pytest.fixture(scope="module")
def comparison(tiny_encoder: Callable[..., DocumentEncoder]) -> Comparison:
    """Two documents with several paragraphs in a section, each of several sentences."""
    encoder = tiny_encoder("roberta", graph_layers=0, readout="mean", paragraph="blank_line")
    a = [
        Section(f"The tide turns the turbines. {ATTACK}\n\nA barrage costs money. Nobody pays.", heading="Power"),
        Section(FILLER, heading="Sand"),
        Section("Birds feed on the mud. They leave in spring.", heading=ATTACK),
    ]
    b = [
        Section("Waders eat worms. In spring they fly north. Some stay.", heading="Birds"),
        Section(f"{FILLER}\n\n{ATTACK} The turbines turn.", heading="Works"),
    ]
    return encoder.compare(Document("a", a, title="A"), Document("b", b, title="B"), sentences=True)


@pytest.fixture(scope="module")
def path(comparison: Comparison, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return comparison.to_html(tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture
def report(browser: Any, path: Path) -> Iterator[Report]:
    report = Report(browser, path)
    yield report
    assert report.page.evaluate("window.attacked") is None
    report.close()


def ranked(comparison: Comparison, direction: str) -> list[ParagraphPair]:
    """The pairs of a direction, those that add most first."""
    return [pair for pair in comparison.alignment().best() if pair.direction == direction]


def words(element: Any) -> str:
    return " ".join(element.text_content().split())


def test_pairs_and_scores_are_those_of_the_comparison(comparison: Comparison) -> None:
    page = render_report(comparison.to_dict())
    tree = lxml.html.document_fromstring(page)
    panel = tree.get_element_by_id("panel-alignment")
    assert comparison.sentence_scores is not None and ATTACK not in page
    shown = {words(row.find("dt")): words(row.find("dd")) for row in panel.findall(".//dl/div")}
    assert shown == {name: f"{score:.3f}" for name, score in comparison.sentence_scores.items()}
    for direction in ("source", "candidate"):
        links = panel.xpath(f".//a[@data-direction='{direction}']")
        expected = ranked(comparison, direction)
        assert [(int(link.get("data-a")), int(link.get("data-b"))) for link in links] == [
            (pair.source, pair.candidate) for pair in expected
        ]
        for link, pair in zip(links, expected, strict=True):
            assert f"{pair.score:.3f} adds {pair.contribution:.4f}" in words(link)
            assert f"{len(pair.sentences)} sentence pair" in words(link)
    data = json.loads(tree.get_element_by_id("data").text)
    assert sum(one[3] for pair in data["alignment"] for one in pair["sentences"]) == pytest.approx(
        comparison.sentence_scores["sentences"], abs=1e-5
    )
    for side, encoded in (("a", comparison.a), ("b", comparison.b)):
        assert encoded.sentence_set is not None
        places = pairwise(encoded.sentence_set.paragraphs.tolist())
        assert data["documents"][side]["paragraphs"] == list(map(list, places))
    listed = tree.xpath("//*[@data-matches='paragraphs']//a")
    assert [(int(link.get("data-a")), int(link.get("data-b"))) for link in listed] == [
        match[:2] for match in comparison.matches("paragraph")
    ]


def test_a_report_stays_small_and_says_what_it_leaves_out(
    comparison: Comparison, tiny_encoder: Callable[..., DocumentEncoder], monkeypatch: pytest.MonkeyPatch
) -> None:
    payload = comparison.to_dict()
    monkeypatch.setattr(report_content, "MAP_CELLS", 10)
    monkeypatch.setattr(report_page, "LISTED_SENTENCES", 1)
    for module in (report_content, report_page):
        monkeypatch.setattr(module, "LISTED_MATCHES", 2)
    page = render_report(payload)
    data = json.loads(lxml.html.document_fromstring(page).get_element_by_id("data").text)
    assert {"sections", "passages"} == set(data["levels"]) and "The map of paragraphs has 12 cells" in page
    assert len(data["alignment"]) == 4 and "The first 2 are listed" in page
    assert all(len(pair["sentences"]) == 1 for pair in data["alignment"])
    assert max(pair["total"] for pair in data["alignment"]) > 1
    # Within one document every sentence is its own best one; without sentences there is nothing of this.
    encoder = tiny_encoder("roberta", graph_layers=0, readout="mean")
    document = Document("a", [Section("The tide turns. Birds feed."), Section("Nobody pays.")])
    for made in (encoder.compare(document, sentences=True), encoder.compare(document, document)):
        assert 'id="panel-alignment"' not in made.to_html() and '"alignment":' not in made.to_html()


@pytest.mark.browser
def test_a_pair_opens_to_its_sentence_pairs_and_marks_both_texts(report: Report, comparison: Comparison) -> None:
    marked = """([side, name]) => [...document.querySelectorAll(`#pane-${side} .${name}`)]
        .map((span) => Number(span.dataset.sentence))"""
    lines = "document.querySelector('#gutter').toDataURL()"
    a, b = comparison.a, comparison.b
    assert a.sentence_set is not None and b.sentence_set is not None
    before = report.page.evaluate(lines)
    report.page.click("#tab-alignment")
    assert not report.page.is_visible("#levels") and report.page.evaluate(lines) != before
    for direction in ("source", "candidate"):
        for number, pair in enumerate(ranked(comparison, direction)):
            link = report.page.locator(f"a.pair[data-direction='{direction}']").nth(number)
            before = report.page.evaluate(lines)
            link.press("Enter")
            assert report.page.evaluate(lines) != before
            assert link.get_attribute("aria-expanded") == "true" == link.get_attribute("aria-current")
            assert report.page.locator("a.pair[data-pair][aria-expanded='true']").count() == 1
            best = sorted(pair.sentences, key=lambda one: (-one.contribution, one.source, one.candidate))
            shown = report.page.locator(".sentence-pair").all()
            assert len(shown) == len(best)
            for found, one in zip(shown, best, strict=True):
                text = " ".join(found.inner_text().split())
                assert (
                    f"{one.cosine:.3f}" in text and f"A{one.source + 1} " in text and f"B{one.candidate + 1} " in text
                )
                added = float(text.split("adds ")[1].split()[0].replace("−", "-"))
                assert added == pytest.approx(one.contribution, rel=6e-3)
            for side, sentences, paragraph, paired in (
                ("a", a.sentence_set, pair.source, {one.source for one in best}),
                ("b", b.sentence_set, pair.candidate, {one.candidate for one in best}),
            ):
                first, last = sentences.paragraphs[paragraph : paragraph + 2].tolist()
                assert report.page.evaluate(marked, [side, "is-of-paragraph"]) == list(range(first, last))
                assert set(report.page.evaluate(marked, [side, "is-paired"])) == paired
    one = best[-1]
    report.page.locator(".sentence-pair").last.click()
    for side, sentence in (("a", one.source), ("b", one.candidate)):
        assert report.page.evaluate(marked, [side, "is-selected[data-sentence]"]) == [sentence]
        assert report.is_in_view(f"#pane-{side} [data-sentence='{sentence}']")
    assert report.page.evaluate("location.hash") == f"#sentences={one.source + 1},{one.candidate + 1}"
    report.page.keyboard.press("Escape")
    assert report.page.locator(".sentence-pair, .is-paired, .is-of-paragraph").count() == 0
    # A click on a text opens the pair of its paragraph.
    report.page.locator("#pane-a [data-sentence='1']").click()
    assert report.page.evaluate(marked, ["a", "is-of-paragraph"]) == [0, 1]
    assert "<script>" in report.text("#pane-a .is-of-paragraph >> nth=1")


@pytest.mark.browser
def test_paragraphs_are_a_level_and_an_address(browser: Any, path: Path, comparison: Comparison) -> None:
    assert comparison.paragraphs is not None
    pair = ranked(comparison, "source")[-1]
    report = Report(browser, path, f"#paragraphs={pair.source + 1},{pair.candidate + 1}")
    assert report.page.is_visible("#panel-alignment") and report.page.locator(".sentence-pair").count() > 0
    report.page.click("#tab-map")
    assert report.page.is_checked("input[value='paragraphs']")
    report.page.keyboard.press("Escape")
    rows, columns = comparison.paragraphs.shape
    assert report.text("#count") == f"all {rows * columns} pairs of paragraphs"
    report.click_cell(rows - 1, 0)
    assert float(report.text("#readout .number")) == pytest.approx(comparison.paragraphs[-1, 0], abs=6e-4)
    assert report.page.locator(".is-of-paragraph").count() == 5 and report.page.locator(".is-paired").count() == 0
    report.page.click("text=Sentences of this pair")
    assert report.page.is_checked("input[value='sentences']")
    report.page.check("input[value='paragraphs']", force=True)
    report.page.click("#tab-matches")
    best = comparison.matches("paragraph")[0]
    report.page.locator("[data-matches='paragraphs'] a").first.click()
    assert report.page.evaluate("location.hash") == f"#paragraphs={best.a + 1},{best.b + 1}"
    report.close()
    # What an address names may not have been encoded.
    report = Report(browser, path, "#paragraphs=900,1")
    assert report.page.is_visible("#panel-alignment") and report.page.locator(".sentence-pair").count() == 0
    report.close()
    # On a phone all tabs fit, and an address opens the view of the alignment.
    report = Report(browser, path, "#alignment", viewport={"width": 360, "height": 740}, has_touch=True)
    report.page.tap("#panel-alignment a.pair >> nth=0")
    assert report.page.is_visible(".sentence-pair >> nth=0")
    assert report.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    report.page.tap("#tab-b")
    assert report.page.is_visible("#pane-b .is-paired >> nth=0")
    report.close()


@pytest.mark.browser
def test_a_document_within_itself_has_paragraphs_and_no_alignment(
    browser: Any, tmp_path: Path, tiny_encoder: Callable[..., DocumentEncoder]
) -> None:
    encoder = tiny_encoder("roberta", graph_layers=0, readout="mean", paragraph="blank_line")
    document = Document(
        "a", [Section("The tide turns. Birds feed.\n\nNobody pays. Why?", heading="One"), Section(FILLER)]
    )
    path = encoder.compare(document, sentences=True).to_html(tmp_path / "self.html")
    report = Report(browser, path, "#paragraphs=1,2")
    assert report.page.locator("#tab-alignment").count() == 0 and report.page.is_checked("input[value='paragraphs']")
    assert report.page.locator("#pane-b .is-of-paragraph").count() == 2
    report.page.focus("#map")
    report.page.keyboard.press("n")
    assert "pairs of paragraphs" in report.text("#count") and "similarity" in report.text("#readout")
    report.close()
