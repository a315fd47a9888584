"""The documents of a training corpus, from files, a data set or memory, stored once or streamed in every epoch."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from torch.utils.data import IterableDataset

from ..documents.document import Document
from ..documents.readers import ReadingReport, Skipped, read_documents
from ..documents.readers.folders import FoundFile, find_files, is_pattern
from ..documents.readers.records import SeenIds, with_class_names
from ..documents.readers.streams import LeftOutSections
from ..errors import DocumentError, OutputError
from ..evaluation.labels import split_of
from ..runtime.files import file_checksum
from ..runtime.processes import Processes
from ..runtime.text import counted, one_line
from ..segmentation.segmenter import Segmenter
from ..segmentation.sentences import without_first_sentence
from ..settings.run import CorpusSettings
from .document import (
    TEST_SPLITS,
    VALIDATION_SPLITS,
    CorpusReport,
    TrainingDocument,
    text_fingerprint,
    tokenize_in_order,
    values_hash,
)

T = TypeVar("T")
logger = logging.getLogger(__name__)


def file_identities(paths: Iterable[Path]) -> list[tuple[str, str | None]]:
    """Path and hash of files, in their order; a file that cannot be read has no hash, and reading says why."""

    def checksum(path: Path) -> str | None:
        try:
            # Opening a named pipe would wait for a writer.
            return file_checksum(path) if path.is_file() else None
        except OutputError:
            return None

    files = [path.absolute() for path in paths]
    # Hashing releases the interpreter's lock.
    with ThreadPoolExecutor() as pool:
        return list(zip(map(str, files), pool.map(checksum, files), strict=True))


def _source_files(sources: Iterable[str]) -> Iterator[Path]:
    """The files that paths, folders and patterns mean, in the order in which they are read."""
    for source in sources:
        path = Path(source)
        if path.is_file():
            yield path
        elif path.is_dir() or is_pattern(source):
            try:
                yield from [found.path for found in find_files(source) if isinstance(found, FoundFile)]
            except DocumentError:
                # Reading says what is wrong.
                continue
        else:
            # One document of a corpus is named by the file and its id.
            places = (position for position, character in enumerate(source) if character == "#")
            yield from [Path(source[:place]) for place in places if Path(source[:place]).is_file()][:1]


# Rows of a split train whose files do not say how many they are.
KNOWN_ROWS = {"Skylion007/openwebtext": 8_013_769}


class DataSet:
    """One split of a data set, read row by row; one that is not there is a DocumentError.

    Files of this machine are read where they lie. ``datasets`` would copy them to its cache, and take that copy
    again for files that were changed and have kept their time.
    """

    def __init__(self, settings: CorpusSettings) -> None:
        import datasets  # type: ignore[import-untyped, unused-ignore]

        self._settings = settings
        self._names = (str(settings.dataset), settings.dataset_config)
        self._builder: Any = self._loaded(
            lambda: datasets.load_dataset_builder(*self._names, revision=settings.revision)
        )
        by_split = self._builder.config.data_files or {}
        chosen = by_split.get(settings.split.partition("[")[0], ())
        # So the hub calls the folder of a split of which it has converted the first gigabytes alone.
        if any(Path(str(file)).parent.name.startswith("partial-") for file in chosen):
            raise DocumentError(
                f"{settings.name}: revision {settings.revision!r} holds only a part of it, which the hub has "
                "converted; choose another revision or copy of the data set, or name its files with source"
            )
        files = [str(file) for files in by_split.values() for file in files]
        self._local_files = [] if any("://" in file for file in files) else [Path(file) for file in files]
        self._rows: Any = None
        if settings.streaming or (self._local_files and "[" not in settings.split):
            self._rows = self._loaded(lambda: self._builder.as_streaming_dataset(split=settings.split))

    def identity(self) -> dict[str, Any]:
        """Version of the data set; it differs when its rows may have changed."""
        settings = self._settings
        # The last part of the cache is a hash of the revision, or of addresses with their times.
        version = file_identities(self._local_files) or Path(self._builder.cache_dir).parts[-4:]
        named = {"dataset": settings.dataset, "configuration": self._builder.config.name, "split": settings.split}
        return {**named, "version": version}

    def rows(self, rank: int = 0, count: int = 1) -> Iterator[Any]:
        """Read the rows, all or one share of ``count``.

        A share has whole files where their number is a multiple of ``count``, else every ``count``-th row.
        """
        import datasets
        from datasets.distributed import split_dataset_by_node  # type: ignore[import-untyped, unused-ignore]

        number, settings = 0, self._settings
        with tempfile.TemporaryDirectory() as folder:
            rows = self._rows
            if rows is None:
                cache = {"cache_dir": folder} if self._local_files else {}
                options: Any = {"split": settings.split, "revision": settings.revision, **cache}
                rows = self._loaded(lambda: datasets.load_dataset(*self._names, **options))
            elif count > 1:
                rows = split_dataset_by_node(rows, rank, count)
            try:
                named = with_class_names(rows, rows.features.to_dict() if rows.features else {})
                for number, row in enumerate(named, start=1):  # noqa: B007
                    yield row
            # Every format raises its own errors.
            except Exception as error:
                raise DocumentError(
                    f"{settings.name}: it cannot be read after row {number} ({_reason(error)}), and the rest is not "
                    "read; load it again"
                ) from error
        known = KNOWN_ROWS.get(str(settings.dataset), number)
        if number != known and settings.split == "train" and count == 1:
            raise DocumentError(f"{settings.name}: {number:,} rows were read, and it has {known:,}; load it again")

    def _loaded(self, load: Callable[[], T]) -> T:
        try:
            return load()
        # Builders raise whatever their format raises: a name, split or file that is wrong, or the network.
        except Exception as error:
            settings = self._settings
            chosen = {"configuration": settings.dataset_config, "split": settings.split, "revision": settings.revision}
            raise DocumentError(
                f"data set {settings.dataset!r} cannot be loaded "
                f"({', '.join(f'{name} {value!r}' for name, value in chosen.items() if value is not None)}): "
                f"{_reason(error.__cause__ or error)}"
            ) from error


def _reason(error: BaseException) -> str:
    return one_line(str(error), 300) or type(error).__name__


class CorpusSource:
    """The documents of a corpus, one at a time.

    Args:
        settings: where they come from.
        without_first_sentence: whether the first sentence is taken out of all of them.
    """

    def __init__(self, settings: CorpusSettings, without_first_sentence: bool = False) -> None:
        self._settings, self.without_first_sentence = settings, without_first_sentence
        self._data_set = DataSet(settings) if settings.dataset and settings.in_memory is None else None

    def identity(self) -> dict[str, Any]:
        """Hashes of the files, or the version of the data set: what differs when documents may have changed."""
        settings = self._settings
        if settings.in_memory is not None:
            documents = read_documents(settings.in_memory, columns=settings.columns, on_error="skip")
            return {"documents": values_hash(map(_content, documents))}
        if self._data_set is not None:
            return self._data_set.identity()
        return {"sources": settings.sources, "files": file_identities(_source_files(settings.sources))}

    def documents(self, report: CorpusReport, rank: int = 0, count: int = 1) -> Iterator[tuple[int, Document]]:
        """Read the documents, each with the hash of its text, and leave out copies where that is wanted.

        Args:
            report: counts documents, copies and errors while they are read.
            rank: which share to yield. Only this share of a data set is read (:meth:`DataSet.rows`); other sources are
                read whole, and every ``count``-th document that is not a copy is yielded.
            count: number of shares.
        """
        settings, reading, seen = self._settings, ReadingReport(), SeenIds()
        sections = LeftOutSections(tuple(dict.fromkeys(settings.leave_out_sections)))
        report.sections_left_out = sections.counts
        unwanted = {split.strip().lower(): split for split in settings.leave_out_splits}
        # Configs name the usual splits, whether there are any; another name that nothing has is a slip.
        usual = (*VALIDATION_SPLITS, *TEST_SPLITS)
        report.splits_left_out = {split: 0 for name, split in unwanted.items() if name not in usual}
        source: Any = settings.sources if settings.in_memory is None else settings.in_memory
        documents: Iterable[Document] = read_documents(
            source if self._data_set is None else self._data_set.rows(rank, count),
            columns=settings.columns,
            encoding=settings.encoding,
            label_from=settings.label_from,
            on_error=settings.on_error,
            report=reading,
            # Rows without an id are named by a hash of their content, and copies would share it.
            unique_ids=False,
        )
        if sections.headings:
            documents = sections.without(documents)
        if self.without_first_sentence:
            documents = map(without_first_sentence, documents)
        number = 0
        try:
            for document in documents:
                report.documents += 1
                report.take_errors(reading)
                if (split := unwanted.get(split_of(document) or "")) is not None:
                    report.splits_left_out[split] = report.splits_left_out.get(split, 0) + 1
                    continue
                group = text_fingerprint(document)
                if settings.deduplicate and seen.add(str(group)) is not None:
                    report.duplicates += 1
                    continue
                if self._data_set is not None or number % count == rank:
                    yield group, document
                number += 1
        except DocumentError as error:
            # A data set that breaks off; everything else is skipped where it is read.
            if self._data_set is None or settings.on_error != "skip":
                raise
            reading.skipped.append(Skipped(settings.name, str(error)))
        except OSError as error:
            raise DocumentError(f"{settings.name} cannot be read on: {error}") from error
        finally:
            report.take_errors(reading)


def _content(document: Document) -> tuple[object, ...]:
    sections = [(section.heading, section.text) for section in document.sections]
    return (document.id, document.title, document.label, split_of(document), sections)


def nothing_to_train_on(settings: CorpusSettings, report: CorpusReport) -> DocumentError:
    """Why a corpus has no document to train on."""
    least = f"documents need {counted(settings.least_passages, report.unit)} or more"
    return DocumentError(f"{settings.name}: there is nothing to train on ({report.summary()}; {least})")


def training_segmenter(segmenter: Segmenter, settings: CorpusSettings) -> Segmenter:
    """The segmenter with the limit of passages that holds in training."""
    return Segmenter(segmenter.tokenizer, replace(segmenter.config, max_passages=settings.max_passages))


# Batches that are made ready before the processes agree on the number of steps.
_BATCHES_AHEAD = 8


class StreamingCorpus(IterableDataset[TrainingDocument]):
    """The share of a corpus that one process trains on, cut and tokenized while it is read.

    Of a data set every process reads its own share, of other sources the whole corpus, and takes every so-many-th
    document (:meth:`CorpusSource.documents`). Documents are drawn from a buffer, in an order that depends on seed,
    epoch and rank alone. They are cut in ``preparing_processes`` processes, so a loader needs no workers.

    Args:
        settings: where documents come from and how they are made ready.
        segmenter: tokenizer and sizes of passages; ``max_passages`` is taken from the settings.
        processes: the processes of the job; None for one.
        seed: seed of the order.
        shuffled: documents among which the next one is drawn.

    Attributes:
        report: counts of the epoch so far: of what this process reads, and what was kept of its share.
    """

    def __init__(
        self,
        settings: CorpusSettings,
        segmenter: Segmenter,
        processes: Processes | None = None,
        *,
        seed: int = 0,
        shuffled: int = 10_000,
    ) -> None:
        self.report = CorpusReport()
        self._settings = settings
        self._segmenter = training_segmenter(segmenter, settings)
        self._rank, self._processes = (processes.rank, processes.count) if processes is not None else (0, 1)
        self._seed, self._shuffled = seed, shuffled
        self._epoch = self._consumed = self._skip = self._reported_errors = 0

    @property
    def state(self) -> dict[str, int]:
        """Position of this process: the epoch, and the documents taken of its share, short ones included."""
        return {"epoch": self._epoch, "documents": self._consumed}

    def load_state(self, state: Mapping[str, int]) -> None:
        """Let the next iteration begin where another one was; what it had taken is read again, but not cut."""
        self._epoch = state["epoch"]
        self._consumed = self._skip = state["documents"]

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration go through the corpus in the order of another epoch, unless this one is under way."""
        if epoch != self._epoch:
            self._epoch, self._consumed, self._skip = epoch, 0, 0

    def __iter__(self) -> Iterator[TrainingDocument]:
        for consumed, document in self._documents():
            self._consumed = consumed
            yield document

    def batches(self, size: int, processes: Processes | None = None) -> Iterator[list[TrainingDocument]]:
        """Documents in batches, as many in every process: all stop when one of them has no full batch left.

        Unlike a loader's, these batches count as taken only when they are handed out, so that :attr:`state` is exact.

        Raises:
            DocumentError: a process has no full batch at all.
        """
        documents = self._documents()
        batches = takewhile(lambda batch: len(batch) == size, iter(lambda: list(islice(documents, size)), None))
        begins = not self._skip
        while True:
            window = list(islice(batches, _BATCHES_AHEAD))
            agreed = min(processes.gather(len(window))) if processes is not None else len(window)
            if begins and not agreed:
                raise DocumentError(
                    f"{self._settings.name}: a process of {self._processes} has fewer than {size} documents to train "
                    "on; make batches smaller or use fewer processes"
                )
            begins = False
            for batch in window[:agreed]:
                self._consumed = batch[-1][0]
                yield [document for _, document in batch]
            if agreed < _BATCHES_AHEAD:
                return

    def _documents(self) -> Iterator[tuple[int, TrainingDocument]]:
        """Documents to train on, each with the number of documents that have been taken when it has."""
        settings, rank, count = self._settings, self._rank, self._processes
        skip, self._skip = self._skip, 0
        self._consumed = skip
        self.report = report = CorpusReport(unit=self._segmenter.config.unit)
        draw = np.random.default_rng([self._seed, self._epoch, rank])
        share = CorpusSource(settings).documents(report, rank, count)
        waiting = islice(_shuffled(share, self._shuffled, draw), skip, None)
        tokenized = tokenize_in_order(waiting, self._segmenter, settings.processes)
        for consumed, document in enumerate(tokenized, start=skip + 1):
            self._log_errors(report)
            if report.take(document, settings.least_passages):
                yield consumed, TrainingDocument.from_passages(document.id, document.group, document.passages)
        self._log_errors(report)
        # Where there are several shares, one of them may be empty.
        if not report.kept and not skip and (count == 1 or not report.documents):
            raise nothing_to_train_on(settings, report)

    def _log_errors(self, report: CorpusReport) -> None:
        """Log what could not be read, once: the next epoch meets it again, as do processes that read the same."""
        if self._rank == 0 or self._settings.dataset is not None:
            for error in report.first_errors[self._reported_errors :]:
                logger.warning("%s", one_line(f"{error.source}: {error.reason}; skipped"))
                self._reported_errors += 1


def _shuffled(items: Iterator[T], buffer: int, draw: np.random.Generator) -> Iterator[T]:
    """Draw each item from a buffer that is filled up from the stream."""
    waiting = list(islice(items, buffer))
    for item in items:
        place = int(draw.integers(len(waiting)))
        chosen, waiting[place] = waiting[place], item
        yield chosen
    for place in draw.permutation(len(waiting)):
        yield waiting[place]
