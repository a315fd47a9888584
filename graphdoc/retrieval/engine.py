"""What a store of vectors and words has to do for an index: the interface that LanceDB and others implement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Candidates:
    """What one search of a store finds, best first.

    Args:
        ids: document of every row found.
        numbers: number of the passage, 0 for documents.
        scores: ``(rows,)``, larger is better.
    """

    ids: tuple[str, ...]
    numbers: tuple[int, ...]
    scores: Floats

    def __len__(self) -> int:
        """Number of rows found."""
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class State:
    """How large an index is, and what maintenance is due.

    Args:
        documents: number of documents.
        passages: number of passages.
        rows: rows at all levels.
        waiting: rows that came after the last maintenance: word search counts them roughly, and vector search reads
            all of them.
        version: number of the last change.
    """

    documents: int
    passages: int
    rows: int
    waiting: int
    version: int


class Engine(Protocol):
    """A table of rows that can be searched by words and by vectors.

    A change of documents is one commit: readers see all rows of a document, or none.
    """

    @property
    def schema(self) -> Any:
        """Columns of the table (an Arrow schema)."""

    @property
    def record(self) -> Mapping[str, Any]:
        """What the index was made with."""

    def refresh(self) -> None:
        """See what other processes have written."""

    def add_columns(self, columns: Mapping[str, Any]) -> None:
        """Add columns of metadata, by name and Arrow type; rows that are there have nothing in them."""

    def write(self, rows: Any, ids: Sequence[str]) -> None:
        """Put the rows of some documents in the place of those that the documents had, if any."""

    def delete(self, ids: Sequence[str]) -> int:
        """Remove documents, and give the number of those that were there."""

    def select(
        self, columns: Sequence[str], where: str | None = None, *, ids: Sequence[str] = (), most: int | None = None
    ) -> Any:
        """Rows that meet a condition, of some documents where any are named (an Arrow table)."""

    def batches(self, columns: Sequence[str], where: str | None = None, *, most: int | None = None) -> Iterator[Any]:
        """All rows that meet a condition, some at a time, and ``most`` at most (Arrow record batches)."""

    def by_words(self, words: str, column: str, most: int, where: str | None = None) -> Candidates:
        """Rows by BM25 of a text column."""

    def by_vector(
        self, vector: npt.NDArray[np.float32], column: str, most: int, where: str | None = None
    ) -> Candidates:
        """Rows by similarity of a vector column, by the measure that the index was made for."""

    def tokens(self, text: str) -> list[str]:
        """The terms that word search makes of a text."""

    def maintain(self) -> None:
        """Bring statistics and search structures up to date, and remove what no reader needs."""

    def state(self) -> State:
        """How large it is, and what is waiting."""


def quoted(value: str) -> str:
    """A string as a filter writes it."""
    return "'" + value.replace("'", "''") + "'"
