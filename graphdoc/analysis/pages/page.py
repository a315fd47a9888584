"""The frame of all HTML pages: one file that loads nothing, with everything in it escaped."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from ...runtime.text import counted

_SHARED = Path(__file__).parent
# Styles are of a page with scripts from its first moment.
_BOOT = "document.documentElement.classList.add('js');"
# Lone surrogates cannot be written as UTF-8, and HTML has no form for the other control characters.
_UNWRITABLE = re.compile("[\ud800-\udfff\x00-\x08\x0b\x0e-\x1f]")


def render(
    template: Path,
    values: Mapping[str, Any],
    *,
    styles: Sequence[Path] = (),
    scripts: Sequence[Path] = (),
    data: Mapping[str, Any] | None = None,
    form: bool = False,
) -> str:
    """Return a page that loads nothing and runs only the scripts in it.

    Args:
        template: extends ``layout.html``; it may use the templates of its folder and those that all pages share.
        values: what is put into it, escaped.
        styles: style sheets, after that of all pages.
        scripts: scripts that share their names, each after those it takes from.
        data: what the scripts read, as JSON.
        form: whether the page may send a form to where it came from.
    """
    style = _source(_SHARED / "base.css", *styles)
    script = f"(() => {{\n'use strict';\n{_source(_SHARED / 'page.js', *scripts)}\n}})();\n"
    target = "'self'" if form else "'none'"
    policy = (
        f"default-src 'none'; script-src {_hash(_BOOT)} {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        f"base-uri 'none'; form-action {target}"
    )
    # Characters as they are: escaped, a page in Russian or Chinese would be three times as large.
    json = None if data is None else htmlsafe_json_dumps(data, allow_nan=False, ensure_ascii=False)
    parts = {"policy": policy, "style": style, "boot": _BOOT, "script": script}
    page = _template(template).render(**{name: Markup(text) for name, text in parts.items()}, data=json, **values)
    return _UNWRITABLE.sub("\ufffd", page)


@cache
def _template(file: Path) -> jinja2.Template:
    """A template that escapes what is put into it, and in which what is missing is an error."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader([file.parent, _SHARED]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(number=number, percent=percent, counted=counted, thousands="{:,}".format)
    return templates.get_template(file.name)


@cache
def _source(*files: Path) -> str:
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def _hash(source: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode('ascii')}'"


def packed(values: Any, kind: str) -> str:
    """Numbers for a script, of a type such as ``<u2``: a fraction of what they take as decimals."""
    return base64.b64encode(np.asarray(values, kind).tobytes()).decode("ascii")


def finite(value: Any) -> float | None:
    """Return a number, or ``None`` for a missing value."""
    return float(value) if value is not None and math.isfinite(value) else None


def number(value: float | None, decimals: int = 3) -> str:
    """Return a number as text, with a true minus sign; one that rounds to zero has no sign."""
    known = finite(value)
    return "no value" if known is None else f"{round(known, decimals) + 0.0:.{decimals}f}".replace("-", "−")


def percent(share: float | None) -> str:
    """Return a share in per cent, with as many decimals as its size asks for; nothing for a missing one."""
    if share is None:
        return ""
    size = abs(100 * share)
    return f"{number(100 * share, 0 if size >= 10 else 1 if size >= 1 else 2)} %"


def decimals(values: Iterable[Any], significant: int = 4) -> int:
    """Return how many decimals a column needs for its largest number to have enough significant digits.

    >>> decimals([0.0325, 0.0164]), decimals([31.2, None, 0.5]), decimals([])
    (5, 2, 3)
    """
    largest = max((abs(value) for value in map(finite, values) if value), default=0.0)
    return max(0, min(6, significant - 1 - math.floor(math.log10(largest)))) if largest else significant - 1


# Browsers drop tabs and line ends inside of an address, and read a backslash as a slash.
_STEALTHY = re.compile(r"[\x00-\x1f\x7f-\x9f\\]|^\s|\s$")
_SCHEME = re.compile(r"[^/?#]*:")


def relative_link(link: Any) -> str | None:
    """The link if it has no scheme and no host; None for any other value.

    >>> relative_link("comparisons/3.html"), relative_link("javascript:alert(1)"), relative_link("//example.org")
    ('comparisons/3.html', None, None)
    """
    if not isinstance(link, str) or not link or _STEALTHY.search(link):
        return None
    return None if _SCHEME.match(link) or link.startswith("//") else link


def width(value: float | None, largest: float) -> float:
    """How much of its track a value fills: its size against the largest one, nothing for a missing one.

    >>> width(1.0, 4.0), width(-1.0, 4.0), width(None, 4.0)
    (25.0, 25.0, 0.0)
    """
    return round(100 * min(1.0, abs(value) / largest), 2) if value is not None and largest else 0.0
