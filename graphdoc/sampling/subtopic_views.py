"""Views of a pair of documents: sentences chosen by the subtopics that they share (SST, section 3.3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from .draws import Rows, random_generator
from .view_samplings import Choice, Sampling, ViewSide

# Views that are trained on, and those that a pair is matched by: other draws.
Purpose = Literal["training", "matching"]


class View(NamedTuple):
    """Some sentences of a document.

    Args:
        sentences: ``(chosen,)``, their numbers in the document, in reading order.
        tokens: ``(chosen,)``, how many tokens of each are in the view, counted from its first.
    """

    sentences: Rows
    tokens: Rows


def draw_views(
    first: ViewSide,
    second: ViewSide,
    sampling: Sampling,
    most_tokens: int,
    *,
    seed: int,
    number: int,
    purpose: Purpose = "training",
) -> tuple[View, View]:
    """Draw a view of both documents of a pair.

    Sentences are chosen until their tokens fill the view; none twice, and the last one is cut where it is too long. A
    draw depends on the seed, the pair and the number of the view alone; the same pair in the other order gives the
    same views in the other order.

    Args:
        first: one document.
        second: the other one.
        sampling: how sentences are chosen.
        most_tokens: tokens of a view of one document, without special tokens.
        seed: seed of the views.
        number: number of the view.
        purpose: what it is drawn for.

    Returns:
        The view of either document.

    Raises:
        ValueError: a view has no room.
    """
    if most_tokens < 1:
        raise ValueError(f"a view of {most_tokens} tokens has no room")
    subtopics = int(max(first.clusters.max(initial=-1), second.clusters.max(initial=-1))) + 1
    counts = first.counts(subtopics), second.counts(subtopics)
    sides = (first, second)
    views = []
    for place, own in enumerate(sides):
        draw = random_generator(seed, purpose, own.id, sides[1 - place].id, number)
        choice = Choice(own, counts[place], counts[1 - place], most_tokens, draw)
        views.append(_filled(sampling.choose(choice), own.tokens, most_tokens))
    return views[0], views[1]


def _filled(chosen: Iterator[int], tokens: npt.NDArray[np.integer[Any]], most_tokens: int) -> View:
    """Sentences in the order of their choice until the view is full, then in reading order."""
    kept: dict[int, int] = {}
    room = most_tokens
    for sentence in chosen:
        kept[sentence] = min(int(tokens[sentence]), room)
        room -= kept[sentence]
        if room <= 0:
            break
    order = sorted(kept)
    return View(np.array(order, np.int64), np.array([kept[sentence] for sentence in order], np.int64))
