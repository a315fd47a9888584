"""The pages of searches and of documents compared with each other, in a real browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from comparison_payload import ATTACK
from open_report import Report
from search_results import make_attack, make_hit, make_passage, make_results

from graphdoc.analysis.pages.matrix import render_matrix
from graphdoc.analysis.pages.search import search_page
from graphdoc.runtime.files import write_text

pytestmark = pytest.mark.browser

FITS = "document.documentElement.scrollWidth <= window.innerWidth"


def test_buttons_and_pages_without_scripts(browser: Any, tmp_path: Path) -> None:
    long = "Nothing of it. " * 100 + "The tidal range is large. " + "Nothing after it. " * 100
    odd = make_hit(2) | {"passages": [make_passage(0, "𝔸 🌊🏽 e\u0301 tidal"), make_passage(1, long)]}
    results = make_results(hits=[make_hit(1), odd, make_hit(3)])
    path = write_text(tmp_path / "results.html", search_page(results))
    shown = Report(browser, path)
    assert shown.page.locator("#hit-2 .passage >> nth=0").locator("mark").all_inner_texts() == ["tidal"]
    passage = shown.page.locator("#hit-2 .passage").nth(1)
    text = " ".join(passage.locator(".text").inner_text().split())
    assert text.startswith("… ") and text.endswith(" …") and "The tidal range is large." in text and len(text) < 600
    passage.locator(".whole").press("Enter")
    assert " ".join(passage.locator(".text").inner_text().split()).startswith("Nothing of it. Nothing")
    for count in (3, 0):
        shown.page.click("#open-all")
        assert shown.page.locator("details.why[open]").count() == count
    shown.close()
    plain = Report(browser, path, java_script_enabled=False)
    for number, hit in enumerate(results["hits"], start=1):
        for found, passage in zip(plain.page.locator(f"#hit-{number} .text").all(), hit["passages"], strict=True):
            assert " ".join(found.inner_text().split()) == " ".join(passage["text"].split())
    for selector in ("#open-all", ".whole >> nth=0", ".gap >> nth=0"):
        assert not plain.page.is_visible(selector)
    plain.close()


@pytest.mark.parametrize("guarded", [True, False])
def test_attacks_would_run_if_they_were_not_escaped(browser: Any, tmp_path: Path, guarded: bool) -> None:
    """What looks for attacks finds them; with the page's policy they do not run even so."""
    page = search_page(make_results(query={"text": "PLACE", "document": None, "title": ""})).replace("PLACE", ATTACK)
    if not guarded:
        page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    shown = Report(browser, write_text(tmp_path / "raw.html", page))
    shown.page.wait_for_timeout(100)
    assert shown.page.evaluate("window.attacked") == (None if guarded else 1)
    shown.context.close()


@pytest.mark.parametrize("scripts", [True, False])
def test_results_full_of_attacks_run_nothing_and_fit_on_a_phone(browser: Any, tmp_path: Path, scripts: bool) -> None:
    dialogs: list[str] = []
    path = write_text(tmp_path / "attack.html", search_page(make_attack()))
    phone = {"viewport": {"width": 360, "height": 740}, "device_scale_factor": 2, "java_script_enabled": scripts}
    shown = Report(browser, path, **phone)
    shown.page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    for summary in shown.page.locator("summary").all():
        summary.click()
    assert shown.page.evaluate(FITS)
    for box in (one.bounding_box() for one in shown.page.locator(".passage, .why, h1, h2, .score-of-hit").all()):
        assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 360
    shown.page.pdf()
    assert shown.page.evaluate("window.attacked") is None and dialogs == []
    assert shown.page.locator("img, iframe, main a, svg[onload]").count() == 0
    shown.close()


def test_a_direction_that_a_text_leaves_open_ends_with_it(browser: Any, tmp_path: Path) -> None:
    evil = "a \u202e\u2066 b"
    hit = make_hit(1, title=evil, id=evil, metadata={evil: evil})
    for passage in hit["passages"]:
        passage["heading"] = evil
    for row in (*hit["explanation"]["words"], *hit["explanation"]["vectors"]):
        row.update(term=evil, heading=evil)
    index = {"documents": 2, "passages": 3, "model": {"name": evil}}
    results = make_results(hits=[hit], where=evil, warnings=[evil], index=index)
    results["query"] = {"text": "", "document": evil, "title": evil}
    shown = Report(browser, write_text(tmp_path / "open.html", search_page(results)))
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


@pytest.mark.parametrize("width", [1280, 390])
def test_a_matrix_of_attacks_runs_nothing(browser: Any, tmp_path: Path, width: int) -> None:
    kinds = np.arange(8) % 2
    scores = np.where(kinds[:, None] == kinds, 0.8, 0.1) + 0.2 * np.eye(8)
    payload = {
        "model": {"name": ATTACK},
        "similarity": "cosine",
        "documents": [{"id": f"d{row}", "title": f"{ATTACK}{row}" * (1 + row)} for row in range(8)],
        "scores": scores.tolist(),
        "pairs": [{"a": 0, "b": row, "score": float(scores[0, row])} for row in range(1, 8)],
    }
    path = write_text(tmp_path / "m.html", render_matrix(payload, {}))
    shown = Report(browser, path, viewport={"width": width, "height": 844}, color_scheme="dark")
    assert shown.page.evaluate(FITS)
    assert shown.page.evaluate("window.attacked") is None and shown.page.locator("img, iframe").count() == 0
    shown.close()
