"""The HTML report of a comparison: one file with the scores, the maps, the matches and both texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from ...errors import OutputError
from ...registry import READOUTS, load
from ...runtime.text import counted
from ..pages.page import (
    BASE,
    BOOT,
    content_policy,
    environment,
    finite,
    in_one_function,
    number,
    percent,
    source_of,
    writable,
)
from . import content
from .content import LEVELS, LISTED_MATCHES, end_of_pair, read_levels, share_of

FORMAT = "graphdoc.comparison/1"

_FOLDER = Path(__file__).parent
_STYLES = (BASE, _FOLDER / "report.css")
_SCRIPTS = (
    *("scale.js", "map.js", "heatmap.js", "text.js", "readout.js"),
    *("selection.js", "lists.js", "views.js", "main.js"),
)


def render_report(comparison: Mapping[str, Any]) -> str:
    """Return the report of a comparison as one HTML page that loads nothing and needs no network.

    Args:
        comparison: the JSON payload of a comparison, of format ``graphdoc.comparison/1``; its matrices have shape
            (parts of the first document, parts of the second), and ``None`` or NaN is a cell without a value.

    Raises:
        OutputError: the payload has another format, or a matrix does not fit its documents.
    """
    if comparison.get("format") != FORMAT:
        raise OutputError(
            f"a comparison of format {comparison.get('format')!r} cannot be shown; give one of format {FORMAT!r}"
        )
    within = bool(comparison.get("self"))
    levels = read_levels(comparison)
    a = content.read_side("A", comparison, {name: level.similarity for name, level in levels.items()})
    b = content.read_side("B", comparison, {name: level.similarity.T for name, level in levels.items()})
    found = comparison.get("matches") or {}
    style, boot, code = source_of(*_STYLES), source_of(BOOT), in_one_function(*(_FOLDER / name for name in _SCRIPTS))
    model = comparison.get("model") or {}
    alignment = read_alignment(comparison, a, b)
    data = content.script_data(comparison, levels, (a, b))
    if alignment is not None:
        data["alignment"] = alignment["packed"]
    subtopics = read_subtopics(comparison, a, b)
    if subtopics is not None:
        data["subtopics"] = subtopics["packed"]
    page = _template().render(
        policy=Markup(content_policy(style, boot, code)),
        style=Markup(style),
        boot=Markup(boot),
        script=Markup(code),
        data=htmlsafe_json_dumps(data, allow_nan=False),
        within=within,
        a=a,
        b=b,
        sides=[a] if within else [a, b],
        document=finite(comparison.get("document")),
        meaning=content.meaning_of_score(comparison, levels["passages"].similarity if "passages" in levels else None),
        words=content.read_words(comparison),
        model=model,
        before_graph=_reads_before_graph(model),
        matches={name: content.read_matches(comparison, name, a, b) for name in LEVELS if name in found},
        listed_matches=content.LISTED_MATCHES,
        alignment=alignment,
        subtopics=subtopics,
        listed_sentences=LISTED_SENTENCES,
        attention=levels["passages"].attention if "passages" in levels else None,
        has_contributions=any(level.contribution is not None for level in levels.values()),
        maps_left_out=content.maps_left_out(comparison),
    )
    return writable(page)


def _reads_before_graph(model: Mapping[str, Any]) -> bool:
    """Whether the model's readout takes passages as they are before the graph, which then has no part in scores."""
    readout = model.get("readout")
    return readout in READOUTS and bool(load(READOUTS[readout]).reads_initial_nodes)


@cache
def _template() -> jinja2.Template:
    templates = environment(_FOLDER)
    templates.filters.update(number=number, percent=percent, counted=counted)
    return templates.get_template("report.html")


# Of every pair of paragraphs. A document without headings is one paragraph with all of its sentences.
LISTED_SENTENCES = 100

_MEANINGS = {
    "sentences": "every paragraph with the best one, each of its sentences with the best one there",
    "flat": "every sentence with the best one of the other document, whatever its paragraph",
    "paragraphs": "every paragraph with the best one, as means of their sentences",
    "document": "both documents, as means of their sentences",
}


