from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from typed import Patch

from graphdoc.errors import SettingsError
from graphdoc.similarity import hierarchical
from graphdoc.similarity.alignment import Alignment, align
from graphdoc.similarity.hierarchical import (
    DocumentScorer,
    ScoreMoments,
    SentenceSet,
    paragraph_scores,
    score_documents,
)

Floats = npt.NDArray[np.float64]
# Sentences of every paragraph of every document.
SHAPES = st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=4), min_size=1, max_size=6)


def sentences(shapes: list[list[int]], seed: int, width: int = 5) -> tuple[SentenceSet, list[list[Floats]]]:
    """Drawn sentences, as a set and as lists of lists of unit vectors."""
    draw = np.random.default_rng(seed)
    found = [[draw.normal(size=(count, width)) for count in document] for document in shapes]
    numbers = [np.repeat(np.arange(len(document)), document) for document in shapes]
    unit = [[part / np.linalg.norm(part, axis=1, keepdims=True) for part in document] for document in found]
    return SentenceSet.from_vectors([np.concatenate(document) for document in found], numbers), unit


def paragraph_table(source: list[Floats], candidates: list[list[Floats]]) -> Floats:
    """Equations 4 and 5, one cell at a time."""
    return np.array(
        [
            [
                sum(max(float(a @ b) for b in other) for a in own) / len(own)
                for document in candidates
                for other in document
            ]
            for own in source
        ]
    )


def zscored(table: Floats) -> Floats:
    """Every row less its mean, over its deviation; 0 where there is none."""
    rows = []
    for row in table:
        deviation = float(np.sqrt(((row - row.mean()) ** 2).mean()))
        rows.append((row - row.mean()) / deviation if deviation > 1e-12 else np.zeros_like(row))
    return np.array(rows)


def by_the_paper(source: list[Floats], candidates: list[list[Floats]], zscore: bool, both: bool = False) -> list[float]:
    """Equation 6, one cell at a time; with ``both`` the mean with that of the documents changed round."""
    table = paragraph_table(source, candidates)
    # What the candidate's paragraph finds in each of the source, by the paragraph of the source.
    back = np.concatenate([paragraph_table(document, [source]) for document in candidates]).T
    if zscore:
        table, back = zscored(table), zscored(back)
    scores, first = [], 0
    for document in candidates:
        own = slice(first, first + len(document))
        forward = sum(max(row[own]) for row in table) / len(table)
        reverse = sum(max(column) for column in back[:, own].T) / len(document)
        scores.append((forward + reverse) / 2 if both else forward)
        first += len(document)
    return scores


def means(document: list[Floats], of: str) -> list[Floats]:
    """Paragraphs, or the document, as one unit vector each."""
    parts = document if of == "paragraphs" else [np.concatenate(document)]
    return [one.mean(axis=0, keepdims=True) / np.linalg.norm(one.mean(axis=0)) for one in parts]


def form(document: list[Floats], by: str) -> list[Floats]:
    """What is compared in place of a document."""
    if by == "flat":
        return [np.concatenate(document)]
    return document if by == "sentences" else means(document, by)


BY = ("sentences", "flat", "paragraphs", "document")


@settings(max_examples=30)
@given(source=st.lists(st.integers(1, 4), min_size=1, max_size=4), shapes=SHAPES, block=st.integers(1, 40))
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("zscore", [True, False])
@pytest.mark.parametrize("by", BY)
def test_scores_are_those_of_the_equations_and_contributions_add_up_to_them(
    source: list[int], shapes: list[list[int]], block: int, by: Any, zscore: bool, both: bool
) -> None:
    own, (own_parts,) = sentences([source], 1)
    candidates, parts = sentences(shapes, 2)
    compared = form(own_parts, by), [form(one, by) for one in parts]
    expected = by_the_paper(*compared, zscore, both)
    table = paragraph_table(*compared)
    back = np.concatenate([paragraph_table(one, [compared[0]]) for one in compared[1]]).T
    # A row of few scores that lie close together is stretched, and the rounding of its products with it.
    spread = min(table.std(axis=1).min(), 1) if zscore and table.shape[1] > 1 else 1
    spread = min(spread, back.std(axis=1).min()) if zscore and both and back.shape[1] > 1 else spread
    assume(spread > 1e-3)
    options: dict[str, Any] = {"by": by, "normalization": "zscore" if zscore else "none"}
    options["direction"] = "both" if both else "source"
    with mock.patch.object(hierarchical, "BLOCK_SENTENCES", block):
        if by == "sentences":
            np.testing.assert_allclose(paragraph_scores(own, candidates).forward, table, atol=1e-6)
        np.testing.assert_allclose(score_documents(own, candidates, **options), expected, atol=1e-6 / spread)
        # Candidates that come one after another are scored as all together.
        scorer = DocumentScorer(own, **options)
        for number in range(len(candidates)):
            scorer.add(candidates.document(number))
        np.testing.assert_allclose(scorer.scores(), expected, atol=1e-6 / spread)
    moments = ScoreMoments.from_sample(own, candidates, by=by, direction=options["direction"]) if zscore else None
    for number, score in enumerate(expected):
        found = align(own, candidates.document(number), **options, moments=moments)
        assert found.score == pytest.approx(score, abs=1e-6 / spread)
        # One cosine without moments is the same both ways.
        check_parts(found, own_parts, parts[number], both and (zscore or by != "document"))


