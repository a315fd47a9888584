"""Where the documents of a training corpus come from: files, a data set, or documents in hand."""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..documents.document import Document
from ..documents.readers import ReadingReport, Skipped, read_documents
from ..documents.readers.folders import FoundFile, find_files, is_pattern
from ..documents.readers.records import SeenIds
from ..documents.readers.streams import LeftOutSections
from ..errors import DocumentError, OutputError
from ..runtime.files import file_checksum, file_stamp, write_text
from ..runtime.progress import progress_bar
from ..runtime.text import counted, one_line
from ..segmentation.sentences import without_first_sentence
from ..settings.run import CorpusSettings
from .document import TEST_SPLITS, VALIDATION_SPLITS, CorpusReport, plain_split, split_of, text_hash, values_hash

# What a file must have rested, in ns, so that its times say whether it has changed since.
_RESTED_NS = 2 * 10**9


def file_identities(paths: Iterable[Path], records: Path) -> list[list[Any]]:
    """Path, size and hash of files, in their order; a file that is not there has neither.

    A hash is taken from the records where size, times and inode are those with which the file was hashed; programs can
    set its mtime, and not its ctime.

    Args:
        paths: the files.
        records: folder that keeps what was hashed.
    """
    found = [path.absolute() for path in paths]
    names = hashlib.blake2b("\0".join(map(str, found)).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    record = records / f"{names}.json"
    known, now = _read(record), {}
    identities = []
    with progress_bar(None, len(found), "Checking", "files") as bar:
        for path in found:
            name = str(path)
            try:
                # Opening a named pipe would wait for a writer.
                if not path.is_file():
                    raise FileNotFoundError
                entry = now[name] = _entry(path, known.get(name))
            except (OSError, OutputError):
                # Reading says what is wrong.
                identities.append([name, None, None])
            else:
                identities.append([name, entry["stamp"][0], entry["checksum"]])
            bar.update(1)
    if now != known:
        # Without a record the files are hashed again.
        with suppress(OutputError):
            write_text(record, json.dumps(now))
    return identities


def _entry(path: Path, known: Any) -> dict[str, Any]:
    stamp = list(file_stamp(path))
    if isinstance(known, dict) and known.get("rested") and known.get("stamp") == stamp:
        return known
    # A change within the same tick of the clock would have the same times.
    rested = time.time_ns() - max(stamp[1:3]) > _RESTED_NS
    checksum = file_checksum(path)
    return {"stamp": stamp, "checksum": checksum, "rested": rested and list(file_stamp(path)) == stamp}


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

    @property
    def has_shares(self) -> bool:
        """Whether every process may read a share of its own, and none the whole."""
        return self._data_set is not None

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
            rank: which share of a data set is read; among its documents are those that are copies of each other.
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
                yield group, document
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
    if not report.documents:
        if not report.errors:
            return DocumentError(f"{settings.name}: there are no documents; check where they are read from")
        first = report.first_errors[0]
        if report.errors == 1:
            return DocumentError(f"{first.source}: {first.reason}")
        return DocumentError(
            f"{settings.name}: there are no documents: all {report.errors} were skipped, the first because "
            f"{first.reason} ({first.source})"
        )
    unread = f" ({report.errors:,} more could not be read: {report.first_errors[0].reason})" if report.errors else ""
    fewer = ", or leave fewer sections out (leave_out_sections)" if any(report.sections_left_out.values()) else ""
    shorter = ", or make passages shorter (passage_words)" if report.unit == "passage" else ""
    return DocumentError(
        f"{settings.name}: none of the {counted(report.documents, 'document')} has "
        f"{counted(settings.least_passages, report.unit)} or more{unread}; give longer documents{shorter}{fewer}"
    )
