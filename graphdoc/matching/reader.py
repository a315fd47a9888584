"""How a model reads the two views of a pair: together in one passage, or each by itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import ClassVar

import numpy as np
from torch import Tensor
from torch.nn import functional

from ..graphs.batch import GraphBatch
from ..graphs.joined_graphs import JoinedGraphs
from ..modeling import DocumentOutput
from .special_tokens import Ids, SpecialTokens

ViewTokens = tuple[Ids, Ids]


class ViewReader(ABC):
    """Makes a model's input of the views of pairs, and scores of its output.

    Args:
        special: special tokens of the model's tokenizer.
    """

    # How the scores of several views become that of a pair, where nothing is said (SST, eq. 11-12).
    aggregation: ClassVar[str]
    # Whether both views are in one passage.
    joins_views: ClassVar[bool] = False
    # Classes of the head that scores are read from; none where there is no head.
    labels: ClassVar[tuple[str, ...]] = ()

    def __init__(self, special: SpecialTokens) -> None:
        self._special = special

    @abstractmethod
    def room(self, view_tokens: int) -> int:
        """Tokens of a view beside the special ones, where it has so many with them."""

    @abstractmethod
    def longest(self, view_tokens: int) -> int:
        """Tokens that the transformer reads at once at most, special tokens included."""

    @abstractmethod
    def graphs(self, views: Sequence[ViewTokens], together: int = 1) -> GraphBatch:
        """The graphs of the views of pairs.

        Args:
            views: tokens of both views without special tokens, pair after pair.
            together: views of one pair that are read as one document; with 1 each is by itself, as a query is.
        """

    @abstractmethod
    def roles(self, pairs: int) -> Mapping[str, slice]:
        """Which graphs play which role, where there are so many pairs."""

    @abstractmethod
    def scores(self, output: DocumentOutput) -> Tensor:
        """How well the views of pairs match, ``(pairs,)``; higher is better."""


class CrossReader(ViewReader):
    """Both views in one passage, whose vector a head reads (a cross-encoder): ``[CLS] q [SEP] d [SEP]``."""

    aggregation = "max"
    joins_views = True
    labels = ("different", "similar")

    def room(self, view_tokens: int) -> int:
        """Tokens of a view beside its half of the special ones."""
        return view_tokens - (self._special.of_pair + 1) // 2

    def longest(self, view_tokens: int) -> int:
        """Two views."""
        return 2 * view_tokens

    def graphs(self, views: Sequence[ViewTokens], together: int = 1) -> GraphBatch:
        """One passage a pair of views."""
        joined = [self._special.together(*view) for view in views]
        return _graphs([ids for ids, _ in joined], together, tuple(start for _, start in joined))

    def roles(self, pairs: int) -> Mapping[str, slice]:
        """None: all graphs are pairs."""
        return {}

    def scores(self, output: DocumentOutput) -> Tensor:
        """Logits of the class "similar" against the other: the logarithm of its odds, ``(pairs,)``."""
        assert output.logits is not None
        return output.logits[:, 1] - output.logits[:, 0]


class DualReader(ViewReader):
    """Each view in a passage of its own, whose vectors are compared (a dual encoder, two towers of one model)."""

    aggregation = "mean"

    def room(self, view_tokens: int) -> int:
        """Tokens of a view beside the special ones."""
        return view_tokens - self._special.alone

    def longest(self, view_tokens: int) -> int:
        """One view."""
        return view_tokens

    def graphs(self, views: Sequence[ViewTokens], together: int = 1) -> GraphBatch:
        """All first views, then all second ones."""
        both = chain((first for first, _ in views), (second for _, second in views))
        return self.alone(list(both), together)

    def alone(self, views: Sequence[Ids], together: int = 1) -> GraphBatch:
        """The graphs of views that are not in pairs."""
        return _graphs([self._special.around(ids) for ids in views], together, None)

    def roles(self, pairs: int) -> Mapping[str, slice]:
        """The views of the first documents, and those of the second ones."""
        return {"first": slice(pairs), "second": slice(pairs, 2 * pairs)}

    def scores(self, output: DocumentOutput) -> Tensor:
        """Cosines of the vectors of both, ``(pairs,)``."""
        assert output.documents is not None
        first, second = output.documents.float().chunk(2)
        return functional.cosine_similarity(first, second)


def _graphs(token_ids: Sequence[Ids], together: int, second_from: tuple[int, ...] | None) -> GraphBatch:
    documents = len(token_ids) // together
    graphs = (
        JoinedGraphs.of_queries([0] * documents)
        if together == 1
        else JoinedGraphs.of_sections([np.zeros(together, np.int64)] * documents, None)
    )
    return GraphBatch.from_graphs(graphs, tuple(token_ids), second_from=second_from)
