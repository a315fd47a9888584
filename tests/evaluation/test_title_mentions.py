from __future__ import annotations

import math
import re
from collections import Counter

import numpy as np
import pytest

from graphdoc.documents.document import Document
from graphdoc.errors import EvaluationError
from graphdoc.evaluation import LabelledPair, PairEvaluator
from graphdoc.evaluation.title_mentions import title_mentions

TEXTS = {
    "a": ("Chart parsing", "We compare grammar rules with chart parsing of trees and grammar trees."),
    "b": ("Grammar trees", "Trees of a grammar are counted; see Chart parsing of long ago."),
    "c": ("Koji", "Rice is steamed and koji is grown on rice."),
    "d": (None, "Rice and grammar, koji and trees."),
}
PAIRS = np.array([[0, 1], [0, 2], [1, 0], [2, 3], [1, 3]])


@pytest.fixture
def documents() -> list[Document]:
    return [Document.from_text(text, id=id, title=title) for id, (title, text) in TEXTS.items()]


def by_hand(pairs: np.ndarray) -> list[float]:
    """Logarithmic counts of words that two texts have, without the stop words of these texts, by smooth idf."""
    stop = {"we", "with", "of", "and", "are", "see", "long", "ago", "is", "on", "a"}

    def words(text: str | None) -> Counter[str]:
        return Counter(word for word in re.findall(r"\w\w+", (text or "").lower()) if word not in stop)

    texts = [words(text) for _, text in TEXTS.values()]
    frequency = Counter(word for one in texts for word in one)
    known = {word for word, count in frequency.items() if count > 1}

    def vector(counts: Counter[str]) -> dict[str, float]:
        found = {
            word: (1 + math.log(count)) * (1 + math.log((1 + len(texts)) / (1 + frequency[word])))
            for word, count in counts.items()
            if word in known
        }
        length = math.sqrt(sum(value**2 for value in found.values())) or 1.0
        return {word: value / length for word, value in found.items()}

    whole = [vector(one) for one in texts]
    titles = [vector(words(title)) for title, _ in TEXTS.values()]

    def mention(a: int, b: int) -> float:
        return sum(value * whole[b].get(word, 0.0) for word, value in titles[a].items())

    return [(mention(a, b) + mention(b, a)) / 2 for a, b in pairs]


def test_titles_are_looked_for_in_the_other_text(documents: list[Document]) -> None:
    found = title_mentions(documents, PAIRS)
    np.testing.assert_allclose(found, by_hand(PAIRS), atol=1e-12)
    assert found[0] == found[2] > 0
    assert found[1] == 0
    # A document without a title is named by nobody, and can name others.
    assert found[3] > 0


def test_without_titles_there_is_nothing_to_look_for() -> None:
    documents = [Document.from_text(text, id=str(row)) for row, (_, text) in enumerate(TEXTS.values())]
    with pytest.raises(EvaluationError, match="title"):
        title_mentions(documents, PAIRS)
    signs = [Document.from_text("! ?", id=str(row), title="!") for row in range(2)]
    assert title_mentions(signs, np.array([[0, 1]])).tolist() == [0.0]


def test_an_evaluator_has_them_for_both_parts(documents: list[Document]) -> None:
    test = [LabelledPair("a", "b", 1), LabelledPair("a", "c", 0)]
    validation = [LabelledPair("c", "d", 1), LabelledPair("b", "c", 0)]
    found = PairEvaluator(documents, test, validation, resamples=0).titles()
    assert found.test.tolist() == pytest.approx(by_hand(PAIRS[:2]))
    assert found.validation.tolist() == pytest.approx(by_hand(np.array([[2, 3], [1, 2]])))
