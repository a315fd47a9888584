"""reStructuredText to sections, by docutils; nothing is included, fetched or run."""

from __future__ import annotations

import re
from collections import Counter
from textwrap import dedent
from typing import Any

from docutils import nodes
from docutils.core import publish_doctree

from ...errors import DocumentError
from .elements import names
from .html import dropped_metadata
from .outline import Break, Outline, ParsedDocument, one_line

_SETTINGS = {
    "_disable_config": True,
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "report_level": 5,
    "halt_level": 5,
    "doctitle_xform": False,
    "docinfo_xform": False,
    "sectsubtitle_xform": False,
    "line_length_limit": 10_000_000,
    "warning_stream": False,
}
_DROPPED = (nodes.comment, nodes.substitution_definition, nodes.target, nodes.raw, nodes.pending, nodes.meta)
_LINES = (nodes.list_item, nodes.term, nodes.field_name, nodes.option_group, nodes.line, nodes.attribution)
# Roles and directives of Sphinx, which docutils does not know, leave their text.
_ROLE = re.compile(r"(?::[A-Za-z][\w.+-]*)+:`([^`]*)`")
_TARGET = re.compile(r"\s*<[^<>]*>$")
_DIRECTIVE = re.compile(r"\.\. +([\w:.+-]+)::[ \t]*([^\n]*)\n?")
_OPTION = re.compile(r"(?:[ \t]+:[\w-]+:[^\n]*\n?)*")
_WITHOUT_TEXT = names(
    "toctree include literalinclude automodule autoclass autofunction index contents highlight currentmodule module "
    "py:module image raw tabularcolumns sectionauthor codeauthor"
)
_ARGUMENT_IS_TEXT = re.compile(
    r"(?:[a-z]+:)?(?:function|method|class|data|attribute|exception|option|describe|versionadded|versionchanged"
    r"|deprecated|seealso|note|warning|rubric|envvar|macro|type|member)"
)
_DEEPEST = 20


def parse_rst(text: str) -> ParsedDocument:
    """Parse reStructuredText into sections of readable plain text.

    Links leave their text, images their alternative text; list items and table rows are lines, cells stand apart by a
    tab. What Sphinx adds leaves its text too. Comments are left out and counted. The only section of level 1 is the
    title if it opens the document.

    Args:
        text: the source.

    Returns:
        Title, sections and metadata.

    Raises:
        DocumentError: the markup is nested too deeply to be read whole.
    """
    outline = Outline()
    writer = _Writer(outline)
    try:
        writer.write_source(text)
    except RecursionError:
        raise DocumentError("its reStructuredText is nested too deeply; flatten it") from None
    parsed = outline.finish(pictures_before_title=True)
    return ParsedDocument(parsed.sections, parsed.title, dropped_metadata(writer.dropped))


class _Writer:
    def __init__(self, outline: Outline) -> None:
        self.dropped: Counter[str] = Counter()
        self._outline = outline
        self._level = 0
        self._lists = 0
        self._depth = 0

    def write_source(self, text: str) -> None:
        self._depth += 1
        self._write(publish_doctree(text, settings_overrides=dict(_SETTINGS)))
        self._depth -= 1

    def _write(self, node: Any) -> None:
        outline = self._outline
        if isinstance(node, _DROPPED):
            self.dropped["comment"] += isinstance(node, nodes.comment)
        elif isinstance(node, nodes.system_message):
            self._write_unknown(node)
        elif isinstance(node, nodes.section):
            self._level += 1
            self._write_children(node)
            self._level -= 1
        elif isinstance(node, nodes.title) and isinstance(node.parent, nodes.section) and self._depth == 1:
            outline.start_section(one_line(_plain(node)), self._level)
        elif isinstance(node, nodes.literal_block | nodes.doctest_block | nodes.math_block):
            self._block(node.astext().strip("\n"))
        elif isinstance(node, nodes.image):
            outline.separate(self._break)
            outline.write(node.get("alt", ""), picture=True)
            outline.separate(self._break)
        elif isinstance(node, nodes.row):
            outline.separate(Break.LINE)
            outline.write("\t".join(one_line(_plain(entry)) for entry in node.children))
            outline.separate(Break.LINE)
        elif isinstance(node, nodes.TextElement) and not isinstance(node, nodes.Admonition):
            self._block(_plain(node).strip())
        else:
            is_line = isinstance(node, _LINES)
            outline.separate(Break.LINE if is_line or self._lists else Break.PARAGRAPH)
            self._lists += is_line
            self._write_children(node)
            self._lists -= is_line
            outline.separate(Break.LINE if is_line or self._lists else Break.PARAGRAPH)

    @property
    def _break(self) -> Break:
        return Break.LINE if self._lists else Break.PARAGRAPH

    def _write_children(self, node: Any) -> None:
        for child in node.children:
            self._write(child)

    def _block(self, text: str) -> None:
        self._outline.separate(self._break)
        self._outline.write(text)
        self._outline.separate(self._break)

    def _write_unknown(self, message: Any) -> None:
        """A directive that docutils does not know stands in its message as it is written."""
        for block in message.findall(nodes.literal_block):
            source = block.astext()
            found = _DIRECTIVE.match(source)
            if found is None or self._depth > _DEEPEST:
                self._block(source.strip("\n"))
                continue
            name, argument = found[1].lower(), found[2].strip()
            if name in _WITHOUT_TEXT:
                self.dropped[name] += 1
                continue
            if argument and _ARGUMENT_IS_TEXT.fullmatch(name):
                self._block(argument)
            options = _OPTION.match(source, found.end())
            body = dedent(source[options.end() if options else found.end() :]).strip("\n")
            if body:
                self.write_source(body)


def _plain(node: Any) -> str:
    """The text of an element, with the alternative texts of images and without the marks of unknown roles."""
    parts: list[str] = []
    for child in node.children:
        if isinstance(child, nodes.Text):
            parts.append(child.astext())
        elif isinstance(child, nodes.image):
            parts.append(child.get("alt", ""))
        elif isinstance(child, nodes.problematic):
            parts.append(_ROLE.sub(lambda found: _TARGET.sub("", found[1]), child.astext()))
        elif not isinstance(child, _DROPPED):
            parts.append(_plain(child))
            if isinstance(child, nodes.paragraph | nodes.list_item):
                parts.append(" ")
    return "".join(parts)
