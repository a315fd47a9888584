"""The report of a comparison in a real browser, used as people do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from comparison_payload import ATTACK, make_attack, make_payload
from open_report import Report
from typed import Encoders, Folders

from graphdoc import Document, Section
from graphdoc.analysis.report.page import render_report
from graphdoc.runtime.files import write_text
from graphdoc.similarity.comparison import Comparison

pytestmark = pytest.mark.browser

FITS = "document.documentElement.scrollWidth <= window.innerWidth"
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "device_scale_factor": 2}


@pytest.fixture(scope="module")
def payload() -> dict[str, Any]:
    return make_payload(passages=(24, 20), sections=(5, 4), words=100, attention_heads=3)


@pytest.fixture(scope="module")
def path(payload: dict[str, Any], tmp_path_factory: Folders) -> Path:
    return write_text(tmp_path_factory.mktemp("report") / "report.html", render_report(payload))


@pytest.fixture
def report(browser: Any, path: Path) -> Iterator[Report]:
    report = Report(browser, path)
    yield report
    report.close()


def choose(report: Report, name: str, value: str) -> None:
    report.page.check(f'input[name="{name}"][value="{value}"]', force=True)


def weights(payload: dict[str, Any], direction: str, head: int | None = None) -> np.ndarray:
    """What the map shows: rows for A, columns for B, the mean over heads without one."""
    of_heads = np.array(payload["attention"][direction])
    matrix = of_heads.mean(axis=0) if head is None else of_heads[head]
    return matrix if direction == "a_to_b" else matrix.T


def strongest(matrix: np.ndarray, count: int) -> list[tuple[int, int]]:
    rows, columns = np.unravel_index(np.argsort(-matrix, axis=None)[:count], matrix.shape)
    return list(zip(rows.tolist(), columns.tolist(), strict=True))


def listed(report: Report) -> list[tuple[int, int]]:
    """Pairs below the map, strongest first."""
    badges = report.page.locator("#readout .strongest .badge").all_inner_texts()
    numbers = [int(badge.strip()[1:]) - 1 for badge in badges]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def test_pairs_are_selected_by_pointer_keyboard_and_lists(report: Report, payload: dict[str, Any]) -> None:
    report.click_cell(3, 2)
    assert report.selected("part") == ["a-s4", "b-s3"]
    report.page.click("text=Passages of this pair")
    assert report.page.is_checked('input[value="passages"]') and "zoomed" in report.page.get_attribute("#map", "class")
    report.page.focus("#map")
    keyboard, scores = report.page.keyboard, np.array(payload["passages"])
    keyboard.press("0")
    report.click_cell(19, 16)
    assert report.selected() == ["a-p20", "b-p17"] and report.is_in_view("#a-p20") and report.is_in_view("#b-p17")
    for text in (f"{scores[19, 16]:.3f}".replace("-", "−"), "A20", "B17"):
        assert text in report.text("#readout")
    keyboard.press("Escape")
    assert report.selected() == []
    for keys, a, b in (
        (("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "Enter"), 3, 3),
        (("End", "Control+End", "Enter"), 24, 20),
    ):
        for key in keys:
            keyboard.press(key)
        assert report.selected() == [f"a-p{a}", f"b-p{b}"]
    keyboard.press("Escape")
    first = payload["matches"]["passages"][0]
    keyboard.press("n")
    assert report.selected() == [f"a-p{first['a'] + 1}", f"b-p{first['b'] + 1}"]
    report.page.focus("#tab-map")
    keyboard.press("ArrowRight")
    assert report.page.is_visible("#panel-matches") and not report.page.is_visible("#panel-map")
    for position in (60, 195):
        report.page.fill("#threshold", str(position))
        found = re.fullmatch(r"([\d,]+) of 480 pairs of passages at (−?[\d.]+) or more", report.text("#count"))
        assert found is not None
        count, threshold = int(found[1].replace(",", "")), float(found[2].replace("−", "-"))
        assert (scores >= threshold + 6e-4).sum() <= count <= (scores >= threshold - 6e-4).sum()
    report.page.fill("#threshold", "0")
    match = payload["matches"]["passages"][2]
    report.page.click(f'[data-matches="passages"]:visible a[data-a="{match["a"]}"][data-b="{match["b"]}"]')
    assert report.page.evaluate("location.hash") == f"#passages={match['a'] + 1},{match['b'] + 1}"
    keyboard.press("Escape")
    report.page.click("#a-p2 p")
    badges = [text.strip() for text in report.page.locator(".focus-list .badge").all_inner_texts()]
    assert badges == [f"B{index + 1}" for index in np.argsort(-scores[1])[:8]]
    choose(report, "level", "sections")
    choose(report, "measure", "contribution")
    largest = np.array(payload["contributions"]["sections"]).max()
    assert float(report.text("#scale-high")) == pytest.approx(largest, rel=0.01)


def test_what_unrelated_passages_reach_is_pale(browser: Any, payload: dict[str, Any], path: Path) -> None:
    darkest = []
    for unrelated in (0.01, 0.999):
        write_text(path.with_name("scale.html"), render_report(payload | {"unrelated_passages": unrelated}))
        report = Report(browser, path.with_name("scale.html"))
        colour = report.page.locator("#readout .chip").first.evaluate("one => getComputedStyle(one).backgroundColor")
        darkest.append(min(map(int, re.findall(r"\d+", colour)[:3])))
        assert float(report.text("#scale-high")) == 1 and str(unrelated) in report.text("#scale-meaning")
        report.close()
    assert darkest[0] < 100 < 160 < darkest[1]


def test_attention_by_direction_and_head(report: Report, payload: dict[str, Any]) -> None:
    choose(report, "measure", "attention")
    matrix = weights(payload, "a_to_b")
    assert report.page.is_checked('input[name="level"][value="passages"]') and listed(report) == strongest(matrix, 4)
    assert float(report.text("#scale-high")) == pytest.approx(matrix.max(), abs=6e-4)
    for direction, value in (("a_to_b", "to_b"), ("b_to_a", "to_a")):
        choose(report, "direction", value)
        report.page.select_option("#head", "2")
        assert listed(report) == strongest(weights(payload, direction, 1), 4)
    told = report.text("#scale-meaning")
    # Sections have no attention; what was chosen is there again with the passages.
    choose(report, "level", "sections")
    assert report.page.is_checked('input[value="similarity"]') and not report.page.is_visible("#attention-choice")
    report.show_passages()
    assert report.text("#scale-meaning") == told
    report.page.fill("#threshold", "0")
    report.page.click("#tab-matches")
    pairs = strongest(weights(payload, "b_to_a", 1), 20)
    links = report.page.locator("a.pair:visible")
    assert [(int(link.get_attribute("data-a")), int(link.get_attribute("data-b"))) for link in links.all()] == pairs
    links.nth(1).click()
    report.page.click("#tab-map")
    readout, (a, b) = report.text("#readout"), pairs[1]
    assert report.selected() == [f"a-p{a + 1}", f"b-p{b + 1}"]
    assert f"{weights(payload, 'b_to_a', 1)[a, b]:.3f} attention of B to A, head 2" in readout


def test_phones_printers_and_browsers_without_scripts_and_attacks(browser: Any, path: Path, tmp_path: Path) -> None:
    report = Report(browser, path, color_scheme="dark", **PHONE)
    report.page.tap("label:has(input[value='attention'])")
    # How far down the map lies depends on the fonts, and a bar covers the foot of the screen.
    report.page.evaluate("document.querySelector('#map').scrollIntoView({block: 'center'})")
    frame = report.page.locator("#map").bounding_box()
    report.page.touchscreen.tap(frame["x"] + frame["width"] * 0.8, frame["y"] + frame["height"] * 0.7)
    for letter, identifier in zip("ab", report.selected(), strict=True):
        report.page.locator(f"#pane-{letter}").scroll_into_view_if_needed()
        assert report.is_in_view(f"#{identifier}")
    for panel in ("matches", "sections", "about", "map"):
        report.page.tap(f"#tab-{panel}")
        assert report.page.is_visible(f"#panel-{panel}") and report.page.evaluate(FITS)
    report.close()
    report = Report(browser, path, "#passages=20,15")
    assert report.selected() == ["a-p20", "b-p15"] and report.is_in_view("#a-p20") and report.is_in_view("#b-p15")
    assert report.page.pdf().startswith(b"%PDF")
    report.page.emulate_media(media="print")
    assert not report.page.is_visible("#pane-a") and report.page.is_visible("#panel-matches")
    report.close()
    report = Report(browser, path, java_script_enabled=False)
    for selector in (".masthead", "#panel-matches", "#panel-sections", "#panel-about", "#a-p24", "#b-p20"):
        assert report.page.is_visible(selector)
    for selector in ("#panel-map", ".controls", ".tabs"):
        assert not report.page.is_visible(selector)
    report.close()
    path = write_text(tmp_path / "attack.html", render_report(make_attack(attention_heads=2)))
    report = Report(browser, path, "#passages=1,1")
    report.page.click("#tab-matches")
    report.page.locator("a.pair:visible").first.click()
    choose(report, "measure", "attention")
    assert ATTACK[:30] in report.page.locator("a.pair:visible").first.inner_text()
    report.page.click("#tab-map")
    report.page.pdf()
    report.page.wait_for_timeout(100)
    assert report.page.evaluate("window.attacked") is None and report.page.locator("img").count() == 0
    report.close()


@pytest.fixture(scope="module")
def comparison(tiny_encoder: Encoders) -> Comparison:
    """Several paragraphs in a section, with subtopics that both documents or one have."""
    filler = "Sand drifts along the coast and settles where the water is slow. " * 6
    encoder = tiny_encoder("roberta", graph_layers=0, readout="mean", paragraph="blank_line")
    a = [
        Section(
            "The tide turns the <script>window.attacked=1</script> turbines. A barrage holds the tide.\n\nNobody pays."
        ),
        Section(f"Koji grows on rice. Rice is steamed for koji. Steamed rice cools. {filler}", heading="Rice"),
        Section("Birds feed on mud. Birds leave the mud in spring. Mud dries.", heading="Birds"),
    ]
    b = [
        Section("A barrage stops the tide. Turbines turn with the tide. Tide gates close.", heading="Works"),
        Section(f"{filler}\n\nClocks strike hours. Hours are kept by clocks. Clocks need oil.", heading="Clocks"),
        Section("Waders are birds of the mud. Birds eat worms in the mud.", heading="Waders"),
    ]
    documents = Document("a", a, title="A"), Document("b", b, title="B")
    return encoder.compare(*documents, sentences=True, subtopics="words", cluster_size=4)


def marked(report: Report, side: str, name: str) -> list[int]:
    """Sentences of a text that have a class."""
    spans = report.page.locator(f"#pane-{side} [data-sentence].{name}").all()
    return sorted(int(span.get_attribute("data-sentence")) for span in spans)


def test_alignments_and_subtopics_mark_both_texts(browser: Any, tmp_path: Path, comparison: Comparison) -> None:
    a, b, table = comparison.a.sentence_set, comparison.b.sentence_set, comparison.subtopics
    assert a is not None and b is not None and comparison.paragraphs is not None and table is not None
    path = comparison.to_html(tmp_path / "report.html")
    report = Report(browser, path)
    report.page.click("#tab-alignment")
    for direction in ("source", "candidate"):
        pair = next(pair for pair in comparison.alignment().best() if pair.direction == direction)
        link = report.page.locator(f"a.pair[data-direction='{direction}']").first
        link.press("Enter")
        assert link.get_attribute("aria-expanded") == "true" == link.get_attribute("aria-current")
        best = sorted(pair.sentences, key=lambda one: (-one.contribution, one.source, one.candidate))
        for shown, one in zip(report.page.locator(".sentence-pair").all(), best, strict=True):
            text = " ".join(shown.inner_text().split())
            for part in (f"{one.cosine:.3f}", f"A{one.source + 1} ", f"B{one.candidate + 1} "):
                assert part.replace("-", "−") in text
        for side, sentences, paragraph, paired in (
            ("a", a, pair.source, {one.source for one in best}),
            ("b", b, pair.candidate, {one.candidate for one in best}),
        ):
            first, last = sentences.paragraphs[paragraph : paragraph + 2].tolist()
            assert marked(report, side, "is-of-paragraph") == list(range(first, last))
            assert set(marked(report, side, "is-paired")) == paired
    report.page.locator(".sentence-pair").last.click()
    assert marked(report, "a", "is-selected") == [best[-1].source]
    report.page.keyboard.press("Escape")
    assert report.page.locator(".sentence-pair, .is-paired, .is-of-paragraph").count() == 0
    report.page.click("#tab-subtopics")
    alone = {row.number for row in table.rows if row.holder != "both"}
    colours: dict[int, set[str]] = {}
    for side, clusters in zip("ab", table.subtopics.sides, strict=True):
        assert marked(report, side, "has-subtopic") == list(range(len(clusters)))
        assert marked(report, side, "is-alone") == [place for place, one in enumerate(clusters) if one in alone]
        for place, cluster in enumerate(clusters.tolist()):
            span = report.page.locator(f"#pane-{side} [data-sentence='{place}']")
            colours.setdefault(cluster, set()).add(span.evaluate("one => getComputedStyle(one).backgroundColor"))
    assert all(len(found) == 1 for found in colours.values())
    assert len(set().union(*colours.values())) == len(table.rows)
    row = table.rows[0]
    button = report.page.locator(f"button.subtopic[data-subtopic='{row.number}']")
    button.press("Enter")
    assert button.get_attribute("aria-pressed") == "true"
    others = [place for place in range(len(table.subtopics.sides[0])) if place not in row.a]
    assert marked(report, "a", "is-other") == others and report.page.evaluate("window.attacked") is None
    report.close()
    report = Report(browser, path, f"#paragraphs={pair.source + 1},{pair.candidate + 1}")
    assert report.page.is_visible("#panel-alignment") and report.page.locator(".sentence-pair").count() > 0
    report.close()
