"""The table of an index: rows of documents, sections and passages, and a record of what they were made with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

from ..documents.document import Document
from ..documents.section import Metadata, Section
from ..encoder import DocumentEncoder
from ..errors import ModelError, RetrievalError
from ..segmentation.repeats import Place
from ..segmentation.spans import SegmentedDocument
from ..settings.document import Paragraph
from ..similarity.encoded_document import EncodedDocument, Vectors
from ..similarity.kinds import similarity_of
from ..vectors.folder import origin_of
from .filters import Fields
from .sentences import Sentences, sentence_columns

DOCUMENT, SECTION, PASSAGE = "document", "section", "passage"
# Between the parts of a key and of a text; an id can hold no control character of this kind but by intent.
_BETWEEN = "\x1f"
REPEATED = "repeated"
# What a document is made of again.
DOCUMENT_COLUMNS = ("id", "title", "document_text", "structure")
_GAP = "\n\n"


@dataclass(frozen=True, slots=True)
class Sizes:
    """Lengths of the vectors in an index.

    Args:
        hidden: of document and section vectors.
        node: of passage vectors.
        encoder: of pooled passage vectors, before the graph.
    """

    hidden: int
    node: int
    encoder: int


def schema_of(sizes: Sizes, *, sentences: bool = False, repeats: bool = False) -> Any:
    """Columns of the table, without those of fields (an Arrow schema).

    ``key`` is document, level and number. ``text`` holds what word search sees of a passage: headings that begin at
    it, then from ``text_start`` on the passage itself. ``document_text`` holds a whole document. ``start`` and ``end``
    are characters in the text of the section. ``share`` is what a passage adds to the document vector, in half
    precision. With ``encoder_vector`` a document that was changed is encoded without its other passages. Sentences are
    in the row of their document: ``sentence_vectors`` in half precision and of unit length, one after the other, and
    in ``sentence_places`` four whole numbers of 32 bits for each: section, ``start``, ``end`` and paragraph.

    Args:
        sizes: lengths of vectors.
        sentences: whether sentences are kept.
        repeats: whether it is kept in the row of a document which of its passages repeat and are left out: section,
            first character and one past the last of each, as JSON.
    """

    def vector(size: int) -> Any:
        return pa.list_(pa.float32(), size)

    return pa.schema(
        [
            pa.field("key", pa.string(), nullable=False),
            pa.field("id", pa.string(), nullable=False),
            pa.field("level", pa.string(), nullable=False),
            pa.field("number", pa.int32(), nullable=False),
            ("title", pa.string()),
            ("label", pa.string()),
            ("section", pa.int32()),
            ("heading", pa.string()),
            ("start", pa.int64()),
            ("end", pa.int64()),
            ("text", pa.string()),
            ("text_start", pa.int32()),
            ("document_text", pa.string()),
            ("document_vector", vector(sizes.hidden)),
            ("passage_vector", vector(sizes.node)),
            ("encoder_vector", vector(sizes.encoder)),
            ("share", pa.list_(pa.float16(), sizes.hidden)),
            ("content_hash", pa.string()),
            ("coverage", pa.string()),
            ("structure", pa.string()),
            *(sentence_columns() if sentences else ()),
            *((pa.field(REPEATED, pa.string()),) if repeats else ()),
        ]
    )


def quoted(value: str) -> str:
    """A string as a filter writes it."""
    return "'" + value.replace("'", "''") + "'"


def key_of(id: str, level: str, number: int) -> str:
    """The key of a row."""
    return _BETWEEN.join((id, level, f"{number:06d}"))


def content_hash(document: Document) -> str:
    """Hash of everything that the index holds of a document."""
    text = json.dumps(document.to_dict(), ensure_ascii=False, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def tokens_hash(token_ids: Sequence[int]) -> str:
    """Hash of what the passage encoder sees of a passage."""
    return hashlib.blake2b(np.asarray(token_ids, np.int64).tobytes(), digest_size=16).hexdigest()


def rows_of(
    encoded: EncodedDocument,
    pooled: Vectors | None,
    fields: Fields,
    *,
    unit_length: bool,
    sentences: Sentences | None = None,
    repeated: Sequence[Place] = (),
) -> list[dict[str, Any]]:
    """The rows of one document.

    Args:
        encoded: the document with its vectors.
        pooled: ``(passages, encoder hidden)``, pooled passage vectors; None where they are not to be used again.
        fields: columns of the metadata.
        unit_length: bring vectors to unit length, where the model compares by cosine; shares are scaled with them.
        sentences: its sentences, where the index keeps them.
        repeated: passages that are left out of it as repeated.

    Returns:
        The values of every row by column.

    Raises:
        DocumentError: a value of its metadata does not fit its column.
    """
    segmented, document = encoded.segmented, encoded.segmented.document
    length = float(np.linalg.norm(encoded.vector.astype(np.float64))) or 1.0 if unit_length else 1.0
    vector, shares = encoded.vector / length, encoded.terms / length
    sections, passages = (_unit(part) if unit_length else part for part in (encoded.sections, encoded.passages))
    text, spans = whole_text(document)
    shared = {
        "id": document.id,
        "title": document.title,
        "label": None if document.label is None else _label_text(document.label),
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
            **({} if sentences is None else sentences.columns()),
        )
    ]
    for place, number in enumerate(encoded.section_numbers):
        section = document.sections[number]
        rows.append(
            row(
                SECTION,
                number,
                section=number,
                heading=section.heading,
                start=0,
                end=len(section.text),
                document_vector=sections[place],
            )
        )
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
    document, found, seen = segmented.document, [], -1
    for number, span in enumerate(segmented.passages):
        above = [document.title] if number == 0 and document.title else []
        above += [section.heading for section in document.sections[seen + 1 : span.section + 1] if section.heading]
        seen = max(seen, span.section)
        found.append("".join(f"{heading}\n" for heading in above))
    return found


def table_of(rows: Sequence[Mapping[str, Any]], schema: Any) -> Any:
    """An Arrow table of rows.

    Args:
        rows: values by column.
        schema: the columns, with those of metadata.
    """
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
    parts, spans, length = [], [], 0
    if document.title:
        parts.append(document.title + _GAP)
        length += len(parts[-1])
    for section in document.sections:
        heading = section.heading + "\n" if section.heading else ""
        spans.append((length + len(heading), length + len(heading) + len(section.text)))
        parts.append(heading + section.text + _GAP)
        length += len(parts[-1])
    return "".join(parts), spans


def document_of(row: Mapping[str, Any]) -> Document:
    """The document that a row of level ``document`` was made of."""
    structure, text = json.loads(row["structure"]), row["document_text"]
    sections = [
        Section(text[start:end], heading, level, tuple(path))
        for heading, level, path, start, end in structure["sections"]
    ]
    label = structure["label"]
    return Document(
        row["id"],
        sections,  # type: ignore[arg-type]
        row["title"] or "",
        tuple(label) if isinstance(label, list) else label,
        structure["metadata"],
    )


def _structure(document: Document, spans: Sequence[tuple[int, int]]) -> str:
    sections = [
        [one.heading, one.level, list(one.path), *span] for one, span in zip(document.sections, spans, strict=True)
    ]
    metadata = Metadata(document.metadata).plain()
    content = {"sections": sections, "label": document.label, "metadata": metadata}
    # A half of a surrogate pair in metadata is kept as it is, which only ASCII can.
    return json.dumps(content, default=str)


def _label_text(label: str | int | tuple[str, ...]) -> str:
    return "; ".join(label) if isinstance(label, tuple) else str(label)


def _unit(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), np.float32)


def _vectors(values: Sequence[npt.NDArray[Any] | None], kind: Any) -> Any:
    """A column of vectors, null where a row has none."""
    width = kind.list_size
    flat = np.zeros((len(values), width), np.float16 if pa.types.is_float16(kind.value_type) else np.float32)
    missing = np.array([value is None for value in values])
    if not missing.all():
        flat[~missing] = np.stack([value for value in values if value is not None])
    return pa.FixedSizeListArray.from_arrays(pa.array(flat.reshape(-1)), type=kind, mask=pa.array(missing))


FORMAT, FORMAT_VERSION = "graphdoc index", 2


def record_of(
    encoder: DocumentEncoder,
    words: Mapping[str, Any],
    paragraph: Paragraph | None = None,
    *,
    repeats: bool = False,
) -> dict[str, Any]:
    """What an index keeps of how it is made: the model with its settings and the hash of its weights, and the words.

    Args:
        encoder: encodes documents and queries.
        words: how texts become terms.
        paragraph: which sentences belong together, where sentences are kept; None where they are not.
        repeats: whether passages that repeat in the index are left out.
    """
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
    own = record.get("sentences")
    return None if own is None else own["paragraph"]


def leaves_out_repeats(record: Mapping[str, Any]) -> bool:
    """Whether an index leaves out passages that repeat in it."""
    return record.get("repeats") == "leave-out"


def require_version(record: Mapping[str, Any], place: str) -> None:
    """Refuse an index of another version of the format.

    Raises:
        RetrievalError: it is of another version.
    """
    version = record["format_version"]
    if version != FORMAT_VERSION or record.get("format") != FORMAT:
        raise RetrievalError(
            f"{place} is an index of format version {version}, this graphdoc reads {FORMAT_VERSION}; index the "
            "documents again into another place, or install the version that wrote it"
        )


def load_encoder(record: Mapping[str, Any], place: str, **settings: Any) -> DocumentEncoder:
    """Load the encoder that an index was made with.

    Args:
        record: what the index was made with.
        place: where it lies, for messages.
        **settings: how to load it otherwise, as for :meth:`~graphdoc.DocumentEncoder.from_pretrained`.

    Raises:
        ModelError: it cannot be loaded, or has changed since.
    """
    model = record["model"]
    if record["source"] is None:
        raise ModelError(
            f"{place} was made with the encoder {model['name']!r}, which was not loaded from a folder or the hub; "
            "give it to DocumentIndex.open(place, encoder)"
        )
    encoder = DocumentEncoder.from_pretrained(
        record["source"], **{"dtype": model["dtype"], "max_passages": model["max_passages"], **settings}
    )
    require_same_model(record, encoder, place)
    return encoder


def require_same_model(
    record: Mapping[str, Any],
    encoder: DocumentEncoder,
    place: str,
) -> None:
    """Refuse an encoder that gives other vectors than those in an index; of ``auto`` the index decides the precision.

    Args:
        record: the model, and the hash of its weights.
        encoder: the encoder.
        place: what was made with the model, for messages.

    Raises:
        ModelError: model, settings, weights or precision are others.
    """
    if encoder.is_precision_open:
        encoder.settle_precision(record["model"]["dtype"])
    own = origin_of(encoder, {}, has_sentences=paragraph_of(record) is not None)
    before, now = dict(record["model"], name=""), dict(own["model"], name="")
    differences = [
        f"{name} was {before.get(name)!r}, now {now.get(name)!r}"
        for name in {**now, **before}
        if before.get(name) != now.get(name)
    ]
    if not differences and own["weights"] != record["weights"]:
        differences = ["its weights differ"]
    if differences:
        is_same = encoder.name == record["model"]["name"]
        unlike = "but with other settings" if is_same else f"which differs from {encoder.name!r}"
        raise ModelError(
            f"{place} was made with the model {record['model']['name']!r}, {unlike}: "
            f"{'; '.join(differences[:3])}; open it with that model, or index the documents into another place"
        )
