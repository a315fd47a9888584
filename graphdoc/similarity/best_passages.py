"""The similarity of a query and a document by the passages that suit the query best."""

from __future__ import annotations

import torch
from torch import Tensor

# As many as search adds up (graphdoc.retrieval.grouping).
BEST_PASSAGES = 3


def best_passages(similarity: Tensor, passage_counts: Tensor, best: int = BEST_PASSAGES) -> Tensor:
    """Mean of the similarities of the best passages of every document; those that it lacks count as 0.

    Args:
        similarity: ``(queries, passages)``, document after document.
        passage_counts: ``(documents,)``.
        best: passages that count.

    Returns:
        ``(queries, documents)``.

    >>> best_passages(torch.tensor([[1.0, 5.0, 3.0, 2.0, 9.0]]), torch.tensor([4, 1]), best=2)
    tensor([[4.0000, 4.5000]])
    """
    most = int(passage_counts.max())
    places = torch.arange(most, device=similarity.device)
    is_there = places < passage_counts.unsqueeze(1)
    starts = passage_counts.cumsum(0) - passage_counts
    columns = torch.where(is_there, starts.unsqueeze(1) + places, 0)
    # (queries, documents, most passages)
    found = similarity[:, columns].masked_fill(~is_there, -torch.inf).topk(min(best, most), dim=2).values
    return found.masked_fill(found == -torch.inf, 0).sum(dim=2) / best
