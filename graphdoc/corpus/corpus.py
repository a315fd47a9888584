"""Training corpora: documents cut and tokenized once, kept as Arrow under a fingerprint, read memory-mapped."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cached_property
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
from torch.utils.data import Dataset

from ..documents.document import Label
from ..errors import DocumentError, OutputError
from ..inference.segmenting import in_blocks
from ..runtime.files import is_unchanged, mark_checked, write_text, writing_error
from ..runtime.processes import Processes, gathered, interleaved
from ..runtime.progress import progress_bar
from ..segmentation.segmenter import Segmenter
from ..segmentation.spans import PassageColumns, passage_columns, passage_fields
from ..settings.document import Paragraph
from ..settings.run import CorpusSettings, RunSettings
from ..version import __version__
from .document import BLOCK_DOCUMENTS, CorpusReport, TokenizedDocument, TrainingDocument, tokenize_in_order
from .source import CorpusSource, nothing_to_train_on, training_segmenter

__all__ = ["TrainingCorpus", "TrainingDocument", "prepare_corpus"]

MANIFEST_FILE, DOCUMENTS_FILE = "manifest.json", "documents.arrow"
FORMAT_VERSION = 7
BATCH_DOCUMENTS, BATCH_TOKENS = 1024, 2**22
# What an interrupted preparation left is removed when so old: another machine that shares the cache may be at work.
ABANDONED_AFTER_SECONDS = 24 * 60 * 60
# What does not matter for what a corpus holds, or is in the identity of its source.
_NOT_FINGERPRINTED = (
    *("source", "dataset", "dataset_config", "revision", "split"),
    *("streaming", "preparing_processes", "cache"),
)


class TrainingCorpus(Dataset[TrainingDocument]):
    """A prepared corpus: ``corpus[number]`` reads a document from memory-mapped files.

    It may be given to the workers of a data loader; each maps the files itself.

    Args:
        folder: a folder that :func:`prepare_corpus` made.

    Attributes:
        folder: where it lies.
        fingerprint: hash that identifies it; it changes with the corpus, the tokenizer and the settings.
        content: hash of its documents in their order, wherever they came from.
        report: what was read, kept and left out when it was prepared.
        passage_counts: passages of every document, ``(documents,)``.

    Raises:
        OutputError: the folder holds no whole corpus.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        try:
            manifest = json.loads((self.folder / MANIFEST_FILE).read_text(encoding="utf-8"))
            if manifest["format_version"] != FORMAT_VERSION:
                raise ValueError("another version of graphdoc wrote it")
            self.fingerprint, self.content = str(manifest["fingerprint"]), str(manifest["content"])
            self.report = CorpusReport.from_dict(manifest["report"])
            path = self.folder / DOCUMENTS_FILE
            if not is_unchanged(path):
                raise ValueError(f"{path.name} is missing or was changed")
            # The columns keep the mapping alive.
            batches = list(pa.ipc.open_stream(pa.memory_map(str(path))))
        except FileNotFoundError as error:
            raise OutputError(
                f"{folder} holds no prepared corpus; prepare it first, with a cache that all machines of the job share"
            ) from error
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise OutputError(f"{folder} cannot be used ({error}); remove {self.folder} and run again") from error
        self._table = pa.Table.from_batches(batches)
        self._ids = [batch.column("id") for batch in batches]
        self._passages = [PassageColumns(batch) for batch in batches]
        self._ends = np.cumsum([len(batch) for batch in batches], dtype=np.int64)
        self._hashes: npt.NDArray[np.int64] = self._table["group"].to_numpy()
        self.passage_counts: npt.NDArray[np.int64] = np.concatenate([columns.counts for columns in self._passages])

    def __len__(self) -> int:
        return len(self.passage_counts)

    def __getitem__(self, number: int) -> TrainingDocument:
        if not -len(self) <= number < len(self):
            raise IndexError(f"document {number} of {len(self)}")
        return self._read(number % len(self))

    def passage(self, number: int, passage: int) -> TrainingDocument:
        """Read one passage of a document, by its number in reading order, as a document of one."""
        return self._read(number, passage)

    def _read(self, number: int, passage: int | None = None) -> TrainingDocument:
        batch = int(np.searchsorted(self._ends, number, side="right"))
        row = number - (int(self._ends[batch - 1]) if batch else 0)
        columns = self._passages[batch]
        passages = columns[row] if passage is None else columns.passage(row, passage)
        return TrainingDocument.from_passages(self._ids[batch][row].as_py(), int(self._hashes[number]), passages)

    @property
    def paragraphs(self) -> npt.NDArray[np.int32]:
        """Paragraph of every sentence in its document, ``(sentences,)``, document after document.

        Empty for a corpus that was not cut into sentences.
        """
        return np.concatenate([chunk.values.to_numpy() for chunk in self._table["paragraphs"].chunks])

    @property
    def ids(self) -> list[str]:
        """Id of every document, ``(documents,)``."""
        return list(self._table["id"].to_pylist())

    @cached_property
    def groups(self) -> npt.NDArray[np.int64]:
        """Number of every document that copies of its text have too, ``(documents,)``, from 0."""
        numbers: npt.NDArray[np.int64] = np.unique(self._hashes, return_inverse=True)[1]
        return numbers

    @property
    def labels(self) -> list[Label]:
        """Label of every document, None where it has none, ``(documents,)``."""
        labels = [None if value is None else json.loads(value) for value in self._table["label"].to_pylist()]
        return [tuple(label) if isinstance(label, list) else label for label in labels]

    @property
    def splits(self) -> list[str | None]:
        """The field ``split`` of every document, in lower case, ``(documents,)``."""
        return list(self._table["split"].to_pylist())

    def record(self) -> dict[str, Any]:
        """Description of the corpus for the record of a run."""
        return {"fingerprint": self.fingerprint, "content": self.content, **self.report.to_dict()}

    def __reduce__(self) -> tuple[Any, ...]:
        return TrainingCorpus, (self.folder,)


