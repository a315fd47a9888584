from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphdoc.losses import CosineMatching

Array = npt.NDArray[np.float64]


def cosines_of(vectors: Array) -> Array:
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(unit @ unit.T)


def vectors_of(count: int, seed: int) -> tuple[Array, Array]:
    draw = np.random.default_rng(seed)
    return draw.normal(size=(count, 3)), draw.normal(size=(count, 5))


@given(count=st.integers(2, 8), seed=st.integers(0, 1000))
def test_without_temperature_it_is_the_mean_square(count: int, seed: int) -> None:
    student, teacher = vectors_of(count, seed)
    found, wanted = cosines_of(student), cosines_of(teacher)
    pairs = [(found[i, j], wanted[i, j]) for i in range(count) for j in range(count) if i != j]

    output = CosineMatching()(torch.tensor(student), torch.tensor(teacher))

    assert output.loss.item() == pytest.approx(np.mean([(s - t) ** 2 for s, t in pairs]), rel=1e-4, abs=1e-6)
    assert output.metrics["cosine_error"].item() == pytest.approx(np.mean([abs(s - t) for s, t in pairs]), abs=1e-5)
    # Where one of both hardly varies, the correlation is that of the last digits.
    if np.std(pairs, axis=0).min() > 0.05:
        correlation = np.corrcoef(np.array(pairs).T)[0, 1]
        assert output.metrics["correlation"].item() == pytest.approx(correlation, abs=1e-3)


@given(count=st.integers(2, 8), temperature=st.sampled_from([0.05, 0.3, 2.0]), seed=st.integers(0, 1000))
def test_with_a_temperature_it_is_the_divergence_of_neighbours(count: int, temperature: float, seed: int) -> None:
    student, teacher = vectors_of(count, seed)
    terms = []
    for row in range(count):
        others = [other for other in range(count) if other != row]
        q, p = (np.exp(cosines_of(vectors)[row, others] / temperature) for vectors in (student, teacher))
        p, q = p / p.sum(), q / q.sum()
        terms.append(float((p * np.log(p / q)).sum()))

    loss = CosineMatching(temperature)(torch.tensor(student), torch.tensor(teacher)).loss

    assert loss.item() == pytest.approx(np.mean(terms), rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("temperature", [None, 0.1])
def test_the_gradient_goes_to_the_student_alone(temperature: float | None) -> None:
    torch.manual_seed(0)
    student, teacher = torch.randn(6, 4, requires_grad=True), torch.randn(6, 9, requires_grad=True)
    loss = CosineMatching(temperature)
    before = loss(student, teacher).loss
    before.backward()
    assert teacher.grad is None
    assert student.grad is not None and student.grad.abs().max() > 1e-4
    after = loss(student.detach() - 0.1 * student.grad, teacher).loss
    assert after < before
    # Cosines do not change with the length of vectors, so that no gradient goes along them.
    torch.testing.assert_close((student.grad * student.detach()).sum(dim=1), torch.zeros(6), atol=1e-5, rtol=0)


@pytest.mark.parametrize("temperature", [None, 0.1])
def test_a_teacher_that_turns_and_stretches_the_student_has_nothing_to_teach(temperature: float | None) -> None:
    torch.manual_seed(0)
    student = torch.randn(7, 4)
    turn = torch.linalg.qr(torch.randn(4, 4)).Q
    output = CosineMatching(temperature)(student, 3 * student @ turn)
    assert output.loss.item() == pytest.approx(0, abs=1e-6)
    assert output.metrics["correlation"].item() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("temperature", [None, 0.1])
@pytest.mark.parametrize("rows", [0, 1])
def test_nothing_to_compare_has_no_loss(rows: int, temperature: float | None) -> None:
    student = torch.ones(rows, 3, requires_grad=True)
    output = CosineMatching(temperature)(student, torch.ones(rows, 2))
    output.loss.backward()
    assert output.loss.item() == 0 and output.metrics["correlation"].item() == 0
    assert student.grad is not None and not student.grad.any()


def test_half_precision_is_compared_in_fp32_under_autocast() -> None:
    torch.manual_seed(0)
    student, teacher = torch.randn(8, 16).bfloat16(), torch.randn(8, 16).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = CosineMatching(0.1)(student, teacher)
    assert output.loss.dtype == torch.float32
    assert output.loss.item() == pytest.approx(CosineMatching(0.1)(student.double(), teacher.double()).loss.item())


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must be \(rows, hidden\)"):
        CosineMatching()(torch.randn(3, 2), torch.randn(2, 2))
    with pytest.raises(ValueError, match=r"temperature=0 must be at least"):
        CosineMatching(0)
