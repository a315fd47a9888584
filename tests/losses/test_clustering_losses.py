"""The loss of learned subtopics, against NumPy written from the papers and against PyG."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.nn import DMoNPooling

from graphdoc.losses import PairedSentences, SubtopicLoss
from graphdoc.losses.clustering import SMOOTHING, cluster_terms

Floats = npt.NDArray[np.float64]


class OnePair(NamedTuple):
    """A pair of documents: logits, adjacency, sentences of the first document, clusters."""

    logits: Floats
    adjacency: Floats
    first: int
    columns: int


def one_pair(draw: np.random.Generator, first: int, second: int, columns: int, width: int) -> OnePair:
    sentences = first + second
    adjacency = np.triu(draw.random((sentences, sentences)) * (draw.random((sentences, sentences)) < 0.5), 1)
    return OnePair(2 * draw.normal(size=(sentences, width)), adjacency + adjacency.T, first, columns)


def joined(pairs: list[OnePair]) -> tuple[Tensor, PairedSentences]:
    pair_of, is_second, edges, weights = [], [], [], []
    start = 0
    for number, pair in enumerate(pairs):
        sentences = len(pair.logits)
        pair_of += [number] * sentences
        is_second += [place >= pair.first for place in range(sentences)]
        places = np.argwhere(pair.adjacency)
        edges.append(places.T + start)
        weights.append(pair.adjacency[pair.adjacency > 0])
        start += sentences
    return torch.tensor(np.concatenate([pair.logits for pair in pairs]), dtype=torch.float32), PairedSentences(
        torch.tensor(pair_of),
        torch.tensor(is_second),
        torch.tensor([pair.columns for pair in pairs]),
        torch.tensor(np.concatenate(edges, axis=1)),
        torch.tensor(np.concatenate(weights)),
    )


def assigned_by_hand(pair: OnePair) -> Floats:
    found = np.zeros_like(pair.logits)
    for row, logits in enumerate(pair.logits):
        own = np.exp(logits[: pair.columns] - logits[: pair.columns].max())
        found[row, : pair.columns] = own / own.sum()
    return found[:, : pair.columns]


def modularity_by_hand(assigned: Floats, adjacency: Floats) -> float:
    twice_edges = adjacency.sum()
    if twice_edges == 0:
        return 0.0
    degrees = adjacency.sum(axis=1)
    modularity = adjacency - np.outer(degrees, degrees) / twice_edges
    return float(-np.trace(assigned.T @ modularity @ assigned) / twice_edges)


def collapse_by_hand(assigned: Floats) -> float:
    sentences, clusters = assigned.shape
    return float(np.sqrt(clusters) / sentences * np.linalg.norm(assigned.sum(axis=0)) - 1)


def divergence_by_hand(assigned: Floats, first: int) -> float:
    """Equation 4: of every row the largest entry alone, summed by document, brought to 1 and smoothed."""
    shares = []
    for rows in (assigned[:first], assigned[first:]):
        kept = np.zeros_like(rows)
        for row, values in enumerate(rows):
            kept[row, values.argmax()] = values.max()
        pooled = kept.sum(axis=0) / len(rows)
        shares.append((1 - SMOOTHING) * pooled / pooled.sum() + SMOOTHING / assigned.shape[1])
    p, q = shares
    return float(sum(0.5 * (a * np.log(a / b) + b * np.log(b / a)) for a, b in zip(p, q, strict=True)))


def orthogonality_by_hand(assigned: Floats) -> float:
    """Equation 5 with both matrices brought to length 1."""
    products, identity = assigned.T @ assigned, np.eye(assigned.shape[1])
    products, identity = products / np.linalg.norm(products), identity / np.linalg.norm(identity)
    return float(np.linalg.norm(products - identity))


@given(
    sizes=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(1, 5)), min_size=1, max_size=4),
    seed=st.integers(0, 10_000),
)
@hypothesis_settings(deadline=None, max_examples=80)
def test_terms_are_the_equations_of_every_pair_by_itself(sizes: list[tuple[int, int, int]], seed: int) -> None:
    draw = np.random.default_rng(seed)
    pairs = [one_pair(draw, *size, width=6) for size in sizes]
    logits, sentences = joined(pairs)

    terms = SubtopicLoss().terms(logits, sentences)

    for number, pair in enumerate(pairs):
        assigned = assigned_by_hand(pair)
        expected = {
            "modularity": modularity_by_hand(assigned, pair.adjacency),
            "collapse": collapse_by_hand(assigned),
            "divergence": divergence_by_hand(assigned, pair.first),
            "orthogonality": orthogonality_by_hand(assigned),
            "shared": np.minimum(assigned[: pair.first].mean(0), assigned[pair.first :].mean(0)).sum(),
        }
        for name, value in expected.items():
            assert getattr(terms, name)[number].item() == pytest.approx(value, rel=1e-4, abs=2e-6), name


@given(labels=st.lists(st.integers(0, 1), min_size=1, max_size=4), weight=st.sampled_from([0.0, 0.1, 1.0, 10.0]))
@hypothesis_settings(deadline=None, max_examples=30)
def test_the_loss_is_equation_6_with_the_terms_of_dmon(labels: list[int], weight: float) -> None:
    draw = np.random.default_rng(len(labels))
    pairs = [one_pair(draw, 3, 4, 3, width=4) for _ in labels]
    expected = []
    for pair, label in zip(pairs, labels, strict=True):
        assigned = assigned_by_hand(pair)
        common = modularity_by_hand(assigned, pair.adjacency) + collapse_by_hand(assigned)
        own = 0.5 * divergence_by_hand(assigned, pair.first) if label else weight * orthogonality_by_hand(assigned)
        expected.append(common + own)
    loss = SubtopicLoss(similar_weight=0.5, dissimilar_weight=weight)
    assert loss(*joined(pairs), torch.tensor(labels)).loss.item() == pytest.approx(np.mean(expected), rel=1e-4)


def test_one_graph_is_that_of_pyg() -> None:
    torch.manual_seed(0)
    pair = one_pair(np.random.default_rng(0), 5, 6, 4, width=4)
    logits, sentences = joined([pair])
    pooling = DMoNPooling(4, 4)

    class Given(torch.nn.Module):
        def forward(self, nodes: Tensor) -> Tensor:
            return nodes

    pooling.mlp = Given()
    _, _, _, modularity, orthogonality, collapse = pooling(
        logits.unsqueeze(0), torch.tensor(pair.adjacency, dtype=torch.float32).unsqueeze(0)
    )
    terms = SubtopicLoss().terms(logits, sentences)
    torch.testing.assert_close(terms.modularity[0], modularity)
    torch.testing.assert_close(terms.orthogonality[0], orthogonality)
    torch.testing.assert_close(terms.collapse[0], collapse)


def test_gradients_are_those_of_small_differences() -> None:
    draw = np.random.default_rng(3)
    pairs = [one_pair(draw, 3, 4, 3, 4), one_pair(draw, 1, 2, 2, 4), one_pair(draw, 4, 4, 4, 4)]
    logits, sentences = joined(pairs)
    labels = torch.tensor([1, 0, 1])
    weights = sentences.weights.double()
    in_double = sentences._replace(weights=weights)

    def total(given: Tensor) -> Tensor:
        masked = given.masked_fill(torch.arange(4) >= sentences.columns[sentences.pair_of].unsqueeze(1), -1e30)
        terms = cluster_terms(torch.softmax(masked, 1), in_double)
        return SubtopicLoss().of_terms(terms, labels).mean()

    assert torch.autograd.gradcheck(total, logits.double().requires_grad_())
    own, plain = logits.clone().requires_grad_(), logits.double().requires_grad_()
    SubtopicLoss()(own, sentences, labels).loss.backward()
    total(plain).backward()
    assert own.grad is not None and plain.grad is not None
    torch.testing.assert_close(own.grad, plain.grad.float(), rtol=1e-3, atol=1e-6)
    assert own.grad[sentences.pair_of == 1, 2:].abs().max() == 0


def test_sentences_that_are_like_no_other_and_single_ones_have_a_loss() -> None:
    pairs = [OnePair(np.zeros((2, 3)), np.zeros((2, 2)), 1, 1), OnePair(np.zeros((4, 3)), np.zeros((4, 4)), 1, 3)]
    logits, sentences = joined(pairs)
    logits.requires_grad_()
    output = SubtopicLoss()(logits, sentences, torch.tensor([1, 0]))
    output.loss.backward()
    assert torch.isfinite(output.loss)
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
    assert output.metrics["modularity"] == 0
