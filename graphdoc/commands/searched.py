"""What a search asks with and what it searches, as arguments name both."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..documents.readers.folders import is_pattern
from ..errors import DocumentError
from ..runtime.memory import quick_imports
from .arguments import load_encoder
from .index import open_index
from .sources import encodable, is_missing, no_documents, read_many, read_one, skips_unencodable
from .summaries import MOST_LISTED, read_and_skipped

if TYPE_CHECKING:
    from ..documents.document import Document
    from ..retrieval.index import DocumentIndex
    from ..retrieval.updating import OnError

logger = logging.getLogger(__name__)

# Ways to search that take a document.
BY_SENTENCES = ("sentences", "flat", "paragraphs", "document")


def read_query(options: argparse.Namespace) -> tuple[Any, DocumentError | None]:
    """What is asked with, words or a document; or why no file can be read, where it may be the id of a document.

    Raises:
        DocumentError: standard input does not hold one document.
    """
    if options.document is None:
        return options.query, None
    try:
        return read_one(options.document, options), None
    except DocumentError as error:
        if options.document == "-":
            raise
        is_name = is_missing(options.document) or is_pattern(options.document) or options.document.startswith("#")
        return None, _no_such_document(options) if is_name else error


def document_of(index: DocumentIndex, options: argparse.Namespace, unread: DocumentError) -> Document:
    """The document of an index that has the id that is given.

    Raises:
        DocumentError: there is none.
    """
    if options.document not in index:
        # The id of a file is its name without suffix.
        name = Path(options.document).stem
        raise _no_such_document(options, f"did you mean {name}?") if name and name in index else unread
    return index.document(options.document)


def _no_such_document(options: argparse.Namespace, hint: str = "") -> DocumentError:
    fix = hint or "name a file, or an id as a search shows it in brackets"
    return DocumentError(
        f"--document {options.document} is no file, and no document that is indexed in {options.index} has that id; "
        f"{fix}"
    )


@contextmanager
def searched(options: argparse.Namespace, unread: DocumentError | None) -> Iterator[DocumentIndex]:
    """What the arguments name to search: an index or documents."""
    from ..retrieval.places import place_of

    if place_of(options.index).folder is not None and is_missing(options.index):
        # Before large libraries are imported, which takes longer than finding a mistake.
        list(read_many([options.index], options))
    with searched_index(options, unread) as index:
        yield index


@contextmanager
def searched_index(options: argparse.Namespace, unread: DocumentError | None = None) -> Iterator[DocumentIndex]:
    """The index that the arguments name, or one in memory of the documents that are named in its place.

    Args:
        options: the arguments.
        unread: why the document that is asked with is no file; it is raised where none that is read has its id.
    """
    from ..documents.readers import ReadingReport

    with quick_imports():
        from ..retrieval.index import DocumentIndex
    from ..retrieval.places import has_table, place_of

    place = place_of(options.index)
    if place.folder is None or has_table(place.folder):
        yield open_index(options, options.index)
        return
    report = ReadingReport()
    documents = list(read_many([options.index], options, report))
    if unread is not None and options.document not in {document.id for document in documents}:
        # Before anything is encoded.
        raise unread
    options.model = options.model or "mini"
    encoder = load_encoder(options) if documents else None
    if encoder is not None and skips_unencodable(options, [options.index]):
        documents = list(encodable(documents, encoder, report))
    if encoder is None or not documents:
        raise no_documents([options.index], report)
    index = DocumentIndex.create("memory://", encoder, sentences=_needs_sentences(options))
    on_error: OnError = "skip" if skips_unencodable(options, [options.index]) else "stop"
    # Such as one whose metadata have another type than those of the first.
    report.leave_out(index.update(documents, maintain=True, on_error=on_error).skipped)
    for skipped in report.skipped[:MOST_LISTED]:
        logger.warning("skipped %s: %s", skipped.source, skipped.reason)
    if report.skipped:
        logger.warning("%s", read_and_skipped(report))
    index.place = options.index
    yield index


def _needs_sentences(options: argparse.Namespace) -> bool:
    """Whether the sentences of all documents are needed; those of a few are encoded when it is known which."""
    if getattr(options, "by", None) not in BY_SENTENCES:
        return False
    return options.normalisation == "zscore" or (options.pool is None and options.candidates is None)
