"""Sentences of documents as an index keeps them: vectors in half precision, and where each of them stands."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
import torch
from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]

from ..documents.document import Document
from ..inference.pipeline import EncodingPipeline
from ..segmentation.segmenter import paragraph_numbers
from ..segmentation.spans import Coverage, SegmentedDocument
from ..settings.document import Paragraph
from ..similarity.hierarchical import SentenceSet

VECTORS, PLACES = "sentence_vectors", "sentence_places"
COLUMNS = (VECTORS, PLACES)
# Vectors hardly get smaller, and LanceDB reads them twice as fast as they are.
_AS_THEY_ARE = {"lance-encoding:compression": "none", "lance-encoding:structural-encoding": "fullzip"}

Places = npt.NDArray[np.int32]
_Part = tuple[npt.NDArray[np.float16], Places, npt.NDArray[np.int64]]


@dataclass(frozen=True, slots=True, eq=False)
class Sentences:
    """The sentences of one document.

    Args:
        vectors: ``(sentences, node size)``, of unit length, in half precision or more.
        places: ``(sentences, 4)``: the section of every sentence, its first character in the text of that, one past
            the last, and its paragraph.
    """

    vectors: npt.NDArray[Any]
    places: Places

    def columns(self) -> dict[str, bytes]:
        """What a row of an index holds of them."""
        return {VECTORS: self.vectors.astype(np.float16).tobytes(), PLACES: self.places.astype(np.int32).tobytes()}

    def as_set(self) -> SentenceSet:
        """The document, to be compared with others."""
        return sentence_set(self.vectors, self.places[:, 3], [len(self.places)])


@dataclass(frozen=True, slots=True, eq=False)
class SentenceDocument:
    """A document with its sentences, to be shown beside another one.

    Args:
        sentences: its sentences.
        headings: heading of every section.
        texts: text of every section.
        title: its title, empty when there is none.
        version: hash of what the index holds of it; None for the query document.
    """

    sentences: Sentences
    headings: Sequence[str]
    texts: Sequence[str]
    title: str = ""
    version: str | None = None

    @classmethod
    def of(cls, document: Document, sentences: Sentences, version: str | None = None) -> SentenceDocument:
        """A document with its sentences."""
        headings, texts = ([getattr(section, name) for section in document.sections] for name in ("heading", "text"))
        return cls(sentences, headings, texts, document.title, version)


@dataclass(frozen=True, slots=True, eq=False)
class SentenceBlock:
    """The sentences of some documents of a corpus.

    Args:
        ids: ids of the documents.
        sentences: their sentences, in the same order.
    """

    ids: Sequence[str]
    sentences: SentenceSet


def sentence_columns() -> list[Any]:
    """The columns of an index that holds sentences (Arrow fields)."""
    return [pa.field(name, pa.large_binary(), metadata=_AS_THEY_ARE) for name in COLUMNS]


def encode_sentences(
    encoder: EncodingPipeline,
    documents: Sequence[Document | SegmentedDocument],
    paragraph: Paragraph,
    show_progress: bool | None = False,
    bar: tqdm[Any] | None = None,
) -> Iterator[Sentences]:
    """Encode all sentences of some documents, without the graph, many together.

    Args:
        encoder: the model.
        documents: the documents, each with text; such as have the vectors of their passages have them encoded once.
        paragraph: which sentences belong together.
        show_progress: show a bar; None shows it on a terminal when the work is long.
        bar: a bar to advance by documents instead of one of this call's own.

    Raises:
        DocumentError: a document has no text.
    """
    found = encoder.stream(
        documents, level="sentence", workers=0, show_progress=show_progress, totals=Coverage(), bar=bar
    )
    for segmented, vectors in found:
        spans = [(one.section, one.start, one.end) for one in segmented.passages]
        paragraphs = paragraph_numbers(segmented, paragraph, encoder.segmenter)
        # As an index keeps them, so that a score does not depend on where sentences come from.
        unit = torch.nn.functional.normalize(vectors.float(), dim=-1).to(torch.float16).numpy()
        yield Sentences(unit, np.column_stack([np.array(spans, np.int32), paragraphs]))


def sentence_set(vectors: npt.NDArray[Any], paragraphs: npt.NDArray[Any], counts: npt.ArrayLike) -> SentenceSet:
    """Sentences of documents that lie one after the other, to be compared.

    Args:
        vectors: ``(sentences, width)``, of unit length.
        paragraphs: ``(sentences,)``, the paragraph of every sentence, which rises within a document.
        counts: ``(documents,)``, sentences of every document, one at least.
    """
    ends = np.cumsum(counts, dtype=np.int64)
    is_first = np.diff(paragraphs, prepend=-1) != 0
    is_first[ends[:-1]] = True
    starts = np.flatnonzero(is_first)
    documents = np.searchsorted(starts, np.append(0, ends))
    wide = widened([vectors])
    return SentenceSet(wide, np.append(starts, ends[-1]).astype(np.int64), documents.astype(np.int64))


def widened(parts: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.float32]:
    """Vectors one after the other in fp32, ``(rows, width)``."""
    if len(parts) == 1 and parts[0].dtype == np.float32:
        return parts[0]
    wide = torch.empty(sum(map(len, parts)), parts[0].shape[1])
    start = 0
    for part in parts:
        with warnings.catch_warnings():
            # What lies in a row of an index cannot be written, and is only read.
            warnings.simplefilter("ignore", UserWarning)
            # Torch widens half precision several times as fast as NumPy.
            wide[start : start + len(part)] = torch.from_numpy(part)
        start += len(part)
    return wide.numpy()


def stored_sentences(rows: Any) -> tuple[list[str], npt.NDArray[np.float16], Places, npt.NDArray[np.int64]]:
    """What rows of an index hold of sentences, without a step for each.

    Args:
        rows: the columns ``id``, ``sentence_vectors`` and ``sentence_places`` (an Arrow table or record batch).

    Returns:
        Ids of the documents that have sentences, vectors ``(sentences, node size)``, places ``(sentences, 4)`` and
        the number of sentences of every document.
    """
    if rows.column(PLACES).null_count:
        rows = rows.filter(rows.column(PLACES).is_valid())
    places, sizes = _joined(rows.column(PLACES))
    own = np.frombuffer(places, np.int32).reshape(-1, 4)
    vectors = np.frombuffer(_joined(rows.column(VECTORS))[0], np.float16)
    return rows.column("id").to_pylist(), vectors.reshape(len(own), -1) if len(own) else vectors, own, sizes // 16


def count_sentences(rows: Any) -> int:
    """How many sentences some rows of an index hold (an Arrow table or record batch with ``sentence_places``)."""
    _, sizes = _joined(rows.column(PLACES))
    return int(sizes.sum()) // 16


def blocks_of(batches: Iterator[Any], least: int) -> Iterator[SentenceBlock]:
    """Gather rows of an index to blocks of so many sentences, in which a product is worth its while.

    Args:
        batches: rows, as :func:`stored_sentences` takes them.
        least: sentences of a block, but of the last.
    """
    ids: list[str] = []
    parts: list[_Part] = []
    for rows in batches:
        own, vectors, places, counts = stored_sentences(rows)
        if own:
            ids += own
            parts.append((vectors, places, counts))
        if sum(len(one[1]) for one in parts) >= least:
            yield _block(ids, parts)
            ids, parts = [], []
    if ids:
        yield _block(ids, parts)


def _block(ids: list[str], parts: Sequence[_Part]) -> SentenceBlock:
    vectors, places, counts = zip(*parts, strict=True)
    paragraphs = np.concatenate([one[:, 3] for one in places])
    return SentenceBlock(ids, sentence_set(widened(vectors), paragraphs, np.concatenate(counts)))


def _joined(column: Any) -> tuple[Any, npt.NDArray[np.int64]]:
    """The bytes of a column without gaps, and how many each of its values has."""
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    values = values if pa.types.is_large_binary(values.type) else values.cast(pa.large_binary())
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int64, len(values) + 1, values.offset * 8) if len(values) else np.zeros(1, int)
    return (b"" if data is None else data[int(ends[0]) : int(ends[-1])]), np.diff(ends)
