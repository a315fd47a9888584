"""Markdown, and the notebooks of Jupyter made of it, to sections, by the token tree of markdown-it-py."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, time
from functools import cache
from html import escape, unescape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_block.table import escapedSplit
from markdown_it.token import Token

from ...errors import DocumentError
from .elements import names
from .html import write_html_fragment
from .outline import Break, Outline, ParsedDocument, dropped_metadata, parsed_document
from .plain_text import without_contents

# markdown-it drops what is nested deeper than its limit, so reaching the limit has to be an error here.
_DEEPEST = 100
# The time that brackets without an end take grows with the depth in which they are looked for.
_DEEPEST_BRACKETS = 20
_FRONT_MATTER = re.compile(r"\n*+---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_TOML_FRONT_MATTER = re.compile(r"\n*+\+\+\+[ \t]*(\n(?:.*?\n)??)\+\+\+[ \t]*(?:\n|\Z)", re.DOTALL)
_PANDOC_TITLE = re.compile(r"% (?P<title>.+)\n(?:% (?P<author>.*)\n)?(?:% (?P<date>.*)\n)?[ \t]*\n")
_ENTRY = re.compile(r"(?P<name>[A-Za-z_][\w.-]*(?: [\w.-]+)*)[ \t]*:(?:[ \t]+(?P<value>.*))?")
# What MyST puts before a heading to refer to it.
_TARGET = re.compile(r"\([\w :.-]+\)=")
# Names and classes of a heading, such as {#tides .wide}.
_ATTRIBUTES = re.compile(r"(?<=\S)[ \t]*\{(?:(?:[#.]\w|:)[^{}\n]{0,200}|-)\}$")
# Footnotes, and their marks.
_NOTE, _NOTE_MARK = re.compile(r"(?m)^ {0,3}\[\^([^\]\s]{1,50})\]:[ \t]*"), re.compile(r"\[\^([^\]\s]{1,50})\]")
_LONGEST_FRONT_MATTER = 65_536
_NAME = re.compile(r"</?([A-Za-z][\w-]*)")
_OPENING = re.compile(r"<([A-Za-z][\w-]*)(?![\w-])[^<>]*>")
_CLOSING = re.compile(r"</([A-Za-z][\w-]*)")
_CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)
_RAW_HTML = re.compile(r"\s*<(?:!--|\?|script|style|pre|textarea)", re.IGNORECASE)
_ALTERNATIVE = re.compile(r"""\balt\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE)
_VOID_ELEMENTS = frozenset({"br", "hr", "img", "wbr", "input", "col", "area", "embed", "source", "track"})
# What browsers know, old elements included; a name that is none of them is no markup unless it is closed.
_ELEMENTS = _VOID_ELEMENTS | names(
    "a abbr acronym address article aside audio b base basefont bdi bdo big blink blockquote body button "
    "canvas caption center cite code colgroup data datalist dd del details dfn dialog dir div dl dt em "
    "fieldset figcaption figure font footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup html i "
    "iframe ins kbd label legend li link main map mark marquee math menu meta meter nav nobr noframes noscript "
    "object ol optgroup option output p param picture pre progress q rp rt ruby s samp script search section "
    "select slot small span strike strong style sub summary sup svg table tbody td template textarea tfoot th "
    "thead time title tr tt u ul var video"
)


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"maxNesting": _DEEPEST}).enable(["table", "strikethrough"])
    inline = MarkdownIt("commonmark", {"maxNesting": _DEEPEST_BRACKETS}).enable("strikethrough")
    parser.core.ruler.before("inline", "shallow", lambda state: setattr(state, "md", inline))
    return parser


