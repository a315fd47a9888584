"""Whether a file whose name ends like that of a manual page is one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ..formats import DOCUMENT_KINDS, LARGE, marked_encoding, open_bytes, split_suffix

# What a page begins with: its title, or the heading of its first part.
_OPENING = re.compile(rb"[.'][ \t]*(?:TH|SH|Dd|Dt|Sh)[ \t]+\S")
# Requests, comments (some have lost their point), and escapes alone stand before the title of many pages.
_NOT_TEXT = re.compile(rb"\s*$|\.|\\|'(?:\\\"|[ \t]*(?:ad|br|ce|ds|el|fi|hy|i[efn]|n[aefhr]|rm|sp|t[ir])(?![^\s\\]))")
_NOTHING = re.compile(rb"\s*$|[.'][ \t]*(?:\\[\"#].*)?$|\\\"")
_BLOCK = re.compile(rb"[.'][ \t]*(?:(?:de|am)i?1?[ \t]+\S+|ig(?=\s|$))[ \t]*([^\s\\]*)")
_LEADS = re.compile(rb"\.[ \t]*so[ \t]+(\S+)\s*$")
_LINE = re.compile(rb"[^\r\n]+")
_SAMPLE = 2**16

NO_MACROS = "it is named like a manual page and has no macros of one"


def is_manual_page(content: bytes) -> bool:
    """Whether a file begins like a manual page: ``server.log.1``, ``data.7z`` and ``index.html.1`` do not.

    Definitions, requests and comments may stand before the title of a page, and no text.
    """
    return bool(_opens_page(content)) or bool(leads_to(content))


def leads_to(content: bytes) -> str:
    """The page that a page stands for that has nothing but ``.so man1/other.1``; empty for all others."""
    target = b""
    for line in _lines(content):
        if _NOTHING.match(line) is not None:
            continue
        found = _LEADS.match(line)
        if target or found is None:
            return ""
        target = found[1]
    return target.decode("utf-8", "replace")


def why_passed_over(path: Path) -> str:
    """Why a file in a folder is passed over, which is named like a manual page or not; empty where it is not.

    Raises:
        DocumentError: the file is named like a manual page and cannot be read.
    """
    if split_suffix(path)[1] != "roff" or has_own_suffix(path):
        return ""
    with open_bytes(path) as stream:
        content = stream.read(_SAMPLE)
        if len(content) == _SAMPLE and _opens_page(content) is None:
            # Nothing but comments and definitions so far.
            content += stream.read(LARGE)
    if not is_manual_page(content):
        return NO_MACROS
    target = leads_to(content)
    return f"it only leads to the page {target}" if target else ""


def has_own_suffix(path: Path) -> bool:
    """Whether a name says by itself that a file is in roff, as ``page.roff`` does and ``page.1`` does not."""
    name = path.name.lower().removesuffix(".gz")
    return DOCUMENT_KINDS.get(Path(name).suffix) == "roff"


def _opens_page(content: bytes) -> bool | None:
    """Whether the title or a heading of a page comes before all text; None where neither has come yet."""
    end = b""
    for line in _lines(content):
        if end:
            if line[:1] in (b".", b"'") and line[1:].strip() == end:
                end = b""
        elif _OPENING.match(line) is not None:
            return True
        elif found := _BLOCK.match(line):
            end = found[1] or b"."
        elif _NOT_TEXT.match(line) is None:
            return False
    return None


def _lines(content: bytes) -> Iterator[bytes]:
    wide = marked_encoding(content)
    if wide:
        content = content.decode(wide, "ignore").encode("utf-8", "ignore")
    return (found[0] for found in _LINE.finditer(content))
