"""What all losses keep, and the loss of learned subtopics against NumPy written from the papers."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from losses_job import CASES, measured
from torch import Tensor
from two_processes import launch
from typed import Folders

from graphdoc import losses
from graphdoc.losses import ONE_PROCESS, PairedSentences, SubtopicLoss
from graphdoc.losses.clustering import SMOOTHING

JOB = Path(__file__).parents[1] / "support" / "losses_job.py"


@pytest.fixture(scope="module")
def seen(tmp_path_factory: Folders) -> list[dict[str, Any]]:
    """What each of two processes measured."""
    output = tmp_path_factory.mktemp("losses") / "seen"
    launch(JOB, output)
    return [json.loads(Path(f"{output}-{rank}.json").read_text(encoding="utf-8")) for rank in (0, 1)]


@pytest.mark.distributed
@pytest.mark.parametrize("name", CASES)
def test_two_processes_are_one_on_the_union_of_their_rows(seen: list[dict[str, Any]], name: str) -> None:
    case = CASES[name]
    whole = measured(case.loss, case.union, ONE_PROCESS)
    first, second = (found[name] for found in seen)
    assert (first["loss"] + second["loss"]) / 2 == pytest.approx(whole["loss"], abs=1e-6)
    for metric, value in whole["metrics"].items():
        assert (first["metrics"][metric] + second["metrics"][metric]) / 2 == pytest.approx(value, abs=1e-6)
    largest = 0.0
    for one, other, expected in zip(first["gradients"], second["gradients"], whole["gradients"], strict=True):
        # Data-parallel training takes the mean of gradients over processes; a row's own gradient is their sum.
        gradient = np.array(one + other) / 2
        np.testing.assert_allclose(gradient, expected, atol=1e-6)
        largest = max(largest, float(np.abs(gradient).max()))
    if case.has_loss:
        assert whole["loss"] > 0.01 and largest > 1e-3
    else:
        assert whole["loss"] == largest == 0


@pytest.mark.parametrize("name", CASES)
def test_half_precision_is_compared_in_fp32_under_autocast(name: str) -> None:
    halves = [
        50 * one.bfloat16() if isinstance(one, Tensor) and one.is_floating_point() else one
        for one in CASES[name].union
    ]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = CASES[name].loss(*halves)
    exact = [one.float() if isinstance(one, Tensor) and one.is_floating_point() else one for one in halves]
    assert output.loss.dtype == torch.float32
    torch.testing.assert_close(output.loss, CASES[name].loss(*exact).loss)


@pytest.mark.parametrize("name", [name for name in CASES if "subtopics" not in name])
def test_without_rows_there_is_no_loss(name: str) -> None:
    vectors, *others = (one[:0] for one in CASES[name].union if isinstance(one, Tensor))
    if name.startswith("contrast"):
        others[-1] = others[-1][:, :0]
    rows = vectors.clone().requires_grad_()
    output = CASES[name].loss(rows, *others)
    output.loss.backward()
    assert output.loss.item() == 0 and rows.grad is not None
    assert not any(value.requires_grad for value in output.metrics.values())


def test_no_loss_is_left_out() -> None:
    public = [getattr(losses, name) for name in losses.__all__]
    takes_gather = {
        one for one in public if isinstance(one, type) and "gather" in inspect.signature(one.__call__).parameters
    }
    assert takes_gather == {type(case.loss) for case in CASES.values()}


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
