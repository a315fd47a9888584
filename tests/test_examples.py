from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder


@pytest.fixture(scope="module")
def documents(examples: Path) -> dict[str, Document]:
    return {path.name: Document.from_file(path) for path in sorted(examples.iterdir())}


@pytest.fixture(scope="module")
def relations(examples: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((examples.parent / "relations.json").read_text(encoding="utf-8"))
    return content


@pytest.fixture(scope="module")
def scores(mini: DocumentEncoder, documents: dict[str, Document]) -> dict[frozenset[str], float]:
    vectors = mini.encode(documents.values(), normalize_embeddings=True)
    products = vectors @ vectors.T
    names = list(documents)
    return {
        frozenset((names[a], names[b])): float(products[a, b]) for a, b in itertools.combinations(range(len(names)), 2)
    }


@pytest.mark.slow
def test_same_subjects_score_above_all_others(relations: dict[str, Any], scores: dict[frozenset[str], float]) -> None:
    same = {frozenset(pair) for pair in relations["same_subject"]}
    others = [score for pair, score in scores.items() if pair not in same]
    assert min(scores[pair] for pair in same) > max(others) + 0.15


@pytest.mark.slow
def test_boilerplate_makes_no_documents_alike(relations: dict[str, Any], scores: dict[frozenset[str], float]) -> None:
    for pair in relations["boilerplate"]:
        assert scores[frozenset(pair)] < 0.2
        for same in relations["same_subject"]:
            assert scores[frozenset(same)] > scores[frozenset(pair)] + 0.5


def test_boilerplate_sections_are_found(
    mini: DocumentEncoder, documents: dict[str, Document], relations: dict[str, Any]
) -> None:
    for a, b in relations["boilerplate"]:
        comparison = mini.compare(documents[a], documents[b])
        best = comparison.matches("section")[0]
        assert best.score == pytest.approx(1, abs=1e-5)
        headings = {
            encoded.segmented.document.sections[encoded.section_numbers[row]].heading
            for encoded, row in ((comparison.a, best.a), (comparison.b, best.b))
        }
        assert headings == {"About this guide"}


def test_the_planted_section_is_the_top_match(
    mini: DocumentEncoder, documents: dict[str, Document], relations: dict[str, Any]
) -> None:
    assert relations["single_section"]
    for planted in relations["single_section"]:
        comparison = mini.compare(documents[planted["a"]], documents[planted["b"]])
        best, second = comparison.matches("section")[:2]
        for encoded, row, heading in (
            (comparison.a, best.a, planted["section_a"]),
            (comparison.b, best.b, planted["section_b"]),
        ):
            assert encoded.segmented.document.sections[encoded.section_numbers[row]].heading == heading
        assert best.score > second.score + 0.1
        # It is also the pair of sections that adds most to the document score.
        most = np.unravel_index(comparison.section_contributions.argmax(), comparison.section_contributions.shape)
        assert tuple(most) == (best.a, best.b)
