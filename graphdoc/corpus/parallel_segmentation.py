"""Cutting and tokenising documents in several processes, in order and in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice

from ..documents.document import Document
from ..runtime.workers import work_ahead
from ..segmentation.segmenter import Segmenter
from .document import SPLIT, TokenisedDocument, split_of

Block = list[tuple[int, Document]]

# Documents that travel to a process together: enough to tokenise them in one call, little to hold.
BLOCK_DOCUMENTS = 64
BLOCK_CHARACTERS = 2**20


def tokenise_in_order(
    documents: Iterable[tuple[int, Document]], segmenter: Segmenter, processes: int
) -> Iterator[TokenisedDocument]:
    """Cut and tokenise documents; what comes out does not depend on the number of processes.

    Args:
        documents: hash of the text, and document; read as they are needed, a few blocks ahead.
        segmenter: cuts and tokenises.
        processes: how many processes do so; with 1, or for a corpus of a single block, it is done here.

    Yields:
        Every document, in the order in which they came.

    Raises:
        GraphdocError: one of the processes was ended from outside.
    """
    blocks = _blocks(documents)
    opening = list(islice(blocks, 2))
    workers = processes if processes > 1 and len(opening) > 1 else 0
    for tokenised in work_ahead(_tokenise, segmenter, chain(opening, blocks), workers, setting="preparing_processes"):
        yield from tokenised


def _blocks(documents: Iterable[tuple[int, Document]]) -> Iterator[Block]:
    block: Block = []
    characters = 0
    for group, document in documents:
        # Metadata stays here; only the text and what is kept beside it has to travel.
        split = {SPLIT: split_of(document)} if SPLIT in document.metadata else {}
        block.append((group, replace(document, title="", metadata=split)))
        characters += sum(len(section.text) for section in document.sections)
        if len(block) >= BLOCK_DOCUMENTS or characters >= BLOCK_CHARACTERS:
            yield block
            block, characters = [], 0
    if block:
        yield block


def _tokenise(segmenter: Segmenter, block: Block) -> list[TokenisedDocument]:
    segmented = segmenter.segment_many(document for _, document in block)
    return [TokenisedDocument.of(one, group) for one, (group, _) in zip(segmented, block, strict=True)]
