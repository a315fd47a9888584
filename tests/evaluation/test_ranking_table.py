from __future__ import annotations

import json

import numpy as np
import pytest

from graphdoc.errors import EvaluationError, SettingsError
from graphdoc.evaluation import RankingTable, score_run
from graphdoc.evaluation.resampling import resampled

pytest.importorskip("ir_measures")

ENDS = ("ahead", "low", "high")
QRELS = {f"q{number}": {f"d{number}": 1} for number in range(12)}


def run_at(ranks: list[int]) -> dict[str, dict[str, float]]:
    """A run in which the positive of every query has some rank."""
    return {
        f"q{number}": {**{f"x{place}": -float(place) for place in range(1, rank)}, f"d{number}": -float(rank)}
        for number, rank in enumerate(ranks)
    }


RUNS = {"BM25": run_at([2] * 12), "vectors": run_at([1] * 9 + [3] * 3), "same": run_at([2] * 12)}


def test_systems_against_one() -> None:
    table = RankingTable.of(RUNS, QRELS, ["mrr@10", "success@1"], against="BM25", resamples=500, seed=3)
    assert (table.measures, len(table.queries)) == (("MRR@10", "success@1"), 12)
    base, vectors = (score_run(RUNS[name], QRELS, ["mrr@10"]).of("mrr@10") for name in ("BM25", "vectors"))
    difference = table.difference("vectors", "MRR@10")
    assert difference is not None and difference.value == pytest.approx((vectors - base).mean())
    expected = [weights @ (vectors - base) / 12 for weights in resampled(12, 500, 3)]
    np.testing.assert_allclose(difference.samples, expected)  # type: ignore[arg-type]
    assert difference.verdict == "better" and table.difference("BM25", "MRR@10") is None
    frame = table.to_frame()
    assert frame.columns.tolist() == [
        "system",
        "MRR@10",
        "success@1",
        *(f"{name} {end}" for name in table.measures for end in ENDS),
    ]
    assert frame["system"].tolist() == list(RUNS)
    assert frame["MRR@10"].tolist() == pytest.approx([0.5, 10 / 12, 0.5])
    assert np.isnan(frame.loc[0, "MRR@10 ahead"]) and frame.loc[2, "MRR@10 high"] == 0
    content = json.loads(json.dumps(table.to_dict(), allow_nan=False))
    assert content["bootstrap"] == {"resamples": 500, "seed": 3, "confidence": 0.95}
    assert (content["against"], content["queries"], content["measures"]) == ("BM25", 12, ["MRR@10", "success@1"])
    assert content["systems"]["BM25"]["differences"] is None
    assert content["systems"]["vectors"]["differences"]["MRR@10"] == difference.to_dict()
    assert content["systems"]["vectors"]["per_query"]["q11"] == {"MRR@10": pytest.approx(1 / 3), "success@1": 0.0}


def test_mistakes() -> None:
    with pytest.raises(EvaluationError, match="no run"):
        RankingTable.of({}, QRELS)
    with pytest.raises(SettingsError, match=r"'bm25'.*BM25, vectors, same"):
        RankingTable.of(RUNS, QRELS, against="bm25")
    with pytest.raises(EvaluationError, match=r"^broken: .*'q1'.*nan"):
        RankingTable.of({**RUNS, "broken": {"q1": {"d1": float("nan")}}}, QRELS)
