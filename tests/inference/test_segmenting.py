from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator

import pytest
import torch

from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import DocumentError, SettingsError
from graphdoc.inference import segmenting
from graphdoc.inference.segmenting import MOST_WORKERS, Workers, segment_in_order

EncoderFactory = Callable[..., DocumentEncoder]


@pytest.fixture
def encoder(tiny_encoder: EncoderFactory, monkeypatch: pytest.MonkeyPatch) -> DocumentEncoder:
    monkeypatch.setattr(segmenting, "BLOCK_DOCUMENTS", 4)
    return tiny_encoder("bert")


def texts(count: int) -> list[dict[str, str]]:
    return [
        {"id": f"d{number}", "text": f"Tide number {number} came over the wall. " * (number % 5 + 1)}
        for number in range(count)
    ]


@pytest.mark.parametrize("workers", [2])
def test_the_same_whatever_the_workers(encoder: DocumentEncoder, workers: int) -> None:
    mixed = [encoder.segment(row) if number % 7 == 3 else row for number, row in enumerate(texts(40))]
    expected = list(segment_in_order(mixed, encoder.segmenter, Workers(0)))
    assert [one.document.id for one in expected] == [row["id"] for row in texts(40)]
    assert list(segment_in_order(mixed, encoder.segmenter, Workers(workers, 4))) == expected
    found = list(encoder.stream(mixed, workers=workers))
    assert [one for one, _ in found] == expected
    for (_, ours), (_, theirs) in zip(found, encoder.stream(mixed, workers=0), strict=True):
        assert torch.equal(ours, theirs)
    assert multiprocessing.active_children() == []


def test_documents_keep_what_does_not_travel(encoder: DocumentEncoder) -> None:
    rows = [{**row, "title": "A title", "year": 1912} for row in texts(10)]
    found = list(segment_in_order(rows, encoder.segmenter, Workers(1, 4)))
    assert [one.document for one in found] == [Document.from_mapping(row) for row in rows]


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_keeps_its_document_and_ends_the_workers(encoder: DocumentEncoder, workers: int) -> None:
    rows = [*texts(30), {"id": "bare", "text": "\u200b"}, *texts(5)]
    with pytest.raises(DocumentError) as error:
        encoder.encode(rows, workers=workers)
    assert "'bare'" in str(error.value)
    assert multiprocessing.active_children() == []


def test_segmented_documents_need_no_workers(encoder: DocumentEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    ready = [encoder.segment(row) for row in texts(20)]
    monkeypatch.setattr("graphdoc.runtime.workers.ProcessPoolExecutor", None)
    assert list(segment_in_order(iter(ready), encoder.segmenter, Workers(2, 4))) == ready


def test_documents_are_read_only_a_little_ahead(encoder: DocumentEncoder) -> None:
    read = 0

    def counted() -> Iterator[dict[str, str]]:
        nonlocal read
        for row in texts(200):
            read += 1
            yield row

    found = segment_in_order(counted(), encoder.segmenter, Workers(2, 4))
    next(found)
    assert read == 4, "the first block is cut here"
    for _ in range(5):
        next(found)
    assert read <= 4 * (1 + 6)
    found.close()
    assert multiprocessing.active_children() == []


def test_without_a_number_workers_suit_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(16)), raising=False)
    monkeypatch.setattr("multiprocessing.get_start_method", lambda **_: "fork")
    assert Workers.on(torch.device("cpu")).count == 1
    assert Workers.on(torch.device("cuda")).count == MOST_WORKERS
    for processes, device, count in (("4", "cuda", 3), ("8", "cpu", 0)):
        monkeypatch.setenv("LOCAL_WORLD_SIZE", processes)
        assert Workers.on(torch.device(device)).count == count
    monkeypatch.setattr("multiprocessing.get_start_method", lambda **_: "spawn")
    assert Workers.on(torch.device("cuda")).count == 0
    for wrong in (-1, 1.5):
        with pytest.raises(SettingsError) as error:
            Workers.on(torch.device("cpu"), wrong)  # type: ignore[arg-type]
        assert "workers" in str(error.value) and str(wrong) in str(error.value)
