"""reStructuredText to sections, by docutils; nothing is included, fetched or run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from textwrap import dedent
from typing import Any

from docutils import nodes
from docutils.core import publish_doctree
from docutils.parsers.rst import Parser
from docutils.parsers.rst.states import Inliner
from docutils.readers.standalone import Reader
from docutils.transforms.misc import Transitions
from docutils.transforms.references import Substitutions

from ...errors import DocumentError
from .elements import names
from .outline import Break, Outline, ParsedDocument, joined_lines, parsed_document
from .titles import metadata_fields

_SETTINGS = {
    **dict.fromkeys(("file_insertion_enabled", "raw_enabled", "doctitle_xform", "docinfo_xform"), False),
    **dict.fromkeys(("sectsubtitle_xform", "warning_stream"), False),
    **{"_disable_config": True, "report_level": 5, "halt_level": 5, "line_length_limit": 10_000_000},
}
_DROPPED = (nodes.comment, nodes.substitution_definition, nodes.target, nodes.raw, nodes.pending, nodes.meta)
_LINES = (nodes.list_item, nodes.term, nodes.field_name, nodes.option_group, nodes.line, nodes.attribution)
# Roles and directives of Sphinx, which docutils does not know, leave their text.
_ROLE = re.compile(r"(?::[A-Za-z][\w.+-]*)+:`([^`]*)`")
# The target of a link, and what stands before a name that is shown without its modules, or without a link.
_TARGET = re.compile(r"\s*<[^<>]*>$|^~(?:\w+\.)*|^!")
_DIRECTIVE = re.compile(r"(?:\.\. +)?(?:\|[^|\n]+\| +)?([\w:.+-]+)::[ \t]*([^\n]*)\n?")
_SIGN = re.compile(r"[\W_]")
_OPTION = re.compile(r"(?:[ \t]+:[\w-]+:[^\n]*\n?)*")
_WITHOUT_TEXT = names(
    "toctree include literalinclude automodule autoclass autofunction index contents highlight currentmodule module "
    "image raw tabularcolumns sectionauthor codeauthor"
)
# What others are called with is text, but for settings.
_WITHOUT_NAME = names(
    "code code-block code-cell sourcecode program default-domain only ifconfig doctest testcode testoutput testsetup "
    "productionlist grid graphviz plantuml uml mermaid ipython rst-class default-role prompt bibliography minigallery"
)
_VERSIONS = {"versionadded": "Added", "versionchanged": "Changed", "deprecated": "Deprecated"}
_DEEPEST = 20
# docutils looks for the end of an inline mark up to the end of its paragraph, and copies all that is left each time.
_MOST_MARK_STEPS = 20_000_000
_LONGEST_WORD = 500
_MOST_SUBSTITUTED = 1_000_000
# It also goes through the rest of a table for every column, through that of a quotation for every attribution,
# through that of a line for every option, and through all that follows for every class.
_COSTLY_LINE = re.compile(r"[ \t]*(?:[-+/]\S.{2000}|=+(?: +=+){300}|\+(?:[-=]+\+){300})")
_ATTRIBUTION = re.compile(r"[ \t]+(?:---?(?!-)|\u2014)")
_CLASS = re.compile(r"[ \t]*\.\.[ \t]+(?:rst-)?class::")
_MOST_SIBLINGS = 300


def parse_rst(text: str) -> ParsedDocument:
    """Parse reStructuredText into sections of readable plain text.

    Links leave their text, images their alternative text; list items and table rows are lines, cells stand apart by a
    tab. What Sphinx adds leaves its text too. Comments are left out and counted. The only section of level 1 is the
    title if it opens the document. A paragraph with thousands of inline marks is left as it is, with a warning.
    """
    outline = Outline()
    writer = _Writer(outline)
    try:
        writer.write_source("\n".join(_without_costly_markup(text.split("\n"), writer.warnings)))
    except RecursionError:
        raise DocumentError("its reStructuredText is nested too deeply; flatten it") from None
    parsed = outline.finish(pictures_before_title=True)
    warnings = [f"{reason}: {count:,}" for reason, count in writer.warnings.items()]
    field_title = writer.fields.pop("title", "")
    parsed = parsed_document(parsed.sections, parsed.title, writer.dropped, warnings, field_title=field_title)
    return replace(parsed, metadata={**writer.fields, **parsed.metadata})


def _without_costly_markup(lines: list[str], warnings: Counter[str]) -> Iterator[str]:
    """The lines of a source; those that would take docutils long are escaped, so that they are text."""
    attributions = classes = 0
    before = ""
    for line in lines:
        if line[:1].strip():
            attributions = 0
        is_attribution = not before.strip() and _ATTRIBUTION.match(line) is not None
        attributions += is_attribution
        is_class = _CLASS.match(line) is not None
        classes += is_class
        before = line
        is_surplus = (is_attribution and attributions > _MOST_SIBLINGS) or (is_class and classes > _MOST_SIBLINGS)
        if is_surplus or _COSTLY_LINE.match(line):
            warnings["lines with too many parts, or parts of too many siblings, read as they are written"] += 1
            bare = line.lstrip(" \t")
            line = f"{line[: len(line) - len(bare)]}\\{bare}"
        yield line


def _inliner(warnings: Counter[str]) -> Any:
    """A reader of inline markup that leaves a paragraph as it is written where its marks would take long."""
    inliner: Any = Inliner()
    parse = inliner.parse

    def parse_short(text: str, *place: Any) -> tuple[list[Any], list[Any]]:
        steps = sum(map(text.count, "*`|_[")) * len(text)
        # A name or an address is looked for from every sign inside a word to its end.
        steps += sum(len(word) * len(_SIGN.findall(word)) for word in text.split() if len(word) > _LONGEST_WORD)
        if steps > _MOST_MARK_STEPS:
            warnings["paragraphs with too many inline marks, read as they are written"] += 1
            return [nodes.Text(text)], []
        inlines, messages = parse(text, *place)
        return inlines, messages

    # A subclass would lack the patterns, which docutils takes from the class itself.
    inliner.parse = parse_short
    return inliner


class _Reader(Reader):  # type: ignore[type-arg, unused-ignore]
    """Leaves out what changes no text, and substitutions, which may unfold without end."""

    def get_transforms(self) -> list[Any]:
        return [transform for transform in super().get_transforms() if transform not in (Substitutions, Transitions)]


class _Writer:
    def __init__(self, outline: Outline) -> None:
        self.dropped: Counter[str] = Counter()
        self.warnings: Counter[str] = Counter()
        self.fields: dict[str, str] = {}
        self._outline = outline
        self._definitions: dict[str, Any] = {}
        self._substitutes: dict[str, str] = {}
        self._substituted = self._level = self._lists = self._depth = 0

    def write_source(self, text: str) -> None:
        self._depth += 1
        reader = _Reader(Parser(inliner=_inliner(self.warnings)))
        document = publish_doctree(text, reader=reader, settings_overrides=dict(_SETTINGS))
        if self._depth == 1:
            self._take_fields(document)
        self._definitions |= {name.lower(): node for name, node in document.substitution_defs.items()}
        self._definitions |= document.substitution_defs
        self._write(document)
        self._depth -= 1

    def _take_fields(self, document: Any) -> None:
        """Take what is metadata out of a list of fields before which nothing but titles and pictures stand."""
        blocks = (node for node in document.findall(nodes.Body) if not isinstance(node, (*_DROPPED, nodes.image)))
        head: Any = next(blocks, None)
        is_list = getattr(head, "tagname", "") == "field_list"
        if not is_list or head.next_node(descend=False, siblings=True, ascend=True) is None:
            return
        names_of = {field: joined_lines(field[0].astext()).lower() for field in head}
        if len(set(names_of.values())) == len(names_of):
            taken = metadata_fields({name: field[-1].rawsource for field, name in names_of.items()})
            self.fields = {name: value for name, value in taken.items() if value}
            head.children = [field for field, name in names_of.items() if name not in taken]

    def _write(self, node: Any) -> None:
        outline = self._outline
        if isinstance(node, _DROPPED):
            if isinstance(node, nodes.comment):
                self.dropped["comment"] += 1
        elif isinstance(node, nodes.topic) and "contents" in node["classes"]:
            self.dropped["contents"] += 1
        elif isinstance(node, nodes.system_message):
            self._write_unknown(node)
        elif isinstance(node, nodes.section):
            self._level += 1
            self._write_children(node)
            self._level -= 1
        elif isinstance(node, nodes.title) and isinstance(node.parent, nodes.section) and self._depth == 1:
            outline.start_section(joined_lines(self._plain(node)), self._level)
        elif isinstance(node, nodes.literal_block | nodes.doctest_block | nodes.math_block):
            self._block(self._plain(node).strip("\n"))
        elif isinstance(node, nodes.image):
            self._block(node.get("alt", ""), picture=True)
        elif isinstance(node, nodes.row):
            outline.separate(Break.LINE)
            outline.write("\t".join(joined_lines(self._plain(entry)) for entry in node.children))
            outline.separate(Break.LINE)
        elif isinstance(node, nodes.TextElement) and not isinstance(node, nodes.Admonition):
            self._block(self._plain(node).strip())
        else:
            is_line = isinstance(node, _LINES)
            self._lists += is_line
            outline.separate(self._break)
            self._write_children(node)
            outline.separate(self._break)
            self._lists -= is_line

    @property
    def _break(self) -> Break:
        return Break.LINE if self._lists else Break.PARAGRAPH

    def _write_children(self, node: Any) -> None:
        for child in node.children:
            self._write(child)

    def _block(self, text: str, *, picture: bool = False) -> None:
        self._outline.separate(self._break)
        self._outline.write(text, picture=picture)
        self._outline.separate(self._break)

    def _write_unknown(self, message: Any) -> None:
        """A directive that docutils does not know stands in its message as it is written."""
        for block in message.findall(nodes.literal_block):
            source = block.astext()
            found = _DIRECTIVE.match(source)
            if found is None or self._depth > _DEEPEST:
                self._block(source.strip("\n"))
                continue
            name, argument = found[1].lower().rpartition(":")[2], found[2].strip()
            if name in _WITHOUT_TEXT:
                self.dropped[name] += 1
                continue
            if argument and name not in _WITHOUT_NAME:
                self._block(f"{_VERSIONS[name]} in version {argument}" if name in _VERSIONS else argument)
            options = _OPTION.match(source, found.end())
            body = dedent(source[options.end() if options else found.end() :]).strip("\n")
            if body:
                self.write_source(body)

    def _plain(self, node: Any) -> str:
        """The text of an element, with the alternative texts of images and without the marks of unknown roles."""
        parts: list[str] = []
        trim = False
        for child in node.children:
            if isinstance(child, nodes.Text):
                parts.append(child.astext().lstrip() if trim else child.astext())
            elif isinstance(child, nodes.image):
                parts.append(child.get("alt", ""))
            elif isinstance(child, nodes.problematic):
                parts.append(_ROLE.sub(lambda found: _TARGET.sub("", found[1]), child.astext()))
            elif isinstance(child, nodes.substitution_reference):
                name = child["refname"]
                definition = self._definitions.get(name, self._definitions.get(name.lower()))
                if parts and definition is not None and ("trim" in definition or "ltrim" in definition):
                    parts[-1] = parts[-1].rstrip()
                parts.append(child.rawsource if definition is None else self._substitute(child, definition))
                trim = definition is not None and ("trim" in definition or "rtrim" in definition)
                continue
            elif isinstance(child, nodes.system_message):
                # What docutils does not know stands in its message as it is written; the rest is the message's own.
                parts += [block.astext() for block in child.findall(nodes.literal_block)]
            elif not isinstance(child, _DROPPED):
                parts.append(self._plain(child))
                if isinstance(child, nodes.paragraph | nodes.list_item):
                    parts.append(" ")
            trim = False
        return "".join(parts)

    def _substitute(self, reference: Any, definition: Any) -> str:
        """The text of a substitution, which is as written where it holds itself, or where there is too much of it."""
        name = definition["names"][0]
        if name not in self._substitutes:
            self._substitutes[name] = reference.rawsource
            self._substitutes[name] = self._plain(definition)
        self._substituted += len(self._substitutes[name])
        if self._substituted > _MOST_SUBSTITUTED:
            self.warnings["substitutions beyond a million characters, left as they are written"] += 1
            return str(reference.rawsource)
        return self._substitutes[name]
