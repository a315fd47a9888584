from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize

from graphdoc.recipes import fitted_head
from graphdoc.recipes.fitted_head import (
    FLATTEST,
    LENGTHS,
    STEEPEST,
    STRENGTHS,
    USUAL_SLOPE,
    WordClassifier,
    fit_vectors_and_words,
)

Floats = np.ndarray
HIDDEN, TERMS = 5, 40


def drawn(classes: int, each: int, seed: int = 0, mixed: float = 0.6) -> tuple[Floats, Floats, list[str]]:
    """Vectors and words that each tell classes apart a little."""
    draw = np.random.default_rng(seed)
    labels = [f"class {number}" for number in range(classes) for _ in range(each)]
    place = np.repeat(np.arange(classes), each)
    vectors = draw.normal(size=(len(place), HIDDEN)) * [1, 2, 3, 4, 5] + 7
    vectors[np.arange(len(place)), place % HIDDEN] += 2.0 * (place + 1)
    counts = draw.poisson(mixed, (len(place), TERMS)).astype(np.float64)
    counts[np.arange(len(place)), place] += draw.poisson(1.0, len(place))
    counts[:, -1] += 1
    return vectors, counts / np.linalg.norm(counts, axis=1, keepdims=True), labels


def primal(vectors: Floats, words: Floats, labels: list[str], found: WordClassifier) -> Floats:
    """Margins of one class against all others, ``(documents, classes)``, by squared hinge loss as it is written.

    The machine regularises the bias too, as the weight of a number that is always 1.
    """
    scaled = (vectors - vectors.mean(axis=0)) / vectors.std(axis=0) * found.length / np.sqrt(HIDDEN)
    inputs = np.concatenate([scaled, words, np.ones((len(words), 1))], axis=1)
    margins = []
    for name in found.classes:
        signs = np.where(np.array(labels) == name, 1.0, -1.0)

        def loss(weights: Floats, signs: Floats = signs) -> tuple[float, Floats]:
            gap = np.maximum(0, 1 - signs * (inputs @ weights))
            gradient = weights - 2 * found.strength * inputs.T @ (signs * gap)
            return float(0.5 * weights @ weights + found.strength * gap @ gap), gradient

        margins.append(inputs @ minimize(loss, np.zeros(inputs.shape[1]), jac=True, tol=1e-10).x)
    return np.stack(margins, axis=1)


@pytest.mark.parametrize("classes", [2, 4])
def test_weights_are_those_of_the_formula(classes: int) -> None:
    vectors, words, labels = drawn(classes, 12)
    found = fit_vectors_and_words(vectors, sparse.csr_matrix(words), labels)
    expected, logits = primal(vectors, words, labels, found), found.logits(vectors, words)
    if classes == 2:
        # One machine tells both apart, and each has half of its margin.
        expected = expected / 2
    slope = float((expected * logits).sum() / (expected**2).sum())
    assert FLATTEST <= slope <= STEEPEST
    assert logits == pytest.approx(slope * expected, abs=0.02 * np.abs(logits).max())


def test_what_is_chosen_is_best_on_what_is_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, words, labels = drawn(3, 40)
    found = fit_vectors_and_words(vectors, sparse.csr_matrix(words), labels, seed=2)
    assert found.strength in STRENGTHS and found.length in LENGTHS
    assert found.held_out_documents == 24
    assert found.held_out is not None and 0.5 < found.held_out < 1
    assert found.held_out * 24 == pytest.approx(round(found.held_out * 24))
    again = fit_vectors_and_words(vectors, sparse.csr_matrix(words), labels, seed=2)
    assert (again.logits(vectors, words) == found.logits(vectors, words)).all()
    other = fit_vectors_and_words(vectors, sparse.csr_matrix(words), labels, seed=3)
    assert (other.logits(vectors, words) != found.logits(vectors, words)).any()
    alone = {}
    for strength, length in product(STRENGTHS, LENGTHS):
        monkeypatch.setattr(fitted_head, "STRENGTHS", (strength,))
        monkeypatch.setattr(fitted_head, "LENGTHS", (length,))
        given = fit_vectors_and_words(vectors, sparse.csr_matrix(words), labels, seed=2).held_out
        assert given is not None
        alone[strength, length] = given
    assert len({*alone.values()}) > 1
    assert found.held_out == alone[found.strength, found.length] == max(alone.values())


def test_logits_fit_what_is_held_out() -> None:
    """Of new documents the mean probability of the class that is given is about how often it is right."""
    vectors, words, labels = drawn(3, 300)
    found = fit_vectors_and_words(vectors, sparse.csr_matrix(words), labels)
    vectors, words, labels = drawn(3, 300, seed=1)
    powers = np.exp(found.logits(vectors, words))
    probabilities = powers / powers.sum(axis=1, keepdims=True)
    right = np.array(found.classes)[probabilities.argmax(axis=1)] == np.array(labels)
    assert 0.6 < right.mean() < 0.98
    assert probabilities.max(axis=1).mean() == pytest.approx(right.mean(), abs=0.05)


def test_words_tell_what_vectors_do_not_and_the_other_way_round() -> None:
    vectors, words, labels = drawn(4, 60, mixed=0.2)
    noise = np.random.default_rng(5).permutation(len(labels))
    by_words = fit_vectors_and_words(vectors[noise], sparse.csr_matrix(words), labels)
    by_vectors = fit_vectors_and_words(vectors, sparse.csr_matrix(words[noise]), labels)
    both = fit_vectors_and_words(vectors, sparse.csr_matrix(words), labels)
    assert by_words.held_out is not None and by_vectors.held_out is not None and both.held_out is not None
    assert min(by_words.held_out, by_vectors.held_out) > 0.4
    assert both.held_out > max(by_words.held_out, by_vectors.held_out)


def test_with_few_documents_settings_stay_in_the_middle() -> None:
    vectors, words, labels = drawn(3, 4)
    found = fit_vectors_and_words(vectors, sparse.csr_matrix(words), labels)
    assert (found.strength, found.length, found.held_out, found.held_out_documents) == (1.0, 0.3, None, 0)
    margins = primal(vectors, words, labels, found)
    assert found.logits(vectors, words) == pytest.approx(USUAL_SLOPE * margins, abs=0.05)


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_numbers_that_never_change_and_unknown_words_do_no_harm(seed: int) -> None:
    vectors, words, labels = drawn(2, 6, seed % 100)
    vectors[:, 1], words[0] = 3.0, 0.0
    found = fit_vectors_and_words(vectors, sparse.csr_matrix(words), labels, seed)
    assert np.isfinite(found.logits(vectors, words)).all()
    moved = vectors.copy()
    moved[:, 1] = 4.0
    assert found.logits(moved, words) == pytest.approx(found.logits(vectors, words), abs=1e-9)