def parse_markdown(text: str) -> ParsedDocument:
    """Parse CommonMark with tables into sections of readable plain text.

    Links leave their text, images their alternative text; list items and table rows are lines, cells stand apart by a
    tab. Headings inside quotations and lists, and ``#`` lines inside code, start no section. Lists of all headings are
    left out and counted. The only heading of level 1 that opens the document is the title, or front matter gives one.
    """
    warnings: list[str] = []
    front_matter, body = _split_front_matter(text, warnings)
    notes = set(_NOTE.findall(body))
    body = _NOTE_MARK.sub(lambda found: "" if found[1] in notes else found[0], _NOTE.sub("", body))
    lines, entries = without_contents(body.split("\n"), in_lists=True)
    body = "\n".join(lines)
    outline = Outline()
    writer = _Writer(outline, body)
    try:
        writer.write(_parser().parse(body))
    except RecursionError:
        raise DocumentError(f"its Markdown is nested deeper than {_DEEPEST} levels; flatten it") from None
    parsed = outline.finish(pictures_before_title=True)
    title = front_matter.pop("title", "")
    if not isinstance(title, str):
        front_matter["title"], title = title, ""
    dropped = writer.dropped + Counter({"table of contents": entries})
    parsed = parsed_document(parsed.sections, title, dropped, warnings + writer.warnings, heading=parsed.title)
    return replace(parsed, metadata={**front_matter, **parsed.metadata})


def _split_front_matter(text: str, warnings: list[str]) -> tuple[dict[str, Any], str]:
    match = _FRONT_MATTER.match(text[:_LONGEST_FRONT_MATTER])
    if found := _PANDOC_TITLE.match(text):
        return {name: value for name, value in found.groupdict().items() if value}, text[found.end() :]
    if match is None:
        return _split_toml(text)
    import yaml

    from ...runtime.yaml_files import parse_yaml

    try:
        entries = parse_yaml(match[1], as_written=True)
    except yaml.YAMLError:
        entries = _lines_as_entries(match[1])
        if entries:
            warnings.append("its front matter cannot be read as YAML; its lines are kept as they are written")
    if not isinstance(entries, dict) or not all(isinstance(key, str) for key in entries):
        return {}, text
    return entries, text[match.end() :]


def _lines_as_entries(source: str) -> dict[str, str] | None:
    """The entries of front matter with their lines as they are written, None where a line belongs to none."""
    entries: dict[str, str] = {}
    name = ""
    for line in source.split("\n"):
        if found := _ENTRY.fullmatch(line):
            name, value = found["name"], found["value"] or ""
            entries[name] = f"{entries[name]}\n{value}" if name in entries else value
        elif name and (line[:1] in " \t-#" or not line):
            entries[name] += f"\n{line}"
        elif not line.startswith("#"):
            return None
    return {name: value.strip().strip("\"'") for name, value in entries.items()}


def _split_toml(text: str) -> tuple[dict[str, Any], str]:
    match = _TOML_FRONT_MATTER.match(text[:_LONGEST_FRONT_MATTER])
    if match is None:
        return {}, text
    try:
        entries = {key: _plain(value) for key, value in tomllib.loads(match[1]).items()}
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}, text
    return entries, text[match.end() :]


