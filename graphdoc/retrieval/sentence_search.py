"""A search with a document by its sentences: which documents are ranked, by what, and where each is like it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property, partial

from ..documents.document import Document
from ..encoder import DocumentEncoder
from ..errors import RetrievalError, SettingsError
from .alignments import HitAlignment, adding_up_to
from .explain import Explanation, PairPart
from .fields import filter_columns
from .filters import store_filter
from .fusion import Fused, as_they_are, fuse, fused_scores
from .grouping import Scored, as_run
from .hit_rows import Rows, rows_of_hits
from .lance import LanceStore
from .query import Query
from .record import paragraph_of
from .results import Hit
from .rows import DOCUMENT, content_hash, quoted
from .score_parts import terms_of
from .search import Search, SearchSettings
from .sentence_corpus import KeptSentences, PlacedDocument, SentenceCorpus, SentencesNow
from .sentence_ranking import SentenceRanking
from .sentence_settings import SentenceSettings
from .sentences import COLUMNS, Sentences, encode_sentences, stored_sentences
from .updating import Boilerplate

# Documents whose ids are looked up together.
_BLOCK = 500


@dataclass(eq=False)
class SentenceSearch:
    """One search of an index with a document, by its sentences.

    Args:
        store: the index.
        encoder: gives its encoder when it is needed.
        source: the document that is asked with.
        query: makes its words and its vector, where they count.
        settings: how documents are ranked.
        place: where the index lies, for messages.
    """

    store: LanceStore
    encoder: Callable[[], DocumentEncoder]
    source: Document
    query: Callable[[], Query]
    settings: SentenceSettings
    place: str
    warnings: list[str] = field(default_factory=list)

    def run(self) -> tuple[Hit, ...]:
        """The hits, best first.

        Raises:
            RetrievalError: the index keeps no sentences and nothing says which documents are ranked, or it has none of
                the candidates.
            DocumentError: the document has no text.
        """
        chosen = self._chosen()
        if chosen is not None and not chosen:
            return ()
        corpus = self._corpus(chosen)
        source = self._sentences()
        settings = self.settings
        ranking = SentenceRanking.in_corpus(
            # Scores are compared with those of the whole index, whatever is ranked.
            KeptSentences(self.store),
            source.as_set(),
            self.source.id,
            settings.by,
            settings.normalisation,
            settings.direction,
        )
        own = ranking.scores(corpus, chosen)
        if not own:
            return ()
        if not settings.words:
            return self._hits(as_they_are({settings.by: own}, settings.k), corpus, ranking, source, {})
        words = self._words(list(own) if chosen is not None else None)
        # What word search did not find has none of the words.
        found = {id: words[id].score if id in words else 0.0 for id in own}
        if len(set(found.values())) == 1:
            reason = "tells none of the documents from another" if self.query().text else "has no words to search for"
            self.warnings.append(f"word search {reason}: words count nothing")
            return self._hits(as_they_are({settings.by: own}, settings.k), corpus, ranking, source, {})
        weights = {"words": settings.words, settings.by: 1 - settings.words}
        fused = fuse({"words": found, settings.by: own}, "weighted", weights, settings.k)
        return self._hits(fused, corpus, ranking, source, words)

    @cached_property
    def _where(self) -> str | None:
        return store_filter(self.settings.where, filter_columns(self.store.schema))

    def _chosen(self) -> list[str] | None:
        """Ids of the documents that are ranked; None for all."""
        settings = self.settings
        keeps = paragraph_of(self.store.record) is not None
        if settings.normalisation == "zscore" and not keeps:
            raise RetrievalError(
                f"{self.place} keeps no sentences, and normalisation='zscore' compares scores with those of all its "
                "documents; index them into another place with sentences (graphdoc index --sentences), or leave "
                "normalisation out"
            )
        if settings.candidate_ids is not None:
            return self._candidates(settings.candidate_ids)
        if settings.pool is None:
            if not keeps:
                raise RetrievalError(
                    f"{self.place} keeps no sentences, so its documents cannot all be ranked by {settings.by}; index "
                    "them into another place with sentences (graphdoc index --sentences), or rank the nearest alone "
                    "(pool=100, --pool 100), whose sentences are encoded now"
                )
            return None
        first = Search(self.store, self.query(), SearchSettings(k=settings.pool, where=settings.where, passages=0))
        rankings = {name: as_run(found) for name, found in first.rankings().items()}
        return list(fused_scores(rankings))[: settings.pool]

    def _candidates(self, ids: Sequence[str]) -> list[str]:
        """The candidates that the index has and the filter admits."""
        blocks = [ids[start : start + _BLOCK] for start in range(0, len(ids), _BLOCK)]
        there = {id for some in blocks for id in self._ids(None, some)}
        chosen, warnings = known_candidates(ids, there, self.source.id, self.place)
        self.warnings += warnings
        if self._where is None:
            return chosen
        met = {id for some in blocks for id in self._ids(self._where, some)}
        return [id for id in chosen if id in met]

    def _ids(self, where: str | None, ids: Sequence[str]) -> list[str]:
        condition = f"level = '{DOCUMENT}'" + (f" AND ({where})" if where else "")
        return list(self.store.select(["id"], condition, ids=ids).column("id").to_pylist())

    def _corpus(self, chosen: list[str] | None) -> SentenceCorpus:
        if paragraph_of(self.store.record) is not None:
            # A document that is asked with is not its own hit.
            conditions = [f"id != {quoted(self.source.id)}", self._where]
            return KeptSentences(self.store, " AND ".join(f"({part})" for part in conditions if part))
        assert chosen is not None
        encoder = self.encoder().leaving_out(Boilerplate.of(self.store, chosen))
        return SentencesNow(self.store, encoder, encoder.model.config.paragraph, chosen)

    def _sentences(self) -> Sentences:
        """The sentences of the document that is asked with: those of the index, if it has it as it is."""
        paragraph = paragraph_of(self.store.record)
        if paragraph is not None:
            rows = self.store.select(["id", "content_hash", *COLUMNS], f"level = '{DOCUMENT}'", ids=[self.source.id])
            ids, vectors, places, _ = stored_sentences(rows)
            if ids and rows.column("content_hash").to_pylist() == [content_hash(self.source)]:
                return Sentences(vectors, places)
        encoder = self.encoder()
        (own,) = encode_sentences(encoder, [self.source], paragraph or encoder.model.config.paragraph, None)
        return own

    def _words(self, ids: Sequence[str] | None) -> dict[str, Scored]:
        """What word search finds, by document: of some documents, or of all."""
        settings, query = self.settings, self.query()
        if not query.text:
            return {}
        search = Search(self.store, query, SearchSettings(by="words", where=settings.where))
        if ids is None:
            found = search.ranking("words", settings.ranked_by_words, depth=max(1, self.store.state().rows))
            return {one.id: one for one in found}
        scores: dict[str, Scored] = {}
        for start in range(0, len(ids), _BLOCK):
            condition = f"id IN ({', '.join(map(quoted, ids[start : start + _BLOCK]))})"
            depth = max(1, self.store.state().rows)
            scores.update({one.id: one for one in search.ranking("words", settings.ranked_by_words, condition, depth)})
        return scores

    def _hits(
        self,
        chosen: Sequence[Fused],
        corpus: SentenceCorpus,
        ranking: SentenceRanking,
        source: Sentences,
        words: Mapping[str, Scored],
    ) -> tuple[Hit, ...]:
        asked = PlacedDocument.of(self.source, source)
        rows: Rows = {}
        for start in range(0, len(chosen), _BLOCK):
            rows |= rows_of_hits(self.store, [one.id for one in chosen[start : start + _BLOCK]], {})[0]
        hits = []
        for rank, one in enumerate(chosen, start=1):
            row = rows.get(one.id, {})
            aligned = partial(
                aligned_with, corpus, ranking, asked, one.id, one.parts[ranking.by].score, row.get("content_hash")
            )
            passages = dict(words[one.id].passages) if one.id in words else {}
            explained = partial(self._explain, one, aligned, passages)
            title, metadata = str(row.get("title") or ""), row.get("metadata", {})
            hits.append(Hit(rank, one.id, title, one.score, one.parts, (), metadata, explained, aligned))
        return tuple(hits)

    def _explain(self, one: Fused, aligned: Callable[[], HitAlignment], passages: Mapping[int, float]) -> Explanation:
        """Take the score of a document apart."""
        terms = []
        if "words" in one.parts:
            terms = terms_of(self.store, self.query().text, one, self.settings.ranked_by_words, passages)
        return Explanation(
            one.id,
            one.score,
            one.parts,
            tuple(sorted(terms, key=lambda part: (-part.part, part.term))),
            (),
            pair_parts(aligned()),
        )


def known_candidates(ids: Sequence[str], there: Set[str], source: str, place: str) -> tuple[list[str], list[str]]:
    """The candidates that a corpus has, without the document that is asked with, and what the reader should know.

    Args:
        ids: the candidates.
        there: ids of documents that the corpus has.
        source: id of the document that is asked with.
        place: where the corpus lies, for messages.

    Raises:
        RetrievalError: it has none of them.
    """
    missing = [id for id in ids if id not in there]
    if len(missing) == len(ids):
        raise RetrievalError(
            f"{place} has none of the {len(ids):,} candidates, such as {ids[0]!r}; give ids of its documents"
        )
    warnings = []
    if missing:
        warnings.append(
            f"{len(missing):,} of {len(ids):,} candidates, such as {missing[0]!r}, are not in {place}: left out"
        )
    if source in there and source in ids:
        warnings.append(f"{source!r} is a candidate of itself and was left out")
    return [id for id in ids if id in there and id != source], warnings


def aligned_with(
    corpus: SentenceCorpus,
    ranking: SentenceRanking,
    source: PlacedDocument,
    id: str,
    score: float,
    version: object = None,
) -> HitAlignment:
    """Where a document of a corpus is like the one that was asked with.

    Args:
        corpus: the documents.
        ranking: how they were scored.
        source: the document that was asked with.
        id: the hit.
        score: its score by sentences.
        version: hash of what the index held of it then.

    Raises:
        RetrievalError: the document has changed or is no longer there.
    """
    candidate = corpus.placed(id)
    if candidate is None or candidate.version != version:
        raise RetrievalError(f"document {id!r} has changed or was removed since; search again")
    alignment = adding_up_to(score, ranking.align(candidate.sentences.as_set()))
    return HitAlignment(alignment, source, candidate, ranking.direction, ranking.normalisation)


def pair_parts(aligned: HitAlignment) -> tuple[PairPart, ...]:
    """What every pair of paragraphs adds to a score, largest first."""
    parts = [
        PairPart(
            pair.source,
            pair.candidate,
            aligned.heading("source", pair.source),
            aligned.heading("candidate", pair.candidate),
            pair.contribution,
            pair.direction,
        )
        for pair in aligned.pairs
    ]
    return tuple(sorted(parts, key=lambda part: (-part.part, part.source, part.candidate)))


def require_document(query: object, by: str) -> Document:
    """Refuse a query that is no document.

    Raises:
        SettingsError: it is not.
    """
    if not isinstance(query, Document):
        raise SettingsError(
            f"by={by!r} ranks by a document; give one, such as Document.from_text(...), or search by hybrid, words or "
            "vectors"
        )
    return query
