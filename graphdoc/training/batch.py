"""The batch of every recipe: graphs, and what the loss needs to know of their documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..graphs.batch import GraphBatch, TokenIds


class TrainingExample(Protocol):
    """What a graph is built from: a document that was cut into passages and tokenised."""

    @property
    def id(self) -> str:
        """Its id."""
        ...

    @property
    def group(self) -> int:
        """Equal for copies of one text."""
        ...

    @property
    def sections(self) -> npt.NDArray[np.int64]:
        """Section of every passage, ``(passages,)``."""
        ...

    @property
    def token_ids(self) -> Sequence[TokenIds]:
        """Token ids of every passage, special tokens included."""
        ...


@dataclass(frozen=True, slots=True)
class TrainingBatch:
    """One process's share of a batch.

    Args:
        graphs: the graphs of the documents; where documents have two views, the anchors of all, then their candidates
            in the same order.
        ids: ids of the documents.
        targets: ``(documents, ...)``, what the objective compares with: the group of a document, its class, ...; where
            documents are in pairs, ``(pairs,)``, their labels.
    """

    graphs: GraphBatch
    ids: tuple[str, ...]
    targets: Tensor

    def __len__(self) -> int:
        """Number of documents."""
        return len(self.ids)

    @property
    def tokens(self) -> int:
        """Number of tokens, special tokens included; 0 where passage vectors are given."""
        return sum(len(ids) for ids in self.graphs.token_ids)

    def to(self, device: torch.device | str) -> TrainingBatch:
        """The same batch with its tensors on another device."""
        return replace(self, graphs=self.graphs.to(device), targets=self.targets.to(device))
