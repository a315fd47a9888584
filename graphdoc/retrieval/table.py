"""The table of an index: rows of documents and passages, and columns of metadata."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
import pyarrow.compute as pc  # type: ignore[import-untyped, unused-ignore]

from ..documents.document import Document
from ..documents.section import Metadata, Section, clean_text
from ..errors import DocumentError, SettingsError
from ..runtime.arrays import Vectors
from ..runtime.text import described, one_line
from ..segmentation.repeats import SectionSpan
from ..segmentation.spans import SegmentedDocument
from ..segmentation.term_weights import TermCounts, Tokenize, marked_terms, term_id
from ..similarity.encoded_document import EncodedDocument
from .lance import DOCUMENT, IS_DOCUMENT, PASSAGE, LanceStore, key_of

REPEATED = "repeated"
TERMS = "terms"
SENTENCE_COLUMNS = ("sentence_vectors", "sentence_places")
# What a document is made of again.
DOCUMENT_COLUMNS = ("id", "title", "document_text", "structure")
# Every change touches every column of the table.
MOST_FIELDS = 1_000
_GAP = "\n\n"
# Vectors hardly get smaller, and LanceDB reads them twice as fast as they are.
_UNCOMPRESSED = {"lance-encoding:compression": "none", "lance-encoding:structural-encoding": "fullzip"}
# Before the names of columns that hold fields; no other column of the table begins so.
_PREFIX = "field_"
# The columns that every index has and a filter can name.
_EVERYWHERE = ("id", "title", "label", "heading", "text")
_HELD = {"bool": "true or false", "int64": "whole numbers", "double": "numbers", "string": "text"}
_TEXTS = pa.list_(pa.string())


def schema_of(hidden: int, node: int, encoder: int, *, sentences: bool = False, repeats: bool = False) -> Any:
    """Columns of the table, without those of fields, for lengths of document, passage and pooled passage vectors.

    ``passages`` is how many passages the document has. ``text`` holds what word search sees of a passage: headings
    that begin at it, then from ``text_start`` on the passage itself; ``document_text`` holds a whole document, and
    ``terms`` counts its terms (:class:`~graphdoc.segmentation.term_weights.TermCounts`).
    ``share`` is what a passage adds to the document vector, and ``encoder_vector`` what it is encoded to before the
    graph. Sentences are in the row of their document: ``sentence_vectors`` in half precision and of unit length, one
    after the other, and in ``sentence_places`` four whole numbers of 32 bits for each: section, ``start``, ``end`` and
    paragraph. ``repeated`` lists passages that are left out of a document, as JSON.
    """
    text, number, place = pa.string(), pa.int32(), pa.int64()
    columns = {
        **{"key": text, "id": text, "level": text, "number": number, "passages": number, "title": text, "label": text},
        **{"section": number, "heading": text, "start": place, "end": place, "text": text, "text_start": number},
        "document_text": text,
        TERMS: pa.binary(),
        "document_vector": pa.list_(pa.float32(), hidden),
        "passage_vector": pa.list_(pa.float32(), node),
        "encoder_vector": pa.list_(pa.float32(), encoder),
        "share": pa.list_(pa.float16(), hidden),
        **{"content_hash": text, "coverage": text, "structure": text},
    }
    fields = [pa.field(name, kind, nullable=name not in list(columns)[:4]) for name, kind in columns.items()]
    if sentences:
        fields += [pa.field(name, pa.large_binary(), metadata=_UNCOMPRESSED) for name in SENTENCE_COLUMNS]
    if repeats:
        fields.append(pa.field(REPEATED, text))
    return pa.schema(fields)


def ids_of(value: object) -> list[str]:
    """Ids as documents have them, of one or of several."""
    values: list[object] = [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)
    for id in values:
        if not isinstance(id, str):
            raise SettingsError(f"the id {described(id)} is no text; give ids as strings")
    return [clean_text(str(id)).strip() for id in values]


def text_hash(text: str) -> str:
    """Hash of a text, by which copies are known."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def content_hash(document: Document) -> str:
    """Hash of everything that the index holds of a document."""
    return text_hash(json.dumps(document.to_dict(), ensure_ascii=False, sort_keys=True, default=str))


