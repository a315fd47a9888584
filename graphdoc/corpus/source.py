"""Where the documents of a training corpus come from: files or a data set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..documents.document import Document
from ..documents.readers import ReadingReport, read_documents
from ..documents.readers.identities import SeenIds
from ..documents.readers.left_out_sections import LeftOutSections
from ..errors import DocumentError
from ..runtime.text import counted
from ..segmentation.sentences import without_first_sentence
from ..settings.corpus import CorpusSettings
from .data_set import BrokenRows, DataSet
from .document import TEST_SPLITS, VALIDATION_SPLITS, plain_split, split_of, text_hash
from .report import CorpusReport
from .source_files import file_identities, source_files


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
        found = read_documents(
            settings.sources if self._data_set is None else self._data_set.rows(rank, count),
            columns=settings.columns,
            encoding=settings.encoding,
            text_headings=settings.text_headings,
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
