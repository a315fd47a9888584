"""The batch of every recipe: graphs, and what the loss needs to know of their documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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


# Which documents of a batch play a role: a range of them, or their rows.
Role = slice | Tensor


@dataclass(frozen=True, slots=True)
class TrainingBatch:
    """One process's share of a batch.

    Args:
        graphs: the graphs of all documents in all roles, so that no passage is encoded twice.
        ids: ids of the documents that the batch was drawn from; one can give several graphs, such as two views.
        targets: what the objective compares with, by name: the ``group`` or ``class`` of every document, the ``label``
            of every pair, ...
        roles: which graphs play which role, by name: ``anchor``, ``candidate``, ``first``, ``second``, ...; none where
            all play the same.
    """

    graphs: GraphBatch
    ids: tuple[str, ...]
    targets: Mapping[str, Tensor]
    roles: Mapping[str, Role] = field(default_factory=dict)

    def __len__(self) -> int:
        """Number of documents."""
        return len(self.ids)

    @property
    def tokens(self) -> int:
        """Number of tokens, special tokens included; 0 where passage vectors are given."""
        return sum(len(ids) for ids in self.graphs.token_ids)

    def to(self, device: torch.device | str) -> TrainingBatch:
        """The same batch with its tensors on another device."""
        return replace(
            self,
            graphs=self.graphs.to(device),
            targets={name: target.to(device) for name, target in self.targets.items()},
            roles={name: role.to(device) if isinstance(role, Tensor) else role for name, role in self.roles.items()},
        )
