"""Views of many pairs, drawn ahead of the model that reads them."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain, islice
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

from ..inference.segmenting import Workers
from ..runtime.workers import in_blocks, work_ahead
from .matcher import DrawnPair, PairDocument, PairMatcher, ViewDrawer
from .view_tokens import FieldTokens

Pair = TypeVar("Pair")
Side = tuple[FieldTokens, Any]

# Pairs that are drawn together: a fifth of a second, enough to travel for.
BLOCK_PAIRS = 16
# Pairs from which on processes of their own draw ahead: two seconds, in which they have started.
MANY_PAIRS = 160


def draw_in_order(
    matcher: PairMatcher, pairs: Iterable[tuple[Pair, PairDocument, PairDocument]], workers: Workers
) -> Generator[tuple[Pair, PairDocument, PairDocument, DrawnPair]]:
    """Find the subtopics of pairs and draw the views that they are matched by; the same for any number of processes.

    Args:
        matcher: what matches them.
        pairs: whatever stands for a pair, and both documents; read a few blocks ahead.
        workers: processes that draw. A model that finds subtopics stays in this process, which then draws alone.

    Yields:
        What was given, and what was drawn, in order.

    Raises:
        GraphdocError: a worker was ended from outside.
    """
    drawer, numbers = matcher.drawer, range(matcher.settings.views)
    count = 0 if drawer.finder.reads_model else workers.count
    blocks = in_blocks(pairs, BLOCK_PAIRS)
    waiting: deque[list[tuple[Pair, PairDocument, PairDocument]]] = deque()

    def sides(blocks: Iterable[list[tuple[Pair, PairDocument, PairDocument]]]) -> Iterator[list[tuple[Side, Side]]]:
        for block in blocks:
            waiting.append(block)
            yield [((a.field, a.features), (b.field, b.features)) for _, a, b in block]

    first = islice(blocks, workers.after // BLOCK_PAIRS) if count else blocks
    shared = drawer, numbers
    # Workers end with an error, not when its traceback is forgotten.
    with (
        closing(work_ahead(_draw, shared, sides(first), 0)) as here,
        closing(work_ahead(_draw_in_worker, shared, sides(blocks), count, setting=None)) as ahead,
    ):
        for drawn in chain(here, ahead):
            for (pair, a, b), own in zip(waiting.popleft(), drawn, strict=True):
                yield pair, a, b, own


def _draw(shared: tuple[ViewDrawer, range], block: Sequence[tuple[Side, Side]]) -> list[DrawnPair]:
    drawer, numbers = shared
    return [drawer.draw(first, second, numbers, "matching") for first, second in block]


def _draw_in_worker(shared: tuple[ViewDrawer, range], block: Sequence[tuple[Side, Side]]) -> list[DrawnPair]:
    # Small matrices gain nothing from threads, which would fight over the cores of other processes.
    with threadpool_limits(1):
        return _draw(shared, block)
