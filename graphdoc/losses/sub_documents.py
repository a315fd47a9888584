"""The contrast between two views of a batch of documents (Graph-RoBERTa, eq. 5-6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor
from torch.nn import functional

from ..settings.document import Similarity
from ..settings.sub_documents import Directions
from .contract import LossOutput
from .gathering import ONE_PROCESS, Gather
from .info_nce import InfoNCE


@dataclass(frozen=True)
class SubDocumentContrast:
    r"""Finds every document's other view among the views of all documents of the batch, by :class:`InfoNCE`.

    .. math::
        \ell(D) = \frac{1}{2N} \sum_{i=1}^N \left[
            -\log \frac{e^{s(a_i, c_i) / \tau}}{\sum_j e^{s(a_i, c_j) / \tau}}
            -\log \frac{e^{s(a_i, c_i) / \tau}}{\sum_j e^{s(a_j, c_i) / \tau}} \right]

    With ``similarity="dot"``, ``temperature=1`` and both directions this is exactly eq. 5-6 of the paper.

    Args:
        similarity: ``dot`` (the paper's) or ``cosine``.
        temperature: what similarities are divided by; with cosine 0.05 to 0.35 are usual, with dot 1.
        directions: ``both`` views look for the other, or ``one``: only the anchors look for their candidate, as when
            anchors are queries (section 3.3).
        mask_groups: leave out candidates whose document is of the anchor's group, such as exact copies.
        mask_similar: leave out candidates whose cosine to the anchor's own candidate is above this, since they are
            probably near-duplicates; None keeps all.

    Raises:
        ValueError: a value is out of range.

    >>> output = SubDocumentContrast("cosine", temperature=0.1)(torch.eye(3), torch.eye(3))
    >>> round(output.loss.item(), 4), output.metrics["accuracy"].item()
    (0.0001, 1.0)
    """

    similarity: Similarity = "dot"
    temperature: float = 1.0
    directions: Directions = "both"
    mask_groups: bool = True
    mask_similar: float | None = None

    def __post_init__(self) -> None:
        InfoNCE(self.similarity, self.temperature)
        if self.directions not in get_args(Directions):
            raise ValueError(f"directions {self.directions!r} is unknown; use both or one")
        if self.mask_similar is not None and not 0 < self.mask_similar <= 1:
            raise ValueError(f"mask_similar={self.mask_similar} must be above 0 and at most 1, or None")

    def __call__(
        self,
        anchors: Tensor,
        candidates: Tensor,
        groups: Tensor | None = None,
        *,
        gather: Gather = ONE_PROCESS,
    ) -> LossOutput:
        """Compute the loss of this process's documents against those of all processes.

        Args:
            anchors: ``(documents, hidden)``, first views.
            candidates: ``(documents, hidden)``, second views, row by row the positives.
            groups: ``(documents,)``, equal numbers for copies of one document.
            gather: how views of other processes are seen.

        Returns:
            The loss and the metrics of :class:`InfoNCE`, means over the directions.

        Raises:
            ValueError: shapes differ.
        """
        if anchors.shape != candidates.shape:
            raise ValueError(f"anchors {tuple(anchors.shape)} and candidates {tuple(candidates.shape)} must have the "
                             "same shape (documents, hidden)")  # fmt: skip
        contrast, left_out = InfoNCE(self.similarity, self.temperature), self._left_out(candidates, groups, gather)
        outputs = [contrast(anchors, candidates, left_out=left_out, gather=gather)]
        if self.directions == "both":
            outputs.append(contrast(candidates, anchors, left_out=left_out, gather=gather))
        names = outputs[0].metrics
        metrics = {name: torch.stack([output.metrics[name] for output in outputs]).mean() for name in names}
        return LossOutput(torch.stack([output.loss for output in outputs]).mean(), metrics)

    @torch.no_grad()
    def _left_out(self, candidates: Tensor, groups: Tensor | None, gather: Gather) -> Tensor | None:
        """Pairs that are no negatives, the same in both directions, ``(documents, documents of all processes)``."""
        masks = []
        if self.mask_groups and groups is not None:
            masks.append(groups.unsqueeze(1) == gather.rows(groups)[0])
        if self.mask_similar is not None:
            with torch.autocast(candidates.device.type, enabled=False):
                unit = functional.normalize(candidates.float(), dim=-1)
                masks.append(unit @ gather.rows(unit)[0].T > self.mask_similar)
        return torch.stack(masks).any(dim=0) if masks else None
