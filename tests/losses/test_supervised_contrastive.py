from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphdoc.losses import SupervisedContrastive


def paper_loss(rows: np.ndarray, labels: list[int], temperature: float) -> float:
    """The equation of section 3.3, term by term, as a mean over the anchors that have a positive."""
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    anchors = []
    for i, label in enumerate(labels):
        positives = [j for j, other in enumerate(labels) if other == label and j != i]
        if not positives:
            continue
        below = sum(np.exp(unit[i] @ unit[k] / temperature) for k in range(len(unit)) if k != i)
        terms = [np.log(np.exp(unit[i] @ unit[j] / temperature) / below) for j in positives]
        anchors.append(-1 / len(positives) * sum(terms))
    return float(np.mean(anchors)) if anchors else 0.0


@given(
    labels=st.lists(st.integers(-2, 3), min_size=1, max_size=12),
    hidden=st.integers(1, 6),
    temperature=st.sampled_from([0.05, 0.5, 2.0]),
    seed=st.integers(0, 1000),
)
def test_it_is_the_papers_loss(labels: list[int], hidden: int, temperature: float, seed: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(len(labels), hidden))
    vectors = torch.tensor(rows).requires_grad_()

    output = SupervisedContrastive(temperature)(vectors, torch.tensor(labels))
    output.loss.backward()

    assert output.loss.item() == pytest.approx(paper_loss(rows, labels, temperature), rel=1e-4, abs=1e-5)
    assert output.loss.dtype == torch.float32
    assert vectors.grad is not None and torch.isfinite(vectors.grad).all()


def test_its_gradient_is_that_of_the_papers_loss() -> None:
    rows, labels = np.random.default_rng(0).normal(size=(7, 4)), [1, 1, 0, 2, 1, 0, 3]
    vectors = torch.tensor(rows).requires_grad_()
    SupervisedContrastive()(vectors, torch.tensor(labels)).loss.backward()

    expected = np.zeros_like(rows)
    for place in np.ndindex(rows.shape):
        moved = np.zeros_like(rows)
        moved[place] = 1e-5
        expected[place] = (paper_loss(rows + moved, labels, 0.5) - paper_loss(rows - moved, labels, 0.5)) / 2e-5
    assert vectors.grad is not None
    np.testing.assert_allclose(vectors.grad.numpy(), expected, atol=1e-6)
    # The only row of its label is no anchor, but others are driven away from it.
    assert np.abs(expected[3]).max() > 1e-3


def test_its_gradient_moves_rows_of_one_label_together() -> None:
    torch.manual_seed(0)
    vectors, labels = torch.randn(6, 3).requires_grad_(), torch.tensor([0, 0, 0, 1, 1, 1])
    loss = SupervisedContrastive()
    before = loss(vectors, labels)
    for _ in range(300):
        (gradient,) = torch.autograd.grad(loss(vectors, labels).loss, vectors)
        vectors = (vectors - gradient).detach().requires_grad_()
    after = loss(vectors, labels)

    for metrics in (before.metrics, after.metrics):
        assert not any(value.requires_grad for value in metrics.values())
    assert after.metrics["positive_similarity"] > 0.99 > before.metrics["positive_similarity"]
    assert after.metrics["negative_similarity"] < -0.9 < before.metrics["negative_similarity"]


@pytest.mark.parametrize("labels", [[], [5], [0, 1, 2, 3]])
def test_a_batch_without_positives_has_no_loss_and_no_gradient(labels: list[int]) -> None:
    vectors = torch.randn(len(labels), 3).requires_grad_()
    output = SupervisedContrastive()(vectors, torch.tensor(labels, dtype=torch.int64))
    output.loss.backward()

    assert output.loss.item() == 0
    assert vectors.grad is not None
    assert torch.equal(vectors.grad, torch.zeros_like(vectors))
    metrics = {name: value.item() for name, value in output.metrics.items()}
    assert metrics == {
        "positive_similarity": 0,
        "negative_similarity": 0,
        "accuracy": 0,
        "skipped_anchors": len(labels),
        "without_positives": 1,
    }


def test_the_numbers_to_log_are_those_of_the_anchors() -> None:
    # Two rows at right angles of the first label, two equal ones of the second, and a lone one at the first row.
    x, y = [1.0, 0.0], [0.0, 1.0]
    vectors, labels = torch.tensor([x, y, y, y, x]), torch.tensor([0, 0, 1, 1, 2])
    metrics = {name: value.item() for name, value in SupervisedContrastive()(vectors, labels).metrics.items()}

    assert metrics.pop("positive_similarity") == pytest.approx((0 + 0 + 1 + 1) / 4)
    assert metrics.pop("negative_similarity") == pytest.approx((1 / 3 + 2 / 3 + 1 / 3 + 1 / 3) / 4)
    # All nearest rows tie with one of another label.
    assert metrics == {"accuracy": 0, "skipped_anchors": 1, "without_positives": 0}
    vectors[1] = torch.tensor([0.8, 0.6])
    assert SupervisedContrastive()(vectors, labels).metrics["accuracy"].item() == pytest.approx(2 / 4)


def test_all_rows_of_one_label_have_no_negatives() -> None:
    output = SupervisedContrastive()(torch.eye(4), torch.zeros(4, dtype=torch.int64))
    assert output.loss.item() == pytest.approx(np.log(3))
    assert output.metrics["negative_similarity"].item() == 0


def test_vectors_in_half_precision_are_compared_in_fp32_under_autocast() -> None:
    torch.manual_seed(0)
    vectors = (100 * torch.randn(8, 16)).bfloat16().requires_grad_()
    labels = torch.tensor([0, 0, 1, 1, 2, 2, 3, 3])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = SupervisedContrastive(0.01)(vectors, labels)
    output.loss.backward()

    assert output.loss.dtype == torch.float32
    exact = paper_loss(vectors.detach().double().numpy(), labels.tolist(), 0.01)
    assert output.loss.item() == pytest.approx(exact, rel=1e-5)
    assert vectors.grad is not None and torch.isfinite(vectors.grad).all()


@pytest.mark.parametrize("temperature", [0.0, -1.0, 9e-5, float("inf"), float("nan")])
def test_a_temperature_out_of_range_is_refused(temperature: float) -> None:
    with pytest.raises(ValueError, match=r"temperature=\S+ must be at least 0.0001 and finite"):
        SupervisedContrastive(temperature)


@pytest.mark.parametrize(("vectors", "labels"), [((3, 2), (2,)), ((3,), (3,)), ((3, 2), (3, 1))])
def test_shapes_that_do_not_fit_are_refused(vectors: tuple[int, ...], labels: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="must have the shapes"):
        SupervisedContrastive()(torch.randn(vectors), torch.zeros(labels, dtype=torch.int64))
