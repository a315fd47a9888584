r"""Deletion and insertion curves: what becomes of a number while passages are taken out of a document, or put in.

Deletion takes the passages of an order out one after the other, until one is left; insertion begins with the first of
them and puts the others in (Petsiuk et al. 2018, for parts of a picture). If the order is that of what matters, the
number falls early in deletion and rises early in insertion. Of a document of n passages, k are gone, or have come, at

.. math:: x = k / (n - 1), \quad k = 0, \dots, n - 1,

so that curves of long and short documents have the same ends, and the area under a curve is the mean of its number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from .shortened import Kept

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Kind = Literal["deletion", "insertion"]
KINDS: tuple[Kind, ...] = ("deletion", "insertion")

STEPS = 10
# Weights that differ by less of their mean are all the same, but for rounding.
UNIFORM = 1e-5


def fractions(steps: int) -> Floats:
    """Where curves are drawn, ``(steps + 1,)``, from 0 to 1."""
    return np.linspace(0.0, 1.0, steps + 1)


def counts(passages: int, steps: int) -> Integers:
    """How many passages are gone, or have come, where a curve is measured: rising, 0 and all but one among them.

    Args:
        passages: passages of the document, at least 2.
        steps: most steps; a document with fewer passages to take out has a step for each.
    """
    return np.unique(np.floor(fractions(steps) * (passages - 1) + 0.5).astype(np.int64))


def order_by(scores: npt.ArrayLike, ties: Integers) -> Integers:
    """Passages by falling score.

    Args:
        scores: ``(passages,)``.
        ties: ``(passages,)``, an order that equal ones are brought into; that of the text would favour its beginning.
    """
    places = np.empty(len(ties), np.int64)
    places[ties] = np.arange(len(ties))
    return np.lexsort((places, -np.asarray(scores, np.float64)))


def is_uniform(scores: Floats) -> bool:
    """Whether scores put no passage before another."""
    return bool(np.ptp(scores) <= UNIFORM * max(float(np.abs(scores).mean()), 1e-12))


def kept_passages(order: Integers, kind: Kind, steps: int) -> list[Kept]:
    """Which passages are there at every point of a curve.

    Args:
        order: ``(passages,)``, the passages, those that go out or come in first before the others.
        kind: ``deletion`` or ``insertion``.
        steps: most steps.

    Returns:
        ``(passages,)`` for every point; never without a passage.
    """
    result = []
    for count in counts(len(order), steps).tolist():
        kept = np.zeros(len(order), np.bool_)
        kept[order[count:] if kind == "deletion" else order[: count + 1]] = True
        result.append(kept)
    return result


def key_of(kept: Kept) -> bytes:
    """What numbers that were measured with some passages are found by."""
    return kept.tobytes()


def curve(order: Integers, kind: Kind, steps: int, measured: Mapping[bytes, float]) -> Floats:
    """The curve of one order, between the points that were measured on straight lines.

    Args:
        order: see :func:`kept_passages`.
        kind: ``deletion`` or ``insertion``.
        steps: most steps.
        measured: the number with some passages, by :func:`key_of`.

    Returns:
        ``(steps + 1,)``.
    """
    values = [measured[key_of(kept)] for kept in kept_passages(order, kind, steps)]
    return np.interp(fractions(steps), counts(len(order), steps) / (len(order) - 1), values)


def areas(curves: Floats) -> Floats:
    """The areas under curves, ``(..., points)`` on an axis from 0 to 1: ``(...)``."""
    return np.asarray(np.trapezoid(curves, dx=1 / (curves.shape[-1] - 1), axis=-1))


def means_by_group(values: Floats, groups: Sequence[str]) -> Floats:
    """The means of rows by group, ``(groups, ...)``, in the order in which groups come.

    Args:
        values: ``(rows, ...)``.
        groups: ``(rows,)``.
    """
    numbers: dict[str, int] = {}
    rows = np.array([numbers.setdefault(group, len(numbers)) for group in groups], np.int64)
    totals = np.zeros((len(numbers), *values.shape[1:]))
    np.add.at(totals, rows, values)
    return totals / np.bincount(rows).reshape(-1, *[1] * (values.ndim - 1))
