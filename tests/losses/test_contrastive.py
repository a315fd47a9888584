from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphdoc.losses import InfoNCE, SubDocumentContrast


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


def test_a_hard_negative_costs_more_than_a_random_one() -> None:
    query, positive = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.9, 0.1]])
    hard, easy = torch.tensor([[0.8, 0.2]]), torch.tensor([[-1.0, 0.0]])
    costs = [
        InfoNCE("cosine", 0.1)(query, torch.cat([positive, other]), torch.tensor([0])).loss for other in (hard, easy)
    ]
    assert costs[0] > costs[1] + 0.1


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


@pytest.mark.parametrize(("anchors", "candidates"), [(0, 0), (0, 3), (2, 0), (2, 3)])
def test_without_positives_there_is_no_loss_and_no_gradient(anchors: int, candidates: int) -> None:
    first, second = torch.randn(anchors, 2).requires_grad_(), torch.randn(candidates, 2).requires_grad_()
    output = InfoNCE()(first, second, torch.full((anchors,), -1))
    output.loss.backward()
    assert output.loss.item() == 0
    assert not any(value.item() for value in output.metrics.values())
    for vectors in (first, second):
        assert vectors.grad is not None and not vectors.grad.any()


def test_half_precision_is_compared_in_fp32_under_autocast() -> None:
    torch.manual_seed(0)
    anchors = (100 * torch.randn(8, 16)).bfloat16().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = InfoNCE("cosine", temperature=0.01)(anchors, anchors.detach())
    output.loss.backward()
    assert output.loss.dtype == torch.float32
    assert anchors.grad is not None and torch.isfinite(anchors.grad).all()


@pytest.mark.parametrize(("name", "value"), [("similarity", "euclid"), ("temperature", 0.0)])
def test_settings_out_of_range_are_refused(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{name}.*{value}"):
        InfoNCE(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("anchors", "candidates", "positive", "left_out", "name"),
    [
        ((3, 2), (2, 2), None, None, "positive"),
        ((3, 2), (3, 4), None, None, "candidates"),
        ((3,), (3,), None, None, "anchors"),
        ((3, 2), (4, 2), [0, 1], None, "positive"),
        ((3, 2), (4, 2), [0, 1, 4], None, "row 4"),
        ((3, 2), (4, 2), [0, 1, 2], (3, 3), "left_out"),
    ],
)
def test_what_does_not_fit_is_refused(
    anchors: tuple[int, ...],
    candidates: tuple[int, ...],
    positive: list[int] | None,
    left_out: tuple[int, ...] | None,
    name: str,
) -> None:
    rows = None if positive is None else torch.tensor(positive)
    mask = None if left_out is None else torch.zeros(left_out, dtype=torch.bool)
    with pytest.raises(ValueError, match=name):
        InfoNCE()(torch.randn(anchors), torch.randn(candidates), rows, mask)


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


def test_cosine_and_temperature_change_what_is_compared() -> None:
    draw = np.random.default_rng(0)
    first, second = draw.normal(size=(2, 6, 4))
    unit_first, unit_second = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (first, second))

    loss = SubDocumentContrast("cosine", temperature=0.2)(torch.tensor(first), torch.tensor(second)).loss

    assert loss.item() == pytest.approx(paper_loss(unit_first / 0.2, unit_second), rel=1e-5)


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
    unmasked = SubDocumentContrast(mask_groups=False)(anchors, candidates, groups).loss
    assert unmasked.item() == pytest.approx(paper_loss(anchors.numpy(), candidates.numpy()), rel=1e-5)


def test_the_numbers_to_log_are_those_of_the_batch() -> None:
    vectors = torch.eye(4)
    output = SubDocumentContrast("cosine")(vectors, vectors[[0, 1, 3, 2]])

    assert output.metrics["positive_similarity"].item() == pytest.approx(0.5)
    assert output.metrics["negative_similarity"].item() == pytest.approx((0 + 0 + 1 / 3 + 1 / 3) / 4)
    assert output.metrics["accuracy"].item() == pytest.approx(0.5)
    assert not any(value.requires_grad for value in output.metrics.values())


def test_vectors_in_half_precision_are_compared_in_fp32_under_autocast() -> None:
    anchors = (100 * torch.randn(8, 16)).bfloat16().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = SubDocumentContrast("cosine", temperature=0.01)(anchors, anchors.detach())
    output.loss.backward()

    assert output.loss.dtype == torch.float32
    assert anchors.grad is not None and torch.isfinite(anchors.grad).all()


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"similarity": "euclid"}, "similarity"),
        ({"temperature": 0.0}, "temperature"),
        ({"directions": "none"}, "directions"),
    ],
)
def test_settings_out_of_range_are_refused_by_name(settings: dict, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        SubDocumentContrast(**settings)


def test_views_of_different_numbers_of_documents_are_refused() -> None:
    with pytest.raises(ValueError, match="same"):
        SubDocumentContrast()(torch.randn(3, 2), torch.randn(2, 2))
