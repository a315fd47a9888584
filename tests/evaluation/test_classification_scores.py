from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score

from graphdoc.errors import EvaluationError
from graphdoc.evaluation.classification import (
    BINS,
    calibration,
    classification_scores,
)

CLASSES = ("a", "b", "c")


def one(text: str) -> list[tuple[str, ...]]:
    return [(name,) for name in text]


class TestSingleLabels:
    def test_by_hand(self) -> None:
        scores = classification_scores(one("aaabbc"), one("aabbbb"), CLASSES)
        assert scores.accuracy == scores.micro_f1 == pytest.approx(4 / 6)
        assert [(c.label, c.documents, c.given) for c in scores.classes] == [("a", 3, 2), ("b", 2, 4), ("c", 1, 0)]
        assert [(c.precision, c.recall) for c in scores.classes] == [(1, pytest.approx(2 / 3)), (0.5, 1), (0, 0)]
        f1 = [2 * 1 * (2 / 3) / (1 + 2 / 3), 2 * 0.5 / 1.5, 0]
        assert [c.f1 for c in scores.classes] == pytest.approx(f1)
        assert scores.macro_f1 == pytest.approx(np.mean(f1))
        assert scores.confusion is not None
        assert scores.confusion.tolist() == [[2, 1, 0], [0, 2, 0], [0, 1, 0]]
        assert (scores.accuracy_known, scores.unknown, scores.calibration) == (scores.accuracy, {}, None)
        assert scores.metrics() == {"accuracy": scores.accuracy, "macro_f1": scores.macro_f1}

    @given(st.lists(st.tuples(st.sampled_from("abcx"), st.sampled_from("abc")), min_size=1, max_size=30))
    def test_as_scikit_learn_has_it(self, pairs: list[tuple[str, str]]) -> None:
        truth, found = zip(*pairs, strict=True)
        scores = classification_scores(one("".join(truth)), one("".join(found)), CLASSES)
        assert scores.accuracy == pytest.approx(accuracy_score(truth, found))
        assert scores.macro_f1 == pytest.approx(f1_score(truth, found, average="macro", zero_division=0.0))
        assert scores.micro_f1 == pytest.approx(f1_score(truth, found, average="micro"))
        assert scores.confusion is not None and scores.confusion.sum() == len(pairs)

    def test_labels_that_the_model_does_not_know_count_as_missed(self) -> None:
        scores = classification_scores(one("aaxyx"), one("aabab"), CLASSES)
        assert scores.unknown == {"x": 2, "y": 1}
        assert scores.accuracy == pytest.approx(2 / 5)
        assert scores.accuracy_known == 1
        assert [c.label for c in scores.classes] == ["a", "b", "c", "x", "y"]
        assert [one.label for one in scores.classes if one.label not in scores.unknown] == list(CLASSES)
        assert scores.confusion is not None
        assert scores.confusion.tolist() == [[2, 0, 0], [0, 0, 0], [0, 0, 0], [0, 2, 0], [1, 0, 0]]
        assert scores.macro_f1 == pytest.approx((0.8 + 0 + 0 + 0) / 4)
        assert classification_scores(one("x"), one("a"), CLASSES).accuracy_known is None

    def test_calibration_goes_by_the_class_that_is_given(self) -> None:
        probabilities = np.array([[0.9, 0.1, 0], [0.1, 0.9, 0], [0.5, 0.3, 0.2]], np.float32)
        scores = classification_scores(one("aax"), one("aba"), CLASSES, probabilities)
        assert scores.calibration is not None
        # At 0.9 one of two is right, at 0.5 none of one.
        assert scores.calibration.error == pytest.approx((2 * 0.4 + 0.5) / 3, abs=1e-6)
        assert scores.metrics()["calibration_error"] == scores.calibration.error


class TestSeveralLabels:
    TRUTH = (("a",), ("a", "b"), (), ("b", "x"))
    FOUND = (("a",), ("a",), ("c",), ("b",))

    @given(st.lists(st.tuples(st.sets(st.sampled_from("abc")), st.sets(st.sampled_from("abc"))), min_size=1))
    def test_as_scikit_learn_has_it(self, pairs: list[tuple[set[str], set[str]]]) -> None:
        truth, found = zip(*((tuple(sorted(a)), tuple(sorted(b))) for a, b in pairs), strict=True)
        matrices = [np.array([[name in own for name in CLASSES] for own in labels]) for labels in (truth, found)]
        scores = classification_scores(truth, found, CLASSES, multi_label=True)
        assert scores.accuracy == pytest.approx(accuracy_score(*matrices))
        assert scores.micro_f1 == pytest.approx(f1_score(*matrices, average="micro", zero_division=0.0))
        occurs = matrices[0].any(0) | matrices[1].any(0)
        expected = f1_score(*matrices, average=None, zero_division=0.0)[occurs]
        assert scores.macro_f1 == pytest.approx(expected.mean() if occurs.any() else 0)

    def test_calibration_is_over_all_decisions(self) -> None:
        probabilities = np.array([[0.8, 0.2, 0.2]] * 3 + [[0.8, 0.8, 0.2]])
        scores = classification_scores(self.TRUTH, self.FOUND, CLASSES, probabilities, multi_label=True)
        assert scores.calibration is not None
        # At 0.8 three of five are so: a, a, not a, not a, b; at 0.2 one of seven: b.
        assert scores.calibration.error == pytest.approx((5 * abs(0.8 - 3 / 5) + 7 * abs(0.2 - 1 / 7)) / 12)
        assert sum(scores.calibration.counts) == 12


def test_what_cannot_be_measured() -> None:
    with pytest.raises(EvaluationError, match="no documents"):
        classification_scores([], [], CLASSES)
    with pytest.raises(EvaluationError, match="2 of 2"):
        classification_scores([("a",), ("b",)], [("a",), ("b",)], CLASSES, np.full((2, 3), np.nan))


class TestCalibration:
    @given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=40))
    def test_by_definition(self, predictions: list[tuple[float, bool]]) -> None:
        p, right = (np.array(values) for values in zip(*predictions, strict=True))
        found, total = calibration(p, right), 0.0
        for number in range(BINS):
            low, high = number / BINS, (number + 1) / BINS
            inside = (p * BINS > number if number else p >= 0) & (p * BINS <= number + 1)
            assert found.counts[number] == inside.sum(), (low, high)
            if inside.any():
                total += inside.sum() * abs(p[inside].mean() - right[inside].mean())
        assert found.error == pytest.approx(total / len(p))
        assert 0 <= found.error <= 1
