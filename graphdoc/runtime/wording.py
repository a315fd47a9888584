"""Words that the terminal, the report and figures share."""

from __future__ import annotations

import re

_ONE = {"queries": "query", "documents": "document", "texts": "text", "that are": "that is", "themselves": "itself"}


def counted(count: int, noun: str) -> str:
    """A count with its noun, such as ``1 section`` or ``3,000 sections``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def left_out_line(count: int, reason: str) -> str:
    """How many were left out, and why.

    Args:
        count: how many.
        reason: what they are, which begins with a noun in the plural.

    >>> left_out_line(1, "judged documents that are unknown"), left_out_line(2_000, "queries without text")
    ('left out: 1 judged document that is unknown', 'left out: 2,000 queries without text')
    """
    if count == 1:
        for nouns in ("queries|documents|texts", "that are", "themselves"):
            reason = re.sub(nouns, lambda found: _ONE[found[0]], reason, count=1)
    return f"left out: {count:,} {reason}"


def section_name(heading: str, number: int, sections: int) -> str:
    """What to call a section: its heading, or a word for one without.

    Args:
        heading: its heading, empty if it has none.
        number: its position in the document, from 0.
        sections: number of sections in the document.
    """
    if heading:
        return heading
    if sections == 1:
        return "Whole text"
    return "Without heading" if number else "Opening"
