"""Passages while they are cut: their tokens, the title and heading in front of them, and what is left out.

A fast tokenizer keeps padding and truncation as its own state. A call of transformers that asks for either changes
what a call in another thread gives, so nothing here asks for them: what must be short is cut afterwards.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
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

# The part of a passage's tokens that its context may take.
SHARE = 4
# Longer words are none, so that no context takes long to cut.
_CHARACTERS_PER_TOKEN = 20
# A context that is cut ends with a full stop again.
_END = ". "


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
    """Token ids of texts, special tokens included, neither padded nor cut, by a tokenizer :func:`without_limits`."""
    # Places in the text are not looked up, which takes a fifth off the time.
    return [encoding.ids for encoding in _backend(tokenizer).encode_batch_fast(list(texts))]


def short_token_ids(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], most: int) -> list[list[int]]:
    """Token ids of texts; of one with over ``most`` the first ones and the last, which ends a text for most models."""
    rows = token_ids(tokenizer, texts)
    return [row if len(row) <= most else [*row[: most - 1], row[-1]] for row in rows]


def token_spans(tokenizer: PreTrainedTokenizerBase, text: str, after: int = 0) -> list[tuple[int, int]]:
    """Spans of the tokens of a text, special tokens left out.

    Args:
        tokenizer: a fast tokenizer :func:`without_limits`.
        text: the text, with what stands before it.
        after: characters that stand before it, whose tokens are left out; spans count from behind them.
    """
    encoding = _backend(tokenizer).encode(text)
    pairs = zip(encoding.offsets, encoding.special_tokens_mask, strict=True)
    spans = [span for span, special in pairs if not special]
    return [(max(start - after, 0), end - after) for start, end in spans if end > after] if after else spans


def _backend(tokenizer: PreTrainedTokenizerBase) -> Tokenizer:
    return cast("PreTrainedTokenizerFast", tokenizer).backend_tokenizer


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


def prefix_of(
    tokenizer: PreTrainedTokenizerBase, document: Document, section: int, context: str, most_tokens: int
) -> Prefix:
    """The context of the passages of a section: ``Title. Heading. ``, without what is empty or there twice.

    Args:
        tokenizer: a fast tokenizer :func:`without_limits`.
        document: the document.
        section: the section's number.
        context: ``none``, ``title``, ``heading`` or ``both``.
        most_tokens: tokens that it may have; each part has an equal share of them.
    """
    heading = document.sections[section].heading
    wanted = {"title": (document.title,), "heading": (heading,), "both": (document.title, heading)}.get(context, ())
    lines = (one_line(text, most_tokens * _CHARACTERS_PER_TOKEN).rstrip(" .") for text in wanted)
    parts = list(dict.fromkeys(line for line in lines if line))
    if not parts:
        return Prefix()

    def prefix(parts: Sequence[str], is_shortened: bool) -> Prefix:
        text = "".join(part + _END for part in parts)
        # White space at the end belongs to the token that follows.
        return Prefix(text, len(token_spans(tokenizer, text.rstrip())), is_shortened)

    whole = prefix(parts, is_shortened=False)
    if whole.tokens <= most_tokens:
        return whole
    # Two tokens of every part for what ends it.
    share = max(1, most_tokens // len(parts) - 2)
    spans = [token_spans(tokenizer, part) for part in parts]
    cut = [
        part[: tokens[share][0]].rstrip(" .") if len(tokens) > share else part
        for part, tokens in zip(parts, spans, strict=True)
    ]
    return prefix(cut, is_shortened=True)


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
    context: Prefix
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

    def segmented(self, max_passages: int | None, special_tokens: int) -> SegmentedDocument:
        """The passages that came of it, with what they cover.

        Args:
            max_passages: passages that are kept, the first in reading order; None keeps all.
            special_tokens: tokens of every passage that stand for no text.
        """
        drafts = sorted(self.finished, key=lambda draft: (draft.section, draft.start))
        repeated = [draft.reason is None and self._is_repeated(draft) for draft in drafts]
        if self.repeated and all(
            draft.reason or is_repeated for draft, is_repeated in zip(drafts, repeated, strict=True)
        ):
            # What does not repeat has no tokens.
            self.keeps_repeats = True
        passages: list[Span] = []
        token_ids: list[tuple[int, ...]] = []
        left_out: Counter[str] = Counter()
        encoded_characters = all_passages = all_tokens = shortened = 0
        cut_sentences = set()
        previous: Draft | None = None
        for draft, is_repeated in zip(drafts, repeated, strict=True):
            if draft.reason is None:
                tokens = len(draft.token_ids) - special_tokens - draft.context.tokens
                all_passages += 1
                all_tokens += tokens
                if is_repeated and not self.keeps_repeats:
                    draft.reason = REPEATED
                elif max_passages is None or len(passages) < max_passages:
                    shortened += draft.context.is_shortened
                    passages.append(Span(draft.section, draft.start, draft.end, tokens))
                    token_ids.append(draft.token_ids)
                else:
                    draft.reason = PASSAGE_LIMIT
            parts = [(draft.end - draft.start, draft.reason)]
            if previous is not None and previous.section == draft.section:
                parts.append((draft.start - previous.end, previous.reason or draft.reason))
            for characters, reason in parts:
                if reason is None:
                    encoded_characters += characters
                elif characters:
                    left_out[reason] += characters
            if (draft.section, draft.start) in self.cut_sentences:
                cut_sentences.add((draft.section, self.cut_sentences[draft.section, draft.start]))
            previous = draft
        furniture = self.document.metadata.get(FURNITURE_CHARACTERS)
        coverage = Coverage(
            characters=encoded_characters + left_out.total(),
            encoded_characters=encoded_characters,
            tokens=all_tokens,
            encoded_tokens=sum(passage.tokens for passage in passages),
            passages=all_passages,
            encoded_passages=len(passages),
            left_out=dict(left_out),
            split_sentences=len(cut_sentences),
            empty_sections=self.empty_sections,
            documents=1,
            documents_not_whole=int(bool(left_out)),
            shortened_contexts=shortened,
            kept_repeats=int(self.keeps_repeats),
            furniture=furniture if isinstance(furniture, int) else 0,
        )
        return SegmentedDocument(self.document, tuple(passages), tuple(token_ids), coverage)

    def _is_repeated(self, draft: Draft) -> bool:
        """Whether a draft lies in a piece that repeats."""
        place = bisect_right(self.repeated, (draft.section, draft.start + 1)) - 1
        if place < 0:
            return False
        section, _, end = self.repeated[place]
        return section == draft.section and draft.end <= end
