from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoc.documents.document import Document
from graphdoc.documents.readers.pair_files import Pairs
from graphdoc.errors import DocumentError, EvaluationError
from graphdoc.evaluation import LabelledPair, pair_auc, read_pairs
from graphdoc.evaluation.pairs import documents_of_pairs


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
    (tmp_path / "pairs.tsv").write_text("id_a\tid_b\tlabel\na\tb\t1\nc\td\t0\n")
    assert read_pairs(tmp_path / "pairs.tsv") == [("a", "b", 1), ("c", "d", 0)]


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"none.tsv: there is no such file"):
        read_pairs(tmp_path / "none.tsv")
    (tmp_path / "one.tsv").write_text("a\tb\t1\n")
    with pytest.raises(EvaluationError, match=r"one.tsv do not have both labels, 0 and 1"):
        read_pairs(tmp_path / "one.tsv")
    vectors = {"a": angle(0), "b": angle(1)}
    with pytest.raises(EvaluationError, match="the pairs do not have both labels"):
        pair_auc(vectors, [LabelledPair("a", "b", 1)])
    with pytest.raises(EvaluationError, match="2 documents of the pairs are not among those read, such as 'x'"):
        pair_auc(vectors, [LabelledPair("a", "y", 1), LabelledPair("x", "y", 0)])


def test_the_documents_of_pairs() -> None:
    documents = [Document.from_mapping({"id": id, "text": id}) for id in ("a", "b", "c", "c")]
    pairs = Pairs.of([LabelledPair("a", "b", 1), LabelledPair("b", "gone", 0)])
    assert documents_of_pairs(documents, pairs) == {"a": documents[0], "b": documents[1]}
    with pytest.raises(DocumentError, match="several documents have the id 'c', so that pairs do not say which"):
        documents_of_pairs(documents, pairs, Pairs.of([LabelledPair("a", "c", 1)]))
