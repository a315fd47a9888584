"""Links that a page may hold: to files beside it and to pages of the same server."""

from __future__ import annotations

import re
from typing import Any

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
