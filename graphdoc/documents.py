"""What a document is: an id, titled sections with text, and how it is made from text, markup or a row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Label = str | int | tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Section:
    """A titled part of a document.

    Args:
        text: the running text, without its heading; paragraphs are separated by a blank line.
        heading: the heading as written, empty for text that stands before the first heading.
        level: depth of the heading, 1 for the outermost.
        path: headings from the outermost enclosing section down to and including this one.
    """

    text: str
    heading: str = ""
    level: int = 1
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """A document: the unit that is encoded, compared and searched.

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
