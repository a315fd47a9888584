"""Cutting and tokenising documents in several processes, in order and in bounded memory."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain

from ..documents.document import Document
from ..errors import DocumentError
from ..runtime.signals import Dismissal
from ..segmentation.segmenter import Segmenter
from .document import SPLIT, TokenisedDocument, split_of

Block = list[tuple[int, Document]]

# Documents that travel to a process together: enough to tokenise them in one call, little to hold.
BLOCK_DOCUMENTS = 64
BLOCK_CHARACTERS = 2**20
# Blocks that are under way for every process, so that none waits for the reader.
_BLOCKS_AHEAD = 3

_segmenter: Segmenter | None = None


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
        DocumentError: one of the processes was ended from outside.
    """
    blocks = _blocks(documents)
    opening = [block for _, block in zip(range(2), blocks, strict=False)]
    # Processes of a data loader are not allowed to have children.
    if processes == 1 or len(opening) < 2 or multiprocessing.current_process().daemon:
        for block in chain(opening, blocks):
            yield from _tokenise(segmenter, block)
        return
    waiting: deque[Future[list[TokenisedDocument]]] = deque()
    try:
        with _executor(segmenter, processes) as executor:
            for block in chain(opening, blocks):
                waiting.append(executor.submit(_tokenise_in_process, block))
                if len(waiting) >= processes * _BLOCKS_AHEAD:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
    except BrokenProcessPool as error:
        raise DocumentError(
            "a process that cuts documents into passages was ended from outside, perhaps for want of memory; "
            f"set preparing_processes below {processes}"
        ) from error


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


def _tokenise_in_process(block: Block) -> list[TokenisedDocument]:
    assert _segmenter is not None
    return _tokenise(_segmenter, block)


@contextmanager
def _executor(segmenter: Segmenter, processes: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that have a segmenter; they are started in the way that the program has set or the system prefers."""
    before = os.environ.get("TOKENIZERS_PARALLELISM")
    # Threads of the tokenizer would only wait for each other, and it warns of forks unless this is set.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    dismissal = Dismissal()
    executor = ProcessPoolExecutor(processes, initializer=_begin, initargs=(segmenter, dismissal))
    try:
        try:
            # The first task starts the processes.
            executor.submit(int).result()
        finally:
            if before is None:
                del os.environ["TOKENIZERS_PARALLELISM"]
            else:
                os.environ["TOKENIZERS_PARALLELISM"] = before
        yield executor
    finally:
        dismissal.give()
        executor.shutdown(cancel_futures=True)


def _begin(segmenter: Segmenter, dismissal: Dismissal) -> None:
    global _segmenter
    dismissal.await_in_worker()
    _segmenter = segmenter
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A process whose parent was killed would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
