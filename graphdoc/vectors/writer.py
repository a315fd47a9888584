"""Encoding a corpus into a folder: Parquet shards and a manifest, resumable, in constant memory, by many processes."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import closing
from dataclasses import asdict, dataclass, field
from itertools import chain, count, islice, takewhile
from pathlib import Path
from typing import Any, Literal

import torch
from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]

from ..documents.document import Document
from ..documents.readers import ReadingReport, Skipped
from ..documents.readers.identities import SeenIds
from ..documents.section import clean_text
from ..errors import DocumentError, OutputError
from ..inference.inputs import AnyDocument, as_document, documents_of
from ..inference.levels import LEVELS, Level
from ..inference.pipeline import EncodingOptions, EncodingPipeline, progress_bar
from ..inference.precision import Precision, require_precision
from ..inference.segmenting import Workers, segment_in_order
from ..runtime.arguments import require_one_of, require_path, require_whole
from ..runtime.processes import Processes
from ..segmentation.coverage import Coverage
from ..segmentation.spans import SegmentedDocument
from .folder import ANOTHER_FOLDER, VectorFolder, agree_on_precision, origin_of
from .shards import InputHash, Shard, ShardWriter, shard_record
from .store import Manifest

logger = logging.getLogger(__name__)

OnError = Literal["stop", "skip"]


class FolderOptions(EncodingOptions, total=False):
    """How a folder of vectors is written, as :func:`encode_to_disk` describes it."""

    level: Level
    normalize: bool
    shard_size: int
    overwrite: bool
    report: ReadingReport | None
    on_error: OnError


def encode_to_disk(
    encoder: EncodingPipeline,
    documents: Iterable[AnyDocument] | AnyDocument,
    folder: str | Path,
    *,
    level: Level = "document",
    normalize: bool = False,
    dtype: Precision | None = None,
    shard_size: int = 1024,
    overwrite: bool = False,
    token_budget: int | None = None,
    padding: float | None = None,
    show_progress: bool | None = None,
    workers: int | None = None,
    report: ReadingReport | None = None,
    on_error: OnError = "stop",
) -> Manifest:
    """Encode a corpus into Parquet shards and a manifest.

    A run that was interrupted goes on when it is started again with the same input, settings and model: finished
    shards are kept, and the folder ends with the bytes of an undisturbed run. ``manifest.json`` is written last.
    Under ``torchrun`` or ``accelerate launch`` every process encodes its share of the shards, on one machine or on
    several that share the folder; of the others' documents it looks at the ids alone. A second run into the folder is
    refused while one is under way.

    On a CPU the last digits of vectors depend on the number of threads (differences of about 1e-7). Bytes are the same
    where each process has as many: ``torchrun`` gives each process one unless ``OMP_NUM_THREADS`` is set.

    Args:
        encoder: the encoder.
        documents: the corpus, such as :func:`~graphdoc.read_documents` gives; read once, never held.
        folder: where to; made if it is missing.
        level: ``document`` for one vector each, ``section`` for one per section that has text, ``passage``.
        normalize: bring vectors to unit length.
        dtype: compute the transformer in this precision; vectors are fp32 all the same.
        shard_size: documents of one shard.
        overwrite: replace what another run left in the folder.
        token_budget: most tokens (with padding) that go through the transformer at once.
        padding: largest share of padding in a well-filled mini-batch, 0 to 1; None for the usual one.
        show_progress: show a bar; None shows it on a terminal when the work is long.
        workers: processes that cut and tokenise ahead; None for as many as suit the machine, 0 for none.
        report: report of the reader of ``documents``; what it lists as skipped goes into the manifest.
        on_error: whether a document that cannot be encoded stops the run or is skipped and listed.

    Returns:
        The manifest.

    Raises:
        DocumentError: there are no documents, one has no text, or two have the same id.
        OutputError: the folder cannot be written, or holds something else.
        ModelError: the precision is unknown or does not fit the model.
        SettingsError: the level or another choice is unknown.
    """
    require_one_of("level", level, LEVELS)
    require_one_of("on_error", on_error, ("stop", "skip"))
    require_whole("shard_size", shard_size, may_be_none=False)
    require_whole("token_budget", token_budget)
    require_path("folder", folder)
    if dtype is not None:
        require_precision(dtype)
    ahead = Workers.on(encoder.device, workers)
    documents = documents_of(documents)
    settings = Settings(level, normalize, dtype, shard_size, token_budget, padding)
    with Processes(encoder.device) as processes:
        agree_on_precision(encoder, Path(folder), processes, overwrite)
        target = VectorFolder(folder, origin_of(encoder, asdict(settings)), encoder.precision, processes.rank)
        failed = True
        try:
            processes.run_first(lambda: target.prepare(overwrite))
            source = _Input(documents, report)
            # Nothing of another run is removed before all processes have read something.
            source.require_some()
            processes.gather(None)
            if overwrite:
                processes.run_first(target.clear)
            target.open()
            # Nobody may change the folder before all have seen it.
            processes.gather(None)
            with _progress_bar(show_progress, documents, processes) as bar:
                job = _Job(encoder, target, settings, processes, bar, on_error, ahead)
                job.run(source)
            is_new = any(processes.gather(job.has_encoded))
            shards = dict(chain.from_iterable(own.items() for own in processes.gather(job.shards)))
            manifest = Manifest.of(
                target.folder,
                target.origin,
                target.precision,
                encoder.vector_size(level),
                (shards[number] for number in sorted(shards)),
                report.skipped if report is not None else (),
                report.ignored if report is not None else (),
            )
            if not manifest.rows:
                raise _nothing_to_encode(manifest.skipped)
            processes.run_first(lambda: target.finish(manifest))
            failed = False
        finally:
            target.close(failed=failed)
    if processes.is_first:
        manifest.coverage.warn()
        if not is_new:
            logger.warning("%s held these vectors already: nothing was left to encode", target.folder)
    return manifest


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings that a folder of vectors is made with; they are compared when a run goes on."""

    level: Level
    normalize: bool
    dtype: Precision | None
    shard_size: int
    token_budget: int | None
    padding: float | None


