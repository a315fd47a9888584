"""The softmax over rows that belong together, without padding."""

from __future__ import annotations

from torch import Tensor


def softmax_by_group(scores: Tensor, group_of: Tensor, groups: int) -> Tensor:
    """Turn scores into weights that sum to 1 over every group.

    Args:
        scores: ``(rows, ...)``.
        group_of: ``(rows,)``, group of every row.
        groups: number of groups; some may have no row.

    Returns:
        ``(rows, ...)``.

    >>> import torch
    >>> softmax_by_group(torch.zeros(3), torch.tensor([0, 1, 1]), 2)
    tensor([1.0000, 0.5000, 0.5000])
    """
    shape = (groups, *scores.shape[1:])
    rows = group_of.view(-1, *(1,) * (scores.dim() - 1)).expand_as(scores)
    # What is taken off all scores of a group changes no weight, and keeps the exponential within bounds.
    largest = scores.detach().new_zeros(shape).scatter_reduce(0, rows, scores.detach(), "amax", include_self=False)
    powers = (scores - largest.index_select(0, group_of)).exp()
    sums = powers.new_zeros(shape).index_add(0, group_of, powers)
    return powers / sums.index_select(0, group_of)
