"""Passages of a document: their tokens, the spans of its text, what they cover, and their Arrow form.

A fast tokenizer keeps padding and truncation as its own state. A call of transformers that asks for either changes
what a call in another thread gives, so nothing here asks for them: what must be short is cut afterwards.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from ..documents.document import Document
from ..runtime.text import counted

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer
    from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

logger = logging.getLogger("graphdoc")

# Reasons for which text is left out.
PASSAGE_LIMIT, REPEATED = "passage limit", "repeated"
NO_TOKENS, ONE_CHARACTER_TOO_LONG = "no tokens", "one character over the token limit"
_FIXES = {
    PASSAGE_LIMIT: "max_passages=None (--max-passages all) encodes all passages",
    REPEATED: "--repeats keep encodes those that repeat",
}
# Only models with a context, corpora with repeated passages, and pages have any.
_RARE = ("shortened_contexts", "kept_repeats", "furniture")
Int32s = npt.NDArray[np.int32]


def trim(text: str, start: int, end: int) -> tuple[int, int] | None:
    """Take the white space off both ends of a span; ``None`` if nothing else is in it."""
    part = text[start:end]
    stripped = part.lstrip()
    if not stripped:
        return None
    return start + len(part) - len(stripped), start + len(part.rstrip())


def without_limits(tokenizer: PreTrainedTokenizerBase) -> None:
    """Take out the padding and truncation that a fast tokenizer's file sets, so that no call has to.

    It changes if it has either, so no other thread may use it yet.
    """
    backend = _backend(tokenizer)
    if backend.padding is not None:
        backend.no_padding()
    if backend.truncation is not None:
        backend.no_truncation()
    if backend.encode_special_tokens != tokenizer.split_special_tokens:
        backend.encode_special_tokens = tokenizer.split_special_tokens


def token_ids(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    """Token ids of texts, special tokens included, neither padded nor cut, by a tokenizer :func:`without_limits`."""
    # Places in the text are not looked up, which takes a fifth off the time.
    return [encoding.ids for encoding in _backend(tokenizer).encode_batch_fast(list(texts))]


def short_token_ids(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], max_tokens: int) -> list[list[int]]:
    """Token ids of texts; of one with over ``max_tokens`` the first ones and the last, which ends a text mostly."""
    rows = token_ids(tokenizer, texts)
    return [row if len(row) <= max_tokens else [*row[: max_tokens - 1], row[-1]] for row in rows]


def token_spans(tokenizer: PreTrainedTokenizerBase, text: str | Encoding, after: int = 0) -> list[tuple[int, int]]:
    """Spans of the tokens of a text, encoded or not, special tokens left out, by a tokenizer :func:`without_limits`.

    The tokens of the first ``after`` characters are left out, and spans count from behind them.
    """
    encoding = _backend(tokenizer).encode(text) if isinstance(text, str) else text
    spans = [span for span, special in zip(encoding.offsets, encoding.special_tokens_mask, strict=True) if not special]
    return [(max(start - after, 0), end - after) for start, end in spans if end > after] if after else spans


def _backend(tokenizer: PreTrainedTokenizerBase) -> Tokenizer:
    return cast("PreTrainedTokenizerFast", tokenizer).backend_tokenizer


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
        names = {entry.name for entry in fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in names})

    @property
    def share(self) -> float:
        """Share of the characters that were encoded, 1 for documents without text."""
        return self.encoded_characters / self.characters if self.characters else 1.0

    def __iadd__(self, other: Coverage) -> Coverage:
        for entry in fields(self):
            if entry.name != "left_out":
                setattr(self, entry.name, getattr(self, entry.name) + getattr(other, entry.name))
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
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        values |= {"left_out": dict(sorted(self.left_out.items())), "share": self.share}
        return {name: value for name, value in values.items() if value or name not in _RARE}

    def describe(self, name: str | None = None) -> str:
        """What was left out and why, in one line; empty where all was encoded; ``name`` is a single document's id."""
        if not self.documents_not_whole:
            return ""
        which = f"{self.documents_not_whole:,} of {counted(self.documents, 'document')}"
        which = which if name is None else f"document {name!r}"
        reasons = [f"{counted(count, 'character')}: {reason}" for reason, count in sorted(self.left_out.items())]
        fixes = "".join(f"; {fix}" for reason, fix in _FIXES.items() if reason in self.left_out)
        verb = "was" if self.documents_not_whole == 1 else "were"
        return f"{which} {verb} not encoded whole ({', '.join(reasons)}){fixes}"

    def warn(self, name: str | None = None) -> None:
        """Log what :meth:`describe` says, if anything was left out."""
        if line := self.describe(name):
            logger.warning("%s", line)


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a section's text: a sentence, a passage or a chunk.

    Args:
        section: position of the section in ``document.sections``.
        start: first character in the section's text.
        end: one past the last character.
        tokens: number of tokens, special tokens not counted.
    """

    section: int
    start: int
    end: int
    tokens: int


@dataclass(frozen=True, slots=True)
class SegmentedDocument:
    """A document cut into passages and tokenized.

    Args:
        document: the document itself.
        passages: the passages to encode, in reading order.
        token_ids: token ids of every passage, special tokens included.
        coverage: how much of the document the passages hold, and what was left out.
        passage_vectors: ``(passages, encoder hidden)``, pooled vectors of the passages, for models above the passage
            encoder that made them; None where they are still to be made.
    """

    document: Document
    passages: tuple[Span, ...] = field(repr=False)
    token_ids: tuple[tuple[int, ...], ...] = field(repr=False)
    coverage: Coverage
    passage_vectors: npt.NDArray[np.float32] | None = field(default=None, compare=False, repr=False)

    def text(self, span: Span) -> str:
        """The text of a passage as the document has it."""
        return self.document.sections[span.section].text[span.start : span.end]

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of all passages, in their order."""
        return tuple(self.text(passage) for passage in self.passages)


