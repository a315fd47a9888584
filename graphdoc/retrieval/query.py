"""A query: a text, or a whole document, as words and as a vector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..documents.document import Document
from ..documents.section import clean_text
from ..encoder import DocumentEncoder
from ..errors import SettingsError
from ..runtime.text import described
from .lance import LanceStore
from .rows import whole_text
from .terms import best_words, terms_of, words_of

Vector = npt.NDArray[np.float32]

MOST_QUERY_WORDS = 1_000
# A whole document as a query of words takes long, and most of its words say little.
DOCUMENT_WORDS = 60
_SAMPLED_PASSAGES = 4_000


@dataclass(frozen=True, slots=True)
class Query:
    """What is searched for.

    Args:
        text: the words of the query; of a document the words that say most about it.
        shown: the query as people read it.
        id: id of the document that is asked with; None for a text.
        title: its title.
        vector: computes the vector ``(hidden,)`` when it is needed.
        warnings: what was left out.
    """

    text: str
    shown: str
    id: str | None
    title: str
    vector: Callable[[], Vector]
    warnings: tuple[str, ...] = ()


def query_of(
    value: object, store: LanceStore, encoder: Callable[[], DocumentEncoder], statistics: Statistics
) -> Query:
    """Make a query of a text or a document.

    Args:
        value: the text, or the document.
        store: makes terms of texts.
        encoder: gives the encoder when a vector is needed.
        statistics: how common terms are.

    Raises:
        SettingsError: it is neither, or there is nothing in it.
    """
    if isinstance(value, Document):
        text, _ = whole_text(value)
        words = words_of(text, store.tokens)
        best = best_words(words, text, statistics.frequencies, statistics.passages, DOCUMENT_WORDS)
        return Query(" ".join(best), value.text, value.id, value.title, lambda: encoder().encode_levels(value).vector)
    if not isinstance(value, str):
        raise SettingsError(f"the query is {described(value)}; give a text or a Document")
    text = " ".join(clean_text(value).split())
    if not text:
        raise SettingsError("the query is empty; give some words, or a document")
    words_given = text.split()
    warnings = []
    if len(words_given) > MOST_QUERY_WORDS:
        left_out = len(words_given) - MOST_QUERY_WORDS
        warnings.append(
            f"word search takes the first {MOST_QUERY_WORDS:,} words of a query, {left_out:,} were left out; search "
            "with a document instead"
        )
    return Query(
        " ".join(words_given[:MOST_QUERY_WORDS]),
        text,
        None,
        "",
        lambda: np.asarray(encoder().encode_query(text), np.float32),
        tuple(warnings),
    )


class Statistics:
    """How many passages hold a term, counted in a sample of an index.

    Args:
        store: the index.
    """

    def __init__(self, store: LanceStore) -> None:
        self._store = store
        self._version = -1
        self._frequencies: dict[str, int] = {}
        self.passages = 0

    @property
    def frequencies(self) -> dict[str, int]:
        """Passages of the sample that hold a term, by term."""
        state: Any = self._store.state()
        if state.version != self._version:
            self._count(state.passages)
            self._version = state.version
        return self._frequencies

    def _count(self, passages: int) -> None:
        texts: list[str] = []
        every = max(1, passages // _SAMPLED_PASSAGES)
        seen = 0
        for batch in self._store.batches(["text"], "level = 'passage'"):
            values = batch.column("text")
            texts += [values[place].as_py() for place in range(-seen % every, len(values), every)]
            seen += len(values)
        self._frequencies, self.passages = {}, len(texts)
        for terms in terms_of(texts, self._store.tokens):
            for term in set(terms):
                self._frequencies[term] = self._frequencies.get(term, 0) + 1
