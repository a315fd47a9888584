"""Search by words and vectors: candidates, grouped to documents, joined, and shown with their best passages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal, TypedDict, get_args

import numpy as np
import numpy.typing as npt

from ..errors import RetrievalError, SettingsError
from ..runtime.text import one_line, require_one_of, require_whole
from ..similarity.hierarchical import By as BySentences
from ..similarity.hierarchical import Direction, Normalisation
from .connection import ids_of
from .filters import field_columns, filter_columns, require_filter, store_filter
from .fusion import (
    BEST_PASSAGES,
    FUSIONS,
    Fused,
    Fusion,
    RankedDocument,
    fuse,
    group_passages,
    scores_of,
    whole_documents,
    with_whole,
)
from .lance import LanceStore
from .results import Explanation, Hit, PassageHit, PassagePart, TermPart
from .table import DOCUMENT, PASSAGE, key_of, quoted
from .terms import Query, counted_words, words_of_many

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
_OF_PASSAGES, _OF_SENTENCES = (
    ("passages", "fusion", "vectors_unit", "depth"),
    ("pool", "candidates", "normalisation", "direction"),
)
_CHOICES: dict[str, tuple[str, ...]] = {
    "by": (*BY_PASSAGES, *BY_SENTENCES),
    "fusion": FUSIONS,
    "words_unit": get_args(WordsUnit),
    "vectors_unit": get_args(Unit),
    "normalisation": get_args(Normalisation),
    "direction": get_args(Direction),
}
# By document and number of the passage, by ranking.
_PassageScores = Mapping[str, Mapping[str, Mapping[int, float]]]


class SearchOptions(TypedDict, total=False):
    """How a search is made, beside the number of documents, as :class:`SearchSettings` describes it."""

    by: By | BySentences
    where: str | None
    weight: float | None
    words_unit: WordsUnit | None
    passages: int | None
    fusion: Fusion | None
    vectors_unit: Unit | None
    depth: int | None
    pool: int | None
    candidates: Iterable[str] | None
    normalisation: Normalisation | None
    direction: Direction | None


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
        passages: passages shown of each document; None for 3. Not by sentences, nor are the three that follow.
        fusion: how both rankings are joined; None for ``weighted`` where there is a weight, else ``reciprocal_rank``.
        vectors_unit: whether vector search ranks passages or whole documents; None for passages where the query is a
            text, and for documents where it is a document.
        depth: rows that each ranking fetches; None for 20 a document wanted, and at least 1,000 by words and 200 by
            vectors.
        pool: how many of the documents that a hybrid search finds are ranked by sentences; None for all. By sentences
            alone, as are the three that follow.
        candidates: ids of the documents that are ranked; None for all.
        normalisation: ``none``, the default, or ``zscore`` as in the paper: scores of a paragraph are compared with
            those that it has with the documents of the index, of which a sample is taken where there are very many.
        direction: ``source`` looks for the document in the candidate, as the paper does, or ``both``, the default,
            also for the candidate in the document, and takes the mean.

    Raises:
        SettingsError: a value is unknown, out of range, or belongs to another way to search, or ``pool`` and
            ``candidates`` are both given.
    """

    k: int = 10
    by: By | BySentences = "hybrid"
    where: str | None = None
    weight: float | None = None
    words_unit: WordsUnit | None = None
    passages: int | None = None
    fusion: Fusion | None = None
    vectors_unit: Unit | None = None
    depth: int | None = None
    pool: int | None = None
    candidates: Iterable[str] | None = None
    normalisation: Normalisation | None = None
    direction: Direction | None = None

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if name == "by" or getattr(self, name) is not None:
                require_one_of(name, getattr(self, name), choices)
        for name in ("k", "passages", "depth", "pool"):
            value = getattr(self, name)
            require_whole(name, value, least=0 if name == "passages" else 1, may_be_none=name != "k")
            if (value or 0) > MOST_ROWS:
                raise SettingsError(f"{name}={value} is more than {MOST_ROWS:,}; give less")
        if self.weight is not None and (
            isinstance(self.weight, bool) or not isinstance(self.weight, int | float) or not 0 <= self.weight <= 1
        ):
            raise SettingsError(f"weight={self.weight!r} is the weight of words; give a number from 0 to 1")
        if self.where is not None:
            require_filter(self.where)
        for name in _OF_PASSAGES if self.by_sentences else _OF_SENTENCES:
            if getattr(self, name) is not None:
                others = BY_PASSAGES if self.by_sentences else BY_SENTENCES
                raise SettingsError(
                    f"{name}={one_line(repr(getattr(self, name)), 60)} does not go with by={self.by!r}; leave it out, "
                    f"or search by {', '.join(others)}"
                )
        if self.candidates is None:
            return
        if self.pool is not None:
            raise SettingsError(f"pool={self.pool} and candidates both say which documents are ranked; give one")
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
    def joined_by(self) -> Fusion | None:
        """How rankings are joined; None where there is one."""
        if self.by == "hybrid":
            return self.fusion or ("reciprocal_rank" if self.weight is None else "weighted")
        return "weighted" if self.by_sentences and self.weight else None


