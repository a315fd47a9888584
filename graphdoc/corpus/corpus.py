"""Training corpora: documents cut and tokenised once, kept as Arrow under a fingerprint, read memory-mapped."""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import cached_property
from importlib.metadata import version
from os import getpid
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch.utils.data import Dataset

from ..documents.document import Label
from ..errors import DocumentError, OutputError
from ..runtime.files import is_unchanged, write_text
from ..runtime.processes import Processes
from ..runtime.progress import progress_bar
from ..segmentation.segmenter import Segmenter
from ..settings.document import Paragraph
from ..settings.run import CorpusSettings, RunSettings
from ..version import __version__
from .document import CorpusReport, TrainingDocument
from .shards import CorpusReader, CorpusWriter, tokenise_in_order
from .source import CorpusSource, nothing_to_train_on

__all__ = ["TrainingCorpus", "TrainingDocument", "prepare_corpus"]

MANIFEST_FILE = "manifest.json"
FORMAT = "graphdoc corpus"
FORMAT_VERSION = 5
# What an interrupted preparation left is removed when nothing was written there for so long: on a file system that
# machines share, there is no telling whether another one is still at work.
ABANDONED_AFTER_SECONDS = 24 * 60 * 60


class TrainingCorpus(Dataset[TrainingDocument]):
    """A prepared corpus: ``corpus[number]`` reads a document from memory-mapped files.

    It may be given to the workers of a data loader; each maps the files anew.

    Args:
        folder: a folder that :func:`prepare_corpus` made.

    Attributes:
        folder: where it lies.
        fingerprint: what it is known by; another corpus, tokenizer or setting has another one.
        content: hash of its documents in their order, wherever they came from.
        report: what was read, kept and left out when it was prepared.
        passage_counts: passages of every document, ``(documents,)``.

    Raises:
        OutputError: the folder holds no whole corpus.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        manifest = _read_manifest(self.folder)
        try:
            # Corpora of version 0.1 have no checksums.
            shards = {
                self.folder / shard["file"]: (int(shard["bytes"]), shard.get("checksum"))
                for shard in manifest["shards"]
            }
            self.fingerprint, self.content = str(manifest["fingerprint"]), str(manifest["content"])
            self.report = CorpusReport.from_dict(manifest["report"])
            if not shards:
                raise ValueError("no shards")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise OutputError(
                f"{self.folder / MANIFEST_FILE} is damaged ({type(error).__name__}: {error}); remove {self.folder} "
                "and run again"
            ) from error
        for path, (size, checksum) in shards.items():
            if not path.is_file() or path.stat().st_size != size or (checksum and not is_unchanged(path, checksum)):
                raise OutputError(f"{path} is missing or was changed; remove {self.folder} and run again")
        self._reader = CorpusReader(list(shards))
        self.passage_counts: npt.NDArray[np.int64] = self._reader.passage_counts()

    def __len__(self) -> int:
        """Number of documents."""
        return len(self._reader)

    def __getitem__(self, number: int) -> TrainingDocument:
        """Read a document by its number."""
        if not -len(self) <= number < len(self):
            raise IndexError(f"document {number} of {len(self)}")
        return self._reader[number % len(self)]

    def passage(self, number: int, place: int) -> TrainingDocument:
        """Read one passage of a document, as a document of one.

        Args:
            number: number of the document.
            place: place of the passage in reading order.
        """
        return self._reader.passage(number, place)

    @property
    def paragraphs(self) -> npt.NDArray[np.int32]:
        """Paragraph of every sentence in its document, ``(sentences,)``, document after document.

        Empty for a corpus that was not cut into sentences.
        """
        return self._reader.paragraphs()

    @property
    def ids(self) -> list[str]:
        """Id of every document, ``(documents,)``."""
        return self._reader.ids()

    @cached_property
    def groups(self) -> npt.NDArray[np.int64]:
        """Number of every document that copies of its text have too, ``(documents,)``, from 0."""
        numbers: npt.NDArray[np.int64] = np.unique(self._reader.groups(), return_inverse=True)[1]
        return numbers

    @property
    def labels(self) -> list[Label]:
        """Label of every document, None where it has none, ``(documents,)``."""
        return self._reader.labels()

    @property
    def splits(self) -> list[str | None]:
        """What the field ``split`` of every document says, ``(documents,)``."""
        return self._reader.splits()

    def record(self) -> dict[str, Any]:
        """What a run writes down about it."""
        return {"fingerprint": self.fingerprint, "content": self.content, **self.report.to_dict()}

    def __reduce__(self) -> tuple[Any, ...]:
        return TrainingCorpus, (self.folder,)


def prepare_corpus(
    settings: CorpusSettings,
    segmenter: Segmenter,
    processes: Processes | None = None,
    *,
    paragraph: Paragraph | None = None,
    show_progress: bool | None = None,
) -> TrainingCorpus:
    """Cut and tokenise a corpus, or open what an earlier run has made of the same documents and settings.

    Documents are read one at a time and passed to several processes; the result does not depend on their number. It is
    written into a temporary folder that is renamed at the end, so that whatever is there is whole.

    Args:
        settings: where documents come from and how they are made ready.
        segmenter: tokenizer and sizes of passages; ``max_passages`` is taken from the settings.
        processes: the processes of the job, of which the first one prepares while the others wait; None for one.
        paragraph: what a paragraph is, for documents that are cut into sentences, whose paragraphs are then stored.
        show_progress: show a bar; None shows it on a terminal when the work is long.

    Returns:
        The corpus.

    Raises:
        DocumentError: documents cannot be read, or there is none to train on.
        OutputError: the cache cannot be written, or another process has stopped.
        ValueError: the settings ask for streaming.
    """
    if settings.streaming:
        raise ValueError("streaming is set, which stores no corpus; use StreamingCorpus, or set streaming to false")
    segmenter = training_segmenter(segmenter, settings)
    fingerprint = ""

    def prepare() -> None:
        nonlocal fingerprint
        source = CorpusSource(settings)
        fingerprint = _fingerprint(settings, segmenter, source, paragraph)
        folder = settings.corpora_folder / fingerprint
        if not (folder / MANIFEST_FILE).exists():
            _write(folder, fingerprint, settings, segmenter, source, paragraph, show_progress)

    if processes is None:
        prepare()
    else:
        processes.run_first(prepare)
        fingerprint = processes.gather(fingerprint)[0]
    return TrainingCorpus(settings.corpora_folder / fingerprint)


def prepare_run_corpus(
    settings: RunSettings,
    segmenter: Segmenter,
    paragraph: Paragraph,
    processes: Processes | None = None,
    *,
    show_progress: bool | None = None,
) -> TrainingCorpus:
    """Make the corpus of a run ready, cut as its recipe or its model says (see :func:`prepare_corpus`).

    Args:
        settings: the settings of the run.
        segmenter: the segmenter of its model.
        paragraph: what a paragraph is to its model.
        processes: the processes of the run; None for one.
        show_progress: show a bar; None shows it on a terminal when the work is long.
    """
    if settings.unit is not None:
        # Two sentences of a document would be told by its title.
        context = "none" if settings.unit == "sentence" else segmenter.config.context
        config = replace(segmenter.config, unit=settings.unit, context=context)
        segmenter = Segmenter(segmenter.tokenizer, config)
    return prepare_corpus(
        settings.corpus,
        segmenter,
        processes,
        paragraph=paragraph if settings.unit == "sentence" else None,
        show_progress=show_progress,
    )


def training_segmenter(segmenter: Segmenter, settings: CorpusSettings) -> Segmenter:
    """The segmenter with the limit of passages that holds in training."""
    return Segmenter(segmenter.tokenizer, replace(segmenter.config, max_passages=settings.max_passages))


def _fingerprint(
    settings: CorpusSettings, segmenter: Segmenter, source: CorpusSource, paragraph: Paragraph | None
) -> str:
    names = (
        *("label_from", "encoding", "on_error"),
        *("max_passages", "least_passages", "leave_out_splits", "leave_out_sections", "deduplicate"),
    )
    tokenizer = json.loads(segmenter.tokenizer.backend_tokenizer.to_str())
    made_of = {
        "format": [FORMAT, FORMAT_VERSION],
        # Changes with what the readers of files make of them.
        "reading": 2,
        # Passages may end elsewhere in another version of the code that finds sentences.
        "versions": [__version__, version("sentencex")],
        # Corpora that were made before there was such a setting stay known.
        **({"leave_out_first_sentence": True} if settings.leave_out_first_sentence else {}),
        **({} if paragraph is None else {"paragraph": paragraph}),
        # There was a time when titles did not reach the segmenter.
        **({"titles": True} if segmenter.config.context in ("title", "both") else {}),
        "settings": {name: getattr(settings, name) for name in names},
        "columns": asdict(settings.columns),
        "segmentation": asdict(segmenter.config),
        "tokenizer": {key: value for key, value in tokenizer.items() if key not in ("truncation", "padding")},
        "source": source.identity(),
    }
    content = json.dumps(made_of, sort_keys=True).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _write(
    folder: Path,
    fingerprint: str,
    settings: CorpusSettings,
    segmenter: Segmenter,
    source: CorpusSource,
    paragraph: Paragraph | None,
    show_progress: bool | None,
) -> None:
    """Prepare a corpus in a temporary folder and move it to its place."""
    temporary = folder.with_name(f".partial-{socket.gethostname()}-{getpid()}-{fingerprint}")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(folder.parent)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
    except OSError as error:
        raise OutputError(
            f"{folder.parent} cannot be written: {error.strerror or error}; set another cache"
        ) from error
    try:
        report = CorpusReport(unit=segmenter.config.unit)
        largest_token = max(segmenter.tokenizer.get_vocab().values())
        with progress_bar(show_progress, doing="Preparing") as bar, CorpusWriter(temporary, largest_token) as writer:
            for document in tokenise_in_order(source.documents(report), segmenter, settings.processes, paragraph):
                bar.update(1)
                if len(document.passages) < settings.least_passages:
                    report.too_short += 1
                    continue
                report.keep(document.coverage)
                writer.add(document)
        if not report.kept:
            raise nothing_to_train_on(settings, report)
        unused = [heading for heading, count in report.sections_left_out.items() if not count]
        if unused:
            raise DocumentError(
                f"{settings.name}: no document has a section {unused[0]!r}; check corpus.leave_out_sections"
            )
        manifest = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "fingerprint": fingerprint,
            "content": writer.content,
            "settings": {**settings.as_values(), "cache": None, "preparing_processes": None},
            "segmentation": asdict(segmenter.config),
            "report": report.to_dict(),
            "shards": writer.shards,
        }
        write_text(temporary / MANIFEST_FILE, json.dumps(manifest, indent=1))
        try:
            temporary.rename(folder)
        except OSError as error:
            # Another job may have prepared the same corpus in the meantime.
            if not (folder / MANIFEST_FILE).exists():
                raise OutputError(
                    f"{folder} cannot be put in place: {error.strerror or error}; remove it and run again"
                ) from error
        report.log(settings.name)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _remove_abandoned(corpora: Path) -> None:
    for path in corpora.glob(".partial-*"):
        try:
            newest = max(entry.stat().st_mtime for entry in (path, *path.iterdir()))
        except OSError:
            continue
        if newest < time.time() - ABANDONED_AFTER_SECONDS:
            shutil.rmtree(path, ignore_errors=True)


def _read_manifest(folder: Path) -> Mapping[str, Any]:
    path = folder / MANIFEST_FILE
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise OutputError(
            f"{folder} holds no prepared corpus; prepare it first, with a cache that all machines of the job share"
        ) from error
    except (OSError, ValueError) as error:
        raise OutputError(f"{path} cannot be read; remove {folder} and run again") from error
    if not isinstance(manifest, dict) or (manifest.get("format"), manifest.get("format_version")) != (
        FORMAT,
        FORMAT_VERSION,
    ):
        raise OutputError(f"{path} was not written by this version of graphdoc; remove {folder} and run again")
    return manifest
