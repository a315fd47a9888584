"""What repeats in a corpus that a command reads: the option, and the encoder that leaves it out."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..documents.document import Document
    from ..encoder import DocumentEncoder
    from ..segmentation.repeats import Repeats

KEEP, LEAVE_OUT = "keep", "leave-out"


def add_repeats_argument(parser: argparse._ActionsContainer, default: str = LEAVE_OUT) -> None:
    """Add whether passages count that occur in several documents."""
    parser.add_argument(
        "--repeats",
        choices=(LEAVE_OUT, KEEP),
        default=default,
        help="leave out passages that occur in 3 documents and 1 in 100 at least, such as licences, or keep them "
        f"(default: {default})",
    )


def repeats_in(documents: Iterable[Document], options: argparse.Namespace) -> Repeats | None:
    """What repeats in documents, where the arguments say to leave it out; None where nothing does."""
    if options.repeats == KEEP:
        return None
    from ..runtime.progress import progress_bar
    from ..segmentation.repeats import RepeatCounter

    counter = RepeatCounter()
    with progress_bar(None, None, "Reading") as bar:
        for document in documents:
            counter.add(document)
            bar.update(1)
    return counter.found() or None


def without_repeats(
    encoder: DocumentEncoder, documents: Iterable[Document], options: argparse.Namespace
) -> tuple[DocumentEncoder, Iterable[Document]]:
    """An encoder that leaves out what repeats in a corpus, and the corpus, which may be one that is read only once."""
    if options.repeats == KEEP:
        return encoder, documents
    if not isinstance(documents, list):
        from ..documents.readers.streams import KeptDocuments

        documents = KeptDocuments(documents)
    return encoder.leaving_out(repeats_in(documents, options)), documents
