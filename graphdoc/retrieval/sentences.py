"""The sentences of the documents of an index, and search with a document by them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch

from ..documents.document import Document
from ..encoder import DocumentEncoder
from ..errors import SettingsError
from ..inference.pipeline import EncodingPipeline
from ..segmentation.segmenter import paragraphs_of
from ..segmentation.spans import Coverage, SegmentedDocument
from ..settings.document import Paragraph
from ..similarity.alignment import align
from ..similarity.hierarchical import DocumentScorer, ScoreMoments, SentenceScoring, SentenceSet
from .alignments import HitAlignment, SentenceDocument, adding_up_to
from .fusion import Fused, Ranking, fuse, shared_places
from .lance import IS_DOCUMENT, LanceStore, all_of, is_one_of
from .results import Explanation, Hit
from .search import Search, SearchSettings, WordsLevel, condition_of, require_unchanged, rows_of_hits, term_parts
from .table import DOCUMENT_COLUMNS, SENTENCE_COLUMNS, content_hash, document_of
from .terms import Query

# Sentences that are scored together: enough that a product is worth its while, and some 25 MB of vectors.
BLOCK_SENTENCES = 16_384
# Documents whose sentences are read together: by their ids, or so many passages, of about five sentences each.
_READ_IDS, _READ_PASSAGES, _READ_DOCUMENTS = 64, 2_000, 256
# Sentences of the documents that z-scores come from, where there are more.
_SAMPLE_SENTENCES = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class Sentences:
    """The sentences of one document: vectors of unit length, ``(sentences, node size)``, and their places.

    ``places`` is ``(sentences, 4)``: the section of every sentence, its first character in the text of that, one past
    the last, and its paragraph.
    """

    vectors: npt.NDArray[Any]
    places: npt.NDArray[np.int32]

    def __len__(self) -> int:
        """Number of sentences."""
        return len(self.places)

    def columns(self) -> dict[str, bytes]:
        """What a row of an index holds of them."""
        content = self.vectors.astype(np.float16).tobytes(), self.places.astype(np.int32).tobytes()
        return dict(zip(SENTENCE_COLUMNS, content, strict=True))


def encode_sentences(
    encoder: EncodingPipeline,
    documents: Sequence[Document | SegmentedDocument],
    paragraph: Paragraph,
    show_progress_bar: bool | None = False,
) -> Iterator[Sentences]:
    """Encode all sentences of documents without the graph, many together; known passage vectors are used again.

    Raises:
        DocumentError: a document has no text.
    """
    options: dict[str, Any] = {"workers": 0, "show_progress_bar": show_progress_bar, "totals": Coverage()}
    for segmented, vectors in encoder.stream(documents, level="sentence", **options):
        spans = [(span.section, span.start, span.end) for span in segmented.passages]
        paragraphs = paragraphs_of(segmented, paragraph, encoder.segmenter)
        # As an index keeps them, so that a score does not depend on where sentences come from.
        unit = torch.nn.functional.normalize(vectors.float(), dim=-1).to(torch.float16).numpy()
        yield Sentences(unit, np.column_stack([np.array(spans, np.int32), paragraphs]))


def stored_sentences(rows: Any) -> tuple[list[str], Sentences, npt.NDArray[np.int64]]:
    """Ids of documents in rows of an index, their sentences one document after the other, and how many each has."""
    vectors_column, places_column = SENTENCE_COLUMNS
    if rows.column(places_column).null_count:
        rows = rows.filter(rows.column(places_column).is_valid())
    contents = rows.column(places_column).to_pylist()
    places = np.frombuffer(bytearray().join(contents), np.int32).reshape(-1, 4)
    vectors = np.frombuffer(bytearray().join(rows.column(vectors_column).to_pylist()), np.float16)
    sentences = Sentences(vectors.reshape(len(places), -1) if len(places) else vectors, places)
    return rows.column("id").to_pylist(), sentences, np.array([len(content) // 16 for content in contents], np.int64)


def sentence_set(parts: Sequence[Sentences], counts: Sequence[int] | None = None) -> SentenceSet:
    """Documents one after the other; ``counts`` are sentences of every document, where a part holds several."""
    wide = torch.empty(sum(map(len, parts)), parts[0].vectors.shape[1])
    # Torch widens half precision several times as fast as NumPy.
    torch.cat([torch.from_numpy(part.vectors) for part in parts], out=wide)
    ends = np.cumsum([len(part) for part in parts] if counts is None else counts, dtype=np.int64)
    is_first = np.diff(np.concatenate([part.places[:, 3] for part in parts]), prepend=-1) != 0
    is_first[ends[:-1]] = True
    starts = np.append(np.flatnonzero(is_first), ends[-1]).astype(np.int64)
    return SentenceSet(wide.numpy(), starts, np.searchsorted(starts, np.append(0, ends)).astype(np.int64))


def stored_blocks(
    store: LanceStore, where: str | None = None, ids: Sequence[str] | None = None, least: int | None = None
) -> Iterator[tuple[list[str], SentenceSet]]:
    """The sentences that an index keeps, with the ids of their documents, ``least`` sentences or more at a time."""
    columns, where = ["id", *SENTENCE_COLUMNS], all_of(IS_DOCUMENT, where)
    if ids is None:
        state = store.state()
        most = _READ_PASSAGES * state.documents // max(1, state.passages)
        batches = store.batches(columns, where, max_batch_length=max(1, min(_READ_DOCUMENTS, most)))
    else:
        starts = range(0, len(ids), _READ_IDS)
        batches = (store.select(columns, where, ids=ids[start : start + _READ_IDS]) for start in starts)
    block, parts, counts = list[str](), list[Sentences](), list[int]()
    for rows in batches:
        some, sentences, sizes = stored_sentences(rows)
        block, counts = [*block, *some], [*counts, *sizes.tolist()]
        parts += [sentences] if some else []
        if sum(counts) >= (BLOCK_SENTENCES if least is None else least):
            yield block, sentence_set(parts, counts)
            block, parts, counts = [], [], []
    if block:
        yield block, sentence_set(parts, counts)


def sample_sentences(store: LanceStore, without: str) -> SentenceSet | None:
    """The sentences of all documents but one, or of a sample where there are too many.

    Which documents are in the sample depends on their ids alone, so that it is the same for every search.
    """

    def drawn(id: str) -> bytes:
        return hashlib.blake2b(id.encode("utf-8", "surrogatepass"), digest_size=8).digest()

    ids = sorted((id for id in store.select(["id"], IS_DOCUMENT).column("id").to_pylist() if id != without), key=drawn)
    return next((sentences for _, sentences in stored_blocks(store, ids=ids, least=_SAMPLE_SENTENCES)), None)


class SentenceSearch:
    """One search of an index with a document, by its sentences; the encoder and the query are made when needed."""

    def __init__(
        self,
        store: LanceStore,
        encoder: Callable[[], DocumentEncoder],
        source: Document,
        query: Callable[[], Query],
        settings: SearchSettings,
    ) -> None:
        if store.paragraph is None:
            raise SettingsError(
                f"{store.path} keeps no sentences, so its documents cannot be ranked by {settings.by}; index them "
                "anew with sentences (graphdoc index --sentences section)"
            )
        self._store, self._encoder, self._document, self._query = store, encoder, source, query
        self._settings, self._by, self._paragraph = settings, cast(SentenceScoring, settings.by), store.paragraph
        self._words_level: WordsLevel = settings.words_level or "document"
        self._where = condition_of(store, settings.where, source.id)
        self.warnings: list[str] = []

    def run(self) -> tuple[Hit, ...]:
        """The hits, best first."""
        settings, ids = self._settings, None
        if settings.pool is not None:
            first = Search(self._store, self._query(), SearchSettings(top_k=settings.pool, where=settings.where))
            if not (ids := [fused.id for _, added in first.rounds() for fused in added]):
                return ()
        source = self._source_sentences()
        self._source, self._sentences = SentenceDocument(self._document, source.places), sentence_set([source])
        ways = {"normalization": settings.normalization, "direction": settings.direction}
        self._comparing: dict[str, Any] = {"by": self._by, "moments": self._moments(), **ways}
        scorer, scored = DocumentScorer(self._sentences, **self._comparing), list[str]()
        for block, sentences in stored_blocks(self._store, self._where, ids):
            scored += block
            scorer.add(sentences)
        if not scored:
            return ()
        scores = dict(zip(scored, scorer.scores().tolist(), strict=True))
        rankings: dict[str, Mapping[str, float]] = {self._by: scores}
        words, weight = Ranking({}), settings.weight or 0.0
        if weight:
            words = self._words(None if ids is None else scored)
            # What word search did not find has none of the words.
            of_words = {id: words.scores.get(id, 0.0) for id in scores}
            if len(set(of_words.values())) > 1:
                rankings = {"words": of_words, **rankings}
            else:
                self.warnings.append("word search tells none of the documents from another: words count nothing")
        chosen = fuse(rankings, "weighted", {"words": weight, self._by: 1 - weight}, settings.top_k)
        rows = rows_of_hits(self._store, [fused.id for fused in chosen], {})[0]
        hits = []
        ranks = shared_places({fused.id: fused.score for fused in chosen})
        for fused in chosen:
            row = rows[fused.id]
            aligned = partial(self._aligned, fused.id, fused.parts[self._by].score, row["content_hash"])
            explained = partial(self._explain, fused, row["content_hash"], words.passages(fused.id))
            about = (ranks[fused.id], fused.id, row["title"] or "", fused.score, fused.parts)
            hits.append(Hit(*about, (), row["metadata"], explained, aligned, row["cut"]))
        return tuple(hits)

    def _source_sentences(self) -> Sentences:
        """The sentences of the query document: those of the index, if it has it as it is."""
        rows = self._store.select(["id", "content_hash", *SENTENCE_COLUMNS], IS_DOCUMENT, ids=[self._document.id])
        is_known = rows.column("content_hash").to_pylist() == [content_hash(self._document)]
        if is_known and (stored := stored_sentences(rows)[1]):
            return stored
        return next(encode_sentences(self._encoder(), [self._document], self._paragraph, None))

    def _moments(self) -> ScoreMoments | None:
        """What scores are usually like in the whole index, whatever is ranked; None where they are not normalized."""
        if self._settings.normalization == "none":
            return None
        sample = sample_sentences(self._store, self._document.id)
        if sample is None:
            return None
        return ScoreMoments.from_sample(self._sentences, sample, by=self._by, direction=self._settings.direction)

    def _words(self, ids: Sequence[str] | None) -> Ranking:
        if not self._query().text:
            return Ranking({})
        search = Search(self._store, self._query(), SearchSettings(by="words", where=self._settings.where))
        condition = None if ids is None else is_one_of("id", ids)
        return search.found({"words": self._words_level}, condition, {"words": max(1, self._store.state().rows)})[
            "words"
        ]

    def _aligned(self, id: str, score: float, version: str | None) -> HitAlignment:
        require_unchanged(self._store, id, version)
        rows = self._store.select([*DOCUMENT_COLUMNS, *SENTENCE_COLUMNS], IS_DOCUMENT, ids=[id])
        sentences, settings = stored_sentences(rows)[1], self._settings
        candidate = SentenceDocument(document_of(rows.to_pylist()[0]), sentences.places)
        alignment = adding_up_to(score, align(self._sentences, sentence_set([sentences]), **self._comparing))
        about = (alignment.by, alignment.pairs, self._source, candidate)
        return HitAlignment(*about, settings.direction, settings.normalization)

    def _explain(self, fused: Fused, version: str | None, passages: Mapping[int, float]) -> Explanation:
        """Take the part of words in the score of a document apart; its alignment does so for sentences."""
        require_unchanged(self._store, fused.id, version)
        text = self._query().text if "words" in fused.parts else ""
        return Explanation(*fused, term_parts(self._store, text, fused, self._words_level, passages))
