"""Streams of documents: kept in a file to be gone through several times, or without some of their sections."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

from ..document import Document
from ..parsing.outline import joined_lines


class KeptDocuments:
    """Documents in a compressed file of their own, which is removed with them; none is held in memory.

    >>> kept = KeptDocuments([Document.from_text("Tides rise."), Document.from_text("Tides fall.")])
    >>> len(kept), [document.text for document in kept]
    (2, ['Tides rise.', 'Tides fall.'])
    """

    def __init__(self, documents: Iterable[Document]) -> None:
        self._folder = TemporaryDirectory(prefix="graphdoc-")
        self._path = str(Path(self._folder.name) / "documents.jsonl.zst")
        self._count = 0
        with pa.output_stream(self._path, compression="zstd", buffer_size=1 << 20) as stream:
            for document in documents:
                stream.write(json.dumps(document.to_dict(), default=str).encode() + b"\n")
                self._count += 1

    def __len__(self) -> int:
        """Number of documents."""
        return self._count

    def __iter__(self) -> Iterator[Document]:
        """The documents, in the order in which they were read."""
        with pa.input_stream(self._path, compression="zstd") as stream:
            for line in io.BufferedReader(stream, 1 << 20):
                yield Document.from_mapping(json.loads(line))


@dataclass
class LeftOutSections:
    """Takes sections out of documents by their headings, with all that is below them.

    Args:
        headings: the headings; case and white space around them do not matter.

    Attributes:
        counts: number of sections left out by heading, in the order of ``headings``.
    """

    headings: tuple[str, ...]
    counts: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.counts = dict.fromkeys(self.headings, 0)

    def without(self, documents: Iterable[Document]) -> Iterator[Document]:
        """The documents without these sections; one that has nothing else is left without text."""
        wanted = {joined_lines(heading).casefold(): heading for heading in self.headings}
        for document in documents:
            kept = []
            for section in document.sections:
                own = (joined_lines(name).casefold() for name in (section.heading, *section.path))
                heading = next((wanted[name] for name in own if name in wanted), None)
                if heading is None:
                    kept.append(section)
                else:
                    self.counts[heading] += 1
            yield document if len(kept) == len(document.sections) else replace(document, sections=tuple(kept))
