"""The chunkwise attention of two documents that are compared, as plain values and as a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .cosine import Floats
from .encoded_document import EncodedDocument


def attention_parts(first: EncodedDocument, second: EncodedDocument | None) -> Iterator[tuple[str, str, Floats]]:
    """All attention of a comparison: the document that looks, the one looked at, and the weights of every head.

    The weights of a document with itself are those between its consecutive sections.

    Args:
        first: a document of a model with chunkwise attention.
        second: the other one; None where the first is compared with itself.
    """
    a = first.attention
    assert a is not None
    yield "a", "a", a.within()
    if second is not None:
        b = second.attention
        assert b is not None
        yield "b", "b", b.within()
        yield "a", "b", a.to(b)
        yield "b", "a", b.to(a)


def attention_dict(first: EncodedDocument, second: EncodedDocument | None) -> dict[str, Any] | None:
    """The attention of a comparison for its JSON; None where its model has none.

    Args:
        first: a document.
        second: the other one; None where the first is compared with itself.

    Returns:
        ``heads``; ``a``, ``b``, ``a_to_b`` and ``b_to_a``: a matrix per head, rows for the passages that look.
    """
    if first.attention is None:
        return None
    result: dict[str, Any] = {"heads": first.attention.heads}
    for looks, seen, weights in attention_parts(first, second):
        name = looks if looks == seen else f"{looks}_to_{seen}"
        result[name] = [[[round(value, 6) for value in row] for row in head] for head in weights.tolist()]
    return result


def attention_columns(first: EncodedDocument, second: EncodedDocument | None) -> dict[str, list[Any]]:
    """The attention of a comparison as the columns of a table, pairs without weight left out.

    Args:
        first: a document of a model with chunkwise attention.
        second: the other one; None where the first is compared with itself.

    Returns:
        ``from`` and ``to`` (``a`` or ``b``), ``head``, ``target`` (the passage that looks), ``source`` (the passage
        looked at), ``weight``, and headings of both.
    """
    names = ("from", "to", "head", "target", "source", "weight", "target_heading", "source_heading")
    columns: dict[str, list[Any]] = {name: [] for name in names}
    sides = {"a": first.segmented, "b": (second or first).segmented}
    for looks, seen, weights in attention_parts(first, second):
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
