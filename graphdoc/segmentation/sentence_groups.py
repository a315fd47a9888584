"""The sentences that a passage is made of, before any is cut for its tokens; no tokenizer is needed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate

from .cutting import balanced_cuts, cut_at_white_space
from .drafts import Plan
from .repeats import LeavesOut, Place
from .sentences import split_sentences

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


def repeated_in(plan: Plan, repeats: LeavesOut, passage_words: int, language: str) -> tuple[list[Place], bool]:
    """The passages of a document that repeat, and whether they are so much of it that all of them count.

    Args:
        plan: the document.
        repeats: what repeats in its corpus.
        passage_words: words of a passage, about.
        language: a two-letter code.
    """
    groups = sentence_groups(plan, passage_words, language)
    return repeats.among(plan.document, [(section, group[0][0], group[-1][1]) for section, group in groups])


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
