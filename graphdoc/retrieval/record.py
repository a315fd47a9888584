"""What an index was made with, and whether an encoder is the one that made it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..encoder import DocumentEncoder
from ..errors import ModelError, RetrievalError
from ..inference.fastest import Choice
from ..vectors.folder import origin_of
from .word_settings import WordSettings

FORMAT, FORMAT_VERSION = "graphdoc index", 1


def record_of(encoder: DocumentEncoder, engine: str, words: WordSettings) -> dict[str, Any]:
    """What an index keeps of how it is made: the model with its settings and the hash of its weights, and the words.

    Args:
        encoder: encodes documents and queries.
        engine: the store.
        words: how texts become terms.
    """
    origin = origin_of(encoder, {})
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "engine": engine,
        "source": encoder.source,
        "similarity": encoder.model.config.similarity,
        "words": words.to_dict(),
        **{name: origin[name] for name in ("model", "weights", "versions")},
    }


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


def load_encoder(record: Mapping[str, Any], place: str) -> DocumentEncoder:
    """Load the encoder that an index was made with.

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
        record["source"], dtype=model["dtype"], max_passages=model["max_passages"]
    )
    require_same_model(record, encoder, place)
    return encoder


def require_same_model(record: Mapping[str, Any], encoder: DocumentEncoder, place: str) -> None:
    """Refuse an encoder that gives other vectors than those in an index; of ``auto`` the index decides the precision.

    Raises:
        ModelError: model, settings, weights or precision are others.
    """
    if encoder.is_precision_open:
        encoder.settle_precision(Choice(record["model"]["dtype"]))
    own = origin_of(encoder, {})
    before, now = dict(record["model"], name=""), dict(own["model"], name="")
    differences = [
        f"{name} was {before.get(name)!r}, now {now.get(name)!r}"
        for name in {**now, **before}
        if before.get(name) != now.get(name)
    ]
    if not differences and own["weights"] != record["weights"]:
        differences = ["its weights differ"]
    if differences:
        raise ModelError(
            f"{place} was made with the model {record['model']['name']!r}, which differs from {encoder.name!r}: "
            f"{'; '.join(differences[:3])}; open it with that model, or index the documents into another place"
        )
