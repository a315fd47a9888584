"""A real browser, and a page in it, for the tests that use pages as people do."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def unavailable(reason: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        unavailable("playwright is not installed: pip install -e '.[dev]'")
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if executable is None:
        unavailable(f"no browser found (looked for {', '.join(BROWSERS)}): apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


class Report:
    """A report open in the browser, with everything that it logged or asked for."""

    def __init__(self, browser: Any, path: Path, fragment: str = "", **context: Any) -> None:
        options = {"viewport": {"width": 1440, "height": 900}, "reduced_motion": "reduce", **context}
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.logged: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.logged.append(message.text))
        self.page.on("pageerror", lambda error: self.logged.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.address = path.as_uri()
        self.page.goto(self.address + fragment)

    def click_cell(self, row: int, column: int) -> None:
        left, top, width, height = map(float, self.page.get_attribute("#map", "data-cells").split())
        frame = self.page.locator("#map").bounding_box()
        self.page.mouse.click(frame["x"] + left + (column + 0.5) * width, frame["y"] + top + (row + 0.5) * height)

    def show_passages(self) -> None:
        self.page.check('input[name="level"][value="passages"]', force=True)

    def selected(self, kind: str = "passage") -> list[str]:
        found: list[str] = self.page.evaluate(
            f"[...document.querySelectorAll('.{kind}.is-selected')].map((element) => element.id)"
        )
        return found

    def is_in_view(self, selector: str) -> bool:
        found: bool = self.page.evaluate(
            """(selector) => {
                const target = document.querySelector(selector).getBoundingClientRect();
                const pane = document.querySelector(selector).closest('.pane').getBoundingClientRect();
                return target.height > 0 && target.top >= Math.max(0, pane.top)
                    && target.top < Math.min(pane.bottom, window.innerHeight);
            }""",
            selector,
        )
        return found

    def text(self, selector: str) -> str:
        # Hits off the screen have no text until they are drawn.
        self.page.eval_on_selector_all(selector, "(all) => all.forEach((one) => { const hit = one.closest('.hit');"
                                       " if (hit) hit.style.contentVisibility = 'visible'; })")  # fmt: skip
        return " ".join(self.page.inner_text(selector).split())

    def close(self) -> None:
        assert self.logged == []
        assert self.requests == [self.address]
        self.context.close()