def _plain(value: Any) -> Any:
    """A value of TOML as JSON could hold it: dates as ISO writes them."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value.isoformat() if isinstance(value, date | time) else value


class _Writer:
    """Writes tokens to an outline, and counts the HTML elements that it leaves out by name."""

    def __init__(self, outline: Outline, source: str) -> None:
        self.dropped: Counter[str] = Counter()
        self.warnings: list[str] = []
        self._outline = outline
        self._lines = source.split("\n")
        self._lists = 0

    def write(self, tokens: Sequence[Token]) -> None:
        """Write all tokens."""
        outline = self._outline
        heading_level = columns = row_line = 0
        cells = 0
        for token in tokens:
            if token.nesting == 1 and token.level >= _DEEPEST - 1:
                raise DocumentError(f"its Markdown is nested deeper than {_DEEPEST} levels; flatten it")
            block = Break.LINE if self._lists else Break.PARAGRAPH
            match token.type:
                case "heading_open" if token.level == 0:
                    heading_level = int(token.tag[1:])
                case "heading_close" if token.level == 0:
                    heading_level = 0
                case "inline" if heading_level:
                    children = token.children or []
                    told = [one for one in children if one.type != "image" and _tag_name(one.content) != "img"]
                    heading = (_inline_text(told).strip() or _inline_text(children)).strip()
                    # Code that looks like attributes is text.
                    heading = _ATTRIBUTES.sub("", heading) if token.content.endswith("}") else heading
                    if heading:
                        outline.start_section(heading, heading_level)
                    else:
                        outline.separate(Break.PARAGRAPH)
                case "inline" if not (token.level == 1 and _TARGET.fullmatch(token.content)):
                    written = _inline_text(token.children or ()).strip(" \n")
                    outline.write(written, picture=_is_picture(token.children or ()))
                case "fence" | "code_block":
                    outline.separate(block)
                    outline.write(token.content.strip("\n"))
                    outline.separate(block)
                case "html_block":
                    outline.separate(block)
                    self._write_html(token)
                    outline.separate(block)
                case "bullet_list_open" | "ordered_list_open":
                    outline.separate(block)
                    self._lists += 1
                case "bullet_list_close" | "ordered_list_close":
                    self._lists -= 1
                    outline.separate(Break.LINE if self._lists else Break.PARAGRAPH)
                case "table_open":
                    columns = 0
                    outline.separate(block)
                case "tr_open":
                    outline.separate(Break.LINE)
                    cells = 0
                    row_line = token.map[0] if token.map else -1
                case "th_open" | "td_open":
                    if cells:
                        outline.new_cell()
                    cells += 1
                    columns += token.type == "th_open"
                case "tr_close" if row_line >= 0 and cells == columns:
                    self._write_surplus_cells(row_line, columns)
                case "tr_close" | "th_close" | "td_close" | "tbody_open" | "thead_close":
                    pass
                case _:
                    outline.separate(block)

    def _write_surplus_cells(self, line: int, columns: int) -> None:
        """Cells beyond those of the table's head, which markdown-it leaves out."""
        row = self._lines[line].strip(" \t>") if line < len(self._lines) else ""
        if row.count("|") < columns:
            return
        cells = escapedSplit(row)
        cells = cells[1 if cells and not cells[0].strip() else 0 :]
        cells = cells[: -1 if cells and not cells[-1].strip() else None]
        for cell in cells[columns:]:
            parsed = _parser().parseInline(cell.strip())
            self._outline.new_cell()
            self._outline.write(_inline_text(parsed[0].children or ()).strip() if parsed else "")

    def _write_html(self, token: Token) -> None:
        content = token.content
        if content.lstrip().startswith("<!--") and "-->" not in content:
            # By CommonMark the comment goes on to the end of the document, and everything would be lost.
            self.warnings.append("a comment <!-- has no end; what follows it is read as text")
            rest = content.replace("<!--", "")
            inner = _Writer(self._outline, rest)
            inner.write(_parser().parse(rest))
            self.dropped += inner.dropped
            self.warnings += inner.warnings
            return
        # Every opening before the last end has an end: none is looked for in vain.
        end = content.rfind("]]>") + 3
        content = _CDATA.sub(lambda found: escape(found[1]), content[:end]) + content[end:]
        if _RAW_HTML.match(content) is None:
            content = _text_for_unknown_tags(content)
        self.dropped += write_html_fragment(self._outline, content, headings=token.level == 0)


def _is_picture(tokens: Sequence[Token]) -> bool:
    shown = [token for token in tokens if token.type in ("image", "html_inline") or token.content.strip()]
    return bool(shown) and all(
        token.type == "image" or (token.type == "html_inline" and _tag_name(token.content) in ("img", "a", "br"))
        for token in shown
    )


def _inline_text(tokens: Sequence[Token]) -> str:
    closed = Counter(_tag_name(token.content) for token in tokens if token.content.startswith("</"))
    parts: list[str] = []
    for token in tokens:
        match token.type:
            case "softbreak" | "hardbreak":
                parts.append("\n")
            case "image":
                parts.append(_inline_text(token.children or ()))
            case "html_inline":
                parts.append(_inline_html(token.content, closed))
            case _:
                parts.append(token.content)
    return "".join(parts)


