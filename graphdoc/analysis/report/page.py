"""The HTML report of a comparison: one file with the scores, the maps, the matches and both texts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from ...errors import OutputError
from ...registry import READOUTS, load
from ...runtime.text import counted
from ..pages.html import BASE, BOOT, content_policy, environment, in_one_function, source_of, writable
from ..pages.numbers import finite, number, percent
from . import content
from .alignment import LISTED_SENTENCES, read_alignment
from .matrices import LEVELS, read_levels
from .subtopics import read_subtopics

FORMAT = "graphdoc.comparison/1"

_FOLDER = Path(__file__).parent
_STYLES = (BASE, _FOLDER / "report.css", _FOLDER / "layout.css")
_SCRIPTS = (
    *("scale.js", "attention.js", "colour.js", "map.js", "heatmap.js", "text.js", "state.js"),
    *("readout.js", "selection.js", "alignment.js", "subtopics.js", "views.js", "main.js"),
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