def check_parts(found: Alignment, source: list[Floats], candidate: list[Floats], both: bool) -> None:
    """Contributions of sentences add up to those of paragraphs, and cosines are those of the sentences."""
    assert {pair.direction for pair in found.pairs} == ({"source", "candidate"} if both else {"source"})
    a, b = np.concatenate(source), np.concatenate(candidate)
    place_a = np.repeat(np.arange(len(source)), [len(one) for one in source])
    place_b = np.repeat(np.arange(len(candidate)), [len(one) for one in candidate])
    looked_for = []
    for pair in found.pairs:
        if found.by in ("paragraphs", "document"):
            assert pair.sentences == ()
            (own,), (other,) = means(source, found.by)[pair.source], means(candidate, found.by)[pair.candidate]
            assert pair.score == pytest.approx(float(own @ other), abs=1e-6)
            continue
        assert pair.contribution == pytest.approx(sum(one.contribution for one in pair.sentences), abs=1e-9)
        assert pair.score == pytest.approx(np.mean([one.cosine for one in pair.sentences]), abs=1e-9)
        for one in pair.sentences:
            assert one.cosine == pytest.approx(float(a[one.source] @ b[one.candidate]), abs=1e-6)
            assert (place_a[one.source], place_b[one.candidate]) == (pair.source, pair.candidate)
            looked_for.append((pair.direction, one.source if pair.direction == "source" else one.candidate))
    if found.by in ("sentences", "flat"):
        expected = [("source", row) for row in range(len(a))]
        expected += [("candidate", row) for row in range(len(b))] if both else []
        assert sorted(looked_for) == sorted(expected)


@pytest.mark.parametrize("products", [1, 7, 100])
@pytest.mark.parametrize("direction", ["source", "both"])
def test_long_documents_are_compared_in_pieces(products: int, direction: Any, monkeypatch: Patch) -> None:
    own, (parts,) = sentences([[40, 1, 3]], 10)
    candidates, others = sentences([[70, 2], [1, 33, 34]], 11)
    whole = score_documents(own, candidates, direction=direction)
    np.testing.assert_allclose(whole, by_the_paper(parts, others, False, direction == "both"), atol=1e-6)
    monkeypatch.setattr(hierarchical, "_MOST_PRODUCTS", products)
    np.testing.assert_allclose(score_documents(own, candidates, direction=direction), whole, atol=1e-6)


def test_given_moments_make_scores_independent_of_other_candidates() -> None:
    own, _ = sentences([[2, 2]], 5)
    candidates, _ = sentences([[2, 1], [3], [1, 1, 1]], 6)
    options: dict[str, Any] = {"normalization": "zscore", "moments": ScoreMoments.from_sample(own, candidates)}
    whole = score_documents(own, candidates, **options)
    for number in range(3):
        alone = score_documents(own, candidates.document(number), **options)
        np.testing.assert_allclose(alone, whole[number : number + 1], atol=1e-6)
    np.testing.assert_allclose(whole, score_documents(own, candidates, normalization="zscore"), atol=1e-12)
    with pytest.raises(ValueError, match="both"):
        score_documents(own, candidates, direction="both", **options)
    with pytest.raises(ValueError, match="both"):
        align(own, candidates.document(0), direction="both", **options)


def test_what_cannot_be_scored_is_named() -> None:
    own, _ = sentences([[1]], 9)
    for name in ("by", "normalization", "direction"):
        for work in (score_documents, align):
            with pytest.raises(SettingsError, match=name):
                work(own, own, **{name: "best"})  # type: ignore[operator]
    for paragraphs, documents in (([0, 2], [0, 1]), ([0, 2, 2, 3], [0, 3]), ([0, 3], [0, 2]), ([1, 3], [0, 1])):
        with pytest.raises(ValueError, match=r"paragraphs|documents"):
            SentenceSet(np.ones((3, 2), np.float32), np.array(paragraphs), np.array(documents))
    # A row that is all the same counts nothing.
    same = SentenceSet.from_vectors([np.ones((4, 3), np.float32)] * 2, [np.array([0, 0, 1, 1])] * 2)
    assert score_documents(same.document(0), same, normalization="zscore").tolist() == [0, 0]


@pytest.mark.parametrize("zscore", [True, False])
@pytest.mark.parametrize("by", BY)
def test_pairs_of_both_directions_are_ordered_by_strength(by: Any, zscore: bool) -> None:
    # The shorter document has few paragraphs, each of which adds more than a better one of the longer document.
    own, candidates = sentences([[2, 1]], 1)[0], sentences([[1, 3, 2, 2, 1, 2]], 2)[0]
    usual = ScoreMoments.from_sample(own, sentences([[2, 2], [3]], 3)[0], by=by, direction="both") if zscore else None
    options: dict[str, Any] = {"by": by, "normalization": "zscore" if zscore else "none", "direction": "both"}
    found = align(own, candidates.document(0), **options, moments=usual)
    counts = {"document": (1, 1), "flat": (3, 11)}.get(by, (2, 6))
    share = 1.0 if by == "document" and not zscore else 0.5
    for pair in found.pairs:
        count = counts[pair.direction == "candidate"]
        assert pair.strength == pytest.approx(pair.contribution * count / share, rel=1e-9)
        if not zscore and by != "flat":
            assert pair.strength == pytest.approx(pair.score, rel=1e-6)
        if not zscore and by == "flat":
            assert pair.strength == pytest.approx(sum(one.cosine for one in pair.sentences), rel=1e-6)
    best = found.best()
    assert [pair.strength for pair in best] == sorted((pair.strength for pair in found.pairs), reverse=True)
    assert found.best(1) == best[:1] and set(best) == set(found.pairs)
    if by == "sentences":
        assert best != tuple(sorted(best, key=lambda pair: -pair.contribution))
        assert {pair.direction for pair in best[:4]} == {"source", "candidate"}
