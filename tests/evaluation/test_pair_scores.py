from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from graphdoc.errors import EvaluationError
from graphdoc.evaluation import best_threshold, score_pairs
from graphdoc.evaluation.pair_scores import METRICS, standard_scores

# Few different similarities, so that there are ties.
CASES = st.lists(st.tuples(st.integers(0, 1), st.integers(-5, 5)), min_size=1, max_size=25)


def by_hand(labels: np.ndarray, found: np.ndarray) -> dict[str, float]:
    """Precision, recall, F1 and accuracy by their definitions."""
    hits, false, missed = (int((found & (labels == 1)).sum()), int((found & (labels == 0)).sum()),
                           int((~found & (labels == 1)).sum()))  # fmt: skip
    precision, recall = (hits / whole if whole else 0.0 for whole in (hits + false, hits + missed))
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return {"precision": precision, "recall": recall, "f1": f1, "accuracy": float(np.mean(found == (labels == 1)))}


@given(CASES, st.sampled_from(["f1", "accuracy"]))
def test_no_threshold_is_better_than_the_best(cases: list[tuple[int, int]], by: str) -> None:
    labels, scores = np.array([*cases, (1, 0)]).T
    scores = scores / 10
    threshold = best_threshold(labels.tolist(), scores, by)  # type: ignore[arg-type]
    reached = by_hand(labels, scores >= threshold)[by]
    everything = {other: by_hand(labels, scores >= other)[by] for other in np.arange(-0.65, 0.7, 0.05)}
    assert reached == pytest.approx(max(everything.values()))
    # It is the highest of the best, halfway to the next similarity below.
    best = [other for other, value in everything.items() if value == pytest.approx(reached) and other <= scores.max()]
    assert (scores >= threshold).sum() == ((scores >= max(best)).sum() if best else 0)
    above, below = scores[scores >= threshold], scores[scores < threshold]
    if len(above) and len(below):
        assert threshold == pytest.approx((above.min() + below.max()) / 2)


def test_thresholds_between_neighbouring_numbers() -> None:
    low = 0.1
    high = float(np.nextafter(low, 1))
    assert best_threshold([0, 1], [low, high]) == high
    # Accuracy is best with no pair at all, which a finite threshold has to say.
    above = best_threshold([0, 0, 1], [0.5, 0.5, 0.1], "accuracy")
    assert 0.5 < above < 0.51
    assert best_threshold([1, 1], [0.5, 0.2]) == 0.2


@given(CASES, st.integers(0, 50))
def test_every_resample_is_measured_as_its_pairs_are(cases: list[tuple[int, int]], seed: int) -> None:
    labels, scores = np.array(cases).T
    scores = scores / 10
    found = score_pairs(labels.tolist(), scores, 0.1, resamples=4, seed=seed)
    draw = np.random.default_rng(seed)
    for number in range(4):
        rows = draw.integers(len(labels), size=len(labels))
        expected = by_hand(labels[rows], scores[rows] >= 0.1)
        if 0 < labels[rows].sum() < len(rows):
            expected["auc"] = roc_auc_score(labels[rows], scores[rows])
            expected["average_precision"] = average_precision_score(labels[rows], scores[rows])
        for name, estimate in found.estimates.items():
            assert estimate.samples is not None
            assert estimate.samples[number] == pytest.approx(expected.get(name, np.nan), nan_ok=True)


def test_values_and_intervals() -> None:
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 2, 400)
    scores = labels + draw.normal(size=400)
    found = score_pairs(labels, scores, 0.5)
    auc = np.mean([a > b for a in scores[labels == 1] for b in scores[labels == 0]])
    expected = {**by_hand(labels, scores >= 0.5), "auc": auc}
    assert {name: found.values[name] for name in expected} == pytest.approx(expected)
    assert found.values["average_precision"] == pytest.approx(average_precision_score(labels, scores))
    assert (found.pairs, found.similar, found.threshold) == (400, labels.sum(), 0.5)
    for estimate in found.estimates.values():
        low, high = estimate.interval or (0, 0)
        # About 4 standard errors wide.
        assert low < estimate.value < high and 0.03 < high - low < 0.2
    plain = found.to_dict()
    assert plain["intervals"]["auc"] == list(found.estimates["auc"].interval or ())
    assert set(plain) == {"pairs", "similar", "threshold", "intervals", *METRICS}


@pytest.mark.parametrize("label", [0, 1])
def test_pairs_of_one_label_have_no_ranking(label: int) -> None:
    found = score_pairs([label] * 3, [0.1, 0.2, 0.3], 0.15, resamples=5)
    assert found.values["auc"] is None and found.values["average_precision"] is None
    assert found.to_dict()["intervals"]["auc"] is None
    assert found.values["accuracy"] == pytest.approx(1 / 3 if label == 0 else 2 / 3)


def test_differences_are_taken_resample_by_resample() -> None:
    draw = np.random.default_rng(2)
    labels = draw.integers(0, 2, 300)
    scores = labels + draw.normal(size=300)
    a, b = (score_pairs(labels, values, 0.5) for values in (scores + 0.3 * labels, scores))
    found = a.ahead_of(b)["auc"]
    assert found.value == a.values["auc"] - b.values["auc"] > 0  # type: ignore[operator]
    low, high = found.interval or (0, 0)
    # Both similarities go together, which two separate intervals do not show.
    assert 0 < low < found.value < high
    assert high - low < 0.6 * np.subtract(*(a.estimates["auc"].interval or (0, 0))[::-1])


def test_bad_input() -> None:
    for labels, similarities, value in (
        ([], [], "no pairs"),
        ([1, 0, 1], [0.2, 0.3], "2 similarities for 3 pairs"),
        ([1, 0, 1], [np.nan, 0.2, 0.3], "1 of 3 similarities"),
    ):
        for measure in (best_threshold, partial(score_pairs, threshold=0.5)):
            with pytest.raises(EvaluationError, match=value):
                measure(labels, similarities)


def test_z_scores_of_numbers_that_differ_by_rounding_alone() -> None:
    draw = np.random.default_rng(0)
    values, same = draw.normal(3, 2, 9), 7 + draw.normal(0, 1e-9, 9)
    np.testing.assert_allclose(standard_scores(values, values[:4]), (values - values[:4].mean()) / values[:4].std())
    assert same.std() > 0 and standard_scores(same).tolist() == [0] * 9