class _Input:
    """The documents as they come, one after the other."""

    def __init__(self, documents: Iterable[AnyDocument], report: ReadingReport | None) -> None:
        self._values = self._read(documents)
        self._report = report

    def require_some(self) -> None:
        """Read on until there is a document.

        Raises:
            DocumentError: there is none, or it cannot be read.
        """
        first = list(islice(self._values, 1))
        if not first:
            raise _nothing_to_encode(self._report.skipped if self._report is not None else ())
        self._values = chain(first, self._values)

    def take(self, count: int) -> Iterator[AnyDocument]:
        """The next documents."""
        return islice(self._values, count)

    @staticmethod
    def _read(documents: Iterable[AnyDocument]) -> Iterator[AnyDocument]:
        try:
            yield from documents
        except OSError as error:
            raise DocumentError(f"documents cannot be read on: {error}; check where they come from") from error


@dataclass(slots=True)
class _Share:
    """A shard that has to be made.

    Args:
        number: its number.
        made_of: documents of the input that it was made of before, and their hash; None where it is not there.
        input_hash: hash of its documents.
        skipped: documents that are not encoded.
    """

    number: int
    made_of: tuple[int, str] | None
    input_hash: InputHash = field(default_factory=InputHash)
    skipped: list[Skipped] = field(default_factory=list)


# Stands after the last document of a shard, among those that are cut ahead.
_END = SegmentedDocument(Document("end of a shard", ()), (), (), Coverage())


class _Job:
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
        self._to_make: deque[_Share] = deque()
        self.has_encoded = False
        self.shards: dict[int, Shard] = {}

    def run(self, source: _Input) -> None:
        """Go through the input, and encode the shards of this process that do not exist.

        Cutting runs ahead of encoding, over the ends of shards.
        """
        with closing(segment_in_order(self._documents(source), self._encoder.segmenter, self._workers)) as segmented:
            for first in segmented:
                share = takewhile(lambda one: one is not _END, chain([first], segmented))
                self._make(self._to_make.popleft(), share)

    def _documents(self, source: _Input) -> Iterator[Document | SegmentedDocument]:
        """The documents of the shards that this process has to make, with an end after each."""
        for number in count():
            values = source.take(self._settings.shard_size)
            first = next(values, None)
            if first is None:
                self._target.expect_no_more(number)
                return
            values = chain([first], values)
            self._target.expect(number)
            if number % self._processes.count != self._processes.rank:
                for value in values:
                    self._pass_over(value)
                continue
            record, checksum = self._target.find(number)
            share = _Share(number, None if record is None else (record["read"], record["input_hash"]))
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

    def _taken(self, values: Iterable[AnyDocument], share: _Share) -> Iterator[Document]:
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

    def _check_input(self, share: _Share) -> None:
        """Check that a shard that exists was made of the documents that stand there now."""
        read = share.input_hash.documents
        if share.made_of is not None and share.made_of != (read, share.input_hash.hexdigest()):
            start = share.number * self._settings.shard_size
            raise OutputError(
                f"{self._target.path(share.number)} was made of other documents than the input's {start + 1} to "
                f"{start + read}; {ANOTHER_FOLDER}"
            )

    def _make(self, share: _Share, documents: Iterator[SegmentedDocument]) -> None:
        """Encode the documents of one shard by themselves, so that its bytes depend on nothing else."""
        settings, coverage, path = self._settings, Coverage(), self._target.path(share.number)
        self.has_encoded = True
        self._target.begin_shard()
        with ShardWriter(path, settings.level, self._encoder.vector_size(settings.level)) as writer:
            for segmented, vectors in self._encoder.stream(
                self._with_text(documents, share),
                level=settings.level,
                dtype=settings.dtype,
                token_budget=settings.token_budget,
                padding=settings.padding,
                workers=0,
                totals=coverage,
                bar=self._bar,
            ):
                rows = torch.nn.functional.normalize(vectors, dim=-1) if settings.normalize else vectors
                writer.add(segmented, rows)
            self._check_input(share)
            record = shard_record(self._target.origin, share.input_hash, writer.rows, coverage, share.skipped)
            checksum = writer.finish(record)
        self._target.note(path.name, checksum)
        self.shards[share.number] = Shard.of(path.name, record, checksum)

    def _with_text(self, documents: Iterator[SegmentedDocument], share: _Share) -> Iterator[SegmentedDocument]:
        """Leave out documents that have no passage, where that is wanted."""
        for segmented in documents:
            if self._on_error == "skip" and not segmented.passages:
                share.skipped.append(Skipped(f"document {segmented.document.id!r}", "it has no text to encode"))
                self._bar.update(1)
                continue
            yield segmented


def _nothing_to_encode(skipped: Sequence[Skipped]) -> DocumentError:
    if not skipped:
        return DocumentError("there are no documents to encode; check where they are read from")
    return DocumentError(
        f"there are no documents to encode: all {len(skipped)} were skipped, the first because "
        f"{skipped[0].reason} ({skipped[0].source})"
    )


def _progress_bar(show: bool | None, documents: Any, processes: Processes) -> tqdm[Any]:
    total = len(documents) if isinstance(documents, Sized) else None
    return progress_bar(show if processes.is_first else False, total)
