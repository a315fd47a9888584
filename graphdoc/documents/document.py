"""What a document is: an id, titled sections with text, and how it is made from text, markup or a row."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DocumentError
from ..runtime.wording import section_name
from .section import HALF_PAIRS, Section, clean_text

if TYPE_CHECKING:
    from .parsing.outline import ParsedDocument

Label = str | int | tuple[str, ...] | None


# Without slots, since readers of configuration files look at the defaults through ``vars``.
@dataclass(frozen=True)
class Columns:
    """Names of the columns (keys) of a row that make a document; all others become metadata.

    Args:
        text: the running text.
        sections: a list of texts, or of mappings with ``heading``, ``text`` and, if known, ``level`` and ``path``.
        title: the title.
        id: the id; by default ``_id`` is taken where there is no ``id``.
        label: the class or group.
    """

    text: str = "text"
    sections: str = "sections"
    title: str = "title"
    id: str = "id"
    label: str = "label"


@dataclass(frozen=True, slots=True)
class Document:
    """A document: the unit that is encoded, compared and searched.

    The ``from_...`` functions clean what they are given: byte order marks go, NUL characters become spaces, line ends
    of Windows and old Macs become plain ones, halves of surrogate pairs become U+FFFD. All else is kept as it is.

    Args:
        id: name of the document, unique in a corpus.
        sections: its parts in reading order; a section without text of its own keeps its place.
        title: title, empty when there is none.
        label: class or group, if known.
        metadata: anything else that came with it.
    """

    id: str
    sections: tuple[Section, ...]
    title: str = ""
    label: Label = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_text(
        cls,
        text: str,
        *,
        id: str | None = None,
        title: str = "",
        label: Label = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Document:
        """Make a document of one section from plain text.

        Args:
            text: the text; its paragraphs are kept.
            id: the id; without one a hash of the content.
            title: the title.
            label: the class or group.
            metadata: anything else.
        """
        return cls._from_markup(text, "text", id, title, label, metadata)

    @classmethod
    def from_markdown(
        cls,
        text: str,
        *,
        id: str | None = None,
        title: str = "",
        label: Label = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Document:
        """Make a document from Markdown; arguments as for :meth:`from_text`.

        Raises:
            DocumentError: the markup is nested too deeply.
        """
        return cls._from_markup(text, "markdown", id, title, label, metadata)

    @classmethod
    def from_html(
        cls,
        text: str,
        *,
        id: str | None = None,
        title: str = "",
        label: Label = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Document:
        """Make a document from HTML or XHTML; arguments as for :meth:`from_text`.

        Raises:
            DocumentError: the elements are nested too deeply.
        """
        return cls._from_markup(text, "html", id, title, label, metadata)

    @classmethod
    def from_xml(
        cls,
        text: str,
        *,
        id: str | None = None,
        title: str = "",
        label: Label = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Document:
        """Make a document from JATS, TEI or XHTML; arguments as for :meth:`from_text`.

        Raises:
            DocumentError: the XML is not well-formed, declares entities, or is of another kind.
        """
        return cls._from_markup(text, "xml", id, title, label, metadata)

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
        """
        from .parsing.rows import document_parts, row_id

        columns = columns or Columns()
        try:
            return cls._cleaned(*document_parts(mapping, id, columns))
        except DocumentError as error:
            name = id or row_id(mapping, columns)
            raise DocumentError(f"row {name!r}: {error}" if name else f"row: {error}") from None

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        *,
        id: str | None = None,
        title: str = "",
        label: Label = None,
        metadata: Mapping[str, Any] | None = None,
        encoding: str = "utf-8",
    ) -> Document:
        """Read a file that holds one document.

        Args:
            path: a text, Markdown, HTML, XML (JATS, TEI), PDF, DOCX or LaTeX file.
            id: the id; without one the file's name without its suffix.
            title: the title, if the file's own shall not count.
            label: the class or group.
            metadata: anything else.
            encoding: how text files are encoded.

        Raises:
            DocumentError: the file is missing, unreadable, of an unknown type, or has no text.
            MissingExtraError: the file needs the ``ingest`` extra.
        """
        from .parsing.files import parse_file
        from .parsing.formats import split_suffix

        path = Path(path)
        try:
            document = cls._from_parsed(
                parse_file(path, encoding), id or split_suffix(path)[0], title, label, metadata
            )
            if document.is_empty:
                raise DocumentError("it has no text; leave it out")
        except DocumentError as error:
            raise DocumentError(f"{path}: {error}") from error.__cause__
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

    def without_surrogates(self) -> Document:
        """The document with U+FFFD for halves of surrogate pairs, character for character, as files can hold it."""

        def whole(text: str) -> str:
            return text if text.isascii() else HALF_PAIRS.sub("\ufffd", text)

        sections = tuple(
            replace(
                section,
                text=whole(section.text),
                heading=whole(section.heading),
                path=tuple(whole(heading) for heading in section.path),
            )
            for section in self.sections
        )
        return replace(self, id=whole(self.id), title=whole(self.title), sections=sections)

    def to_dict(self) -> dict[str, Any]:
        """The document as a row that :meth:`from_mapping` reads back."""
        row: dict[str, Any] = {
            "id": self.id,
            "title": self.title,
            "sections": [
                {"heading": section.heading, "text": section.text, "level": section.level, "path": list(section.path)}
                for section in self.sections
            ],
        }
        if self.label is not None:
            row["label"] = list(self.label) if isinstance(self.label, tuple) else self.label
        if self.metadata:
            row["metadata"] = dict(self.metadata)
        return row

    @classmethod
    def _from_markup(
        cls, text: str, kind: str, id: str | None, title: str, label: Label, metadata: Mapping[str, Any] | None
    ) -> Document:
        from .parsing import parse_text

        if not isinstance(text, str):
            raise DocumentError(f"document {id or ''!r}: its text is of type {type(text).__name__}; give a string")
        try:
            parsed = parse_text(clean_text(text), kind)
        except DocumentError as error:
            raise DocumentError(f"document {id or ''!r}: {error}") from error.__cause__
        return cls._from_parsed(parsed, id, title, label, metadata)

    @classmethod
    def _from_parsed(
        cls,
        parsed: ParsedDocument,
        id: str | None,
        title: str = "",
        label: Label = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Document:
        found: dict[str, Any] = dict(parsed.metadata)
        if title and parsed.title and title != parsed.title:
            found["parsed_title"] = parsed.title
        return cls._cleaned(id, parsed.sections, title or parsed.title, label, found | dict(metadata or {}))

    @classmethod
    def _cleaned(
        cls,
        id: str | None,
        sections: tuple[Section, ...],
        title: str = "",
        label: Label = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Document:
        """The one place through which every document passes when it is made from outside data."""
        sections = tuple(
            replace(
                section,
                text=clean_text(section.text),
                heading=_clean_line(section.heading),
                path=tuple(_clean_line(heading) for heading in section.path),
            )
            for section in sections
        )
        title = _clean_line(title)
        if isinstance(label, tuple):
            label = tuple(clean_text(part) for part in label)
        elif isinstance(label, str):
            label = clean_text(label)
        identity = clean_text(id or "").strip()
        return cls(identity or _content_hash(title, sections), sections, title, label, dict(metadata or {}))


def _clean_line(text: str) -> str:
    return " ".join(clean_text(text).split())


def _content_hash(title: str, sections: tuple[Section, ...]) -> str:
    digest = hashlib.blake2b(title.encode("utf-8"), digest_size=8)
    for section in sections:
        digest.update(f"\0{section.heading}\0{section.text}".encode())
    return digest.hexdigest()
