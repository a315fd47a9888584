"""Where the documents of a training corpus come from: files or a data set, and by what they are known again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..documents.document import Document
from ..documents.readers import ReadingReport, Skipped, read_documents
from ..documents.readers.folders import FoundFile, find_files, is_pattern, labelled_by_folder
from ..documents.readers.identities import SeenIds
from ..documents.readers.left_out_sections import LeftOutSections
from ..errors import DocumentError
from ..runtime.wording import counted
from ..settings.corpus import CorpusSettings
from .document import TEST_SPLITS, VALIDATION_SPLITS, plain_split, split_of, text_hash
from .report import CorpusReport


class CorpusSource:
    """The documents of a corpus, one at a time.

    Args:
        settings: where they come from.

    Raises:
        DocumentError: there is no such data set, configuration or split.
    """

    def __init__(self, settings: CorpusSettings) -> None:
        self._settings = settings
        self._rows = _load_dataset(settings) if settings.dataset else None

    def identity(self) -> dict[str, Any]:
        """Files with size and time, or the data set's fingerprint: what differs when documents may have changed."""
        settings = self._settings
        if self._rows is not None:
            return {"dataset": settings.dataset, "split": settings.split, "fingerprint": self._rows._fingerprint}
        return {"sources": settings.sources, "files": [_stamp(path) for path in _files(settings.sources)]}

    def documents(self, report: CorpusReport) -> Iterator[tuple[int, Document]]:
        """Read the documents, and leave out copies where that is wanted.

        Args:
            report: counts documents, copies and errors while they are read.

        Yields:
            Hash of the text, and document.

        Raises:
            DocumentError: something cannot be read, and errors shall stop.
        """
        settings, reading, seen = self._settings, ReadingReport(), SeenIds()
        sections = LeftOutSections(tuple(dict.fromkeys(settings.leave_out_sections)))
        report.sections_left_out = sections.counts
        unwanted = {plain_split(split): split for split in settings.leave_out_splits}
        found = read_documents(
            settings.sources if self._rows is None else _watched(self._rows, settings.name),
            columns=settings.columns,
            encoding=settings.encoding,
            on_error=settings.on_error,
            report=reading,
            # Rows without an id are named by a hash of their content, and copies would share it.
            unique_ids=False,
        )
        try:
            for document in sections.without(found) if sections.headings else found:
                report.documents += 1
                if reading.skipped or reading.ignored:
                    report.take_errors(reading)
                if (split := unwanted.get(plain_split(split_of(document) or ""))) is not None:
                    report.splits_left_out[split] = report.splits_left_out.get(split, 0) + 1
                    continue
                if settings.label_from == "folder":
                    document = labelled_by_folder(document)
                group = text_hash(document)
                if settings.deduplicate and seen.add(str(group)) is not None:
                    report.duplicates += 1
                    continue
                yield group, document
            # Recipes name the usual parts, whether there are any; another name that nothing has is a slip.
            for name, split in unwanted.items():
                if name not in (*VALIDATION_SPLITS, *TEST_SPLITS):
                    report.splits_left_out.setdefault(split, 0)
        except _BrokenRows as error:
            if settings.on_error == "stop":
                raise
            reading.skipped.append(error.skipped)
        except OSError as error:
            raise DocumentError(f"{settings.name} cannot be read on: {error}; check where it lies") from error
        finally:
            report.take_errors(reading)


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
    return DocumentError(
        f"{settings.name}: none of the {counted(report.documents, 'document')} has "
        f"{counted(settings.least_passages, 'passage')} or more{unread}; give longer documents, or make passages "
        f"shorter (passage_words){fewer}"
    )


class _BrokenRows(DocumentError):
    """A data set that cannot be read any further."""

    def __init__(self, name: str, number: int, error: Exception) -> None:
        reason = f"it cannot be read after row {number} ({_one_line(error)}), and the rest is not read; load it again"
        super().__init__(f"{name}: {reason}")
        self.skipped = Skipped(name, reason)


def _watched(rows: Iterable[Any], name: str) -> Iterator[Any]:
    """Pass rows on, and tell in one line where a data set breaks, whatever its format raises."""
    number = 0
    iterator = iter(rows)
    while True:
        try:
            row = next(iterator)
        except StopIteration:
            return
        except Exception as error:
            raise _BrokenRows(name, number, error) from error
        number += 1
        yield row


def _load_dataset(settings: CorpusSettings) -> Any:
    import datasets  # type: ignore[import-untyped, unused-ignore]

    try:
        return datasets.load_dataset(
            str(settings.dataset), settings.dataset_config, split=settings.split, streaming=settings.streaming
        )
    # Builders raise whatever their format raises: a name, split or file that is wrong, or the network.
    except Exception as error:
        reason = _one_line(error.__cause__ or error)
        raise DocumentError(
            f"data set {settings.dataset!r} cannot be loaded (configuration {settings.dataset_config!r}, "
            f"split {settings.split!r}): {reason}; check its name, configuration and split"
        ) from error


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else f"{text[:300]} ..."


def _files(sources: Iterable[str]) -> Iterator[Path]:
    """The files that paths, folders and patterns mean, in the order in which they are read."""
    for source in sources:
        path = Path(source)
        if path.is_dir() or (not path.exists() and is_pattern(source)):
            try:
                yield from [found.path for found in find_files(source) if isinstance(found, FoundFile)]
            except DocumentError:
                # Reading tells what is wrong.
                continue
        elif path.exists():
            yield path
        else:
            # One document of a corpus is named by the file and its id.
            places = (position for position, character in enumerate(source) if character == "#")
            yield from [Path(source[:place]) for place in places if Path(source[:place]).is_file()][:1]


def _stamp(path: Path) -> list[Any]:
    try:
        status = path.stat()
    except OSError:
        return [str(path.absolute()), None, None]
    return [str(path.absolute()), status.st_size, status.st_mtime_ns]
