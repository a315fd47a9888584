"""Words that the terminal, the report and figures share."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """A count with its noun, such as ``1 section`` or ``3,000 sections``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


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
