"""Encoding a corpus into a folder: Parquet shards and a manifest, resumable, in constant memory, by many processes."""

from __future__ import annotations

import logging
import pickle
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain, count, islice, takewhile
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]

from ..documents.document import Document
from ..documents.readers import ReadingReport, Skipped
from ..documents.readers.records import SeenIds
from ..documents.section import clean_text
from ..errors import DocumentError, OtherDocumentsError, OutputError, SettingsError
from ..inference.pipeline import LEVELS, EncodingOptions, EncodingPipeline, Level
from ..inference.precision import Precision, require_precision
from ..inference.segmenting import AnyDocument, Workers, as_document, documents_of, segment_in_order
from ..runtime.files import write_atomically
from ..runtime.processes import Processes, place
from ..runtime.progress import progress_bar
from ..runtime.ray import RayCluster
from ..runtime.text import require_one_of, require_path, require_whole
from ..segmentation.spans import Coverage, SegmentedDocument
from .folder import ANOTHER_FOLDER, Manifest, VectorFolder, agree_on_precision, library_versions, origin_of
from .shards import TEXT_COLUMNS, InputHash, Shard, ShardWriter, shard_record

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
    ray: str | None
    columns: Sequence[str]


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
    ray: str | None = None,
    columns: Sequence[str] = (),
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
        level: ``document`` for one vector each, ``section`` for one per section that has text, ``passage`` or
            ``sentence``.
        normalize: bring vectors to unit length.
        dtype: compute the transformer in this precision; vectors are fp32 all the same.
        shard_size: documents of one shard.
        overwrite: replace what another run left in the folder.
        token_budget: most tokens (with padding) that go through the transformer at once.
        padding: largest share of padding in a well-filled mini-batch, 0 to 1; None for the usual one.
        show_progress: show a bar; None shows it on a terminal when the work is long.
        workers: processes that cut and tokenise ahead; None for as many as suit the machine, 0 for none.
        report: report of the reader of ``documents``; what it lists as skipped goes into the manifest, and what cannot
            be encoded into it.
        on_error: whether a document that cannot be encoded stops the run or is skipped and listed.
        ray: address of a Ray cluster (:class:`~graphdoc.runtime.ray.RayCluster`); None encodes here.
        columns: what stands beside the vectors: ``title`` of the document, ``text`` of what the vector is of.

    Returns:
        The manifest.

    Raises:
        DocumentError: there are no documents, one has no text, or two have the same id.
        OutputError: the folder cannot be written, or holds something else.
        ModelError: the precision is unknown or does not fit the model.
        SettingsError: the level or another choice is unknown.
        MissingExtraError: Ray is asked for and not installed.
    """
    require_one_of("level", level, LEVELS)
    for column in columns:
        require_one_of("columns", column, tuple(TEXT_COLUMNS))
    require_one_of("on_error", on_error, ("stop", "skip"))
    require_whole("shard_size", shard_size, may_be_none=False)
    require_whole("token_budget", token_budget)
    require_path("folder", folder)
    if dtype is not None:
        require_precision(dtype)
    ahead = Workers.on(encoder.device, workers)
    documents = documents_of(documents)
    chosen = tuple(name for name in TEXT_COLUMNS if name in columns)
    settings = Settings(level, normalize, dtype, shard_size, token_budget, padding, chosen)
    with Processes(encoder.device) as processes, ExitStack() as stack:
        if ray is not None and processes.count > 1:
            raise SettingsError(f"ray is {ray!r} in one of {processes.count} processes; start a single one")
        agree_on_precision(encoder, Path(folder), processes, overwrite)
        cluster = None if ray is None else stack.enter_context(RayCluster(ray, ShardEncoder(encoder)))
        values = asdict(settings) | {"columns": list(chosen)}
        target = VectorFolder(folder, origin_of(encoder, values, has_sentences=level == "sentence"))
        failed = True
        try:
            processes.run_first(lambda: target.prepare(overwrite))
            coming = _readable(documents)
            first = list(islice(coming, 1))
            if not first:
                raise _nothing_to_encode(report.skipped if report is not None else ())
            # Nothing of another run is removed before all processes have read something.
            processes.gather(None)
            if overwrite:
                processes.run_first(target.clear)
            target.open()
            # Nobody may change the folder before all have seen it.
            processes.gather(None)
            total = len(documents) if isinstance(documents, Sized) else None
            with progress_bar(show_progress if processes.is_first else False, total) as bar:
                job = _Job(encoder, target, settings, processes, bar, on_error, ahead)
                job.run(chain(first, coming), cluster)
            is_new = any(processes.gather(job.has_encoded))
            shards = dict(chain.from_iterable(share.items() for share in processes.gather(job.shards)))
            manifest = Manifest.of(
                target.folder,
                target.origin,
                encoder.vector_size(level),
                (shards[number] for number in sorted(shards)),
                report.skipped if report is not None else (),
                report.ignored if report is not None else (),
            )
            if not manifest.rows:
                raise _nothing_to_encode(manifest.skipped)
            if report is not None:
                report.leave_out(manifest.skipped[len(report.skipped) :])
            processes.run_first(lambda: target.finish(manifest, encoder.segmenter.repeats))
            failed = False
        finally:
            target.close(failed=failed)
    if processes.is_first:
        manifest.coverage.warn()
        if not is_new:
            logger.warning("%s held these vectors already: nothing was left to encode", target.folder)
    return manifest


class ShardInput(NamedTuple):
    """What a shard is made of.

    Args:
        documents: documents of the input, those that are left out among them.
        input_hash: hash of them.
        skipped: what is no document, or not one of its own.
    """

    documents: int
    input_hash: str
    skipped: tuple[Skipped, ...]


@dataclass(slots=True)
class _Share:
    """The documents of a shard as they are read, and what it was made of before, if it is there."""

    number: int
    made_of: tuple[int, str] | None
    input_hash: InputHash = field(default_factory=InputHash)
    skipped: list[Skipped] = field(default_factory=list)


# Stands after the last document of a shard, among those that are cut ahead.
_END = SegmentedDocument(Document("end of a shard", ()), (), (), Coverage())


class _Job:
    """One process's share of a run: every so manieth shard.

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
        self._encoder, self._target, self._settings, self._processes = encoder, target, settings, processes
        self._bar, self._on_error, self._workers = bar, on_error, workers
        self._seen = SeenIds()
        self._position = 0
        self._to_make: deque[_Share] = deque()
        self.has_encoded = False
        self.shards: dict[int, Shard] = {}

    def run(self, coming: Iterator[AnyDocument], cluster: RayCluster | None) -> None:
        """Go through the input, and encode the shards of this process that do not exist, here or on a cluster.

        Cutting runs ahead of encoding, over the ends of shards.
        """
        documents = self._documents(coming)
        if cluster is not None:
            for made in cluster.map("make", self._tasks(documents)):
                self._target.begin_shard()
                write_atomically(self._target.path(made.number), partial(Path.write_bytes, data=made.content))
                self._keep(made.number, made.record, made.checksum)
                self._bar.update(made.documents)
            return
        with closing(segment_in_order(documents, self._encoder.segmenter, self._workers)) as segmented:
            for first in segmented:
                share = self._to_make.popleft()
                own = takewhile(lambda document: document is not _END, chain([first], segmented))
                self._target.begin_shard()
                path, origin = self._target.path(share.number), self._target.origin
                made_of = partial(self._made_of, share)
                record, checksum = make_shard(
                    self._encoder, path, own, self._settings, origin, made_of, self._on_error, self._bar
                )
                self._keep(share.number, record, checksum)

    def _documents(self, coming: Iterator[AnyDocument]) -> Iterator[Document | SegmentedDocument]:
        """The documents of the shards that this process has to make, with an end after each."""
        for number in count():
            first = list(islice(coming, 1))
            self._target.check_count(number, is_end=not first)
            if not first:
                return
            values = chain(first, islice(coming, self._settings.shard_size - 1))
            if number % self._processes.count != self._processes.rank:
                for value in values:
                    self._pass_over(value)
                continue
            found = self._target.find(number)
            share = _Share(number, None if found is None else (found[0]["read"], found[0]["input_hash"]))
            if found is None:
                self._to_make.append(share)
                yield from self._taken(values, share)
                yield _END
                continue
            for _ in self._taken(values, share):
                if not self._bar.disable:
                    # Counted as there from the start, since the bar computes the speed from the rest.
                    self._bar.initial += 1
                self._bar.update(1)
            self._made_of(share)
            shard = Shard.of(self._target.path(number).name, *found)
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

    def _made_of(self, share: _Share) -> ShardInput:
        """What a shard is made of, once all its documents are read; of one that exists, the same as before.

        Raises:
            OtherDocumentsError: it was made of other documents.
        """
        read, digest = share.input_hash.documents, share.input_hash.hexdigest()
        if share.made_of is not None and share.made_of != (read, digest):
            start = share.number * self._settings.shard_size
            raise OtherDocumentsError(
                f"{self._target.path(share.number)} was made of other documents than the input's {start + 1} to "
                f"{start + read}; {ANOTHER_FOLDER}"
            )
        return ShardInput(read, digest, tuple(share.skipped))

    def _tasks(self, documents: Iterator[Document | SegmentedDocument]) -> Iterator[ShardTask]:
        """The shards that this process has to make, with their documents, for a cluster."""
        own: list[Document] = []
        for document in documents:
            if isinstance(document, Document):
                own.append(document)
                continue
            share = self._to_make.popleft()
            origin, precision = self._target.origin, self._encoder.precision
            yield ShardTask(
                share.number, tuple(own), self._made_of(share), self._settings, origin, precision, self._on_error
            )
            own = []

    def _keep(self, number: int, record: Mapping[str, Any], checksum: str) -> None:
        self.has_encoded = True
        self.shards[number] = Shard.of(self._target.path(number).name, record, checksum)


