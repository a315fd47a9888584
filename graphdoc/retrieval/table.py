"""The table of an index: rows of documents, sections and passages, columns of metadata, and how it was made."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

from ..documents.document import Document
from ..documents.section import Metadata, Section, clean_text
from ..encoder import DocumentEncoder
from ..errors import DocumentError, ModelError, RetrievalError, SettingsError
from ..runtime.text import described, one_line
from ..segmentation.repeats import Place
from ..segmentation.spans import SegmentedDocument
from ..settings.document import Paragraph
from ..similarity.encoded_document import EncodedDocument, Vectors
from ..similarity.kinds import similarity_of
from ..vectors.folder import origin_of
from .lance import DOCUMENT, IS_DOCUMENT, PASSAGE, SECTION, LanceStore, key_of

FORMAT, FORMAT_VERSION = "graphdoc index", 2
REPEATED = "repeated"
SENTENCE_COLUMNS = SENTENCE_VECTORS, SENTENCE_PLACES = "sentence_vectors", "sentence_places"
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
    """Columns of the table, without those of fields (an Arrow schema).

    ``key`` is document, level and number. ``text`` holds what word search sees of a passage: headings that begin at
    it, then from ``text_start`` on the passage itself; ``document_text`` holds a whole document. ``share`` is what a
    passage adds to the document vector, and ``encoder_vector`` what it is encoded to before the graph. Sentences are
    in the row of their document: ``sentence_vectors`` in half precision and of unit length, one after the other, and
    in ``sentence_places`` four whole numbers of 32 bits for each: section, ``start``, ``end`` and paragraph.

    Args:
        hidden: length of document and section vectors.
        node: length of passage vectors.
        encoder: length of pooled passage vectors, before the graph.
        sentences: whether sentences are kept.
        repeats: whether passages are left out that repeat, which the row of a document lists as JSON.
    """
    text, number, place = pa.string(), pa.int32(), pa.int64()
    columns = {
        **{"key": text, "id": text, "level": text, "number": number, "title": text, "label": text, "section": number},
        **{"heading": text, "start": place, "end": place, "text": text, "text_start": number, "document_text": text},
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


def content_hash(document: Document) -> str:
    """Hash of everything that the index holds of a document."""
    return _hash(json.dumps(document.to_dict(), ensure_ascii=False, sort_keys=True, default=str))


def text_hash(document: Document) -> str:
    """Hash of the text of a document, by which copies are known."""
    return _hash(document.text)


def tokens_hash(token_ids: Sequence[int]) -> str:
    """Hash of what the passage encoder sees of a passage."""
    return hashlib.blake2b(np.asarray(token_ids, np.int64).tobytes(), digest_size=16).hexdigest()


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def rows_of(
    encoded: EncodedDocument,
    pooled: Vectors | None,
    fields: Fields,
    *,
    unit_length: bool,
    sentences: Mapping[str, bytes] | None = None,
    repeated: Sequence[Place] = (),
) -> list[dict[str, Any]]:
    """The rows of one document, as values by column.

    Args:
        encoded: the document with its vectors.
        pooled: ``(passages, encoder hidden)``, pooled passage vectors; None where they are not to be used again.
        fields: columns of the metadata.
        unit_length: L2-normalise vectors, where the model compares by cosine; shares are scaled with them.
        sentences: the columns of its sentences, where the index keeps them.
        repeated: passages that are left out of it as repeated.

    Raises:
        DocumentError: a value of its metadata does not fit its column.
    """
    segmented, document = encoded.segmented, encoded.segmented.document
    length = float(np.linalg.norm(encoded.vector.astype(np.float64))) or 1.0 if unit_length else 1.0
    vector, shares = encoded.vector / length, encoded.terms / length
    sections, passages = (_unit(part) if unit_length else part for part in (encoded.sections, encoded.passages))
    text, spans = whole_text(document)
    label = document.label
    shared = {
        "id": document.id,
        "title": document.title,
        "label": None if label is None else "; ".join(label) if isinstance(label, tuple) else str(label),
        **fields.values(document),
    }

    def row(level: str, number: int, **values: Any) -> dict[str, Any]:
        return {"key": key_of(document.id, level, number), **shared, "level": level, "number": number, **values}

    rows = [
        row(
            DOCUMENT,
            0,
            document_text=text,
            document_vector=vector,
            content_hash=content_hash(document),
            coverage=json.dumps(segmented.coverage.to_dict()),
            structure=_structure(document, spans),
            **({REPEATED: json.dumps(list(repeated))} if repeated else {}),
            **(sentences or {}),
        )
    ]
    for place, number in enumerate(encoded.section_numbers):
        own = document.sections[number]
        values = {"section": number, "heading": own.heading, "start": 0, "end": len(own.text)}
        rows.append(row(SECTION, number, **values, document_vector=sections[place]))
    for number, (span, headings) in enumerate(zip(segmented.passages, headings_above(segmented), strict=True)):
        rows.append(
            row(
                PASSAGE,
                number,
                section=span.section,
                heading=document.sections[span.section].heading,
                start=span.start,
                end=span.end,
                text=headings + segmented.text(span),
                text_start=len(headings),
                passage_vector=passages[number],
                encoder_vector=None if pooled is None else pooled[number],
                share=shares[number].astype(np.float16),
                content_hash=tokens_hash(segmented.token_ids[number]),
            )
        )
    return rows


def headings_above(segmented: SegmentedDocument) -> list[str]:
    """Title and headings that begin at each passage of a document, which word search sees before its text."""
    document, headings, seen = segmented.document, [], -1
    for number, span in enumerate(segmented.passages):
        above = [document.title] if number == 0 and document.title else []
        above += [section.heading for section in document.sections[seen + 1 : span.section + 1] if section.heading]
        seen = max(seen, span.section)
        headings.append("".join(f"{heading}\n" for heading in above))
    return headings


def table_of(rows: Sequence[Mapping[str, Any]], schema: Any) -> Any:
    """An Arrow table of rows, which are values by column."""
    # Arrow's own pool keeps what it was once given, which the many sizes of texts let grow with the number of tables.
    array = partial(pa.array, memory_pool=pa.system_memory_pool())
    columns = []
    for field in schema:
        values = [row.get(field.name) for row in rows]
        is_vector = pa.types.is_fixed_size_list(field.type)
        columns.append(_vectors(values, field.type) if is_vector else array(values, field.type))
    return pa.Table.from_arrays(columns, schema=schema)


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


def _structure(document: Document, spans: Sequence[tuple[int, int]]) -> str:
    sections = [
        [section.heading, section.level, list(section.path), *span]
        for section, span in zip(document.sections, spans, strict=True)
    ]
    metadata = Metadata(document.metadata).plain()
    # A half of a surrogate pair in metadata is kept as it is, which only ASCII can.
    return json.dumps({"sections": sections, "label": document.label, "metadata": metadata}, default=str)


def _unit(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), np.float32)


def _vectors(values: Sequence[npt.NDArray[Any] | None], kind: Any) -> Any:
    """A column of vectors, null where a row has none."""
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
    """What a column of an Arrow type holds, in words.

    >>> kind_name(pa.string()), kind_name(pa.list_(pa.string()))
    ('text', 'lists of texts')
    """
    return "lists of texts" if pa.types.is_list(kind) else _HELD[str(kind)]


class Fields:
    """The fields of documents in an index, for an Arrow schema of its table.

    The first document that has a field decides its type, and a value of another type is an error. Deeper values, and
    numbers that no column can hold, are kept with the document, and cannot be searched by.
    """

    def __init__(self, schema: Any) -> None:
        self._types: dict[str, Any] = {name: column.kind for name, column in field_columns(schema).items()}

    def new(self, document: Document) -> dict[str, Any]:
        """Columns that a document needs and the index has not, with their Arrow types; they are counted as there."""
        added = {name: kind for name, _, kind in _fields_of(document) if name not in self._types}
        total = len(self._types) + len(added)
        if total > MOST_FIELDS:
            raise DocumentError(
                f"document {document.id!r}: with its metadata the index would have {total:,} fields, more than "
                f"{MOST_FIELDS:,}; put what no search is restricted by into one field"
            )
        self._types |= added
        return {_stored_name(name): kind for name, kind in added.items()}

    def values(self, document: Document) -> dict[str, Any]:
        """The fields of a document by column."""
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


def numbers_without_column(document: Document) -> int:
    """How many numbers among the metadata of a document no column can hold."""
    return sum(map(_has_no_column, document.metadata.values()))


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
        elif isinstance(value, int | float) and not _has_no_column(value):
            kind = pa.int64() if isinstance(value, int) else pa.float64()
        if kind is not None:
            yield str(name), value, kind


def _has_no_column(value: Any) -> bool:
    if isinstance(value, int):
        return not -(2**63) <= value < 2**63
    return isinstance(value, float) and not math.isfinite(value)


def _fitted(value: Any, kind: Any, column: Any) -> Any:
    """A value of one Arrow type as a column of a type holds it; None where it does not fit."""
    value = value.isoformat() if hasattr(value, "isoformat") else value
    if column == _TEXTS and kind in (_TEXTS, pa.string()):
        texts = sorted(value) if isinstance(value, frozenset | set) else [value] if kind == pa.string() else value
        return [clean_text(text) for text in texts]
    if pa.types.is_string(column):
        return clean_text("; ".join(value) if kind == _TEXTS else str(value))
    if kind == column:
        return value
    if pa.types.is_floating(column) and pa.types.is_integer(kind):
        return float(value)
    if pa.types.is_integer(column) and pa.types.is_floating(kind) and value.is_integer():
        return None if _has_no_column(int(value)) else int(value)
    return None


def record_of(
    encoder: DocumentEncoder, words: Mapping[str, Any], paragraph: Paragraph | None = None, *, repeats: bool = False
) -> dict[str, Any]:
    """What an index keeps of how it is made: model with the hash of its weights, sentences, repeats and words."""
    origin = origin_of(encoder, {}, has_sentences=paragraph is not None)
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "source": encoder.source,
        "similarity": similarity_of(encoder.model.config.similarity).vectors,
        "words": dict(words),
        **({} if paragraph is None else {"sentences": {"paragraph": paragraph}}),
        **({"repeats": "leave-out"} if repeats else {}),
        **{name: origin[name] for name in ("model", "weights", "versions")},
    }


def paragraph_of(record: Mapping[str, Any]) -> Paragraph | None:
    """Which sentences belong together in an index; None where it keeps no sentences."""
    return record["sentences"]["paragraph"] if "sentences" in record else None


def leaves_out_repeats(record: Mapping[str, Any]) -> bool:
    """Whether an index leaves out passages that repeat in it."""
    return record.get("repeats") == "leave-out"


@dataclass(frozen=True, slots=True)
class Boilerplate:
    """The passages that an index leaves out of its documents, by their ids, since they repeat in it."""

    places: Mapping[str, list[Place]]

    @classmethod
    def of(cls, store: LanceStore, ids: Sequence[str]) -> Boilerplate:
        """What an index leaves out of some of its documents."""
        if not leaves_out_repeats(store.record):
            return cls({})
        rows = store.select(["id", REPEATED], IS_DOCUMENT, ids=ids).to_pylist()
        return cls({row["id"]: repeated_places(row) for row in rows})

    def among(self, document: Document, places: Sequence[Place]) -> tuple[list[Place], bool]:
        """Which passages of a document repeat, and whether these are so much of it that all of them count."""
        return self.places.get(document.id, []), False

    def describe(self) -> dict[str, Any]:
        """Nothing, since vectors of an index are compared with others by the model alone."""
        return {}


def repeated_places(row: Mapping[str, Any]) -> list[Place]:
    """The passages that are left out of the document of a row."""
    return [tuple(place) for place in json.loads(row[REPEATED] or "[]")]


def require_version(record: Mapping[str, Any], place: str) -> None:
    """Refuse an index of another version of the format."""
    version = record["format_version"]
    if version != FORMAT_VERSION or record.get("format") != FORMAT:
        raise RetrievalError(
            f"{place} is an index of format version {version}, this graphdoc reads {FORMAT_VERSION}; index the "
            "documents again into another place, or install the version that wrote it"
        )


def load_encoder(record: Mapping[str, Any], place: str, **settings: Any) -> DocumentEncoder:
    """Load the encoder that an index was made with, or refuse one that has changed since."""
    model = record["model"]
    if record["source"] is None:
        raise ModelError(
            f"{place} was made with the encoder {model['name']!r}, which was not loaded from a folder or the hub; "
            "give it to DocumentIndex.open(place, encoder)"
        )
    settings = {"dtype": model["dtype"], "max_passages": model["max_passages"], **settings}
    encoder = DocumentEncoder.from_pretrained(record["source"], **settings)
    require_same_model(record, encoder, place)
    return encoder


def require_same_model(record: Mapping[str, Any], encoder: DocumentEncoder, place: str) -> None:
    """Refuse an encoder that gives other vectors than an index holds; of ``auto`` the index decides the precision."""
    if encoder.is_precision_open:
        encoder.settle_precision(record["model"]["dtype"])
    origin = origin_of(encoder, {}, has_sentences=paragraph_of(record) is not None)
    before, now = ({**made["model"], "name": "", "weights": made["weights"]} for made in (record, origin))
    differences = [
        f"its {name} differ" if name == "weights" else f"{name} was {before.get(name)!r}, now {now.get(name)!r}"
        for name in {**now, **before}
        if before.get(name) != now.get(name)
    ]
    if differences:
        raise ModelError(
            f"{place} was made with the model {record['model']['name']!r}, not with this {encoder.name!r}: "
            f"{'; '.join(differences[:3])}; open it with that model, or index the documents into another place"
        )
