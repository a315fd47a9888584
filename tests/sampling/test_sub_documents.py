from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoc.sampling import SPLITS, SubDocumentSplit


@given(
    split=st.sampled_from(SPLITS),
    seed=st.integers(0, 2**40),
    epoch=st.integers(0, 100),
    id=st.text(max_size=12),
    passages=st.integers(2, 60),
)
def test_every_passage_is_in_exactly_one_view(split: str, seed: int, epoch: int, id: str, passages: int) -> None:
    anchor, candidate = SubDocumentSplit(split, seed).draw(id, epoch, passages)  # type: ignore[arg-type]

    assert sorted([*anchor, *candidate]) == list(range(passages))
    assert list(anchor) == sorted(anchor)
    assert list(candidate) == sorted(candidate)
    assert len(anchor) == (passages // 2 if split == "half" else 1)


@pytest.mark.parametrize("split", SPLITS)
def test_a_draw_depends_on_seed_epoch_and_id_alone(split: str) -> None:
    def drawn(seed: int, epoch: int, id: str) -> list[int]:
        return SubDocumentSplit(split, seed).draw(id, epoch, 40)[0].tolist()  # type: ignore[arg-type]

    first = [drawn(0, 0, f"document {number}") for number in range(50)]
    np.random.default_rng(0).random(7)
    assert [drawn(0, 0, f"document {number}") for number in reversed(range(50))] == first[::-1]
    for other in ([drawn(1, 0, f"document {number}") for number in range(50)],
                  [drawn(0, 1, f"document {number}") for number in range(50)],
                  [drawn(0, 0, f"other {number}") for number in range(50)]):  # fmt: skip
        assert other != first


def test_halves_are_uniform() -> None:
    counts = np.zeros(10)
    for number in range(2_000):
        counts[SubDocumentSplit("half").draw(str(number), 0, 10)[0]] += 1

    # Five of ten: 1,000 expected, standard deviation 22.
    assert np.abs(counts - 1_000).max() < 110


def test_one_passage_is_the_first_in_half_of_the_draws_and_any_in_the_others() -> None:
    counts = np.zeros(5)
    for number in range(4_000):
        counts[SubDocumentSplit("one_passage").draw(str(number), 0, 5)[0]] += 1

    # 0.5 + 0.5 / 5 for the first, 0.1 for the others.
    np.testing.assert_allclose(counts / 4_000, [0.6, 0.1, 0.1, 0.1, 0.1], atol=0.03)


def test_one_passage_cannot_be_split() -> None:
    with pytest.raises(ValueError, match="'short' has 1 passages"):
        SubDocumentSplit().draw("short", 0, 1)


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(ValueError, match="'quarter' is unknown; use one of half, one_passage"):
        SubDocumentSplit("quarter")  # type: ignore[arg-type]