@dataclass(frozen=True, slots=True, eq=False)
class PassageArrays:
    """The passages of a document in three arrays, as processes pass them on and files hold them.

    Sections and lengths in tokens, special ones included, both ``(passages,)``; all token ids, ``(tokens,)``.
    """

    sections: Int32s
    lengths: Int32s
    token_ids: Int32s

    @classmethod
    def from_segmented(cls, segmented: SegmentedDocument) -> PassageArrays:
        """The passages of a segmented document."""
        lengths = np.array([len(ids) for ids in segmented.token_ids], dtype=np.int32)
        sections = np.array([passage.section for passage in segmented.passages], dtype=np.int32)
        tokens = np.fromiter((token for ids in segmented.token_ids for token in ids), np.int32, int(lengths.sum()))
        return cls(sections, lengths, tokens)

    def __len__(self) -> int:
        """Number of passages."""
        return len(self.lengths)

    @property
    def tokens(self) -> tuple[Int32s, ...]:
        """Token ids of every passage, each ``(tokens,)``."""
        return tuple(self.token_ids[start:end] for start, end in pairwise(_offsets(self.lengths).tolist()))


def passage_fields(largest_token: int) -> list[Any]:
    """Fields of the two columns that hold passages; where ``largest_token`` is small they take half the space."""
    import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

    token = pa.uint16() if largest_token < 2**16 else pa.int32()
    return [
        pa.field("sections", pa.list_(pa.int32()), nullable=False),
        pa.field("token_ids", pa.list_(pa.list_(token)), nullable=False),
    ]


def passage_columns(documents: Sequence[PassageArrays], fields: Sequence[Any]) -> list[Any]:
    """The two columns of some documents, of the types of :func:`passage_fields`."""
    import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

    passages = pa.array(_offsets([len(document) for document in documents]))
    tokens = pa.array(_offsets(np.concatenate([document.lengths for document in documents])))
    values = np.concatenate([document.token_ids for document in documents])
    lists = pa.ListArray.from_arrays(tokens, pa.array(values, type=fields[1].type.value_type.value_type))
    sections = pa.array(np.concatenate([document.sections for document in documents]))
    return [pa.ListArray.from_arrays(passages, sections), pa.ListArray.from_arrays(passages, lists)]


class PassageColumns:
    """The two columns of a record batch, read without copying them."""

    __slots__ = ("_passages", "_sections", "_token_ids", "_tokens")

    def __init__(self, batch: Any) -> None:
        outer = batch.column("token_ids")
        self._sections: Int32s = batch.column("sections").values.to_numpy()
        self._passages: Int32s = outer.offsets.to_numpy()
        self._tokens: Int32s = outer.values.offsets.to_numpy()
        self._token_ids: npt.NDArray[np.integer[Any]] = outer.values.values.to_numpy()

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Passages of every document, ``(documents,)``."""
        return np.diff(self._passages).astype(np.int64)

    def __getitem__(self, row: int) -> PassageArrays:
        """The passages of one document; a copy, since a file that is mapped cannot be written to."""
        return self._between(int(self._passages[row]), int(self._passages[row + 1]))

    def passage(self, row: int, place: int) -> PassageArrays:
        """One passage of a document, by its place in reading order; a copy too."""
        first = int(self._passages[row]) + place
        return self._between(first, first + 1)

    def _between(self, first: int, last: int) -> PassageArrays:
        start, end = int(self._tokens[first]), int(self._tokens[last])
        sections, tokens = self._sections[first:last].copy(), np.diff(self._tokens[first : last + 1])
        return PassageArrays(sections, tokens, self._token_ids[start:end].astype(np.int32))


def _offsets(lengths: Sequence[int] | Int32s) -> Int32s:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
