from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoc.sampling.views import SentenceLikelihoods

Sentences = st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=6), min_size=1, max_size=8)


@given(Sentences, st.data())
def test_a_view_is_as_likely_as_its_words(sentences: list[list[str]], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(sentences) - 1), unique=True))
    counts = Counter(term for terms in sentences for term in terms)
    logarithms = [math.log(counts[term] / counts.total()) for number in chosen for term in sentences[number]]
    found = SentenceLikelihoods.of(sentences).of_view(np.array(chosen, np.int64))
    assert found == (pytest.approx(sum(logarithms) / len(logarithms)) if logarithms else -math.inf)


def test_what_a_document_says_most_is_most_likely() -> None:
    found = SentenceLikelihoods.of([["rice", "koji"], ["rice"], ["rice", "tide"], []])
    order = sorted(range(4), key=lambda number: -found.of_view(np.array([number])))
    assert order[0] == 1 and order[-1] == 3
