"""The results page of a search, in a real browser."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from comparison_payload import ATTACK
from open_report import Report
from search_results import make_attack, make_hit, make_passage, make_results

from graphdoc.analysis.search_page.page import search_page, write_search_page

pytestmark = pytest.mark.browser

ASTRAL = "𝔸 🌊🏽 e\u0301 \u202b tidal – 👩‍🔬 tidal waters"
# Where a mark lies in the text of its passage, in code points, and what it holds.
MARKS = """(passage) => [...passage.querySelectorAll('mark')].map((mark) => {
    const range = document.createRange();
    range.setStart(passage.querySelector('.text'), 0);
    range.setEnd(mark, 0);
    const far = range.cloneContents();
    for (const gap of far.querySelectorAll('.gap')) gap.remove();
    return [[...far.textContent].length, mark.textContent];
})"""
FITS = "document.documentElement.scrollWidth <= window.innerWidth"


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    long = "Nothing of it. " * 100 + "The tidal range is large. " + "Nothing after it. " * 100
    odd = make_hit(2) | {"passages": [make_passage(0, ASTRAL), make_passage(1, long)]}
    return make_results(hits=[make_hit(1), odd, make_hit(3)])


@pytest.fixture(scope="module")
def path(results: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_search_page(results, tmp_path_factory.mktemp("search") / "results.html")


@pytest.fixture
def shown(browser: Any, path: Path) -> Iterator[Report]:
    shown = Report(browser, path)
    yield shown
    shown.close()


def test_marks_are_on_the_matching_words(shown: Report, results: dict[str, Any]) -> None:
    passages = shown.page.locator(".passage").all()
    expected = [passage for hit in results["hits"] for passage in hit["passages"]]
    for found, passage in zip(passages, expected, strict=True):
        marks = found.evaluate(MARKS)
        assert marks == [[start, passage["text"][start:end]] for start, end in passage["matches"]]
        assert {text for _, text in marks} == {"tidal"}


def test_bars_are_as_wide_as_their_numbers(shown: Report, results: dict[str, Any]) -> None:
    widths = """(bars) => bars.map((bar) => [...bar.children].map((part) =>
        part.getBoundingClientRect().width / bar.getBoundingClientRect().width))"""
    best = results["hits"][0]["score"]
    found = shown.page.eval_on_selector_all(".score-of-hit > .bar", widths)
    for parts, hit in zip(found, results["hits"], strict=True):
        assert parts == pytest.approx([part["share"] / best for part in hit["parts"].values()], abs=1e-3)
    assert sum(found[0]) == pytest.approx(1, abs=1e-3)
    passages = [passage for hit in results["hits"] for passage in hit["passages"]]
    for kind, largest in (("words", 12.5), ("vectors", 0.75)):
        thin = shown.page.eval_on_selector_all(f".thin .bar:has(.{kind})", widths)
        values = [passage[kind] for passage in passages if passage[kind] is not None]
        assert [part for (part,) in thin] == pytest.approx([value / largest for value in values], abs=1e-3)
    shown.page.click("#open-all")
    terms = shown.page.eval_on_selector_all("#hit-1 table:first-of-type tbody .bar", widths)
    assert [part for (part,) in terms] == pytest.approx([1, 10 / 15], abs=1e-3)


def test_explanations_open_by_keyboard(shown: Report) -> None:
    keyboard = shown.page.keyboard
    keyboard.press("Tab")
    assert shown.page.evaluate("document.activeElement.textContent") == "Skip to the hits"
    keyboard.press("Enter")
    keyboard.press("Tab")
    assert shown.page.evaluate("document.activeElement.getAttribute('href')") == "comparisons/1.html"
    keyboard.press("Tab")
    assert shown.page.evaluate("document.activeElement.textContent") == "Why this is hit 1"
    assert not shown.page.is_visible("#hit-1 table >> nth=0")
    keyboard.press("Enter")
    assert shown.page.is_visible("#hit-1 table >> nth=0")
    assert "All terms 25.00" in shown.text("#hit-1 table >> nth=0")
    keyboard.press("Space")
    assert not shown.page.is_visible("#hit-1 table >> nth=0")


def test_keys_step_through_hits(shown: Report) -> None:
    keyboard = shown.page.keyboard
    for key, hit in (("j", 1), ("j", 2), ("k", 1), ("k", 1), ("j", 2), ("j", 3), ("j", 3)):
        keyboard.press(key)
        assert shown.page.evaluate("document.activeElement.id") == f"hit-{hit}"
        assert shown.page.evaluate("getComputedStyle(document.activeElement).boxShadow") != "none"
    keyboard.press("o")
    assert shown.page.is_visible("#hit-3 table >> nth=0")
    assert not shown.page.is_visible("#hit-1 table >> nth=0")
    keyboard.press("o")
    assert not shown.page.is_visible("#hit-3 table >> nth=0")
    keyboard.press("Control+j")
    assert shown.page.evaluate("document.activeElement.id") == "hit-3"


def test_a_long_passage_opens_from_the_stretch_around_its_match(shown: Report) -> None:
    passage = shown.page.locator("#hit-2 .passage").nth(1)
    text = " ".join(passage.locator(".text").inner_text().split())
    assert text.startswith("… ") and text.endswith(" …")
    assert "The tidal range is large." in text and len(text) < 600
    button = passage.locator(".whole")
    button.press("Enter")
    assert button.get_attribute("aria-expanded") == "true"
    assert " ".join(passage.locator(".text").inner_text().split()).startswith("Nothing of it. Nothing")
    button.press("Enter")
    assert " ".join(passage.locator(".text").inner_text().split()) == text
    shown.page.click("#open-all")
    assert button.get_attribute("aria-expanded") == "true"
    assert shown.page.locator("details.why[open]").count() == 3
    shown.page.click("#open-all")
    assert shown.page.locator("details.why[open]").count() == 0


def test_a_click_on_a_title_opens_the_comparison(browser: Any, tmp_path: Path) -> None:
    comparison = tmp_path / "comparisons" / "1.html"
    comparison.parent.mkdir()
    comparison.write_text("<!doctype html><link rel=icon href=data:,><title>Compared</title>")
    shown = Report(browser, write_search_page(make_results(hits=1), tmp_path / "results.html"))
    shown.page.click("#hit-1 h2 a")
    assert shown.page.title() == "Compared"
    assert shown.requests == [shown.address, comparison.as_uri()]
    assert shown.logged == []
    shown.context.close()


def test_results_full_of_attacks_run_nothing(browser: Any, tmp_path: Path) -> None:
    dialogs: list[str] = []
    shown = Report(browser, write_search_page(make_attack(), tmp_path / "attack.html"))
    shown.page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    shown.page.click("#open-all")
    shown.page.locator("summary").first.click()
    shown.page.click("#hit-1 h2")
    for key in ("j", "o", "k"):
        shown.page.keyboard.press(key)
    shown.page.pdf()
    shown.page.wait_for_timeout(100)
    assert shown.page.evaluate("window.attacked") is None
    assert dialogs == []
    assert shown.page.locator("img, iframe, main a, svg[onload]").count() == 0
    assert ATTACK[:40] in shown.page.inner_text("#hit-1 h2")
    shown.close()


@pytest.mark.parametrize("guarded", [True, False])
def test_attacks_would_run_if_they_were_not_escaped(browser: Any, tmp_path: Path, guarded: bool) -> None:
    """What looks for attacks finds them; with the page's policy they do not run even so."""
    results = make_results(query={"text": "PLACE", "document": None, "title": ""})
    page = search_page(results).replace("PLACE", ATTACK)
    if not guarded:
        page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    (tmp_path / "raw.html").write_text(page, encoding="utf-8")
    shown = Report(browser, tmp_path / "raw.html")
    shown.page.wait_for_timeout(100)
    assert shown.page.evaluate("window.attacked") == (None if guarded else 1)
    if guarded:
        assert any("Content Security Policy" in line for line in shown.logged)
    shown.context.close()


