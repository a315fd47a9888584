from __future__ import annotations

import re
import time
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
    return make_payload(passages=(24, 20), sections=(5, 4), words=100)


@pytest.fixture(scope="module")
def path(payload: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_text(tmp_path_factory.mktemp("report") / "report.html", render_report(payload))


@pytest.fixture
def report(browser: Any, path: Path) -> Iterator[Report]:
    report = Report(browser, path)
    yield report
    report.close()


def test_a_click_on_a_cell_shows_and_highlights_both_passages(report: Report, payload: dict[str, Any]) -> None:
    report.show_passages()
    assert not report.is_in_view("#a-p20")
    report.click_cell(19, 16)
    assert report.selected() == ["a-p20", "b-p17"]
    assert report.is_in_view("#a-p20") and report.is_in_view("#b-p17")
    readout = report.text("#readout")
    assert f"{payload['passages'][19][16]:.3f}".replace("-", "−") in readout
    assert "A20" in readout and "B17" in readout
    assert payload["a"]["passages"][19]["text"][:40] in readout
    report.page.keyboard.press("Escape")
    assert report.selected() == []


def test_a_click_on_a_cell_of_the_section_map_highlights_both_sections(
    report: Report, payload: dict[str, Any]
) -> None:
    report.click_cell(3, 2)
    assert report.selected("part") == ["a-s4", "b-s3"]
    assert payload["a"]["sections"][3]["heading"] in report.text("#readout")
    report.page.click("text=Passages of this pair")
    assert report.page.is_checked('input[value="passages"]')
    assert "zoomed" in report.page.get_attribute("#map", "class")


def test_pointing_at_a_cell_shows_its_score_without_selecting(report: Report) -> None:
    before = report.text("#readout")
    frame = report.page.locator("#map").bounding_box()
    report.page.mouse.move(frame["x"] + frame["width"] * 0.7, frame["y"] + frame["height"] * 0.6)
    assert report.text("#readout") != before
    assert re.search(r"−?\d\.\d{3} similarity", report.text("#readout"))
    assert report.selected("part") == []


def test_the_keyboard_moves_selects_and_clears(report: Report, payload: dict[str, Any]) -> None:
    report.show_passages()
    report.page.focus("#map")
    keyboard = report.page.keyboard
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight"):
        keyboard.press(key)
    assert report.page.inner_text("#announcement").startswith("A 3")
    keyboard.press("Enter")
    assert report.selected() == ["a-p3", "b-p3"]
    keyboard.press("End")
    keyboard.press("Control+End")
    keyboard.press("Enter")
    assert report.selected() == ["a-p24", "b-p20"]
    assert report.is_in_view("#a-p24") and report.is_in_view("#b-p20")
    keyboard.press("Control+Home")
    keyboard.press("Home")
    keyboard.press("Shift+ArrowDown")
    keyboard.press("Shift+ArrowRight")
    second = [payload[letter]["sections"][1]["passages"][0] + 1 for letter in "ab"]
    keyboard.press("Enter")
    assert report.selected() == [f"a-p{second[0]}", f"b-p{second[1]}"]
    keyboard.press("+")
    assert "zoomed" in report.page.get_attribute("#map", "class")
    keyboard.press("0")
    assert "zoomed" not in report.page.get_attribute("#map", "class")
    keyboard.press("Escape")
    assert report.selected() == []


def test_stepping_through_matches_starts_at_the_strongest(report: Report, payload: dict[str, Any]) -> None:
    report.show_passages()
    report.page.focus("#map")
    report.page.keyboard.press("n")
    first, second = payload["matches"]["passages"][:2]
    assert report.selected() == [f"a-p{first['a'] + 1}", f"b-p{first['b'] + 1}"]
    report.page.keyboard.press("n")
    assert report.selected() == [f"a-p{second['a'] + 1}", f"b-p{second['b'] + 1}"]


def test_skip_links_and_tabs_work_by_keyboard(report: Report) -> None:
    report.page.keyboard.press("Tab")
    assert report.page.evaluate("document.activeElement.textContent") == "Skip to the map"
    report.page.keyboard.press("Enter")
    assert report.page.evaluate("document.activeElement.id") == "map"
    report.page.focus("#tab-map")
    report.page.keyboard.press("ArrowRight")
    assert report.page.get_attribute("#tab-matches", "aria-selected") == "true"
    assert report.page.is_visible("#panel-matches") and not report.page.is_visible("#panel-map")


def test_the_slider_changes_count_and_matches(report: Report, payload: dict[str, Any]) -> None:
    report.show_passages()
    scores = np.array(payload["passages"])

    def counted() -> tuple[int, float]:
        found = re.fullmatch(r"([\d,]+) of ([\d,]+) pairs of passages at (−?[\d.]+) or more", report.text("#count"))
        assert found is not None
        assert int(found[2].replace(",", "")) == scores.size
        return int(found[1].replace(",", "")), float(found[3].replace("−", "-"))

    report.page.click("#tab-matches")
    for position in (60, 150, 195):
        report.page.fill("#threshold", str(position))
        count, threshold = counted()
        assert (scores >= threshold + 6e-4).sum() <= count <= (scores >= threshold - 6e-4).sum()
        shown = report.page.locator('[data-matches="passages"] li:visible').count()
        matches = [match["score"] for match in payload["matches"]["passages"]]
        assert sum(score >= threshold + 6e-4 for score in matches) <= shown
        assert shown <= sum(score >= threshold - 6e-4 for score in matches)
    report.page.fill("#threshold", "0")
    assert report.text("#count") == "all 480 pairs of passages"


def test_the_scale_says_where_lower_scores_share_its_first_colour(report: Report, payload: dict[str, Any]) -> None:
    lowest = np.array(payload["sections"]).min()
    assert float(report.text("#scale-low").replace("−", "-")) == pytest.approx(lowest, abs=1e-3)
    report.show_passages()
    fifth = np.sort(np.array(payload["passages"]).ravel())[4]
    sign, number = report.text("#scale-low").split()
    assert sign == "≤"
    assert float(number.replace("−", "-")) == pytest.approx(fifth, abs=1e-3)


def test_contributions_replace_scores_on_demand(report: Report, payload: dict[str, Any]) -> None:
    before = report.text("#scale-high")
    report.page.check('input[name="measure"][value="contribution"]', force=True)
    assert report.text("#scale-high") != before
    largest = np.array(payload["contributions"]["sections"]).max()
    assert float(report.text("#scale-high")) == pytest.approx(largest, rel=0.01)


def test_a_click_on_a_passage_lists_its_best_matches(report: Report, payload: dict[str, Any]) -> None:
    report.page.click("#a-p2 p")
    scores = np.array(payload["passages"])[1]
    listed = [" ".join(text.split()) for text in report.page.locator(".focus-list .badge").all_inner_texts()]
    assert listed == [f"B{index + 1}" for index in np.argsort(-scores)[:8]]
    assert report.is_in_view(f"#b-p{scores.argmax() + 1}")
    report.page.locator(".focus-item").first.click()
    assert report.selected() == ["a-p2", f"b-p{scores.argmax() + 1}"]


def test_a_match_in_the_list_selects_the_same_pair(report: Report, payload: dict[str, Any]) -> None:
    report.show_passages()
    report.page.click("#tab-matches")
    match = payload["matches"]["passages"][2]
    report.page.click(f'[data-matches="passages"] a[data-a="{match["a"]}"][data-b="{match["b"]}"]')
    assert report.selected() == [f"a-p{match['a'] + 1}", f"b-p{match['b'] + 1}"]
    assert report.page.evaluate("location.hash") == f"#passages={match['a'] + 1},{match['b'] + 1}"


def test_an_address_with_a_pair_opens_at_the_pair(browser: Any, path: Path) -> None:
    report = Report(browser, path, "#passages=20,15")
    assert report.selected() == ["a-p20", "b-p15"]
    assert report.is_in_view("#a-p20") and report.is_in_view("#b-p15")
    report.close()


def test_every_part_is_within_reach_of_a_finger_on_a_phone(browser: Any, path: Path, tmp_path: Path) -> None:
    report = Report(browser, path, viewport={"width": 390, "height": 844}, has_touch=True, device_scale_factor=2)
    report.page.tap("label:has(input[value='passages'])")
    # How far down the map lies depends on the fonts, and a bar covers the foot of the screen.
    report.page.evaluate("document.querySelector('#map').scrollIntoView({block: 'center'})")
    frame = report.page.locator("#map").bounding_box()
    report.page.touchscreen.tap(frame["x"] + frame["width"] * 0.8, frame["y"] + frame["height"] * 0.7)
    chosen = report.selected()
    assert len(chosen) == 2
    for letter, identifier in zip("ab", chosen, strict=True):
        report.page.tap(f"#tab-{letter}")
        assert report.is_in_view(f"#{identifier}")
    for panel in ("matches", "sections", "about", "map"):
        report.page.tap(f"#tab-{panel}")
        assert report.page.is_visible(f"#panel-{panel}")
        assert report.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    report.page.screenshot(path=tmp_path / "phone.png")
    report.close()


def test_dark_and_light_follow_the_system_and_the_button(browser: Any, path: Path) -> None:
    report = Report(browser, path, color_scheme="dark")

    def brightness() -> int:
        colour = report.page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(map(int, re.findall(r"\d+", colour)[:3]))

    assert brightness() < 150
    report.page.click("#theme")
    assert brightness() > 600
    report.close()


def test_the_print_has_both_maps_and_the_texts_only_on_request(browser: Any, path: Path) -> None:
    report = Report(browser, path)
    assert report.page.pdf().startswith(b"%PDF")
    assert report.page.locator("#print-maps canvas").count() == 2
    report.page.emulate_media(media="print")
    assert not report.page.is_visible("#pane-a") and report.page.is_visible("#panel-matches")
    report.page.emulate_media(media="screen")
    report.page.click("#tab-about")
    report.page.check("#print-texts")
    report.page.emulate_media(media="print")
    assert report.page.is_visible("#pane-a")
    report.close()


def test_everything_but_the_maps_is_there_without_scripts(browser: Any, path: Path, payload: dict[str, Any]) -> None:
    report = Report(browser, path, java_script_enabled=False)
    for selector in (".masthead", "#panel-matches", "#panel-sections", "#panel-about", "#a-p24", "#b-p20"):
        assert report.page.is_visible(selector)
    for selector in ("#panel-map", ".controls", ".tabs"):
        assert not report.page.is_visible(selector)
    report.close()


@pytest.mark.parametrize(
    "fragment",
    ["#passages=1,1", *(pytest.param(one, marks=pytest.mark.slow) for one in ("", "#sections=1,1", "#a-p2"))],
)
def test_a_document_full_of_attacks_runs_nothing(browser: Any, tmp_path: Path, fragment: str) -> None:
    report = Report(browser, write_text(tmp_path / "attack.html", render_report(make_attack())), fragment)
    report.page.click("#tab-matches")
    report.page.locator("a.pair:visible").first.click()
    report.page.click("#tab-map")
    report.page.pdf()
    report.page.wait_for_timeout(100)
    assert report.page.evaluate("window.attacked") is None
    assert report.page.locator("#pane-a .heading:not(.ancestor)").first.inner_text().startswith(ATTACK[:30])
    assert report.page.locator("img").count() == 0
    report.close()


@pytest.mark.parametrize(("passages", "sections"), [((1, 1), (1, 1)), ((2, 30), (1, 14)), ((40, 40), (40, 40))])
def test_odd_shapes_draw_without_error(
    browser: Any, tmp_path: Path, passages: tuple[int, int], sections: tuple[int, int]
) -> None:
    payload = make_payload(passages=passages, sections=sections)
    payload["passages"][0][0] = None
    report = Report(browser, write_text(tmp_path / "odd.html", render_report(payload)))
    report.show_passages()
    report.page.focus("#map")
    report.page.keyboard.press("ArrowDown")
    report.page.keyboard.press("Enter")
    assert report.selected() == ["a-p1", "b-p1"]
    assert "no value" in report.text("#readout")
    report.close()


def test_a_document_within_itself_calls_the_diagonal_the_same(browser: Any, tmp_path: Path) -> None:
    payload = make_payload(passages=(9, 9), sections=(3, 3), within=True, sentences=True)
    report = Report(browser, write_text(tmp_path / "self.html", render_report(payload)), "#passages=4,4")
    assert "the same passage" in report.text("#readout")
    report.page.check('input[name="level"][value="sentences"]', force=True)
    report.page.focus("#map")
    report.page.keyboard.press("n")
    assert len(report.selected()) == 2
    report.close()


@pytest.mark.slow
def test_three_hundred_by_three_hundred_passages_open_and_answer(browser: Any, tmp_path: Path) -> None:
    payload = make_payload(passages=(300, 300), sections=(30, 30), words=100)
    target = write_text(tmp_path / "large.html", render_report(payload))
    assert target.stat().st_size < 5_000_000
    start = time.perf_counter()
    report = Report(browser, target)
    print(f"opened in {time.perf_counter() - start:.2f} s, {target.stat().st_size / 1e6:.2f} MB")
    report.show_passages()
    report.click_cell(250, 120)
    a, b = (int(identifier[3:]) for identifier in report.selected())
    # A cell is about as large as a pixel here.
    assert abs(a - 251) <= 1 and abs(b - 121) <= 1
    assert report.is_in_view(f"#a-p{a}") and report.is_in_view(f"#b-p{b}")
    report.close()
