"""Cutting documents into passages of whole sentences, into sentences, or into chunks."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..documents.document import Document
from ..errors import SettingsError
from ..settings.document import Context, Paragraph, Unit
from .context import SHARE, Draft, Plan, Prefix, prefix_of, token_ids, token_spans, without_limits
from .repeats import Place, RepeatFilter
from .sentences import (
    balanced_cuts,
    best_place,
    character_boundary,
    cut_at_tokens,
    cut_at_white_space,
    skip_white_space,
    split_sentences,
    trim,
)
from .spans import NO_TOKENS, ONE_CHARACTER_TOO_LONG, SegmentedDocument

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_MAX_SENTENCE_CHARACTERS = 2_000
# Scripts written without spaces between words: Thai and Lao, Burmese, Khmer, kana, Han.
_WITHOUT_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_CHARACTERS_PER_WORD_WITHOUT_SPACES = 2
_MAX_CHARACTERS_PER_WORD = 20
_BLANK_LINES = re.compile(r"\n[^\S\n]*\n\s*")
_TEXTS_PER_CALL = 2_048
_DRAFTS_PER_ROUND = 1_024

Sentences = Sequence[tuple[int, int]]


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


class Segmenter:
    """Cuts documents into passages, sentences or chunks that keep to a tokenizer's limit, and tokenises them.

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

    def segment_many(self, documents: Iterable[Document]) -> Iterator[SegmentedDocument]:
        """Cut documents as they come, tokenising the passages of many documents at once."""
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
        """Cut a document into consecutive chunks that fill the token limit, all of them, each inside one section.

        Args:
            document: the document to cut.
            max_tokens: limit of one chunk, special tokens included.

        Raises:
            SettingsError: the limit does not suit the tokenizer.
        """
        every = self.with_settings(unit="chunk", context="none", max_passages=None, max_tokens=max_tokens)
        return every.segment(document)

    def repeated(self, document: Document) -> tuple[list[Place], bool]:
        """The passages of a document that repeat, before any is cut for its tokens, and whether they count.

        Returns:
            Section, first character in its text, and one past the last, of each; and whether they are so much of the
            document that none is left out.
        """
        return repeated_in(document, self.repeats, self.config) if self.repeats else ([], False)

    def _plan(self, document: Document) -> Plan:
        """What of a document is to be tokenised."""
        plan, unit, places = Plan(document), self.config.unit, []
        for section, text in enumerate(part.text for part in document.sections):
            if not text.strip():
                plan.empty_sections += 1
                continue
            context = self._context(document, section)
            if unit == "chunk":
                groups: list[Sentences] = [[span] for span in self._chunk_spans(text, context)]
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

    def _context(self, document: Document, section: int) -> Prefix:
        """What is encoded in front of the passages of a section."""
        most = (self.config.max_tokens - self._special_tokens) // SHARE
        context = prefix_of(self.tokenizer, document, section, self.config.context, most)
        prompt = self._prompt
        return Prefix(prompt.text + context.text, prompt.tokens + context.tokens, context.is_shortened)

    def _complete(self, plans: Sequence[Plan]) -> Iterator[SegmentedDocument]:
        drafts = [draft for plan in plans for draft in plan.drafts]
        while drafts:
            parts: list[Draft] = []
            for first in range(0, len(drafts), _TEXTS_PER_CALL):
                parts.extend(self._tokenise(drafts[first : first + _TEXTS_PER_CALL]))
            drafts = parts
        for plan in plans:
            yield plan.segmented(self.config.max_passages, self._special_tokens)
            # Plan and drafts point at each other, and memory must not wait for the garbage collector.
            plan.drafts.clear()
            plan.finished.clear()

    def _tokenise(self, drafts: Sequence[Draft]) -> Iterator[Draft]:
        """Give the drafts their token ids; those over the limit come back in parts instead."""
        texts = [draft.context.text + draft.text for draft in drafts]
        for draft, text, ids in zip(drafts, texts, token_ids(self.tokenizer, texts), strict=True):
            added = self._special_tokens + draft.context.tokens
            if len(ids) > self.config.max_tokens:
                spans = token_spans(self.tokenizer, text, len(draft.context.text))
                yield from _cut(draft, spans, self.config.max_tokens - added)
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


def _cut(draft: Draft, tokens: Sentences, budget: int) -> Iterator[Draft]:
    """Parts of a draft over the token limit."""
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


def sentences_of(text: str, language: str) -> tuple[Sentences, dict[int, int]]:
    """The sentences of a text, very long ones in pieces; where each later piece begins, where its sentence does."""
    pieces: list[tuple[int, int]] = []
    cut: dict[int, int] = {}
    for start, end in split_sentences(text, language):
        parts = cut_at_white_space(text, start, end, _MAX_SENTENCE_CHARACTERS)
        cut.update({part_start: start for part_start, _ in parts[1:]})
        pieces.extend(parts)
    return pieces, cut


def sentence_groups(text: str, sentences: Sentences, passage_words: int) -> list[Sentences]:
    """The sentences of every passage of a section, passages of about ``passage_words`` words."""
    without_spaces = not text.isascii() and _WITHOUT_SPACES.search(text) is not None
    words = list(accumulate(_count_words(text[start:end], without_spaces) for start, end in sentences))
    cuts = balanced_cuts(words, max(1, int(words[-1] / passage_words + 0.5)))
    return [sentences[first:last] for first, last in pairwise([0, *cuts, len(sentences)])]


def _count_words(text: str, without_spaces: bool) -> int:
    words = len(text.split())
    if without_spaces:
        words += len(_WITHOUT_SPACES.findall(text)) // _CHARACTERS_PER_WORD_WITHOUT_SPACES
    # Words no one would write (encoded files, runs of dashes) count by their length, or a passage could be endless.
    return max(words, len(text) // _MAX_CHARACTERS_PER_WORD)


def repeated_in(document: Document, repeats: RepeatFilter, config: SegmentationConfig) -> tuple[list[Place], bool]:
    """The passages of a document that repeat in its corpus, and whether they are so much of it that all of them count.

    Args:
        document: the document.
        repeats: what repeats in its corpus.
        config: how documents are cut into passages.
    """
    places = []
    for section, text in enumerate(part.text for part in document.sections):
        if sentences := sentences_of(text, config.language)[0]:
            groups = sentence_groups(text, sentences, config.passage_words)
            places += [(section, group[0][0], group[-1][1]) for group in groups]
    return repeats.among(document, places)


def paragraph_numbers(
    sentences: SegmentedDocument, paragraph: Paragraph, segmenter: Segmenter
) -> npt.NDArray[np.int32]:
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
