"""The page of an overview, in a real browser."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from collections_of_topics import make_overview
from comparison_payload import ATTACK
from open_report import Report
from typed import Folders

from graphdoc.analysis.overview_page.page import render_overview
from graphdoc.overview import Overview

pytestmark = pytest.mark.browser

FITS = "document.documentElement.scrollWidth <= window.innerWidth"
SIZES = {"desk": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}


@pytest.fixture(scope="module")
def overview() -> Overview:
    return make_overview(30, group_size=15)


@pytest.fixture(scope="module")
def path(overview: Overview, tmp_path_factory: Folders) -> Path:
    folder = tmp_path_factory.mktemp("overview")
    a, b, _ = overview.pairs(1)[0]
    return overview.to_html(folder / "overview.html", name="Four topics", links={(a, b): "reports/1.html"})


@pytest.fixture
def shown(browser: Any, path: Path) -> Iterator[Report]:
    shown = Report(browser, path, viewport=SIZES["desk"])
    yield shown
    shown.close()


def place_of(shown: Report, overview: Overview, row: int) -> tuple[float, float]:
    """Where a document is on the screen, with the whole map in view."""
    box = shown.page.locator("#map").bounding_box()
    scale = min(box["width"], box["height"]) / 2 - 26
    x, y = overview.points[row]
    return box["x"] + box["width"] / 2 + scale * float(x), box["y"] + box["height"] / 2 + scale * float(y)


def lonely(overview: Overview, count: int) -> list[int]:
    """Documents that can be pointed at: those with the most room around them, but not at the edge."""
    points = overview.points
    room = np.linalg.norm(points[:, None] - points[None], axis=2) + 9 * np.eye(len(points))
    inside = np.abs(points).max(axis=1) < 0.8
    return [int(row) for row in np.argsort(-room.min(axis=1) * inside)[:count]]


def wait_for(what: Callable[[], bool]) -> None:
    """Wait until something is so; the page's policy lets no function of the browser do that."""
    end = time.monotonic() + 20
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


def zoom_of(shown: Report) -> float:
    return float(shown.page.get_attribute("#map", "data-zoom"))


def title_of(shown: Report) -> str:
    return shown.text("#card h2")


def test_names_of_groups_and_what_was_cut_are_whole(browser: Any, tmp_path: Path) -> None:
    overview, path = make_overview(15, group_size=15), tmp_path / "cut.html"
    path.write_text(render_overview(overview.to_dict() | {"not_whole": "2 of 120 documents " * 20}), encoding="utf-8")
    shown = Report(browser, path, viewport={"width": 1280, "height": 420})
    assert shown.page.eval_on_selector(".head .note", "(note) => note.scrollWidth <= note.clientWidth")
    # Their alignment tells names of groups from titles.
    shown.page.evaluate(
        """{ const { prototype } = CanvasRenderingContext2D, write = prototype.fillText;
        prototype.fillText = function (text, x, y) {
            (window.places ??= []).push([this.textAlign, x, y, x + this.measureText(text).width]);
            return write.call(this, text, x, y); }; 0 }"""
    )
    shown.page.set_viewport_size({"width": 1280, "height": 400})
    wait_for(lambda: shown.page.evaluate("window.places?.length > 4"))
    box, places = shown.page.locator("#map").bounding_box(), shown.page.evaluate("window.places")
    assert all(8 < y < box["height"] - 8 for align, _, y, _ in places if align == "center")
    dots = [place_of(shown, overview, row) for row in range(len(overview.documents))]
    titles = [(left + box["x"], y + box["y"], right + box["x"]) for align, left, y, right in places if align == "left"]
    assert titles and not any(left < x < right and abs(at - y) < 8 for left, at, right in titles for x, y in dots)
    shown.close()


def test_pointer_wheel_and_keyboard_in_the_map(shown: Report, overview: Overview) -> None:
    far, mouse = lonely(overview, 2), shown.page.mouse
    for row in far:
        mouse.click(*place_of(shown, overview, row))
        assert title_of(shown) == overview.documents[row].title
    near = [overview.documents[int(other)].title for other in overview.neighbours.rows[far[1]]]
    assert [" ".join(one.split()) for one in shown.page.locator("#card .near .doc").all_inner_texts()] == near
    assert overview.documents[far[0]].title in shown.text("#card .pair-of-two")
    shown.page.keyboard.press("Escape")
    assert shown.page.is_hidden("#card")
    title, (x, y) = overview.documents[far[0]].title, place_of(shown, overview, far[0])
    box = shown.page.locator("#map").bounding_box()
    start = box["x"] + box["width"] / 2, box["y"] + 30
    mouse.move(*start)
    mouse.down()
    mouse.move(start[0] + 40, start[1] + 60, steps=4)
    mouse.up()
    mouse.move(x + 40, y + 60)
    assert title in shown.text("#tip")
    # What is under the pointer stays there while the wheel turns.
    mouse.wheel(0, -600)
    wait_for(lambda: zoom_of(shown) > 1.5)
    mouse.move(x + 41, y + 60)
    assert title in shown.text("#tip")
    shown.page.focus("#map")
    said = []
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft"):
        shown.page.keyboard.press(key)
        said.append(shown.text("#said"))
    assert all(one.startswith("About ") for one in said) and len(set(said)) > 1
    shown.page.keyboard.press("Enter")
    assert said[-1].startswith(title_of(shown))
    shown.page.keyboard.press("0")
    wait_for(lambda: zoom_of(shown) == 1)


