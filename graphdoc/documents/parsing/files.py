"""A file that holds one document: from its bytes to sections."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from ...errors import DocumentError
from ..section import Section, clean_text
from .formats import (
    KNOWN_SUFFIXES,
    PANDOC_KINDS,
    check_encoding,
    decode,
    is_corpus,
    read_whole,
    reading_error,
    split_suffix,
)
from .outline import ParsedDocument
from .titles import split_fields, titled

# Kinds that are read from bytes: module and function.
_BINARY = {
    "pdf": (".pdf.reader", "parse_pdf"),
    "docx": (".office.docx", "parse_docx"),
    "odt": (".office.odt", "parse_odt"),
    "pptx": (".office.pptx", "parse_pptx"),
    "epub": (".office.epub", "parse_epub"),
    "eml": (".office.mail", "parse_mail"),
}
# Megabytes of empty lines pack to a few kilobytes. Possessive: else every line leaves a state to go back to in memory.
_MOST_EMPTY_LINES = 1_000
_EMPTY_LINES = re.compile(rf"(?<![ \t\n])(?:[ \t]*+\n){{{_MOST_EMPTY_LINES + 1},}}+")


def parse_file(path: Path, encoding: str = "utf-8", *, text_headings: bool = True) -> ParsedDocument:
    """Parse a file that holds one document.

    Args:
        path: the file.
        encoding: how text files are encoded.
        text_headings: whether plain text is searched for headings.

    Returns:
        Title, sections and metadata.

    Raises:
        DocumentError: the file cannot be read; the message does not name it.
        MissingExtraError: the file needs the ``ingest`` extra.
    """
    check_encoding(encoding)
    kind = split_suffix(path)[1]
    if not kind:
        try:
            exists, is_folder = path.exists(), path.is_dir()
        except (OSError, ValueError) as error:
            raise reading_error(error) from error
        if is_folder:
            raise DocumentError("it is a folder; read it with read_documents")
        raise unknown_type(path) if exists else reading_error(FileNotFoundError())
    if is_corpus(kind):
        raise DocumentError("it is a corpus of documents, not one; read it with read_documents")
    content = read_whole(path)
    if kind in _BINARY:
        if not content:
            raise DocumentError("it is empty; leave it out")
        module, function = _BINARY[kind]
        try:
            return titled(getattr(import_module(module, __package__), function)(content), is_text=False)
        except DocumentError as error:
            raise DocumentError(f"it cannot be read as {kind.upper()}: {error}") from error.__cause__
    warnings: list[str] = []
    text = _EMPTY_LINES.sub("\n" * _MOST_EMPTY_LINES, clean_text(decode(content, encoding, kind, warnings)))
    fields: dict[str, Any] = {}
    if kind in ("text", "rst"):
        fields, text = split_fields(text)
    parsed = _parse(text, kind, text_headings=text_headings)
    title = str(fields.pop("title", "") or fields.pop("subject", ""))
    metadata = {**fields, **parsed.metadata}
    if warnings:
        metadata["warnings"] = [*warnings, *parsed.metadata.get("warnings", ())]
    return titled(replace(parsed, title=title or parsed.title, metadata=metadata), is_text=kind == "text")


def _parse(text: str, kind: str, *, text_headings: bool) -> ParsedDocument:
    if kind in PANDOC_KINDS:
        from .pandoc import parse_with_pandoc

        return parse_with_pandoc(text, kind)
    if kind == "ipynb":
        from .markdown import parse_notebook

        return parse_notebook(text)
    if kind == "text":
        from .plain_text import parse_plain_text

        return parse_plain_text(text, headings=text_headings)
    return parse_text(text, kind)


def unknown_type(path: Path) -> DocumentError:
    """The error for a file whose suffix says nothing."""
    suffix = "".join(path.suffixes[-2:]) if path.name.lower().endswith(".gz") else path.suffix
    return DocumentError(
        f"its type {suffix or '(no suffix)'} is unknown; known are {KNOWN_SUFFIXES}: rename or convert it"
    )


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
