"""Passages while they are cut: their tokens, the title and heading in front of them, and what is left out.

A fast tokenizer keeps padding and truncation as its own state. A call of transformers that asks for either changes
what a call in another thread gives, so nothing here asks for them: what must be short is cut afterwards.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, cast

from ..documents.document import Document
from ..documents.section import FURNITURE_CHARACTERS
from ..runtime.text import one_line
from .repeats import Place
from .spans import PASSAGE_LIMIT, REPEATED, Coverage, SegmentedDocument, Span

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast


def without_limits(tokenizer: PreTrainedTokenizerBase) -> None:
    """Take out the padding and truncation that a tokenizer's file sets, so that no call has to.

    Args:
        tokenizer: a fast tokenizer; it changes if it has either, so no other thread may use it yet.
    """
    backend = _backend(tokenizer)
    if backend.padding is not None:
        backend.no_padding()
    if backend.truncation is not None:
        backend.no_truncation()
    if backend.encode_special_tokens != tokenizer.split_special_tokens:
        backend.encode_special_tokens = tokenizer.split_special_tokens


def token_ids(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    """Token ids of texts, special tokens included, neither padded nor cut.

    Args:
        tokenizer: a fast tokenizer :func:`without_limits`.
        texts: the texts.
    """
    # Places in the text are not looked up, which takes a fifth off the time.
    return [encoding.ids for encoding in _backend(tokenizer).encode_batch_fast(list(texts))]


def short_token_ids(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], most: int) -> list[list[int]]:
    """Token ids of texts; of one over the limit the first ones, and the last, which ends a text for most models.

    Args:
        tokenizer: a fast tokenizer :func:`without_limits`.
        texts: the texts.
        most: most tokens of a text, special tokens included.
    """
    rows = token_ids(tokenizer, texts)
    return [row if len(row) <= most else [*row[: most - 1], row[-1]] for row in rows]


def token_spans(tokenizer: PreTrainedTokenizerBase, text: str, after: int = 0) -> list[tuple[int, int]]:
    """Spans of the tokens of a text, special tokens and those of what stands before it left out.

    Args:
        tokenizer: a fast tokenizer :func:`without_limits`.
        text: the text, with what stands before it.
        after: characters that stand before it; spans count from its own first one.
    """
    encoding = _backend(tokenizer).encode(text)
    pairs = zip(encoding.offsets, encoding.special_tokens_mask, strict=True)
    spans = [span for span, special in pairs if not special]
    return [(max(start - after, 0), end - after) for start, end in spans if end > after] if after else spans


def _backend(tokenizer: PreTrainedTokenizerBase) -> Tokenizer:
    return cast("PreTrainedTokenizerFast", tokenizer).backend_tokenizer


# The part of a passage's tokens that its context may take.
SHARE = 4
# Longer words are none, so that no context takes long to cut.
_CHARACTERS_PER_TOKEN = 20
# A context that is cut ends with a full stop again.
_END = ". "

# Spans of the tokens of a text, special tokens left out.
Tokens = Callable[[str], Sequence[tuple[int, int]]]


class Prefix(NamedTuple):
    """What is encoded in front of a passage.

    Args:
        text: its text, which ends in white space, or nothing.
        tokens: how many tokens it has.
        is_shortened: whether it was cut.
    """

    text: str = ""
    tokens: int = 0
    is_shortened: bool = False


NO_CONTEXT = Prefix()


def prefix_of(document: Document, section: int, context: str, most_tokens: int, tokens: Tokens) -> Prefix:
    """The context of the passages of a section: ``Title. Heading. ``, without what is empty or there twice.

    Args:
        document: the document.
        section: the section's number.
        context: ``none``, ``title``, ``heading`` or ``both``.
        most_tokens: tokens that it may have; each part has an equal share of them.
        tokens: gives the tokens of a text.
    """
    wanted = {
        "title": (document.title,),
        "heading": (document.sections[section].heading,),
        "both": (document.title, document.sections[section].heading),
    }.get(context, ())
    lines = (one_line(text, most_tokens * _CHARACTERS_PER_TOKEN).rstrip(" .") for text in wanted)
    parts = list(dict.fromkeys(line for line in lines if line))
    if not parts:
        return NO_CONTEXT
    text = "".join(part + _END for part in parts)
    # White space at the end belongs to the token that follows.
    count = len(tokens(text.rstrip()))
    if count <= most_tokens:
        return Prefix(text, count)
    # Two tokens of every part for what ends it.
    share = max(1, most_tokens // len(parts) - 2)
    text = "".join(_first(part, share, tokens) + _END for part in parts)
    return Prefix(text, len(tokens(text.rstrip())), is_shortened=True)


def _first(text: str, most: int, tokens: Tokens) -> str:
    spans = tokens(text)
    return text if len(spans) <= most else text[: spans[most][0]].rstrip(" .")


NO_TOKENS = "no tokens"
ONE_CHARACTER_TOO_LONG = "one character over the token limit"


@dataclass(slots=True)
class Draft:
    """A span on its way to become a passage.

    Args:
        plan: the document that it belongs to.
        section: position of its section.
        start: first character in the section's text.
        end: one past the last character.
        sentences: the sentences in it, empty if it may be cut anywhere.
        context: what is encoded in front of it.
        token_ids: its tokens, those of its context among them, once they are known.
        reason: why it becomes none.
    """

    plan: Plan
    section: int
    start: int
    end: int
    sentences: Sequence[tuple[int, int]]
    context: Prefix = NO_CONTEXT
    token_ids: tuple[int, ...] = ()
    reason: str | None = None

    @property
    def text(self) -> str:
        """Its text."""
        return self.plan.document.sections[self.section].text[self.start : self.end]


@dataclass(slots=True)
class Plan:
    """A document while it is cut.

    Args:
        document: the document.
        empty_sections: number of its sections without text.
        drafts: what is still to be tokenised.
        finished: what is tokenised, or left out for a reason.
        repeated: pieces that repeat in other documents: section, first character, and one past the last.
        keeps_repeats: whether they are so much of it that they count.
        cut_sentences: from the place (section, character) where a later piece of a cut sentence begins to the
            character where that sentence begins.
    """

    document: Document
    empty_sections: int = 0
    drafts: list[Draft] = field(default_factory=list)
    finished: list[Draft] = field(default_factory=list)
    repeated: list[Place] = field(default_factory=list)
    keeps_repeats: bool = False
    cut_sentences: dict[tuple[int, int], int] = field(default_factory=dict)

    def is_repeated(self, draft: Draft) -> bool:
        """Whether a draft lies in a piece that repeats and does not count."""
        place = bisect_right(self.repeated, (draft.section, draft.start + 1)) - 1
        if self.keeps_repeats or place < 0:
            return False
        section, _, end = self.repeated[place]
        return section == draft.section and draft.end <= end

    def segmented(self, max_passages: int | None, special_tokens: int) -> SegmentedDocument:
        """The passages that came of it, with what they cover.

        Args:
            max_passages: passages that are kept, the first in reading order; None keeps all.
            special_tokens: tokens of every passage that stand for no text.
        """
        passages: list[Span] = []
        token_ids: list[tuple[int, ...]] = []
        left_out: dict[str, int] = {}
        encoded_characters = all_passages = all_tokens = shortened = 0
        cut_sentences = set()
        previous: Draft | None = None
        if self.repeated and all(draft.reason or self.is_repeated(draft) for draft in self.finished):
            # What does not repeat has no tokens.
            self.keeps_repeats = True
        for draft in sorted(self.finished, key=lambda draft: (draft.section, draft.start)):
            if draft.reason is None:
                tokens = len(draft.token_ids) - special_tokens - draft.context.tokens
                all_passages += 1
                all_tokens += tokens
                if self.is_repeated(draft):
                    draft.reason = REPEATED
                elif max_passages is None or len(passages) < max_passages:
                    shortened += draft.context.is_shortened
                    passages.append(Span(draft.section, draft.start, draft.end, tokens))
                    token_ids.append(draft.token_ids)
                else:
                    draft.reason = PASSAGE_LIMIT
            gap, gap_reason = 0, None
            if previous is not None and previous.section == draft.section:
                gap, gap_reason = draft.start - previous.end, previous.reason or draft.reason
            for characters, reason in ((gap, gap_reason), (draft.end - draft.start, draft.reason)):
                if reason is None:
                    encoded_characters += characters
                elif characters:
                    left_out[reason] = left_out.get(reason, 0) + characters
            if (draft.section, draft.start) in self.cut_sentences:
                cut_sentences.add((draft.section, self.cut_sentences[draft.section, draft.start]))
            previous = draft
        furniture = self.document.metadata.get(FURNITURE_CHARACTERS)
        coverage = Coverage(
            characters=encoded_characters + sum(left_out.values()),
            encoded_characters=encoded_characters,
            tokens=all_tokens,
            encoded_tokens=sum(passage.tokens for passage in passages),
            passages=all_passages,
            encoded_passages=len(passages),
            left_out=left_out,
            split_sentences=len(cut_sentences),
            empty_sections=self.empty_sections,
            documents=1,
            documents_not_whole=int(bool(left_out)),
            shortened_contexts=shortened,
            kept_repeats=int(self.keeps_repeats),
            furniture=furniture if isinstance(furniture, int) else 0,
        )
        return SegmentedDocument(self.document, tuple(passages), tuple(token_ids), coverage)
