"""The page of many documents compared with each other: the matrix, and the closest pairs with their reports."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from ...runtime.text import counted, one_line
from ..projection import order_of
from .page import (
    BASE,
    BOOT,
    TOOLS,
    content_policy,
    environment,
    in_one_function,
    number,
    relative_link,
    source_of,
    writable,
)

# A larger table is no longer read; the pairs and the files have the rest.
MOST_IN_TABLE = 60
LISTED_PAIRS = 200
SHADES = 10
_FOLDER = Path(__file__).parent
_STYLES = (BASE, _FOLDER / "matrix.css")


def render_matrix(comparison: Mapping[str, Any], links: Mapping[tuple[int, int], str]) -> str:
    """Return the scores of many documents as one HTML page that loads nothing and needs no network.

    Args:
        comparison: what :meth:`graphdoc.similarity.MutualComparison.to_dict` gives.
        links: by the rows of a pair, where its report is, relative to the page.
    """
    titles = [one_line(one["title"] or one["id"], 160) for one in comparison["documents"]]
    scores = np.array(comparison["scores"], np.float64)
    style, boot, code = source_of(*_STYLES), source_of(BOOT), in_one_function(TOOLS)
    usable = {tuple(sorted(pair)): relative_link(link) for pair, link in links.items()}
    page = _template().render(
        policy=Markup(content_policy(style, boot, code)),
        style=Markup(style),
        boot=Markup(boot),
        script=Markup(code),
        documents=titles,
        model=comparison.get("model") or {},
        similarity=comparison["similarity"],
        rows=_table(scores, titles, usable) if len(titles) <= MOST_IN_TABLE else [],
        most=MOST_IN_TABLE,
        all_pairs=len(comparison["pairs"]),
        pairs=[
            {**pair, "a": titles[pair["a"]], "b": titles[pair["b"]], "link": usable.get((pair["a"], pair["b"]))}
            for pair in comparison["pairs"][:LISTED_PAIRS]
        ],
    )
    return writable(page)


def _table(
    scores: Any, titles: list[str], links: Mapping[tuple[int, ...], str | None]
) -> list[tuple[str, int, list[dict[str, Any] | None]]]:
    """Rows, alike documents together: title, number, and cells; None where a document meets itself."""
    order = order_of(scores).tolist()
    others = scores[~np.eye(len(scores), dtype=bool)]
    low, high = float(others.min()), float(others.max())
    rows = []
    for place, row in enumerate(order):
        cells: list[dict[str, Any] | None] = []
        for other in order:
            if other == row:
                cells.append(None)
                continue
            score = float(scores[row, other])
            shade = round((SHADES - 1) * (score - low) / (high - low)) if high > low else 0
            a, b = sorted((row, other))
            cells.append({"score": score, "shade": shade, "title": titles[other], "link": links.get((a, b))})
        rows.append((titles[row], place + 1, cells))
    return rows


@cache
def _template() -> jinja2.Template:
    templates = environment(_FOLDER)
    templates.filters.update(number=number, counted=counted)
    return templates.get_template("matrix.html")
