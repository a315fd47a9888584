"""The HTML report of a comparison: one file with the scores, the maps, the matches and both texts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import OutputError
from ...registry import READOUTS, load
from ...similarity.background import NO_BACKGROUND, UNKNOWN_WORDS, describe_share
from ..pages.page import packed, render
from . import content
from .content import Matrix

FORMAT = "graphdoc.comparison/1"
MATRICES = ("sections", "passages", "paragraphs", "sentences")
# A long document has any number of these.
_UNBOUNDED = ("paragraphs", "sentences")
# More cells would make the file larger than a mail attachment may be. The matches of a level without its map stay, and
# of attention the mean over heads and directions.
MAP_CELLS = 600_000
ATTENTION_CELLS = 800_000

_FOLDER = Path(__file__).parent
_SCRIPTS = (
    *("scale.js", "map.js", "heatmap.js", "text.js", "state.js"),
    *("readout.js", "selection.js", "lists.js", "views.js", "main.js"),
)


def render_report(comparison: Mapping[str, Any]) -> str:
    """Return the report of a comparison as one HTML page that loads nothing and needs no network."""
    if (given := comparison.get("format")) != FORMAT:
        raise OutputError(f"a comparison of format {given!r} cannot be shown; give one of format {FORMAT!r}")
    within, model = comparison["self"], comparison["model"]
    levels = {name: _matrix(comparison, comparison, name) for name in MATRICES if comparison[name] is not None}
    a = content.read_side("A", comparison, levels)
    b = content.read_side("B", comparison, {name: similarity.T for name, similarity in levels.items()})
    left_out = {name: levels[name].size for name in _UNBOUNDED if name in levels and levels[name].size > MAP_CELLS}
    maps = {name: similarity for name, similarity in levels.items() if name not in left_out}
    alignment, subtopics = content.read_alignment(comparison, a, b), content.read_subtopics(comparison, a, b)
    attention = _attention(comparison)
    heads, contributions = attention["heads"] if attention else 0, comparison["contributions"]
    unrelated = comparison.get("unrelated_passages")
    data = {
        "total": content.total_of(comparison),
        # Outside of this range there is nothing to set apart.
        "unrelated": unrelated if unrelated is not None and 0 < unrelated < 1 else None,
        "self": within,
        "levels": {
            name: {
                "rows": len(similarity),
                "columns": similarity.shape[1],
                "similarity": _packed(similarity, step=1e-4),
                "contribution": _packed(_matrix(comparison, contributions, name)) if name in contributions else None,
                "attention": attention if name == "passages" else None,
            }
            for name, similarity in maps.items()
        },
        "documents": {
            side["key"]: {
                "labels": [section["label"] for section in side["sections"]],
                "passages": [passage["section"] for passage in side["passages"]],
                "sentences": side["passage_of_sentence"],
                "paragraphs": side["paragraphs"],
            }
            for side in (a, b)
        },
        "alignment": alignment and alignment["packed"],
        "subtopics": subtopics and subtopics["packed"],
    }
    values = {
        "within": within,
        "a": a,
        "b": b,
        "sides": [a] if within else [a, b],
        "document": comparison["document"],
        "share": None if comparison["share"] is None else describe_share(comparison["share"], comparison["share_of"]),
        "no_background": UNKNOWN_WORDS if comparison.get("evidence") else NO_BACKGROUND,
        "meaning": content.meaning_of_score(comparison),
        "words": content.read_words(comparison),
        "evidence": comparison.get("evidence"),
        "model": model,
        # Such a readout takes passages as they are before the graph, which then has no part in scores.
        "before_graph": model["readout"] in READOUTS and load(READOUTS[model["readout"]]).reads_initial_nodes,
        "matches": {name: content.read_matches(comparison, name, a, b) for name in comparison["matches"]},
        "listed_matches": content.LISTED_MATCHES,
        "alignment": alignment,
        "subtopics": subtopics,
        "listed_sentences": content.LISTED_SENTENCES,
        "heads": heads,
        "has_all_heads": heads > 1 and attention is not None and len(attention["to_b"]) == heads,
        "levels": list(maps),
        "maps_left_out": left_out,
    }
    scripts = [_FOLDER / name for name in _SCRIPTS]
    return render(_FOLDER / "report.html", values, styles=[_FOLDER / "report.css"], scripts=scripts, data=data)


def _matrix(comparison: Mapping[str, Any], values: Mapping[str, Any], level: str) -> Matrix:
    """Values of a level; within one document NaN on the diagonal, where a part meets itself."""
    matrix = np.array(values[level], np.float64).reshape(len(comparison["a"][level]), len(comparison["b"][level]))
    if comparison["self"]:
        np.fill_diagonal(matrix, np.nan)
    return matrix


def _attention(comparison: Mapping[str, Any]) -> dict[str, Any] | None:
    """Attention of passages, a matrix per head or one for their mean, as the page's script reads it.

    ``to_b`` is how A's passages look, ``to_a`` how B's do; within one document ``to_b`` joins consecutive sections.
    """
    attention = comparison["attention"]
    if not attention:
        return None
    if comparison["self"]:
        heads = np.array(attention["a"], np.float64)
        # Passages of sections that do not follow each other cannot see each other, which is no weight of 0.
        heads[heads == 0] = np.nan
        for head in heads:
            np.fill_diagonal(head, np.nan)
        matrices = {"to_b": heads}
    else:
        to_a = np.array(attention["b_to_a"], np.float64).swapaxes(1, 2)
        matrices = {"to_b": np.array(attention["a_to_b"], np.float64), "to_a": to_a}
    if sum(heads.size for heads in matrices.values()) > ATTENTION_CELLS:
        matrices = {direction: heads.mean(axis=0, keepdims=True) for direction, heads in matrices.items()}
    packed_heads = {direction: list(map(_packed, heads)) for direction, heads in matrices.items()}
    return {"heads": attention["heads"], **packed_heads}


def _packed(matrix: Matrix, step: float | None = None) -> dict[str, Any]:
    """A matrix in two bytes a cell: 90,000 cells take 240 kB where decimals in JSON would take three times that.

    Values are rounded to multiples of a step; without one, or where it is too fine for the largest value, to the
    finest that two bytes hold.
    """
    missing = np.isnan(matrix)
    largest = float(np.abs(matrix[~missing]).max(initial=0.0))
    if step is None or largest > 32_000 * step:
        step = largest / 32_000 or 1.0
    return {"step": step, "values": packed(np.where(missing, -32_768, np.rint(np.nan_to_num(matrix) / step)), "<i2")}
