from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest

from graphdoc.errors import SettingsError
from graphdoc.evaluation.faithfulness.removal_curves import KINDS, Kind
from graphdoc.evaluation.faithfulness.scores import Case, FaithfulnessScores

METHODS = ("contribution", "attention", "random")
IDS = ["a", "a", "b", "c", "c", "c", "d"]


@pytest.fixture
def scores() -> FaithfulnessScores:
    curves = np.random.default_rng(3).random((7, 3, 2, 5))
    cases = tuple(Case(id, f"other {row}", 9, float(curves[row, 0, 0, 0])) for row, id in enumerate(IDS))
    return FaithfulnessScores("similarity", METHODS, cases, curves, {"one_passage": 2}, ("a note",), 300, 7)


def area(values: np.ndarray) -> float:
    return float(sum((a + b) / 2 for a, b in pairwise(values)) / (len(values) - 1))


@pytest.mark.parametrize(("kind", "sign"), [("deletion", -1), ("insertion", 1)])
def test_documents_count_alike_however_many_cases_they_have(scores: FaithfulnessScores, kind: Kind, sign: int) -> None:
    column = KINDS.index(kind)
    rows = {id: [row for row, one in enumerate(IDS) if one == id] for id in "abcd"}
    mean = {
        method: np.mean([scores.curves[rows[id], place, column].mean(axis=0) for id in "abcd"], axis=0)
        for place, method in enumerate(METHODS)
    }
    assert scores.documents == ("a", "b", "c", "d")
    for method in METHODS:
        np.testing.assert_allclose(scores.curve(method, kind), mean[method])
        assert scores.area(method, kind).value == pytest.approx(area(mean[method]))
    ahead = scores.ahead("attention", kind)
    assert ahead.value == pytest.approx(sign * (area(mean["attention"]) - area(mean["random"])))
    between = scores.ahead("attention", kind, "contribution")
    assert between.value == pytest.approx(sign * (area(mean["attention"]) - area(mean["contribution"])))
    assert scores.metrics()[f"attention_{kind}"] == ahead.value


def test_intervals_are_those_of_documents_drawn_anew(scores: FaithfulnessScores) -> None:
    draw = np.random.default_rng(7)
    differences, curves = [], []
    for _ in range(300):
        chosen = draw.integers(4, size=4)
        drawn = np.mean([scores.curves[[row for row, id in enumerate(IDS) if id == "abcd"[one]]].mean(axis=0)
                         for one in chosen], axis=0)  # fmt: skip
        differences.append(area(drawn[2, 0]) - area(drawn[0, 0]))
        curves.append(drawn[0, 0])
    ahead = scores.ahead("contribution", "deletion")
    assert ahead.interval == pytest.approx(np.quantile(differences, [0.025, 0.975]).tolist())
    low, high = np.quantile(curves, [0.025, 0.975], axis=0)
    np.testing.assert_allclose(
        np.array(scores.band("contribution", "deletion"), np.float64), np.stack([low, high], axis=1)
    )
    interval = scores.area("contribution", "deletion").interval
    assert interval is not None and interval[0] < scores.area("contribution", "deletion").value < interval[1]


def test_one_document_has_no_spread(scores: FaithfulnessScores) -> None:
    one = FaithfulnessScores("similarity", METHODS, scores.cases[:2], scores.curves[:2], resamples=300)
    assert one.samples is None
    assert one.band("random", "insertion") == [None] * 5
    assert one.ahead("attention", "deletion").interval is None
    assert one.area("attention", "deletion").interval is None


def test_everything_as_plain_values(scores: FaithfulnessScores) -> None:
    content = json.loads(json.dumps(scores.to_dict(), allow_nan=False))
    assert list(content["methods"]) == list(METHODS)
    found = content["methods"]["attention"]["insertion"]
    assert found["ahead_of"]["random"]["value"] == scores.ahead("attention", "insertion").value
    assert list(found["ahead_of"]) == ["contribution", "random"]
    assert len(found["curve"]) == len(found["band"]) == len(content["fractions"]) == 5
    assert content["cases"][3]["document"] == "c" and content["cases"][3]["other"] == "other 3"
    assert content["cases"][3]["areas"]["random"]["insertion"] == pytest.approx(area(scores.curves[3, 2, 1]))
    assert (content["left_out"], content["notes"]) == ({"one_passage": 2}, ["a note"])


def test_unknown_curves_are_refused(scores: FaithfulnessScores) -> None:
    with pytest.raises(SettingsError, match=r"'words', 'deletion'.*contribution"):
        scores.curve("words", "deletion")
    with pytest.raises(SettingsError, match="'removal'"):
        scores.area("random", "removal")  # type: ignore[arg-type]
