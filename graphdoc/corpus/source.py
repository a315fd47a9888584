"""The documents of a training corpus, from files, a data set or in hand, stored later or streamed in every epoch."""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from torch.utils.data import IterableDataset

from ..documents.document import Document
from ..documents.readers import ReadingReport, Skipped, read_documents
from ..documents.readers.folders import FoundFile, find_files, is_pattern
from ..documents.readers.records import SeenIds
from ..documents.readers.streams import LeftOutSections
from ..errors import DocumentError, OutputError
from ..runtime.files import file_checksum, file_stamp, write_text
from ..runtime.processes import Processes
from ..runtime.progress import progress_bar
from ..runtime.text import counted, one_line
from ..segmentation.segmenter import Segmenter
from ..segmentation.sentences import without_first_sentence
from ..settings.run import CorpusSettings
from .document import (
    TEST_SPLITS,
    VALIDATION_SPLITS,
    CorpusReport,
    TrainingDocument,
    plain_split,
    split_of,
    text_hash,
    tokenise_in_order,
    values_hash,
)

logger = logging.getLogger(__name__)

# How long a file must have rested, in ns, so that its times say whether it has changed since: a change within the same
# tick of the clock would have the same times.
_RESTED_NS = 2 * 10**9


def file_identities(paths: Iterable[Path], records: Path) -> list[list[Any]]:
    """Path, size and hash of files, in their order; a file that is not there has neither.

    A hash is taken from the records where size, times and inode are those with which the file was hashed; programs can
    set its mtime, and not its ctime.

    Args:
        paths: the files.
        records: folder that keeps what was hashed.
    """
    files = [path.absolute() for path in paths]
    names = hashlib.blake2b("\0".join(map(str, files)).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    record = records / f"{names}.json"
    known = _read(record)
    rested: dict[str, list[Any]] = {}
    identities: list[list[Any]] = []
    with progress_bar(None, len(files), "Checking", "files") as bar:
        for path in files:
            name = str(path)
            bar.update(1)
            try:
                # Opening a named pipe would wait for a writer.
                if not path.is_file():
                    raise FileNotFoundError
                stamp = list(file_stamp(path))
                entry = known.get(name)
                if isinstance(entry, list) and len(entry) == 2 and entry[0] == stamp:
                    checksum = entry[1]
                else:
                    checksum = file_checksum(path)
                if list(file_stamp(path)) == stamp and time.time_ns() - max(stamp[1:3]) > _RESTED_NS:
                    rested[name] = [stamp, checksum]
                identities.append([name, stamp[0], checksum])
            except (OSError, OutputError):
                # Reading says what is wrong.
                identities.append([name, None, None])
    if rested != known:
        # Without a record the files are hashed again.
        with suppress(OutputError):
            write_text(record, json.dumps(rested))
    return identities


def _read(record: Path) -> Mapping[str, Any]:
    try:
        known = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def source_files(sources: Iterable[str]) -> Iterator[Path]:
    """The files that paths, folders and patterns mean, in the order in which they are read."""
    for source in sources:
        path = Path(source)
        if path.is_dir() or (not path.exists() and is_pattern(source)):
            try:
                yield from [found.path for found in find_files(source) if isinstance(found, FoundFile)]
            except DocumentError:
                # Reading says what is wrong.
                continue
        elif path.exists():
            yield path
        else:
            # One document of a corpus is named by the file and its id.
            places = (position for position, character in enumerate(source) if character == "#")
            yield from [Path(source[:place]) for place in places if Path(source[:place]).is_file()][:1]


_LONGEST_REASON = 300


class DataSet:
    """One split of a data set, read row by row.

    Files of this machine are read where they lie. ``datasets`` would copy them to its cache, and take that copy
    again for files that were changed and have kept their time.

    Args:
        settings: which one, and how.

    Raises:
        DocumentError: there is no such data set, configuration or split.
    """

    def __init__(self, settings: CorpusSettings) -> None:
        import datasets  # type: ignore[import-untyped, unused-ignore]

        self._settings = settings
        self._options = {"revision": settings.revision}
        self._builder: Any = self._named(
            lambda: datasets.load_dataset_builder(str(settings.dataset), settings.dataset_config, **self._options)
        )
        found = self._builder.config.data_files or {}
        self._files = [str(file) for files in found.values() for file in files]
        self._is_local = bool(self._files) and not any("://" in file for file in self._files)
        self._is_read_in_place = settings.streaming or (self._is_local and "[" not in settings.split)
        if self._is_read_in_place:
            self._rows = self._named(lambda: self._builder.as_streaming_dataset(split=settings.split))

    def identity(self, records: Path) -> dict[str, Any]:
        """What differs when its rows may have changed.

        Args:
            records: folder that keeps what is known of files.
        """
        settings = self._settings
        named = {"dataset": settings.dataset, "configuration": self._builder.config.name, "split": settings.split}
        if self._is_local:
            return {**named, "files": file_identities(map(Path, self._files), records)}
        # The last part is a hash of the revision, or of addresses with their times.
        return {**named, "version": Path(self._builder.cache_dir).parts[-4:]}

    def rows(self, rank: int = 0, count: int = 1) -> Iterator[Any]:
        """Read the rows.

        Args:
            rank: which share is read: whole files where their number is a multiple of ``count``, else every
                ``count``-th row.
            count: number of shares.

        Raises:
            BrokenRows: they cannot be read on.
            DocumentError: the data set cannot be loaded.
        """
        import datasets

        settings = self._settings
        if self._is_read_in_place:
            from datasets.distributed import split_dataset_by_node  # type: ignore[import-untyped, unused-ignore]

            yield from self._watched(split_dataset_by_node(self._rows, rank, count) if count > 1 else self._rows)
            return
        with tempfile.TemporaryDirectory() as folder:
            options = {**self._options, "cache_dir": folder if self._is_local else None}
            yield from self._watched(
                self._named(
                    lambda: datasets.load_dataset(
                        str(settings.dataset), settings.dataset_config, split=settings.split, **options
                    )
                )
            )

    def _named(self, load: Any) -> Any:
        try:
            return load()
        # Builders raise whatever their format raises: a name, split or file that is wrong, or the network.
        except Exception as error:
            settings = self._settings
            given = {"configuration": settings.dataset_config, "split": settings.split, **self._options}
            raise DocumentError(
                f"data set {settings.dataset!r} cannot be loaded "
                f"({', '.join(f'{name} {value!r}' for name, value in given.items() if value is not None)}): "
                f"{_reason(error.__cause__ or error)}; check its name, configuration and split"
            ) from error

    def _watched(self, rows: Any) -> Iterator[Any]:
        """Pass rows on, and say in one line where a data set breaks, whatever its format raises."""
        number = 0
        iterator = iter(rows)
        while True:
            try:
                row = next(iterator)
            except StopIteration:
                return
            except Exception as error:
                raise BrokenRows(self._settings.name, number, error) from error
            number += 1
            yield row


class BrokenRows(DocumentError):
    """A data set that cannot be read any further."""

    def __init__(self, name: str, number: int, error: Exception) -> None:
        reason = f"it cannot be read after row {number} ({_reason(error)}), and the rest is not read; load it again"
        super().__init__(f"{name}: {reason}")
        self.skipped = Skipped(name, reason)


def _reason(error: BaseException) -> str:
    return one_line(str(error), _LONGEST_REASON) or type(error).__name__


class CorpusSource:
    """The documents of a corpus, one at a time.

    Args:
        settings: where they come from.

    Raises:
        DocumentError: there is no such data set, configuration or split.
    """

    def __init__(self, settings: CorpusSettings) -> None:
        self._settings = settings
        self._data_set = DataSet(settings) if settings.dataset else None

    def identity(self) -> dict[str, Any]:
        """Hashes of the files, or the version of the data set: what differs when documents may have changed."""
        settings = self._settings
        records = settings.corpora_folder.parent / "sources"
        if settings.in_hand is not None:
            documents = read_documents(settings.in_hand, columns=settings.columns, on_error="skip")
            return {"documents": values_hash(map(_content, documents))}
        if self._data_set is not None:
            return self._data_set.identity(records)
        return {"sources": settings.sources, "files": file_identities(source_files(settings.sources), records)}

    def documents(self, report: CorpusReport, rank: int = 0, count: int = 1) -> Iterator[tuple[int, Document]]:
        """Read the documents, and leave out copies where that is wanted.

        Args:
            report: counts documents, copies and errors while they are read.
            rank: which share is given. Of a data set it alone is read; of other sources all documents are, and every
                so manieth is given that is no copy.
            count: number of shares.

        Yields:
            Hash of the text, and document.

        Raises:
            DocumentError: something cannot be read, and errors shall stop.
        """
        settings, reading, seen = self._settings, ReadingReport(), SeenIds()
        sections = LeftOutSections(tuple(dict.fromkeys(settings.leave_out_sections)))
        report.sections_left_out = sections.counts
        unwanted = {plain_split(split): split for split in settings.leave_out_splits}
        given: Any = settings.sources if settings.in_hand is None else settings.in_hand
        found = read_documents(
            given if self._data_set is None else self._data_set.rows(rank, count),
            columns=settings.columns,
            encoding=settings.encoding,
            label_from=settings.label_from,
            on_error=settings.on_error,
            report=reading,
            # Rows without an id are named by a hash of their content, and copies would share it.
            unique_ids=False,
        )
        number = 0
        try:
            whole = sections.without(found) if sections.headings else found
            for document in map(without_first_sentence, whole) if settings.leave_out_first_sentence else whole:
                report.documents += 1
                if reading.skipped or reading.ignored:
                    report.take_errors(reading)
                if (split := unwanted.get(plain_split(split_of(document) or ""))) is not None:
                    report.splits_left_out[split] = report.splits_left_out.get(split, 0) + 1
                    continue
                group = text_hash(document)
                if settings.deduplicate and seen.add(str(group)) is not None:
                    report.duplicates += 1
                    continue
                if self._data_set is not None or number % count == rank:
                    yield group, document
                number += 1
            # Recipes name the usual parts, whether there are any; another name that nothing has is a slip.
            for name, split in unwanted.items():
                if name not in (*VALIDATION_SPLITS, *TEST_SPLITS):
                    report.splits_left_out.setdefault(split, 0)
        except BrokenRows as error:
            if settings.on_error != "skip":
                raise
            reading.skipped.append(error.skipped)
        except OSError as error:
            raise DocumentError(f"{settings.name} cannot be read on: {error}; check where it lies") from error
        finally:
            report.take_errors(reading)


def _content(document: Document) -> tuple[object, ...]:
    """All of a document that training may read."""
    sections = [(section.heading, section.text) for section in document.sections]
    return (document.id, document.title, document.label, split_of(document), sections)


def nothing_to_train_on(settings: CorpusSettings, report: CorpusReport) -> DocumentError:
    """Why a corpus has no document to train on."""
    error = f" ({report.first_errors[0].source}: {report.first_errors[0].reason})" if report.errors else ""
    if not report.documents:
        skipped = f"all {report.errors} were skipped{error}" if report.errors else "check where they are read from"
        return DocumentError(f"{settings.name}: there are no documents; {skipped}")
    unread = f" ({report.errors:,} more could not be read{error})" if report.errors else ""
    return DocumentError(
        f"{settings.name}: none of the {counted(report.documents, 'document')} has "
        f"{counted(settings.least_passages, report.unit)} or more{unread}; give longer documents, or make passages "
        "shorter"
    )


def training_segmenter(segmenter: Segmenter, settings: CorpusSettings) -> Segmenter:
    """The segmenter with the limit of passages that holds in training."""
    return Segmenter(segmenter.tokenizer, replace(segmenter.config, max_passages=settings.max_passages))


T = TypeVar("T")

# Batches that are made ready before the processes agree on the number of steps.
_BATCHES_AHEAD = 8
# Documents among which the next one is drawn.
SHUFFLED = 10_000


class StreamingCorpus(IterableDataset[TrainingDocument]):
    """The share of a corpus that one process trains on, cut and tokenised while it is read.

    Of a data set every process reads its own share: some of its files, if their number is a multiple of that of the
    processes, else every so-many-th row. Of other sources every process reads the whole corpus and takes the documents
    whose number, copies not counted, gives its rank when divided by the number of processes. They are drawn from a
    buffer whose choices depend on seed, epoch and rank, and come in the same order whenever these are the same. They
    are cut in ``preparing_processes`` processes, so a loader needs no workers.

    Args:
        settings: where documents come from and how they are made ready; ``streaming`` must be set.
        segmenter: tokenizer and sizes of passages; ``max_passages`` is taken from the settings.
        processes: the processes of the job; None for one.
        seed: seed of the order.
        shuffled: documents among which the next one is drawn.

    Attributes:
        report: counts of the epoch so far: documents, copies and errors of what this process reads; what was kept and
            what was too short of its share.

    Raises:
        ValueError: the settings do not ask for streaming.
    """

    def __init__(
        self,
        settings: CorpusSettings,
        segmenter: Segmenter,
        processes: Processes | None = None,
        *,
        seed: int = 0,
        shuffled: int = SHUFFLED,
    ) -> None:
        if not settings.streaming:
            raise ValueError("streaming is not set; set it, or use prepare_corpus")
        self.report = CorpusReport()
        self._settings = settings
        self._segmenter = training_segmenter(segmenter, settings)
        self._reported_errors = 0
        self._rank, self._processes = (processes.rank, processes.count) if processes is not None else (0, 1)
        self._seed, self._shuffled = seed, shuffled
        self._epoch = 0
        self._consumed = 0
        self._skip = 0

    @property
    def state(self) -> dict[str, int]:
        """Where this process is: the epoch, and the documents of its share that have been taken, short ones too."""
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

        Args:
            size: documents of a batch in each process.
            processes: the processes that agree; all of them have to take part.

        Raises:
            DocumentError: a process has no full batch at all.
        """
        batches = _full_batches(self._documents(), size)
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
        rank, count = self._rank, self._processes
        skip, self._skip = self._skip, 0
        self._consumed = skip
        self.report = report = CorpusReport(unit=self._segmenter.config.unit)
        draw = np.random.default_rng([self._seed, self._epoch, rank])
        share = CorpusSource(self._settings).documents(report, rank, count)
        waiting = islice(_shuffled(share, self._shuffled, draw), skip, None)
        tokenised = tokenise_in_order(waiting, self._segmenter, self._settings.processes)
        # Only of a data set does every process read other documents.
        reports_errors = rank == 0 or self._settings.dataset is not None
        for consumed, document in enumerate(tokenised, start=skip + 1):
            if reports_errors:
                self._report_errors(report)
            if len(document.passages) < self._settings.least_passages:
                report.too_short += 1
                continue
            report.keep(document.coverage)
            yield consumed, document.unpacked()
        if reports_errors:
            self._report_errors(report)
        # Where there are several shares, one of them may be empty.
        if not report.kept and not skip and (count == 1 or not report.documents):
            raise nothing_to_train_on(self._settings, report)

    def _report_errors(self, report: CorpusReport) -> None:
        """Log what could not be read, as soon as it is known."""
        if report.errors <= self._reported_errors:
            return
        for error in report.first_errors[self._reported_errors :]:
            logger.warning("%s", one_line(f"{error.source}: {error.reason}; skipped"))
        # The next epoch finds the same ones.
        self._reported_errors = report.errors


def _shuffled(items: Iterator[T], buffer: int, draw: np.random.Generator) -> Iterator[T]:
    """Draw each item from a buffer that is filled up from the stream."""
    waiting = list(islice(items, buffer))
    for item in items:
        place = int(draw.integers(len(waiting)))
        chosen, waiting[place] = waiting[place], item
        yield chosen
    for place in draw.permutation(len(waiting)):
        yield waiting[place]


def _full_batches(items: Iterator[T], size: int) -> Iterator[list[T]]:
    while len(batch := list(islice(items, size))) == size:
        yield batch
