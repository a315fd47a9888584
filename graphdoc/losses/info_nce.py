"""InfoNCE between two views of a batch of documents (Graph-RoBERTa, eq. 5-6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional

from .gathering import gather_rows, process_count
from .outputs import LossOutput
from .temperature import require_temperature

Similarity = Literal["dot", "cosine"]
Directions = Literal["both", "one"]


@dataclass(frozen=True)
class InfoNCE:
    r"""Tells every document's other view from the views of all other documents of the batch.

    .. math::
        \ell(D) = \frac{1}{2N} \sum_{i=1}^N \left[
            -\log \frac{e^{s(a_i, c_i) / \tau}}{\sum_j e^{s(a_i, c_j) / \tau}}
            -\log \frac{e^{s(a_i, c_i) / \tau}}{\sum_j e^{s(a_j, c_i) / \tau}} \right]

    With ``similarity="dot"``, ``temperature=1`` and both directions this is exactly eq. 5-6 of the paper. Views of all
    processes are candidates: every process takes its own documents as anchors. Softmax and sums are in fp32.

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
    """

    similarity: Similarity = "dot"
    temperature: float = 1.0
    directions: Directions = "both"
    mask_groups: bool = True
    mask_similar: float | None = None

    def __post_init__(self) -> None:
        if self.similarity not in get_args(Similarity):
            raise ValueError(f"similarity {self.similarity!r} is unknown; use dot or cosine")
        require_temperature(self.temperature)
        if self.directions not in get_args(Directions):
            raise ValueError(f"directions {self.directions!r} is unknown; use both or one")
        if self.mask_similar is not None and not 0 < self.mask_similar <= 1:
            raise ValueError(f"mask_similar={self.mask_similar} must be above 0 and at most 1, or None")

    def __call__(self, anchors: Tensor, candidates: Tensor, groups: Tensor | None = None) -> LossOutput:
        """Compute the loss of this process's documents against those of all processes.

        Args:
            anchors: ``(documents, hidden)``, first views.
            candidates: ``(documents, hidden)``, second views, row by row the positives.
            groups: ``(documents,)``, equal numbers for copies of one document.

        Returns:
            The loss, with positive and negative similarity (before the temperature), accuracy of picking the positive,
            and the share of pairs left out.

        Raises:
            ValueError: shapes differ.
        """
        if anchors.shape != candidates.shape or anchors.dim() != 2:
            raise ValueError(f"anchors {tuple(anchors.shape)} and candidates {tuple(candidates.shape)} must have the "
                             "same shape (documents, hidden)")  # fmt: skip
        with torch.autocast(anchors.device.type, enabled=False):
            anchors, candidates = anchors.float(), candidates.float()
            if self.similarity == "cosine":
                anchors, candidates = functional.normalize(anchors, dim=-1), functional.normalize(candidates, dim=-1)
            all_candidates, start = gather_rows(candidates)
            left_out = self._left_out(candidates, all_candidates, groups, start)
            outputs = [self._direction(anchors, all_candidates, left_out, start)]
            if self.directions == "both":
                all_anchors, _ = gather_rows(anchors)
                outputs.append(self._direction(candidates, all_anchors, left_out, start))
            # The mean over processes must be the mean over documents, also where processes hold different numbers.
            share = process_count() / (len(outputs) * len(all_candidates))
            loss = torch.stack([losses.sum() for losses, _ in outputs]).sum() * share
            metrics = self._metrics([similarity.detach() for _, similarity in outputs], left_out, start, share)
        return LossOutput(loss, metrics)

    def _left_out(self, own: Tensor, everything: Tensor, groups: Tensor | None, start: int) -> Tensor:
        """Which pairs are neither positive nor negative, ``(documents, all documents)``."""
        left_out = torch.zeros(len(own), len(everything), dtype=torch.bool, device=own.device)
        if self.mask_groups and groups is not None:
            all_groups, _ = gather_rows(groups)
            left_out |= groups.unsqueeze(1) == all_groups
        if self.mask_similar is not None:
            with torch.no_grad():
                cosine = functional.normalize(own, dim=-1) @ functional.normalize(everything, dim=-1).T
            left_out |= cosine > self.mask_similar
        rows = torch.arange(len(own), device=own.device)
        left_out[rows, rows + start] = False
        return left_out

    def _direction(self, anchors: Tensor, candidates: Tensor, left_out: Tensor, start: int) -> tuple[Tensor, Tensor]:
        """Losses ``(documents,)`` and similarities ``(documents, all documents)`` of one direction."""
        similarity = anchors @ candidates.T
        logits = (similarity / self.temperature).masked_fill(left_out, -torch.inf)
        positives = torch.arange(len(anchors), device=anchors.device) + start
        return functional.cross_entropy(logits, positives, reduction="none"), similarity

    @staticmethod
    def _metrics(similarities: list[Tensor], left_out: Tensor, start: int, share: float) -> dict[str, Tensor]:
        rows = torch.arange(len(left_out), device=left_out.device)
        is_positive = torch.zeros_like(left_out)
        is_positive[rows, rows + start] = True
        is_negative = ~is_positive & ~left_out
        sums: dict[str, list[Tensor]] = {"positive_similarity": [], "negative_similarity": [], "accuracy": []}
        for similarity in similarities:
            positive = similarity[is_positive]
            best = similarity.masked_fill(~is_negative, -torch.inf).amax(dim=1)
            negatives = is_negative.sum(dim=1).clamp(min=1)
            sums["positive_similarity"].append(positive.sum())
            sums["negative_similarity"].append((similarity.masked_fill(~is_negative, 0).sum(dim=1) / negatives).sum())
            sums["accuracy"].append((positive > best).float().sum())
        metrics = {name: torch.stack(values).sum() * share for name, values in sums.items()}
        # The share is over documents and directions; pairs left out are the same in both directions.
        metrics["left_out_share"] = left_out.float().mean(dim=1).sum() * share * len(similarities)
        return metrics
