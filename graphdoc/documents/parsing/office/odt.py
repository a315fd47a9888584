"""Files of LibreOffice Writer (ODT) to sections."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypedDict

from ....errors import DocumentError
from ..elements import local_name, names
from ..outline import ParsedDocument, joined_lines, parsed_document
from .archive import Archive, archive_title
from .paragraphs import Collected, Paragraph, parsed_paragraphs

if TYPE_CHECKING:
    from lxml.etree import _Element

_DEEPEST = 500
_MOST_SPACES = 1000
_USUAL_SIZE = 12.0
_INDEXES = names(
    "table-of-content illustration-index table-index object-index user-index alphabetical-index bibliography"
)
_LEFT_OUT = {"annotation": "comment", "hidden-text": "hidden", "ruby-text": "rt"}
_SKIPPED = names("tracked-changes forms sequence-decls variable-decls user-field-decls event-listeners note-citation")
_CODE = names("preformattedtext sourcecode preformatted")


class _Style(TypedDict, total=False):
    """What a style sets; all else is inherited."""

    name: str
    parent: str
    strong: bool
    size: float
    hidden: bool


def parse_odt(content: bytes) -> ParsedDocument:
    """Parse an ODT file.

    Headings are elements of their own there; paragraphs that are bold, underlined or larger throughout count as well.
    Notes and text boxes follow their paragraph. Comments, hidden text and tables of contents are left out and counted.
    """
    archive = Archive(content, "ODT")
    if "META-INF/manifest.xml" in archive and b"encryption-data" in archive.read("META-INF/manifest.xml"):
        raise DocumentError("it is protected by a password; save it as ODT without one")
    tree = archive.tree("content.xml")
    body = tree.find("{*}body/{*}text")
    if body is None:
        raise DocumentError("its content has no text; it is damaged, or no ODT file at all")
    styles = _styles(tree)
    if "styles.xml" in archive:
        styles = _styles(archive.tree("styles.xml")) | styles
    reader = _Reader(styles)
    reader.read(body)
    parsed = parsed_paragraphs(reader.paragraphs)
    return parsed_document(parsed.sections, parsed.title, reader.dropped, file_title=archive_title(archive, "meta.xml"))


class _Reader:
    def __init__(self, styles: dict[str, _Style]) -> None:
        self.paragraphs: list[Paragraph] = []
        self.dropped: Counter[str] = Counter()
        self._styles = styles

    def read(self, parent: _Element, kind: str = "text", depth: int = 0) -> None:
        """Read headings, paragraphs, lists and tables inside an element."""
        if depth > _DEEPEST:
            raise DocumentError(f"its elements are nested deeper than {_DEEPEST} levels; flatten it")
        for child in parent.iterchildren("*"):
            name = local_name(child)
            if name in ("h", "p"):
                self._paragraph(child, name, kind, depth)
            elif name == "list":
                # Numbered headings may be wrapped into lists.
                self.read(child, "item", depth + 1)
            elif name == "table":
                self._table(child, depth)
            elif name in _INDEXES:
                self.dropped["table of contents"] += 1
            elif name not in _SKIPPED:
                self.read(child, kind, depth + 1)

    def _paragraph(self, element: _Element, name: str, kind: str, depth: int) -> None:
        style = self._look(_attribute(element, "style-name"))
        found = Collected()
        self._collect(element, style, found, depth)
        paragraph = found.paragraph(kind, style["size"])
        own = style["name"].casefold().replace("_20_", "").replace(" ", "")
        if name == "h" and paragraph.text.strip():
            level = _attribute(element, "outline-level")
            paragraph.kind, paragraph.level = "heading", int(level) if level.isdigit() and int(level) else 1
        elif own == "title":
            paragraph.kind = "title"
        elif own in _CODE and kind == "text":
            paragraph.kind = "code"
        self.paragraphs.append(paragraph)
        for box in found.boxes:
            self.read(box, "text", depth + 1)

    def _collect(self, element: _Element, style: _Style, found: Collected, depth: int) -> None:
        if depth > _DEEPEST:
            raise DocumentError(f"its elements are nested deeper than {_DEEPEST} levels; flatten it")

        def add(text: str | None, look: _Style) -> None:
            if text:
                # White space counts as in HTML; other spaces are elements.
                inner = " ".join(text.split())
                text = f"{' ' * text[:1].isspace()}{inner}{' ' * text[-1:].isspace()}" if inner else " "
                found.add(text, look["size"], strong=look.get("strong", False))

        add(element.text, style)
        for child in element.iterchildren("*"):
            name = local_name(child)
            if name == "s":
                count = _attribute(child, "c")
                found.parts.append(" " * min(int(count) if count.isdigit() else 1, _MOST_SPACES))
            elif name in ("tab", "line-break"):
                found.parts.append("\t" if name == "tab" else "\n")
            elif name == "note":
                body = next(child.iterchildren("{*}note-body"), None)
                if body is not None:
                    found.notes.append(self._text(body, depth))
            elif name in _LEFT_OUT:
                self.dropped[_LEFT_OUT[name]] += 1
            elif name == "text-box":
                found.boxes.append(child)
            elif name in ("title", "desc"):
                add(child.text, style)
            elif name not in _SKIPPED:
                look = self._look(_attribute(child, "style-name"), style) if name == "span" else style
                if look.get("hidden"):
                    self.dropped["hidden"] += 1
                else:
                    self._collect(child, look, found, depth + 1)
            add(child.tail, style)

    def _table(self, element: _Element, depth: int) -> None:
        rows = [row for row in element.iter("{*}table-row") if next(row.iterancestors("{*}table"), None) is element]
        cells = [list(row.iterchildren("{*}table-cell")) for row in rows]
        if all(len(row) <= 1 for row in cells):
            # A table of one column is a frame around paragraphs.
            for cell in (cell for row in cells for cell in row):
                self.read(cell, "text", depth + 1)
            return
        for row in cells:
            self.paragraphs.append(Paragraph("\t".join(self._text(cell, depth) for cell in row), "row"))

    def _text(self, element: _Element, depth: int) -> str:
        inner = _Reader(self._styles)
        inner.read(element, "text", depth + 1)
        self.dropped += inner.dropped
        return joined_lines(" ".join(" ".join([paragraph.text, *paragraph.notes]) for paragraph in inner.paragraphs))

    def _look(self, name: str, around: _Style | None = None) -> _Style:
        """A style with what it inherits, from its parents and then from the text around it."""
        chain: list[_Style] = []
        while name in self._styles and self._styles[name] not in chain:
            chain.append(self._styles[name])
            name = chain[-1]["parent"]
        look: _Style = {"size": _USUAL_SIZE, **(around or {}), "name": name, "hidden": False}
        for style in reversed(chain):
            look |= style
        # Styles that a program makes for single paragraphs have the name of the real one as parent.
        if any(style.get("name", "").casefold() == "title" for style in chain):
            look["name"] = "title"
        look["hidden"] = any(style.get("hidden", False) for style in chain)
        return look


def _styles(tree: _Element) -> dict[str, _Style]:
    styles = {}
    for element in tree.iter("{*}style"):
        properties = next(element.iterchildren("{*}text-properties"), None)
        style: _Style = {"parent": _attribute(element, "parent-style-name")}
        if properties is not None:
            weight = _attribute(properties, "font-weight")
            line = _attribute(properties, "text-underline-style")
            if weight or line:
                heavy = weight == "bold" or (weight.isdigit() and int(weight) >= 600)
                style["strong"] = heavy or line not in ("", "none")
            points = _attribute(properties, "font-size").removesuffix("pt")
            if points.replace(".", "", 1).isdigit() and float(points):
                style["size"] = float(points)
            style["hidden"] = _attribute(properties, "display") == "none"
        name = _attribute(element, "name")
        around = element.getparent()
        automatic = around is not None and local_name(around) == "automatic-styles"
        shown = "" if automatic else _attribute(element, "display-name") or name
        if shown:
            style["name"] = shown
        styles[name] = style
    return styles


def _attribute(element: _Element, name: str) -> str:
    return next((str(value) for key, value in element.items() if str(key).rpartition("}")[2] == name), "")
