"""Words of scripts that put no spaces between them, joined from the pairs of characters that documents are told by."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice

from ..segmentation.terms import UNSPACED

# A pair is joined with a character that stands next to it this often, of its first occurrences; with one of grammar, as
# if so many more were.
_TOGETHER, _MOST, _MORE = 0.7, 1_000, 2
# What is longer is a sentence that several documents share: with grammar in it, and without.
_LONGEST = 8, 32
_GRAMMATICAL = frozenset("的了是在和与用来从对把被中及等为")
_HIRAGANA, _KATAKANA = "\u3041-\u309f", "\u30a1-\u30fa\u30fc-\u30ff"
# Scripts of south-east Asia: signs within a syllable, vowels that begin one, and how many characters a word has.
_SYLLABIC = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_WITHIN = "\u0e30-\u0e3a\u0e45-\u0e4e\u0eb0-\u0ebd\u0ec8-\u0ecd\u102b-\u103e\u17b4-\u17d3"
_BEFORE, _FEWEST = "เแโใไເແໂໃໄ", 4


def join_pairs(words: Sequence[str], texts: Iterable[str]) -> list[str]:
    """The words of a group, with every pair of characters in the longest string that it nearly always stands in.

    A pair grows by the character next to it that most of its occurrences have. Parts of words are left out, and what
    begins or ends in hiragana, which mostly holds a sentence together.

    Args:
        words: the most distinctive words of a group, pairs of characters among them.
        texts: what the group is named by.

    >>> join_pairs(["神经", "经网", "net"], ["神经网络", "用神经网络", "神经网络是"])
    ['神经网络', 'net']
    """
    if not any(map(UNSPACED.match, words)):
        return list(words)
    text = "\n".join(["", *(run for text in texts for run in UNSPACED.findall(text)), ""])
    joined = dict.fromkeys(_grown(word, text) if UNSPACED.match(word) else word for word in words)
    return [word for word in joined if not UNSPACED.match(word) or _is_whole(word, text, joined.keys())]


def _grown(pair: str, text: str) -> str:
    places, size = [match.start() for match in islice(re.finditer(f"(?={pair})", text), _MOST)], len(pair)
    while places:
        found = text[places[0] : places[0] + size]
        grown = []
        for step, edge in ((size, found[-1]), (-1, found[0])):
            ((character, count),) = Counter(text[place + step] for place in places).most_common(1)
            is_grammar = character in _GRAMMATICAL or _is(_HIRAGANA, character) != _is(_HIRAGANA, edge)
            if character != "\n" and count >= _TOGETHER * (len(places) + _MORE * is_grammar):
                grown.append((count, step, character))
        if not grown or size > _LONGEST[1]:
            return found
        _, step, character = max(grown)
        places = [place + min(step, 0) for place in places if text[place + step] == character]
        size += 1
    return pair


def _is_whole(word: str, text: str, others: AbstractSet[str]) -> bool:
    has_grammar = any(character in _GRAMMATICAL or _is(_HIRAGANA, character) for character in word)
    ends_within = _is(_HIRAGANA + _WITHIN, word[0]) or _is(_HIRAGANA + _BEFORE, word[-1])
    if ends_within or len(word) > _LONGEST[not has_grammar]:
        return False
    if _is(_SYLLABIC, word) and (len(word) < _FEWEST or _is(_WITHIN, text[text.find(word) + len(word)])):
        return False
    shorter = [word[1:]] * (word[0] in _GRAMMATICAL) + [word[:-1]] * (word[-1] in _GRAMMATICAL)
    if not others.isdisjoint(shorter):
        return False
    # Where other words begin or end within it, or katakana goes on, it is a part.
    size = len(word)
    crossing = [(other, start) for other in others for start in range(1 - len(other), 0) if start + len(other) < size]
    crossing += [(other, start) for other in others for start in range(1, size) if start + len(other) > size]
    places = [match.start() for match in re.finditer(word, text)]
    return any(
        not (_is(_KATAKANA, word[0]) and _is(_KATAKANA, text[place - 1]))
        and not (_is(_KATAKANA, word[-1]) and _is(_KATAKANA, text[place + size]))
        and not any(text.startswith(other, place + start) for other, start in crossing)
        for place in places
    )


def _is(script: str, text: str) -> bool:
    return re.match(f"[{script}]", text) is not None
