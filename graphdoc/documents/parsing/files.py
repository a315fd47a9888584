"""A file that holds one document: from its bytes to sections."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from ...errors import DocumentError
from ..section import Section, clean_text
from . import formats
from .outline import ParsedDocument
from .titles import split_fields, titled

# Module and function by kind: of those that are read from bytes, and from text.
_OFFICE = {kind: (f".office.{kind}", f"parse_{kind}") for kind in ("docx", "odt", "pptx", "epub")}
_BINARY = {**_OFFICE, "pdf": (".pdf.reader", "parse_pdf"), "eml": (".office.mail", "parse_mail")}
_TEXT = {kind: (f".{kind}", f"parse_{kind}") for kind in ("markdown", "rst", "html", "xml")}
_TEXT["ipynb"] = (".markdown", "parse_notebook")
# Megabytes of empty lines pack to a few kilobytes. Possessive: else every line leaves a state to go back to in memory.
_MOST_EMPTY_LINES = 1_000
_RST_TITLE = re.compile(r"(?:(?:\.\. .*|[ \t]*)\n)*(?:([=~*#^-])\1+\n)?[ \t]*\S.{0,200}\n([=~*#^-])\2{2,}\n\s*(?=:)")
_EMPTY_LINES = re.compile(rf"(?<![ \t\n])(?:[ \t]*+\n){{{_MOST_EMPTY_LINES + 1},}}+")


def parse_file(path: Path, encoding: str = "utf-8", *, text_headings: bool = True) -> ParsedDocument:
    """Parse a file that holds one document.

    Args:
        path: the file.
        encoding: how text files are encoded.
        text_headings: whether plain text is searched for headings.

    Raises:
        DocumentError: the file cannot be read; the message does not name it.
        MissingExtraError: the file needs the ``ingest`` extra.
    """
    formats.check_encoding(encoding)
    kind = formats.split_suffix(path)[1]
    if not kind:
        try:
            exists, is_folder = path.exists(), path.is_dir()
        except (OSError, ValueError) as error:
            raise formats.reading_error(error) from error
        if is_folder:
            raise DocumentError("it is a folder; read it with read_documents")
        raise unknown_type(path) if exists else formats.reading_error(FileNotFoundError())
    if formats.is_corpus(kind):
        raise DocumentError("it is a corpus of documents, not one; read it with read_documents")
    content = formats.read_whole(path)
    if kind in _BINARY:
        if not content:
            raise DocumentError("it is empty; leave it out")
        try:
            if kind not in _OFFICE or not content.startswith((b"PK", b"\xd0\xcf")):
                formats.refuse_other_kind(content, kind)
            return titled(_parser(*_BINARY[kind])(content), is_text=False)
        except DocumentError as error:
            raise DocumentError(f"it cannot be read as {kind.upper()}: {error}") from error.__cause__
    warnings: list[str] = []
    text = _EMPTY_LINES.sub("\n" * _MOST_EMPTY_LINES, clean_text(formats.decode(content, encoding, kind, warnings)))
    fields, opening = dict[str, Any](), ""
    if kind in ("text", "rst", "markdown"):
        # Plain text that is reStructuredText has them below its title.
        start = above.end() if kind == "text" and (above := _RST_TITLE.match(text)) else 0
        fields, opening, rest = split_fields(text[start:])
        text = text[:start] + rest
    if kind in formats.PANDOC_KINDS:
        parsed = _parser(".pandoc", "parse_with_pandoc")(text, kind)
    elif kind == "text":
        parsed = _parser(".plain_text", "parse_plain_text")(text, headings=text_headings)
    else:
        parsed = parse_text(text, kind)
    if opening:
        parsed = replace(parsed, sections=(Section(opening), *parsed.sections))
    # A mail that was made a page is called by the heading over all of it.
    title = fields.pop("title", "") or parsed.title or fields.pop("subject", "")
    heading = {"heading": parsed.title} if parsed.title not in ("", title) else {}
    metadata = {**{key: value for key, value in fields.items() if value}, **heading, **parsed.metadata}
    if warnings:
        metadata["warnings"] = [*warnings, *parsed.metadata.get("warnings", ())]
    # A first line that is no heading counts where no line is one.
    is_text = kind == "text" or (kind == "markdown" and not any(section.heading for section in parsed.sections))
    return titled(replace(parsed, title=title, metadata=metadata), is_text=is_text)


def _parser(module: str, function: str) -> Any:
    return getattr(import_module(module, __package__), function)


def unknown_type(path: Path) -> DocumentError:
    """The error for a file whose suffix says nothing."""
    suffix = "".join(path.suffixes[-2:]) if path.name.lower().endswith(".gz") else path.suffix
    return DocumentError(f"its type {suffix or '(no suffix)'} is unknown; known: {formats.KNOWN_SUFFIXES}; convert it")


def parse_text(text: str, kind: str) -> ParsedDocument:
    r"""Parse cleaned text of the kind ``text``, ``markdown``, ``ipynb``, ``rst``, ``html`` or ``xml``.

    Raises:
        DocumentError: the text cannot be read as what it is said to be; the message does not name it.

    >>> parse_text("# Rice\n\nIt is steamed.\n\n## Salt\n\nIt is added.", "markdown").title
    'Rice'
    """
    if kind == "text":
        return ParsedDocument((Section(text),) if text else ())
    parsed: ParsedDocument = _parser(*_TEXT[kind])(text)
    return parsed
