"""Cutting documents into passages of whole sentences, into sentences, or into chunks."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..documents.document import Document
from ..documents.section import FURNITURE_CHARACTERS
from ..errors import SettingsError
from ..runtime.text import one_line
from ..settings.document import Context, Paragraph, Unit
from .repeats import RepeatFilter, SectionSpan
from .sentences import (
    Spans,
    balanced_cuts,
    best_place,
    character_boundary,
    cut_at_tokens,
    sentence_groups,
    sentences_of,
    skip_white_space,
)
from .spans import (
    NO_TOKENS,
    ONE_CHARACTER_TOO_LONG,
    PASSAGE_LIMIT,
    REPEATED,
    Coverage,
    SegmentedDocument,
    Span,
    token_spans,
    trim,
    without_limits,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_BLANK_LINES = re.compile(r"\n[^\S\n]*\n\s*")
_TEXTS_PER_CALL, _DRAFTS_PER_ROUND = 2_048, 1_024

# The part of a passage's tokens that its context may take.
CONTEXT_DIVISOR = 4
# Of texts with more characters for each token of the limit, most have to be cut, which takes the places of tokens.
_LONG_CHARACTERS = 4
# Longer words are none, so that no context takes long to cut.
_CHARACTERS_PER_TOKEN = 20
# A context that is cut ends with a full stop again.
_END = ". "


@dataclass(frozen=True)
class SegmentationConfig:
    """How documents are cut into passages.

    Args:
        passage_words: words of a passage, about. A word is what stands between white space; in scripts without
            spaces two characters count as one word.
        max_tokens: limit of one passage in tokens, special tokens included.
        max_passages: passages of one document that are kept, the first in reading order; ``None`` keeps all.
        language: two-letter code of the language for finding sentences.
        unit: ``passage`` cuts at sentence ends into pieces of about ``passage_words``; ``chunk`` fills ``max_tokens``
            wherever sentences end (CoLDE, section 3.1); ``sentence`` cuts at every sentence end. For the last two
            ``passage_words`` has no meaning.
        context: what is encoded in front of every passage, chunk or sentence: the ``title`` of the document, the
            ``heading`` of its section, ``both`` or ``none``.
        prompt: what is encoded in front of that, always the same, such as ``passage: ``.
    """

    passage_words: int = 100
    max_tokens: int = 256
    max_passages: int | None = 100
    language: str = "en"
    unit: Unit = "passage"
    context: Context = "none"
    prompt: str = ""


class Prefix(NamedTuple):
    """Text in front of a passage, which ends in white space, the number of its tokens, and whether it was cut."""

    text: str = ""
    tokens: int = 0
    is_shortened: bool = False


def prefix_of(
    tokenizer: PreTrainedTokenizerFast, document: Document, section: int, context: str, most_tokens: int, prompt: Prefix
) -> Prefix:
    """Context before the passages of a section: ``Title. Heading. ``, without empty or repeated parts.

    Title and heading have an equal share of ``most_tokens``; the prompt comes before them.
    """
    heading = document.sections[section].heading
    wanted = {"title": (document.title,), "heading": (heading,), "both": (document.title, heading)}.get(context, ())
    lines = (one_line(text, most_tokens * _CHARACTERS_PER_TOKEN).rstrip(" .") for text in wanted)
    parts = list(dict.fromkeys(line for line in lines if line))
    if not parts:
        return prompt

    def prefix(parts: Sequence[str], is_shortened: bool) -> Prefix:
        text = "".join(part + _END for part in parts)
        # White space at the end belongs to the token that follows.
        return Prefix(prompt.text + text, prompt.tokens + len(token_spans(tokenizer, text.rstrip())), is_shortened)

    whole = prefix(parts, is_shortened=False)
    if whole.tokens - prompt.tokens <= most_tokens:
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
        drafts: what is still to be tokenized.
        finished: what is tokenized, or left out for a reason.
        repeated: pieces that repeat in other documents: section, first character, and one past the last.
        keeps_repeats: whether they are so much of it that they count.
        cut_sentences: from the place (section, character) where a later piece of a cut sentence begins to the
            character where that sentence begins.
    """

    document: Document
    empty_sections: int = 0
    drafts: list[Draft] = field(default_factory=list)
    finished: list[Draft] = field(default_factory=list)
    repeated: list[SectionSpan] = field(default_factory=list)
    keeps_repeats: bool = False
    cut_sentences: dict[tuple[int, int], int] = field(default_factory=dict)

    def segmented(self, max_passages: int | None, special_tokens: int) -> SegmentedDocument:
        """The passages that came of it, with what they cover."""
        drafts = sorted(self.finished, key=lambda draft: (draft.section, draft.start))
        repeated = [draft.reason is None and self._is_repeated(draft) for draft in drafts]
        others = [draft for draft, is_repeated in zip(drafts, repeated, strict=True) if not is_repeated]
        # What does not repeat may have no tokens.
        self.keeps_repeats |= bool(self.repeated) and all(draft.reason for draft in others)
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
        place = bisect_right(self.repeated, (draft.section, draft.start + 1)) - 1
        if place < 0:
            return False
        section, _, end = self.repeated[place]
        return section == draft.section and draft.end <= end


