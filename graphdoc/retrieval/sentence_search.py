"""Search with a document by its sentences: which documents are ranked, by what, and where each is like it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]

from ..documents.document import Document
from ..encoder import DocumentEncoder
from ..errors import RetrievalError
from ..inference.pipeline import EncodingPipeline
from ..runtime.progress import progress_bar
from ..settings.document import Paragraph
from ..similarity.alignment import align
from ..similarity.hierarchical import Background, By, Direction, DocumentScorer, Normalisation, SentenceSet
from .alignments import HitAlignment, adding_up_to
from .filters import filter_columns, store_filter
from .fusion import Fused, RankedDocument, fuse, fused_scores, scores_of
from .lance import LanceStore
from .results import Explanation, Hit, PairPart, TermPart
from .search import Search, SearchSettings, WordsUnit, rows_of_hits, term_parts
from .sentences import (
    COLUMNS,
    SentenceBlock,
    SentenceDocument,
    Sentences,
    blocks_of,
    encode_sentences,
    sentence_set,
    stored_sentences,
)
from .table import DOCUMENT, content_hash, document_of, paragraph_of, quoted
from .terms import Query
from .updating import Boilerplate

# What measures best (benchmarks/results/document_ranking_dev.md); the paper's is source.
DIRECTION: Direction = "both"
# Sentences that are scored together: enough that a product is worth its while, and some 25 MB of vectors.
BLOCK_SENTENCES = 16_384
# Documents whose rows are looked up, or that are encoded, together.
_BLOCK_DOCUMENTS = 64
# Documents whose ids are looked up together.
_BLOCK_IDS = 500
# Passages that documents have, which are read together; a passage is about five sentences.
_READ_PASSAGES, _READ_DOCUMENTS = 2_000, 256
# Sentences of the documents that z-scores come from, where there are more.
_SAMPLE_SENTENCES = 100_000
_DOCUMENT_COLUMNS = ("id", "title", "document_text", "structure", "content_hash")
_IS_DOCUMENT = f"level = '{DOCUMENT}'"


@dataclass(frozen=True, slots=True, eq=False)
class StoredSentences:
    """The documents of an index that keeps sentences.

    Args:
        store: the index.
        where: a condition that documents have to meet, in the SQL of the store.
    """

    store: LanceStore
    where: str | None = None

    def ids(self) -> list[str]:
        """Ids of all documents that have sentences."""
        return list(self.store.select(["id"], self._condition()).column("id").to_pylist())

    def blocks(self, ids: Sequence[str] | None = None, least: int = BLOCK_SENTENCES) -> Iterator[SentenceBlock]:
        """The sentences of some documents, or of all, in blocks of so many sentences at least."""
        yield from blocks_of(self._rows(ids), least)

    def document(self, id: str) -> SentenceDocument | None:
        """A document with its sentences; None where there is none, or none any more."""
        rows = self.store.select([*_DOCUMENT_COLUMNS, *COLUMNS], _IS_DOCUMENT, ids=[id])
        ids, vectors, places, _ = stored_sentences(rows)
        if not ids:
            return None
        (row,) = rows.to_pylist()
        return SentenceDocument.of(document_of(row), Sentences(vectors, places), row["content_hash"])

    def _rows(self, ids: Sequence[str] | None) -> Iterator[Any]:
        columns = ["id", *COLUMNS]
        if ids is None:
            state = self.store.state()
            most = _READ_PASSAGES * state.documents // max(1, state.passages)
            yield from self.store.batches(columns, self._condition(), most=max(1, min(_READ_DOCUMENTS, most)))
            return
        for start in range(0, len(ids), _BLOCK_DOCUMENTS):
            yield self.store.select(columns, self._condition(), ids=ids[start : start + _BLOCK_DOCUMENTS])

    def _condition(self) -> str:
        return _IS_DOCUMENT if self.where is None else f"{_IS_DOCUMENT} AND ({self.where})"


@dataclass(frozen=True, slots=True, eq=False)
class EncodedSentences:
    """Some documents of an index that keeps no sentences, which are encoded when they are needed, and once.

    Args:
        store: the index.
        encoder: its encoder.
        paragraph: which sentences belong together.
        chosen: ids of the documents.
        encoded: their sentences, as far as they were encoded.
    """

    store: LanceStore
    encoder: EncodingPipeline
    paragraph: Paragraph
    chosen: Sequence[str]
    encoded: dict[str, Sentences] = field(default_factory=dict)

    def blocks(self, ids: Sequence[str] | None = None, least: int = BLOCK_SENTENCES) -> Iterator[SentenceBlock]:
        """The sentences of some documents, or of all, in blocks of so many sentences at least."""
        wanted = list(self.chosen if ids is None else ids)
        waiting: list[str] = []
        with progress_bar(None, sum(id not in self.encoded for id in wanted)) as bar:
            for start in range(0, len(wanted), _BLOCK_DOCUMENTS):
                some = wanted[start : start + _BLOCK_DOCUMENTS]
                self._encode([id for id in some if id not in self.encoded], bar)
                waiting += [id for id in some if id in self.encoded]
                if sum(len(self.encoded[id].places) for id in waiting) >= least:
                    yield self._block(waiting)
                    waiting = []
        if waiting:
            yield self._block(waiting)

    def document(self, id: str) -> SentenceDocument | None:
        """A document with its sentences; None where there is none, or none any more."""
        rows = self.store.select(list(_DOCUMENT_COLUMNS), _IS_DOCUMENT, ids=[id]).to_pylist()
        if not rows or id not in self.encoded:
            return None
        return SentenceDocument.of(document_of(rows[0]), self.encoded[id], rows[0]["content_hash"])

    def _encode(self, ids: Sequence[str], bar: tqdm[Any]) -> None:
        rows = self.store.select(list(_DOCUMENT_COLUMNS), _IS_DOCUMENT, ids=ids).to_pylist() if ids else []
        documents = [document_of(row) for row in rows]
        encoded = encode_sentences(self.encoder, documents, self.paragraph, bar=bar)
        for document, sentences in zip(documents, encoded, strict=True):
            self.encoded[document.id] = sentences

    def _block(self, ids: Sequence[str]) -> SentenceBlock:
        sentences = [self.encoded[id] for id in ids]
        vectors = np.concatenate([own.vectors for own in sentences])
        paragraphs = np.concatenate([own.places[:, 3] for own in sentences])
        return SentenceBlock(list(ids), sentence_set(vectors, paragraphs, [len(own.places) for own in sentences]))


def sample_of(corpus: StoredSentences, without: str | None, most: int = _SAMPLE_SENTENCES) -> SentenceSet | None:
    """The sentences of all documents of an index but one, or of a sample where there are too many.

    Which documents are in the sample depends on their ids alone, so that it is the same for every search, and changes
    little when the index does.

    Args:
        corpus: the documents.
        without: id of a document that is left out.
        most: sentences from which on no further documents are taken.

    Returns:
        The documents; None where there is no other.
    """

    def drawn(id: str) -> bytes:
        return hashlib.blake2b(id.encode("utf-8", "surrogatepass"), digest_size=8).digest()

    ids = sorted((id for id in corpus.ids() if id != without), key=drawn)
    block = next(corpus.blocks(ids, most), None) if ids else None
    return None if block is None else block.sentences


class SentenceSearch:
    """One search of an index with a document, by its sentences.

    Args:
        store: the index.
        encoder: gives its encoder when it is needed.
        source: the query document.
        query: makes its words and its vector, where they count.
        settings: how documents are ranked.
        place: where the index lies, for messages.
    """

    def __init__(
        self,
        store: LanceStore,
        encoder: Callable[[], DocumentEncoder],
        source: Document,
        query: Callable[[], Query],
        settings: SearchSettings,
        place: str,
    ) -> None:
        self._store, self._encoder, self._source, self._query = store, encoder, source, query
        self._settings, self._place = settings, place
        self._by = cast(By, settings.by)
        self._words_unit: WordsUnit = settings.words_unit or "document"
        self._normalisation: Normalisation = settings.normalisation or "none"
        self._direction: Direction = settings.direction or DIRECTION
        self._paragraph = paragraph_of(store.record)
        self._where = settings.where and store_filter(settings.where, filter_columns(store.schema))
        self.warnings: list[str] = []

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
        source = SentenceDocument.of(self._source, self._sentences())
        sentences = source.sentences.as_set()
        background = self._background(sentences)
        scores = self._scores(sentences, background, corpus, chosen)
        if not scores:
            return ()
        rankings: dict[str, Mapping[str, float]] = {self._by: scores}
        words: dict[str, RankedDocument] = {}
        if self._settings.weight:
            words = self._words(list(scores) if chosen is not None else None)
            # What word search did not find has none of the words.
            of_words = {id: words[id].score if id in words else 0.0 for id in scores}
            if len(set(of_words.values())) > 1:
                rankings = {"words": of_words, **rankings}
            else:
                has_words = bool(self._query().text)
                reason = "tells none of the documents from another" if has_words else "has no words to search for"
                self.warnings.append(f"word search {reason}: words count nothing")
                words = {}
        weight = self._settings.weight or 0.0
        weights = {"words": weight, self._by: 1 - weight}
        aligned = partial(self._aligned, corpus, source, sentences, background)
        return self._hits(fuse(rankings, "weighted", weights, self._settings.k), words, aligned)

    def _chosen(self) -> list[str] | None:
        """Ids of the documents that are ranked; None for all."""
        settings = self._settings
        if self._normalisation == "zscore" and self._paragraph is None:
            raise RetrievalError(
                f"{self._place} keeps no sentences, and normalisation='zscore' compares scores with those of all its "
                "documents; index them anew with sentences (graphdoc index --sentences section), or leave "
                "normalisation out"
            )
        if settings.candidates is not None:
            return self._candidates(tuple(settings.candidates))
        if settings.pool is None:
            if self._paragraph is None:
                raise RetrievalError(
                    f"{self._place} keeps no sentences, so its documents cannot all be ranked by {settings.by}; index "
                    "them anew with sentences (graphdoc index --sentences section), or rank the nearest alone "
                    "(pool=100, --pool 100), whose sentences are encoded now"
                )
            return None
        first = Search(self._store, self._query(), SearchSettings(k=settings.pool, where=settings.where, passages=0))
        rankings = {name: scores_of(ranking) for name, ranking in first.rankings().items()}
        return list(fused_scores(rankings))[: settings.pool]

    def _candidates(self, ids: Sequence[str]) -> list[str]:
        """The candidates that the index has and the filter admits, without the query document."""
        present, admitted = self._ids(None, ids), self._ids(self._where, ids)
        missing = [id for id in ids if id not in present]
        if len(missing) == len(ids):
            raise RetrievalError(
                f"{self._place} has none of the {len(ids):,} candidates, such as {ids[0]!r}; give ids of its documents"
            )
        if missing:
            self.warnings.append(
                f"{len(missing):,} of {len(ids):,} candidates, such as {missing[0]!r}, are not in {self._place}: left "
                "out"
            )
        if self._source.id in present:
            self.warnings.append(f"{self._source.id!r} is a candidate of itself and was left out")
        return [id for id in ids if id in admitted and id != self._source.id]

    def _ids(self, where: str | None, ids: Sequence[str]) -> set[str]:
        condition = _IS_DOCUMENT + (f" AND ({where})" if where else "")
        blocks = [ids[start : start + _BLOCK_IDS] for start in range(0, len(ids), _BLOCK_IDS)]
        return {
            id for some in blocks for id in self._store.select(["id"], condition, ids=some).column("id").to_pylist()
        }

    def _corpus(self, chosen: list[str] | None) -> StoredSentences | EncodedSentences:
        if self._paragraph is not None:
            # The query document is not its own hit.
            conditions = [f"id != {quoted(self._source.id)}", self._where]
            return StoredSentences(self._store, " AND ".join(f"({part})" for part in conditions if part))
        assert chosen is not None
        encoder = self._encoder().leaving_out(Boilerplate.of(self._store, chosen))
        return EncodedSentences(self._store, encoder, encoder.model.config.paragraph, chosen)

    def _sentences(self) -> Sentences:
        """The sentences of the query document: those of the index, if it has it as it is."""
        if self._paragraph is not None:
            rows = self._store.select(["id", "content_hash", *COLUMNS], _IS_DOCUMENT, ids=[self._source.id])
            ids, vectors, places, _ = stored_sentences(rows)
            if ids and rows.column("content_hash").to_pylist() == [content_hash(self._source)]:
                return Sentences(vectors, places)
        encoder = self._encoder()
        paragraph = self._paragraph or encoder.model.config.paragraph
        (sentences,) = encode_sentences(encoder, [self._source], paragraph, None)
        return sentences

    def _background(self, source: SentenceSet) -> Background | None:
        """What scores are usually like in the whole index, whatever is ranked; None where they are not normalised."""
        if self._normalisation == "none":
            return None
        sample = sample_of(StoredSentences(self._store), self._source.id)
        if sample is None:
            return None
        return Background.of_sample(source, sample, by=self._by, direction=self._direction)

    def _scores(
        self,
        source: SentenceSet,
        background: Background | None,
        corpus: StoredSentences | EncodedSentences,
        ids: Sequence[str] | None,
    ) -> dict[str, float]:
        """Scores of some documents, or of all, a block of them in memory at a time."""
        scorer = DocumentScorer(
            source,
            by=self._by,
            normalisation=self._normalisation,
            direction=self._direction,
            background=background,
        )
        scored: list[str] = []
        for block in corpus.blocks(ids):
            scored += block.ids
            scorer.add(block.sentences)
        return dict(zip(scored, scorer.scores().tolist(), strict=True))

    def _words(self, ids: Sequence[str] | None) -> dict[str, RankedDocument]:
        """What word search finds, by document: of some documents, or of all."""
        query = self._query()
        if not query.text:
            return {}
        search = Search(self._store, query, SearchSettings(by="words", where=self._settings.where))
        depth = max(1, self._store.state().rows)
        conditions: list[str | None] = [None]
        if ids is not None:
            blocks = [ids[start : start + _BLOCK_IDS] for start in range(0, len(ids), _BLOCK_IDS)]
            conditions = [f"id IN ({', '.join(map(quoted, some))})" for some in blocks]
        return {
            document.id: document
            for condition in conditions
            for document in search.ranking("words", self._words_unit, condition, depth)
        }

    def _hits(
        self,
        chosen: Sequence[Fused],
        words: Mapping[str, RankedDocument],
        aligned: Callable[[str, float, str | None], HitAlignment],
    ) -> tuple[Hit, ...]:
        rows: dict[str, dict[str, Any]] = {}
        for start in range(0, len(chosen), _BLOCK_IDS):
            rows |= rows_of_hits(self._store, [fused.id for fused in chosen[start : start + _BLOCK_IDS]], {})[0]
        hits = []
        for rank, fused in enumerate(chosen, start=1):
            row = rows.get(fused.id, {})
            own = partial(aligned, fused.id, fused.parts[self._by].score, row.get("content_hash"))
            passages = dict(words[fused.id].passages) if fused.id in words else {}
            explained = partial(self._explain, fused, own, passages)
            title, metadata = row.get("title") or "", row.get("metadata", {})
            hits.append(Hit(rank, fused.id, title, fused.score, fused.parts, (), metadata, explained, own))
        return tuple(hits)

    def _aligned(
        self,
        corpus: StoredSentences | EncodedSentences,
        source: SentenceDocument,
        sentences: SentenceSet,
        background: Background | None,
        id: str,
        score: float,
        version: str | None,
    ) -> HitAlignment:
        """Where a hit is like the query document."""
        candidate = corpus.document(id)
        if candidate is None or candidate.version != version:
            raise RetrievalError(f"document {id!r} has changed or was removed since; search again")
        alignment = align(
            sentences,
            candidate.sentences.as_set(),
            by=self._by,
            normalisation=self._normalisation,
            direction=self._direction,
            background=background,
        )
        return HitAlignment(adding_up_to(score, alignment), source, candidate, self._direction, self._normalisation)

    def _explain(
        self, fused: Fused, aligned: Callable[[], HitAlignment], passages: Mapping[int, float]
    ) -> Explanation:
        """Take the score of a document apart."""
        terms: tuple[TermPart, ...] = ()
        if "words" in fused.parts:
            terms = term_parts(self._store, self._query().text, fused, self._words_unit, passages)
        return Explanation(fused.id, fused.score, fused.parts, terms, (), _pair_parts(aligned()))


def _pair_parts(aligned: HitAlignment) -> tuple[PairPart, ...]:
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