def test_groups_searches_tables_colours_and_pairs(shown: Report, overview: Overview) -> None:
    group = shown.page.locator(".group-name").nth(1)
    group.click()
    assert group.get_attribute("aria-pressed") == "true"
    shown.page.click("#show-table")
    assert shown.text("#table-count").startswith(f"{len(overview.groups[1].rows)} of 120 documents")
    group.click()
    assert shown.text("#table-count") == "120 documents"
    last, frame = "#columns th:last-child", overview.to_frame()
    shown.page.click(f"{last} button")
    cells = [float(one) for one in shown.page.locator("#rows td:last-child").all_inner_texts()]
    assert cells == pytest.approx(sorted(frame["closeness"], reverse=True)[:100], abs=1e-3)
    assert shown.page.get_attribute(last, "aria-sort") == "descending"
    shown.page.click("#page-after")
    assert shown.text("#page-number") == "101 to 120" and shown.page.is_disabled("#page-after")
    shown.page.click("#rows tr:first-child .doc")
    assert title_of(shown) == shown.text("#rows tr.is-selected .doc")
    shown.page.fill("#find", "vinegar part 7")
    shown.page.keyboard.press("Enter")
    assert shown.text("#results") == "About vinegar, part 7"
    documents = overview.to_dict()["documents"]
    word = documents[5]["keywords"][0]
    expected = sum(
        any(one.startswith(word) for one in (*document["keywords"], *document["title"].lower().split()))
        for document in documents
    )
    for text, count in ((word.upper(), expected), ("zzz", 0)):
        shown.page.fill("#find", text)
        wait_for(lambda count=count: shown.text("#found") == str(count))
    shown.page.fill("#find", "")
    shown.page.wait_for_selector("#tab-found", state="hidden")
    for field, legend in (("label", "label bread 30 clocks 30 tides 30 vinegar 30"), ("date", "date 1990 2019")):
        shown.page.select_option("#colour", field)
        assert shown.text("#legend") == legend.replace(" ", "")
    shown.page.click("#tab-pairs")
    shown.page.locator(".pair").first.click()
    _, b, score = overview.pairs(1)[0]
    assert title_of(shown) == overview.documents[b].title and f"{score:.3f}" in shown.text("#card .pair-of-two")
    assert shown.page.locator("text=Open the report").get_attribute("href") == "reports/1.html"


@pytest.mark.parametrize(("size", "scheme"), [("desk", "dark"), ("phone", "light")])
def test_titles_full_of_attacks_run_nothing(browser: Any, tmp_path: Path, size: str, scheme: str) -> None:
    titles = {"tides/000": ATTACK, "tides/001": "\u05e9\u05dc\u05d5\u05dd " * 2_000, "tides/002": "x" * 10_000}
    titles |= {f"vinegar/{n:03}": f"{ATTACK} {n}" for n in range(8)}
    path = make_overview(8, titles=titles, group_size=4).to_html(tmp_path / "attack.html", name=ATTACK * 9)
    dialogs: list[str] = []
    shown = Report(browser, path, viewport=SIZES[size], color_scheme=scheme)
    shown.page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    assert shown.page.evaluate(FITS)
    for tab in shown.page.locator('[role="tab"]:visible').all():
        tab.click()
        assert shown.page.evaluate(FITS)
    shown.page.fill("#find", "script window")
    shown.page.keyboard.press("Enter")
    shown.page.locator("#results .doc").first.click()
    assert "<script>" in shown.page.inner_text("#card h2")
    shown.page.locator("#card .near .doc").first.click()
    shown.page.focus("#map")
    shown.page.keyboard.press("ArrowRight")
    shown.page.click("#show-table")
    assert shown.page.evaluate(FITS)
    shown.page.wait_for_timeout(100)
    assert shown.page.evaluate("window.attacked") is None
    assert dialogs == [] and shown.page.locator("img, iframe, main svg[onload]").count() == 0
    shown.close()


def test_without_scripts_the_lists_are_there(browser: Any, path: Path, overview: Overview) -> None:
    shown = Report(browser, path, viewport=SIZES["phone"], java_script_enabled=False)
    for group in overview.groups:
        assert group.words[0] in shown.page.inner_text("#panel-groups")
    assert shown.page.is_visible("#panel-pairs") and shown.page.is_hidden("#map")
    shown.close()
