from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from graphdoc import Document, DocumentEncoder
from graphdoc.errors import ModelError
from graphdoc.evaluation.pairs import MatchedPairs
from graphdoc.graphs.batch import GraphBatch
from graphdoc.matching import match_pairs
from graphdoc.matching.matcher import PairMatcher
from graphdoc.matching.reader import ViewReader, ViewTokens
from graphdoc.sampling.views import Purpose

WORDS = ("great", "small", "red", "cold", "warm", "slow", "quick", "grey")


def test_a_cross_encoder_without_a_head_is_refused(tiny_encoder: Callable[..., DocumentEncoder]) -> None:
    encoder = tiny_encoder(views={"view_tokens": 24})
    with pytest.raises(ModelError) as caught:
        encoder.match("Rice is steamed. Koji grows.", "Tides rise. The sea is deep.")
    assert encoder.name in str(caught.value) and "head" in str(caught.value)


@pytest.mark.parametrize("reader", ["cross", "dual"])
@pytest.mark.parametrize("together", [False, True])
def test_views_that_are_alike_are_read_once(
    reader: str, together: bool, tiny_encoder: Callable[..., DocumentEncoder], monkeypatch: pytest.MonkeyPatch
) -> None:
    long, other = (" ".join(f"The {word} {noun} rises." for word in WORDS) for noun in ("tide", "dough"))
    pairs = [("Rice is steamed.", "Koji grows."), (long, other), ("Koji grows.", "Rice is steamed.")]
    views = {"encoder": reader, "view_tokens": 24, "views": 3, "together": together}
    encoder = tiny_encoder(views=views, graph_layers=0, readout="mean")
    if reader == "cross":
        encoder.model.add_head(["different", "similar"])
    kind = type(PairMatcher(encoder).reader)
    read, made = [], kind.graphs

    def graphs(self: ViewReader, views: Sequence[ViewTokens], together: int = 1) -> GraphBatch:
        read.append(len(views))
        return made(self, views, together)

    monkeypatch.setattr(kind, "graphs", graphs)
    found = list(match_pairs(encoder, [*pairs, pairs[0]]))
    distinct = len(found[1].views) if together else len({(view.a, view.b) for view in found[1].views})
    assert read == [2 * (3 if together else 1) + distinct]
    for pair, match in zip([*pairs, pairs[0]], found, strict=True):
        (alone,) = match_pairs(encoder, [pair])
        assert match.score == pytest.approx(alone.score, abs=1e-5)
        if not together:
            assert [view.score for view in match.views] == pytest.approx(
                [view.score for view in alone.views], abs=1e-5
            )
    if not together:
        assert len({view.score for view in found[0].views}) == 1 and distinct > 1
        assert len({view.score for view in found[1].views}) == distinct


def test_views_are_drawn_from_one_field_after_the_other(tiny_encoder: Callable[..., DocumentEncoder]) -> None:
    encoder = tiny_encoder(views={"view_tokens": 12, "receptive_field": 7, "fields": [2, 7]}, graph_layers=0)
    matcher = PairMatcher(encoder)
    text, other = (" ".join(f"The {word} {noun} rises." for word in WORDS) for noun in ("tide", "dough"))

    def last_sentences(name: str, purpose: Purpose) -> list[int]:
        documents = (Document.from_text(text, id=name), Document.from_text(other, id="other"))
        one, two = matcher.documents(map(matcher.segmenter.segment, documents))
        sides = (one.field, one.features), (two.field, two.features)
        views = matcher.drawer.draw(*sides, range(20), purpose).views
        turned = matcher.drawer.draw(*sides[::-1], range(20), purpose).views
        for view, back in zip(views, turned, strict=True):
            np.testing.assert_array_equal(view.first.sentences, back.second.sentences)
            np.testing.assert_array_equal(view.second.sentences, back.first.sentences)
        return [max(int(side.sentences.max()) for side in view) for view in views]

    found = last_sentences("one", "matching")
    assert all(last < 2 for last in found[::2])
    assert 4 <= max(found[1::2]) < 7
    # What is matched is compared, so that all pairs begin with the same field; an epoch has pairs of either.
    assert all(last < 2 for number in range(5) for last in last_sentences(str(number), "matching")[::2])
    begun = set()
    for number in range(10):
        found = last_sentences(str(number), "training")
        near = [max(found[start::2]) < 2 for start in (0, 1)]
        assert sorted(near) == [False, True]
        begun.add(near[0])
    assert begun == {False, True}


def test_scores_are_those_of_pairs_matched_one_by_one(tiny_encoder: Callable[..., DocumentEncoder]) -> None:
    encoder = tiny_encoder(views={"view_tokens": 24, "views": 3}, graph_layers=0, readout="mean")
    encoder.model.add_head(["different", "similar"])
    documents = [
        Document.from_text(" ".join(f"The {word} {noun} rises." for word in WORDS[number:]), id=noun)
        for number, noun in enumerate(("tide", "dough", "rice", "sea"))
    ]
    rows = [(number % 4, (number * 7 + 1) % 4) for number in range(9)]
    expected = [encoder.match(documents[a], documents[b]).score for a, b in rows]
    matches = match_pairs(encoder, [(documents[a], documents[b]) for a, b in rows])
    assert [match.score for match in matches] == pytest.approx(expected, abs=1e-5)
    assert MatchedPairs(documents, np.array(rows)).scores(encoder).tolist() == pytest.approx(expected, abs=1e-5)
