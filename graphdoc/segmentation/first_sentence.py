"""The first sentence of a document, and the document without it."""

from __future__ import annotations

from dataclasses import replace

from ..documents.document import Document
from .sentences import split_sentences

# A sentence ends before that, or is none.
_LONGEST = 4_000


def first_sentence(document: Document, language: str = "en") -> str:
    r"""The first sentence of a document on one line, empty if it has no text.

    >>> first_sentence(Document.from_text("The tide\nturns. Then it falls."))
    'The tide turns.'
    """
    section, start, end = _place(document, language)
    return " ".join(document.sections[section].text[start:end].split()) if end else ""


def without_first_sentence(document: Document, language: str = "en") -> Document:
    """The document without its first sentence; one that has no other is left without text.

    >>> without_first_sentence(Document.from_text("The tide turns. Then it falls.")).text
    'Then it falls.'
    """
    section, start, end = _place(document, language)
    if not end:
        return document
    sections = list(document.sections)
    text = sections[section].text
    sections[section] = replace(sections[section], text=(text[:start] + text[end:]).strip())
    return replace(document, sections=tuple(sections))


def _place(document: Document, language: str) -> tuple[int, int, int]:
    """Number of the section, and where its first sentence begins and ends; an end of 0 where there is none."""
    for number, section in enumerate(document.sections):
        if spans := split_sentences(section.text[:_LONGEST], language):
            return (number, *spans[0])
    return 0, 0, 0
