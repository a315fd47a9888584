from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoc.errors import DocumentError, EvaluationError
from graphdoc.evaluation import LabelledPair, pair_auc, read_pairs


def angle(degrees: float, length: float = 1.0) -> np.ndarray:
    return np.array([np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))], np.float32) * length


@given(st.lists(st.tuples(st.sampled_from([0, 20, 40, 60, 80]), st.integers(0, 1)), min_size=1, max_size=20))
def test_definition(cases: list[tuple[int, int]]) -> None:
    """The share of pairs of pairs, one of each label, that are in the right order; a tie counts half."""
    cases += [(10, 1), (30, 0)]
    vectors = {"origin": angle(0, 3.0)} | {f"d{row}": angle(turn, 0.5 + row) for row, (turn, _) in enumerate(cases)}
    pairs = [LabelledPair("origin", f"d{row}", label) for row, (_, label) in enumerate(cases)]
    together = [turn for turn, label in cases if label]
    apart = [turn for turn, label in cases if not label]
    wins = [1.0 if a < b else 0.5 if a == b else 0.0 for a in together for b in apart]
    # Lengths play no part, but their rounding may tell equal angles apart.
    ties = sum(1 for a in together for b in apart if a == b) / len(wins)
    assert abs(pair_auc(vectors, pairs) - np.mean(wins)) <= 0.5 * ties + 1e-9


def test_a_vector_of_zeros_is_like_nothing() -> None:
    vectors = {"a": angle(0), "b": angle(10), "zero": np.zeros(2, np.float32)}
    assert pair_auc(vectors, [LabelledPair("a", "b", 1), LabelledPair("a", "zero", 0)]) == 1


def test_reading(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("id_a\tid_b\tlabel\na\tb\t1\n\nc d\té\t0\n", encoding="utf-8")
    assert read_pairs(path) == [("a", "b", 1), ("c d", "é", 0)]
    path.write_text("a\tb\t1\nc\td\t0\n")
    assert len(read_pairs(path)) == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\tb\t1\na b 0\n", r"pairs.tsv:2: a pair is expected as id_a, id_b and 0 or 1"),
        (b"a\tb\tyes\n", r"pairs.tsv:1: a pair is expected"),
        (b"a\tb\t1\tx\n", r"pairs.tsv:1: a pair is expected"),
        (b"\xff\xfe", r"are no utf-8 text"),
    ],
)
def test_broken_files(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "pairs.tsv").write_bytes(content)
    with pytest.raises(DocumentError, match=message):
        read_pairs(tmp_path / "pairs.tsv")


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"none.tsv cannot be read: No such file"):
        read_pairs(tmp_path / "none.tsv")
    (tmp_path / "one.tsv").write_text("a\tb\t1\n")
    with pytest.raises(EvaluationError, match="do not have both labels"):
        read_pairs(tmp_path / "one.tsv")
    vectors = {"a": angle(0), "b": angle(1)}
    with pytest.raises(EvaluationError, match="do not have both labels"):
        pair_auc(vectors, [LabelledPair("a", "b", 1)])
    with pytest.raises(EvaluationError, match="2 documents of the pairs are not among those read, such as 'x'"):
        pair_auc(vectors, [LabelledPair("a", "y", 1), LabelledPair("x", "y", 0)])
