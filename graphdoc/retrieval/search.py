"""Search by words and vectors: candidates, grouped to documents, fused, and shown with their best passages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, TypedDict, get_args

import numpy as np
import numpy.typing as npt

from ..errors import RetrievalError, SettingsError
from ..runtime.text import require_one_of, require_whole
from ..similarity.hierarchical import By as BySentences
from ..similarity.hierarchical import Direction, Normalisation
from .filters import store_filter
from .fusion import BEST_PASSAGES, FUSIONS, Fused, Fusion, Ranking, fuse
from .lance import DOCUMENT, IS_DOCUMENT, PASSAGE, LanceStore, all_of, is_one_of, quoted
from .results import Explanation, Hit, PassageHit, PassagePart, TermPart
from .table import field_columns, filter_columns, ids_of, key_of, vectors_of
from .terms import Query, counted_words, words_of

Unit = Literal["passage", "document"]
WordsUnit = Literal["passage", "document", "both"]
By = Literal["hybrid", "words", "vectors"]
BY_PASSAGES: tuple[str, ...] = get_args(By)
BY_SENTENCES: tuple[str, ...] = get_args(BySentences)
MOST_ROWS = 10_000_000
# Each ranking, the column that it searches by what is ranked.
RANKINGS: dict[str, dict[str, str]] = {
    "words": {"passage": "text", "document": "document_text"},
    "vectors": {"passage": "passage_vector", "document": "document_vector"},
}
# With more rows the three best passages of a document are more often all found; by words they cost little time.
_DEPTH = {"words": 1_000, "vectors": 200}
_CHOICES: dict[str, tuple[str, ...]] = {
    "by": (*BY_PASSAGES, *BY_SENTENCES),
    "fusion": FUSIONS,
    "words_unit": get_args(WordsUnit),
    "vectors_unit": get_args(Unit),
    "normalisation": get_args(Normalisation),
    "direction": get_args(Direction),
}
# By ranking, document and number of the passage.
_PassageScores = Mapping[str, Mapping[str, Mapping[int, float]]]


class SearchOptions(TypedDict, total=False):
    """How a search is made, beside the number of documents, as :class:`SearchSettings` describes it."""

    by: By | BySentences
    where: str | None
    weight: float | None
    words_unit: WordsUnit | None
    passages: int
    fusion: Fusion | None
    vectors_unit: Unit | None
    depth: int | None
    pool: int | None
    candidates: Iterable[str] | None
    normalisation: Normalisation
    direction: Direction


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """How a search is made.

    Args:
        k: documents wanted.
        by: ``words``, ``vectors`` or ``hybrid`` for both; or with a document by its sentences: ``sentences`` (SDR,
            equations 4 to 6), ``flat`` (every sentence to the best of the whole document), ``paragraphs`` (one vector
            each) or ``document`` (one vector of all sentences).
        where: a filter such as ``year >= 2010`` (:func:`~graphdoc.retrieval.filters.store_filter`).
        weight: weight of words in a weighted sum of scores, 0 to 1; the other ranking has the rest. None for 0.5 of
            both rankings, and for no words beside sentences.
        words_unit: whether word search ranks passages, of which the best three count, whole documents, or both added
            up; None for passages, and for documents beside sentences.
        passages: passages shown of each document. Not by sentences, nor are the three that follow.
        fusion: how both rankings are fused; None for ``weighted`` where there is a weight, else ``reciprocal_rank``.
        vectors_unit: whether vector search ranks passages or whole documents; None for passages where the query is a
            text, and for documents where it is a document.
        depth: rows that each ranking fetches; None for 20 a document wanted, and at least 1,000 by words and 200 by
            vectors.
        pool: how many of the documents that a hybrid search finds are ranked by sentences; None for all. By sentences
            alone, as are the three that follow.
        candidates: ids of the documents that are ranked; None for all.
        normalisation: ``none`` or ``zscore`` as in the paper: scores of a paragraph are compared with those that it
            has with the documents of the index, of which a sample is taken where there are very many.
        direction: ``source`` looks for the document in the candidate, as the paper does, or ``both`` also for the
            candidate in the document, and takes the mean, which measures best
            (benchmarks/results/document_ranking_dev.md).

    Raises:
        SettingsError: a value is unknown or out of range.
    """

    k: int = 10
    by: By | BySentences = "hybrid"
    where: str | None = None
    weight: float | None = None
    words_unit: WordsUnit | None = None
    passages: int = 3
    fusion: Fusion | None = None
    vectors_unit: Unit | None = None
    depth: int | None = None
    pool: int | None = None
    candidates: Iterable[str] | None = None
    normalisation: Normalisation = "none"
    direction: Direction = "both"

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) is not None:
                require_one_of(name, getattr(self, name), choices)
        for name in ("k", "passages", "depth", "pool"):
            value = getattr(self, name)
            require_whole(name, value, least=0 if name == "passages" else 1, may_be_none=name in ("depth", "pool"))
            if (value or 0) > MOST_ROWS:
                raise SettingsError(f"{name}={value} is more than {MOST_ROWS:,}; give less")
        if self.weight is not None and not 0 <= self.weight <= 1:
            raise SettingsError(f"weight={self.weight!r} is the weight of words; give a number from 0 to 1")
        if self.candidates is not None:
            ids = tuple(dict.fromkeys(ids_of(self.candidates)))
            if not ids:
                raise SettingsError("candidates is empty; give the ids of the documents to rank, or None for all")
            object.__setattr__(self, "candidates", ids)

    @property
    def by_sentences(self) -> bool:
        """Whether documents are ranked by their sentences."""
        return self.by in BY_SENTENCES

    @property
    def rankings(self) -> tuple[str, ...]:
        """The rankings that are made of words and vectors."""
        return tuple(RANKINGS) if self.by == "hybrid" else (self.by,)

    @property
    def fused_by(self) -> Fusion | None:
        """How rankings are fused; None where there is one."""
        if self.by == "hybrid":
            return self.fusion or ("reciprocal_rank" if self.weight is None else "weighted")
        return "weighted" if self.by_sentences and self.weight else None


class Search:
    """One search of an index by words and vectors."""

    def __init__(self, store: LanceStore, query: Query, settings: SearchSettings) -> None:
        self._store, self._query, self._settings = store, query, settings
        where = None if settings.where is None else store_filter(settings.where, filter_columns(store.schema))
        # The query document is not its own hit.
        self._where = all_of(where, None if query.id is None else f"id != {quoted(query.id)}")
        self._units: dict[str, WordsUnit] = {
            "words": settings.words_unit or "passage",
            "vectors": settings.vectors_unit or ("passage" if query.id is None else "document"),
        }

    @cached_property
    def _vector(self) -> npt.NDArray[np.float32]:
        """The vector of the query, after the search by words, which finds mistakes at once."""
        return np.asarray(self._query.vector(), np.float32)

    def run(self) -> tuple[Hit, ...]:
        """The hits, best first."""
        rankings, fusion = self.rankings(), self._settings.fused_by
        weight = 0.5 if self._settings.weight is None else self._settings.weight
        weights = {"words": weight, "vectors": 1 - weight} if fusion == "weighted" else None
        scores = {name: ranking.scores for name, ranking in rankings.items()}
        chosen = fuse(scores, fusion or "reciprocal_rank", weights, self._settings.k)
        if not chosen:
            return ()
        found = {
            name: {fused.id: ranking.passages.get(fused.id, {}) for fused in chosen}
            for name, ranking in rankings.items()
        }
        return self._hits(chosen, found)

    def rankings(self, where: str | None = None) -> dict[str, Ranking]:
        """The documents that each ranking finds, before they are fused, where a further condition holds."""
        return {name: self.ranking(name, self._units[name], where) for name in self._settings.rankings}

    def ranking(self, name: str, unit: WordsUnit, where: str | None = None, depth: int | None = None) -> Ranking:
        """The documents that ``words`` or ``vectors`` find, by what is ranked, among ``depth`` rows."""
        if unit == "both":
            return self.ranking(name, "passage", where, depth).plus(self.ranking(name, "document", where, depth))
        most = depth or self._settings.depth or max(_DEPTH[name], 20 * self._settings.k)
        column, condition = RANKINGS[name][unit], all_of(self._where, where)
        if name == "words":
            candidates = self._store.by_words(self._query.text, column, most, condition)
        else:
            candidates = self._store.by_vector(self._vector, column, most, condition)
        return Ranking.of_passages(candidates) if unit == "passage" else Ranking.of_documents(candidates)

    def _hits(self, chosen: Sequence[Fused], found: _PassageScores) -> tuple[Hit, ...]:
        ids = [fused.id for fused in chosen]
        scores = self._with_passages(ids, found) if self._settings.passages else {}
        numbers = self._best_numbers(ids, scores)
        documents, rows = rows_of_hits(self._store, ids, numbers)
        passages = self._passages(rows, numbers, scores)
        hits = []
        for rank, fused in enumerate(chosen, start=1):
            row = documents[fused.id]
            explained = partial(self._explain, fused, found, row["content_hash"])
            about = (rank, fused.id, row["title"] or "", fused.score, fused.parts)
            hits.append(Hit(*about, passages[fused.id], row["metadata"], explained))
        return tuple(hits)

    def _with_passages(self, ids: Sequence[str], found: _PassageScores) -> _PassageScores:
        """Scores of passages, with those of documents that were found as wholes."""
        without = [id for id in ids if not any(by[id] for by in found.values())]
        if not without:
            return found
        name = self._settings.rankings[-1]
        ranking = self.ranking(name, "passage", is_one_of("id", without), 100 * len(without))
        return {**found, name: {**found[name], **ranking.passages}}

    def _best_numbers(self, ids: Sequence[str], scores: _PassageScores) -> dict[str, list[int]]:
        """The best passages of every document, by their scores relative to the best of each ranking."""
        tops = {
            name: max((max(scored.values()) for scored in by.values() if scored), default=0.0) or 1.0
            for name, by in scores.items()
        }
        numbers: dict[str, list[int]] = {}
        for id in ids:
            totals: dict[int, float] = {}
            for name, by in scores.items():
                for number, score in by.get(id, {}).items():
                    totals[number] = totals.get(number, 0.0) + score / tops[name]
            best = sorted(totals, key=lambda number: (-totals[number], number))
            numbers[id] = best[: self._settings.passages]
        return numbers

    def _passages(
        self,
        rows: Mapping[tuple[str, int], Mapping[str, Any]],
        numbers: Mapping[str, Sequence[int]],
        scores: _PassageScores,
    ) -> dict[str, tuple[PassageHit, ...]]:
        """The best passages of every document, with the words that match."""
        texts = {place: row["text"][row["text_start"] :] for place, row in rows.items()}
        terms = set(self._store.tokens(self._query.text)) if texts else set()
        words = dict(zip(texts, words_of(list(texts.values()), self._store.tokens, only=terms), strict=True))

        def passage(id: str, number: int) -> PassageHit:
            row, place = rows[id, number], (id, number)
            of_words, of_vectors = (scores.get(name, {}).get(id, {}).get(number) for name in RANKINGS)
            matches = tuple((word.start, word.end) for word in words[place])
            where = (row["section"], row["heading"] or "", row["start"], row["end"])
            return PassageHit(number, *where, texts[place], of_words, of_vectors, matches)

        return {
            id: tuple(passage(id, number) for number in own if (id, number) in rows) for id, own in numbers.items()
        }

    def _explain(self, fused: Fused, found: _PassageScores, content_hash: str) -> Explanation:
        """Take the score of a document apart."""
        rows = self._store.select(["content_hash"], IS_DOCUMENT, ids=[fused.id])
        if rows.column("content_hash").to_pylist() != [content_hash]:
            raise RetrievalError(f"document {fused.id!r} has changed or was removed since; search again")
        words, vectors = (found.get(name, {}).get(fused.id, {}) for name in RANKINGS)
        terms = term_parts(self._store, self._query.text, fused, self._units["words"], words)
        passages = self._passage_parts(fused, vectors) if "vectors" in fused.parts else []
        by_part = tuple(sorted(passages, key=lambda part: (-part.part, part.number)))
        return Explanation(fused.id, fused.score, fused.parts, terms, by_part)

    def _passage_parts(self, fused: Fused, found: Mapping[int, float]) -> list[PassagePart]:
        """What every passage adds to the score of vector search."""
        if self._units["vectors"] == "passage":
            best = dict(list(found.items())[:BEST_PASSAGES])
            keys = [key_of(fused.id, PASSAGE, number) for number in best]
            rows = self._store.select(["number", "heading"], is_one_of("key", keys))
            values = [best[number] for number in rows.column("number").to_pylist()]
        else:
            columns = ["number", "heading", "share"]
            rows = self._store.select(columns, f"level = '{PASSAGE}'", ids=[fused.id])
            length = float(np.linalg.norm(self._vector)) if self._store.record["similarity"] == "cosine" else 1.0
            shares = vectors_of(rows, "share").astype(np.float64) @ self._vector.astype(np.float64) / (length or 1.0)
            # Shares are kept in half precision; what rounding took is given back in proportion.
            lost = fused.parts["vectors"].score - shares.sum()
            values = (shares + lost * np.abs(shares) / (np.abs(shares).sum() or 1.0)).tolist()
        numbers, headings = (rows.column(name).to_pylist() for name in ("number", "heading"))
        parts = zip(numbers, headings, values, strict=True)
        return [PassagePart(number, heading or "", part) for number, heading, part in parts]


def rows_of_hits(
    store: LanceStore, ids: Sequence[str], numbers: Mapping[str, Sequence[int]]
) -> tuple[dict[str, dict[str, Any]], dict[tuple[str, int], dict[str, Any]]]:
    """The rows of documents by id, with ``metadata``, and those of passages by id and number, read at once."""
    fields = field_columns(store.schema)
    columns = ["id", "level", "title", "label", "content_hash", *(column.stored for column in fields.values())]
    keys = [key_of(id, DOCUMENT, 0) for id in ids]
    keys += [key_of(id, PASSAGE, number) for id, own in numbers.items() for number in own]
    if len(keys) > len(ids):
        columns += ["number", "section", "heading", "start", "end", "text", "text_start"]
    removed: dict[str, Any] = {"title": "", "content_hash": None, "metadata": {}}
    documents, passages = dict.fromkeys(ids, removed), {}
    for row in store.select(columns, is_one_of("key", keys)).to_pylist():
        if row["level"] == PASSAGE:
            passages[row["id"], row["number"]] = row
            continue
        values = {"label": row["label"]} | {name: row[column.stored] for name, column in fields.items()}
        row["metadata"] = {name: value for name, value in values.items() if value is not None}
        documents[row["id"]] = row
    return documents, passages


def term_parts(
    store: LanceStore, text: str, fused: Fused, unit: WordsUnit, passages: Mapping[int, float]
) -> tuple[TermPart, ...]:
    """What every term of a query adds to the score of word search, as the store itself counts it, largest first."""
    if "words" not in fused.parts:
        return ()
    best = list(passages.items())[:BEST_PASSAGES]
    keys: dict[str, list[str]] = {}
    if unit != "document" and best:
        keys["passage"] = [key_of(fused.id, PASSAGE, number) for number, _ in best]
    # Of both, the whole document counts where word search found it too.
    if unit == "document" or fused.parts["words"].score > sum(score for _, score in best):
        keys["document"] = [key_of(fused.id, DOCUMENT, 0)]
    parts: dict[str, TermPart] = {}
    for place, own in keys.items():
        column, where, most = RANKINGS["words"][place], is_one_of("key", own), max(1, store.state().rows)
        texts = store.select([column], where).column(column).to_pylist()
        frequencies = Counter(term for row in texts for term in store.tokens(row or ""))
        for term, word, count in counted_words(text, store.tokens):
            if term not in frequencies:
                continue
            part = count * float(store.by_words(word, column, len(own), where).scores.sum())
            if word in parts:
                parts[word] = parts[word]._replace(part=parts[word].part + part)
            else:
                total = len(store.by_words(word, column, most).ids)
                parts[word] = TermPart(word, frequencies[term], total, part)
    return tuple(sorted(parts.values(), key=lambda part: (-part.part, part.term)))
