"""The special tokens that a tokenizer puts around one text, and around two that are read together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from transformers import PreTrainedTokenizerBase

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """What stands around texts.

    Args:
        before: token ids before a text that stands alone.
        after: those after it.
        pair_before: token ids before the first of two texts.
        between: those between the two.
        pair_after: those after the second.
        second_from: how many of those between the texts are of the first, as token types count them.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    pair_before: tuple[int, ...]
    between: tuple[int, ...]
    pair_after: tuple[int, ...]
    second_from: int

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase) -> SpecialTokens:
        """Those of a tokenizer, found by what it makes of two short texts.

        Where it puts nothing between two texts, they are set apart by what stands after one.
        """
        alone, pair = tokenizer("a"), tokenizer("a", "a")
        own, both = alone.sequence_ids(0), pair.sequence_ids(0)
        first, last = own.index(0), _last(own, 0)
        starts, ends = (both.index(0), both.index(1)), (_last(both, 0), _last(both, 1))
        ids, between = pair["input_ids"], slice(ends[0] + 1, starts[1])
        before, after = tuple(alone["input_ids"][:first]), tuple(alone["input_ids"][last + 1 :])
        if not ids[between]:
            return cls(before, after, before, after, after, len(after))
        # Some tokenizers give no types, or the same to both texts.
        types = pair.get("token_type_ids") or [0] * len(ids)
        return cls(
            before,
            after,
            tuple(ids[: starts[0]]),
            tuple(ids[between]),
            tuple(ids[ends[1] + 1 :]),
            len(ids[between]) - sum(types[between]),
        )

    def without(self, token_ids: Sequence[int] | npt.NDArray[np.integer[Any]]) -> Ids:
        """The tokens of a text that stands alone, without the special ones around it."""
        ids = np.asarray(token_ids, np.int64)
        return ids[len(self.before) : len(ids) - len(self.after)]

    def around(self, text: Ids) -> Ids:
        """The tokens of a text, with the special ones around it."""
        return np.concatenate([self.before, text, self.after]).astype(np.int64)

    def together(self, first: Ids, second: Ids) -> tuple[Ids, int]:
        """The tokens of two texts that are read together.

        Returns:
            The tokens, special ones included; and the first of them that is of the second text.
        """
        ids = np.concatenate([self.pair_before, first, self.between, second, self.pair_after]).astype(np.int64)
        return ids, len(self.pair_before) + len(first) + self.second_from

    @property
    def alone(self) -> int:
        """Special tokens around a text that stands alone."""
        return len(self.before) + len(self.after)

    @property
    def of_pair(self) -> int:
        """Special tokens around and between two texts."""
        return len(self.pair_before) + len(self.between) + len(self.pair_after)


def _last(values: Sequence[int | None], value: int) -> int:
    return len(values) - 1 - values[::-1].index(value)
