"""Splitting text into sentences, and cutting those that are too long."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from sentencex import get_sentence_boundaries

from ..documents.document import Document
from .spans import trim

# sentencex takes time quadratic in the characters of one call when the text is not ASCII.
_WINDOW_CHARACTERS = 8_000

_PARAGRAPH_BREAK = re.compile(r"\n[^\S\n]*+\n")

# Each of these was seen to end a sentence in sentencex 1.0.32 with language "en" where none ends, most of them in the
# names of courts and journals. "Fig.", "et al.", "i.e.", "U.S." and initials it gets right.
_NAMES = """
approx. Approx. avg. Avg. bzw. cert. evtl. ggf. Shri. Smt. Sri. Acad. Am. Anal. Appl. Astron. Biochem. Biol. Chem. Civ.
Clin. Comput. Crim. Elec. Environ. Eur. Evid. Geol. Geophys. Mach. Math. Natl. Nucl. Phila. Philos. Phys. Proc. Psychol.
rel. Sci. Supp. Symp. Theor. Trans. Vgl. Wm.
"""
_NEVER_LAST = frozenset(_NAMES.split())
_NOT_LAST_BEFORE_NUMBER = re.compile(
    r"(?:Abb|Abs|al|Alg|Ann|App|[Aa]rts|Bd|Bull|cap|[Cc]h|[Cc]hap|Cir|cmt|Commun|Cor|Def|Dez|[Ee]d|eds|[Ee]qs?|est|Exs?"
    r"|[Ff]igs|Kap|lat|Lem|Lett|Mass|[Mm]ax|Memo|nn|Okt|[Pp]aras?|Prop|pts|[Rr]efs|resp|Rn|[Ss]ecs|[Ss]ects?|Sess|Soc|spp?"
    r"|Stat|subsp|Tab|[Tt]el|Thm|Urt|ux|var|[Vv]ols?)\."
)
_LONGEST_ABBREVIATION = max(map(len, _NEVER_LAST))
_DAY = re.compile(r"\d{1,2}\.")
_MONTH = re.compile(
    r"(?:Jan(?:uar)?|Feb(?:ruar)?|März?|Apr(?:il)?|Mai|Juni?|Juli?|Aug(?:ust)?|Sept?(?:ember)?|Okt(?:ober)?"
    r"|Nov(?:ember)?|Dez(?:ember)?)\b"
)
_LIST_MARKER = re.compile(r"\(?(?:\d{1,3}|[A-Za-z]|[ivxlc]{1,5}|[IVXLC]{1,5})[.)]{1,2}")
_LONGEST_MARKER = len("(xviii).")
# A text that begins with "(1)" is one sentence to sentencex, however long it is.
_LEADING_MARKER = re.compile(r"\s*\(\w{1,5}\)\s*")
_OPENING = "([{<\"'“‘«„"

_MAX_SENTENCE_CHARACTERS = 2_000
# Scripts written without spaces between words: Thai and Lao, Burmese, Khmer, kana, Han.
_WITHOUT_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_CHARACTERS_PER_WORD_WITHOUT_SPACES = 2
_MAX_CHARACTERS_PER_WORD = 20

Spans = Sequence[tuple[int, int]]


def split_sentences(text: str, language: str = "en") -> list[tuple[int, int]]:
    """Find the sentences of a text.

    A blank line ends a sentence; a single line break counts as white space. The spans are in order, do not overlap,
    neither begin nor end with white space, and together hold every other character of the text. Time is linear.

    Args:
        text: any text that UTF-8 can hold.
        language: two-letter code, for the abbreviations of the language; English rules serve an unknown one.

    Returns:
        ``(start, end)`` of every sentence, in characters.

    >>> split_sentences("It rained, cf. Fig. 3. Then it stopped.")
    [(0, 22), (23, 39)]
    """
    spans = []
    for start, end in _paragraphs(text):
        begin = start
        for stop in _sentence_ends(text, start, end, language):
            span = trim(text, begin, stop)
            begin = stop
            if span is not None:
                spans.append(span)
    return spans


def _paragraphs(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for gap in _PARAGRAPH_BREAK.finditer(text):
        yield start, gap.start()
        start = gap.end()
    yield start, len(text)


def _sentence_ends(text: str, start: int, end: int, language: str) -> list[int]:
    ends: list[int] = []
    while end - start > _WINDOW_CHARACTERS:
        stop = start + _WINDOW_CHARACTERS
        stop = next((at for at in range(stop, start + _WINDOW_CHARACTERS // 2, -1) if text[at].isspace()), stop)
        window = _window_ends(text[start:stop], language)
        # The last sentence of a window may go on behind it, so the next window begins with it; if there is no other,
        # the sentence is longer than the window and only its end is still to be found.
        ends.extend(start + place for place in window[:-1])
        start = ends[-1] if len(window) > 1 else stop
    ends.extend(start + place for place in _window_ends(text[start:end], language))
    if not ends or ends[-1] < end:
        ends.append(end)
    return ends


def _window_ends(text: str, language: str) -> list[int]:
    marker = _LEADING_MARKER.match(text)
    skipped = marker.end() if marker else 0
    ends: list[int] = []
    previous = ""
    for boundary in get_sentence_boundaries(language, text[skipped:]):
        sentence = boundary["text"].strip()
        if not sentence:
            continue
        if previous and _belong_together(previous, sentence):
            ends.pop()
        ends.append(skipped + boundary["end_index"])
        previous = sentence
    if ends:
        ends[-1] = len(text)
    return ends


def _belong_together(sentence: str, following: str) -> bool:
    if sentence[-1] == "]":
        # "Roe et al. [2004] dissented."
        return following[0].islower()
    if sentence[-1] not in ".)":
        return False
    if len(sentence) <= _LONGEST_MARKER and _LIST_MARKER.fullmatch(sentence):
        return True
    last_word = sentence[-_LONGEST_ABBREVIATION - 2 :].rsplit(None, 1)[-1].lstrip(_OPENING)
    if len(last_word) > _LONGEST_ABBREVIATION:
        return False
    if last_word in _NEVER_LAST:
        return True
    first = following[0]
    if _NOT_LAST_BEFORE_NUMBER.fullmatch(last_word):
        return first.isdigit() or first.islower() or first in "([§"
    if last_word == "et.":
        return following.startswith("al")
    return _DAY.fullmatch(last_word) is not None and _MONTH.match(following) is not None


_NOT_SPACE = re.compile(r"\S")
_MARKS = frozenset({"Mn", "Me", "Mc", "Sk"})
_MAX_MARKS = 32


def balanced_cuts(totals: Sequence[int], pieces: int) -> list[int]:
    """Choose where to cut a row of units so that the pieces come out as equal as they can.

    Args:
        totals: running total of the units' lengths, one number for each unit.
        pieces: number of pieces wanted; long units can make it fewer.

    Returns:
        how many units lie before each cut, rising, without 0 and the number of units.

    >>> balanced_cuts([10, 20, 30, 40], pieces=2)
    [2]
    """
    cuts: list[int] = []
    for piece in range(1, pieces):
        ideal = totals[-1] * piece / pieces
        above = bisect_left(totals, ideal)
        cut = above if above and ideal - totals[above - 1] <= totals[above] - ideal else above + 1
        if (cuts[-1] if cuts else 0) < cut < len(totals):
            cuts.append(cut)
    return cuts


def skip_white_space(text: str, start: int, end: int) -> int:
    """First character of a span that is not white space; its end if there is none."""
    match = _NOT_SPACE.search(text, start, end)
    return match.start() if match else end


def cut_at_white_space(text: str, start: int, end: int, max_characters: int) -> list[tuple[int, int]]:
    """Cut a span into pieces of similar length, at white space, or between characters where there is none.

    Neither the span nor the pieces have white space at their edges.
    """
    pieces = []
    while end - start > max_characters:
        remaining = end - start
        target = start + -(-remaining // -(-remaining // max_characters))
        lowest = start + (target - start) // 2
        cut = next((place for place in range(target, lowest, -1) if text[place].isspace()), None)
        if cut is None:
            cut = character_boundary(text, start, target)
        pieces.append((start, start + len(text[start:cut].rstrip())))
        start = skip_white_space(text, cut, end)
    if start < end:
        pieces.append((start, end))
    return pieces


def character_boundary(text: str, start: int, place: int) -> int:
    """Move a place back so that it does not part an accent, a joiner or an emoji's modifier from its character.

    Stays at ``place`` when nothing but such marks stands within the 32 characters before it.
    """
    for candidate in range(place, max(start, place - _MAX_MARKS), -1):
        after, before = text[candidate], text[candidate - 1]
        if before != "\u200d" and after != "\u200d" and unicodedata.category(after) not in _MARKS:
            return candidate
    return place


def cut_at_tokens(text: str, start: int, end: int, tokens: Spans, pieces: int) -> list[tuple[int, int]]:
    """Cut a span into pieces with about as many tokens each, at white space nearby or else between two tokens.

    Spans of tokens count from the start of the span; a span of one character is given back as it is.
    """
    reach = len(tokens) // (4 * pieces)
    places = [start]
    for piece in range(1, pieces):
        ideal = len(tokens) * piece // pieces
        nearest = sorted(range(ideal - reach, ideal + reach + 1), key=lambda index: abs(index - ideal))
        place = best_place(text, places[-1], start, tokens, nearest, nearest)
        if place is not None and place < end:
            places.append(place)
    if len(places) == 1 and end - start > 1:
        places.append(character_boundary(text, start, (start + end) // 2))
    places.append(end)
    spans = (trim(text, first, last) for first, last in pairwise(places))
    return [span for span in spans if span is not None]


def best_place(
    text: str, after: int, offset: int, tokens: Spans, at_space: Sequence[int], anywhere: Sequence[int]
) -> int | None:
    """Find the first token, after a character, before which the text can be cut, if possible where white space stands.

    Spans of tokens count from ``offset``; both lists of tokens to try have the best first.
    """
    for candidates, needs_space in ((at_space, True), (anywhere, False)):
        for index in candidates:
            if not 0 <= index < len(tokens):
                continue
            # Tokens that share a character share its place too, so no character is ever parted.
            place = offset + tokens[index][0]
            if place <= after:
                continue
            if text[place - 1].isspace() or text[place].isspace():
                return place
            if not needs_space:
                return character_boundary(text, after, place)
    return None


def sentences_of(text: str, language: str) -> tuple[Spans, dict[int, int]]:
    """The sentences of a text, very long ones in pieces; where each later piece begins, where its sentence does."""
    pieces: list[tuple[int, int]] = []
    cut: dict[int, int] = {}
    for start, end in split_sentences(text, language):
        parts = cut_at_white_space(text, start, end, _MAX_SENTENCE_CHARACTERS)
        cut.update({part_start: start for part_start, _ in parts[1:]})
        pieces.extend(parts)
    return pieces, cut


def sentence_groups(text: str, sentences: Spans, passage_words: int) -> list[Spans]:
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


# A first sentence is looked for within this many characters.
_LONGEST = 4_000


def first_sentence(document: Document, language: str = "en") -> str:
    r"""The first sentence of a document on one line, empty if it has no text.

    >>> first_sentence(Document.from_text("The tide\nturns. Then it falls."))
    'The tide turns.'
    """
    number, (start, end) = _first_span(document, language)
    return " ".join(document.sections[number].text[start:end].split()) if end else ""


def without_first_sentence(document: Document, language: str = "en") -> Document:
    """The document without its first sentence; one that has no other is left without text.

    >>> without_first_sentence(Document.from_text("The tide turns. Then it falls.")).text
    'Then it falls.'
    """
    number, (start, end) = _first_span(document, language)
    if not end:
        return document
    sections = list(document.sections)
    text = sections[number].text
    sections[number] = replace(sections[number], text=(text[:start] + text[end:]).strip())
    return replace(document, sections=tuple(sections))


def _first_span(document: Document, language: str) -> tuple[int, tuple[int, int]]:
    for number, section in enumerate(document.sections):
        if spans := split_sentences(section.text[:_LONGEST], language):
            return number, spans[0]
    return 0, (0, 0)
