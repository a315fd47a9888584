"""Measures of one ranking, written from their definitions alone."""

from __future__ import annotations

import numpy as np


def order(scores: dict[str, float]) -> list[str]:
    """By falling score, then by id: one after the other the best of those that are left."""
    left, result = dict(scores), []
    while left:
        top = max(left.values())
        result.append(min(id for id, score in left.items() if score == top))
        del left[result[-1]]
    return result


def by_hand(name: str, scores: dict[str, float], grades: dict[str, int]) -> float:
    """The value of a measure such as ``nDCG@10`` for one query."""
    kind, _, cutoff = name.partition("@")
    gains = np.array([max(0, grades.get(id, 0)) for id in order(scores)], float)
    relevant = sum(grade > 0 for grade in grades.values())
    depth = int(cutoff) if cutoff else max(len(gains), len(grades))
    hits = (gains > 0)[:depth]
    match kind:
        case "nDCG":
            ideal = np.array(sorted((max(0, grade) for grade in grades.values()), reverse=True), float)
            dcg, best = (
                sum(gain / np.log2(rank + 1) for rank, gain in enumerate(gain_list[:depth], start=1))
                for gain_list in (gains, ideal)
            )
            return float(dcg / best)
        case "P":
            return float(hits.sum() / depth)
        case "MRR":
            return float(1 / (np.flatnonzero(hits)[0] + 1)) if hits.any() else 0.0
        case "MAP":
            return float(sum(hits[: rank + 1].mean() for rank in np.flatnonzero(hits)) / relevant)
        case "recall":
            return float(hits.sum() / relevant)
        case "success":
            return float(hits.any())
    raise ValueError(name)
