"""Whether a file whose name ends like that of a manual page is one."""

from __future__ import annotations

import re
from pathlib import Path

from ..formats import DOCUMENT_KINDS, open_bytes, split_suffix

_MACRO = re.compile(rb"^[.'][ \t]*(?:TH|SH|SS|Dd|Dt|Sh|so)[ \t]", re.MULTILINE)
_NOT_TEXT = re.compile(rb"^(?:[ \t]*|[.'][ \t]*(?:\\[\"#].*)?|'\\\".*)$")
_LEADS = re.compile(rb"^[.'][ \t]*so[ \t]+(\S+)[ \t]*$")
_SAMPLE = 2**16


def is_manual_page(content: bytes) -> bool:
    """Whether the start of a file has macros of a manual page: ``server.log.1`` and ``data.7z`` have none."""
    return _MACRO.search(content, 0, _SAMPLE) is not None


def leads_to(content: bytes) -> str:
    """The page that a page stands for that has nothing but ``.so man1/other.1``; empty for all others."""
    if len(content) >= _SAMPLE:
        return ""
    lines = [line for line in content.split(b"\n") if _NOT_TEXT.match(line.rstrip(b"\r")) is None]
    found = _LEADS.match(lines[0]) if len(lines) == 1 else None
    return found[1].decode("utf-8", "replace") if found else ""


def why_passed_over(path: Path) -> str:
    """Why a file in a folder is passed over, which is named like a manual page or not; empty where it is not.

    Raises:
        DocumentError: the file is named like a manual page and cannot be read.
    """
    if split_suffix(path)[1] != "roff" or has_own_suffix(path):
        return ""
    with open_bytes(path) as stream:
        content = stream.read(_SAMPLE)
    if not is_manual_page(content):
        return f"unknown type {path.suffix}"
    target = leads_to(content)
    return f"it only leads to the page {target}" if target else ""


def has_own_suffix(path: Path) -> bool:
    """Whether a name says by itself that a file is in roff, as ``page.roff`` does and ``page.1`` does not."""
    return any(suffix.lower() in DOCUMENT_KINDS for suffix in path.suffixes[-2:])
