"""Encoding a corpus into a folder: Parquet shards and a manifest, resumable, in constant memory, by many processes."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import asdict, dataclass
from itertools import chain, count, islice
from pathlib import Path
from typing import Any, Literal

import torch
from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]

from ..documents.document import Document
from ..documents.readers import ReadingReport, Skipped
from ..documents.readers.identities import SeenIds
from ..errors import DocumentError, ModelError, OutputError, SettingsError
from ..inference.inputs import AnyDocument, as_document, documents_of
from ..inference.levels import LEVELS, Level
from ..inference.pipeline import EncodingOptions, EncodingPipeline
from ..inference.precision import PRECISIONS, Precision
from ..runtime.files import write_atomically
from ..runtime.processes import Processes
from ..segmentation.coverage import Coverage
from .folder import ANOTHER_FOLDER, VectorFolder, made_with
from .manifest import Manifest, read_vectors
from .shards import InputHash, Shard, ShardWriter, account_of

__all__ = ["Manifest", "encode_to_disk", "read_vectors"]

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
    Under ``torchrun`` or ``accelerate launch`` every process reads the input and encodes its share of the shards, on
    one machine or on several that share the folder.

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
    _check_choices(level, dtype, shard_size, on_error)
    documents = documents_of(documents)
    settings = Settings(level, normalize, dtype, shard_size, token_budget, padding)
    target = VectorFolder(Path(folder), made_with(encoder, asdict(settings)))
    with Processes(encoder.device) as processes:
        try:
            processes.run_first(lambda: target.prepare(overwrite))
            target.open()
            # Nobody may change the folder before all have seen it.
            processes.gather(None)
            source = _Input(documents, report, on_error)
            with _progress_bar(show_progress, documents, processes) as bar:
                job = _Job(encoder, target, settings, processes, bar, on_error, workers)
                own = job.run(source)
            is_new = any(processes.gather(job.has_encoded))
            shards = dict(chain.from_iterable(shares.items() for shares in processes.gather(own)))
            manifest = Manifest.of(
                target.folder,
                target.made_with,
                encoder.vector_size(level),
                (shards[number] for number in sorted(shards)),
                source.all_skipped,
                report.ignored if report is not None else (),
            )
            if not manifest.rows:
                raise _nothing_to_encode(manifest.skipped)
            processes.run_first(lambda: target.finish(manifest))
        except BaseException:
            target.leave_if_empty()
            raise
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
    """The documents, one at a time: made of rows and strings, their ids checked."""

    def __init__(self, documents: Iterable[AnyDocument], report: ReadingReport | None, on_error: OnError) -> None:
        self._documents = documents
        self._report = report
        self._on_error = on_error
        self._skipped: list[Skipped] = []

    @property
    def all_skipped(self) -> list[Skipped]:
        """What was not passed on so far, by the reader or here."""
        return [*(self._report.skipped if self._report is not None else ()), *self._skipped]

    def __iter__(self) -> Iterator[Document]:
        seen = SeenIds()
        for number, value in enumerate(self._values(), start=1):
            try:
                document = as_document(value)
                first = seen.add(document.id)
                if first is not None:
                    raise DocumentError(
                        f"the id {document.id!r} of document {number} is taken by an earlier one; give each its own id"
                    )
            except DocumentError as error:
                if self._on_error == "stop":
                    raise
                self._skipped.append(Skipped(f"document {number}", str(error)))
                continue
            yield document

    def _values(self) -> Iterator[AnyDocument]:
        try:
            yield from self._documents
        except OSError as error:
            # Shards are written while this runs, and a failure to read must not be told as one to write.
            raise DocumentError(f"documents cannot be read on: {error}; check where they come from") from error


class _Job:
    """One process's share of a run.

    Attributes:
        has_encoded: whether any of its shards had to be made.
    """

    def __init__(
        self,
        encoder: EncodingPipeline,
        target: VectorFolder,
        settings: Settings,
        processes: Processes,
        bar: tqdm[Any],
        on_error: OnError,
        workers: int | None,
    ) -> None:
        self._encoder = encoder
        self._target = target
        self._settings = settings
        self._processes = processes
        self._bar = bar
        self._on_error = on_error
        self._workers = workers
        self.has_encoded = False

    def run(self, source: _Input) -> dict[int, Shard]:
        """Go through the input, and encode the shards of this process that do not exist."""
        documents = iter(source)
        shards: dict[int, Shard] = {}
        number = 0
        for number in count():
            first = next(documents, None)
            if first is None:
                break
            share = chain([first], islice(documents, self._settings.shard_size - 1))
            self._target.expect(number)
            if number % self._processes.count != self._processes.rank:
                self._bar.update(sum(1 for _ in share))
                continue
            existing = self._target.account(number)
            shards[number] = self._encode(number, share) if existing is None else self._keep(number, existing, share)
        if number == 0:
            raise _nothing_to_encode(source.all_skipped)
        self._target.expect_no_more(number)
        return shards

    def _keep(self, number: int, account: Mapping[str, Any], share: Iterator[Document]) -> Shard:
        """Check that a shard that exists was made of the documents that stand there now."""
        watched = InputHash()
        for _ in watched.watch(share):
            if not self._bar.disable:
                # Counted as there from the start, since the bar tells the speed from the rest.
                self._bar.initial += 1
            self._bar.update(1)
        path = self._target.path(number)
        if (watched.documents, watched.hexdigest()) != (account["read"], account["input_hash"]):
            start = number * self._settings.shard_size
            raise OutputError(
                f"{path} was made of other documents than the input's {start + 1} to {start + watched.documents}; "
                f"{ANOTHER_FOLDER}"
            )
        shard = self._target.read_shard(number, account)
        if shard.skipped and self._on_error == "stop":
            raise DocumentError(f"{shard.skipped[0].source}: {shard.skipped[0].reason}")
        return shard

    def _encode(self, number: int, share: Iterator[Document]) -> Shard:
        """Encode the documents of one shard by themselves, so that its bytes depend on nothing else."""
        settings = self._settings
        watched, coverage, skipped = InputHash(), Coverage(), list[Skipped]()
        account: dict[str, Any] = {}

        def write(temporary: Path) -> None:
            with ShardWriter(temporary, settings.level, self._encoder.vector_size(settings.level)) as writer:
                for segmented, vectors in self._encoder.stream(
                    self._encodable(watched.watch(share), skipped),
                    level=settings.level,
                    dtype=settings.dtype,
                    token_budget=settings.token_budget,
                    padding=settings.padding,
                    workers=self._workers,
                    totals=coverage,
                    bar=self._bar,
                ):
                    rows = torch.nn.functional.normalize(vectors, dim=-1) if settings.normalize else vectors
                    writer.add(segmented, rows)
                account.update(account_of(self._target.made_with, watched, writer.rows, coverage, skipped))
                writer.finish(account)

        self.has_encoded = True
        self._target.reopen()
        write_atomically(self._target.path(number), write)
        return self._target.read_shard(number, account)

    def _encodable(self, documents: Iterable[Document], skipped: list[Skipped]) -> Iterator[Document]:
        """Leave out documents that have no passage, where that is wanted."""
        for document in documents:
            # A letter or digit always makes a token, so that few documents are segmented twice.
            if (
                self._on_error == "skip"
                and not any(map(str.isalnum, chain.from_iterable(section.text for section in document.sections)))
                and not self._encoder.segment(document).passages
            ):
                skipped.append(Skipped(f"document {document.id!r}", "it has no text to encode"))
                self._bar.update(1)
                continue
            yield document


def _check_choices(level: str, dtype: str | None, shard_size: int, on_error: str) -> None:
    if level not in LEVELS:
        raise SettingsError(f"level {level!r} is unknown; use one of {', '.join(LEVELS)}")
    if dtype is not None and dtype not in PRECISIONS:
        raise ModelError(f"dtype {dtype!r} is unknown; use one of {', '.join(PRECISIONS)}")
    if shard_size < 1:
        raise SettingsError(f"shard_size is {shard_size}; set it to 1 or more (1024 is usual)")
    if on_error not in ("stop", "skip"):
        raise SettingsError(f"on_error is {on_error!r}; choose 'stop' or 'skip'")


def _nothing_to_encode(skipped: Sequence[Skipped]) -> DocumentError:
    if not skipped:
        return DocumentError("there are no documents to encode; check where they are read from")
    return DocumentError(
        f"there are no documents to encode: all {len(skipped)} were skipped, the first because "
        f"{skipped[0].reason} ({skipped[0].source})"
    )


def _progress_bar(show: bool | None, documents: Any, processes: Processes) -> tqdm[Any]:
    shown = processes.is_first and (sys.stderr.isatty() if show is None else show)
    total = len(documents) if isinstance(documents, Sized) else None
    return tqdm(total=total, desc="Encoding", unit=" documents", disable=not shown, delay=0.5 if show is None else 0)