def test_a_direction_that_a_text_leaves_open_ends_with_it(browser: Any, tmp_path: Path) -> None:
    evil = "a \u202e\u2066 b"
    hit = make_hit(1, title=evil, id=evil, metadata={evil: evil})
    for passage in hit["passages"]:
        passage["heading"] = evil
    for row in (*hit["explanation"]["words"], *hit["explanation"]["vectors"]):
        row.update(term=evil, heading=evil)
    model = {"name": evil}
    results = make_results(
        hits=[hit], where=evil, warnings=[evil], index={"documents": 2, "passages": 3, "model": model}
    )
    results["query"] = {"text": "", "document": evil, "title": evil}
    shown = Report(browser, write_search_page(results, tmp_path / "open.html"))
    shown.page.click("#open-all")
    backwards = """() => {
        const found = [];
        const walker = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
        const place = (node, at) => {
            const range = document.createRange();
            range.setStart(node, at);
            range.setEnd(node, at + 1);
            return range.getBoundingClientRect();
        };
        while (walker.nextNode()) {
            for (const { index } of walker.currentNode.data.matchAll(/(?=[a-z]{2})/g)) {
                const [first, second] = [place(walker.currentNode, index), place(walker.currentNode, index + 1)];
                if (first.top === second.top && first.left > second.left) found.push(walker.currentNode.data);
            }
        }
        return found;
    }"""
    assert shown.page.evaluate(backwards) == []
    # Without the boxes it would not: this looks where it should.
    shown.page.evaluate("for (const one of document.querySelectorAll('[dir]')) one.style.display = 'inline'")
    assert len(shown.page.evaluate(backwards)) > 3
    shown.close()


