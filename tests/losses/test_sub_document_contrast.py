from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphdoc.losses import SubDocumentContrast


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
