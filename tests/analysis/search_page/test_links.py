from __future__ import annotations

from typing import Any

import pytest

from graphdoc.analysis.pages.page import relative_link


@pytest.mark.parametrize(
    "link", ["comparisons/3.html", "../a%20b/c.html#passages=1,2", "/compare?a=1&b=x:y", "a.html?x=http://b"]
)
def test_relative_links_stay(link: str) -> None:
    assert relative_link(link) == link


@pytest.mark.parametrize(
    "link",
    [
        *("javascript:alert(1)", "JavaScript:alert(1)", " javascript:alert(1)", "java\tscript:alert(1)"),
        *("\x01javascript:alert(1)", "data:text/html,x", "vbscript:x", "http://example.org", "file:///etc/passwd"),
        *("//example.org", "/\\example.org", "\\\\example.org", "/\t/example.org", "\u00a0//example.org", ":", "a:b"),
        *("", None, 7, ["a.html"], {"a": 1}),
    ],
)
def test_every_other_link_is_none(link: Any) -> None:
    assert relative_link(link) is None
