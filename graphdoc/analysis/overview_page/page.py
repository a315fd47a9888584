"""The page of an overview: one file with the map, groups, pairs, a table and a search, that loads nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from ...errors import OutputError
from ...runtime.text import counted
from ..pages.page import BASE, BOOT, content_policy, environment, in_one_function, number, source_of, writable
from .content import Command, Report, lists_of, page_data

FORMAT = "graphdoc.overview/1"

_FOLDER = Path(__file__).parent
_STYLES = (BASE, _FOLDER / "overview.css")
_SCRIPTS = ("state.js", "map.js", "panels.js", "main.js")


def render_overview(
    overview: Mapping[str, Any],
    *,
    name: str = "",
    reports: Sequence[Report] = (),
    command: Command | None = None,
    keeps_repeats: bool = False,
) -> str:
    """Return the page of an overview, which loads nothing and needs no network.

    Args:
        overview: what :meth:`graphdoc.overview.Overview.to_dict` gives.
        name: what the collection is called.
        reports: reports that lie beside the page.
        command: how the report of any other pair is made.
        keeps_repeats: whether what repeats was left in on purpose, which the page then says.

    Raises:
        OutputError: the payload has another format.
    """
    if overview.get("format") != FORMAT:
        raise OutputError(f"an overview of format {overview.get('format')!r} cannot be shown; give one of {FORMAT!r}")
    style, boot, code = source_of(*_STYLES), source_of(BOOT), in_one_function(*(_FOLDER / one for one in _SCRIPTS))
    page = _template().render(
        policy=Markup(content_policy(style, boot, code)),
        style=Markup(style),
        boot=Markup(boot),
        script=Markup(code),
        # Characters as they are: escaped, a page in Russian or Chinese would be three times as large.
        data=htmlsafe_json_dumps(page_data(overview, reports, command), allow_nan=False, ensure_ascii=False),
        name=name or "Overview",
        documents=len(overview["documents"]),
        model=overview.get("model") or {},
        settings=overview["settings"],
        keeps_repeats=keeps_repeats,
        **lists_of(overview, reports),
    )
    return writable(page)


@cache
def _template() -> jinja2.Template:
    templates = environment(_FOLDER)
    templates.filters.update(number=number, counted=counted)
    return templates.get_template("overview.html")
