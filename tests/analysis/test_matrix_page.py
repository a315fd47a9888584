"""The page and the picture of many documents compared with each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lxml.html
import numpy as np
import pytest
from comparison_payload import ATTACK
from open_report import Report

from graphdoc.analysis.figures.comparison import plot_matrix
from graphdoc.analysis.pages.matrix import render_matrix
from graphdoc.analysis.projection import order_of


def payload(titles: list[str], scores: Any) -> dict[str, Any]:
    first, second = np.triu_indices(len(titles), 1)
    pairs = sorted(zip(first.tolist(), second.tolist(), strict=True), key=lambda pair: -scores[pair])
    return {
        "model": {"name": "made up"},
        "similarity": "cosine",
        "documents": [{"id": f"d{row}", "title": title} for row, title in enumerate(titles)],
        "scores": scores.tolist(),
        "pairs": [{"a": a, "b": b, "score": float(scores[a, b])} for a, b in pairs],
    }


def blocks() -> Any:
    """Two kinds of documents by turns: alike within a kind, apart across."""
    kinds = np.arange(8) % 2
    return np.where(kinds[:, None] == kinds, 0.8, 0.1) + 0.2 * np.eye(8)


def test_alike_documents_stand_together() -> None:
    order = order_of(blocks())
    assert sorted(order.tolist()) == list(range(8))
    assert len(set((order[:4] % 2).tolist())) == len(set((order[4:] % 2).tolist())) == 1


def test_cells_are_the_scores_of_their_row_and_column() -> None:
    draw = np.random.default_rng(0)
    scores = draw.normal(size=(6, 6))
    scores = (scores + scores.T) / 2
    titles = [f"title {row}" for row in range(6)]
    tree = lxml.html.fromstring(render_matrix(payload(titles, scores), {(1, 3): "r/1.html", (2, 0): "http://x/"}))
    heads = [
        head.get("title") for head in tree.xpath("//*[contains(concat(' ', @class, ' '), ' matrix ')]//thead//th")[1:]
    ]
    found = 0
    for line in tree.xpath("//*[contains(concat(' ', @class, ' '), ' matrix ')]//tbody//tr"):
        own = titles.index(line.xpath(".//bdi")[0].text)
        for head, cell in zip(heads, line.xpath(".//td"), strict=True):
            other = titles.index(head)
            if own == other:
                assert cell.get("class") == "self"
                continue
            assert cell.text_content() == f"{round(scores[own, other], 2) + 0.0:.2f}".replace("-", "−")
            links = [link.get("href") for link in cell.xpath(".//a")]
            assert links == (["r/1.html"] if {own, other} == {1, 3} else [])
            found += len(links)
    assert found == 2 and heads == [titles[row] for row in order_of(scores)]


def test_names_that_do_not_fit_are_left_out_of_the_picture(tmp_path: Path) -> None:
    few = plot_matrix(blocks(), [f"$name {row}" for row in range(8)], "cosine", "made up", tmp_path / "few.png")
    assert len(few.axes[0].get_yticklabels()) == 8 and (tmp_path / "few.png").stat().st_size > 5_000
    many = plot_matrix(np.eye(60), [str(row) for row in range(60)], "cosine", "made up", None)
    assert many.axes[0].get_yticklabels() == [] and "too many to be named" in many.axes[0].get_xlabel()
    two = plot_matrix(np.ones((2, 2)), ["a", "b"], "cosine", "made up", None)
    assert len(two.axes[0].get_yticklabels()) == 2


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_titles_full_of_attacks_run_nothing(browser: Any, tmp_path: Path, width: int) -> None:
    path = tmp_path / "m.html"
    path.write_text(render_matrix(payload([f"{ATTACK}{row}" * (1 + row) for row in range(8)], blocks()), {}))
    shown = Report(browser, path, viewport={"width": width, "height": 844}, color_scheme="dark")
    shown.page.click("#theme")
    assert shown.page.evaluate("document.documentElement.dataset.theme") == "light"
    assert shown.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert shown.page.evaluate("window.attacked") is None
    assert shown.page.locator("img, iframe").count() == 0
    shown.close()
