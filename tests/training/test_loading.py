from __future__ import annotations

import gc
import multiprocessing
import time
from collections.abc import Iterator
from itertools import islice
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forked import run

from graphdoc.sampling import EpochBatches
from graphdoc.sampling.batches import Place
from graphdoc.training import data as loading
from graphdoc.training.data import EpochLoader

# Batches that a worker may have before it.
AHEAD = 4


class Numbers:
    """A corpus whose documents are their rows, some of them damaged."""

    def __init__(self, count: int, *, damaged: tuple[int, ...] = ()) -> None:
        self.passage_counts = np.full(count, 3)
        self._damaged = damaged

    def __len__(self) -> int:
        return len(self.passage_counts)

    def __getitem__(self, row: int) -> Any:
        if row in self._damaged:
            raise OSError(f"row {row} is damaged")
        return row


class CountedBatches(EpochBatches):
    """Counts the batches that were begun."""

    begun = 0

    def of_epoch(self, epoch: int) -> Iterator[list[Place]]:
        for batch in super().of_epoch(epoch):
            self.begun += 1
            yield batch


def places(items: Any) -> list[Place]:
    assert all(row == document for document, _, row in items)
    return [(epoch, row) for _, epoch, row in items]


def loader_of(count: int = 40, workers: int = 1, **options: Any) -> tuple[EpochLoader, CountedBatches]:
    """A loader of batches of 8, and its batches."""
    batches = CountedBatches(np.full(count, 3), 8, seed=1)
    return EpochLoader(Numbers(count, **options.pop("corpus", {})), batches, places, workers, **options), batches


def some(loader: EpochLoader, first: int, count: int) -> list[list[Place]]:
    """Batches from a step on."""
    return list(islice(loader.batches(first), count))


def expected(*epochs: int, count: int = 40, seed: int = 1) -> list[list[Place]]:
    batches = EpochBatches(np.full(count, 3), 8, seed=seed)
    return [batch for epoch in epochs for batch in batches.of_epoch(epoch)]


@pytest.fixture(autouse=True)
def _no_worker_is_left() -> Iterator[None]:
    before = set(active_children())
    yield
    # The traceback of an error holds the frames of the iteration it came from.
    gc.collect()
    assert set(active_children()) == before


@pytest.mark.parametrize(
    ("workers", "count", "across_epochs"), [(0, 43, False), (0, 8, True), (1, 8, False), (2, 43, False), (2, 43, True)]
)
def test_a_loader_gives_the_batches_of_each_epoch(workers: int, count: int, across_epochs: bool) -> None:
    loader, _ = loader_of(count, workers, steps=3 * (count // 8), across_epochs=across_epochs)

    assert loader.epoch_steps == count // 8
    assert list(loader.batches()) == expected(0, 1, 2, count=count)
    assert list(loader.batches(3 * (count // 8))) == []
    loader.close()


def test_loading_goes_on_across_the_end_of_an_epoch_and_not_too_far() -> None:
    workers = 2
    loader, batches = loader_of(workers=workers)
    workers_at_work = set()
    for taken, batch in enumerate(islice(loader.batches(), 4 * loader.epoch_steps), start=1):
        assert batch[0][0] == (taken - 1) // loader.epoch_steps
        assert batches.begun == taken + workers * AHEAD
        workers_at_work |= set(active_children())
    assert len(workers_at_work) == workers
    loader.close()


@pytest.mark.parametrize("workers", [2])
def test_what_an_epoch_changes_is_in_its_batches(workers: int) -> None:
    """Workers have the state of the program from when they began."""
    loader, batches = loader_of(workers=workers, across_epochs=False)
    found = loader.batches(8)
    first = [next(found), next(found)]
    assert batches.begun == loader.epoch_steps, "none of the next epoch"
    # As mined negatives would.
    batches._seed = 2
    rest = [next(found) for _ in range(loader.epoch_steps)]
    loader.close()

    assert first == expected(1)[3:]
    assert rest == expected(2, seed=2) != expected(2)


def test_an_iteration_may_start_anywhere_and_anew() -> None:
    loader, _ = loader_of()
    run = expected(0, 1, 2, 3)
    assert some(loader, 15, 5) == run[15:]
    assert some(loader, 7, 9) == run[7:16]
    broken_off = loader.batches(5)
    assert next(broken_off) == run[5]
    assert some(loader, 5, 10) == run[5:15]
    assert list(broken_off) == []
    loader.close()


@pytest.mark.parametrize("place", [0, 2])
def test_after_an_error_nothing_is_out_of_step(place: int) -> None:
    damaged = expected(1)[place][0][1]
    loader, _ = loader_of(corpus={"damaged": (damaged,)})
    whole = [place for place, batch in enumerate(expected(1)) if damaged not in {row for _, row in batch}]
    for _ in range(2):
        with pytest.raises(OSError, match=f"row {damaged} is damaged"):
            some(loader, 5, 5)
    assert some(loader, 5, place) == [expected(1)[one] for one in whole[:place]]
    loader.close()


class BrokenConnection:
    """What loads ahead, where the connection to its worker breaks."""

    def __init__(self, worker: Any) -> None:
        self._workers = [worker]

    def __next__(self) -> Any:
        raise ConnectionResetError("reset by peer")


@pytest.mark.parametrize(("is_ended", "error"), [(True, RuntimeError), (False, ConnectionResetError)])
def test_a_connection_that_breaks_with_its_worker_is_that_of_a_worker(
    monkeypatch: pytest.MonkeyPatch, is_ended: bool, error: type[Exception]
) -> None:
    loader, _ = loader_of(workers=0)
    # It is still there when the connection breaks.
    worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=(0.3 if is_ended else 60,))
    worker.start()
    monkeypatch.setattr(loading, "ENDING", 60.0 if is_ended else 0.1)
    broken = BrokenConnection(worker)
    monkeypatch.setattr(loader, "_ahead", broken)
    with pytest.raises(error) as caught:
        loader._next(broken)
    assert str(caught.value).startswith("DataLoader worker") == is_ended
    worker.kill()
    worker.join()


def test_a_program_ends_whose_loader_nobody_closed(tmp_path: Path) -> None:
    """Python ends processes that are left over by SIGTERM, and waits for them."""
    script = tmp_path / "script.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from multiprocessing import active_children\n"
        "from test_loading import loader_of\n"
        "loader, _ = loader_of(workers=2)\n"
        "iteration = loader.batches(); next(iteration)\n"
        "kept = loader._ahead\n"
        "print(len(active_children()))\n",
        encoding="utf-8",
    )
    assert run(script).stdout == "2\n"
