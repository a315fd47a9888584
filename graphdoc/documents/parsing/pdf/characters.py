"""Characters of PDF files: scripts that are written from right to left, and codes that say nothing of a letter."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache

_IDEOGRAPHS = re.compile("[\u2e80-\ua4cf\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]+")
# Text, left and right edge, base line, style and direction.
Drawn = tuple[str, float, float, float, int, int]
# Hebrew, Arabic, Syriac, Thaana and N'Ko, and the presentation forms of the first two.
_RIGHT_TO_LEFT = ((0x590, 0x8FF), (0xFB1D, 0xFDFF), (0xFE70, 0xFEFE))
# Signs that stay on their side of a number.
_OF_NUMBERS = "%‰$€£¥#°"
_BRACKETS = (("(", ")"), ("[", "]"), ("{", "}"), ("«", "»"))
_NO_SPACE = re.compile(r"(?<=[(\[{«]) +| +(?=[)\]}»]|[.,;:!?](?: |$))")

# Signs that TeX's older fonts draw over or under the letter that follows, and the marks that join letters.
ACCENTS = "`´¨ˆ^˜~¯˘˙˚ˇ˝¸"
_MARKS = "\u0300\u0301\u0308\u0302\u0302\u0303\u0303\u0304\u0306\u0307\u030a\u030c\u030b\u0327"


@cache
def accented(accent: str, code: int) -> str:
    """The letter with the accent that is drawn over it, empty where there is none such."""
    letter = {0x131: "i", 0x237: "j"}.get(code) or chr(min(code, 0x10FFFF))
    joined = unicodedata.normalize("NFC", letter + _MARKS[ACCENTS.index(accent)])
    return joined if letter.isalpha() and len(joined) == 1 else ""


def with_accents_joined(
    pieces: Sequence[Drawn], capitals: Sequence[tuple[float, float, int, int]], sizes: Sequence[float]
) -> list[Drawn]:
    """Join accents above capitals, which the library gives after their line, with their letters.

    Of a capital the sum of its edges, its height, its piece and its place in it are given; sizes are those of styles.
    """
    joined, alone = list(pieces), set()
    for place, (text, left, right, base, style, direction) in enumerate(pieces):
        size = sizes[style] / 2
        for edges, height, number, at in capitals if len(text) == 1 and text in ACCENTS else ():
            letters, *_, way = piece = joined[number]
            is_above = abs(edges - left - right) < size and 0 < base - height < size and way == direction
            if is_above and letters[at : at + 1].isupper() and (letter := accented(text, ord(letters[at]))):
                joined[number] = (letters[:at] + letter + letters[at + 1 :], *piece[1:])
                alone.add(place)
                break
    return [piece for place, piece in enumerate(joined) if place not in alone]


def is_right_to_left(code: int) -> bool:
    """Whether a character is a letter or a mark of a script that is written from right to left."""
    return code > 0x58F and any(first <= code <= last for first, last in _RIGHT_TO_LEFT) and _is_letter(code)


@cache
def _is_letter(code: int) -> bool:
    return unicodedata.bidirectional(chr(code)) in ("R", "AL", "NSM")


def has_right_to_left(text: str) -> bool:
    """Whether a text has such letters."""
    return not text.isascii() and any(is_right_to_left(ord(character)) for character in text)


@cache
def is_unknown(code: int) -> bool:
    """Whether a code says nothing of the letter that is seen: a control, one for private use, one not assigned."""
    return code > 0x10FFFF or unicodedata.category(chr(code)) in ("Cc", "Co", "Cn")


def is_ideographic(text: str) -> bool:
    """Whether all of a text are letters and signs of Chinese or Japanese, which have no spaces between them."""
    return _IDEOGRAPHS.fullmatch(text) is not None


def is_private(code: int) -> bool:
    """Whether a code is one for private use, as fonts of symbols have for bullets."""
    return 0xE000 <= code <= 0xF8FF


def with_signs_swapped(text: str) -> str:
    """Swap the signs around Latin words that stand between others from right to left, whose order they follow.

    >>> with_signs_swapped(".New York-"), with_signs_swapped(",Post (1953)"), with_signs_swapped("25%")
    ('-New York.', 'Post (1953),', '25%')
    """
    letters = [place for place, sign in enumerate(text) if sign.isalnum() or sign in _OF_NUMBERS]
    if not letters:
        return text[::-1]
    first, end = letters[0], letters[-1] + 1
    # Brackets around the last or the first word belong to it.
    depth = text[first:end].count("(") - text[first:end].count(")")
    end += depth > 0 and text.startswith(")", end)
    first -= depth < 0 and text.endswith("(", 0, first)
    return text[end:][::-1] + text[first:end] + text[:first][::-1]


def paired_brackets(text: str) -> str:
    """Open and close brackets by turns, where their characters say otherwise, without spaces inside them.

    PDF files keep the sign that is seen: from right to left, an opening bracket looks like a closing one.

    >>> paired_brackets("שלום )English) שלום")
    'שלום (English) שלום'
    """
    for opening, closing in _BRACKETS:
        if text.count(opening) + text.count(closing) < 2 or _is_balanced(text, opening, closing):
            continue
        characters, is_open = list(text), False
        for place, character in enumerate(characters):
            if character in (opening, closing):
                characters[place] = closing if is_open else opening
                is_open = not is_open
        text = "".join(characters)
    return _NO_SPACE.sub("", text)


def _is_balanced(text: str, opening: str, closing: str) -> bool:
    depth = 0
    for character in text:
        depth += (character == opening) - (character == closing)
        if depth < 0:
            return False
    return depth == 0
