"""Chunkwise attention in the report, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from comparison_payload import ATTACK, make_attack, make_payload
from open_report import Report

from graphdoc.analysis.report.page import render_report
from graphdoc.runtime.files import write_text

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def payload() -> dict[str, Any]:
    return make_payload(passages=(24, 20), sections=(5, 4), attention_heads=3)


@pytest.fixture(scope="module")
def path(payload: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
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
    found = np.array(payload["attention"][direction])
    matrix = found.mean(axis=0) if head is None else found[head]
    return matrix if direction == "a_to_b" else matrix.T


def strongest(matrix: np.ndarray, count: int) -> list[tuple[int, int]]:
    rows, columns = np.unravel_index(np.argsort(-matrix, axis=None)[:count], matrix.shape)
    return list(zip(rows.tolist(), columns.tolist(), strict=True))


def listed(report: Report) -> list[tuple[int, int]]:
    """Pairs below the map, strongest first."""
    badges = report.page.locator("#readout .strongest .badge").all_inner_texts()
    numbers = [int(badge.strip()[1:]) - 1 for badge in badges]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def pixels(report: Report) -> str:
    return report.page.evaluate("document.querySelector('#map-cells').toDataURL()")


def test_the_switch_shows_attention_and_says_what_it_is(report: Report, payload: dict[str, Any]) -> None:
    report.show_passages()
    assert not report.page.is_visible("#attention-choice") and not report.page.is_visible("#scale-meaning")
    before = pixels(report)
    choose(report, "measure", "attention")
    matrix = weights(payload, "a_to_b")
    assert pixels(report) != before
    assert listed(report) == strongest(matrix, 4)
    assert float(report.text("#scale-high")) == pytest.approx(matrix.max(), abs=6e-4)
    assert "of 480 pairs of passages" in report.text("#count")
    assert report.text("#scale-meaning").startswith("Attention of A to B, mean of 3 heads:")
    assert "every row adds up to 1" in report.text("#scale-meaning")
    assert re.search(
        rf"Spread evenly, every weight would be {1 / matrix.shape[1]:.2f}\d*\.$", report.text("#scale-meaning")
    )
    assert "attention of A to B, mean of 3 heads" in report.page.get_attribute("#map", "aria-label")
    choose(report, "measure", "similarity")
    assert pixels(report) == before
    assert not report.page.is_visible("#attention-choice") and not report.page.is_visible("#scale-meaning")


def test_heads_and_directions_differ(report: Report, payload: dict[str, Any]) -> None:
    report.show_passages()
    choose(report, "measure", "attention")
    seen = {pixels(report)}
    for direction, value in (("a_to_b", "to_b"), ("b_to_a", "to_a")):
        choose(report, "direction", value)
        for head in range(3):
            report.page.select_option("#head", str(head + 1))
            assert listed(report) == strongest(weights(payload, direction, head), 4)
            seen.add(pixels(report))
    assert len(seen) == 7
    meaning = report.text("#scale-meaning")
    assert meaning.startswith("Attention of B to A, head 3:") and "every column adds up to 1" in meaning


def test_weights_that_hardly_differ_are_called_so(browser: Any, tmp_path: Path, payload: dict[str, Any]) -> None:
    attention = {**payload["attention"]}
    for direction in ("a_to_b", "b_to_a"):
        drawn = np.random.default_rng(1).uniform(1, 1.05, np.shape(attention[direction]))
        attention[direction] = (drawn / drawn.sum(-1, keepdims=True)).tolist()
    report = Report(browser, write_text(tmp_path / "even.html", render_report({**payload, "attention": attention})))
    try:
        report.show_passages()
        choose(report, "measure", "attention")
        for value, even in (("to_b", 1 / 20), ("to_a", 1 / 24)):
            choose(report, "direction", value)
            told = re.search(r"every weight would be ([\d.]+): these are nearly even", report.text("#scale-meaning"))
            assert told and float(told[1]) == pytest.approx(even, abs=6e-5)
    finally:
        report.close()


def test_what_was_chosen_survives_other_levels(report: Report, payload: dict[str, Any]) -> None:
    report.show_passages()
    choose(report, "measure", "attention")
    choose(report, "direction", "to_a")
    report.page.select_option("#head", "2")
    report.page.fill("#threshold", "140")
    before = (pixels(report), report.text("#count"), report.text("#scale-meaning"))
    choose(report, "level", "sections")
    # Sections have no attention, and the switch says so.
    assert report.page.is_checked('input[name="measure"][value="similarity"]')
    assert not report.page.is_visible("#attention-choice")
    assert float(report.text("#scale-high")) == pytest.approx(np.max(payload["sections"]), abs=6e-4)
    report.show_passages()
    assert report.page.is_checked('input[name="measure"][value="attention"]')
    assert report.page.is_checked('input[name="direction"][value="to_a"]')
    assert report.page.input_value("#head") == "2"
    assert (pixels(report), report.text("#count"), report.text("#scale-meaning")) == before


def test_attention_chosen_at_sections_opens_the_passages(report: Report, payload: dict[str, Any]) -> None:
    choose(report, "measure", "attention")
    assert report.page.is_checked('input[name="level"][value="passages"]')
    assert listed(report) == strongest(weights(payload, "a_to_b"), 4)


def test_matches_and_steps_follow_attention(report: Report, payload: dict[str, Any]) -> None:
    choose(report, "measure", "attention")
    report.page.select_option("#head", "1")
    pairs = strongest(weights(payload, "a_to_b", 0), 20)
    report.page.fill("#threshold", "0")
    report.page.click("#tab-matches")
    links = report.page.locator("a.pair:visible")
    assert [(int(link.get_attribute("data-a")), int(link.get_attribute("data-b"))) for link in links.all()] == pairs
    assert float(links.first.locator(".score").inner_text()) == pytest.approx(
        weights(payload, "a_to_b", 0)[pairs[0]], abs=6e-4
    )
    links.nth(1).click()
    assert report.selected() == [f"a-p{pairs[1][0] + 1}", f"b-p{pairs[1][1] + 1}"]
    assert links.nth(1).get_attribute("aria-current") == "true"
    report.page.click("#tab-map")
    report.page.focus("#map")
    report.page.keyboard.press("n")
    assert report.selected() == [f"a-p{pairs[2][0] + 1}", f"b-p{pairs[2][1] + 1}"]
    readout = report.text("#readout")
    assert f"{weights(payload, 'a_to_b', 0)[pairs[2]]:.3f} attention of A to B, head 1" in readout
    similarity = f"{payload['passages'][pairs[2][0]][pairs[2][1]]:.3f}".replace("-", "−")
    assert f"similarity {similarity}" in readout


@pytest.mark.parametrize(("side", "heading"), [("a", "Most looked at by"), ("b", "Looking most at")])
def test_a_click_on_a_passage_lists_where_it_looks_or_who_looks_at_it(
    report: Report, payload: dict[str, Any], side: str, heading: str
) -> None:
    choose(report, "measure", "attention")
    report.page.click(f"#{side}-p2 p")
    matrix = weights(payload, "a_to_b")
    values = matrix[1] if side == "a" else matrix[:, 1]
    other = "B" if side == "a" else "A"
    assert report.text("#readout .focus-title").startswith(f"{heading} {side.upper()}2")
    badges = [text.strip() for text in report.page.locator(".focus-list .badge").all_inner_texts()]
    assert badges == [f"{other}{index + 1}" for index in np.argsort(-values)[:8]]


def test_everything_is_within_reach_of_the_keyboard(report: Report, payload: dict[str, Any]) -> None:
    report.page.focus('input[name="measure"][value="similarity"]')
    keyboard = report.page.keyboard
    keyboard.press("ArrowRight")
    keyboard.press("ArrowRight")
    assert report.page.is_checked('input[name="measure"][value="attention"]')
    keyboard.press("Tab")
    keyboard.press("ArrowRight")
    assert report.page.is_checked('input[name="direction"][value="to_a"]')
    keyboard.press("Tab")
    assert report.page.evaluate("document.activeElement.id") == "head"
    keyboard.press("ArrowDown")
    assert report.page.input_value("#head") == "1"
    assert listed(report) == strongest(weights(payload, "b_to_a", 0), 4)
    report.page.focus("#map")
    keyboard.press("Control+Home")
    assert "attention of B to A, head 1 " in report.page.inner_text("#announcement")


def test_everything_is_within_reach_of_a_finger_on_a_phone(browser: Any, path: Path, payload: dict[str, Any]) -> None:
    report = Report(browser, path, viewport={"width": 390, "height": 844}, has_touch=True)
    report.page.tap("label:has(input[value='attention'])")
    report.page.tap("label:has(input[value='to_a'])")
    report.page.select_option("#head", "3")
    assert report.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    report.page.evaluate("document.querySelector('#map').scrollIntoView({block: 'center'})")
    frame = report.page.locator("#map").bounding_box()
    report.page.touchscreen.tap(frame["x"] + frame["width"] * 0.8, frame["y"] + frame["height"] * 0.7)
    a, b = (int(identifier[3:]) - 1 for identifier in report.selected())
    assert report.text("#pair-bar .score") == f"{weights(payload, 'b_to_a', 2)[a, b]:.3f}"
    report.page.select_option("#head", "mean")
    assert report.text("#pair-bar .score") == f"{weights(payload, 'b_to_a')[a, b]:.3f}"
    report.close()


def test_the_print_says_which_attention_it_shows(browser: Any, path: Path) -> None:
    report = Report(browser, path)
    choose(report, "measure", "attention")
    report.page.select_option("#head", "2")
    assert report.page.pdf().startswith(b"%PDF")
    captions = report.page.locator("#print-maps figcaption").all_text_contents()
    assert "by sections of B (columns), similarity from" in captions[0]
    assert "by passages of B (columns), attention of A to B, head 2 from" in captions[1]
    report.close()


def test_within_one_document(browser: Any, tmp_path: Path) -> None:
    payload = make_payload(passages=(9, 9), sections=(3, 3), within=True, attention_heads=2)
    report = Report(browser, write_text(tmp_path / "self.html", render_report(payload)))
    choose(report, "measure", "attention")
    pairs = int(np.count_nonzero(payload["attention"]["a"][0]))
    report.page.fill("#threshold", "0")
    assert report.text("#count") == f"all {pairs} pairs of passages"
    assert listed(report) == strongest(np.mean(payload["attention"]["a"], axis=0), 4)
    meaning = report.text("#scale-meaning")
    assert "pays to each of the next section (columns), the last section to the first; the only passage" in meaning
    report.click_cell(0, 0)
    assert "the same passage" in report.text("#readout")
    report.close()


def test_a_document_full_of_attacks_runs_nothing(browser: Any, tmp_path: Path) -> None:
    report = Report(browser, write_text(tmp_path / "attack.html", render_report(make_attack(attention_heads=2))))
    choose(report, "measure", "attention")
    report.page.click("#tab-matches")
    first = report.page.locator("a.pair:visible").first
    assert ATTACK[:30] in first.inner_text()
    first.click()
    report.page.wait_for_timeout(100)
    assert report.page.evaluate("window.attacked") is None
    assert report.page.locator("img").count() == 0
    report.close()


@pytest.mark.slow
def test_four_heads_of_ninety_thousand_cells_answer(browser: Any, tmp_path: Path) -> None:
    payload = make_payload(passages=(300, 300), sections=(30, 30), words=30, attention_heads=4)
    report = Report(browser, write_text(tmp_path / "large.html", render_report(payload)))
    choose(report, "measure", "attention")
    assert listed(report) == strongest(weights(payload, "a_to_b"), 4)
    report.page.select_option("#head", "4")
    assert listed(report) == strongest(weights(payload, "a_to_b", 3), 4)
    report.close()