def make_shard(
    encoder: EncodingPipeline,
    path: Path,
    documents: Iterable[SegmentedDocument],
    settings: Settings,
    origin: Mapping[str, Any],
    made_of: Callable[[], ShardInput],
    on_error: OnError,
    bar: tqdm[Any],
) -> tuple[dict[str, Any], str]:
    """Encode the documents of one shard by themselves, so that its bytes depend on nothing else.

    Args:
        encoder: the encoder.
        path: the file.
        documents: its documents, cut.
        settings: how vectors are made.
        origin: model, weights, settings and versions.
        made_of: what the shard is made of, asked for once its documents are read.
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
            writer.add(segmented, torch.nn.functional.normalize(vectors, dim=-1) if settings.normalize else vectors)
        read, input_hash, skipped = made_of()
        # Cutting runs ahead, so the order in which both kinds are met says nothing.
        record = shard_record(origin, read, input_hash, writer.rows, coverage, [*skipped, *without_text])
        return record, writer.finish(record)


class ShardTask(NamedTuple):
    """A shard to make in a process of a cluster."""

    number: int
    documents: tuple[Document, ...]
    made_of: ShardInput
    settings: Settings
    origin: Mapping[str, Any]
    precision: str
    on_error: OnError


class MadeShard(NamedTuple):
    """A shard that was made: how many documents were given, the bytes of its file, its record and checksum."""

    number: int
    documents: int
    content: bytes
    record: dict[str, Any]
    checksum: str


class ShardEncoder:
    """Makes shards of vectors in a process of a cluster, to which the encoder is copied.

    Args:
        encoder: the encoder.
    """

    def __init__(self, encoder: EncodingPipeline) -> None:
        self.encoder = encoder

    def __getstate__(self) -> dict[str, Any]:
        device = self.encoder.device
        # Processes may have another device, or none.
        place(self.encoder.model, "cpu")
        try:
            return {"encoder": pickle.dumps(self.encoder)}
        finally:
            place(self.encoder.model, device)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.encoder = pickle.loads(state["encoder"])

    def begin(self) -> None:
        """Move to the device of this process."""
        place(self.encoder.model, None)

    def make(self, task: ShardTask) -> MadeShard:
        """Make a shard.

        Raises:
            DocumentError: a document has no text.
            OutputError: this process has other versions of the libraries.
        """
        if (own := library_versions()) != task.origin["versions"]:
            raise OutputError(f"a machine of the Ray cluster has the versions {own}, not {task.origin['versions']}")
        self.encoder.settle_precision(task.precision)
        cut = segment_in_order(task.documents, self.encoder.segmenter, Workers(0))
        with tempfile.TemporaryDirectory() as folder, progress_bar(False) as bar:
            path = Path(folder) / "shard"
            record, checksum = make_shard(
                self.encoder, path, cut, task.settings, task.origin, lambda: task.made_of, task.on_error, bar
            )
            return MadeShard(task.number, len(task.documents), path.read_bytes(), record, checksum)


def _nothing_to_encode(skipped: Sequence[Skipped]) -> DocumentError:
    reason = f": all {len(skipped)} were skipped, the first because {skipped[0].reason}" if skipped else ""
    return DocumentError(f"there are no documents to encode{reason}")


def _readable(documents: Iterable[AnyDocument]) -> Iterator[AnyDocument]:
    try:
        yield from documents
    except OSError as error:
        raise DocumentError(f"documents cannot be read on: {error}") from error
