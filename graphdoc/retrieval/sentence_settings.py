"""How documents are ranked by their sentences."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypedDict, get_args

from ..errors import SettingsError
from ..runtime.text import require_one_of, require_whole
from ..similarity.hierarchical import By as BySentences
from ..similarity.hierarchical import Direction, Normalisation
from .filters import require_filter
from .places import ids_of
from .score_parts import WordsUnit
from .search import MOST_ROWS

BY_SENTENCES: tuple[str, ...] = get_args(BySentences)
# What measures best (benchmarks/results/document_ranking_dev.md); the paper's is source.
DIRECTION: Direction = "both"


class SentenceOptions(TypedDict, total=False):
    """How documents are ranked, beside their number, as :class:`SentenceSettings` describes it."""

    by: BySentences
    where: str | None
    words: float
    words_unit: WordsUnit
    pool: int | None
    candidates: Iterable[str] | None
    normalisation: Normalisation
    direction: Direction


@dataclass(frozen=True, slots=True)
class SentenceSettings:
    """How documents are ranked by their sentences.

    Args:
        k: documents wanted.
        by: ``sentences`` (SDR, equations 4 to 6), ``flat`` (every sentence to the best of the whole document),
            ``paragraphs`` (one vector each) or ``document`` (one vector of all sentences).
        where: a filter such as ``year >= 2010`` (:func:`~graphdoc.retrieval.filters.store_filter`).
        words: weight of word search in the score, 0 to 1; 0 leaves words out.
        words_unit: what word search ranks, as in :class:`~graphdoc.retrieval.search.SearchSettings`; None for
            ``document``.
        pool: how many of the documents that a hybrid search finds are ranked; None for all.
        candidates: ids of the documents that are ranked; None for all.
        normalisation: ``none``, or ``zscore`` as in the paper: scores of a paragraph are compared with those that it
            has with the documents of the index, of which a sample is taken where there are very many.
        direction: ``source`` looks for the document in the candidate, as the paper does, or ``both`` also for the
            candidate in the document, and takes the mean.

    Raises:
        SettingsError: a value is unknown, out of range or without effect, or ``pool`` and ``candidates`` are both
            given.
    """

    k: int = 10
    by: BySentences = "sentences"
    where: str | None = None
    words: float = 0.0
    words_unit: WordsUnit | None = None
    pool: int | None = None
    candidates: Iterable[str] | None = None
    normalisation: Normalisation = "none"
    direction: Direction = DIRECTION

    def __post_init__(self) -> None:
        require_whole("k", self.k, may_be_none=False)
        require_whole("pool", self.pool)
        require_one_of("by", self.by, BY_SENTENCES)
        if self.words_unit is not None:
            require_one_of("words_unit", self.words_unit, get_args(WordsUnit))
        require_one_of("normalisation", self.normalisation, get_args(Normalisation))
        require_one_of("direction", self.direction, get_args(Direction))
        if isinstance(self.words, bool) or not isinstance(self.words, int | float) or not 0 <= self.words <= 1:
            raise SettingsError(f"words={self.words!r} is the weight of word search; give a number from 0 to 1")
        if self.words_unit is not None and not self.words:
            raise SettingsError(
                f"words_unit={self.words_unit!r} has no effect without words; give words a weight (--words 0.5), or "
                "leave it out"
            )
        require_filter(self.where)
        for name, value in (("k", self.k), ("pool", self.pool or 0)):
            if value > MOST_ROWS:
                raise SettingsError(f"{name}={value} is more than {MOST_ROWS:,}; give less")
        if self.candidates is None:
            return
        if self.pool is not None:
            raise SettingsError(f"pool={self.pool} and candidates both say which documents are ranked; give one")
        ids = tuple(dict.fromkeys(ids_of(self.candidates)))
        if not ids:
            raise SettingsError("candidates is empty; give the ids of the documents to rank, or None for all")
        object.__setattr__(self, "candidates", ids)

    @property
    def ranked_by_words(self) -> WordsUnit:
        """What word search ranks."""
        return self.words_unit or "document"

    @property
    def candidate_ids(self) -> tuple[str, ...] | None:
        """Ids of the documents that are ranked, each once."""
        return None if self.candidates is None else tuple(self.candidates)
