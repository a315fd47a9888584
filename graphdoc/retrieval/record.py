"""What an index was made with, and whether an encoder is the one that made it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..encoder import DocumentEncoder
from ..errors import ModelError, RetrievalError
from ..settings.document import Paragraph
from ..similarity.kinds import similarity_of
from ..vectors.folder import origin_of
from .word_settings import WordSettings

FORMAT, FORMAT_VERSION = "graphdoc index", 2


def record_of(
    encoder: DocumentEncoder,
    words: WordSettings,
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
        "words": words.to_dict(),
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
    fix: str = "open it with that model, or index the documents into another place",
    *,
    has_sentences: bool | None = None,
) -> None:
    """Refuse an encoder that gives other vectors than those in an index; of ``auto`` the index decides the precision.

    Args:
        record: the model, and the hash of its weights.
        encoder: the encoder.
        place: what was made with the model, for messages.
        fix: what to do instead.
        has_sentences: whether vectors of sentences are among them; None for what the record of an index says.

    Raises:
        ModelError: model, settings, weights or precision are others.
    """
    if encoder.is_precision_open:
        encoder.settle_precision(record["model"]["dtype"])
    if has_sentences is None:
        has_sentences = paragraph_of(record) is not None
    own = origin_of(encoder, {}, has_sentences=has_sentences)
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
            f"{'; '.join(differences[:3])}; {fix}"
        )
