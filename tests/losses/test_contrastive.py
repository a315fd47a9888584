from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphdoc.losses import InfoNCE, SubDocumentContrast, SupervisedContrastive


def loss_by_hand(
    similarity: np.ndarray, positives: list[list[int]], left_out: np.ndarray, temperature: float
) -> float:
    """The mean over anchors and their positives of the negative log of a softmax over that positive and negatives."""
    anchors = []
    for i, own in enumerate(positives):
        negatives = [j for j in range(similarity.shape[1]) if j not in own and not left_out[i, j]]
        terms = []
        for p in own:
            exponents = [np.exp(similarity[i, j] / temperature) for j in (p, *negatives)]
            terms.append(-np.log(exponents[0] / sum(exponents)))
        if terms:
            anchors.append(np.mean(terms))
    return float(np.mean(anchors)) if anchors else 0.0


@given(
    anchors=st.integers(1, 7),
    candidates=st.integers(1, 12),
    most=st.integers(1, 4),
    kind=st.sampled_from(["dot", "cosine"]),
    temperature=st.sampled_from([0.2, 1.0]),
    seed=st.integers(0, 1000),
)
def test_several_positives_hard_negatives_and_pairs_left_out(
    anchors: int, candidates: int, most: int, kind: str, temperature: float, seed: int
) -> None:
    draw = np.random.default_rng(seed)
    first, second = draw.normal(size=(anchors, 3)), draw.normal(size=(candidates, 3))
    # Anchors have any number of positives, none included; most candidates are nobody's positive.
    positives = [sorted(draw.permutation(candidates)[: draw.integers(most + 1)].tolist()) for _ in range(anchors)]
    positive = np.full((anchors, most), -1)
    for row, own in zip(positive, positives, strict=True):
        row[draw.permutation(most)[: len(own)]] = own
    left_out = draw.random((anchors, candidates)) < 0.3
    units = first, second
    if kind == "cosine":
        units = tuple(rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in units)
    vectors = torch.tensor(first).requires_grad_()

    output = InfoNCE(kind, temperature)(  # type: ignore[arg-type]
        vectors, torch.tensor(second), torch.tensor(positive), torch.tensor(left_out)
    )
    output.loss.backward()

    expected = loss_by_hand(units[0] @ units[1].T, positives, left_out, temperature)
    assert output.loss.item() == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert vectors.grad is not None and torch.isfinite(vectors.grad).all()


def test_its_gradient_is_that_of_the_formula() -> None:
    draw = np.random.default_rng(0)
    first, second = draw.normal(size=(3, 4)), draw.normal(size=(6, 4))
    positives, left_out = [[0, 2], [], [5]], np.zeros((3, 6), bool)
    left_out[0, 4] = left_out[2, 5] = True
    vectors = [torch.tensor(rows).requires_grad_() for rows in (first, second)]
    InfoNCE()(*vectors, torch.tensor([[2, 0], [-1, -1], [5, -1]]), torch.tensor(left_out)).loss.backward()

    for rows, vector in zip((first, second), vectors, strict=True):
        expected = np.zeros_like(rows)
        for place in np.ndindex(rows.shape):
            ends = []
            for step in (1e-5, -1e-5):
                rows[place] += step
                ends.append(loss_by_hand(first @ second.T, positives, left_out, 1.0))
                rows[place] -= step
            expected[place] = (ends[0] - ends[1]) / 2e-5
        assert vector.grad is not None
        np.testing.assert_allclose(vector.grad.numpy(), expected, atol=1e-6)
        assert np.abs(expected).max() > 1e-3


def test_the_numbers_to_log_are_means_over_anchors_with_a_positive() -> None:
    anchors, candidates = torch.eye(3), torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.5, 0.0]])
    left_out = torch.zeros(3, 3, dtype=torch.bool)
    left_out[0, 1] = left_out[0, 0] = True
    output = InfoNCE()(anchors, candidates, torch.tensor([[0, -1], [2, -1], [-1, -1]]), left_out)
    metrics = {name: value.item() for name, value in output.metrics.items()}
    assert metrics == pytest.approx(
        # A positive stays one, whatever is left out.
        {"positive_similarity": 0.75, "negative_similarity": 0.25, "accuracy": 0.5, "left_out_share": 1 / 6}
    )
    assert not any(value.requires_grad for value in output.metrics.values())


@pytest.mark.parametrize(("anchors", "candidates"), [(0, 3), (2, 0), (2, 3)])
def test_without_positives_there_is_no_loss_and_no_gradient(anchors: int, candidates: int) -> None:
    first, second = torch.randn(anchors, 2).requires_grad_(), torch.randn(candidates, 2).requires_grad_()
    output = InfoNCE()(first, second, torch.full((anchors,), -1))
    output.loss.backward()
    assert output.loss.item() == 0
    assert not any(value.item() for value in output.metrics.values())
    for vectors in (first, second):
        assert vectors.grad is not None and not vectors.grad.any()


