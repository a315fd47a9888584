"""The Arrow form of segmented documents: section and token ids of every passage, without the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]

from .spans import SegmentedDocument

Integers = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class PassageArrays:
    """The passages of a document in three arrays, as processes pass them on and files hold them.

    Args:
        sections: section of every passage, ``(passages,)``.
        lengths: tokens of every passage, special tokens included, ``(passages,)``.
        token_ids: token ids of all passages in a row, ``(tokens,)``.
    """

    sections: Integers
    lengths: Integers
    token_ids: Integers

    @classmethod
    def of(cls, segmented: SegmentedDocument) -> PassageArrays:
        """The passages of a segmented document."""
        lengths = np.array([len(ids) for ids in segmented.token_ids], dtype=np.int32)
        return cls(
            np.array([passage.section for passage in segmented.passages], dtype=np.int32),
            lengths,
            np.fromiter((token for ids in segmented.token_ids for token in ids), np.int32, int(lengths.sum())),
        )

    def __len__(self) -> int:
        """Number of passages."""
        return len(self.lengths)

    @property
    def tokens(self) -> tuple[Integers, ...]:
        """Token ids of every passage, each ``(tokens,)``."""
        ends = np.cumsum(self.lengths).tolist()
        return tuple(self.token_ids[start:end] for start, end in pairwise([0, *ends]))


def passage_fields(largest_token: int) -> list[Any]:
    """Fields of the two columns that hold passages, ``sections`` and ``token_ids``.

    Args:
        largest_token: largest token id there can be; small vocabularies take half the space.
    """
    token = pa.uint16() if largest_token < 2**16 else pa.int32()
    return [
        pa.field("sections", pa.list_(pa.int32()), nullable=False),
        pa.field("token_ids", pa.list_(pa.list_(token)), nullable=False),
    ]


def passage_columns(documents: Sequence[PassageArrays], fields: Sequence[Any]) -> list[Any]:
    """The two columns of some documents.

    Args:
        documents: their passages.
        fields: what :func:`passage_fields` gave.
    """
    passages = pa.array(_offsets([len(document) for document in documents]))
    tokens = pa.array(_offsets(np.concatenate([document.lengths for document in documents])))
    values = np.concatenate([document.token_ids for document in documents])
    token_type = fields[1].type.value_type.value_type
    lists = pa.ListArray.from_arrays(tokens, pa.array(values, type=token_type))
    sections = pa.array(np.concatenate([document.sections for document in documents]))
    return [pa.ListArray.from_arrays(passages, sections), pa.ListArray.from_arrays(passages, lists)]


class PassageColumns:
    """The two columns of a record batch, read without copying them.

    Args:
        batch: the record batch.
    """

    __slots__ = ("_passages", "_sections", "_token_ids", "_tokens")

    def __init__(self, batch: Any) -> None:
        outer = batch.column("token_ids")
        self._sections: Integers = batch.column("sections").values.to_numpy()
        self._passages: Integers = outer.offsets.to_numpy()
        self._tokens: Integers = outer.values.offsets.to_numpy()
        self._token_ids: npt.NDArray[np.integer[Any]] = outer.values.values.to_numpy()

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Passages of every document, ``(documents,)``."""
        return np.diff(self._passages).astype(np.int64)

    def __getitem__(self, row: int) -> PassageArrays:
        """The passages of one document; a copy, since a file that is mapped cannot be written to."""
        return self._between(int(self._passages[row]), int(self._passages[row + 1]))

    def passage(self, row: int, place: int) -> PassageArrays:
        """One passage of a document, by its place in reading order; a copy too."""
        first = int(self._passages[row]) + place
        return self._between(first, first + 1)

    def _between(self, first: int, last: int) -> PassageArrays:
        start, end = int(self._tokens[first]), int(self._tokens[last])
        return PassageArrays(
            self._sections[first:last].copy(),
            np.diff(self._tokens[first : last + 1]),
            self._token_ids[start:end].astype(np.int32),
        )


def _offsets(lengths: Sequence[int] | Integers) -> Integers:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
