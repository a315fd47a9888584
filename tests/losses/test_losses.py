"""What all losses keep, and each of them against NumPy written from the papers."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Sequence
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
from sklearn.utils.class_weight import compute_class_weight
from torch import Tensor
from two_processes import launch
from typed import Folders

from graphdoc import losses
from graphdoc.losses import (
    ClassificationLoss,
    InfoNCELoss,
    MaskedTokenLoss,
    PairCosineLoss,
    SubtopicLoss,
    SupervisedContrastiveLoss,
)
from graphdoc.losses.base import ONE_PROCESS
from graphdoc.losses.classification import balanced_weights
from graphdoc.losses.clustering import SMOOTHING, PairedSentences

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
        50 * one.bfloat16() if isinstance(one, Tensor) and one.is_floating_point() else one for one in CASES[name].union
    ]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = CASES[name].loss(*halves)
    exact = [one.float() if isinstance(one, Tensor) and one.is_floating_point() else one for one in halves]
    assert output.loss.dtype == torch.float32
    torch.testing.assert_close(output.loss, CASES[name].loss(*exact).loss)


@pytest.mark.parametrize("name", [name for name in CASES if "subtopics" not in name])
def test_without_rows_there_is_no_loss(name: str) -> None:
    vectors, *others = (one[:0] for one in CASES[name].union if isinstance(one, Tensor))
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
    assert takes_gather == {type(case.loss) for case in CASES.values()} == set(losses.OWN_LOSSES)


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
        edges.append(np.argwhere(pair.adjacency).T + start)
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


Array = npt.NDArray[np.float64]


class Drawn(NamedTuple):
    """A loss, the rows it has gradients for, its other tensors, and its value and metrics by the rows."""

    loss: Any
    rows: list[Array]
    others: list[Any]
    formula: Callable[..., dict[str, float]]


def unit(rows: Array) -> Array:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else 0.0


def surprise(exponents: Array, chosen: int) -> float:
    return float(-np.log(np.exp(exponents[chosen]) / np.exp(exponents).sum()))


def similarities(kind: str, first: Array, second: Array) -> Array:
    return unit(first) @ unit(second).T if kind == "cosine" else first @ second.T


def info_nce(draw: np.random.Generator) -> Drawn:
    """The mean over anchors and positives of the surprise at that positive among itself and the negatives."""
    anchors, candidates, most = (int(draw.integers(1, end)) for end in (8, 13, 5))
    temperature, kind = draw.choice([0.2, 1.0]), str(draw.choice(["dot", "cosine"]))
    # Anchors have any number of positives, none included; most candidates are nobody's positive.
    own = [draw.permutation(candidates)[: draw.integers(most + 1)].tolist() for _ in range(anchors)]
    positive = np.full((anchors, most), -1)
    for row, some in zip(positive, own, strict=True):
        row[draw.permutation(most)[: len(some)]] = some
    groups, others = draw.integers(-1, 4, size=(anchors, 2)), draw.integers(-1, 8, size=candidates)

    def formula(first: Array, second: Array) -> dict[str, float]:
        similarity = similarities(kind, first, second)
        terms = []
        for i, some in enumerate(own):
            negatives = [j for j in range(candidates) if j not in some and others[j] not in {-1, *groups[i]}]
            if some:
                terms.append(mean([surprise(similarity[i, [p, *negatives]] / temperature, 0) for p in some]))
        return {"loss": mean(terms)}

    rows = [draw.normal(size=(count, 3)) for count in (anchors, candidates)]
    return Drawn(InfoNCELoss(kind, temperature), rows, [groups, others, positive], formula)  # type: ignore[arg-type]


def in_pairs(draw: np.random.Generator) -> Drawn:
    """Equations 5 and 6 of the Graph-RoBERTa paper, of pairs that have each other to find, or not.

    Without groups of the others, as with views of documents, those of both are the same.
    """
    kind, directions = str(draw.choice(["dot", "cosine"])), str(draw.choice(["both", "one"]))
    count, temperature = int(draw.integers(1, 9)), draw.choice([0.2, 1.0])
    both = draw.integers(count if draw.random() < 0.5 else 10**6, size=(2, count))
    paired = draw.integers(2, size=count)
    others = [both[0]] if draw.random() < 0.5 else [*both, np.where(paired == 1, np.arange(count), -1)]
    groups, found = both if len(others) > 1 else both[[0, 0]], paired if len(others) > 1 else np.ones(count)

    def formula(first: Array, second: Array) -> dict[str, float]:
        similarity, terms, left_out = similarities(kind, first, second), [], []
        ahead, back = (similarity, *groups), (similarity.T, *groups[::-1])
        for rows, own, of_others in (ahead, back) if directions == "both" else (ahead,):
            for i in np.flatnonzero(found):
                among = [i, *(j for j in range(count) if j != i and of_others[j] != own[i])]
                terms.append(surprise(rows[i, among] / temperature, 0))
                left_out.append(1 - len(among) / count)
        similar = mean(np.diag(similarity)[found == 1])
        return {"loss": mean(terms), "left_out_share": mean(left_out), "positive_similarity": similar}

    loss = InfoNCELoss(kind, temperature, directions)  # type: ignore[arg-type]
    return Drawn(loss, list(draw.normal(size=(2, count, 3))), others, formula)


def supervised(draw: np.random.Generator) -> Drawn:
    """The equation of CoLDE's section 3.3, as a mean over the anchors that have a positive."""
    temperature = draw.choice([0.05, 0.5, 2.0])
    labels = draw.integers(-2, 4, size=draw.integers(1, 13))

    def formula(rows: Array) -> dict[str, float]:
        exponents, terms = unit(rows) @ unit(rows).T / temperature, []
        for i, label in enumerate(labels):
            others = [j for j in range(len(labels)) if j != i]
            positives = [place for place, j in enumerate(others) if labels[j] == label]
            if positives:
                terms.append(mean([surprise(exponents[i, others], place) for place in positives]))
        return {"loss": mean(terms), "skipped_anchors": len(labels) - len(terms)}

    return Drawn(SupervisedContrastiveLoss(temperature), [draw.normal(size=(len(labels), 4))], [labels], formula)