class Search:
    """One search of an index by words and vectors.

    Args:
        store: the index.
        query: what is searched for.
        settings: how.
    """

    def __init__(self, store: LanceStore, query: Query, settings: SearchSettings) -> None:
        self._store, self._query, self._settings = store, query, settings
        self._where = settings.where and store_filter(settings.where, filter_columns(store.schema))
        self._shown = 3 if settings.passages is None else settings.passages
        self._units: dict[str, WordsUnit] = {
            "words": settings.words_unit or "passage",
            "vectors": settings.vectors_unit or ("passage" if query.id is None else "document"),
        }

    @cached_property
    def _vector(self) -> npt.NDArray[np.float32] | None:
        """The vector of the query, after the search by words, which finds mistakes at once."""
        return None if "vectors" not in self._settings.rankings else np.asarray(self._query.vector(), np.float32)

    def run(self) -> tuple[Hit, ...]:
        """The hits, best first."""
        rankings = self.rankings()
        fusion, weight = self._settings.joined_by, self._settings.weight
        weight = 0.5 if weight is None else weight
        weights = {"words": weight, "vectors": 1 - weight} if fusion == "weighted" else None
        scores = {name: scores_of(ranking) for name, ranking in rankings.items()}
        chosen = fuse(scores, fusion or "reciprocal_rank", weights, self._settings.k)
        ids = {fused.id for fused in chosen}
        passages = {
            name: {document.id: dict(document.passages) for document in ranking if document.id in ids}
            for name, ranking in rankings.items()
        }
        return self._hits(chosen, passages)

    def rankings(self, where: str | None = None) -> dict[str, list[RankedDocument]]:
        """The documents that each ranking finds, best first, before they are joined.

        Args:
            where: a further condition, in the SQL of the store.
        """
        return {name: self.ranking(name, self._units[name], where) for name in self._settings.rankings}

    def ranking(
        self, name: str, unit: WordsUnit, where: str | None = None, depth: int | None = None
    ) -> list[RankedDocument]:
        """The documents that one ranking finds, best first.

        Args:
            name: ``words`` or ``vectors``.
            unit: what it ranks.
            where: a further condition, in the SQL of the store.
            depth: rows that it fetches; None for as many as the settings say.
        """
        if unit == "both":
            return with_whole(*(self.ranking(name, part, where, depth) for part in get_args(Unit)))
        settings = self._settings
        most = depth or settings.depth or max(_DEPTH[name], 20 * settings.k)
        # The query document is not its own hit.
        not_itself = None if self._query.id is None else f"id != {quoted(self._query.id)}"
        condition = " AND ".join(f"({part})" for part in (self._where, where, not_itself) if part) or None
        column = RANKINGS[name][unit]
        if name == "words":
            found = self._store.by_words(self._query.text, column, most, condition)
        else:
            assert self._vector is not None
            found = self._store.by_vector(self._vector, column, most, condition)
        return group_passages(found) if unit == "passage" else whole_documents(found)

    def _hits(self, chosen: Sequence[Fused], found: _PassageScores) -> tuple[Hit, ...]:
        ids = [fused.id for fused in chosen]
        if not ids:
            return ()
        scores = self._with_passages(ids, found)
        numbers = self._best_numbers(ids, scores)
        documents, shown = rows_of_hits(self._store, ids, numbers)
        passages = self._passages(shown, numbers, scores)
        hits = []
        for rank, fused in enumerate(chosen, start=1):
            row = documents.get(fused.id, {})
            explained = partial(self._explain, fused, found, row.get("content_hash"))
            hits.append(
                Hit(
                    rank,
                    fused.id,
                    row.get("title") or "",
                    fused.score,
                    fused.parts,
                    tuple(passages.get(fused.id, ())),
                    row.get("metadata", {}),
                    explained,
                )
            )
        return tuple(hits)

    def _with_passages(self, ids: Sequence[str], found: _PassageScores) -> _PassageScores:
        """Scores of passages, with those of documents that were found as wholes."""
        if not self._shown:
            return {}
        without = [id for id in ids if not any(by.get(id) for by in found.values())]
        if not without:
            return found
        name = "vectors" if self._vector is not None else "words"
        ranking = self.ranking(name, "passage", f"id IN ({', '.join(map(quoted, without))})", 100 * len(without))
        return {
            **found,
            name: {**found.get(name, {}), **{document.id: dict(document.passages) for document in ranking}},
        }

    def _best_numbers(self, ids: Sequence[str], scores: _PassageScores) -> dict[str, list[int]]:
        """The best passages of every document, by their scores relative to the best of each ranking."""
        tops = {
            name: max((max(scored.values()) for scored in by.values() if scored), default=0.0) or 1.0
            for name, by in scores.items()
        }
        chosen: dict[str, list[int]] = {}
        for id in ids:
            totals: dict[int, float] = {}
            for name, by in scores.items():
                for number, score in by.get(id, {}).items():
                    totals[number] = totals.get(number, 0.0) + score / tops[name]
            chosen[id] = sorted(totals, key=lambda number: (-totals[number], number))[: self._shown]
        return chosen

    def _passages(
        self,
        shown: Mapping[tuple[str, int], Mapping[str, Any]],
        numbers: Mapping[str, Sequence[int]],
        scores: _PassageScores,
    ) -> dict[str, list[PassageHit]]:
        """The best passages of every document, with the words that match."""
        if not shown:
            return {}
        terms = set(self._store.tokens(self._query.text))
        texts = [row["text"][row["text_start"] :] for row in shown.values()]
        words = words_of_many(texts, self._store.tokens, only=terms)
        hits = {}
        for (id, number), text, own in zip(shown, texts, words, strict=True):
            row = shown[id, number]
            of_words, of_vectors = (scores.get(name, {}).get(id, {}).get(number) for name in RANKINGS)
            matches = tuple((word.start, word.end) for word in own)
            place = (row["section"], row["heading"] or "", row["start"], row["end"])
            hits[id, number] = PassageHit(number, *place, text, of_words, of_vectors, matches)
        return {id: [hits[id, number] for number in own if (id, number) in hits] for id, own in numbers.items()}

    def _explain(self, fused: Fused, found: _PassageScores, content_hash: str | None) -> Explanation:
        """Take the score of a document apart."""
        rows = self._store.select(["content_hash"], "level = 'document'", ids=[fused.id])
        if rows.column("content_hash").to_pylist() != [content_hash]:
            raise RetrievalError(f"document {fused.id!r} has changed or was removed since; search again")
        words, vectors = (found.get(name, {}).get(fused.id, {}) for name in RANKINGS)
        terms = term_parts(self._store, self._query.text, fused, self._units["words"], words)
        shares: list[PassagePart] = []
        if self._vector is not None:
            shares = _passage_parts(self._store, self._vector, fused, self._units["vectors"], vectors)
        by_part = tuple(sorted(shares, key=lambda part: (-part.part, part.number)))
        return Explanation(fused.id, fused.score, fused.parts, terms, by_part)


