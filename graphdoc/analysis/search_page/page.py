"""The results page of a search: one HTML file with the query, the hits, and why they are hits."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from ...errors import OutputError
from ...runtime.files import write_text
from ...runtime.text import counted
from ..pages.page import (
    BASE,
    BOOT,
    TOOLS,
    content_policy,
    environment,
    in_one_function,
    source_of,
    writable,
)
from .content import form_of, hits_of, kinds_of, query_of, search_of

_FOLDER = Path(__file__).parent
_STYLES = (BASE, _FOLDER / "search.css")


def write_search_page(results: Mapping[str, Any], path: str | Path) -> Path:
    """Write the results page of a search, one file that needs no network.

    Args:
        results: what ``SearchResults.to_dict()`` gives.
        path: the HTML file; links to comparisons are relative to its folder.

    Returns:
        The file.

    Raises:
        OutputError: the results are none of a search, or the file cannot be written.
    """
    return write_text(path, search_page(results))


def search_page(results: Mapping[str, Any], *, form: bool = False) -> str:
    """Return the results of a search as one HTML page that loads nothing and needs no network.

    It is read without scripts as well; they add keys, the choice of light or dark, and shorter passages.

    Args:
        results: what ``SearchResults.to_dict()`` gives, with ``excerpt`` also stretches of texts that are alike; of
            ``comparison`` only relative links become links.
        form: whether it can ask again, which needs a server: ``q`` or ``document``, ``by`` and ``where`` go to where
            it came from.

    Raises:
        OutputError: the results have no query or no list of hits.
    """
    for key, kind in (("query", Mapping), ("hits", list)):
        if not isinstance(results.get(key), kind):
            raise OutputError(
                f"results of a search need {key!r}, and here it is {results.get(key)!r}; give SearchResults.to_dict()"
            )
    style, boot = source_of(*_STYLES), source_of(BOOT)
    code = in_one_function(TOOLS, _FOLDER / "search.js")
    page = _template().render(
        policy=Markup(content_policy(style, boot, code, form=form)),
        style=Markup(style),
        boot=Markup(boot),
        script=Markup(code),
        query=query_of(results),
        search=search_of(results),
        warnings=[str(warning) for warning in results.get("warnings") or ()],
        kinds=kinds_of(results),
        hits=hits_of(results),
        form=form_of(results) if form else None,
    )
    return writable(page)


@cache
def _template() -> jinja2.Template:
    templates = environment(_FOLDER)
    templates.filters.update(counted=counted)
    return templates.get_template("search.html")
