from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import pytest
from corpus_examples import SettingsFactory, text_of, write_rows

from graphdoc.corpus.corpus import prepare_corpus
from graphdoc.corpus.source import StreamingCorpus
from graphdoc.errors import DocumentError
from graphdoc.runtime.processes import Processes
from graphdoc.segmentation.segmenter import Segmenter

KEPT = {f"d{number}" for number in range(40) if number % 10}


def process(rank: int, count: int) -> Any:
    """What a corpus needs to know of the processes of a job."""
    return SimpleNamespace(rank=rank, count=count)


def ids_of(corpus: StreamingCorpus) -> list[str]:
    return [document.id for document in corpus]


@pytest.mark.parametrize("processes", [1, 3])
def test_shares_make_up_the_corpus(settings: SettingsFactory, segmenter: Segmenter, processes: int) -> None:
    shares = [
        ids_of(StreamingCorpus(settings(streaming=True), segmenter, process(rank, processes), shuffled=7))
        for rank in range(processes)
    ]
    assert sorted(id for share in shares for id in share) == sorted(KEPT)
    assert max(map(len, shares)) - min(map(len, shares)) <= 3


def test_documents_are_those_of_a_prepared_corpus(settings: SettingsFactory, segmenter: Segmenter) -> None:
    corpus = prepare_corpus(settings(max_passages=3), segmenter)
    streaming = StreamingCorpus(settings(max_passages=3, streaming=True), segmenter, shuffled=1)
    for number, document in enumerate(streaming):
        expected = corpus[number]
        assert (document.id, document.group) == (expected.id, expected.group)
        assert document.sections.tolist() == expected.sections.tolist()
        assert [ids.tolist() for ids in document.token_ids] == [ids.tolist() for ids in expected.token_ids]
    assert streaming.report == corpus.report


def test_the_order_is_that_of_seed_and_epoch(settings: SettingsFactory, segmenter: Segmenter) -> None:
    chosen = settings(streaming=True)
    corpus = StreamingCorpus(chosen, segmenter, shuffled=10, seed=1)
    first = ids_of(corpus)
    assert ids_of(corpus) == first == ids_of(StreamingCorpus(chosen, segmenter, shuffled=10, seed=1))
    in_order = ids_of(StreamingCorpus(settings(streaming=True), segmenter, shuffled=1))
    corpus.set_epoch(1)
    second = ids_of(corpus)
    other = ids_of(StreamingCorpus(chosen, segmenter, shuffled=10, seed=2))
    assert len({tuple(order) for order in (first, second, other, in_order)}) == 4
    assert sorted(first) == sorted(second) == sorted(other) == sorted(in_order)
    # Nothing comes before it has been in the buffer.
    assert all(in_order.index(id) < place + 10 + 4 for place, id in enumerate(first))


@pytest.mark.parametrize("taken", [0, 17, 36])
def test_a_run_goes_on_where_it_stopped(settings: SettingsFactory, segmenter: Segmenter, taken: int) -> None:
    chosen = settings(streaming=True)
    whole = StreamingCorpus(chosen, segmenter, shuffled=10, seed=3)
    whole.set_epoch(2)
    expected = ids_of(whole)
    stopped = StreamingCorpus(chosen, segmenter, shuffled=10, seed=3)
    stopped.set_epoch(2)
    documents = iter(stopped)
    assert [next(documents).id for _ in range(taken)] == expected[:taken]
    again = StreamingCorpus(chosen, segmenter, shuffled=10, seed=3)
    again.load_state(stopped.state)
    # A trainer tells the epoch before each one.
    again.set_epoch(2)
    assert ids_of(again) == expected[taken:]
    assert ids_of(again) == expected


def test_what_was_taken_is_not_cut_again(
    settings: SettingsFactory, segmenter: Segmenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = StreamingCorpus(settings(streaming=True), segmenter, shuffled=10)
    corpus.load_state({"epoch": 0, "documents": 35})
    cut = []
    real = Segmenter.segment_many

    def counted(self: Segmenter, documents: Any) -> Any:
        cut.extend(documents := list(documents))
        return real(self, documents)

    monkeypatch.setattr(Segmenter, "segment_many", counted)
    assert set(ids_of(corpus)) == {document.id for document in cut} & KEPT
    assert len(cut) == 5
    assert corpus.state == {"epoch": 0, "documents": 40}


class TestBatches:
    def test_state_counts_what_was_handed_out(self, settings: SettingsFactory, segmenter: Segmenter) -> None:
        chosen = settings(streaming=True)
        expected = ids_of(StreamingCorpus(chosen, segmenter, shuffled=10))
        corpus = StreamingCorpus(chosen, segmenter, shuffled=10)
        batches = corpus.batches(3)
        found = [document.id for _ in range(5) for document in next(batches)]
        assert found == expected[:15]
        again = StreamingCorpus(chosen, segmenter, shuffled=10)
        again.load_state(corpus.state)
        rest = [[document.id for document in batch] for batch in again.batches(3)]
        assert [id for batch in rest for id in batch] == expected[15:]
        assert {len(batch) for batch in rest} == {3}

    def test_all_stop_with_the_shortest(self, settings: SettingsFactory, segmenter: Segmenter) -> None:
        corpus = StreamingCorpus(settings(streaming=True), segmenter, process(0, 2))

        class Other(Processes):
            """Another process that has ten batches, eight of them in the first round."""

            def __init__(self) -> None:
                self.ready = [8, 2]

            def gather(self, value: Any) -> list[Any]:
                return [value, self.ready.pop(0)]

        assert len(list(corpus.batches(1, Other()))) == 10

    def test_too_few_documents_are_reported(self, settings: SettingsFactory, segmenter: Segmenter) -> None:
        corpus = StreamingCorpus(settings(streaming=True), segmenter)
        with pytest.raises(DocumentError, match="fewer than 37 documents"):
            list(corpus.batches(37))
        assert len(list(corpus.batches(36))) == 1


class TestDataSets:
    @pytest.fixture
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets")
        for part in range(3):
            rows = [{"text": text_of(2, 10 * part + number)} for number in range(5)]
            write_rows(tmp_path / "set" / f"train-{part}.jsonl", rows)
        return tmp_path / "set"

    def test_a_broken_shard_is_named_or_skipped(
        self, settings: SettingsFactory, segmenter: Segmenter, folder: Path
    ) -> None:
        logging.getLogger("datasets").setLevel(logging.CRITICAL)
        (folder / "train-1.jsonl").write_text('{"text": "a"}\n{"text": broken\n', encoding="utf-8")
        with pytest.raises(DocumentError, match="cannot be read after row 5") as caught:
            ids_of(StreamingCorpus(settings(dataset=str(folder), streaming=True), segmenter))
        assert str(folder) in str(caught.value) and "\n" not in str(caught.value)
        corpus = StreamingCorpus(settings(dataset=str(folder), streaming=True, on_error="skip"), segmenter)
        assert len(ids_of(corpus)) == 5
        assert corpus.report.errors == 1
        assert "the rest is not read" in corpus.report.first_errors[0].reason


def test_draws_of_shares_differ(settings: SettingsFactory, segmenter: Segmenter, tmp_path: Path) -> None:
    rows = [{"id": str(number), "text": text_of(2, number)} for number in range(24)]
    chosen = settings(source=str(write_rows(tmp_path / "even.jsonl", rows)), streaming=True)
    # The shares are the even and the odd numbers.
    orders = [
        [int(id) // 2 for id in ids_of(StreamingCorpus(chosen, segmenter, process(rank, 2), shuffled=10))]
        for rank in (0, 1)
    ]
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(12))
