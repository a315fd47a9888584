"""Chunkwise attention as comparisons show it: within a document, and from one document to another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .cosine import Floats

if TYPE_CHECKING:
    from .comparison import Comparison


@dataclass(frozen=True)
class ChunkwiseAttention:
    """Learned chunkwise attention of one document (CoLDE, section 3.2).

    Args:
        pairs: ``(2, pairs)``, passages that are looked at, above those that look: from every section of the document
            to the next, from the last to the first; within the only one.
        weights: ``(pairs, heads)``, summing to 1 over the pairs of one passage that looks.
        queries: ``(passages, heads, width)``, what a passage looks for, in the document that is not split.
        keys: ``(passages, heads, width)``, what it is found by.
    """

    pairs: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float32]
    queries: npt.NDArray[np.float32]
    keys: npt.NDArray[np.float32]

    @property
    def heads(self) -> int:
        """Number of heads."""
        return int(self.queries.shape[1])

    def within(self) -> Floats:
        """Attention between consecutive sections.

        Returns:
            ``(heads, passages that look, passages looked at)``; 0 where there is no pair.
        """
        count = len(self.queries)
        matrix = np.zeros((self.heads, count, count))
        matrix[:, self.pairs[1], self.pairs[0]] = self.weights.T
        return matrix

    def to(self, other: ChunkwiseAttention) -> Floats:
        """Attention of this document to another one, as if the other were its next section.

        Returns:
            ``(heads, passages of this document, passages of the other)``; every row sums to 1.
        """
        queries, keys = (one.astype(np.float64) for one in (self.queries, other.keys))
        scores = np.einsum("qhw,khw->hqk", queries, keys) / queries.shape[-1] ** 0.5
        exponents = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return np.asarray(exponents / exponents.sum(axis=-1, keepdims=True))


def attention_parts(comparison: Comparison) -> Iterator[tuple[str, str, Floats]]:
    """All attention of a comparison: the document that looks, the one looked at, and the weights of every head.

    The weights of a document with itself are those between its consecutive sections.

    Args:
        comparison: a comparison whose model has chunkwise attention.
    """
    a, b = comparison.a.attention, comparison.b.attention
    assert a is not None and b is not None
    yield "a", "a", a.within()
    if not comparison.within:
        yield "b", "b", b.within()
        yield "a", "b", a.to(b)
        yield "b", "a", b.to(a)


def attention_dict(comparison: Comparison) -> dict[str, Any] | None:
    """The attention of a comparison for its JSON; None where its model has none.

    Returns:
        ``heads``; ``a``, ``b``, ``a_to_b`` and ``b_to_a``: a matrix per head, rows for the passages that look.
    """
    if comparison.a.attention is None or comparison.b.attention is None:
        return None
    result: dict[str, Any] = {"heads": comparison.a.attention.heads}
    for looks, seen, weights in attention_parts(comparison):
        name = looks if looks == seen else f"{looks}_to_{seen}"
        result[name] = [[[round(value, 6) for value in row] for row in head] for head in weights.tolist()]
    return result


def attention_columns(comparison: Comparison) -> dict[str, list[Any]]:
    """The attention of a comparison as the columns of a table, pairs without weight left out.

    Returns:
        ``from`` and ``to`` (``a`` or ``b``), ``head``, ``target`` (the passage that looks), ``source`` (the passage
        looked at), ``weight``, and headings of both.
    """
    names = ("from", "to", "head", "target", "source", "weight", "target_heading", "source_heading")
    columns: dict[str, list[Any]] = {name: [] for name in names}
    sides = {"a": comparison.a.segmented, "b": comparison.b.segmented}
    for looks, seen, weights in attention_parts(comparison):
        heads, targets, sources = (index.tolist() for index in np.nonzero(weights))
        columns["from"].extend([looks] * len(heads))
        columns["to"].extend([seen] * len(heads))
        columns["head"].extend(heads)
        columns["target"].extend(targets)
        columns["source"].extend(sources)
        columns["weight"].extend(weights[heads, targets, sources].tolist())
        for name, side, rows in (("target_heading", looks, targets), ("source_heading", seen, sources)):
            segmented = sides[side]
            headings = [segmented.document.sections[passage.section].heading for passage in segmented.passages]
            columns[name].extend(headings[row] for row in rows)
    return columns
