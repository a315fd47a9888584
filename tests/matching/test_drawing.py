from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from graphdoc import Document, DocumentEncoder
from graphdoc.errors import ModelError
from graphdoc.evaluation.pairs import MatchedPairs
from graphdoc.inference.segmenting import Workers
from graphdoc.matching import match_pairs
from graphdoc.matching import matcher as matching
from graphdoc.matching.matcher import BLOCK_PAIRS, DrawnPair, PairDocument, PairMatcher, draw_in_order

WORDS = ("great", "small", "red", "cold", "warm", "slow", "quick", "grey")
NOUNS = ("tide", "dough", "rice", "sea")
PAIRS = 3 * BLOCK_PAIRS + 5


@pytest.fixture
def encoder(tiny_encoder: Callable[..., DocumentEncoder]) -> DocumentEncoder:
    encoder = tiny_encoder(views={"view_tokens": 24, "views": 3}, graph_layers=0, readout="mean")
    encoder.model.add_head(["different", "similar"])
    return encoder


@pytest.fixture
def documents() -> list[Document]:
    return [
        Document.from_text(" ".join(f"The {word} {noun} rises." for word in WORDS[number:]), id=noun)
        for number, noun in enumerate(NOUNS)
    ]


@pytest.fixture
def rows() -> list[tuple[int, int]]:
    return [(number % 4, (number * 7 + 1) % 4) for number in range(PAIRS)]


@pytest.fixture
def drawn_by(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], list[int]]:
    """Gives the processes that drew, block by block."""
    known, note = matching._draw, tmp_path / "processes"

    def draw(shared: Any, block: Sequence[Any]) -> list[DrawnPair]:
        with note.open("a") as stream:
            stream.write(f"{os.getpid()}\n")
        return known(shared, block)

    monkeypatch.setattr(matching, "_draw", draw)
    return lambda: [int(line) for line in note.read_text().split()]


def prepared(
    encoder: DocumentEncoder, documents: list[Document], rows: list[tuple[int, int]]
) -> tuple[PairMatcher, list[tuple[int, PairDocument, PairDocument]]]:
    matcher = PairMatcher(encoder)
    ready = list(matcher.documents(map(matcher.segmenter.segment, documents)))
    return matcher, [(number, ready[a], ready[b]) for number, (a, b) in enumerate(rows)]


def numbers(drawn: DrawnPair) -> list[list[int]]:
    sides = [side for view in drawn.views for side in view]
    return [drawn.subtopics.clusters.tolist(), *(side.sentences.tolist() for side in sides)]


class TestDrawInOrder:
    def test_processes_draw_what_one_does(
        self,
        encoder: DocumentEncoder,
        documents: list[Document],
        rows: list[tuple[int, int]],
        drawn_by: Callable[[], list[int]],
    ) -> None:
        matcher, pairs = prepared(encoder, documents, rows)
        found = list(draw_in_order(matcher, pairs, Workers(2, BLOCK_PAIRS)))
        assert [one[:3] for one in found] == pairs
        for (_, first, second), (*_, own) in zip(pairs, found, strict=True):
            assert numbers(own) == numbers(matcher.draw(first, second))
        # Views of the same pair are the same, and those of other pairs others.
        assert 1 < len({str(numbers(own)) for *_, own in found}) <= len(set(rows))
        first, *rest = drawn_by()
        assert first == os.getpid()
        assert len(rest) == 3 and os.getpid() not in rest

    def test_a_model_that_finds_subtopics_stays_here(
        self,
        encoder: DocumentEncoder,
        documents: list[Document],
        rows: list[tuple[int, int]],
        drawn_by: Callable[[], list[int]],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        matcher, pairs = prepared(encoder, documents, rows)
        monkeypatch.setattr(type(matcher.drawer.finder), "reads_model", True)
        assert len(list(draw_in_order(matcher, pairs, Workers(2)))) == PAIRS
        assert set(drawn_by()) == {os.getpid()}

    def test_pairs_are_read_as_they_are_needed(
        self, encoder: DocumentEncoder, documents: list[Document], rows: list[tuple[int, int]]
    ) -> None:
        matcher, pairs = prepared(encoder, documents, rows)
        read = []

        def given() -> Iterator[tuple[int, PairDocument, PairDocument]]:
            for pair in pairs:
                read.append(pair[0])
                yield pair

        assert next(draw_in_order(matcher, given(), Workers(0)))[0] == 0
        assert len(read) == BLOCK_PAIRS
        assert list(draw_in_order(matcher, [], Workers(2))) == []

    @pytest.mark.parametrize("workers", [0, 2])
    def test_pairs_before_an_error_are_drawn(
        self, encoder: DocumentEncoder, documents: list[Document], rows: list[tuple[int, int]], workers: int
    ) -> None:
        matcher, pairs = prepared(encoder, documents, rows)

        def given() -> Iterator[tuple[int, PairDocument, PairDocument]]:
            yield from pairs[: BLOCK_PAIRS + 3]
            raise KeyError("lost")

        found = []
        with pytest.raises(KeyError):
            for number, *_ in draw_in_order(matcher, given(), Workers(workers)):
                found.append(number)
        assert found == list(range(BLOCK_PAIRS + 3))

    def test_threads_of_this_process_stay_as_they_are(
        self, encoder: DocumentEncoder, documents: list[Document], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A limit holds for all threads of a process, and two that set it at once would never lift it."""
        matcher, pairs = prepared(encoder, documents, [(0, 1)])
        limits = []
        monkeypatch.setattr(matching, "threadpool_limits", lambda most: limits.append(most) or nullcontext())
        assert len(list(draw_in_order(matcher, pairs, Workers(0)))) == 1 and limits == []
        assert matching._draw_in_worker((matcher.drawer, range(1)), []) == [] and limits == [1]


def test_no_process_is_left_behind_an_error(
    encoder: DocumentEncoder,
    documents: list[Document],
    rows: list[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever holds the error, as a notebook does, holds its traceback, and with it all that was under way."""
    monkeypatch.setattr(Workers, "on", lambda *arguments, **options: Workers(2))
    with torch.no_grad():
        next(encoder.model.parameters()).fill_(torch.nan)
    held = []
    for run in (
        lambda: list(match_pairs(encoder, [(documents[a], documents[b]) for a, b in rows * 3])),
        lambda: MatchedPairs(documents, np.array(rows * 3)).scores(encoder),
    ):
        with pytest.raises(ModelError) as caught:
            run()
        held.append(caught)
        assert not multiprocessing.active_children()
    assert len(held) == 2


def test_scores_do_not_depend_on_processes(
    encoder: DocumentEncoder,
    documents: list[Document],
    rows: list[tuple[int, int]],
    drawn_by: Callable[[], list[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = [encoder.match(documents[a], documents[b]).score for a, b in rows]
    asked = []

    def on(device: torch.device, workers_given: int | None = None, *, after: int = 0) -> Workers:
        asked.append(after)
        return Workers(2)

    monkeypatch.setattr(Workers, "on", on)
    matches = match_pairs(encoder, [(documents[a], documents[b]) for a, b in rows])
    assert [match.score for match in matches] == pytest.approx(expected, abs=1e-5)
    evaluated = MatchedPairs(documents, np.array(rows)).scores(encoder)
    assert evaluated.tolist() == pytest.approx(expected, abs=1e-5)
    assert matching.MANY_PAIRS in asked
    assert len(drawn_by()[PAIRS:]) == 8 and os.getpid() not in drawn_by()[PAIRS:]
