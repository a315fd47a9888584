"""Cutting documents into passages of whole sentences."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import numpy.typing as npt

from ..documents.document import Document
from ..errors import DocumentError, SettingsError
from ..runtime.text import described, require_one_of, require_whole
from ..settings.document import Context, Paragraph, Unit
from .context import (
    NO_CONTEXT,
    NO_TOKENS,
    ONE_CHARACTER_TOO_LONG,
    SHARE,
    Draft,
    Plan,
    Prefix,
    prefix_of,
    token_ids,
    token_spans,
    without_limits,
)
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
from .spans import SegmentedDocument, Span

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


_MAX_SENTENCE_CHARACTERS = 2_000
# Scripts written without spaces between words: Thai and Lao, Burmese, Khmer, kana, Han.
_WITHOUT_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_CHARACTERS_PER_WORD_WITHOUT_SPACES = 2
_MAX_CHARACTERS_PER_WORD = 20


def sentence_groups(plan: Plan, passage_words: int, language: str) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """The sentences of every passage of a document, with its section.

    Args:
        plan: the document; its empty sections and cut sentences are noted there.
        passage_words: words of a passage, about.
        language: a two-letter code.
    """
    for section, text in enumerate(one.text for one in plan.document.sections):
        sentences = _sentences(plan, section, language)
        if not sentences:
            continue
        without_spaces = not text.isascii() and _WITHOUT_SPACES.search(text) is not None
        words = list(accumulate(_count_words(text[start:end], without_spaces) for start, end in sentences))
        passages = max(1, int(words[-1] / passage_words + 0.5))
        first = 0
        for last in [*balanced_cuts(words, passages), len(sentences)]:
            yield section, sentences[first:last]
            first = last


def repeated_in(document: Document, repeats: RepeatFilter, config: SegmentationConfig) -> tuple[list[Place], bool]:
    """The passages of a document that repeat in its corpus, and whether they are so much of it that all of them count.

    Args:
        document: the document.
        repeats: what repeats in its corpus.
        config: how documents are cut into passages.
    """
    groups = sentence_groups(_plan(document), config.passage_words, config.language)
    return repeats.among(document, [(section, group[0][0], group[-1][1]) for section, group in groups])


def _sentences(plan: Plan, section: int, language: str) -> list[tuple[int, int]]:
    text = plan.document.sections[section].text
    sentences = split_sentences(text, language)
    if not sentences:
        plan.empty_sections += 1
    if all(end - start <= _MAX_SENTENCE_CHARACTERS for start, end in sentences):
        return sentences
    pieces = []
    for start, end in sentences:
        parts = cut_at_white_space(text, start, end, _MAX_SENTENCE_CHARACTERS)
        plan.cut_sentences.update({(section, part_start): start for part_start, _ in parts[1:]})
        pieces.extend(parts)
    return pieces


def _count_words(text: str, without_spaces: bool) -> int:
    words = len(text.split())
    if without_spaces:
        words += len(_WITHOUT_SPACES.findall(text)) // _CHARACTERS_PER_WORD_WITHOUT_SPACES
    # Words no one would write (encoded files, runs of dashes) count by their length, or a passage could be endless.
    return max(words, len(text) // _MAX_CHARACTERS_PER_WORD)


UNITS: tuple[str, ...] = get_args(Unit)
CONTEXTS: tuple[str, ...] = get_args(Context)

_TEXTS_PER_CALL = 2_048
_DRAFTS_PER_ROUND = 1_024


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
            wherever sentences end; ``sentence`` cuts at every sentence end. For the last two ``passage_words`` has no
            meaning.
        context: what is encoded in front of every passage, chunk or sentence: the ``title`` of the document, the
            ``heading`` of its section, ``both`` or ``none``.
        prompt: what is encoded in front of that, always the same, such as ``passage: ``.

    Raises:
        SettingsError: a value is out of range.
    """

    passage_words: int = 100
    max_tokens: int = 256
    max_passages: int | None = 100
    language: str = "en"
    unit: Unit = "passage"
    context: Context = "none"
    prompt: str = ""

    def __post_init__(self) -> None:
        require_one_of("unit", self.unit, UNITS)
        require_one_of("context", self.context, CONTEXTS)
        require_whole("passage_words", self.passage_words, may_be_none=False)
        require_whole("max_tokens", self.max_tokens, least=8, may_be_none=False)
        require_whole("max_passages", self.max_passages)
        if not isinstance(self.language, str) or not self.language:
            raise SettingsError(f"language is {described(self.language)}, and must be a two-letter code")


