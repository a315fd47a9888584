"""Encoding a corpus into a folder: Parquet shards and a manifest, resumable, in constant memory, by many processes."""

from __future__ import annotations

import logging
import pickle
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import chain, count, islice, takewhile
from pathlib import Path
from typing import Any, NamedTuple, get_args

import torch
from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]

from ..documents.document import Document
from ..documents.readers import ReadingReport, Skipped
from ..documents.readers.reading import OnUnencodable
from ..documents.readers.records import SeenIds
from ..errors import DocumentError, OutputError, SettingsError
from ..inference.pipeline import LEVELS, EncodingOptions, EncodingPipeline, Level
from ..inference.precision import Precision, require_precision
from ..inference.segmenting import AnyDocument, Workers, as_document, documents_of, segment_in_order
from ..runtime.files import write_atomically
from ..runtime.processes import Processes, move_to_device
from ..runtime.progress import number_of, progress_bar
from ..runtime.ray import RayCluster
from ..runtime.text import require_one_of, require_path, require_whole
from ..segmentation.spans import Coverage, SegmentedDocument
from .folder import Manifest, Shard, VectorFolder, agree_on_precision, library_versions, origin_of
from .shards import TEXT_COLUMNS, ShardInput, ShardRecord, write_shard

logger = logging.getLogger(__name__)


class FolderOptions(EncodingOptions, total=False):
    """How a folder of vectors is written, as :func:`encode_to_disk` describes it."""

    level: Level
    normalize_embeddings: bool
    shard_size: int
    overwrite: bool
    report: ReadingReport | None
    on_error: OnUnencodable
    ray: str | None
    columns: Sequence[str]


def encode_to_disk(
    encoder: EncodingPipeline,
    documents: Iterable[AnyDocument] | AnyDocument,
    folder: str | Path,
    *,
    level: Level = "document",
    normalize_embeddings: bool = False,
    dtype: Precision | None = None,
    shard_size: int = 1024,
    overwrite: bool = False,
    token_budget: int | None = None,
    padding: float | None = None,
    show_progress_bar: bool | None = None,
    workers: int | None = None,
    report: ReadingReport | None = None,
    on_error: OnUnencodable = "stop",
    ray: str | None = None,
    columns: Sequence[str] = (),
) -> Manifest:
    """Encode a corpus into Parquet shards and a manifest.

    A run that was interrupted goes on when it is started again with the same input, settings and model: finished
    shards are kept, and the folder ends with the bytes of an undisturbed run. ``.manifest.json`` is written last.
    Under ``torchrun`` or ``accelerate launch`` every process encodes its share of the shards. A second run into the
    folder is refused while one is under way.

    On a CPU the last digits of vectors depend on the number of threads (differences of about 1e-7): ``torchrun`` gives
    each process one unless ``OMP_NUM_THREADS`` is set.

    Args:
        encoder: the encoder.
        documents: the corpus, such as :func:`~graphdoc.read_documents` gives; read once, never held.
        folder: where to; made if it is missing.
        level: ``document`` for one vector each, ``section`` for one per section with text, ``passage``, ``sentence``.
        normalize_embeddings: L2-normalize the vectors.
        dtype: compute the transformer in this precision; vectors are fp32 all the same.
        shard_size: documents of one shard.
        overwrite: replace what another run left in the folder.
        token_budget: most tokens (with padding) that go through the transformer at once.
        padding: largest share of padding in a well-filled mini-batch, 0 to 1; None for the usual one.
        show_progress_bar: show a bar; None shows it on a terminal when the work is long.
        workers: processes that cut and tokenize ahead; None for as many as suit the machine, 0 for none.
        report: report of the reader of ``documents``; what it lists as skipped goes into the manifest, and what cannot
            be encoded into it.
        on_error: whether a document that cannot be encoded stops the run or is skipped and listed.
        ray: address of a Ray cluster (:class:`~graphdoc.runtime.ray.RayCluster`); None encodes here.
        columns: what is stored with the vectors: ``title`` of the document, ``text`` of what the vector is of.

    Raises:
        DocumentError: there are no documents, one has no text, or two have the same id.
        OutputError: the folder cannot be written, or holds something else.
        ModelError: the precision is unknown or does not fit the model.
        SettingsError: the level or another choice is unknown.
        MissingExtraError: Ray is asked for and not installed.
    """
    require_one_of("level", level, LEVELS)
    for column in columns:
        require_one_of("columns", column, TEXT_COLUMNS)
    require_one_of("on_error", on_error, get_args(OnUnencodable))
    require_whole("shard_size", shard_size, may_be_none=False)
    require_whole("token_budget", token_budget)
    require_path("folder", folder)
    if dtype is not None:
        require_precision(dtype)
    ahead = Workers.on(encoder.device, workers)
    documents = documents_of(documents)
    chosen = [name for name in TEXT_COLUMNS if name in columns]
    settings = {
        "level": level, "normalize_embeddings": normalize_embeddings, "dtype": dtype, "shard_size": shard_size,
        "token_budget": token_budget, "padding": padding, "columns": chosen,
    }  # fmt: skip
    report = ReadingReport() if report is None else report
    with Processes(encoder.device) as processes, ExitStack() as stack:
        if ray is not None and processes.count > 1:
            raise SettingsError(f"ray is {ray!r} in one of {processes.count} processes; start a single one")
        agree_on_precision(encoder, Path(folder), processes, overwrite)
        origin = origin_of(encoder, settings, has_sentences=level == "sentence")
        shards = ShardEncoder(encoder, origin, on_error)
        cluster = None if ray is None else stack.enter_context(RayCluster(ray, shards))
        target = VectorFolder(folder, origin)
        failed = True
        try:
            processes.run_first(lambda: target.prepare(overwrite))
            coming = _readable(documents)
            first = list(islice(coming, 1))
            if not first:
                raise _nothing_to_encode(report.skipped)
            # Nothing of another run is removed before all processes have read something.
            processes.gather(None)
            if overwrite:
                processes.run_first(lambda: target.clear(shards=True))
            target.open()
            # Nobody may change the folder before all have seen it.
            processes.gather(None)
            with progress_bar(show_progress_bar if processes.is_first else False, partial(number_of, documents)) as bar:
                job = _Job(shards, target, processes, bar)
                job.run(chain(first, coming), ahead, cluster)
            is_new = any(processes.gather(job.has_encoded))
            made = dict(chain.from_iterable(share.items() for share in processes.gather(job.shards)))
            in_order = [made[number] for number in sorted(made)]
            manifest = Manifest.from_shards(target.folder, origin, encoder.vector_size(level), in_order, report)
            if not manifest.rows:
                raise _nothing_to_encode(manifest.skipped)
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


