"""How texts become terms for word search, and the formula by which terms count."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from typing import Any

# Languages that LanceDB can reduce to stems, by the two-letter codes that documents are cut with.
_STEMMED = {
    "ar": "Arabic", "da": "Danish", "de": "German", "el": "Greek", "en": "English", "es": "Spanish", "fi": "Finnish",
    "fr": "French", "hu": "Hungarian", "it": "Italian", "nl": "Dutch", "no": "Norwegian", "pt": "Portuguese",
    "ro": "Romanian", "ru": "Russian", "sv": "Swedish", "ta": "Tamil", "tr": "Turkish",
}  # fmt: skip
# Scripts without spaces between words are cut by a dictionary.
_WITHOUT_SPACES = ("ja", "km", "lo", "my", "th", "zh")
# Processes that are forked to cut documents never search, and an index refuses to be used in a fork: no warning.
warnings.filterwarnings("ignore", "lancedb fork support", RuntimeWarning)


@dataclass(frozen=True, slots=True)
class WordSettings:
    """How texts become terms.

    Args:
        language: language of stems and stop words, in English, or an empty string for none.
        stem: whether words are reduced to their stems.
        stop_words: whether stop words are searched for like all others.
        tokenizer: how words are found, as LanceDB calls it.
        formula: the formula: BM25 with k1 = 1.2 and b = 0.75, as in Lucene.
    """

    language: str = "English"
    stem: bool = True
    stop_words: bool = False
    tokenizer: str = "simple"
    formula: str = "bm25 k1=1.2 b=0.75"

    @classmethod
    def of(cls, language: str) -> WordSettings:
        """The settings that suit a language, given as a two-letter code.

        >>> WordSettings.of("de").language, WordSettings.of("ja").tokenizer
        ('German', 'icu')
        """
        name = _STEMMED.get(language.partition("-")[0].lower(), "")
        tokenizer = "icu" if language.partition("-")[0].lower() in _WITHOUT_SPACES else "simple"
        return cls(name, stem=bool(name), stop_words=not name, tokenizer=tokenizer)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return asdict(self)

    def lance(self) -> Any:
        """The same for LanceDB."""
        from lancedb.index import FTS

        return FTS(
            language=self.language or "English",
            stem=self.stem,
            remove_stop_words=not self.stop_words,
            base_tokenizer=self.tokenizer,
        )