def read_alignment(comparison: Mapping[str, Any], a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the pairs of paragraphs in both directions, those that add most first, and the scores by sentences.

    Args:
        comparison: the payload.
        a: what the page shows of the first document.
        b: of the second.

    Returns:
        ``score``, ``scores`` (name, number, what it compares), ``search`` (what the search said that led here, None
        where there was none), ``directions``, each with its listed pairs, and ``packed``, the sentence pairs of these
        for the page's script; None without sentences, and within one document, where every sentence is its own best
        one.
    """
    alignment = comparison.get("alignment")
    if alignment is None or comparison.get("self"):
        return None
    score = finite(alignment["score"])
    directions: list[dict[str, Any]] = []
    packed: list[dict[str, Any]] = []
    for direction, letters in (("source", "AB"), ("candidate", "BA")):
        pairs = [pair for pair in alignment["pairs"] if pair["direction"] == direction]
        if not pairs:
            continue
        ranked = sorted(pairs, key=lambda pair: (-pair["contribution"], pair["source"], pair["candidate"]))
        shown = []
        for pair in ranked[:LISTED_MATCHES]:
            shown.append(
                {
                    "number": len(packed),
                    "a": end_of_pair("paragraphs", pair["source"], a),
                    "b": end_of_pair("paragraphs", pair["candidate"], b),
                    "score": finite(pair["score"]),
                    "contribution": finite(pair["contribution"]),
                    "share": share_of(finite(pair["contribution"]), score),
                    "sentences": len(pair["sentences"]),
                }
            )
            packed.append(_packed(pair))
        added = sum(pair["contribution"] for pair in pairs)
        directions.append({"letters": letters, "total": len(pairs), "added": added, "listed": shown})
    scores = comparison.get("sentence_scores") or {}
    return {
        "score": score,
        "scores": [(name, finite(value), _MEANINGS.get(name, "")) for name, value in scores.items()],
        "search": _search(comparison.get("search")),
        "directions": directions,
        "packed": packed,
    }


def _search(search: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The score of the search that led to the report, and how it came about."""
    if search is None:
        return None
    both = search["direction"] == "both"
    how = "The search looked for A in B, and for B in A" if both else "The search looked for A in B"
    if search["normalisation"] == "zscore":
        how += "; scores are z-scores against those that paragraphs have with all documents"
    return {
        "by": str(search["by"]),
        "score": finite(search["score"]),
        "how": how,
        "aligned": bool(search["aligned"]),
        "left_out": int(search["left_out"]),
    }


def _packed(pair: Mapping[str, Any]) -> dict[str, Any]:
    """A pair of paragraphs as numbers; texts of sentences are in the page already."""
    sentences: Sequence[Mapping[str, Any]] = sorted(
        pair["sentences"], key=lambda one: (-one["contribution"], one["source"], one["candidate"])
    )
    return {
        "a": pair["source"],
        "b": pair["candidate"],
        "score": round(pair["score"], 4),
        "total": len(sentences),
        "sentences": [
            [one["source"], one["candidate"], round(one["cosine"], 6), round(one["contribution"], 9)]
            for one in sentences[:LISTED_SENTENCES]
        ],
    }


_TITLES = {"both": "In both documents", "a": "Only in A", "b": "Only in B"}


def read_subtopics(comparison: Mapping[str, Any], a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the subtopics by who has them, and the subtopic of every sentence.

    Args:
        comparison: the payload.
        a: what the page shows of the first document.
        b: of the second.

    Returns:
        ``by``, ``groups`` (each a title and its subtopics), ``beyond`` and ``packed``, the subtopics of sentences for
        the page's script; None where there are none.
    """
    found = comparison.get("subtopics")
    if not found:
        return None
    within = bool(comparison.get("self"))
    rows = [_row(row, within) for row in found["rows"]]
    groups = [
        {"title": "Subtopics" if within else title, "holder": holder, "rows": own}
        for holder, title in _TITLES.items()
        if (own := [row for row in rows if row["holder"] == holder])
    ]
    sides = {"a": list(found["a"]), "b": list(found["a"] if within else found["b"])}
    # A sentence that the page does not show has no place to colour.
    shown = {"a": len(a["passage_of_sentence"]), "b": len(b["passage_of_sentence"])}
    return {
        "by": found["by"],
        "within": within,
        "groups": groups,
        "number": len(rows),
        "beyond": [(letter, count) for letter, count in zip("AB", found["beyond"], strict=True) if count],
        "packed": {
            **{side: clusters[: shown[side]] for side, clusters in sides.items()},
            "alone": [row["number"] for row in rows if row["holder"] != "both"] if not within else [],
        },
    }


def _row(row: Mapping[str, Any], within: bool) -> dict[str, Any]:
    words: Sequence[str] = row["words"]
    return {
        "number": int(row["number"]),
        "holder": "a" if within else row["holder"],
        "words": ", ".join(words) or "no words of its own",
        "a": len(row["a"]),
        "b": len(row["b"]),
        "share_a": finite(row["share_a"]),
        "share_b": finite(row["share_b"]),
        "similarity": None if row["similarity"] is None else finite(row["similarity"]),
    }