class Segmenter:
    """Cuts documents into passages, sentences or chunks that keep to a tokenizer's limit, and tokenizes them.

    Passages end where a sentence ends, stay inside a section and differ little in length within it. One over the
    token limit is cut at sentence ends; a single sentence over the limit at white space, or between tokens where there
    is none. A chunk ends at the last white space within the limit if that leaves it three quarters full, otherwise
    between two tokens. Text that gives no tokens at all (a section of nothing but zero-width characters, for some
    tokenizers) is left out under the reason ``"no tokens"``.

    Args:
        tokenizer: a fast tokenizer of transformers.
        config: sizes and limits.
        repeats: what is repeated in the corpus that the documents are of; passages made of it are left out under the
            reason ``"repeated"``, and sentences in them. None leaves nothing out.

    Raises:
        SettingsError: the token limit does not suit the tokenizer.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerFast,
        config: SegmentationConfig | None = None,
        repeats: RepeatFilter | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        without_limits(tokenizer)
        self.config = config = config or SegmentationConfig()
        self.repeats = repeats
        self._special_tokens = tokenizer.num_special_tokens_to_add()
        # White space at the end belongs to the token that follows.
        prompt_tokens = len(token_spans(tokenizer, config.prompt.rstrip())) if config.prompt else 0
        self._prompt = Prefix(config.prompt, prompt_tokens)
        least = max(self._special_tokens + 1, 2 * prompt_tokens)
        if not least <= config.max_tokens <= tokenizer.model_max_length:
            raise SettingsError(
                f"max_tokens={config.max_tokens} must be from {least}, with the prompt, to the "
                f"{tokenizer.model_max_length} that the tokenizer's model takes"
            )

    def with_settings(self, **changes: Any) -> Segmenter:
        """The same with other fields of its configuration."""
        return Segmenter(self.tokenizer, replace(self.config, **changes), self.repeats)

    def segment(self, document: Document) -> SegmentedDocument:
        """Cut a document into the units of the configuration."""
        return next(self.segment_many([document]))

    def finds_passages(self, document: Document) -> bool:
        """Whether a document has a passage; few documents are cut to know it, since a letter or digit makes a token."""
        return any(map(str.isalnum, document.text)) or bool(self.segment(document).passages)

    def segment_many(self, documents: Iterable[Document]) -> Iterator[SegmentedDocument]:
        """Cut documents as they come, tokenizing the passages of many documents at once."""
        waiting: list[Plan] = []
        count = 0
        for document in documents:
            waiting.append(self._plan(document))
            count += len(waiting[-1].drafts) + 1
            if count >= _DRAFTS_PER_ROUND:
                yield from self._complete(waiting)
                waiting, count = [], 0
        yield from self._complete(waiting)

    def sentences(self, document: Document) -> SegmentedDocument:
        """Cut a document into its sentences, all of them; one over the token limit becomes several pieces.

        Nothing is encoded in front of them but the prompt.
        """
        return self.with_settings(unit="sentence", context="none", max_passages=None).segment(document)

    def chunks(self, document: Document, max_tokens: int = 512) -> SegmentedDocument:
        """Cut a document into consecutive chunks that fill the token limit, all of them, each inside one section."""
        every = self.with_settings(unit="chunk", context="none", max_passages=None, max_tokens=max_tokens)
        return every.segment(document)

    def repeated(self, document: Document) -> tuple[list[SectionSpan], bool]:
        """The passages that repeat, before any is cut for its tokens, and whether none is left out for that."""
        return repeats_in(document, self.repeats, self.config) if self.repeats else ([], False)

    def _plan(self, document: Document) -> Plan:
        plan, unit, places = Plan(document), self.config.unit, []
        most_tokens = (self.config.max_tokens - self._special_tokens) // CONTEXT_DIVISOR
        for section, text in enumerate(part.text for part in document.sections):
            if not text.strip():
                plan.empty_sections += 1
                continue
            context = prefix_of(self.tokenizer, document, section, self.config.context, most_tokens, self._prompt)
            if unit == "chunk":
                groups: list[Spans] = [[span] for span in self._chunk_spans(text, context)]
            else:
                sentences, cut = sentences_of(text, self.config.language)
                plan.cut_sentences.update({(section, start): begin for start, begin in cut.items()})
                groups = sentence_groups(text, sentences, self.config.passage_words)
            for group in groups:
                whole = (group[0][0], group[-1][1])
                places.append((section, *whole))
                if unit == "sentence":
                    plan.drafts.extend(Draft(plan, section, *span, (span,), context) for span in group)
                else:
                    plan.drafts.append(Draft(plan, section, *whole, () if unit == "chunk" else group, context))
        if self.repeats:
            plan.repeated, plan.keeps_repeats = self.repeats.among(document, places)
        return plan

    def _complete(self, plans: Sequence[Plan]) -> Iterator[SegmentedDocument]:
        drafts = [draft for plan in plans for draft in plan.drafts]
        while drafts:
            calls = (drafts[first : first + _TEXTS_PER_CALL] for first in range(0, len(drafts), _TEXTS_PER_CALL))
            drafts = [part for call in calls for part in self._tokenize(call)]
        for plan in plans:
            yield plan.segmented(self.config.max_passages, self._special_tokens)
            # Plan and drafts point at each other, and memory must not wait for the garbage collector.
            plan.drafts.clear()
            plan.finished.clear()

    def _tokenize(self, drafts: Sequence[Draft]) -> Iterator[Draft]:
        """Give the drafts their token ids; those over the limit come back in parts instead."""
        limit, backend = self.config.max_tokens, self.tokenizer.backend_tokenizer
        for is_long in (False, True):
            some = [draft for draft in drafts if (len(draft.text) > _LONG_CHARACTERS * limit) == is_long]
            texts = [draft.context.text + draft.text for draft in some]
            # Looking up the places takes a quarter more time.
            encodings = (backend.encode_batch if is_long else backend.encode_batch_fast)(texts)
            for draft, text, encoding in zip(some, texts, encodings, strict=True):
                ids, added = encoding.ids, self._special_tokens + draft.context.tokens
                if len(ids) > limit:
                    spans = token_spans(self.tokenizer, encoding if is_long else text, len(draft.context.text))
                    yield from _cut(draft, spans, limit - added)
                    continue
                draft.plan.finished.append(draft)
                if len(ids) > added:
                    draft.token_ids = tuple(ids)
                else:
                    draft.reason = NO_TOKENS

    def _chunk_spans(self, text: str, context: Prefix) -> Iterator[tuple[int, int]]:
        budget = self.config.max_tokens - self._special_tokens - context.tokens
        start, end = trim(text, 0, len(text)) or (0, 0)
        characters_per_token = 6.0
        while start < end:
            stop = min(end, start + int(budget * characters_per_token) + 1)
            tokens = token_spans(self.tokenizer, text[start:stop])
            if len(tokens) <= budget:
                if stop == end:
                    yield start, end
                    return
                characters_per_token *= 2
                continue
            characters_per_token = min(16.0, 1.25 * (stop - start) / len(tokens))
            place = best_place(text, start, start, tokens, range(budget, budget * 3 // 4, -1), range(budget, 0, -1))
            if place is None:
                place = stop if stop == start + 1 else character_boundary(text, start, (start + stop) // 2)
            span = trim(text, start, place)
            if span is not None:
                yield span
            start = skip_white_space(text, place, end)


def _cut(draft: Draft, tokens: Spans, budget: int) -> Iterator[Draft]:
    plan, section, sentences, context = draft.plan, draft.section, draft.sentences, draft.context
    pieces = max(2, -(-len(tokens) // budget))
    if len(sentences) > 1:
        starts = [start for start, _ in tokens]
        totals = [bisect_left(starts, end - draft.start) for _, end in sentences]
        cuts = [0, *(balanced_cuts(totals, pieces) or [len(sentences) // 2]), len(sentences)]
        for first, last in pairwise(cuts):
            group = sentences[first:last]
            yield Draft(plan, section, group[0][0], group[-1][1], group, context)
        return
    spans = cut_at_tokens(plan.document.sections[section].text, draft.start, draft.end, tokens, pieces)
    if len(spans) == 1:
        draft.reason = ONE_CHARACTER_TOO_LONG
        plan.finished.append(draft)
        return
    if sentences:
        sentence = plan.cut_sentences.get((section, draft.start), draft.start)
        plan.cut_sentences.update({(section, start): sentence for start, _ in spans[1:]})
    for span in spans:
        yield Draft(plan, section, *span, (span,) if sentences else (), context)


def repeats_in(document: Document, repeats: RepeatFilter, config: SegmentationConfig) -> tuple[list[SectionSpan], bool]:
    """The passages of a document that repeat, and whether they are so much of it that all of them count."""
    places = []
    for section, text in enumerate(part.text for part in document.sections):
        if sentences := sentences_of(text, config.language)[0]:
            groups = sentence_groups(text, sentences, config.passage_words)
            places += [(section, group[0][0], group[-1][1]) for group in groups]
    return repeats.among(document, places)


def paragraphs_of(sentences: SegmentedDocument, paragraph: Paragraph, segmenter: Segmenter) -> npt.NDArray[np.int32]:
    """Find the paragraph of every sentence: that in which it begins.

    Args:
        sentences: a document that was cut into sentences.
        paragraph: what a paragraph is (see :class:`~graphdoc.settings.document.DocumentSettings`); those of figure 3
            of the SDR paper are sections.
        segmenter: cuts documents into passages, where these are the paragraphs.

    Returns:
        ``(sentences,)``, from 0, in reading order and without gaps.
    """
    document = sentences.document
    # Where paragraphs begin in the text of every section; what stands before the first of these places is one too.
    starts: list[list[int]] = [[] for _ in document.sections]
    if paragraph == "blank_line":
        starts = [[match.end() for match in _BLANK_LINES.finditer(section.text)] for section in document.sections]
    elif paragraph == "passage":
        every = Segmenter(segmenter.tokenizer, replace(segmenter.config, unit="passage", max_passages=None))
        for passage in every.segment(document).passages:
            starts[passage.section].append(passage.start)
    places = [(span.section, bisect_right(starts[span.section], span.start)) for span in sentences.passages]
    number_of = {place: number for number, place in enumerate(dict.fromkeys(places))}
    return np.array([number_of[place] for place in places], np.int32)