# Stands after the last document of a shard, among those that are cut ahead.
_END = SegmentedDocument(Document("end of a shard", ()), (), (), Coverage())


class _Job:
    """One process's share of a run: every n-th shard, for n processes."""

    def __init__(self, encoder: ShardEncoder, target: VectorFolder, processes: Processes, bar: tqdm[Any]) -> None:
        self._encoder, self._target, self._processes, self._bar = encoder, target, processes, bar
        self._seen = SeenIds()
        self._position = 0
        self._to_make: deque[ShardInput] = deque()
        self.has_encoded = False
        self.shards: dict[int, Shard] = {}

    def run(self, coming: Iterator[AnyDocument], workers: Workers, cluster: RayCluster | None) -> None:
        """Go through the input, and encode the shards of this process that do not exist, here or on a cluster.

        Cutting runs ahead of encoding, over the ends of shards.
        """
        documents = self._documents(coming)
        if cluster is not None:
            sent: dict[int, ShardInput] = {}
            for number, content in cluster.map("encode", self._tasks(documents, sent)):
                made = sent.pop(number)
                self._target.clear(shards=False)
                write_atomically(self._target.path(number), partial(Path.write_bytes, data=content))
                self._keep(made)
                self._bar.update(made.read - len(made.skipped))
            return
        with closing(segment_in_order(documents, self._encoder.encoder.segmenter, workers)) as segmented:
            for first in segmented:
                made = self._to_make.popleft()
                its_own = takewhile(lambda document: document is not _END, chain([first], segmented))
                self._target.clear(shards=False)
                self._encoder.write(self._target.path(made.number), its_own, made, self._bar)
                self._keep(made)

    def _documents(self, coming: Iterator[AnyDocument]) -> Iterator[Document | SegmentedDocument]:
        """The documents of the shards that this process has to make, with an end after each."""
        for number in count():
            first = list(islice(coming, 1))
            self._target.check_count(number, is_end=not first)
            if not first:
                return
            made = ShardInput(number)
            values = self._read(chain(first, islice(coming, self._encoder.origin["settings"]["shard_size"] - 1)), made)
            is_mine = number % self._processes.count == self._processes.rank
            if is_mine and not self._target.has(number):
                self._to_make.append(made)
                yield from values
                yield _END
                continue
            for _ in values:
                self._bar.update(1)
            if is_mine:
                self.shards[number] = self._target.shard(made)
                _, record = self.shards[number]
                if record.skipped and self._encoder.on_error == "stop":
                    raise DocumentError(f"{record.skipped[0].source}: {record.skipped[0].reason}")

    def _read(self, values: Iterable[AnyDocument], made: ShardInput) -> Iterator[Document]:
        for value in values:
            self._position += 1
            try:
                document = as_document(value)
                if self._seen.add(document.id) is not None:
                    raise DocumentError(
                        f"the id {document.id!r} of document {self._position} is taken by an earlier one; give each "
                        "its own id"
                    )
            except DocumentError as error:
                if self._encoder.on_error == "stop":
                    raise
                made.skip(Skipped(f"document {self._position}", str(error)))
                self._bar.update(1)
                continue
            made.add(document)
            yield document

    def _tasks(
        self, documents: Iterator[Document | SegmentedDocument], sent: dict[int, ShardInput]
    ) -> Iterator[ShardTask]:
        """The shards that this process has to make, with their documents, for a cluster."""
        waiting: list[Document] = []
        for document in documents:
            if isinstance(document, Document):
                waiting.append(document)
                continue
            made = self._to_make.popleft()
            sent[made.number] = made
            yield ShardTask(made.number, tuple(waiting), tuple(made.skipped))
            waiting = []

    def _keep(self, made: ShardInput) -> None:
        self.has_encoded = True
        self.shards[made.number] = self._target.shard(made)


