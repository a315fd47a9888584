"""Cutting and tokenising documents in several processes, in order and in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import NamedTuple

from ..documents.document import Document
from ..runtime.workers import work_ahead
from ..segmentation.segmenter import Segmenter, paragraph_numbers
from ..settings.document import Paragraph
from .document import SPLIT, TokenisedDocument, split_of

Block = list[tuple[int, Document]]

# Documents that travel to a process together: enough to tokenise them in one call, little to hold.
BLOCK_DOCUMENTS = 64
BLOCK_CHARACTERS = 2**20


def tokenise_in_order(
    documents: Iterable[tuple[int, Document]],
    segmenter: Segmenter,
    processes: int,
    paragraph: Paragraph | None = None,
) -> Iterator[TokenisedDocument]:
    """Cut and tokenise documents; what comes out does not depend on the number of processes.

    Args:
        documents: hash of the text, and document; read as they are needed, a few blocks ahead.
        segmenter: cuts and tokenises.
        processes: how many processes do so; with 1, or for a corpus of a single block, it is done here.

        paragraph: what a paragraph is, for documents that are cut into sentences; None for others.

    Yields:
        Every document, in the order in which they came.

    Raises:
        GraphdocError: one of the processes was ended from outside.
    """
    blocks = _blocks(documents)
    opening = list(islice(blocks, 2))
    workers = processes if processes > 1 and len(opening) > 1 else 0
    cutter = _Cutter(segmenter, paragraph)
    for tokenised in work_ahead(_tokenise, cutter, chain(opening, blocks), workers, setting="preparing_processes"):
        yield from tokenised


def _blocks(documents: Iterable[tuple[int, Document]]) -> Iterator[Block]:
    block: Block = []
    characters = 0
    for group, document in documents:
        # Metadata stays here; only what is tokenised and kept beside it has to travel.
        split = {SPLIT: split_of(document)} if SPLIT in document.metadata else {}
        block.append((group, replace(document, metadata=split)))
        characters += sum(len(section.text) for section in document.sections)
        if len(block) >= BLOCK_DOCUMENTS or characters >= BLOCK_CHARACTERS:
            yield block
            block, characters = [], 0
    if block:
        yield block


class _Cutter(NamedTuple):
    """What the processes cut with."""

    segmenter: Segmenter
    paragraph: Paragraph | None


def _tokenise(cutter: _Cutter, block: Block) -> list[TokenisedDocument]:
    segmenter, paragraph = cutter
    found = []
    for one, (group, _) in zip(segmenter.segment_many(document for _, document in block), block, strict=True):
        numbers = None if paragraph is None else paragraph_numbers(one, paragraph, segmenter)
        found.append(TokenisedDocument.of(one, group, numbers))
    return found
