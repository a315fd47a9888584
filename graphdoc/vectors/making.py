"""Making one shard of a folder of vectors out of its documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]

from ..documents.document import Document
from ..documents.readers import Skipped
from ..inference.fastest import Choice
from ..inference.levels import Level
from ..inference.pipeline import EncodingPipeline
from ..inference.precision import Precision
from ..segmentation.spans import Coverage, SegmentedDocument
from .shards import ShardWriter, shard_record

OnError = Literal["stop", "skip"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings that a folder of vectors is made with; they are compared when a run goes on."""

    level: Level
    normalize: bool
    dtype: Precision | None
    shard_size: int
    token_budget: int | None
    padding: float | None
    columns: tuple[str, ...] = ()

    def as_values(self) -> dict[str, Any]:
        """Plain values; without columns those of folders that were made before there were any."""
        values = asdict(self) | {"columns": list(self.columns)}
        return values if self.columns else {name: value for name, value in values.items() if name != "columns"}


@dataclass(frozen=True, slots=True)
class Read:
    """What a shard is made of.

    Args:
        count: documents of the input, those that are left out among them.
        input_hash: hash of them.
        skipped: what is no document, or not one of its own.
    """

    count: int
    input_hash: str
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True, slots=True)
class ShardTask:
    """A shard to make.

    Args:
        number: its number.
        file: its name.
        documents: its documents.
        read: what they are of the input.
        settings: how vectors are made.
        origin: model, weights, settings and versions.
        precision: of the transformer's weights.
        on_error: whether a document without text is skipped.
    """

    number: int
    file: str
    documents: tuple[Document, ...]
    read: Read
    settings: Settings
    origin: Mapping[str, Any]
    precision: Choice
    on_error: OnError


@dataclass(frozen=True, slots=True)
class MadeShard:
    """A shard that was made.

    Args:
        number: its number.
        documents: how many were given.
        content: the bytes of its file.
        record: what the file says of itself.
        checksum: of the file.
    """

    number: int
    documents: int
    content: bytes
    record: dict[str, Any]
    checksum: str


def make_shard(
    encoder: EncodingPipeline,
    path: Path,
    documents: Iterable[SegmentedDocument],
    settings: Settings,
    origin: Mapping[str, Any],
    read: Callable[[], Read],
    on_error: OnError,
    bar: tqdm[Any] | None,
) -> tuple[dict[str, Any], str]:
    """Encode the documents of one shard by themselves, so that its bytes depend on nothing else.

    Args:
        encoder: the encoder.
        path: the file.
        documents: its documents, cut.
        settings: how vectors are made.
        origin: model, weights, settings and versions.
        read: what the shard is made of, asked for once its documents are read.
        on_error: whether a document without text is skipped.
        bar: counts documents.

    Returns:
        Its record and its checksum.
    """
    coverage, without_text = Coverage(), list[Skipped]()

    def with_text() -> Iterator[SegmentedDocument]:
        for segmented in documents:
            if on_error == "skip" and not segmented.passages:
                without_text.append(Skipped(f"document {segmented.document.id!r}", "it has no text to encode"))
                if bar is not None:
                    bar.update(1)
                continue
            yield segmented

    with ShardWriter(path, settings.level, encoder.vector_size(settings.level), settings.columns) as writer:
        for segmented, vectors in encoder.stream(
            with_text(),
            level=settings.level,
            dtype=settings.dtype,
            token_budget=settings.token_budget,
            padding=settings.padding,
            workers=0,
            totals=coverage,
            bar=bar,
        ):
            rows = torch.nn.functional.normalize(vectors, dim=-1) if settings.normalize else vectors
            writer.add(segmented, rows)
        made_of = read()
        # Cutting runs ahead, so the order in which both kinds are met says nothing.
        skipped = [*made_of.skipped, *without_text]
        record = shard_record(origin, made_of.count, made_of.input_hash, writer.rows, coverage, skipped)
        return record, writer.finish(record)