class ShardTask(NamedTuple):
    """A shard to encode in a process of a cluster: its number, its documents, and what was skipped between them."""

    number: int
    documents: tuple[Document, ...]
    skipped: tuple[Skipped, ...]


class ShardEncoder:
    """Encodes shards, each by itself, so that its bytes depend on nothing else; a cluster's processes get copies."""

    def __init__(self, encoder: EncodingPipeline, origin: Mapping[str, Any], on_error: OnUnencodable) -> None:
        self.encoder, self.origin, self.on_error = encoder, origin, on_error

    def __getstate__(self) -> dict[str, Any]:
        device = self.encoder.device
        # Processes may have another device, or none.
        move_to_device(self.encoder.model, "cpu")
        try:
            return {**vars(self), "encoder": pickle.dumps(self.encoder)}
        finally:
            move_to_device(self.encoder.model, device)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, encoder=pickle.loads(state["encoder"]))

    def begin(self) -> None:
        """Move to the device of this process, which needs the same versions of the libraries."""
        if (versions := library_versions()) != self.origin["versions"]:
            raise OutputError(f"a machine of the cluster has the versions {versions}, not {self.origin['versions']}")
        move_to_device(self.encoder.model, None)

    def encode(self, task: ShardTask) -> tuple[int, bytes]:
        """Encode a shard on a cluster, and give its number and the bytes of its file."""
        made = ShardInput(task.number)
        for document in task.documents:
            made.add(document)
        for skipped in task.skipped:
            made.skip(skipped)
        segmented = segment_in_order(task.documents, self.encoder.segmenter, Workers(0))
        with tempfile.TemporaryDirectory() as folder, progress_bar(False) as bar:
            path = Path(folder) / "shard"
            self.write(path, segmented, made, bar)
            return task.number, path.read_bytes()

    def write(self, path: Path, documents: Iterable[SegmentedDocument], made: ShardInput, bar: tqdm[Any]) -> None:
        """Encode the documents of a shard and write its file; ``made`` is complete once they are read."""
        encoder, settings = self.encoder, self.origin["settings"]
        coverage, without_text = Coverage(), list[Skipped]()

        def with_text() -> Iterator[SegmentedDocument]:
            for segmented in documents:
                if self.on_error == "skip" and not segmented.passages:
                    without_text.append(Skipped(f"document {segmented.document.id!r}", "it has no text to encode"))
                    bar.update(1)
                    continue
                yield segmented

        options = {name: settings[name] for name in ("level", "dtype", "token_budget", "padding")}
        encoded = encoder.stream(with_text(), **options, workers=0, totals=coverage, bar=bar)
        if settings["normalize_embeddings"]:
            encoded = ((one, torch.nn.functional.normalize(vectors, dim=-1)) for one, vectors in encoded)

        def record(rows: int) -> ShardRecord:
            # Cutting runs ahead, so the order in which both kinds are met says nothing.
            skipped = (*made.skipped, *without_text)
            return ShardRecord(
                **self.origin, read=made.read, rows=rows, input_hash=made.hash, coverage=coverage, skipped=skipped
            )

        level = settings["level"]
        write_shard(path, encoded, level, encoder.vector_size(level), settings["columns"], record)


def _nothing_to_encode(skipped: Sequence[Skipped]) -> DocumentError:
    reason = f": all {len(skipped)} were skipped, the first because {skipped[0].reason}" if skipped else ""
    return DocumentError(f"there are no documents to encode{reason}")


def _readable(documents: Iterable[AnyDocument]) -> Iterator[AnyDocument]:
    try:
        yield from documents
    except OSError as error:
        raise DocumentError(f"documents cannot be read on: {error}") from error
