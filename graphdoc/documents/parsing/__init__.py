"""Markup to sections: one parser for each kind of file, each imported when it is first needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import DocumentError

if TYPE_CHECKING:
    from .outline import ParsedDocument

__all__ = ["parse_text"]


def parse_text(text: str, kind: str) -> ParsedDocument:
    r"""Parse cleaned text.

    Args:
        text: the source.
        kind: ``text``, ``markdown``, ``rst``, ``html`` or ``xml``.

    Returns:
        Title, sections and metadata.

    Raises:
        DocumentError: the text cannot be read as what it is said to be; the message does not name it.

    >>> parse_text("# Rice\n\nIt is steamed.\n\n## Salt\n\nIt is added.", "markdown").title
    'Rice'
    """
    match kind:
        case "text":
            from ..section import Section
            from .outline import ParsedDocument

            return ParsedDocument((Section(text),) if text else ())
        case "markdown":
            from .markdown import parse_markdown

            return parse_markdown(text)
        case "rst":
            from .rst import parse_rst

            return parse_rst(text)
        case "html":
            from .html import parse_html

            return parse_html(text)
        case "xml":
            from .xml import parse_xml

            return parse_xml(text)
        case _:
            raise DocumentError(f"{kind!r} is no kind of text; known are text, markdown, rst, html and xml")
