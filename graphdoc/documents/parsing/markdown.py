"""Markdown to sections, by the token tree of markdown-it-py."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from ...errors import DocumentError
from .html import dropped_metadata, write_html_fragment
from .outline import Break, Outline, ParsedDocument

# markdown-it drops what is nested deeper than its limit, so reaching the limit has to be an error here.
_DEEPEST = 100
_FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_LONGEST_FRONT_MATTER = 65_536


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"maxNesting": _DEEPEST}).enable(["table", "strikethrough"])


def parse_markdown(text: str) -> ParsedDocument:
    """Parse CommonMark with tables into sections of readable plain text.

    Links leave their text, images their alternative text; list items and table rows are lines, cells stand apart by a
    tab. Headings inside quotations and lists, and ``#`` lines inside code, start no section. The only heading of level
    1 is the title if it opens the document; otherwise front matter may give one.

    Args:
        text: the Markdown source.

    Returns:
        Title, sections, and as metadata the other entries of the front matter and the counts of dropped HTML elements.

    Raises:
        DocumentError: the markup is nested too deeply to be read whole.
    """
    front_matter, body = _split_front_matter(text)
    outline = Outline()
    try:
        dropped = _write_blocks(outline, _parser().parse(body))
    except RecursionError:
        raise DocumentError(f"its Markdown is nested deeper than {_DEEPEST} levels; flatten it") from None
    parsed = outline.finish()
    title = front_matter.pop("title", "")
    if not isinstance(title, str):
        front_matter["title"], title = title, ""
    if title and parsed.title and title != parsed.title:
        front_matter["heading"] = parsed.title
    return ParsedDocument(parsed.sections, title or parsed.title, front_matter | dropped_metadata(dropped))


def _split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    match = _FRONT_MATTER.match(text[:_LONGEST_FRONT_MATTER])
    if match is None:
        return {}, text
    import yaml  # type: ignore[import-untyped, unused-ignore]

    try:
        # The base loader keeps every value as it is written: no dates, no "no" that turns into False.
        entries = yaml.load(match[1], Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError):
        return {}, text
    if not isinstance(entries, dict) or not all(isinstance(key, str) for key in entries):
        return {}, text
    return entries, text[match.end() :]


def _write_blocks(outline: Outline, tokens: Sequence[Token]) -> Counter[str]:
    dropped: Counter[str] = Counter()
    lists = 0
    heading_level = 0
    first_cell = True
    for token in tokens:
        if token.nesting == 1 and token.level >= _DEEPEST - 1:
            raise DocumentError(f"its Markdown is nested deeper than {_DEEPEST} levels; flatten it")
        block = Break.LINE if lists else Break.PARAGRAPH
        match token.type:
            case "heading_open" if token.level == 0:
                heading_level = int(token.tag[1:])
            case "heading_close" if token.level == 0:
                heading_level = 0
            case "inline" if heading_level:
                heading = _inline_text(token.children or ()).strip()
                if heading:
                    outline.start_section(heading, heading_level)
                else:
                    outline.separate(Break.PARAGRAPH)
            case "inline":
                outline.write(_inline_text(token.children or ()).strip(" \n"))
            case "fence" | "code_block":
                outline.separate(block)
                outline.write(token.content.strip("\n"))
                outline.separate(block)
            case "html_block":
                outline.separate(block)
                dropped += write_html_fragment(outline, token.content, headings=token.level == 0)
                outline.separate(block)
            case "bullet_list_open" | "ordered_list_open":
                outline.separate(block)
                lists += 1
            case "bullet_list_close" | "ordered_list_close":
                lists -= 1
                outline.separate(Break.LINE if lists else Break.PARAGRAPH)
            case "tr_open":
                outline.separate(Break.LINE)
                first_cell = True
            case "th_open" | "td_open":
                if not first_cell:
                    outline.new_cell()
                first_cell = False
            case "th_close" | "td_close" | "tr_close" | "tbody_open" | "thead_close":
                pass
            case _:
                outline.separate(block)
    return dropped


def _inline_text(tokens: Sequence[Token]) -> str:
    parts: list[str] = []
    for token in tokens:
        match token.type:
            case "softbreak" | "hardbreak":
                parts.append("\n")
            case "image":
                parts.append(_inline_text(token.children or ()))
            case "html_inline":
                if re.match(r"<br\b", token.content, re.IGNORECASE):
                    parts.append("\n")
            case _:
                parts.append(token.content)
    return "".join(parts)
