"""Documents of pairs as views are drawn of them, and the tokens of a view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..sampling.views import View
from .special_tokens import Ids, SpecialTokens


@dataclass(frozen=True, slots=True, eq=False)
class FieldTokens:
    """The sentences of a document that views are drawn from: its receptive field.

    Args:
        id: id of the document.
        token_ids: tokens of every sentence, special tokens not included.
        beyond: sentences of the document that lie beyond the field.
    """

    id: str
    token_ids: tuple[Ids, ...]
    beyond: int = 0

    @classmethod
    def of(
        cls,
        id: str,
        token_ids: Sequence[Sequence[int] | npt.NDArray[np.integer[Any]]],
        receptive_field: int | None,
        special: SpecialTokens,
    ) -> FieldTokens:
        """The first sentences of a document.

        Args:
            id: its id.
            token_ids: tokens of all of its sentences, special tokens included.
            receptive_field: sentences of the field; None for all.
            special: the special tokens.
        """
        kept = token_ids if receptive_field is None else token_ids[:receptive_field]
        return cls(id, tuple(special.without(ids) for ids in kept), len(token_ids) - len(kept))

    def __len__(self) -> int:
        """Number of sentences."""
        return len(self.token_ids)

    @property
    def lengths(self) -> Ids:
        """Tokens of every sentence, ``(sentences,)``."""
        return np.array([len(ids) for ids in self.token_ids], np.int64)

    def tokens_of(self, view: View) -> Ids:
        """The tokens of a view, sentence after sentence, ``(tokens,)``."""
        return np.concatenate(
            [self.token_ids[sentence][:most] for sentence, most in zip(*map(np.ndarray.tolist, view), strict=True)]
        )
