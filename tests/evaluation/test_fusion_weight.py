from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from graphdoc.errors import EvaluationError, SettingsError
from graphdoc.evaluation import best_weight, score_run

pytest.importorskip("ir_measures")

DOCUMENTS = [f"d{number}" for number in range(8)]


def fuse(words: dict[str, float], vectors: dict[str, float], weight: float) -> dict[str, float]:
    return {id: (1 - weight) * words.get(id, 0.0) + weight * vectors.get(id, 0.0) for id in {*words, *vectors}}


def runs(queries: int, noise: tuple[float, float], seed: int = 0) -> tuple[Any, Any, dict[str, dict[str, int]]]:
    """Two rankings that know the positive with more or less noise."""
    draw = np.random.default_rng(seed)
    names = [f"q{number}" for number in range(queries)]
    positives = {name: DOCUMENTS[int(draw.integers(len(DOCUMENTS)))] for name in names}
    made = [
        {
            name: {id: float((id == positives[name]) + wide * draw.normal()) for id in DOCUMENTS}
            for name in names
        }
        for wide in noise
    ]  # fmt: skip
    return made[0], made[1], {name: {id: 1} for name, id in positives.items()}


def test_every_fold_is_weighted_by_the_others() -> None:
    words, vectors, qrels = runs(53, (0.6, 0.8))
    found = best_weight(words, vectors, qrels, fuse, measure="mrr@10", folds=4, seed=2)
    sizes = np.bincount(list(found.folds.values()))
    assert sorted(sizes.tolist()) == [13, 13, 13, 14]
    by_weight = {
        weight: score_run({query: fuse(words[query], vectors[query], weight) for query in qrels}, qrels, ["mrr@10"])
        for weight in found.means
    }
    assert list(by_weight) == [step / 10 for step in range(11)]
    assert found.means == {weight: pytest.approx(one.means["MRR@10"]) for weight, one in by_weight.items()}
    assert found.means[found.weight] == max(found.means.values())
    queries = next(iter(by_weight.values())).queries
    for number, weight in enumerate(found.fold_weights):
        others = [row for row, query in enumerate(queries) if found.folds[query] != number]
        means = {one: scores.values[others, 0].mean() for one, scores in by_weight.items()}
        assert means[weight] == pytest.approx(max(means.values()))
        for query, fold in found.folds.items():
            if fold == number:
                assert found.run[query] == fuse(words[query], vectors[query], weight)
    assert found.run.keys() == qrels.keys()
    content = json.loads(json.dumps(found.to_dict()))
    assert (content["weight"], content["measure"]) == (found.weight, "MRR@10")
    assert "run" not in content


def test_the_better_ranking_gets_the_weight() -> None:
    words, vectors, qrels = runs(40, (0.05, 5.0))
    assert best_weight(words, vectors, qrels, fuse).weight < 0.3
    assert best_weight(vectors, words, qrels, fuse).weight > 0.7
    # Where all are as good the first one is taken, whatever rounding says.
    same = best_weight(words, words, qrels, fuse, weights=[0.3, 0.1, 0.7], measure="map")
    assert (same.weight, set(same.fold_weights)) == (0.3, {0.3})


def test_folds_depend_on_nothing_but_ids_and_seed() -> None:
    words, vectors, qrels = runs(23, (0.5, 0.5))
    backwards = dict(reversed(qrels.items()))
    first, again = (best_weight(words, vectors, one, fuse, seed=1) for one in (qrels, backwards))
    assert first.folds == again.folds
    assert (first.fold_weights, first.run) == (again.fold_weights, again.run)
    assert best_weight(words, vectors, qrels, fuse, seed=2).folds != first.folds


def test_queries_that_are_missing_unanswered_or_own_documents() -> None:
    words, vectors, qrels = runs(12, (0.2, 0.2))
    del words["q3"], vectors["q4"], words["q5"], vectors["q5"]
    qrels["q6"] = {"d1": 0}
    own = {"q0": set(qrels["q0"])}
    found = best_weight(words, vectors, qrels, fuse, folds=3, own=own)
    assert found.run.keys() == found.folds.keys() == qrels.keys() - {"q0", "q6"}
    assert found.run["q5"] == {}
    assert found.run["q3"] == fuse({}, vectors["q3"], found.fold_weights[found.folds["q3"]])
    with pytest.raises(EvaluationError, match=r"10 queries.*11 folds"):
        best_weight(words, vectors, qrels, fuse, folds=11, own=own)
    wrong: dict[str, Any]
    for wrong, value in (({"folds": 1}, "folds=1"), ({"folds": 2, "measure": "f1"}, "'f1'")):
        with pytest.raises(SettingsError, match=value):
            best_weight(words, vectors, qrels, fuse, **wrong)