def pair_cosine(draw: np.random.Generator) -> Drawn:
    margin, labels = draw.choice([-1.0, -0.2, 0.0, 0.5]), draw.integers(2, size=draw.integers(1, 9))

    def formula(first: Array, second: Array) -> dict[str, float]:
        cosines = (unit(first) * unit(second)).sum(axis=1)
        terms = [1 - one if label else max(0.0, one - margin) for one, label in zip(cosines, labels, strict=True)]
        similar, others = (mean(cosines[labels == label]) for label in (1, 0))
        return {"loss": mean(terms), "positive_similarity": similar, "negative_similarity": others}

    return Drawn(PairCosineLoss(margin), list(draw.normal(size=(2, len(labels), 3))), [labels], formula)


def classes(draw: np.random.Generator) -> Drawn:
    """Cross entropy over the softmax, weighted by the class of the document."""
    documents, smoothing, targets, weights, given = classified(draw)

    def formula(logits: Array) -> dict[str, float]:
        total = 0.0
        for i in range(documents):
            terms = weights * [surprise(logits[i], c) for c in range(len(weights))]
            total += (1 - smoothing) * terms[targets[i]] + smoothing * terms.mean()
        return {"loss": total / weights[targets].sum(), "accuracy": mean(logits.argmax(1) == targets)}

    return Drawn(ClassificationLoss(False, given, smoothing), [draw.normal(size=(documents, 4))], [targets], formula)


def several_labels(draw: np.random.Generator) -> Drawn:
    """Binary cross entropy of every class, the weight of a class on the documents that have it."""
    documents, smoothing, _, weights, given = classified(draw)
    targets = draw.integers(2, size=(documents, 4))

    def formula(logits: Array) -> dict[str, float]:
        p, t = 1 / (1 + np.exp(-logits)), (1 - smoothing) * targets + smoothing / 2
        exact = ((logits > 0) == targets).all(axis=1)
        return {"loss": mean(-weights * t * np.log(p) - (1 - t) * np.log(1 - p)), "accuracy": mean(exact)}

    return Drawn(ClassificationLoss(True, given, smoothing), [draw.normal(size=(documents, 4))], [targets], formula)