def tokens_hash(token_ids: Sequence[int]) -> str:
    """Hash of what the passage encoder sees of a passage."""
    return hashlib.blake2b(np.asarray(token_ids, np.int64).tobytes(), digest_size=16).hexdigest()


def rows_of(segmented: SegmentedDocument, fields: Fields, **values: Any) -> list[dict[str, Any]]:
    """The rows of a document without vectors and terms, as values by column: its own with others, and passages."""
    document = segmented.document
    text, spans = whole_text(document)
    label = document.label
    shared = {
        "id": document.id,
        "passages": len(segmented.passages),
        "title": document.title,
        "label": None if label is None else "; ".join(label) if isinstance(label, tuple) else str(label),
        **fields.values(document),
    }
    # Halves of surrogate pairs in metadata are kept as they are, which only ASCII can.
    structure = {
        "sections": [
            [section.heading, section.level, list(section.path), *span]
            for section, span in zip(document.sections, spans, strict=True)
        ],
        "label": label,
        "metadata": Metadata(document.metadata).plain(),
    }
    values = {
        "document_text": text,
        "content_hash": content_hash(document),
        "coverage": json.dumps(segmented.coverage.to_dict()),
        "structure": json.dumps(structure, default=str),
        **values,
    }

    def row(level: str, number: int, values: Mapping[str, Any]) -> dict[str, Any]:
        return {"key": key_of(document.id, level, number), **shared, "level": level, "number": number, **values}

    rows = [row(DOCUMENT, 0, values)]
    for number, (span, headings) in enumerate(zip(segmented.passages, headings_above(segmented), strict=True)):
        values = {
            "section": span.section,
            "heading": document.sections[span.section].heading,
            "start": span.start,
            "end": span.end,
            "text": headings + segmented.text(span),
            "text_start": len(headings),
            "content_hash": tokens_hash(segmented.token_ids[number]),
        }
        rows.append(row(PASSAGE, number, values))
    return rows


def add_vectors(
    rows: Sequence[dict[str, Any]], encoded: EncodedDocument, pooled: Vectors | None, *, unit_length: bool
) -> None:
    """Put the vectors of a document into its rows, at unit length where the model compares by cosine.

    ``pooled`` is ``(passages, encoder hidden)``, pooled passage vectors; None where they are not to be used again.
    """
    length = float(np.linalg.norm(encoded.vector.astype(np.float64))) or 1.0 if unit_length else 1.0
    passages = l2_normalized(encoded.passages) if unit_length else encoded.passages
    shares = (encoded.passage_attributions / length).astype(np.float16)
    rows[0]["document_vector"] = encoded.vector / length
    for number, row in enumerate(rows[1:]):
        row |= {"passage_vector": passages[number], "share": shares[number]}
        row["encoder_vector"] = None if pooled is None else pooled[number]


def headings_above(segmented: SegmentedDocument) -> list[str]:
    """Title and headings that begin at each passage of a document, which word search sees before its text."""
    document, headings, seen = segmented.document, [], -1
    for number, span in enumerate(segmented.passages):
        above = [document.title] if number == 0 and document.title else []
        above += [section.heading for section in document.sections[seen + 1 : span.section + 1] if section.heading]
        seen = max(seen, span.section)
        headings.append("".join(f"{heading}\n" for heading in above))
    return headings


