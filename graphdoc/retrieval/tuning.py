"""How thoroughly a vector search of LanceDB has to look to find the best rows: measured on the index itself."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import numpy.typing as npt

TUNED = "graphdoc:search"
# Partitions that are searched, and vectors that are read for one that is wanted: from quick to thorough.
_TRIED = (
    (20, 1.25), (20, 1.5), (40, 1.25), (40, 1.5), (60, 1.5), (80, 1.5), (80, 2.0), (120, 2.0), (160, 4.0), (320, 8.0),
)  # fmt: skip
_QUERIES, _MOST, _GOAL = 24, 100, 0.99


def tuned(schema: Any, column: str) -> tuple[int, float]:
    """Probes of a vector column and the vectors read for one that is wanted; 0 where all rows are read."""
    values = json.loads((schema.field(column).metadata or {}).get(TUNED.encode(), b"[0, 0]"))
    return int(values[0]), float(values[1])


def thorough(query: Any, most: int, probes: int, read: float, *, further: bool = False) -> Any:
    """A vector search that compares whole vectors, of as many rows as tuning found.

    Args:
        query: the search.
        most: rows wanted; the rows it gives are more, best first.
        probes: partitions that are searched.
        read: vectors read for one that is wanted.
        further: whether more partitions are searched until there are enough rows, as where a filter leaves few in
            each. Where rows of a table were deleted, LanceDB then searches all of them.
    """
    bounded = query.maximum_nprobes(0).minimum_nprobes(probes)
    bounded = bounded if further else bounded.maximum_nprobes(probes)
    return bounded.refine_factor(1).limit(math.ceil(most * read))


async def tuning_of(
    table: Any, column: str, level: str, metric: str, *, is_filtered: bool = False
) -> tuple[int, float]:
    """Find the fewest probes and vectors read with which a sample of searches finds the best rows.

    A query of the sample lies between two rows of the table, nearer to one, since a query is seldom a row itself.

    Args:
        table: the table.
        column: its vectors; for ``cosine`` they have unit length.
        level: which rows are searched for.
        metric: how vectors are compared, ``cosine`` or ``dot``.
        is_filtered: whether rows of other levels have such vectors too, so that every search has a filter.
    """
    is_level = f"level = '{level}'"
    numbers = await table.query().where(is_level).select(["number"]).with_row_id().to_arrow()
    rows = numbers.column("_rowid").to_numpy()
    chosen = np.random.default_rng(0).choice(rows, min(len(rows), 2 * _QUERIES), replace=False)
    sample = await table.take_row_ids([int(row) for row in chosen]).select([column]).to_arrow()
    vectors = _matrix(sample.column(column).combine_chunks())
    half = len(vectors) // 2
    queries = vectors[:half] + 0.5 * vectors[half : 2 * half]
    best = await _exactly(table, column, is_level, queries)
    found = _TRIED[-1]
    for found in _TRIED:
        shares = []
        for query, wanted in zip(queries, best, strict=True):
            search = table.query().nearest_to(query).column(column).distance_type(metric)
            search = search.where(is_level) if is_filtered else search
            rows = (
                await thorough(search, _MOST, *found, further=is_filtered)
                .with_row_id()
                .select(["_distance"])
                .to_arrow()
            )
            own = rows.column("_rowid").to_pylist()[:_MOST]
            shares.append(len(wanted.intersection(own)) / max(1, len(wanted)))
        if np.mean(shares) >= _GOAL:
            break
    return found


async def _exactly(table: Any, column: str, where: str, queries: npt.NDArray[np.float32]) -> list[set[int]]:
    """The best rows of every query, from one pass over all vectors."""
    scores: npt.NDArray[Any] = np.empty((len(queries), 0), np.float32)
    names: npt.NDArray[Any] = np.empty((len(queries), 0), np.uint64)
    async for batch in await table.query().where(where).select([column]).with_row_id().to_batches():
        own = queries @ _matrix(batch.column(column)).T
        rows = np.broadcast_to(batch.column("_rowid").to_numpy(), own.shape)
        scores, names = np.concatenate([scores, own], axis=1), np.concatenate([names, rows], axis=1)
        if scores.shape[1] > _MOST:
            kept = np.argpartition(-scores, _MOST, axis=1)[:, :_MOST]
            scores, names = (np.take_along_axis(part, kept, axis=1) for part in (scores, names))
    return [set(row) for row in names.tolist()]


def _matrix(vectors: Any) -> npt.NDArray[np.float32]:
    numbers: npt.NDArray[np.float32] = vectors.flatten().to_numpy(zero_copy_only=False).reshape(len(vectors), -1)
    return numbers