@pytest.mark.parametrize("scripts", [True, False])
@pytest.mark.parametrize(
    "kind", ["attack", *(pytest.param(one, marks=pytest.mark.slow) for one in ("plain", "many words", "no hits"))]
)
def test_nothing_scrolls_sideways_on_a_phone(browser: Any, tmp_path: Path, kind: str, scripts: bool) -> None:
    results = {
        "plain": make_results(),
        "attack": make_attack(),
        "many words": make_results(query={"text": "word " * 2_000 + "x" * 2_000, "document": None, "title": ""}),
        "no hits": make_results(hits=0, where="year > 3000 and " + "z" * 400, warnings=["w" * 400]),
    }[kind]
    path = write_search_page(results, tmp_path / "results.html")
    phone = {"viewport": {"width": 360, "height": 740}, "device_scale_factor": 2, "java_script_enabled": scripts}
    shown = Report(browser, path, **phone)
    for summary in shown.page.locator("summary").all():
        summary.click()
    assert shown.page.evaluate(FITS)
    for box in (one.bounding_box() for one in shown.page.locator(".passage, .why, h1, h2, .score-of-hit").all()):
        assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 360
    for passage in shown.page.locator(".passage").all():
        assert passage.bounding_box()["width"] > 300
    shown.close()


def test_light_and_dark_follow_the_system_and_the_button(browser: Any, path: Path) -> None:
    shown = Report(browser, path, color_scheme="dark")

    def brightness(selector: str, key: str) -> int:
        colour = shown.page.eval_on_selector(selector, f"(element) => getComputedStyle(element).{key}")
        return sum(map(int, re.findall(r"\d+", colour)[:3]))

    assert brightness("body", "backgroundColor") < 150 and brightness("mark", "backgroundColor") < 250
    assert brightness(".text", "color") > 600
    dark_bar = brightness(".score-of-hit rect.vectors", "fill")
    shown.page.click("#theme")
    assert brightness("body", "backgroundColor") > 600 and brightness("mark", "backgroundColor") > 600
    assert brightness(".text", "color") < 150
    assert brightness(".score-of-hit rect.vectors", "fill") < dark_bar
    shown.close()


def test_the_print_has_what_is_open_and_no_buttons(browser: Any, path: Path) -> None:
    shown = Report(browser, path)
    shown.page.locator("#hit-1 .why summary").click()
    assert shown.page.pdf().startswith(b"%PDF")
    shown.page.emulate_media(media="print", color_scheme="dark")
    assert shown.page.is_visible("#hit-1 .why table >> nth=0") and not shown.page.is_visible("#hit-2 .why")
    for selector in ("#theme", "#open-all", ".keys", "#hit-2 .whole"):
        assert not shown.page.is_visible(selector)
    assert shown.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(253, 252, 250)"
    shown.close()


def test_everything_is_read_without_scripts(browser: Any, path: Path, results: dict[str, Any]) -> None:
    shown = Report(browser, path, java_script_enabled=False)
    for number, hit in enumerate(results["hits"], start=1):
        for found, passage in zip(shown.page.locator(f"#hit-{number} .text").all(), hit["passages"], strict=True):
            assert " ".join(found.inner_text().split()) == " ".join(passage["text"].split())
    shown.page.locator("#hit-2 .why summary").click()
    assert shown.page.is_visible("#hit-2 .why table >> nth=0")
    for selector in ("#theme", "#open-all", ".keys", ".whole >> nth=0", ".gap >> nth=0"):
        assert not shown.page.is_visible(selector)
    shown.close()


def test_bars_have_words_beside_them_or_for_them(browser: Any, path: Path) -> None:
    shown = Report(browser, path)
    shown.page.click("#open-all")
    snapshot = shown.page.locator("#hit-1").aria_snapshot()
    assert 'img "Score 0.03227, words 0.01639, vectors 0.01587"' in snapshot
    assert "words 12.50" in " ".join(snapshot.split())
    assert "Words: parts of the score by term" in snapshot
    nameless = "svg.bar:not([aria-hidden='true']):not([aria-label])"
    assert shown.page.locator(nameless).count() == 0
    shown.close()


def test_a_hundred_hits_with_long_passages(browser: Any, tmp_path: Path) -> None:
    results = make_results(hits=100, passages=3, characters=3_000)
    for hit in results["hits"]:
        hit["explanation"]["words"] *= 30
    start = time.perf_counter()
    path = write_search_page(results, tmp_path / "large.html")
    drawn = time.perf_counter()
    shown = Report(browser, path)
    opened = time.perf_counter()
    shown.page.click("#open-all")
    shown.page.keyboard.press("j")
    assert shown.page.evaluate("document.activeElement.id") == "hit-1"
    print(
        f"written in {drawn - start:.2f} s, opened in {opened - drawn:.2f} s, everything open in "
        f"{time.perf_counter() - opened:.2f} s, {path.stat().st_size / 1e6:.2f} MB"
    )
    assert shown.page.locator(".hit").count() == 100
    assert html.escape(results["hits"][99]["title"]) in path.read_text(encoding="utf-8")
    assert path.stat().st_size < 8_000_000
    shown.close()