def rows_of_hits(
    store: LanceStore, ids: Sequence[str], numbers: Mapping[str, Sequence[int]]
) -> tuple[dict[str, dict[str, Any]], dict[tuple[str, int], dict[str, Any]]]:
    """The rows of documents by id, with ``metadata``, and those of their passages by id and number, read at once.

    Args:
        store: the index.
        ids: the documents.
        numbers: numbers of the passages that are wanted, by id.
    """
    fields = field_columns(store.schema)
    columns = ["id", "level", "title", "label", "content_hash", *(column.stored for column in fields.values())]
    keys = [key_of(id, DOCUMENT, 0) for id in ids]
    keys += [key_of(id, PASSAGE, number) for id, own in numbers.items() for number in own]
    if len(keys) > len(ids):
        columns += ["number", "section", "heading", "start", "end", "text", "text_start"]
    documents, passages = {}, {}
    for row in store.select(columns, f"key IN ({', '.join(map(quoted, keys))})").to_pylist():
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
    """What every term of a query adds to the score of word search, as the store itself counts it, largest first.

    Args:
        store: the index.
        text: the words of the query.
        fused: the document; nothing is added where word search did not find it.
        unit: what words were searched in.
        passages: scores of its passages that were found.
    """
    if "words" not in fused.parts:
        return ()
    best = list(passages.items())[:BEST_PASSAGES]
    keys: dict[Unit, list[str]] = {}
    if unit != "document" and best:
        keys["passage"] = [key_of(fused.id, PASSAGE, number) for number, _ in best]
    # Of both, the whole document counts where word search found it too.
    if unit == "document" or fused.parts["words"].score > sum(score for _, score in best):
        keys["document"] = [key_of(fused.id, DOCUMENT, 0)]
    parts: dict[str, TermPart] = {}
    for place, own in keys.items():
        for part in _terms_in(store, text, RANKINGS["words"][place], own):
            also = parts.get(part.term)
            parts[part.term] = part if also is None else replace(also, part=also.part + part.part)
    return tuple(sorted(parts.values(), key=lambda part: (-part.part, part.term)))


