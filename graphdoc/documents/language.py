"""In which language a text is, by py3langid (M. Lui and T. Baldwin, langid.py, 2012), where it can be told."""

from __future__ import annotations

from functools import cache
from typing import Any

# Letters that are looked at, and without which nothing is said.
_MOST_CHARACTERS, _FEWEST_LETTERS = 1_500, 100
# Its confidence is calibrated; names and code in a text cost some of it.
_CONFIDENT = 0.9


def language_of(text: str) -> str | None:
    """The language of a text, a two-letter code; None where it is short or cannot be told.

    Args:
        text: the text, of which the middle is looked at.

    >>> language_of("Der Ausschuss traf sich am Montag, um über die neue Brücke über den Fluss zu sprechen. " * 4)
    'de'
    >>> language_of("Der Ausschuss")
    """
    part = sample(text)
    if part is None:
        return None
    language, confidence = _identifier().classify(part)
    # It calls what is in no language "zxx".
    return str(language) if confidence >= _CONFIDENT and language != "zxx" else None


def sample(text: str) -> str | None:
    """The part of a text by which its language is told, its middle; None where that has too few letters."""
    start = max(0, (len(text) - _MOST_CHARACTERS) // 2)
    part = text[start : start + _MOST_CHARACTERS]
    return part if sum(map(str.isalpha, part)) >= _FEWEST_LETTERS else None


@cache
def _identifier() -> Any:
    # Half a second, once.
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
