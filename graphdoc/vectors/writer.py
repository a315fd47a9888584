"""Encoding a corpus into a folder: Parquet shards and a manifest, resumable, in constant memory, by many processes."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence, Sized
from contextlib import ExitStack
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]

from ..documents.readers import ReadingReport
from ..errors import SettingsError
from ..inference.inputs import AnyDocument, documents_of
from ..inference.levels import LEVELS, Level
from ..inference.pipeline import EncodingOptions, EncodingPipeline
from ..inference.precision import Precision, require_precision
from ..inference.segmenting import Workers
from ..runtime.processes import Processes
from ..runtime.progress import progress_bar
from ..runtime.ray import RayCluster
from ..runtime.text import require_one_of, require_path, require_whole
from .folder import VectorFolder, agree_on_precision, origin_of
from .job import FolderJob
from .making import OnError, Settings
from .ray_job import ShardEncoder, encode_on_ray
from .shards import TEXT_COLUMNS
from .source import DocumentSource, nothing_to_encode
from .store import Manifest, keep_repeats

logger = logging.getLogger(__name__)


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
        level: ``document`` for one vector each, ``section`` for one per section that has text, ``passage``.
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
        cluster = None
        if ray is not None:
            if processes.count > 1:
                raise SettingsError(f"ray is {ray!r} in one of {processes.count} processes; start a single one")
            cluster = stack.enter_context(RayCluster(ray, ShardEncoder(encoder)))
        measured = None if cluster is None else partial(next, cluster.map("settle_precision", [None]))
        agree_on_precision(encoder, Path(folder), processes, overwrite, measured)
        origin = origin_of(encoder, settings.as_values(), has_sentences=level == "sentence")
        target = VectorFolder(folder, origin, encoder.precision, processes.rank)
        failed = True
        try:
            processes.run_first(lambda: target.prepare(overwrite))
            source = DocumentSource(documents, report)
            # Nothing of another run is removed before all processes have read something.
            source.require_some()
            processes.gather(None)
            if overwrite:
                processes.run_first(target.clear)
            target.open()
            # Nobody may change the folder before all have seen it.
            processes.gather(None)
            with _progress_bar(show_progress, documents, processes) as bar:
                job = FolderJob(encoder, target, settings, processes, bar, on_error, ahead)
                if cluster is None:
                    job.run(source)
                else:
                    encode_on_ray(job, cluster, source)
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
                raise nothing_to_encode(manifest.skipped)
            if report is not None:
                report.leave_out(manifest.skipped[len(report.skipped) :])
            processes.run_first(lambda: keep_repeats(target.folder, encoder.segmenter.repeats))
            processes.run_first(lambda: target.finish(manifest))
            failed = False
        finally:
            target.close(failed=failed)
    if processes.is_first:
        manifest.coverage.warn()
        if not is_new:
            logger.warning("%s held these vectors already: nothing was left to encode", target.folder)
    return manifest


def _progress_bar(show: bool | None, documents: Any, processes: Processes) -> tqdm[Any]:
    total = len(documents) if isinstance(documents, Sized) else None
    return progress_bar(show if processes.is_first else False, total)