def _terms_in(store: LanceStore, text: str, column: str, keys: Sequence[str]) -> list[TermPart]:
    """What terms add to the scores of some rows."""
    where = f"key IN ({', '.join(map(quoted, keys))})"
    frequencies: dict[str, int] = {}
    for row in store.select([column], where).to_pylist():
        for term in store.tokens(row[column] or ""):
            frequencies[term] = frequencies.get(term, 0) + 1
    most, parts = max(1, store.state().rows), []
    for term, word, count in counted_words(text, store.tokens):
        if term in frequencies:
            part = count * float(store.by_words(word, column, len(keys), where).scores.sum())
            parts.append(TermPart(word, frequencies[term], len(store.by_words(word, column, most)), part))
    return parts


def _passage_parts(
    store: LanceStore, vector: npt.NDArray[np.float32], fused: Fused, unit: WordsUnit, passages: Mapping[int, float]
) -> list[PassagePart]:
    """What every passage adds to the score of vector search; nothing where that did not find the document."""
    if "vectors" not in fused.parts:
        return []
    if unit == "passage":
        best = dict(list(passages.items())[:BEST_PASSAGES])
        keys = ", ".join(quoted(key_of(fused.id, PASSAGE, number)) for number in best)
        headings = store.select(["number", "heading"], f"key IN ({keys})").to_pylist()
        names = {row["number"]: row["heading"] or "" for row in headings}
        return [PassagePart(number, names.get(number, ""), score) for number, score in best.items()]
    rows = store.select(["number", "heading", "share"], "level = 'passage'", ids=[fused.id])
    shares = rows.column("share").combine_chunks().flatten().to_numpy().reshape(len(rows), -1).astype(np.float64)
    length = float(np.linalg.norm(vector)) if store.record["similarity"] == "cosine" else 1.0
    values = shares @ vector.astype(np.float64) / (length or 1.0)
    # Shares are kept in half precision; what rounding took is given back in proportion.
    lost = fused.parts["vectors"].score - values.sum()
    values += lost * np.abs(values) / (np.abs(values).sum() or 1.0)
    numbers, headings = rows.column("number").to_pylist(), rows.column("heading").to_pylist()
    parts = zip(numbers, headings, values.tolist(), strict=True)
    return [PassagePart(number, heading or "", part) for number, heading, part in parts]