def classified(draw: np.random.Generator) -> tuple[int, float, Any, Array, tuple[float, ...] | None]:
    documents, smoothing, is_weighted = int(draw.integers(1, 9)), draw.choice([0.0, 0.1, 0.7]), draw.random() < 0.5
    weights = draw.uniform(0.2, 5, size=4) if is_weighted else np.ones(4)
    return documents, smoothing, draw.integers(4, size=documents), weights, tuple(weights) if is_weighted else None


def masked_tokens(draw: np.random.Generator) -> Drawn:
    tokens, weight = draw.integers(7, size=draw.integers(1, 13)), draw.choice([0.0, 0.1, 1.0])

    def formula(logits: Array) -> dict[str, float]:
        loss = mean([surprise(row, token) for row, token in zip(logits, tokens, strict=True)])
        return {"loss": weight * loss, "masked_loss": loss, "masked_accuracy": mean(logits.argmax(1) == tokens)}

    return Drawn(MaskedTokenLoss(weight), [3 * draw.normal(size=(len(tokens), 7))], [tokens], formula)


@pytest.mark.parametrize("drawn", [info_nce, in_pairs, supervised, pair_cosine, classes, several_labels, masked_tokens])
@given(seed=st.integers(0, 100_000))
def test_a_loss_is_its_equation_and_so_is_its_gradient(drawn: Callable[..., Drawn], seed: int) -> None:
    loss, rows, others, formula = drawn(np.random.default_rng(seed))
    tensors = [torch.tensor(one, requires_grad=True) for one in rows]
    output = loss(*tensors, *map(torch.tensor, others))
    output.loss.backward()
    expected = formula(*rows)
    assert output.loss.dtype == torch.float32
    assert output.loss.item() == pytest.approx(expected.pop("loss"), rel=1e-4, abs=1e-5)
    for name, value in expected.items():
        assert output.metrics[name].item() == pytest.approx(value, abs=1e-5), name
    assert not any(value.requires_grad for value in output.metrics.values())
    # Along one direction for all rows, against a difference of the formula in double precision.
    directions = [np.random.default_rng(seed).normal(size=one.shape) for one in rows]
    after, before = (
        formula(*(one + step * towards for one, towards in zip(rows, directions, strict=True)))["loss"]
        for step in (1e-6, -1e-6)
    )
    found = sum(float((one.grad.numpy() * two).sum()) for one, two in zip(tensors, directions, strict=True))  # type: ignore[union-attr]
    assert found == pytest.approx((after - before) / 2e-6, rel=1e-3, abs=1e-4)


def test_the_numbers_to_log_are_means_over_anchors_with_a_positive() -> None:
    anchors, candidates = torch.eye(3), torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.5, 0.0]])
    groups, others = torch.tensor([5, 6, 7]), torch.tensor([5, 5, 4])
    output = InfoNCELoss()(anchors, candidates, groups, others, torch.tensor([[0, -1], [2, -1], [-1, -1]]))
    assert {name: value.item() for name, value in output.metrics.items()} == pytest.approx(
        # A positive stays one, whatever its group.
        {"positive_similarity": 0.75, "negative_similarity": 0.25, "accuracy": 0.5, "left_out_share": 1 / 6}
    )
    # Two rows at right angles of the first label, two equal ones of the second, and a lone one at the first row.
    x, y = [1.0, 0.0], [0.0, 1.0]
    vectors, labels = torch.tensor([x, y, y, y, x]), torch.tensor([0, 0, 1, 1, 2])
    metrics = {name: value.item() for name, value in SupervisedContrastiveLoss()(vectors, labels).metrics.items()}
    # All nearest rows tie with one of another label.
    expected = {"accuracy": 0, "skipped_anchors": 1, "without_positives": 0}
    similarities = {"positive_similarity": 1 / 2, "negative_similarity": (1 / 3 + 2 / 3 + 1 / 3 + 1 / 3) / 4}
    assert metrics == pytest.approx({**expected, **similarities})
    vectors[1] = torch.tensor([0.8, 0.6])
    assert SupervisedContrastiveLoss()(vectors, labels).metrics["accuracy"].item() == pytest.approx(2 / 4)