def _inline_html(tag: str, closed: Counter[str]) -> str:
    name = _tag_name(tag)
    if name == "br":
        return "\n"
    if name == "img":
        found = _ALTERNATIVE.search(tag)
        return unescape(found[1] or found[2] or found[3] or "") if found else ""
    if tag.startswith("<![CDATA["):
        return tag[9:-3]
    if tag.startswith(("<!", "<?", "</")):
        return ""
    return "" if _is_markup(tag, name, closed) else tag


def _is_markup(tag: str, name: str, closed: Counter[str]) -> bool:
    """Whether what looks like a tag is one, and not a comparison or a type: ``a <b and c> d``, ``List<String>``."""
    if name in _VOID_ELEMENTS or tag.endswith("/>"):
        return name in _ELEMENTS or "-" in name or closed[name] > 0
    return closed[name] > 0 or (name in _ELEMENTS and ("=" in tag or tag[1:-1].strip().lower() == name))


def _text_for_unknown_tags(content: str) -> str:
    closed = Counter(name.lower() for name in _CLOSING.findall(content))

    def kept(found: re.Match[str]) -> str:
        name = found[1].lower()
        return found[0] if name in _ELEMENTS or "-" in name or closed[name] else escape(found[0])

    return _OPENING.sub(kept, content)


def _tag_name(tag: str) -> str:
    found = _NAME.match(tag)
    return found[1].lower() if found else ""


_FENCES = re.compile(r"^ {0,3}(`{3,})", re.MULTILINE)


def parse_notebook(text: str) -> ParsedDocument:
    """Parse the JSON of a notebook, of format 3 or 4; outputs of cells are left out and counted."""
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"it is no notebook: invalid JSON ({error}); save it again") from None
    dropped: Counter[str] = Counter()
    parsed = parse_markdown("\n\n".join(_pieces(_cells(notebook), dropped)))
    found = dict(parsed.metadata)
    counts = Counter(found.pop("dropped_elements", {})) + dropped
    title = notebook.get("metadata", {}).get("title") if isinstance(notebook.get("metadata"), dict) else None
    return ParsedDocument(
        parsed.sections, parsed.title or (title if isinstance(title, str) else ""), found | dropped_metadata(counts)
    )


def _cells(notebook: Any) -> list[Any]:
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if cells is None and isinstance(notebook, dict) and isinstance(notebook.get("worksheets"), list):
        cells = [cell for sheet in notebook["worksheets"] if isinstance(sheet, dict) for cell in sheet.get("cells", [])]
    if not isinstance(cells, list):
        raise DocumentError("it is no notebook: it has no cells; save it again")
    return cells


def _pieces(cells: list[Any], dropped: Counter[str]) -> Iterator[str]:
    for cell in cells:
        if not isinstance(cell, Mapping):
            continue
        source = cell.get("source") or cell.get("input") or ""
        # Of format 2, lines have no ends.
        lines = source if isinstance(source, list) else [source]
        source = "\n".join(str(line).removesuffix("\n") for line in lines)
        match cell.get("cell_type"):
            case "markdown":
                yield source
            case "heading":
                level = cell.get("level", 1)
                yield f"{'#' * (level if isinstance(level, int) and 1 <= level <= 6 else 1)} {source}"
            case "raw" if cell is cells[0] and _FRONT_MATTER.match(f"{source}\n"):
                yield source
            case _ if source.strip():
                # A fence longer than any inside keeps the code together.
                longest = max((len(fence) for fence in _FENCES.findall(source)), default=2)
                fence = "`" * max(longest + 1, 3)
                yield f"{fence}\n{source}\n{fence}"
        dropped["output"] += len(cell.get("outputs") or ()) if isinstance(cell.get("outputs"), list) else 0
