"""What all HTML pages share: one file that loads nothing, with everything in it escaped."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jinja2

SHARED = Path(__file__).parent
BASE = SHARED / "base.css"
BOOT = SHARED / "boot.js"
TOOLS = SHARED / "tools.js"
# Lone surrogates cannot be written as UTF-8, and HTML has no form for the other control characters.
_UNWRITABLE = re.compile("[\ud800-\udfff\x00-\x08\x0b\x0e-\x1f]")


def environment(folder: Path) -> jinja2.Environment:
    """Templates of a folder and shared ones; what is put into them is escaped, and what is missing is an error."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader([folder, SHARED]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def source_of(*files: Path) -> str:
    """The text of style sheets or scripts, one after the other."""
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def in_one_function(*files: Path) -> str:
    """Scripts whose names are shared among them and kept out of the window's; each comes after those it takes from."""
    return f"(() => {{\n'use strict';\n{source_of(*files)}\n}})();\n"


def content_policy(style: str, *scripts: str, form: bool = False) -> str:
    """The content security policy of a page that loads nothing and runs only what is in it.

    Args:
        style: the style sheet in the page.
        *scripts: the scripts in it.
        form: whether it may send a form to where it came from.
    """
    allowed = f"script-src {' '.join(map(_hash, scripts))}; " if scripts else ""
    target = "'self'" if form else "'none'"
    own = f"{allowed}style-src {_hash(style)}; img-src data:"
    return f"default-src 'none'; {own}; base-uri 'none'; form-action {target}"


def _hash(source: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode('ascii')}'"


def writable(page: str) -> str:
    """A page in which characters that HTML or UTF-8 cannot hold are replaced."""
    return _UNWRITABLE.sub("\ufffd", page)


def finite(value: Any) -> float | None:
    """Return a number, or ``None`` for a missing value."""
    return float(value) if value is not None and math.isfinite(value) else None


def number(value: float | None, decimals: int = 3) -> str:
    """Return a number as text, with a true minus sign, which what rounds to zero has not."""
    return "no value" if value is None else f"{round(value, decimals) + 0.0:.{decimals}f}".replace("-", "−")


def percent(share: float | None) -> str:
    """Return a share in per cent, with as many decimals as its size asks for; nothing for a missing one."""
    if share is None:
        return ""
    size = abs(100 * share)
    return f"{number(100 * share, 0 if size >= 10 else 1 if size >= 1 else 2)} %"


def decimals(values: Iterable[float], significant: int = 4) -> int:
    """Return how many decimals a column needs for its largest number to have so many significant digits.

    >>> decimals([0.0325, 0.0164]), decimals([31.2, 0.5]), decimals([])
    (5, 2, 3)
    """
    largest = max(map(abs, values), default=0.0)
    return max(0, min(6, significant - 1 - math.floor(math.log10(largest)))) if largest else significant - 1


# Browsers drop tabs and line ends inside of an address, and read a backslash as a slash.
_STEALTHY = re.compile(r"[\x00-\x1f\x7f-\x9f\\]|^\s|\s$")
_SCHEME = re.compile(r"[^/?#]*:")


def relative_link(link: Any) -> str | None:
    """A link without a scheme and without a host; None for every other one, and for what is no link.

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
    if value is None or not largest:
        return 0.0
    return round(100 * min(1.0, abs(value) / largest), 2)
