"""Search by words and vectors: passages that are found, grouped to documents, fused, and shown."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, islice
from typing import Any, Literal, TypedDict, get_args

import numpy as np

from ..errors import RetrievalError, SettingsError
from ..runtime.arrays import Vectors
from ..runtime.text import require_one_of
from ..segmentation.spans import PASSAGE_LIMIT
from ..segmentation.term_weights import TermCounts
from ..similarity.hierarchical import SENTENCE_SCORINGS, Direction, Normalization, SentenceScoring
from ..similarity.kinds import maxsim_weights
from .filters import no_filter, store_filter
from .fusion import PASSAGE_WEIGHTS, Fused, Fusion, Ranking, best_first, fuse, lowered, shared_places
from .lance import DOCUMENT, IS_DOCUMENT, PASSAGE, RANDOM_SCORE, LanceStore, all_of, is_one_of, key_of, quoted
from .results import Explanation, Hit, PassageContribution, PassageHit, TermContribution
from .table import TERMS, field_columns, filter_columns, l2_normalized, vectors_of
from .terms import Query, counted_words, words_of

RankedLevel = Literal["passage", "document"]
WordsLevel = Literal["passage", "document", "both"]
PassageScoring = Literal["hybrid", "words", "vectors"]
BY_PASSAGES: tuple[str, ...] = get_args(PassageScoring)
MOST_ROWS = 10_000_000
# Each ranking, the column that it searches by what is ranked.
RANKINGS: dict[str, dict[str, str]] = {
    "words": {"passage": "text", "document": "document_text"},
    "vectors": {"passage": "passage_vector", "document": "document_vector"},
}
# Documents whose passages are read at once, to compare them with those of a query document.
_READ_TOGETHER = 32
# With more rows the three best passages of a document are more often all found; by words they cost little time.
_DEPTH = {"words": 1_000, "vectors": 200}
_CHOICES: dict[str, tuple[str, ...]] = {
    "by": (*BY_PASSAGES, *SENTENCE_SCORINGS),
    "fusion": get_args(Fusion),
    "words_level": get_args(WordsLevel),
    "vectors_level": get_args(RankedLevel),
    "normalization": get_args(Normalization),
    "direction": get_args(Direction),
}
# By ranking, document and number of the passage.
_PassageScores = dict[str, dict[str, Mapping[int, float]]]


class SearchOptions(TypedDict, total=False):
    """How a search is made, beside the number of documents, as :class:`SearchSettings` describes it."""

    by: PassageScoring | SentenceScoring
    where: str | None
    weight: float | None
    words_level: WordsLevel | None
    passages: int
    fusion: Fusion | None
    vectors_level: RankedLevel | None
    depth: int | None
    pool: int | None
    normalization: Normalization
    direction: Direction


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """How a search is made.

    Args:
        top_k: documents wanted.
        by: ``words``, ``vectors`` or ``hybrid`` for both; or with a document by its sentences: ``sentences`` (SDR,
            equations 4 to 6), ``flat`` (every sentence to the best of the whole document), ``paragraphs`` (one vector
            each) or ``document`` (one vector of all sentences).
        where: a filter such as ``year >= 2010`` (:func:`~graphdoc.retrieval.filters.store_filter`).
        weight: weight of words in the score, 0 to 1; the other ranking has the rest. None for 0.5, and for no words
            beside sentences.
        words_level: whether word search ranks passages, of which the best three count, whole documents, or both added
            up; None for both, of a document the cosine of the weights of all its words
            (:class:`~graphdoc.segmentation.term_weights.TermWeights`), and for documents beside sentences.
        passages: passages shown of each document. Not by sentences, nor are the three that follow.
        fusion: how both rankings are fused (:func:`fuse`); None for ``score``.
        vectors_level: whether vector search ranks by passages, of which the best three count for a text and all for a
            document (:func:`~graphdoc.similarity.kinds.maxsim`), or by document vectors; None for what was trained.
        depth: rows that each ranking fetches first; None for 1,000 by words and 200 by vectors.
        pool: how many of the documents that a hybrid search finds are ranked by sentences; None for all. By sentences
            alone, as are the two that follow.
        normalization: ``none`` or ``zscore`` as in the paper: scores of a paragraph are compared with those that it
            has with the documents of the index, or a sample of them.
        direction: ``source`` looks for the document in the candidate, as the paper does, or ``both`` also for the
            candidate in the document, and takes the mean, which measures best
            (benchmarks/results/document_ranking_dev.md).

    Raises:
        SettingsError: a value is unknown or out of range.
    """

    top_k: int = 10
    by: PassageScoring | SentenceScoring = "hybrid"
    where: str | None = None
    weight: float | None = None
    words_level: WordsLevel | None = None
    passages: int = 3
    fusion: Fusion | None = None
    vectors_level: RankedLevel | None = None
    depth: int | None = None
    pool: int | None = None
    normalization: Normalization = "none"
    direction: Direction = "both"

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if (value := getattr(self, name)) is not None and value not in choices:
                require_one_of(name, value, choices)
        for name, least in (("top_k", 1), ("passages", 0), ("depth", 1), ("pool", 1)):
            value = getattr(self, name)
            is_open = value is None and name in ("depth", "pool")
            if not is_open and not (isinstance(value, int) and least <= value <= MOST_ROWS):
                raise SettingsError(f"{name}={value!r} is no whole number from {least} to {MOST_ROWS:,}")
        if self.weight is not None and not 0 <= self.weight <= 1:
            raise SettingsError(f"weight={self.weight!r} is the weight of words; give a number from 0 to 1")

    @property
    def rankings(self) -> tuple[str, ...]:
        """The rankings that are made of words and vectors."""
        return tuple(RANKINGS) if self.by == "hybrid" else (self.by,)

    @property
    def fused_by(self) -> Fusion | None:
        """How rankings are fused; None where there is one."""
        if self.by == "hybrid":
            return self.fusion or "score"
        return "weighted" if self.by in SENTENCE_SCORINGS and self.weight else None


class Search:
    """One search of an index by words and vectors."""

    def __init__(self, store: LanceStore, query: Query, settings: SearchSettings) -> None:
        self._store, self._query, self._settings = store, query, settings
        self._where = condition_of(store, settings.where, query.id)
        # A document is compared by all of its words, unless one asks for BM25 of those that say most.
        self._by_terms = query.terms is not None and settings.words_level is None
        self._levels: dict[str, WordsLevel] = {
            "words": settings.words_level or "both",
            "vectors": settings.vectors_level or store.record.get("search_by") or "passage",
        }
        self._depth = {name: settings.depth or rows for name, rows in _DEPTH.items()}
        self.warnings: list[str] = []

    @cached_property
    def _vector(self) -> Vectors:
        """The vector of the query, after the search by words, which finds mistakes at once."""
        return np.asarray(self._query.vector(), np.float32)

    @cached_property
    def _terms(self) -> set[str]:
        return {term for terms in self._store.terms(self._query.text.split()) for term in terms}

    def run(self) -> tuple[Hit, ...]:
        """The hits, best first."""
        if "words" in self._settings.rankings and not self._terms:
            self.warnings.append("no word of the query is searched for: all are stop words or signs")
        rounds = list(self.rounds())
        chosen = [fused for _, added in rounds for fused in added]
        if not chosen:
            return ()
        if not self._stands_out(rounds[0][0]):
            self.warnings.append("no hit stands out: random words come as close to a document as this query does")
        elif self._terms and "words" in rounds[0][0] and not rounds[0][0]["words"].scores:
            self.warnings.append("no document has a word of the query; hits are what its vector is nearest to")
        ids, found = [fused.id for fused in chosen], dict[str, dict[str, Mapping[int, float]]]()
        for rankings, added in rounds:
            for name, ranking in rankings.items():
                found.setdefault(name, {}).update((fused.id, ranking.passages(fused.id)) for fused in added)
        passages = self._with_passages(ids, found) if self._settings.passages else {}
        numbers = self._best_numbers(ids, passages)
        documents, rows = rows_of_hits(self._store, ids, numbers)
        shown = self._shown_passages(rows, passages)
        hits = []
        ranks = shared_places({fused.id: fused.score for fused in chosen})
        for fused in chosen:
            row = documents[fused.id]
            explained = partial(self._explain, fused, found, row["content_hash"])
            best = tuple(shown[fused.id, number] for number in numbers[fused.id] if (fused.id, number) in shown)
            about = (ranks[fused.id], fused.id, row["title"] or "", fused.score, fused.parts)
            hits.append(Hit(*about, best, row["metadata"], explained, cut=row["cut"]))
        return tuple(hits)

    def _stands_out(self, rankings: Mapping[str, Ranking]) -> bool:
        """Whether the best hit is closer to a short query than random words come, or holds all of its words."""
        is_measured = "vectors" in rankings and self._levels["vectors"] == self._store.record["search_by"]
        if not is_measured or self._query.document or (reached := self._store.recorded(RANDOM_SCORE)) is None:
            return True
        found = rankings["vectors"]
        best = [max(found.passages(id).values(), default=score) for id, score in found.scores.items()]
        return max(best, default=1.0) > reached or ("words" in rankings and self._store.holds_all(self._query.text))

    def rounds(self) -> Iterator[tuple[dict[str, Ranking], list[Fused]]]:
        """Rankings, each with the documents that they add, until there are as many as are wanted.

        No score depends on how many those are: what only more rows find stands below what fewer do.
        """
        known, lowest, times, k = set[str](), np.inf, 1, self._settings.top_k
        while times <= max(25, k / 40):
            rankings = self.rankings(times=times)
            found = self.fused(rankings, None if known else k)
            new = lowered([fused for fused in found if fused.id not in known][: k - len(known)], lowest)
            yield rankings, new
            known |= {fused.id for fused in new}
            if len(known) == k or all(ranking.is_complete for ranking in rankings.values()):
                return
            lowest, times = new[-1].score if new else lowest, 5 * times

    def fused(self, rankings: Mapping[str, Ranking], top_k: int | None = None) -> list[Fused]:
        """The documents of rankings, fused as the settings say, best first."""
        fusion = self._settings.fused_by or "score"
        weight = 0.5 if self._settings.weight is None and fusion != "reciprocal_rank" else self._settings.weight
        weights = None if weight is None else {"words": weight, "vectors": 1 - weight}
        scores = {name: ranking.scores for name, ranking in rankings.items()}
        # A document that does not match at all has none of the words.
        floors = {"words": 0.0} if "words" in rankings and rankings["words"].is_complete else {}
        return fuse(scores, fusion, weights, top_k, floors)

    def rankings(self, where: str | None = None, times: int = 1) -> dict[str, Ranking]:
        """The documents that each ranking finds in so many times the rows, where a further condition holds."""
        is_compared = self._query.document is not None and self._levels["vectors"] == "passage"
        levels = {name: self._levels[name] for name in self._settings.rankings if name == "words" or not is_compared}
        if "words" in levels and self._by_terms:
            levels["words"] = "document"
        rankings = self.found(levels, where, {name: times * self._depth[name] for name in levels})
        if is_compared and "vectors" in self._settings.rankings:
            also = list(rankings["words"].scores) if rankings else []
            rankings["vectors"] = self._compared(where, also, times)
        if "words" in rankings and self._by_terms:
            rankings["words"] = self._compared_terms(rankings, times)
        return rankings

    def found(self, levels: dict[str, WordsLevel], where: str | None, depth: Mapping[str, int]) -> dict[str, Ranking]:
        """The documents that rankings find by their levels; all of the searches are made at once."""
        condition = all_of(self._where, where)
        by = {"words": partial(self._store.by_words, self._query.text, where=condition)}
        if "vectors" in levels:
            by["vectors"] = partial(self._store.by_vector, self._vector, where=condition)
        searches = {
            name: [by[name](column, depth[name]) for one, column in RANKINGS[name].items() if level in (one, "both")]
            for name, level in levels.items()
        }
        found = iter(self._store.find(*chain.from_iterable(searches.values())))
        return {name: Ranking.from_rows(*islice(found, len(parts))) for name, parts in searches.items()}

    def _compared(self, where: str | None, also: Sequence[str], times: int) -> Ranking:
        """Compare the passages of a query document with those of the documents nearest to it, and of others.

        What is usual in the index is taken from all vectors: it is like everything, and tells nothing.
        """
        query = self._query.document and self._query.document()
        assert query is not None
        most = times * self._depth["vectors"]
        # As the index keeps them.
        kept = l2_normalized if self._store.record["similarity"] == "cosine" else np.asarray
        vector = kept(query.vector) - query.usual_vector
        condition = all_of(self._where, where)
        (nearest,) = self._store.find(self._store.by_vector(vector, "document_vector", most, condition))
        ids = list(dict.fromkeys([*nearest.ids, *also[:most]]))
        source = l2_normalized(kept(query.passages) - query.usual_passage)
        passages: dict[str, dict[int, float]] = {}
        for start in range(0, len(ids), _READ_TOGETHER):
            together = ids[start : start + _READ_TOGETHER]
            rows = self._store.select(["id", "number", "passage_vector"], f"level = '{PASSAGE}'", ids=together)
            vectors = l2_normalized(vectors_of(rows, "passage_vector") - query.usual_passage)
            names, numbers = (np.asarray(rows.column(name).to_pylist()) for name in ("id", "number"))
            for id in together:
                own = np.flatnonzero(names == id)
                if len(own):
                    cosines = source @ vectors[own].T
                    parts = (maxsim_weights(cosines) * cosines).sum(0).tolist()
                    numbered = zip(numbers[own].tolist(), parts, strict=True)
                    passages[id] = dict(sorted(numbered, key=lambda one: -one[1]))
        scores = {id: sum(parts.values()) for id, parts in passages.items()}
        return Ranking(best_first(scores), lambda id: passages.get(id, {}), nearest.is_complete)

    def _compared_terms(self, rankings: Mapping[str, Ranking], times: int) -> Ranking:
        """Compare the words of a query document with those of the documents that were found."""
        found, most = rankings["words"], times * self._depth["vectors"]
        ids = list(dict.fromkeys([*list(found.scores)[:most], *rankings.get("vectors", found).scores]))
        if not ids or self._query.terms is None:
            return Ranking({})
        rows = self._store.select(["id", TERMS], IS_DOCUMENT, ids=ids)
        packed = zip(rows.column("id").to_pylist(), rows.column(TERMS).to_pylist(), strict=True)
        scores = {id: self._query.terms.cosine(TermCounts.unpacked(value)) for id, value in packed}
        is_complete = found.is_complete and len(found.scores) <= most
        return Ranking(best_first({id: score for id, score in scores.items() if score}), is_complete=is_complete)

    def _with_passages(self, ids: Sequence[str], passages: _PassageScores) -> _PassageScores:
        """Scores of passages, with those of documents that were found as wholes."""
        without = [id for id in ids if not any(scores[id] for scores in passages.values())]
        if not without:
            return passages
        name = self._settings.rankings[-1]
        if name == "vectors" and len(self._vector) != self._store.schema.field("passage_vector").type.list_size:
            name = "words"
        ranking = self.found({name: "passage"}, is_one_of("id", without), {name: 100 * len(without)})[name]
        return {**passages, name: {**passages.get(name, {}), **{id: ranking.passages(id) for id in without}}}

    def _best_numbers(self, ids: Sequence[str], passages: _PassageScores) -> dict[str, list[int]]:
        """The best passages of every document, by their scores relative to the best of each ranking."""
        totals: dict[str, dict[int, float]] = {id: {} for id in ids}
        for scores in passages.values():
            top = max((max(scored.values()) for scored in scores.values() if scored), default=0.0) or 1.0
            for id in ids:
                for number, score in scores.get(id, {}).items():
                    totals[id][number] = totals[id].get(number, 0.0) + score / top
        return {
            id: sorted(total, key=lambda number: (-total[number], number))[: self._settings.passages]
            for id, total in totals.items()
        }

    def _shown_passages(
        self, rows: Mapping[tuple[str, int], Mapping[str, Any]], scores: _PassageScores
    ) -> dict[tuple[str, int], PassageHit]:
        texts = [row["text"][row["text_start"] :] for row in rows.values()]
        words = words_of(texts, self._store.terms, only=self._terms)
        shown = {}
        for ((id, number), row), text, matching in zip(rows.items(), texts, words, strict=True):
            of_words, of_vectors = (scores.get(name, {}).get(id, {}).get(number) for name in RANKINGS)
            matches = tuple((word.start, word.end) for word in matching)
            where = (row["section"], row["heading"] or "", row["start"], row["end"])
            shown[id, number] = PassageHit(number, *where, text, of_words, of_vectors, matches)
        return shown

    def _explain(self, fused: Fused, passages: _PassageScores, content_hash: str) -> Explanation:
        require_unchanged(self._store, fused.id, content_hash)
        words, vectors = (passages.get(name, {}).get(fused.id, {}) for name in RANKINGS)
        if self._by_terms and self._query.terms and "words" in fused.parts:
            (packed,) = self._store.select([TERMS], IS_DOCUMENT, ids=[fused.id]).column(TERMS).to_pylist()
            terms = self._query.terms.explain(TermCounts.unpacked(packed), self._store.state().documents)
        else:
            terms = term_parts(self._store, self._query.text, fused, self._levels["words"], words)
        parts = self._passage_parts(fused, vectors) if "vectors" in fused.parts else []
        return Explanation(*fused, terms, tuple(sorted(parts, key=lambda part: (-part.contribution, part.number))))

    def _passage_parts(self, fused: Fused, passages: Mapping[int, float]) -> list[PassageContribution]:
        if self._levels["vectors"] == "passage":
            best = passages if self._query.document else _weighed(passages, fused.parts["vectors"].score)
            keys = [key_of(fused.id, PASSAGE, number) for number in best]
            rows = self._store.select(["number", "heading"], is_one_of("key", keys))
            values = [best[number] for number in rows.column("number").to_pylist()]
        else:
            rows = self._store.select(["number", "heading", "share"], f"level = '{PASSAGE}'", ids=[fused.id])
            length = float(np.linalg.norm(self._vector)) if self._store.record["similarity"] == "cosine" else 1.0
            shares = vectors_of(rows, "share").astype(np.float64) @ self._vector.astype(np.float64) / (length or 1.0)
            # Shares are kept in half precision; what rounding took is given back in proportion.
            lost = fused.parts["vectors"].score - shares.sum()
            values = (shares + lost * np.abs(shares) / (np.abs(shares).sum() or 1.0)).tolist()
        numbers, headings = (rows.column(name).to_pylist() for name in ("number", "heading"))
        parts = zip(numbers, headings, values, strict=True)
        return [PassageContribution(number, heading or "", part) for number, heading, part in parts]


def require_unchanged(store: LanceStore, id: str, content_hash: str | None) -> None:
    """Raise RetrievalError for a document that has changed, or was removed, since it was found."""
    if store.select(["content_hash"], IS_DOCUMENT, ids=[id]).column("content_hash").to_pylist() != [content_hash]:
        raise RetrievalError(f"document {id!r} has changed or was removed since; search again")


def condition_of(store: LanceStore, where: str | None, query_id: str | None) -> str | None:
    """The condition that documents have to meet: a filter, and that the query document is not its own hit."""
    translated = None
    if where is not None:
        translated = store_filter(where, filter_columns(store.schema))
        if (reason := store.refusal(translated)) is not None:
            raise no_filter(where, f"is refused: {reason}")
    return all_of(translated, None if query_id is None else f"id != {quoted(query_id)}")


def rows_of_hits(
    store: LanceStore, ids: Sequence[str], numbers: Mapping[str, Sequence[int]]
) -> tuple[dict[str, dict[str, Any]], dict[tuple[str, int], dict[str, Any]]]:
    """The rows of documents by id, with ``metadata`` and ``cut``, and those of passages by id and number."""
    fields = field_columns(store.schema)
    columns = ["id", "level", "title", "label", "content_hash", "coverage"]
    columns += [column.stored for column in fields.values()]
    keys = [key_of(id, DOCUMENT, 0) for id in ids]
    keys += [key_of(id, PASSAGE, number) for id, best in numbers.items() for number in best]
    if len(keys) > len(ids):
        columns += ["number", "section", "heading", "start", "end", "text", "text_start"]
    removed: dict[str, Any] = {"title": "", "content_hash": None, "metadata": {}, "cut": 0}
    documents, passages = dict.fromkeys(ids, removed), {}
    for row in store.select(columns, is_one_of("key", keys)).to_pylist():
        if row["level"] == PASSAGE:
            passages[row["id"], row["number"]] = row
            continue
        values = {"label": row["label"]} | {name: row[column.stored] for name, column in fields.items()}
        row["metadata"] = {name: value for name, value in values.items() if value is not None}
        row["cut"] = json.loads(row["coverage"] or "{}").get("left_out", {}).get(PASSAGE_LIMIT, 0)
        documents[row["id"]] = row
    return documents, passages


def term_parts(
    store: LanceStore, text: str, fused: Fused, level: WordsLevel, passages: Mapping[int, float]
) -> tuple[TermContribution, ...]:
    """What every term of a query adds to the score of word search, as the store itself counts it, largest first."""
    if "words" not in fused.parts:
        return ()
    weights = _weighed(passages)
    keys: dict[str, list[str]] = {}
    if level != "document" and weights:
        keys["passage"] = [key_of(fused.id, PASSAGE, number) for number in weights]
    # With both levels, the whole document counts only where the search of words found it too.
    if level == "document" or fused.parts["words"].score > max(passages.values(), default=0.0):
        keys["document"] = [key_of(fused.id, DOCUMENT, 0)]
    parts: dict[str, TermContribution] = {}
    for scored, rows in keys.items():
        column, where, most = RANKINGS["words"][scored], is_one_of("key", rows), max(1, store.state().rows)
        texts = store.select([column], where).column(column).to_pylist()
        frequencies = Counter(term for row in texts for term in store.tokens(row or ""))
        for term, word, count in counted_words(text, store.terms):
            if term not in frequencies:
                continue
            search = partial(store.by_words, word, column)
            found, every = store.find(search(len(rows), where), search(most))
            counts = [weights[number] for number in found.passage_numbers] or [1.0] * len(found.ids)
            part = count * sum(weight * score for weight, score in zip(counts, found.scores.tolist(), strict=True))
            if word in parts:
                parts[word] = parts[word]._replace(contribution=parts[word].contribution + part)
            else:
                parts[word] = TermContribution(word, frequencies[term], len(every.ids), part)
    # What the passages add that stand in for missing ones is given to the terms in proportion.
    scale = fused.parts["words"].score / (sum(part.contribution for part in parts.values()) or 1.0)
    scaled = [part._replace(contribution=scale * part.contribution) for part in parts.values()]
    return tuple(sorted(scaled, key=lambda part: (-part.contribution, part.term)))


def _weighed(passages: Mapping[int, float], total: float | None = None) -> dict[int, float]:
    """What the best passages count by number; or, of a total, what they add to it."""
    best = dict(zip(passages.items(), PASSAGE_WEIGHTS, strict=False))
    if total is None:
        return {number: weight for (number, _), weight in best.items()}
    added = {number: weight * score for (number, score), weight in best.items()}
    scale = total / (sum(added.values()) or 1.0)
    return {number: scale * part for number, part in added.items()}
