"""Sentences of a text, as character spans: sentencex, and a few joins it lacks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sentencex import get_sentence_boundaries

from .cutting import trim

# sentencex takes time quadratic in the characters of one call when the text is not ASCII.
_WINDOW_CHARACTERS = 8_000

_PARAGRAPH_BREAK = re.compile(r"\n[^\S\n]*+\n")

# Each of these was seen to end a sentence in sentencex 1.0.32 with language "en" where none ends. The long dots of
# "Fig.", "et al.", "i.e.", "U.S." and initials it gets right, so they are not repeated here.
_NEVER_LAST = frozenset({"approx.", "Approx.", "avg.", "Avg.", "bzw.", "evtl.", "ggf.", "Shri.", "Smt.", "Sri."})
_NOT_LAST_BEFORE_NUMBER = re.compile(
    r"(?:Abb|Abs|Alg|App|[Aa]rts|Bd|cap|[Cc]h|[Cc]hap|Cor|Def|Dez|[Ee]d|eds|[Ee]qs?|est|Exs?|[Ff]igs|Kap|lat|Lem|[Mm]ax"
    r"|Okt|[Pp]aras?|Prop|[Rr]efs|resp|[Ss]ecs|[Ss]ects?|spp?|subsp|Tab|[Tt]el|Thm|var|[Vv]ols?)\."
)
_LONGEST_ABBREVIATION = len("approx.")
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


def split_sentences(text: str, language: str = "en") -> list[tuple[int, int]]:
    """Find the sentences of a text.

    A blank line ends a sentence; a single line break counts as white space. The spans are in order, do not overlap,
    neither begin nor end with white space, and together hold every other character of the text. Time is linear in
    the length of the text.

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
        stop = next(
            (place for place in range(stop, start + _WINDOW_CHARACTERS // 2, -1) if text[place].isspace()), stop
        )
        found = _window_ends(text[start:stop], language)
        # The last sentence of a window may go on behind it, so the next window begins with it; if there is no other,
        # the sentence is longer than the window and only its end is still to be found.
        ends.extend(start + place for place in found[:-1])
        start = ends[-1] if len(found) > 1 else stop
    ends.extend(start + place for place in _window_ends(text[start:end], language))
    if not ends or ends[-1] < end:
        ends.append(end)
    return ends


def _window_ends(text: str, language: str) -> list[int]:
    marker = _LEADING_MARKER.match(text)
    skipped = marker.end() if marker else 0
    found = get_sentence_boundaries(language, text[skipped:])
    ends: list[int] = []
    previous = ""
    for boundary in found:
        sentence = boundary["text"].strip()
        if not sentence:
            continue
        if previous and _belong_together(previous, sentence):
            ends[-1] = skipped + boundary["end_index"]
        else:
            ends.append(skipped + boundary["end_index"])
        previous = sentence
    if ends:
        ends[-1] = len(text)
    return ends


def _belong_together(sentence: str, following: str) -> bool:
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
        return first.isdigit() or first.islower() or first in "(["
    if last_word == "et.":
        return following.startswith("al")
    return _DAY.fullmatch(last_word) is not None and _MONTH.match(following) is not None