def test_balanced_weights_let_every_class_count_as_much_as_in_scikit_learn() -> None:
    expected = compute_class_weight("balanced", classes=np.arange(3), y=np.repeat([0, 1, 2], [5, 1, 30]))
    np.testing.assert_allclose(balanced_weights([5, 1, 30]), expected)
    assert balanced_weights([5, 0, 15]) == (2.0, 1.0, pytest.approx(2 / 3))
    # With several labels, documents without the class over those with it; 1 where none or all have it.
    assert balanced_weights([5, 1, 10, 0, 20], 20) == (3.0, 19.0, 1.0, 1.0, 1.0)


def test_parts_of_masked_tokens_add_up_to_the_whole() -> None:
    logits, tokens = torch.randn(9, 5), torch.arange(9) % 5
    whole, parts = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    expected = MaskedTokenLoss(0.5)(whole, tokens)
    expected.loss.backward()
    among = torch.tensor(9)
    found = [MaskedTokenLoss(0.5)(parts[rows], tokens[rows], among) for rows in (slice(0, 4), slice(4, 4), slice(4, 9))]
    torch.stack([part.loss for part in found]).sum().backward()
    torch.testing.assert_close(sum(part.loss for part in found), expected.loss)
    for name, value in expected.metrics.items():
        torch.testing.assert_close(sum(part.metrics[name] for part in found), value)
    torch.testing.assert_close(parts.grad, whole.grad)


@pytest.mark.parametrize(
    ("loss", "values", "tensors"),
    [
        (InfoNCELoss, {"similarity": "euclid"}, None),
        (InfoNCELoss, {"directions": "none"}, None),
        *((kind, {"temperature": value}, None) for value in (0.0, math.inf, math.nan)
          for kind in (InfoNCELoss, SupervisedContrastiveLoss)),
        (PairCosineLoss, {"margin": 1.5}, None),
        (InfoNCELoss, {}, (torch.ones(3, 2), torch.ones(2, 2))),
        *((InfoNCELoss, {"directions": "both"}, (torch.ones(2, 2), torch.ones(n, 2), None, None, torch.tensor([1, 0])))
          for n in (2, 3)),
        *((InfoNCELoss, {}, (torch.ones(4, 2), torch.ones(4, 2), torch.zeros(4, n))) for n in (1, 2, 4)),
        (InfoNCELoss, {}, (torch.ones(1, 2), torch.ones(4, 2), torch.zeros(1), None, torch.zeros(1).long())),
        (InfoNCELoss, {"directions": "both"}, (torch.ones(4, 2), torch.ones(4, 2), torch.zeros(4, 2), torch.zeros(4))),
        (PairCosineLoss, {}, (torch.ones(2, 2), torch.ones(2, 2), torch.tensor([1, -1]))),
        *((ClassificationLoss, {"label_smoothing": value}, None) for value in (-0.1, 1.0, 3.0)),
        *((ClassificationLoss, {"class_weights": (1.0, value)}, None) for value in (-5.0, math.nan)),
        *((MaskedTokenLoss, {"weight": value}, None) for value in (-1, math.inf)),
        *((SubtopicLoss, {name: -1}, None) for name in ("similar_weight", "dissimilar_weight")),
    ],
)  # fmt: skip
def test_what_would_train_something_else_is_refused(loss: Any, values: dict[str, Any], tensors: Any) -> None:
    with pytest.raises(ValueError, match=r"similarity|directions|temperature|margin|candidates|groups|label|weight"):
        loss(**values)(*tensors)
