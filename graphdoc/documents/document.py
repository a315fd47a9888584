"""A document: an id, titled sections with text, and how it is made from text, markup or a row."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, TypedDict, Unpack

from ..errors import DocumentError
from ..runtime.text import described, section_name
from .parsing.files import parse_file, parse_text
from .parsing.formats import split_suffix, too_large
from .parsing.outline import ParsedDocument
from .parsing.rows import Columns, document_parts, row_id
from .section import Metadata, Section, clean_line, clean_text, is_missing

Label = str | int | tuple[str, ...] | None


class DocumentOptions(TypedDict, total=False):
    """The fields of a document beside its text."""

    id: str | None
    title: str
    label: Label
    metadata: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Document:
    r"""A document: the unit that is encoded, compared and searched.

    It is a value: it cannot be changed, and equal documents have equal hashes. However it is made, its texts are
    cleaned (:func:`~graphdoc.documents.section.clean_text`).

    Args:
        id: name of the document, unique in a corpus; where it is empty, a hash of title and sections.
        sections: its parts in reading order; a section without text of its own keeps its place.
        title: title, empty when there is none.
        label: class or group, if known; several as a tuple.
        metadata: anything else that came with it; lists in it become tuples.

    Raises:
        DocumentError: a value is of the wrong type.

    >>> document = Document("letter", [Section("Dear reader,\r\nall is well.", heading="Opening")])
    >>> document.text
    'Dear reader,\nall is well.'
    """

    id: str
    sections: tuple[Section, ...] = field(repr=False)
    title: str = ""
    label: Label = None
    metadata: Mapping[str, Any] = field(default_factory=Metadata, hash=False)

    def __post_init__(self) -> None:
        sections = self.sections
        if isinstance(sections, str | Section | Mapping) or not isinstance(sections, Iterable):
            raise DocumentError(f"its sections are {described(sections)}; give a list of Section, or use from_text")
        sections = tuple(sections)
        for number, section in enumerate(sections, start=1):
            if not isinstance(section, Section):
                raise DocumentError(f"its section {number} is {described(section)}; give a Section")
        title = clean_line(self.title, "title")
        if not isinstance(self.id, str | None):
            raise DocumentError(f"its id is {described(self.id)}; give a string")
        id = clean_text(self.id or "").strip() or _content_hash(title, sections)
        if not isinstance(self.metadata, Mapping | None):
            raise DocumentError(f"its metadata are {described(self.metadata)}; give a dictionary")
        try:
            metadata = self.metadata if isinstance(self.metadata, Metadata) else Metadata(self.metadata or {})
        except RecursionError:
            raise DocumentError("its metadata are nested too deeply, or contain themselves; flatten them") from None
        cleaned = {"id": id, "sections": sections, "title": title, "label": _label(self.label), "metadata": metadata}
        for name, value in cleaned.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_text(cls, text: str, **fields: Unpack[DocumentOptions]) -> Document:
        r"""Make a document of one section from plain text.

        Args:
            text: the text; its paragraphs are kept.
            **fields: ``id`` (without one a hash of the content), ``title``, ``label`` and ``metadata``.

        >>> Document.from_text("Tides rise.\n\nTides fall.", title="Tides", label="sea").sections[0].text
        'Tides rise.\n\nTides fall.'
        """
        return cls._from_markup(text, "text", fields)

    @classmethod
    def from_markdown(cls, text: str, **fields: Unpack[DocumentOptions]) -> Document:
        r"""Make a document from Markdown; arguments as for :meth:`from_text`.

        >>> document = Document.from_markdown("# Tides\n\nThey rise.\n\n## Spring tides\n\nThey rise more.")
        >>> [(section.heading, section.level) for section in document.sections]
        [('', 1), ('Spring tides', 2)]
        """
        return cls._from_markup(text, "markdown", fields)

    @classmethod
    def from_html(cls, text: str, **fields: Unpack[DocumentOptions]) -> Document:
        """Make a document from HTML or XHTML; arguments as for :meth:`from_text`.

        >>> document = Document.from_html("<main><h1>Tides</h1><p>They rise.</p></main><footer>Imprint</footer>")
        >>> document.title, document.text
        ('Tides', 'They rise.')
        """
        return cls._from_markup(text, "html", fields)

    @classmethod
    def from_xml(cls, text: str, **fields: Unpack[DocumentOptions]) -> Document:
        """Make a document from JATS, TEI, DocBook or XHTML; arguments as for :meth:`from_text`."""
        return cls._from_markup(text, "xml", fields)

    @classmethod
    def from_mapping(
        cls, mapping: Mapping[str, Any], *, id: str | None = None, columns: Columns | None = None
    ) -> Document:
        """Make a document from a row: a mapping with a text or a list of sections.

        Where both are given the sections count and the text is kept as metadata. A mapping under ``metadata`` is taken
        as metadata itself, so :meth:`to_dict` can be read back.

        Args:
            mapping: the row.
            id: the id, instead of the one in the row; without either a hash of the content.
            columns: what the columns are called.

        Raises:
            DocumentError: there is neither text nor sections, or a value is of the wrong type.

        >>> document = Document.from_mapping({"id": 7, "text": "Tides rise.", "label": "sea"})
        >>> document.id, document.text, document.label
        ('7', 'Tides rise.', 'sea')
        """
        if not isinstance(mapping, Mapping):
            raise DocumentError(f"the row is {described(mapping)}; give a dictionary")
        columns = columns or Columns()
        try:
            return cls(**document_parts(mapping, id, columns))
        except DocumentError as error:
            name = id or row_id(mapping, columns)
            raise DocumentError(f"row {name!r}: {error}" if name else f"row: {error}") from None

    @classmethod
    def from_file(
        cls, path: str | Path, *, encoding: str = "utf-8", text_headings: bool = True, **fields: Unpack[DocumentOptions]
    ) -> Document:
        """Read a file that holds one document.

        Args:
            path: a file of one of the kinds that the documentation lists: text, markup, PDF, Word and others.
            encoding: how text files are encoded.
            text_headings: whether a plain text file is searched for headings.
            **fields: ``id`` (without one the file's name without its suffix), ``title`` (if the file's own shall not
                count), ``label`` and ``metadata``.

        Raises:
            DocumentError: the file is missing, unreadable, of an unknown type, or has no text.
            MissingExtraError: the file needs the ``ingest`` extra.
        """
        if not isinstance(path, str | PathLike) or not str(path):
            raise DocumentError(f"the path is {described(path)}; name a file")
        path = Path(path)
        try:
            fields["id"] = fields.get("id") or split_suffix(path)[0]
            return cls._read(path, encoding, fields, text_headings=text_headings)
        except DocumentError as error:
            raise DocumentError(f"{path}: {error}") from error.__cause__

    @classmethod
    def _read(cls, path: Path, encoding: str, fields: DocumentOptions, *, text_headings: bool = True) -> Document:
        """As :meth:`from_file`, with messages that do not name the file."""
        try:
            document = cls._from_parsed(parse_file(path, encoding, text_headings=text_headings), **fields)
        except MemoryError:
            raise too_large() from None
        if document.is_empty:
            raise DocumentError("it has no text; leave it out")
        return document

    @property
    def text(self) -> str:
        """The texts of all sections, separated by blank lines, without headings."""
        return "\n\n".join(section.text for section in self.sections if section.text)

    @property
    def words(self) -> int:
        """Number of words in the sections, headings not counted."""
        return sum(len(section.text.split()) for section in self.sections)

    @property
    def is_empty(self) -> bool:
        """Whether no section has any text."""
        return not any(section.text and not section.text.isspace() for section in self.sections)

    def section_name(self, number: int) -> str:
        """What to call a section: its heading, or ``Opening`` or ``Whole text`` where it has none."""
        return section_name(self.sections[number].heading, number, len(self.sections))

    def to_dict(self) -> dict[str, Any]:
        """The document as a row that :meth:`from_mapping` reads back.

        >>> document = Document("tides", [Section("They rise.", heading="Tides")])
        >>> Document.from_mapping(document.to_dict()) == document
        True
        """
        sections = [
            {"heading": one.heading, "text": one.text, "level": one.level, "path": list(one.path)}
            for one in self.sections
        ]
        row: dict[str, Any] = {"id": self.id, "title": self.title, "sections": sections}
        if self.label is not None:
            row["label"] = list(self.label) if isinstance(self.label, tuple) else self.label
        if self.metadata:
            row["metadata"] = Metadata(self.metadata).plain()
        return row

    @classmethod
    def _from_markup(cls, text: str, kind: str, fields: DocumentOptions) -> Document:
        try:
            if not isinstance(text, str):
                raise DocumentError(f"its text is {described(text)}; give a string")
            text = clean_text(text)
            plain = ParsedDocument((Section(text),) if text else ())
            return cls._from_parsed(plain if kind == "text" else parse_text(text, kind), **fields)
        except DocumentError as error:
            raise DocumentError(f"document {fields.get('id') or ''!r}: {error}") from error.__cause__

    @classmethod
    def _from_parsed(cls, parsed: ParsedDocument, **fields: Unpack[DocumentOptions]) -> Document:
        found: dict[str, Any] = dict(parsed.metadata)
        id, title, metadata = fields.get("id") or "", fields.get("title", ""), fields.get("metadata")
        if title and parsed.title and title != parsed.title:
            found["parsed_title"] = parsed.title
        if isinstance(metadata, Mapping):
            metadata = found | dict(metadata)
        return cls(id, parsed.sections, title or parsed.title, fields.get("label"), metadata or found)


def _label(value: Any) -> Label:
    """A label of those types that files can hold; a missing value of a table is none."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, list | tuple):
        names = tuple(str(name) for part in value if (name := _single_label(part)) is not None)
        return names if names or not value else None
    return _single_label(value)


def _single_label(value: Any) -> str | int | None:
    if is_missing(value):
        return None
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, float):
        return int(value) if value.is_integer() else str(value)
    if isinstance(value, int):
        return int(value)
    raise DocumentError(f"its label is {described(value)}; give a string, a whole number or a list of strings")


def _content_hash(title: str, sections: tuple[Section, ...]) -> str:
    digest = hashlib.blake2b(title.encode("utf-8"), digest_size=8)
    for section in sections:
        digest.update(f"\0{section.heading}\0{section.text}".encode())
    return digest.hexdigest()
