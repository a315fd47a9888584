"""How much of documents was encoded and what was left out, of one document or added up over many."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ..runtime.text import counted

logger = logging.getLogger("graphdoc")

PASSAGE_LIMIT = "passage limit"
REPEATED = "repeated"


@dataclass(slots=True)
class Coverage:
    """How much of a document was encoded, what was left out, and why; coverages add up with ``+`` and ``+=``.

    Args:
        characters: characters of text in all sections, white space at the edges of a section not counted.
        encoded_characters: those that lie in an encoded passage (or chunk), plus the white space between neighbours.
        tokens: tokens of all passages, special tokens not counted.
        encoded_tokens: tokens of the encoded passages.
        passages: passages the document has; text that the tokenizer cannot express makes none.
        encoded_passages: passages that were encoded.
        left_out: characters left out by reason, such as ``{"passage limit": 5120}``; they and the encoded characters
            add up to ``characters``.
        split_sentences: sentences that lie in several passages because they exceed the encoder's limit.
        empty_sections: sections without text of their own (headings only).
        shortened_contexts: passages whose title or heading was cut, since it took more than its share of their tokens.
        documents: number of documents.
        documents_not_whole: number of documents of which something was left out.
        furniture: characters of navigation, headers, footers and popups of pages, which were left out when these were
            read and are not among ``characters``; white space is not counted.
        kept_repeats: documents made of repeated passages for the most part, of which none was left out for that.

    >>> total = Coverage()
    >>> total += Coverage(100, 80, 25, 20, 2, 1, {"passage limit": 20}, documents=1, documents_not_whole=1)
    >>> total.share
    0.8
    """

    characters: int = 0
    encoded_characters: int = 0
    tokens: int = 0
    encoded_tokens: int = 0
    passages: int = 0
    encoded_passages: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    split_sentences: int = 0
    empty_sections: int = 0
    documents: int = 0
    documents_not_whole: int = 0
    shortened_contexts: int = 0
    kept_repeats: int = 0
    furniture: int = 0

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Coverage:
        """The coverage that :meth:`to_dict` wrote."""
        return cls(**{name: values[name] for name in ("left_out", *_COUNTS) if name not in _RARE or name in values})

    @property
    def share(self) -> float:
        """Share of the characters that were encoded, 1 for documents without text."""
        return self.encoded_characters / self.characters if self.characters else 1.0

    def __iadd__(self, other: Coverage) -> Coverage:
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for reason, characters in other.left_out.items():
            self.left_out[reason] = self.left_out.get(reason, 0) + characters
        return self

    def __add__(self, other: Coverage) -> Coverage:
        total = Coverage()
        total += self
        total += other
        return total

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON, the share among them, reasons in alphabetical order."""
        values = {**asdict(self), "left_out": dict(sorted(self.left_out.items())), "share": self.share}
        for name in _RARE:
            if not values[name]:
                del values[name]
        return values

    def warn(self, name: str | None = None) -> None:
        """Log one warning if anything was left out.

        Args:
            name: id of the document, where it is one.
        """
        if self.documents_not_whole:
            which = f"{self.documents_not_whole:,} of {counted(self.documents, 'document')}"
            fixes = [fix for reason, fix in _FIXES.items() if reason in self.left_out]
            logger.warning(
                "%s %s not encoded whole (%s)%s",
                which if name is None else f"document {name!r}",
                "was" if self.documents_not_whole == 1 else "were",
                ", ".join(
                    f"{counted(count, 'character')}: {reason}" for reason, count in sorted(self.left_out.items())
                ),
                "".join(f"; {fix}" for fix in fixes),
            )


_FIXES = {
    PASSAGE_LIMIT: "max_passages=None (--max-passages all) encodes all passages",
    REPEATED: "--repeats keep encodes those that repeat",
}
# Only models with a context, corpora with repeated passages, and pages have any.
_RARE = ("shortened_contexts", "kept_repeats", "furniture")
_COUNTS = tuple(entry.name for entry in fields(Coverage) if entry.name != "left_out")
