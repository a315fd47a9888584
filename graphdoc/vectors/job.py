"""One process's share of encoding a corpus into a folder: which shards it makes, and of which documents."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain, count, takewhile
from typing import Any

from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]

from ..documents.document import Document
from ..documents.readers import Skipped
from ..documents.readers.identities import SeenIds
from ..documents.section import clean_text
from ..errors import DocumentError, OtherDocumentsError
from ..inference.inputs import AnyDocument, as_document
from ..inference.pipeline import EncodingPipeline
from ..inference.segmenting import Workers, segment_in_order
from ..runtime.files import write_atomically
from ..runtime.processes import Processes
from ..segmentation.spans import Coverage, SegmentedDocument
from .folder import VectorFolder
from .making import MadeShard, OnError, Read, Settings, ShardTask, make_shard
from .shards import InputHash, Shard
from .source import DocumentSource
from .store import ANOTHER_FOLDER


@dataclass(slots=True)
class Share:
    """A shard that has to be made.

    Args:
        number: its number.
        made_of: documents of the input that it was made of before, and their hash; None where it is not there.
        input_hash: hash of its documents.
        skipped: what is no document, or not one of its own.
    """

    number: int
    made_of: tuple[int, str] | None
    input_hash: InputHash
    skipped: list[Skipped] = field(default_factory=list)


# Stands after the last document of a shard, among those that are cut ahead.
_END = SegmentedDocument(Document("end of a shard", ()), (), (), Coverage())


class FolderJob:
    """One process's share of a run.

    Attributes:
        has_encoded: whether any of its shards had to be made.
        shards: its shards by number.
    """

    def __init__(
        self,
        encoder: EncodingPipeline,
        target: VectorFolder,
        settings: Settings,
        processes: Processes,
        bar: tqdm[Any],
        on_error: OnError,
        workers: Workers,
    ) -> None:
        self._encoder = encoder
        self._target = target
        self._settings = settings
        self._processes = processes
        self._bar = bar
        self._on_error = on_error
        self._workers = workers
        self._seen = SeenIds()
        self._position = 0
        self._to_make: deque[Share] = deque()
        self.has_encoded = False
        self.shards: dict[int, Shard] = {}

    def run(self, source: DocumentSource) -> None:
        """Go through the input, and encode the shards of this process that do not exist.

        Cutting runs ahead of encoding, over the ends of shards.
        """
        with closing(segment_in_order(self._documents(source), self._encoder.segmenter, self._workers)) as segmented:
            for first in segmented:
                share = takewhile(lambda one: one is not _END, chain([first], segmented))
                self._make(self._to_make.popleft(), share)

    def _documents(self, source: DocumentSource) -> Iterator[Document | SegmentedDocument]:
        """The documents of the shards that this process has to make, with an end after each."""
        for number in count():
            is_own = number % self._processes.count == self._processes.rank
            values = source.take(self._settings.shard_size, only_ids=not is_own)
            first = next(values, None)
            if first is None:
                self._target.expect_no_more(number)
                return
            values = chain([first], values)
            self._target.expect(number)
            if not is_own:
                for value in values:
                    self._pass_over(value)
                continue
            record, checksum = self._target.find(number)
            made_of = None if record is None else (record["read"], record["input_hash"])
            share = Share(number, made_of, InputHash())
            if record is None or checksum is None:
                self._to_make.append(share)
                yield from self._taken(values, share)
                yield _END
                continue
            for _ in self._taken(values, share):
                if not self._bar.disable:
                    # Counted as there from the start, since the bar computes the speed from the rest.
                    self._bar.initial += 1
                self._bar.update(1)
            self._check_input(share)
            shard = Shard.of(self._target.path(number).name, record, checksum)
            if shard.skipped and self._on_error == "stop":
                raise DocumentError(f"{shard.skipped[0].source}: {shard.skipped[0].reason}")
            self.shards[number] = shard

    def _taken(self, values: Iterable[AnyDocument], share: Share) -> Iterator[Document]:
        """The documents of a shard; what is none is skipped where that is wanted."""
        for value in values:
            self._position += 1
            try:
                document = as_document(value)
                self._require_new(document.id)
            except DocumentError as error:
                if self._on_error == "stop":
                    raise
                share.skipped.append(Skipped(f"document {self._position}", str(error)))
                share.input_hash.count_unread()
                self._bar.update(1)
                continue
            share.input_hash.add(document)
            yield document

    def _pass_over(self, value: AnyDocument) -> None:
        """Look at the id of a document that is another process's, and at nothing else where the row names it."""
        self._position += 1
        self._bar.update(1)
        try:
            row = value if isinstance(value, Mapping) and isinstance(value.get("id"), str) else None
            self._require_new(clean_text(row["id"]).strip() if row else as_document(value).id)
        except DocumentError:
            if self._on_error == "stop":
                raise

    def _require_new(self, id: str) -> None:
        if self._seen.add(id) is not None:
            raise DocumentError(
                f"the id {id!r} of document {self._position} is taken by an earlier one; give each its own id"
            )

    def _check_input(self, share: Share) -> None:
        """Check that a shard that exists was made of the documents that stand there now."""
        read = share.input_hash.documents
        if share.made_of is not None and share.made_of != (read, share.input_hash.hexdigest()):
            start = share.number * self._settings.shard_size
            raise OtherDocumentsError(
                f"{self._target.path(share.number)} was made of other documents than the input's {start + 1} to "
                f"{start + read}; {ANOTHER_FOLDER}"
            )

    def to_make(self, source: DocumentSource) -> Iterator[ShardTask]:
        """Go through the input, and give the shards that this process has to make, with their documents."""
        documents: list[Document] = []
        for one in self._documents(source):
            if isinstance(one, Document):
                documents.append(one)
                continue
            share = self._to_make.popleft()
            file = self._target.path(share.number).name
            yield ShardTask(
                share.number,
                file,
                tuple(documents),
                self._read(share),
                self._settings,
                self._target.origin,
                self._encoder.precision,
                self._on_error,
            )
            documents = []

    def keep(self, made: MadeShard) -> None:
        """Write a shard that was made elsewhere."""
        self._target.begin_shard()
        path = self._target.path(made.number)
        write_atomically(path, lambda temporary: temporary.write_bytes(made.content))
        self._note(made.number, made.record, made.checksum)
        self._bar.update(made.documents)

    def _make(self, share: Share, documents: Iterator[SegmentedDocument]) -> None:
        self._target.begin_shard()
        record, checksum = make_shard(
            self._encoder,
            self._target.path(share.number),
            documents,
            self._settings,
            self._target.origin,
            lambda: self._read(share),
            self._on_error,
            self._bar,
        )
        self._note(share.number, record, checksum)

    def _read(self, share: Share) -> Read:
        """What a shard was made of, once all its documents are read."""
        self._check_input(share)
        return Read(share.input_hash.documents, share.input_hash.hexdigest(), tuple(share.skipped))

    def _note(self, number: int, record: Mapping[str, Any], checksum: str) -> None:
        file = self._target.path(number).name
        self.has_encoded = True
        self._target.note(file, checksum)
        self.shards[number] = Shard.of(file, record, checksum)
