"""The loss that subtopics are learned by: DMoN's, with terms for pairs that are similar and not (SST, eq. 4-6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from .base import ONE_PROCESS, Gather, LossOutput, label_means, mean_share, require_range

# Weight of the even distribution that is mixed in, so that a cluster that one document lacks gives no infinity.
SMOOTHING = 0.01


class PairedSentences(NamedTuple):
    """The sentences of pairs of documents, pair after pair, and the graph that connects them.

    Args:
        pair_of: ``(sentences,)``, their pair, not falling.
        is_second: ``(sentences,)``, whether they are of the second document.
        columns: ``(pairs,)``, clusters of every pair, at least 1.
        edges: ``(2, edges)``, sentences that are connected, both directions; none with itself.
        weights: ``(edges,)``, their normalized adjacency.
    """

    pair_of: Tensor
    is_second: Tensor
    columns: Tensor
    edges: Tensor
    weights: Tensor


class ClusterTerms(NamedTuple):
    """The terms of the loss, and what they are about, of every pair, ``(pairs,)`` each.

    Args:
        modularity: minus the modularity of the clusters (DMoN).
        collapse: 0 for clusters of one size, and sqrt(m) - 1 where all sentences are in one of m (DMoN).
        divergence: how differently both documents are spread over clusters (eq. 4).
        orthogonality: how far clusters are from apart (eq. 5).
        shared: mass that both documents have in the same clusters, from 0 to 1.
    """

    modularity: Tensor
    collapse: Tensor
    divergence: Tensor
    orthogonality: Tensor
    shared: Tensor


def assignment(logits: Tensor, columns: Tensor) -> Tensor:
    """How much every sentence belongs to every cluster, ``(sentences, most columns)`` in fp32; rows add up to 1.

    Args:
        logits: ``(sentences, most columns)``.
        columns: ``(sentences,)``, clusters of the pair of every sentence; columns beyond are masked.

    >>> assignment(torch.tensor([[0.0, 0.0, 9.0]]), torch.tensor([2]))
    tensor([[0.5000, 0.5000, 0.0000]])
    """
    logits = logits.float()
    is_masked = torch.arange(logits.shape[1], device=logits.device) >= columns.unsqueeze(1)
    return torch.softmax(logits.masked_fill(is_masked, torch.finfo(logits.dtype).min), dim=1)


def cluster_terms(assigned: Tensor, pairs: PairedSentences) -> ClusterTerms:
    r"""The terms of the loss of every pair, whatever their sizes.

    With :math:`B` the assignment of a pair's :math:`n` sentences to its :math:`m` clusters, :math:`A` its adjacency,
    :math:`d` the sums of the rows of :math:`A` and :math:`2M` their sum:

    .. math::
        \mathcal{L}_{mod} = -\frac{1}{2M} \mathrm{tr}\Big(B^T \big(A - \frac{d d^T}{2M}\big) B\Big), \quad
        \mathcal{L}_{col} = \frac{\sqrt{m}}{n} \Big\lVert \sum_i B_i \Big\rVert - 1

    These are DMoN's (Tsitsulin et al. 2023). For eq. 4 every row keeps its largest entry alone, rows are added
    up by document, and the sums are brought to 1 and smoothed; the divergence is half of Jeffreys', as the equation
    stands. Eq. 5, :math:`\lVert B^T B - I \rVert_F`, is lower where every sentence is in all clusters alike than for
    clusters that are apart; here it is :math:`\lVert B^T B / \lVert B^T B \rVert_F - I / \sqrt{m} \rVert_F`
    (Bianchi et al. 2020, which the paper cites), 0 for clusters that are apart and of one size.

    Args:
        assigned: ``(sentences, most columns)``, see :func:`assignment`.
        pairs: whose sentences they are.
    """
    number, width = len(pairs.columns), assigned.shape[1]
    counts = torch.bincount(pairs.pair_of, minlength=number).to(assigned.dtype)
    clusters = pairs.columns.to(assigned.dtype)
    is_own = torch.arange(width, device=assigned.device) < pairs.columns.unsqueeze(1)

    def by_pair(values: Tensor) -> Tensor:
        return values.new_zeros(number, *values.shape[1:]).index_add(0, pairs.pair_of, values)

    collapse = clusters.sqrt() / counts.clamp(min=1) * torch.linalg.vector_norm(by_pair(assigned), dim=1) - 1
    sides = _by_side(assigned, pairs, number)
    shared = (sides / sides.sum(dim=2, keepdim=True).clamp(min=1)).amin(dim=1).sum(dim=1)
    modularity, divergence = _modularity(assigned, pairs, by_pair), _divergence(assigned, pairs, is_own)
    return ClusterTerms(modularity, collapse, divergence, _orthogonality(assigned, pairs, is_own), shared)


def _modularity(assigned: Tensor, pairs: PairedSentences, by_pair: Callable[[Tensor], Tensor]) -> Tensor:
    source, target = pairs.edges
    weights = pairs.weights.to(assigned.dtype)
    degrees = torch.zeros_like(assigned[:, 0]).index_add(0, source, weights)
    inside = torch.zeros_like(degrees).index_add(0, source, weights * (assigned[source] * assigned[target]).sum(dim=1))
    total = by_pair(degrees)
    expected = by_pair(degrees.unsqueeze(1) * assigned).square().sum(dim=1)
    # A pair without edges has no modularity.
    safe = torch.where(total > 0, total, torch.ones_like(total))
    return torch.where(total > 0, (expected / safe - by_pair(inside)) / safe, torch.zeros_like(total))


def _by_side(values: Tensor, pairs: PairedSentences, number: int) -> Tensor:
    """Sums over the sentences of both documents of every pair, ``(pairs, 2, columns)``."""
    rows = 2 * pairs.pair_of + pairs.is_second.long()
    return values.new_zeros(2 * number, values.shape[1]).index_add(0, rows, values).view(number, 2, -1)


def _divergence(assigned: Tensor, pairs: PairedSentences, is_own: Tensor) -> Tensor:
    largest = torch.zeros_like(assigned).scatter(1, assigned.argmax(dim=1, keepdim=True), 1.0) * assigned
    sums = _by_side(largest, pairs, len(is_own))
    shares = sums / sums.sum(dim=2, keepdim=True).clamp(min=torch.finfo(sums.dtype).tiny)
    even = is_own / is_own.sum(dim=1, keepdim=True)
    smooth = (1 - SMOOTHING) * shares + SMOOTHING * even.unsqueeze(1)
    # Where a column is masked both are 0, and so is the term.
    first, second = torch.where(is_own.unsqueeze(1), smooth, torch.ones_like(smooth)).unbind(dim=1)
    terms = (first - second) * (first.log() - second.log()) / 2
    return (terms * is_own).sum(dim=1)


def _orthogonality(assigned: Tensor, pairs: PairedSentences, is_own: Tensor) -> Tensor:
    number = len(is_own)
    starts = torch.searchsorted(pairs.pair_of, torch.arange(number, device=assigned.device))
    places = torch.arange(len(assigned), device=assigned.device) - starts[pairs.pair_of]
    longest = int(places.max()) + 1 if len(places) else 0
    padded = assigned.new_zeros(number, longest, assigned.shape[1])
    padded = padded.index_put((pairs.pair_of, places), assigned)
    products = padded.transpose(1, 2) @ padded
    lengths = torch.linalg.vector_norm(products, dim=(1, 2)).clamp(min=torch.finfo(products.dtype).tiny)
    identity = torch.diag_embed(is_own.to(products.dtype)) / pairs.columns.to(assigned.dtype).sqrt().view(-1, 1, 1)
    distance: Tensor = torch.linalg.vector_norm(products / lengths.view(-1, 1, 1) - identity, dim=(1, 2))
    return distance


@dataclass(frozen=True)
class SubtopicLoss:
    r"""Learns the subtopics of pairs of documents, by clusters of their sentences.

    Task: ``SubtopicPairs``.
    Call: ``loss(logits, pairs, labels)``, ``(sentences, most columns)``, :class:`PairedSentences`, ``(pairs,)``.
    Source: SST, section 3.2, eq. 4-6; Tsitsulin et al. 2023, "Graph Clustering with Graph Neural Networks" (DMoN).

    .. math::
        \mathcal{L} = \frac{1}{N} \sum_{i=1}^N
            \mathcal{L}_{mod} + \mathcal{L}_{col} + y_i \, w \, \mathcal{L}_p + (1 - y_i) \, \lambda \, \mathcal{L}_n

    Modularity and collapse are not in eq. 6, but clusters come of them: the paper trains DMoN, and its ablation
    without :math:`\mathcal{L}_p` and :math:`\mathcal{L}_n` has nothing else. The mean over processes is the mean over
    the pairs of all of them. Everything is in fp32; see :func:`cluster_terms` for the terms.

    Args:
        similar_weight: factor w of the term of similar pairs, 1 in the paper.
        dissimilar_weight: the paper's lambda.
    """

    similar_weight: float = 1.0
    dissimilar_weight: float = 1.0

    def __post_init__(self) -> None:
        require_range("similar_weight", self.similar_weight)
        require_range("dissimilar_weight", self.dissimilar_weight)

    def terms(self, logits: Tensor, pairs: PairedSentences) -> ClusterTerms:
        """The terms of every pair, from logits of clusters ``(sentences, most columns)``."""
        with torch.autocast(logits.device.type, enabled=False):
            return cluster_terms(assignment(logits, pairs.columns[pairs.pair_of]), pairs)

    def of_terms(self, terms: ClusterTerms, labels: Tensor) -> Tensor:
        """The loss of every pair, ``(pairs,)``."""
        own = torch.where(
            labels == 1, self.similar_weight * terms.divergence, self.dissimilar_weight * terms.orthogonality
        )
        return terms.modularity + terms.collapse + own

    def __call__(
        self, logits: Tensor, pairs: PairedSentences, labels: Tensor, *, gather: Gather = ONE_PROCESS
    ) -> LossOutput:
        """Compute the loss of this process's pairs.

        Args:
            logits: ``(sentences, most columns)``.
            pairs: whose sentences they are.
            labels: ``(pairs,)``, 1 for pairs that are similar, else 0.
            gather: how pairs of other processes are counted.
        """
        terms = self.terms(logits, pairs)
        is_similar = labels == 1
        all_similar = gather.rows(is_similar.long())[0]
        share = mean_share(all_similar.new_tensor(len(all_similar)), gather)
        similar, other = (
            label_means(values, is_similar, all_similar, gather) for values in (terms.divergence, terms.orthogonality)
        )
        shared = label_means(terms.shared, is_similar, all_similar, gather)
        metrics = {
            "modularity": terms.modularity.detach().sum() * share,
            "collapse": terms.collapse.detach().sum() * share,
            "similar_divergence": similar[0],
            "dissimilar_orthogonality": other[1],
            "similar_shared": shared[0],
            "dissimilar_shared": shared[1],
        }
        return LossOutput(self.of_terms(terms, labels).sum() * share, metrics)
