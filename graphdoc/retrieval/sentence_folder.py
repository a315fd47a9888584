"""A folder of sentence vectors as a corpus whose documents can be ranked by their sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
import pyarrow.compute  # type: ignore[import-untyped, unused-ignore]
import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]

from ..documents.document import Document
from ..encoder import DocumentEncoder
from ..errors import RetrievalError, SettingsError
from ..vectors.store import MANIFEST_FILE, Manifest, checked_shards
from .explain import Explanation
from .fusion import Fused, as_they_are
from .record import require_same_model
from .results import Hit, SearchResults
from .sentence_corpus import BLOCK_SENTENCES, PlacedDocument
from .sentence_ranking import SentenceRanking
from .sentence_search import aligned_with, known_candidates, pair_parts, require_document
from .sentence_settings import SentenceOptions, SentenceSettings
from .sentences import SentenceBlock, Sentences, encode_sentences, sentence_set

_ROWS = 4_096
_OF_INDEXES = ("words", "words_unit", "where", "pool")
# How documents are ranked that is without paragraphs.
_WITHOUT_PARAGRAPHS = ("flat", "document")


class SentenceFolder:
    """A folder that ``graphdoc encode --level sentence`` or ``encode_to_disk(level="sentence")`` has written.

    Its paragraphs are sections, and it has no texts: a hit's alignment says where sentences stand, not what they say.

    Args:
        folder: the folder.
        encoder: the encoder that it was written with.

    Raises:
        OutputError: it is not finished, or a file of it is missing or was changed.
        RetrievalError: it holds vectors of something else than sentences.
        ModelError: it was written with another model.
    """

    def __init__(self, folder: str | Path, encoder: DocumentEncoder) -> None:
        self.place, self._encoder = str(folder), encoder
        self._manifest = Manifest.read(folder)
        level = self._manifest.settings["level"]
        if level != "sentence":
            raise RetrievalError(
                f"{folder} holds vectors of the level {level}, and documents are ranked by sentences; encode them "
                "with --level sentence into another folder"
            )
        record = {"model": self._manifest.model, "weights": self._manifest.weights}
        fix = "give that model and its --dtype, or encode the documents into another folder"
        require_same_model(record, encoder, self.place, fix, has_sentences=True)
        self._files = checked_shards(self._manifest)

    @classmethod
    def is_one(cls, place: str | Path) -> bool:
        """Whether there is a folder of vectors at a place, finished or not."""
        try:
            folder = Path(place)
            return folder.is_dir() and ((folder / MANIFEST_FILE).is_file() or any(folder.glob("shard-*.parquet")))
        except OSError:  # No folder can have the name.
            return False

    def __len__(self) -> int:
        """Number of documents."""
        return self._manifest.documents

    def search(self, query: Document, k: int = 10, **settings: Unpack[SentenceOptions]) -> SearchResults:
        """Rank its documents by their sentences.

        Args:
            query: the document that is asked with.
            k: documents wanted.
            **settings: fields of :class:`~graphdoc.retrieval.sentence_settings.SentenceSettings`, but ``words``,
                ``where`` and ``pool``, for which an index is needed.

        Returns:
            The documents, best first, with alignments.

        Raises:
            SettingsError: a setting is out of range, or needs an index.
            RetrievalError: it has none of the candidates, or two documents of one id.
            DocumentError: the document has no text.
        """
        chosen = self._settings(k, settings)
        source = require_document(query, chosen.by)
        (own,) = encode_sentences(self._encoder, [source], "section", None)
        ranking = SentenceRanking.in_corpus(
            self, own.as_set(), source.id, chosen.by, chosen.normalisation, chosen.direction
        )
        candidates, warnings = self._candidates(source.id, chosen.candidate_ids)
        scores = ranking.scores(self, candidates)
        scores.pop(source.id, None)
        asked = PlacedDocument.of(source, own)
        found = as_they_are({chosen.by: scores}, k) if scores else []
        hits = [self._hit(rank, one, ranking, asked) for rank, one in enumerate(found, start=1)]
        about = {"place": self.place, "documents": len(self), "passages": None, "model": dict(self._manifest.model)}
        shown = {"text": source.text, "document": source.id, "title": source.title}
        warnings += [] if hits else ["nothing was found"]
        return SearchResults(tuple(hits), shown, chosen.by, None, None, k, about, tuple(warnings))

    def ids(self) -> list[str]:
        """Ids of all documents."""
        return [id for block in self.blocks() for id in block.ids]

    def blocks(self, ids: Sequence[str] | None = None, least: int = BLOCK_SENTENCES) -> Iterator[SentenceBlock]:
        """The sentences of some documents, or of all, in blocks of so many sentences at least."""
        wanted = None if ids is None else pa.array(list(ids), pa.string())
        names: list[str] = []
        parts: list[tuple[Any, ...]] = []
        for own, vectors, places, counts in map(_columns, self._documents(wanted)):
            names += own
            parts.append((vectors, places, counts))
            if sum(len(one[1]) for one in parts) >= least:
                yield _block(names, parts)
                names, parts = [], []
        if names:
            yield _block(names, parts)

    def placed(self, id: str) -> PlacedDocument | None:
        """A document with its sentences; None where there is none."""
        for path in self._files:
            rows = pq.read_table(path, filters=[("id", "=", id)])
            if not len(rows):
                continue
            _, vectors, places, _ = _columns(rows)
            sections = dict(zip(places[:, 0].tolist(), rows.column("heading").to_pylist(), strict=True))
            headings = [sections.get(number, "") for number in range(max(sections) + 1)]
            return PlacedDocument(Sentences(vectors, places), headings, None)
        return None

    def _documents(self, wanted: Any) -> Iterator[Any]:
        """Rows of whole documents, some at a time."""
        columns = ["id", "section", "sentence", "start", "end", "vector"]
        for path in self._files:
            kept = None
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(_ROWS, columns=columns):
                    rows = pa.Table.from_batches([batch])
                    if wanted is not None:
                        rows = rows.filter(pa.compute.is_in(rows.column("id"), value_set=wanted))
                    rows = rows if kept is None else pa.concat_tables([kept, rows])
                    starts = np.flatnonzero(rows.column("sentence").to_numpy() == 0)
                    # The last document may go on in the rows that follow.
                    end = int(starts[-1]) if len(starts) else 0
                    kept = rows.slice(end)
                    if end:
                        yield rows.slice(0, end)
            if kept is not None and len(kept):
                yield kept

    def _settings(self, k: int, settings: Mapping[str, Any]) -> SentenceSettings:
        for name in _OF_INDEXES:
            if settings.get(name):
                raise SettingsError(
                    f"{name}={settings[name]!r} needs an index, and {self.place} is a folder of vectors; leave it "
                    "out, or index the documents (graphdoc index --sentences)"
                )
        chosen = SentenceSettings(k=k, **{name: value for name, value in settings.items() if name not in _OF_INDEXES})
        paragraph = self._encoder.model.config.paragraph
        if paragraph != "section" and chosen.by not in _WITHOUT_PARAGRAPHS:
            raise SettingsError(
                f"by={chosen.by!r} needs paragraphs of the kind {paragraph}, and {self.place} knows sections alone; "
                "rank by flat or document, or index the documents (graphdoc index --sentences)"
            )
        return chosen

    def _candidates(self, source: str, ids: Sequence[str] | None) -> tuple[list[str] | None, list[str]]:
        """The candidates that there are, and what the reader should know."""
        if ids is None:
            return None, []
        return known_candidates(ids, set(self.ids()), source, self.place)

    def _hit(self, rank: int, one: Fused, ranking: SentenceRanking, source: PlacedDocument) -> Hit:
        aligned = partial(aligned_with, self, ranking, source, one.id, one.score)

        def explained() -> Explanation:
            return Explanation(one.id, one.score, one.parts, (), (), pair_parts(aligned()))

        return Hit(rank, one.id, "", one.score, one.parts, (), {}, explained, aligned)


def _columns(rows: Any) -> tuple[list[str], Any, Any, Any]:
    """Ids, unit vectors, places and numbers of sentences of the documents in some rows, without a step for each."""
    rows = rows.combine_chunks()
    starts = np.flatnonzero(rows.column("sentence").to_numpy() == 0)
    vectors = rows.column("vector").combine_chunks().flatten().to_numpy().reshape(len(rows), -1)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    section, start, end = (rows.column(name).to_numpy() for name in ("section", "start", "end"))
    # Numbers of paragraphs have no gaps: they rise where the section changes.
    changes = np.diff(section, prepend=-1) != 0
    counts = np.diff(np.append(starts, len(rows)))
    paragraph = np.cumsum(changes) - np.repeat(np.cumsum(changes)[starts], counts)
    places = np.column_stack([section, start, end, paragraph]).astype(np.int32)
    names = rows.column("id").take(pa.array(starts)).to_pylist()
    return names, vectors / np.where(lengths > 0, lengths, 1), places, counts


def _block(ids: list[str], parts: Sequence[tuple[Any, ...]]) -> SentenceBlock:
    vectors, places, counts = (np.concatenate(one) for one in zip(*parts, strict=True))
    return SentenceBlock(ids, sentence_set(vectors, places[:, 3], counts))