class Segmenter:
    """Cuts documents into passages, sentences or chunks that keep to a tokenizer's limit, and tokenises them.

    Text that gives no tokens at all (a section of nothing but zero-width characters, for some tokenizers) is left out
    under the reason ``"no tokens"``.

    Args:
        tokenizer: a fast tokenizer of transformers.
        config: sizes and limits.
        repeats: what is repeated in the corpus that the documents are of; passages made of it are left out under the
            reason ``"repeated"``, and sentences in them. None leaves nothing out.

    Raises:
        SettingsError: it is no fast tokenizer, or the token limit does not suit it.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerFast,
        config: SegmentationConfig | None = None,
        repeats: RepeatFilter | None = None,
    ) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise SettingsError(f"tokenizer is {described(tokenizer)}; give a fast one of transformers")
        if not isinstance(config, SegmentationConfig | None):
            raise SettingsError(f"config is {described(config)}; give a SegmentationConfig")
        self.tokenizer = tokenizer
        without_limits(tokenizer)
        self.config = config or SegmentationConfig()
        self.repeats = repeats
        self._special_tokens = tokenizer.num_special_tokens_to_add()
        prompt = self.config.prompt
        # White space at the end belongs to the token that follows.
        self._prompt = Prefix(prompt, len(token_spans(tokenizer, prompt.rstrip()))) if prompt else NO_CONTEXT
        self._check_limit(self.config.max_tokens)
        if 2 * self._prompt.tokens > self.config.max_tokens:
            raise SettingsError(
                f"a prompt of {self._prompt.tokens} tokens leaves too little of max_tokens={self.config.max_tokens}"
            )

    def segment(self, document: Document) -> SegmentedDocument:
        """Cut a document into passages of about ``passage_words`` words.

        Passages end where a sentence ends, stay inside a section and differ little in length within it. One over the
        token limit is cut at sentence ends; a single sentence over the limit at white space, or between tokens where
        there is none. With chunks as the unit the passages are those of :meth:`chunks`, with sentences those of
        :meth:`sentences`.
        """
        return next(self.segment_many([document]))

    def segment_many(self, documents: Iterable[Document]) -> Iterator[SegmentedDocument]:
        """Cut documents into passages as they come, tokenising the passages of many documents at once.

        Raises:
            DocumentError: something is no document.
        """
        given: Any = documents
        if not isinstance(given, Iterable):
            raise DocumentError(f"the documents are {described(given)}; give a list of Document")
        waiting: list[Plan] = []
        count = 0
        for document in documents:
            plan = _plan(document)
            if self.config.unit == "chunk":
                self._add_chunks(plan, self.config.max_tokens, with_context=True)
            elif self.config.unit == "sentence":
                self._add_sentences(plan, with_context=True)
            else:
                self._add_passages(plan)
                self._mark_repeats(plan, [(one.section, one.start, one.end) for one in plan.drafts])
            waiting.append(plan)
            count += len(plan.drafts) + 1
            if count >= _DRAFTS_PER_ROUND:
                yield from self._complete(waiting, self.config.max_tokens, self.config.max_passages)
                waiting, count = [], 0
        yield from self._complete(waiting, self.config.max_tokens, self.config.max_passages)

    def sentences(self, document: Document) -> SegmentedDocument:
        """Cut a document into its sentences, all of them; one over the token limit becomes several pieces.

        Nothing is encoded in front of them.
        """
        plan = _plan(document)
        self._add_sentences(plan)
        return next(self._complete([plan], self.config.max_tokens, None))

    def chunks(self, document: Document, max_tokens: int = 512) -> SegmentedDocument:
        """Cut a document into consecutive chunks that fill the token limit, all of them, each inside one section.

        A chunk ends at the last white space within the limit if that leaves it three quarters full, otherwise between
        two tokens. Source: CoLDE, section 3.1.

        Args:
            document: the document to cut.
            max_tokens: limit of one chunk, special tokens included.

        Raises:
            SettingsError: the limit does not suit the tokenizer.
        """
        self._check_limit(max_tokens)
        plan = _plan(document)
        self._add_chunks(plan, max_tokens)
        return next(self._complete([plan], max_tokens, None))

    def _check_limit(self, max_tokens: int) -> None:
        require_whole("max_tokens", max_tokens, least=self._special_tokens + 1, may_be_none=False)
        if max_tokens > (longest := self.tokenizer.model_max_length):
            raise SettingsError(f"max_tokens={max_tokens} is over the {longest} that the tokenizer's model takes")

    def _context(self, plan: Plan, section: int, max_tokens: int) -> Prefix:
        """What is encoded in front of the passages of a section."""
        if self.config.context == "none":
            return self._prompt
        context = prefix_of(
            plan.document,
            section,
            self.config.context,
            (max_tokens - self._special_tokens) // SHARE,
            lambda text: token_spans(self.tokenizer, text),
        )
        prompt = self._prompt
        return Prefix(prompt.text + context.text, prompt.tokens + context.tokens, context.is_shortened)

    def repeated(self, document: Document) -> tuple[list[Place], bool]:
        """The passages of a document that repeat, before any is cut for its tokens, and whether they count.

        Returns:
            Section, first character in its text, and one past the last, of each; and whether they are so much of the
            document that none is left out.
        """
        if not self.repeats:
            return [], False
        return repeated_in(document, self.repeats, self.config)

    def _mark_repeats(self, plan: Plan, places: Sequence[Place]) -> None:
        """Note which of the pieces that a document consists of repeat."""
        if self.repeats:
            plan.repeated, plan.keeps_repeats = self.repeats.among(plan.document, places)

    def _add_sentences(self, plan: Plan, *, with_context: bool = False) -> None:
        passages = []
        for section, group, context in self._groups(plan, with_context):
            plan.drafts.extend(Draft(plan, section, *span, (span,), context) for span in group)
            passages.append((section, group[0][0], group[-1][1]))
        self._mark_repeats(plan, passages)

    def _add_passages(self, plan: Plan) -> None:
        for section, group, context in self._groups(plan, with_context=True):
            plan.drafts.append(Draft(plan, section, group[0][0], group[-1][1], group, context))

    def _groups(self, plan: Plan, with_context: bool) -> Iterator[tuple[int, list[tuple[int, int]], Prefix]]:
        """The section and sentences of every passage, and what is encoded in front of it."""
        context, of = self._prompt, -1
        for section, group in sentence_groups(plan, self.config.passage_words, self.config.language):
            if with_context and section != of:
                context, of = self._context(plan, section, self.config.max_tokens), section
            yield section, group, context

    def _add_chunks(self, plan: Plan, max_tokens: int, *, with_context: bool = False) -> None:
        for section, text in enumerate(one.text for one in plan.document.sections):
            whole = trim(text, 0, len(text))
            if whole is None:
                plan.empty_sections += 1
                continue
            context = self._context(plan, section, max_tokens) if with_context else self._prompt
            spans = self._chunk_spans(text, *whole, max_tokens - self._special_tokens - context.tokens)
            plan.drafts.extend(Draft(plan, section, *span, (), context) for span in spans)
        self._mark_repeats(plan, [(one.section, one.start, one.end) for one in plan.drafts])

    def _complete(
        self, plans: Sequence[Plan], max_tokens: int, max_passages: int | None
    ) -> Iterator[SegmentedDocument]:
        drafts = [draft for plan in plans for draft in plan.drafts]
        while drafts:
            parts: list[Draft] = []
            for first in range(0, len(drafts), _TEXTS_PER_CALL):
                parts.extend(self._tokenise(drafts[first : first + _TEXTS_PER_CALL], max_tokens))
            drafts = parts
        for plan in plans:
            yield plan.segmented(max_passages, self._special_tokens)
            # Plan and drafts point at each other, and memory must not wait for the garbage collector.
            plan.drafts.clear()
            plan.finished.clear()

    def _tokenise(self, drafts: Sequence[Draft], max_tokens: int) -> Iterator[Draft]:
        """Give the drafts their token ids; those over the limit come back in parts instead."""
        texts = [draft.context.text + draft.text for draft in drafts]
        for draft, text, ids in zip(drafts, texts, token_ids(self.tokenizer, texts), strict=True):
            own = self._special_tokens + draft.context.tokens
            if len(ids) > max_tokens:
                spans = token_spans(self.tokenizer, text, len(draft.context.text))
                yield from self._cut(draft, spans, max_tokens - own)
                continue
            draft.plan.finished.append(draft)
            if len(ids) > own:
                draft.token_ids = tuple(ids)
            else:
                draft.reason = NO_TOKENS

    def _cut(self, draft: Draft, tokens: Sequence[tuple[int, int]], budget: int) -> Iterator[Draft]:
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

    def _chunk_spans(self, text: str, start: int, end: int, budget: int) -> Iterator[tuple[int, int]]:
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


def _plan(document: Document) -> Plan:
    if not isinstance(document, Document):
        raise DocumentError(f"{described(document)} is no document; make one with Document.from_text")
    return Plan(document)


_BLANK_LINES = re.compile(r"\n[^\S\n]*\n\s*")


def paragraph_numbers(
    sentences: SegmentedDocument, paragraph: Paragraph, segmenter: Segmenter
) -> npt.NDArray[np.int32]:
    """Find the paragraph of every sentence.

    A sentence belongs to the paragraph that it begins in. Paragraphs without a sentence have no number. The paragraphs
    of figure 3 of the SDR paper are sections.

    Args:
        sentences: a document that was cut into sentences.
        paragraph: what a paragraph is (see :class:`~graphdoc.settings.document.DocumentSettings`).
        segmenter: cuts documents into passages, where these are the paragraphs.

    Returns:
        ``(sentences,)``, from 0, in reading order and without gaps.
    """
    starts = _STARTS[paragraph](sentences, segmenter)
    found = [(span.section, bisect_right(starts[span.section], span.start)) for span in sentences.passages]
    number_of = {place: number for number, place in enumerate(dict.fromkeys(found))}
    return np.array([number_of[place] for place in found], np.int32)


def _of_sections(sentences: SegmentedDocument, segmenter: Segmenter) -> list[list[int]]:
    return [[] for _ in sentences.document.sections]


def _of_blank_lines(sentences: SegmentedDocument, segmenter: Segmenter) -> list[list[int]]:
    return [[match.end() for match in _BLANK_LINES.finditer(section.text)] for section in sentences.document.sections]


def _of_passages(sentences: SegmentedDocument, segmenter: Segmenter) -> list[list[int]]:
    cut = Segmenter(segmenter.tokenizer, replace(segmenter.config, unit="passage", max_passages=None))
    passages: Sequence[Span] = cut.segment(sentences.document).passages
    starts: list[list[int]] = [[] for _ in sentences.document.sections]
    for passage in passages:
        starts[passage.section].append(passage.start)
    return starts


# Where paragraphs begin in the text of every section; what stands before the first of these places is one too.
_STARTS: dict[Paragraph, Callable[[SegmentedDocument, Segmenter], list[list[int]]]] = {
    "section": _of_sections,
    "blank_line": _of_blank_lines,
    "passage": _of_passages,
}