def table_of(rows: Sequence[dict[str, Any]], schema: Any, tokenize: Tokenize) -> Any:
    """An Arrow table of rows, which are values by column; here the terms of documents are put in."""
    of_documents = [row for row in rows if row["level"] == DOCUMENT]
    counted = counted_terms([row["document_text"] for row in of_documents], tokenize)
    for row, terms in zip(of_documents, counted, strict=True):
        row[TERMS] = terms.packed()
    # Arrow's own pool keeps what it was once given, which the many sizes of texts let grow with the number of tables.
    array = partial(pa.array, memory_pool=pa.system_memory_pool())
    columns = []
    for field in schema:
        values = [row.get(field.name) for row in rows]
        is_vector = pa.types.is_fixed_size_list(field.type)
        columns.append(_vectors(values, field.type) if is_vector else array(values, field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def counted_terms(texts: Sequence[str], tokenize: Tokenize) -> Iterator[TermCounts]:
    """The terms of each of many texts with their counts; whatever stands between spaces becomes terms once."""
    words = pc.ascii_split_whitespace(pa.array(texts, pa.string()))
    encoded = words.flatten().dictionary_encode()
    terms, ends = marked_terms(encoded.dictionary.to_pylist(), tokenize)
    ids, places = np.fromiter(map(term_id, terms), np.uint32), encoded.indices.to_numpy()
    # Terms of all words, one after the other as the texts have them.
    counts = (np.diff(ends, prepend=-1) - 1)[places]
    stops = np.cumsum(counts)
    ids = ids[np.repeat(ends[places] - stops, counts) + np.arange(counts.sum())]
    for start, stop in pairwise(np.append(0, stops)[words.offsets.to_numpy()].tolist()):
        found, times = np.unique(ids[start:stop], return_counts=True)
        yield TermCounts(found, times.astype(np.uint32))


def whole_text(document: Document) -> tuple[str, list[tuple[int, int]]]:
    """Title, headings and texts of a document in one piece, and where the text of every section stands in it."""
    text, spans = document.title and document.title + _GAP, []
    parts, length = [text], len(text)
    for section in document.sections:
        heading = section.heading + "\n" if section.heading else ""
        spans.append((length + len(heading), length + len(heading) + len(section.text)))
        parts.append(heading + section.text + _GAP)
        length += len(parts[-1])
    return "".join(parts), spans


def document_of(row: Mapping[str, Any]) -> Document:
    """The document that a row of level ``document`` was made of."""
    structure, text = json.loads(row["structure"]), row["document_text"]
    sections = tuple(
        Section(text[start:end], heading, level, tuple(path))
        for heading, level, path, start, end in structure["sections"]
    )
    label = structure["label"]
    label = tuple(label) if isinstance(label, list) else label
    return Document(row["id"], sections, row["title"] or "", label, structure["metadata"])


def l2_normalized(vectors: Vectors) -> Vectors:
    """Vectors, or one, of unit length; one of zeros stays so."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), np.float32)


def _vectors(values: Sequence[npt.NDArray[Any] | None], kind: Any) -> Any:
    flat = np.zeros((len(values), kind.list_size), kind.value_type.to_pandas_dtype())
    missing = np.array([value is None for value in values])
    if not missing.all():
        flat[~missing] = np.stack([value for value in values if value is not None])
    return pa.FixedSizeListArray.from_arrays(pa.array(flat.reshape(-1)), type=kind, mask=pa.array(missing))


def vectors_of(rows: Any, column: str) -> npt.NDArray[Any]:
    """A column of vectors without nulls, ``(rows, length)``, of an Arrow table or record batch."""
    values = rows.column(column)
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return np.asarray(values.flatten().to_numpy(zero_copy_only=False)).reshape(-1, values.type.list_size)


class Column(NamedTuple):
    """A column that a filter can name: its name in the table, and its Arrow type."""

    stored: str
    kind: Any


@lru_cache(maxsize=8)
def field_columns(schema: Any) -> dict[str, Column]:
    """The columns of fields in an Arrow schema, by the names that documents give them."""

    def name(stored: str) -> str:
        return re.sub("_([0-9a-f]+)_", lambda match: chr(int(match[1], 16)), stored.removeprefix(_PREFIX))

    return {name(field.name): Column(field.name, field.type) for field in schema if field.name.startswith(_PREFIX)}


def filter_columns(schema: Any) -> dict[str, Column]:
    """The columns that a filter can name: fields, and of the table's own those that no field hides."""
    fields = field_columns(schema)
    return fields | {name: Column(name, schema.field(name).type) for name in _EVERYWHERE if name not in fields}


def kind_name(kind: Any) -> str:
    """What a column of an Arrow type holds, in words."""
    return "lists of texts" if pa.types.is_list(kind) else _HELD[str(kind)]


class Fields:
    """The fields of documents in an index.

    The first document that has a field decides its type, and a value of another type is an error. Deeper values, and
    numbers that no column can hold, are kept with the document, and cannot be searched by.
    """

    def __init__(self, schema: Any) -> None:
        self._types: dict[str, Any] = {name: column.kind for name, column in field_columns(schema).items()}

    def admit(self, document: Document) -> dict[str, Any]:
        """Check the fields of a document, and take in those that are new: their columns and Arrow types."""
        new = {name: kind for name, _, kind in _fields_of(document) if name not in self._types}
        total = len(self._types) + len(new)
        if total > MOST_FIELDS:
            raise DocumentError(
                f"document {document.id!r}: with its metadata the index would have {total:,} fields, more than "
                f"{MOST_FIELDS:,}; put what no search is restricted by into one field"
            )
        self.values(document)
        self._types |= new
        return {_stored_name(name): kind for name, kind in new.items()}

    def values(self, document: Document) -> dict[str, Any]:
        """The fields of a document by column, of those that there are columns of."""
        values = {}
        for name, value, kind in _fields_of(document):
            if name in self._types:
                values[_stored_name(name)] = fitted = _fitted(value, kind, self._types[name])
                if fitted is None:
                    raise DocumentError(
                        f"document {document.id!r}: its {one_line(name, 60)} is {described(value)}, but the index "
                        f"holds {kind_name(self._types[name])} there; give it a value of this type, or leave it out"
                    )
        return values


def _stored_name(name: str) -> str:
    """The column of a field, the same in every index: whatever people call it, the store sees plain letters."""
    return _PREFIX + re.sub("[^a-z0-9]", lambda match: f"_{ord(match[0]):x}_", name)


def _fields_of(document: Document) -> Iterator[tuple[str, Any, Any]]:
    """Names and values of the metadata that a column can hold, with its Arrow type."""
    for name, value in document.metadata.items():
        kind: Any = None
        if isinstance(value, tuple | list | frozenset | set):
            kind = _TEXTS if value and all(isinstance(text, str) for text in value) else None
        elif isinstance(value, str) or hasattr(value, "isoformat"):
            kind = pa.string()
        elif isinstance(value, bool):
            kind = pa.bool_()
        elif isinstance(value, int | float) and not has_no_column(value):
            kind = pa.int64() if isinstance(value, int) else pa.float64()
        if kind is not None:
            yield str(name), value, kind


def has_no_column(value: Any) -> bool:
    """Whether a value is a number that no column can hold."""
    if isinstance(value, int):
        return not -(2**63) <= value < 2**63
    return isinstance(value, float) and not math.isfinite(value)


def _fitted(value: Any, kind: Any, column: Any) -> Any:
    """A value of one Arrow type as a column of a type holds it; None where it does not fit."""
    value = value.isoformat() if hasattr(value, "isoformat") else value
    if column == _TEXTS and kind in (_TEXTS, pa.string()):
        texts = sorted(value) if isinstance(value, frozenset | set) else [value] if kind == pa.string() else value
        return [clean_text(text) for text in texts]
    if column == pa.string():
        return clean_text("; ".join(value) if kind == _TEXTS else str(value))
    if kind == column:
        return value
    if column == pa.float64() and kind == pa.int64():
        return float(value)
    if column == pa.int64() and kind == pa.float64() and value.is_integer() and not has_no_column(int(value)):
        return int(value)
    return None


@dataclass(frozen=True, slots=True)
class Boilerplate:
    """The passages that an index leaves out of its documents, by their ids, since they repeat in it."""

    places: Mapping[str, list[SectionSpan]]

    @classmethod
    def from_store(cls, store: LanceStore, ids: Sequence[str]) -> Boilerplate:
        """What an index leaves out of some of its documents."""
        if REPEATED not in store.schema.names:
            return cls({})
        rows = store.select(["id", REPEATED], IS_DOCUMENT, ids=ids).to_pylist()
        return cls({row["id"]: repeated_places(row) for row in rows})

    def among(self, document: Document, places: Sequence[SectionSpan]) -> tuple[list[SectionSpan], bool]:
        """Which passages of a document repeat, and whether these are so much of it that all of them count."""
        return self.places.get(document.id, []), False

    def describe(self) -> dict[str, Any]:
        """Nothing, since vectors of an index are compared with others by the model alone."""
        return {}


def repeated_places(row: Mapping[str, Any]) -> list[SectionSpan]:
    """The passages that are left out of the document of a row."""
    return [tuple(place) for place in json.loads(row[REPEATED] or "[]")]
