from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoc.similarity.background import Background


def test_shares_are_right_on_other_pairs_of_the_same_kind() -> None:
    draw = np.random.default_rng(0)
    for kind in (draw.normal, draw.standard_t, draw.exponential):
        options = {"df": 6} if kind == draw.standard_t else {}
        background = Background.from_scores(kind(size=200_000, **options), 633)
        shares = np.array([background.share(score) for score in kind(size=20_000, **options)])
        for level in (0.1, 0.5, 0.9, 0.99, 0.999):
            # Within four standard errors of a share of 20,000 draws.
            error = 4 * np.sqrt(level * (1 - level) / 20_000)
            assert (shares > level).mean() == pytest.approx(1 - level, abs=error + 0.002 * (level < 0.9))
    # Beyond the scores that are kept it goes on as they did: of exponential scores a share of e^-s is above s.
    background = Background.from_scores(draw.exponential(size=500_000), 1_001)
    for score in (9.0, 11.0, 13.0):
        assert np.log(1 - background.share(score)) == pytest.approx(-score, rel=0.1)
    assert background.share(100.0) <= 1.0
    assert Background.from_values(json.loads(json.dumps(background.to_dict()))) == background


@given(st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=300), st.floats(-1, 2), st.floats(-1, 2))
def test_a_higher_score_never_has_a_lower_share(scores: list[float], first: float, second: float) -> None:
    background = Background.from_scores(np.array(scores), 25)
    low, high = (background.share(score) for score in sorted((first, second)))
    assert 0 <= low <= high <= 1
    assert background.share(min(scores) - 0.1) == 0
    # Of equal scores none is less alike, and nothing is known beyond the closest of the pairs.
    background = Background.from_scores(np.r_[-np.ones(900), np.ones(870)], 60)
    assert background.share(-1.0) == 0 and background.share(1.0) == background.share(1 - 1e-8) < 0.6
    assert background.share(1.5) <= 1 - 1 / 1_770 + 1e-5
    # Of long documents the same score says less.
    lengths = np.repeat([2.0, 6.0], 2_000)
    background = Background.from_scores(np.r_[np.linspace(0, 1, 2_000), np.linspace(1, 2, 2_000)], 90, None, lengths)
    assert background.share(1.0, 2.0) > 0.99 > background.share(1.0) > background.share(1.0, 6.0) == 0
    assert Background.from_values(json.loads(json.dumps(background.to_dict()))) == background
    assert Background(90, (), None, background.by_length).share(1.0) is None


def test_documents_of_a_genre_are_measured_by_their_like() -> None:
    lengths = np.full(1_000, 5.0)
    found = Background.from_scores(np.linspace(1, 2, 1_000), 64, None, lengths)
    genre = replace(found, scores=(), genre="court cases", centre=(1.0, 0.0), closeness=0.5)
    mixed = replace(Background.from_scores(np.linspace(0, 1, 1_000), 64, None, lengths), scores=(), genres=(genre,))
    assert Background.from_values(json.loads(json.dumps(mixed.to_dict()))) == mixed
    of_it, of_none = mixed.of(np.array([[1.0, 0.0], [0.8, 0.6]])), mixed.of(np.array([[1.0, 0.0], [0.0, 1.0]]))
    assert (of_it, of_none) == (genre, mixed) and genre.of(np.array([[1.0, 0.0]])) == genre
    assert of_it.pairs == "unrelated pairs of court cases" and of_none.pairs == "unrelated pairs of mixed texts"
    assert of_none.share(1.1, 5.0) > 0.99 and of_it.share(1.1, 5.0) == pytest.approx(0.1, abs=0.01)
