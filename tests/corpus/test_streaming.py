"""Documents that are streamed, and data sets laid out as the hub keeps OpenWebText."""

from __future__ import annotations

import logging
import multiprocessing
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpus_examples import SettingsFactory, rows_of, text_of, write_rows
from training_fixtures import Prepare, Stream
from typed import Patch

from graphdoc.corpus import document as corpus_document
from graphdoc.corpus import source
from graphdoc.corpus.document import CorpusReport, text_fingerprint, tokenize_in_order
from graphdoc.corpus.source import CorpusSource, StreamingCorpus
from graphdoc.documents.document import Document
from graphdoc.errors import DocumentError, GraphdocError
from graphdoc.runtime.processes import Processes
from graphdoc.segmentation.segmenter import Segmenter

KEPT = {f"d{number}" for number in range(40) if number % 10}


def process(rank: int, count: int) -> Any:
    """What a corpus needs to know of the processes of a job."""
    return SimpleNamespace(rank=rank, count=count)


def ids_of(corpus: StreamingCorpus) -> list[str]:
    return [document.id for document in corpus]


def test_shares_make_up_the_corpus_and_are_drawn_differently(stream: Stream, tmp_path: Path) -> None:
    for processes in (1, 3):
        shares = [ids_of(stream(process(rank, processes), shuffled=7)) for rank in range(processes)]
        assert sorted(id for share in shares for id in share) == sorted(KEPT)
        assert max(map(len, shares)) - min(map(len, shares)) <= 3
    rows = [{"id": str(number), "text": text_of(2, number)} for number in range(24)]
    source = str(write_rows(tmp_path / "even.jsonl", rows))
    # The shares are the even and the odd numbers.
    first, second = (
        [int(id) // 2 for id in ids_of(stream(process(rank, 2), shuffled=10, source=source))] for rank in (0, 1)
    )
    assert first != second and sorted(first) == sorted(second) == list(range(12))


def test_documents_are_those_of_a_prepared_corpus(prepare: Prepare, stream: Stream) -> None:
    corpus = prepare(max_passages=3)
    streaming = stream(shuffled=1, max_passages=3)
    for number, document in enumerate(streaming):
        expected = corpus[number]
        assert (document.id, document.group) == (expected.id, expected.group)
        assert document.sections.tolist() == expected.sections.tolist()
        assert [ids.tolist() for ids in document.token_ids] == [ids.tolist() for ids in expected.token_ids]
    assert streaming.report == corpus.report


def test_the_order_is_that_of_seed_and_epoch(stream: Stream) -> None:
    corpus = stream(shuffled=10, seed=1)
    first = ids_of(corpus)
    assert ids_of(corpus) == first == ids_of(stream(shuffled=10, seed=1))
    in_order = ids_of(stream(shuffled=1))
    corpus.set_epoch(1)
    second = ids_of(corpus)
    other = ids_of(stream(shuffled=10, seed=2))
    assert len({tuple(order) for order in (first, second, other, in_order)}) == 4
    assert sorted(first) == sorted(second) == sorted(other) == sorted(in_order)
    # Nothing comes before it has been in the buffer.
    assert all(in_order.index(id) < place + 10 + 4 for place, id in enumerate(first))


@pytest.mark.parametrize("taken", [0, 17, 36])
def test_a_run_goes_on_where_it_stopped(stream: Stream, taken: int, monkeypatch: Patch) -> None:
    whole = stream(shuffled=10, seed=3)
    whole.set_epoch(2)
    expected = ids_of(whole)
    stopped = stream(shuffled=10, seed=3)
    stopped.set_epoch(2)
    documents = iter(stopped)
    assert [next(documents).id for _ in range(taken)] == expected[:taken]
    again = stream(shuffled=10, seed=3)
    again.load_state(stopped.state)
    # A trainer tells the epoch before each one; what was taken is not cut again.
    again.set_epoch(2)
    cut, real = [], Segmenter.segment_many

    def counted(own: Segmenter, documents: Any) -> Any:
        cut.extend(documents := list(documents))
        return real(own, documents)

    monkeypatch.setattr(Segmenter, "segment_many", counted)
    assert ids_of(again) == expected[taken:]
    assert len(cut) <= 40 - taken
    assert ids_of(again) == expected


def test_batches_count_what_was_handed_out_and_all_processes_stop_with_the_shortest(stream: Stream) -> None:
    corpus, again = (stream(shuffled=10) for _ in range(2))
    expected = ids_of(stream(shuffled=10))
    batches = corpus.batches(3)
    assert [document.id for _ in range(5) for document in next(batches)] == expected[:15]
    again.load_state(corpus.state)
    rest = [[document.id for document in batch] for batch in again.batches(3)]
    assert [id for batch in rest for id in batch] == expected[15:] and {len(batch) for batch in rest} == {3}

    class Other(Processes):
        """Another process that has ten batches, eight of them in the first round."""

        def __init__(self) -> None:
            self.ready = [8, 2]

        def gather(self, value: Any) -> list[Any]:
            return [value, self.ready.pop(0)]

    assert len(list(stream(process(0, 2)).batches(1, Other()))) == 10
    with pytest.raises(DocumentError, match="37 documents"):
        list(stream().batches(37))
    assert len(list(stream().batches(36))) == 1


def test_a_broken_shard_is_named_or_skipped(stream: Stream, tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets")
    logging.getLogger("datasets").setLevel(logging.CRITICAL)
    folder = tmp_path / "set"
    for part in range(3):
        write_rows(folder / f"train-{part}.jsonl", [{"text": text_of(2, 10 * part + number)} for number in range(5)])
    (folder / "train-1.jsonl").write_text('{"text": "a"}\n{"text": broken\n', encoding="utf-8")
    with pytest.raises(DocumentError, match="after row 5") as caught:
        ids_of(stream(dataset=str(folder)))
    assert str(folder) in str(caught.value) and "\n" not in str(caught.value)
    corpus = stream(dataset=str(folder), on_error="skip")
    assert (len(ids_of(corpus)), corpus.report.errors) == (5, 1)


FILES, ROWS = 4, 5
README = """---
dataset_info:
  config_name: plain_text
  features:
  - name: text
    dtype: string
  splits:
  - name: train
    num_bytes: 10000
    num_examples: 20
configs:
- config_name: plain_text
  data_files:
  - split: train
    path: plain_text/train-*
  default: true
---
# OpenWebText
"""


@pytest.fixture
def web(tmp_path: Path, monkeypatch: Patch) -> Path:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets")
    folder = tmp_path / "openwebtext"
    (folder / "plain_text").mkdir(parents=True)
    (folder / "README.md").write_text(README, encoding="utf-8")
    for number in range(FILES):
        texts = [text_of(2, ROWS * number + row) for row in range(ROWS)]
        pq.write_table(pa.table({"text": texts}), folder / f"plain_text/train-{number:05d}-of-{FILES:05d}.parquet")
    return folder


def test_it_is_stored_and_streamed_alike(prepare: Prepare, stream: Stream, web: Path) -> None:
    stored = prepare(dataset=str(web))
    assert len(stored) == FILES * ROWS
    streamed = list(stream(shuffled=1, dataset=str(web)))
    assert [one.id for one in streamed] == stored.ids
    assert [one.group for one in streamed] == [stored[number].group for number in range(len(stored))]
    assert not list((web.parent / "datasets").rglob("*.arrow")), "nothing is copied"
    assert prepare(dataset=str(web), split="train[:25%]").ids == stored.ids[:ROWS]
    assert prepare(dataset=str(web), dataset_config="plain_text").fingerprint == stored.fingerprint


def test_classes_are_called_by_their_names(settings: SettingsFactory, tmp_path: Path) -> None:
    rows = datasets.Dataset.from_dict({"text": [text_of(2, 1), text_of(2, 2)], "label": [1, 0]})
    rows.cast_column("label", datasets.ClassLabel(names=["sport", "news"])).to_parquet(tmp_path / "named.parquet")
    assert [row["label"] for row in source.DataSet(settings(dataset=str(tmp_path))).rows()] == ["news", "sport"]


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_every_process_reads_its_share(stream: Stream, settings: SettingsFactory, web: Path, processes: int) -> None:
    chosen = settings(dataset=str(web), streaming=True)
    shares: list[set[int]] = []
    for rank in range(processes):
        corpus = stream(process(rank, processes), shuffled=1, dataset=str(web))
        shares.append({document.group for document in corpus})
        assert corpus.report.documents == len(shares[-1])
    assert len(set.union(*shares)) == sum(map(len, shares)) == FILES * ROWS
    # A share of whole files reads no others.
    for number in (1, 3):
        (web / f"plain_text/train-{number:05d}-of-{FILES:05d}.parquet").write_bytes(b"broken")
    assert len(list(CorpusSource(chosen).documents(CorpusReport(), 0, 2))) == 2 * ROWS
    with pytest.raises(DocumentError, match="after row 0"):
        list(CorpusSource(chosen).documents(CorpusReport(), 1, 2))


def test_changed_files_make_another_corpus_and_touched_ones_do_not(prepare: Prepare, web: Path) -> None:
    before = prepare(dataset=str(web))
    path = web / f"plain_text/train-00002-of-{FILES:05d}.parquet"
    os.utime(path, ns=(0, 10**18))
    assert prepare(dataset=str(web)).fingerprint == before.fingerprint
    pq.write_table(pa.table({"text": [text_of(2, 1000 + row) for row in range(ROWS)]}), path)
    os.utime(path, ns=(0, 10**18))
    assert prepare(dataset=str(web)).content != before.content


def test_what_is_not_there_is_named(settings: SettingsFactory, web: Path, monkeypatch: Patch) -> None:
    for options, named in (
        ({"split": "test"}, "split 'test'"),
        ({"dataset_config": "other"}, "configuration 'other'"),
        ({"split": "train[:10%]", "streaming": True}, "split 'train[:10%]'"),
    ):
        with pytest.raises(DocumentError) as caught:
            CorpusSource(settings(dataset=str(web), **options))
        assert named in str(caught.value) and str(web) in str(caught.value) and "\n" not in str(caught.value)
    # Some of it may be missing without a word, and documents that cannot be read are skipped.
    for known, errors in ((FILES * ROWS, 0), (FILES * ROWS + 1, 1)):
        monkeypatch.setitem(source.KNOWN_ROWS, str(web), known)
        list(CorpusSource(settings(dataset=str(web), on_error="skip")).documents(report := CorpusReport()))
        assert report.errors == errors and all(f"{known:,}" in error.reason for error in report.first_errors)
    # As the hub names what it has not converted to the end.
    (web / "README.md").unlink()
    (web / "plain_text").rename(web / "partial-train")
    for split in ("train", "train[:10%]"):
        with pytest.raises(DocumentError, match="revision None"):
            CorpusSource(settings(dataset=str(web), split=split))


@pytest.mark.skipif(multiprocessing.get_start_method() != "fork", reason="the broken segmenter reaches forks only")
def test_processes_give_documents_in_order_and_one_that_is_ended_from_outside_is_named(
    segmenter: Segmenter, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(corpus_document, "BLOCK_DOCUMENTS", 4)
    documents = [Document.from_mapping(row) for row in rows_of(30)]
    for processes in (1, 3):
        found = list(tokenize_in_order(enumerate(documents), segmenter, processes))
        assert [(one.id, one.group) for one in found] == [(one.id, number) for number, one in enumerate(documents)]
        for one, document in zip(found, documents, strict=True):
            expected = segmenter.segment(document)
            assert tuple(tuple(ids.tolist()) for ids in one.passages.tokens) == expected.token_ids
            assert one.passages.sections.tolist() == [passage.section for passage in expected.passages]
            assert one.coverage == expected.coverage
    monkeypatch.setattr(Segmenter, "segment_many", lambda *_: os._exit(9))
    with pytest.raises(GraphdocError, match="preparing_processes=2"):
        list(tokenize_in_order(enumerate(documents), segmenter, 2))


def test_only_the_text_counts_for_the_hash() -> None:
    one = Document.from_mapping({"id": "a", "title": "A", "sections": [{"heading": "H", "text": "Rice."}]})
    numbers = [text_fingerprint(each) for each in (one, Document.from_text("Rice."), Document.from_text("Rice!"))]
    assert numbers[0] == numbers[1] != numbers[2] and np.array(numbers).dtype == np.int64
