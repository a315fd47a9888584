from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoc.similarity.kinds import Background


def test_shares_are_right_on_other_pairs_of_the_same_kind() -> None:
    draw = np.random.default_rng(0)
    for kind in (draw.normal, draw.standard_t, draw.exponential):
        options = {"df": 6} if kind == draw.standard_t else {}
        background = Background.of(kind(size=200_000, **options), 633)
        shares = np.array([background.share(score) for score in kind(size=20_000, **options)])
        for level in (0.1, 0.5, 0.9, 0.99, 0.999):
            # Within four standard errors of a share of 20,000 draws.
            error = 4 * np.sqrt(level * (1 - level) / 20_000)
            assert (shares > level).mean() == pytest.approx(1 - level, abs=error + 0.002 * (level < 0.9))


def test_beyond_the_scores_that_are_kept_the_share_goes_on_as_they_did() -> None:
    # Of exponential scores a share of e^-s is above s.
    background = Background.of(np.random.default_rng(1).exponential(size=500_000), 1_001)
    for score in (9.0, 11.0, 13.0):
        assert np.log(1 - background.share(score)) == pytest.approx(-score, rel=0.1)
    assert background.share(100.0) <= 1.0


@given(st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=300), st.floats(-1, 2), st.floats(-1, 2))
def test_a_higher_score_never_has_a_lower_share(scores: list[float], first: float, second: float) -> None:
    background = Background.of(np.array(scores), 25)
    low, high = (background.share(score) for score in sorted((first, second)))
    assert 0 <= low <= high <= 1
    assert background.share(min(scores) - 0.1) == 0


def test_of_equal_scores_none_is_less_alike() -> None:
    background = Background.of(np.r_[-np.ones(900), np.ones(870)], 60)
    assert background.share(-1.0) == 0 and background.share(1.0) == background.share(1 - 1e-8) < 0.6
    # Nothing is known beyond the closest of the pairs.
    assert background.share(1.5) <= 1 - 1 / 1_770 + 1e-5
    assert Background.of(np.ones(1_770), 60).share(1.0) == 0


def test_it_is_the_same_after_json() -> None:
    background = Background.of(np.random.default_rng(2).normal(size=1_225), 50)
    assert Background.from_values(json.loads(json.dumps(background.to_dict()))) == background