def paper_loss(first: np.ndarray, second: np.ndarray) -> float:
    """Equations 5 and 6 of the Graph-RoBERTa paper, term by term."""
    count = len(first)
    total = 0.0
    for i in range(count):
        positive = np.exp(first[i] @ second[i])
        over_second = sum(np.exp(first[i] @ second[j]) for j in range(count))
        over_first = sum(np.exp(first[j] @ second[i]) for j in range(count))
        total += -np.log(positive / over_second) - np.log(positive / over_first)
    return total / (2 * count)


@given(documents=st.integers(1, 9), hidden=st.integers(1, 6), seed=st.integers(0, 1000))
def test_it_is_the_papers_loss(documents: int, hidden: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    first, second = draw.normal(size=(2, documents, hidden))

    loss = SubDocumentContrast()(torch.tensor(first), torch.tensor(second)).loss

    assert loss.item() == pytest.approx(paper_loss(first, second), rel=1e-5, abs=1e-6)


def test_one_direction_looks_from_the_anchors_only() -> None:
    draw = np.random.default_rng(1)
    anchors, candidates = draw.normal(size=(2, 5, 3))
    logits = anchors @ candidates.T
    expected = np.mean([np.log(np.exp(logits[i]).sum()) - logits[i, i] for i in range(5)])

    one = SubDocumentContrast(directions="one")(torch.tensor(anchors), torch.tensor(candidates)).loss
    both = SubDocumentContrast()(torch.tensor(anchors), torch.tensor(candidates)).loss

    assert one.item() == pytest.approx(expected, rel=1e-5)
    assert one.item() != pytest.approx(both.item(), rel=1e-3)


def test_documents_of_one_group_are_no_negatives_of_each_other() -> None:
    draw = np.random.default_rng(2)
    anchors, candidates = torch.tensor(draw.normal(size=(2, 4, 3)))
    groups = torch.tensor([7, 1, 7, 2])
    kept = {0: [0, 1, 3], 1: [0, 1, 2, 3], 2: [1, 2, 3], 3: [0, 1, 2, 3]}
    logits = (anchors @ candidates.T).numpy()
    terms = [np.log(np.exp(logits[i, kept[i]]).sum()) - logits[i, i] for i in range(4)]
    terms += [np.log(np.exp(logits[kept[i], i]).sum()) - logits[i, i] for i in range(4)]

    output = SubDocumentContrast()(anchors, candidates, groups)

    assert output.loss.item() == pytest.approx(np.mean(terms), rel=1e-5)
    assert output.metrics["left_out_share"].item() == pytest.approx(2 / 16)
    unmasked = SubDocumentContrast()(anchors, candidates).loss
    assert unmasked.item() == pytest.approx(paper_loss(anchors.numpy(), candidates.numpy()), rel=1e-5)


def supervised_loss(rows: np.ndarray, labels: list[int], temperature: float) -> float:
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
def test_it_is_the_supervised_loss_of_the_paper(labels: list[int], hidden: int, temperature: float, seed: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(len(labels), hidden))
    vectors = torch.tensor(rows).requires_grad_()

    output = SupervisedContrastive(temperature)(vectors, torch.tensor(labels))
    output.loss.backward()

    assert output.loss.item() == pytest.approx(supervised_loss(rows, labels, temperature), rel=1e-4, abs=1e-5)
    assert output.loss.dtype == torch.float32
    assert vectors.grad is not None and torch.isfinite(vectors.grad).all()


def test_the_supervised_gradient_is_that_of_its_formula() -> None:
    rows, labels = np.random.default_rng(0).normal(size=(7, 4)), [1, 1, 0, 2, 1, 0, 3]
    vectors = torch.tensor(rows).requires_grad_()
    SupervisedContrastive()(vectors, torch.tensor(labels)).loss.backward()

    expected = np.zeros_like(rows)
    for place in np.ndindex(rows.shape):
        moved = np.zeros_like(rows)
        moved[place] = 1e-5
        expected[place] = (
            supervised_loss(rows + moved, labels, 0.5) - supervised_loss(rows - moved, labels, 0.5)
        ) / 2e-5
    assert vectors.grad is not None
    np.testing.assert_allclose(vectors.grad.numpy(), expected, atol=1e-6)
    # The only row of its label is no anchor, but others are driven away from it.
    assert np.abs(expected[3]).max() > 1e-3


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
