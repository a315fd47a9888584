"""Rankings measured: by definition, side by side, and with the weight of a fusion chosen by cross-validation."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphdoc.evaluation import RankedDocuments, RankingTable, best_weight, score_run
from graphdoc.evaluation.measures import DEFAULT_MEASURES, MEASURES, Measure
from graphdoc.evaluation.resampling import resampled
from graphdoc.evaluation.trec import source_documents

pytest.importorskip("ir_measures")

BY_HAND = (
    "nDCG@1", "nDCG@3", "nDCG", "P@1", "P@20", "MRR", "MRR@2", "MAP", "MAP@3", "recall@3", "recall@100", "success@5",
)  # fmt: skip
DOCUMENTS = "abcdefghijkl"


def test_measures_by_hand() -> None:
    run = {"q1": {"a": 3.0, "b": 2.0, "c": 1.0, "d": 0.0}, "q2": {"b": 1.0}, "q4": {"a": 1.0}}
    # What is judged below 1 is not relevant; q3 has no ranking, and q4 no relevant document.
    qrels = {"q1": {"b": 2, "d": 1, "e": 1, "a": -1}, "q2": {"b": 1}, "q3": {"a": 1}, "q4": {"a": 0}}
    found = score_run(run, qrels, BY_HAND)
    gain, ideal = 2 / np.log2(3) + 1 / np.log2(5), 2 + 1 / np.log2(3) + 1 / 2
    first = [0, 2 / np.log2(3) / ideal, gain / ideal, 0, 2 / 20, 1 / 2, 1 / 2, 1 / 3, 1 / 6, 1 / 3, 2 / 3, 1]
    assert found.queries == ("q1", "q2", "q3")
    np.testing.assert_allclose(found.values, [first, [1, 1, 1, 1, 1 / 20, *[1] * 7], [0] * 12], atol=1e-12)
    assert list(found.means.values()) == pytest.approx(found.values.mean(axis=0).tolist())


def test_equal_scores_go_by_id() -> None:
    qrels = {"q1": {"b": 1}}
    assert score_run({"q1": {"b": 1.0, "a": 1.0}}, qrels, ["mrr"]).means == {"MRR": 0.5}
    assert score_run({"q1": {"b": 1.0, "c": 1.0}}, qrels, ["mrr"]).means == {"MRR": 1.0}
    # The libraries beneath would take these for equal, or go by another order of ids.
    assert score_run({"q1": {"c": 1.0, "b": 1.0 + 1e-15}}, qrels, ["map", "p@1"]).means == {"MAP": 1.0, "P@1": 1.0}


def test_source_documents_are_dropped_on_both_sides() -> None:
    run = {"q:a": {"a": 3.0, "b": 2.0, "c": 1.0}, "q:d": {"d": 1.0}, "q:e": {"e": 2.0, "b": 1.0}}
    qrels = {"q:a": {"a": 2, "c": 1}, "q:d": {"d": 2}, "q:e": {"e": 2, "b": 1}}
    found = score_run(run, qrels, ["mrr@10", "recall@5"], excluded=source_documents(qrels, grade=2))
    assert (found.queries, found.values.tolist()) == (("q:a", "q:e"), [[0.5, 1.0], [1.0, 1.0]])


def test_measures_as_users_write_them() -> None:
    for text, name in (
        (" ndcg@5 ", "nDCG@5"),
        ("AP@100", "MAP@100"),
        ("Precision@5", "P@5"),
        ("RR", "MRR"),
        ("R@100", "recall@100"),
        ("hr-PUBLISHED@3", "HR-published@3"),
    ):
        assert str(Measure.parse(text)) == name
    assert all(str(Measure.parse(name)) == name for name in (*BY_HAND, *DEFAULT_MEASURES))
    assert score_run({}, {"q1": {"a": 1}}, ["map", "ap", "MAP"]).measures == ("MAP",)


# Percentile rank, hit rate and the measures as SDR's published code counts them.
OF_SDR = ("MPR", "HR@2", "recall@2", "MPR-published", "MRR-published", "HR-published@2")
# Of five candidates "b" and "d" are relevant to the first, "a" to the second.
RUN = {"q1": {"a": 5.0, "b": 4.0, "c": 3.0, "d": 2.0, "e": 1.0}, "q2": {"c": 9.0, "a": 8.0, "b": 7.0}}
RELEVANT = {"q1": {"b": 1, "d": 2, "e": 0}, "q2": {"a": 1}}


def test_measures_of_sdr_by_hand() -> None:
    found = score_run(RUN, RELEVANT, OF_SDR, candidates=RankedDocuments(5, {"q1": 2}))
    mpr = [np.mean([1 - 2 / 5, 1 - 4 / 5]), 1 - 2 / 5]
    published = [np.mean([1 - 1 / 5, 1 - 3 / 5]), 1 - 1 / 5]
    # Rank 2 is rank 1 counted from 0, and counts as the first.
    expected = np.array([mpr, [0.5, 1.0], [0.5, 1.0], published, [1.0, 1.0], [1 / 4, 1.0]]).T
    np.testing.assert_allclose(found.values, expected)
    # Three pairs of a document and a relevant one, not two documents.
    assert found.means["MPR"] == pytest.approx((0.6 + 0.2 + 0.6) / 3)
    assert found.means["HR@2"] == found.means["recall@2"] == pytest.approx(0.75)
    # What was not retrieved stands last; the search for the best rank begins at the number of queries.
    nothing = score_run({"q1": {"a": 1.0}}, RELEVANT, OF_SDR, candidates=RankedDocuments(5))
    assert nothing.values.tolist() == [[0, 0, 0, 0, 0.5, 0]] * 2


def test_every_measure_has_a_value_by_hand_and_a_row_of_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text(encoding="utf-8")
    table = page.partition("## Measures of rankings\n\n")[2].partition("\n\n")[0]
    named = re.findall(r"`([^`]+)`", " ".join(row.split("|")[1] for row in table.splitlines()))
    for there in ((*BY_HAND, *OF_SDR), named):
        assert {Measure.parse(name).kind for name in there} == set(MEASURES)


def test_systems_against_one() -> None:
    draw = np.random.default_rng(3)
    qrels = {f"q{number}": {"a": 1, **({"b": 1} if number % 3 else {})} for number in range(30)}
    runs = {
        name: {query: dict(zip("abcdef", draw.random(6).tolist(), strict=True)) for query in qrels}
        for name in ("one", "two")
    }
    measures, candidates = ["mpr", "mrr"], RankedDocuments(6)
    table = RankingTable.from_runs(runs, qrels, measures, against="one", candidates=candidates, resamples=500, seed=4)
    # As draws of queries, and of their pairs, have it.
    for measure, sizes in (("MPR", np.array([len(grades) for grades in qrels.values()])), ("MRR", np.ones(30))):
        one, two = (table.scores[name].of(measure) for name in runs)
        expected = [weights * sizes @ (two - one) / (weights * sizes).sum() for weights in resampled(30, 500, 4)]
        found = table.difference("two", measure)
        assert found is not None and found.value == pytest.approx(sizes @ (two - one) / sizes.sum())
        np.testing.assert_allclose(found.samples, expected, atol=1e-12)  # type: ignore[arg-type]
    assert table.difference("one", "MRR") is None
    frame = table.to_frame()
    assert frame["system"].tolist() == ["one", "two"] and np.isnan(frame.loc[0, "MRR ahead"])
    content = json.loads(json.dumps(table.to_dict(), allow_nan=False))
    assert content["bootstrap"] == {"resamples": 500, "seed": 4, "confidence": 0.95}
    low, high = content["systems"]["two"]["differences"]["MRR"]["interval"]
    assert (low, high) == pytest.approx(tuple(np.quantile(expected, [0.025, 0.975])))
    assert content["systems"]["two"]["per_query"]["q11"]["MRR"] == table.scores["two"].of("mrr")[11]


def fuse(words: dict[str, float], vectors: dict[str, float], weight: float) -> dict[str, float]:
    return {id: (1 - weight) * words.get(id, 0.0) + weight * vectors.get(id, 0.0) for id in {*words, *vectors}}


def drawn_runs(queries: int, noise: tuple[float, float]) -> tuple[Any, Any, dict[str, dict[str, int]]]:
    """Two rankings that know the positive with more or less noise."""
    draw = np.random.default_rng(0)
    positives = {f"q{number}": DOCUMENTS[int(draw.integers(8))] for number in range(queries)}
    words, vectors = (
        {name: {id: float((id == best) + wide * draw.normal()) for id in DOCUMENTS[:8]}
         for name, best in positives.items()}
        for wide in noise
    )  # fmt: skip
    return words, vectors, {name: {id: 1} for name, id in positives.items()}


def test_every_fold_is_weighted_by_the_others() -> None:
    words, vectors, qrels = drawn_runs(53, (0.6, 0.8))
    found = best_weight(words, vectors, qrels, fuse, measure="mrr@10", folds=4, seed=2)
    assert sorted(np.bincount(list(found.folds.values())).tolist()) == [13, 13, 13, 14]
    by_weight = {
        weight: score_run({query: fuse(words[query], vectors[query], weight) for query in qrels}, qrels, ["mrr@10"])
        for weight in found.means
    }
    assert list(by_weight) == [step / 10 for step in range(11)]
    assert found.means == {weight: pytest.approx(one.means["MRR@10"]) for weight, one in by_weight.items()}
    assert found.means[found.weight] == max(found.means.values())
    for number, weight in enumerate(found.fold_weights):
        others = [row for row, query in enumerate(qrels) if found.folds[query] != number]
        means = {one: scores.values[others, 0].mean() for one, scores in by_weight.items()}
        assert means[weight] == pytest.approx(max(means.values()))
        for query in (query for query, fold in found.folds.items() if fold == number):
            assert found.run[query] == fuse(words[query], vectors[query], weight)
    content = json.loads(json.dumps(found.to_dict()))
    assert (content["weight"], content["measure"], "run" in content) == (found.weight, "MRR@10", False)
    # Where all are as good the first weight is taken, whatever rounding says.
    same = best_weight(words, words, qrels, fuse, measure="map")
    assert (same.weight, set(same.fold_weights)) == (0.0, {0.0})
    # Folds depend on nothing but ids and seed.
    again, other = (
        best_weight(words, vectors, dict(reversed(qrels.items())), fuse, measure="mrr@10", folds=4, seed=seed)
        for seed in (2, 3)
    )
    assert (again.folds, again.run) == (found.folds, found.run) and other.folds != found.folds


def test_queries_that_are_missing_unanswered_or_source_documents() -> None:
    words, vectors, qrels = drawn_runs(12, (0.2, 0.2))
    del words["q3"], vectors["q4"], words["q5"], vectors["q5"]
    qrels["q6"] = {"d1": 0}
    found = best_weight(words, vectors, qrels, fuse, folds=3, excluded={"q0": set(qrels["q0"])})
    assert found.run.keys() == found.folds.keys() == qrels.keys() - {"q0", "q6"}
    assert found.run["q5"] == {}
    assert found.run["q3"] == fuse({}, vectors["q3"], found.fold_weights[found.folds["q3"]])