def prepare_corpus(
    settings: CorpusSettings,
    segmenter: Segmenter,
    processes: Processes | None = None,
    *,
    paragraph: Paragraph | None = None,
    without_first_sentence: bool = False,
    show_progress_bar: bool | None = None,
) -> TrainingCorpus:
    """Cut and tokenize a corpus, or open what an earlier run has made of the same documents and settings.

    Documents are read one at a time and passed to several workers; the result does not depend on their number. It is
    written into a temporary folder that is renamed at the end, so that whatever is there is whole.

    Args:
        settings: where documents come from and how they are made ready.
        segmenter: tokenizer and sizes of passages; ``max_passages`` is taken from the settings.
        processes: those of the job, which all read, of which each cuts a share, and the first one writes; None for one.
        paragraph: what a paragraph is, for documents that are cut into sentences, whose paragraphs are then stored.
        without_first_sentence: whether the first sentence is taken out of all documents.
        show_progress_bar: show a bar; None shows it on a terminal when the work is long.

    Raises:
        DocumentError: documents cannot be read, or there is none to train on.
        OutputError: the cache cannot be written, or another process has stopped.
    """
    segmenter, source = training_segmenter(segmenter, settings), CorpusSource(settings, without_first_sentence)
    folder = settings.corpora_folder / _fingerprint(settings, segmenter, source, paragraph)
    # Every process hashes all files: one whose machine has other ones is found out.
    found = gathered(processes, (folder.name, (folder / MANIFEST_FILE).exists()))
    if len({fingerprint for fingerprint, _ in found}) > 1:
        raise DocumentError(f"{settings.name}: processes find other documents or versions; give them the same")
    if not all(is_there for _, is_there in found):
        _write(folder, settings, segmenter, source, paragraph, processes, show_progress_bar)
        gathered(processes, None)
    return TrainingCorpus(folder)


def prepare_run_corpus(
    settings: RunSettings,
    segmenter: Segmenter,
    paragraph: Paragraph,
    processes: Processes | None = None,
    *,
    show_progress_bar: bool | None = None,
) -> TrainingCorpus:
    """Make the corpus of a run ready, cut as its recipe or its model says."""
    if settings.unit is not None:
        # Two sentences of a document would be recognized by its title.
        context = "none" if settings.unit == "sentence" else segmenter.config.context
        segmenter = Segmenter(segmenter.tokenizer, replace(segmenter.config, unit=settings.unit, context=context))
    return prepare_corpus(
        settings.corpus, segmenter, processes, paragraph=paragraph if settings.unit == "sentence" else None,
        without_first_sentence=settings.leaves_out_first_sentence, show_progress_bar=show_progress_bar,
    )  # fmt: skip


