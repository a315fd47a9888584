"""The documents that commands read: from sources that are named, all or one, with what cannot be encoded left out."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from ..documents.document import Document
from ..documents.parsing.rows import Columns
from ..errors import DocumentError
from .arguments import COLUMNS

if TYPE_CHECKING:
    from ..documents.readers import ReadingReport
    from ..encoder import DocumentEncoder


def read_many(
    sources: list[str], options: argparse.Namespace, report: ReadingReport | None = None
) -> Iterator[Document]:
    """Read documents as the arguments say.

    Raises:
        DocumentError: a source has no name, or a document cannot be read and the arguments do not say to skip it.
    """
    from ..documents.readers import read_documents

    if not all(sources):
        raise DocumentError("the name of a document is empty; name a file, a folder or a corpus")
    if sources.count("-") > 1:
        raise DocumentError("standard input can be read only once; name a file for the other document")
    on_error = getattr(options, "on_error", None)
    # Before a model is loaded, which takes longer than finding a mistake.
    missing = next((source for source in sources if is_missing(source)), None) if on_error != "skip" else None
    documents = read_documents(
        sources if missing is None else [missing],
        columns=Columns(**{name: getattr(options, f"{name}_column") for name in COLUMNS}),
        on_error=on_error or "stop",
        report=report,
        encoding=options.encoding,
        text_headings=not options.no_text_headings,
        label_from=getattr(options, "label_from", "column"),
    )
    named = documents if on_error in (None, "skip") else _naming_the_option(documents, sources)
    return named if missing is None else iter(list(named))


def skips_unencodable(options: argparse.Namespace, sources: Iterable[str]) -> bool:
    """Whether a document that was read, but gives no passages, is skipped: in folders by default."""
    from ..documents.readers.folders import is_folder_or_pattern

    if options.on_error == "skip_in_folders":
        return all(map(is_folder_or_pattern, sources))
    return bool(options.on_error == "skip")


def is_missing(source: str) -> bool:
    """Whether a source is neither standard input nor a file, a folder, a pattern, or a document of a file."""
    from ..documents.readers.folders import is_pattern

    if source == "-" or is_pattern(source):
        return False
    ends = [position for position, character in enumerate(source) if character == "#"]
    try:
        return not any(Path(source[:end]).exists() for end in (*ends, len(source)))
    except PermissionError:
        return False
    except (OSError, ValueError):
        return True


def _naming_the_option(documents: Iterator[Document], sources: list[str]) -> Iterator[Document]:
    """Add to the error of one document that the others can be read without it."""
    try:
        yield from documents
    except DocumentError as error:
        # Without the only source there is nothing else to read.
        if len(sources) == 1 and str(error).startswith(f"{sources[0].partition('#')[0]}: "):
            raise
        raise DocumentError(f"{error} (--on-error skip goes on without it)") from error.__cause__


def encodable(documents: Iterable[Document], encoder: DocumentEncoder, report: ReadingReport) -> Iterator[Document]:
    """Leave out and list documents of nothing but invisible characters, which give no passages."""
    from ..documents.readers import Skipped

    for document in documents:
        # A letter or digit always makes a token, so that few documents are cut twice.
        if not any(map(str.isalnum, document.text)) and not encoder.segment(document).passages:
            report.leave_out([Skipped(document.id, "it has no text to encode; leave it out")])
        else:
            yield document


def no_documents(sources: Iterable[str], report: ReadingReport) -> DocumentError:
    """The error that nothing was read, with the first reason if there is one."""
    reasons = "".join(f"; {skipped.source}: {skipped.reason}" for skipped in report.skipped[:1])
    return DocumentError(f"there are no documents in {' '.join(sources)}{reasons}")


def read_one(source: str, options: argparse.Namespace, report: ReadingReport | None = None) -> Document:
    """Read the one document that a source holds.

    Args:
        source: what is named.
        options: the arguments.
        report: lists what else is there and cannot be read.

    Raises:
        DocumentError: there is none, or more than one.
    """
    from ..documents.readers import ReadingReport
    from ..documents.readers.folders import FoundFile, find_files

    report = ReadingReport() if report is None else report
    before = len(report.skipped)
    found = list(islice(read_many([source], options, report), 2))
    if len(found) == 1:
        return found[0]
    if not found and (skipped := report.skipped[before:]):
        raise DocumentError(f"{skipped[0].source}: {skipped[0].reason}")
    if Path(source).is_dir():
        first = next(file.path for file in find_files(source) if isinstance(file, FoundFile))
        raise DocumentError(f"{source} is a folder of several documents; name one file in it, such as {first}")
    fix = f"name one document of it as {source}#ID" if Path(source).is_file() else "name one of them"
    raise DocumentError(f"{source} holds {'several documents' if found else 'no document'}; {fix}")
