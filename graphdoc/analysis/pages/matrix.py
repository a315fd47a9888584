"""The page of many documents compared with each other: the matrix, and the closest pairs with their reports."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...runtime.text import one_line
from ...similarity.background import percent_closer
from ..projection import order_of
from .page import relative_link, render

# A larger table is no longer read; the pairs and the files have the rest.
MOST_IN_TABLE = 60
LISTED_PAIRS = 200
SHADES = 10
_FOLDER = Path(__file__).parent


def render_matrix(comparison: Mapping[str, Any], links: Mapping[tuple[int, int], str]) -> str:
    """Return the scores of many documents as one HTML page that loads nothing and needs no network."""
    titles = [one_line(document["title"] or document["id"], 160) for document in comparison["documents"]]
    usable = {tuple(sorted(pair)): relative_link(link) for pair, link in links.items()}

    def pair_of(a: int, b: int, score: float, share: float | None = None, share_of: str = "") -> dict[str, Any]:
        ends = {"a": {"title": titles[a]}, "b": {"title": titles[b]}}
        closer = None if share is None else percent_closer(share)
        return {**ends, "score": score, "closer": closer, "of": share_of, "link": usable.get((min(a, b), max(a, b)))}

    scores = np.array(comparison["scores"], np.float64)
    order = order_of(scores).tolist() if len(titles) <= MOST_IN_TABLE else []
    others = scores[~np.eye(len(scores), dtype=bool)]
    # Where it is known how alike unrelated documents are, a score has the same colour on every page.
    is_known = any(pair.get("share") is not None for pair in comparison["pairs"])
    low, high = (0.0, 1.0) if is_known else (others.min(), others.max())
    shades = np.rint((SHADES - 1) * (scores - low) / ((high - low) or 1.0)).clip(0, SHADES - 1).astype(int)
    values = {
        "documents": len(titles),
        "is_known": is_known,
        "model": comparison["model"],
        "similarity": comparison["similarity"],
        "not_whole": comparison.get("not_whole"),
        # Documents that are alike stand together; None is where a document meets itself.
        "rows": [
            (titles[a], [None if a == b else {**pair_of(a, b, scores[a, b]), "shade": shades[a, b]} for b in order])
            for a in order
        ],
        "most": MOST_IN_TABLE,
        "all_pairs": len(comparison["pairs"]),
        "pairs": [pair_of(**pair) for pair in comparison["pairs"][:LISTED_PAIRS]],
    }
    return render(_FOLDER / "matrix.html", values, styles=[_FOLDER / "page.css"])