def _fingerprint(
    settings: CorpusSettings, segmenter: Segmenter, source: CorpusSource, paragraph: Paragraph | None
) -> str:
    tokenizer = json.loads(segmenter.tokenizer.backend_tokenizer.to_str())
    made_of = {
        "format": FORMAT_VERSION,
        # Passages may end elsewhere in another version of the code that finds sentences.
        "versions": [__version__, version("sentencex")],
        "settings": {name: value for name, value in settings.as_values().items() if name not in _NOT_FINGERPRINTED},
        "paragraph": paragraph,
        "without_first_sentence": source.without_first_sentence,
        "segmentation": asdict(segmenter.config),
        "tokenizer": {key: value for key, value in tokenizer.items() if key not in ("truncation", "padding")},
        "source": source.identity(),
    }
    content = json.dumps(made_of, sort_keys=True).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _write(
    folder: Path,
    settings: CorpusSettings,
    segmenter: Segmenter,
    source: CorpusSource,
    paragraph: Paragraph | None,
    processes: Processes | None,
    show_progress_bar: bool | None,
) -> None:
    temporary = folder.with_name(f".partial-{socket.gethostname()}-{os.getpid()}-{folder.name}")
    report = CorpusReport(unit=segmenter.config.unit)

    rank, count = (0, 1) if processes is None else (processes.rank, processes.count)
    workers = settings.processes // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))

    def tokenized() -> Iterator[TokenizedDocument]:
        own = tokenize_in_order(islice(source.documents(report), rank, None, count), segmenter, workers, paragraph)
        while any(parts := gathered(processes, list(islice(own, BLOCK_DOCUMENTS)))):
            yield from interleaved(parts)

    def kept() -> Iterator[TokenizedDocument]:
        with progress_bar(False if rank else show_progress_bar, doing="Preparing") as bar:
            for document in tokenized():
                bar.update(1)
                if report.take(document, settings.least_passages):
                    yield document
        if not report.kept:
            raise nothing_to_train_on(settings, report)
        if missing := [heading for heading, sections in report.sections_left_out.items() if not sections]:
            raise DocumentError(
                f"{settings.name}: no document has a section {missing[0]!r}; check corpus.leave_out_sections"
            )

    if rank:
        # The first one has got, and writes, what this one cuts.
        deque(kept(), maxlen=0)
        return
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(folder.parent)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        content = _write_documents(temporary / DOCUMENTS_FILE, kept(), max(segmenter.tokenizer.get_vocab().values()))
        manifest = {
            "format_version": FORMAT_VERSION,
            "fingerprint": folder.name,
            "content": content,
            "settings": {**settings.as_values(), "cache": None, "preparing_processes": None},
            "segmentation": asdict(segmenter.config),
            "report": report.to_dict(),
        }
        write_text(temporary / MANIFEST_FILE, json.dumps(manifest, indent=1))
        try:
            temporary.rename(folder)
        except OSError:
            # Another job may have prepared the same corpus in the meantime.
            if not (folder / MANIFEST_FILE).exists():
                raise
        report.log(settings.name)
    except OSError as error:
        raise writing_error(folder, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write_documents(path: Path, documents: Iterator[TokenizedDocument], largest_token: int) -> str:
    fields = passage_fields(largest_token)
    named = [pa.field("id", pa.string(), nullable=False), pa.field("group", pa.int64(), nullable=False)]
    strings = [("label", pa.string()), ("split", pa.string())]
    schema = pa.schema([*named, *strings, *fields, ("paragraphs", pa.list_(pa.int32()))])
    content = hashlib.blake2b(digest_size=16)
    with pa.OSFile(str(path), "wb") as stream, pa.ipc.new_stream(stream, schema) as writer:
        least = BATCH_TOKENS // BATCH_DOCUMENTS
        for batch in in_blocks(documents, BATCH_TOKENS, lambda one: max(least, len(one.passages.token_ids))):
            for document in batch:
                cut = document.passages
                content.update(json.dumps([document.id, document.label, document.split]).encode("ascii"))
                for numbers in (cut.sections, cut.lengths, cut.token_ids, document.paragraphs):
                    if numbers is not None:
                        content.update(numbers.tobytes())
            # Labels are strings, numbers or lists of them.
            labels = [None if document.label is None else json.dumps(document.label) for document in batch]
            read = [(one.id, one.group, one.split, one.paragraphs) for one in batch]
            ids, groups, splits, paragraphs = map(list, zip(*read, strict=True))
            passages = passage_columns([document.passages for document in batch], fields)
            columns = [ids, groups, labels, splits, *passages, paragraphs]
            writer.write_batch(pa.record_batch(columns, schema=schema))
    mark_checked(path)
    return content.hexdigest()


def remove_abandoned(folder: Path) -> None:
    """Remove the partial files and folders that an interrupted run left in a folder long ago."""
    for path in folder.glob(".partial-*"):
        with suppress(OSError):
            newest = max(entry.stat().st_mtime for entry in (path, *path.glob("*")))
            if newest >= time.time() - ABANDONED_AFTER_SECONDS:
                continue
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()
