"""The matrices that the HTML report shows, and how they are packed into its file."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import OutputError

LEVELS = ("sections", "passages", "paragraphs", "sentences")

# More cells in all heads and directions would make the file larger than a mail attachment may be; their mean stays.
ATTENTION_CELLS = 800_000

Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ReportAttention:
    """Chunkwise attention between the passages of the two documents, as the map shows it.

    Args:
        heads: heads of the model.
        matrices: by direction, ``to_b`` (A's passages look) and ``to_a`` (B's look; not within one document), a
            matrix per head, (passages of the first document, passages of the second) in both. One matrix for more
            heads is their mean.
    """

    heads: int
    matrices: Mapping[str, Sequence[Matrix]]

    @property
    def has_heads(self) -> bool:
        """Whether every head can be shown, and there is more than one."""
        return self.heads > 1 and len(self.matrices["to_b"]) == self.heads


@dataclass(frozen=True, slots=True)
class LevelMatrices:
    """The matrices of one level, rows for the first document and NaN where there is no value.

    Args:
        similarity: (parts of the first document, parts of the second).
        contribution: of the same shape, or ``None`` when the comparison has none.
        attention: between passages, or ``None`` at other levels and for models without it.
    """

    similarity: Matrix
    contribution: Matrix | None
    attention: ReportAttention | None = None


def read_levels(comparison: Mapping[str, Any]) -> dict[str, LevelMatrices]:
    """Return the matrices of every level that the comparison has; within one document without their diagonal.

    Raises:
        OutputError: a matrix does not fit its documents, or is none.
    """
    contributions = comparison.get("contributions") or {}
    levels = {}
    for name in LEVELS:
        if comparison.get(name) is None:
            continue
        shape = (len(comparison["a"].get(name) or ()), len(comparison["b"].get(name) or ()))
        similarity = _matrix(comparison[name], shape, name)
        contribution = None if contributions.get(name) is None else _matrix(contributions[name], shape, name)
        if comparison.get("self"):
            for matrix in (similarity, contribution):
                if matrix is not None:
                    np.fill_diagonal(matrix, np.nan)
        attention = _attention(comparison, shape) if name == "passages" else None
        levels[name] = LevelMatrices(similarity, contribution, attention)
    return levels


def _attention(comparison: Mapping[str, Any], shape: tuple[int, int]) -> ReportAttention | None:
    """Attention of passages to passages; within one document that between its consecutive sections."""
    found = comparison.get("attention")
    if not found or not found["heads"] or not all(shape):
        return None
    if comparison.get("self"):
        within = [_matrix(head, shape, "attention") for head in found["a"]]
        for head in within:
            # Passages of sections that do not follow each other cannot see each other, which is no weight of 0.
            head[head == 0] = np.nan
            np.fill_diagonal(head, np.nan)
        matrices = {"to_b": within}
    else:
        matrices = {
            "to_b": [_matrix(head, shape, "attention") for head in found["a_to_b"]],
            "to_a": [_matrix(head, shape[::-1], "attention").T for head in found["b_to_a"]],
        }
    if sum(map(len, matrices.values())) * shape[0] * shape[1] > ATTENTION_CELLS:
        matrices = {direction: [np.mean(heads, axis=0)] for direction, heads in matrices.items()}
    return ReportAttention(int(found["heads"]), matrices)


def _matrix(values: Any, shape: tuple[int, int], name: str) -> Matrix:
    try:
        matrix = np.array(values, dtype=np.float64).reshape(len(values), -1) if len(values) else np.empty(shape)
    except (TypeError, ValueError) as error:
        raise OutputError(f"the {name} of the comparison are no matrix of numbers ({error}); compare again") from error
    if matrix.shape != shape:
        raise OutputError(
            f"the {name} of the comparison have shape {matrix.shape} where the documents have {shape}; compare again"
        )
    matrix[~np.isfinite(matrix)] = np.nan
    return matrix


def _packed(matrix: Matrix | None, step: float | None = None) -> dict[str, Any] | None:
    """A matrix in two bytes a cell: 90,000 cells take 240 kB where decimals in JSON would take three times that.

    Values are rounded to multiples of a step; without one, or where it is too fine for the largest value, to the
    finest that two bytes hold.
    """
    if matrix is None:
        return None
    finite_values = matrix[~np.isnan(matrix)]
    largest = float(np.abs(finite_values).max()) if finite_values.size else 0.0
    if step is None or largest > 32_000 * step:
        step = largest / 32_000 or 1.0
    cells = np.where(np.isnan(matrix), -32_768, np.rint(np.nan_to_num(matrix) / step)).astype("<i2")
    return {"step": step, "values": base64.b64encode(cells.tobytes()).decode("ascii")}


def packed_level(level: LevelMatrices) -> dict[str, Any]:
    """Return the matrices of a level as the page's script reads them."""
    attention = level.attention
    return {
        "rows": level.similarity.shape[0],
        "columns": level.similarity.shape[1],
        "similarity": _packed(level.similarity, step=1e-4),
        "contribution": _packed(level.contribution),
        "attention": None
        if attention is None
        else {
            "heads": attention.heads,
            **{direction: [_packed(head) for head in heads] for direction, heads in attention.matrices.items()},
        },
    }
