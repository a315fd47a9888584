"""A document while it is cut: drafts of passages, and what came of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..documents.document import Document
from ..documents.metadata import FURNITURE_CHARACTERS
from .context import NO_CONTEXT, Prefix
from .coverage import PASSAGE_LIMIT, REPEATED, Coverage
from .repeats import Place
from .spans import SegmentedDocument, Span

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
