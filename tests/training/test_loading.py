from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from itertools import islice
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpus_examples import rows_of, write_rows
from forked import run
from training_runs import losses_of, same_model, write_config
from typed import Backbones, Patch

from graphdoc.sampling.batches import EpochBatches, EpochRow
from graphdoc.settings.loading import load_settings
from graphdoc.settings.pretraining import SubDocumentSettings
from graphdoc.trainer import train
from graphdoc.training import step as cached_step
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

    def of_epoch(self, epoch: int) -> Iterator[list[EpochRow]]:
        for batch in super().of_epoch(epoch):
            self.begun += 1
            yield batch


def places(items: Any) -> list[EpochRow]:
    assert all(row == document for document, _, row in items)
    return [(epoch, row) for _, epoch, row in items]


def loader_of(count: int = 40, workers: int = 1, **options: Any) -> tuple[EpochLoader, CountedBatches]:
    """A loader of batches of 8, and its batches."""
    batches = CountedBatches(np.full(count, 3), 8, seed=1)
    return EpochLoader(Numbers(count, **options.pop("corpus", {})), batches, places, workers, **options), batches


def some(loader: EpochLoader, first: int, count: int) -> list[list[EpochRow]]:
    return list(islice(loader.batches(first), count))


def expected(*epochs: int, count: int = 40, seed: int = 1) -> list[list[EpochRow]]:
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
    loader, batches = loader_of(workers=2)
    workers_at_work = set()
    for taken, batch in enumerate(islice(loader.batches(), 4 * loader.epoch_steps), start=1):
        assert batch[0][0] == (taken - 1) // loader.epoch_steps
        assert batches.begun == taken + 2 * AHEAD
        workers_at_work |= set(active_children())
    assert len(workers_at_work) == 2
    loader.close()
    # Workers have the state of the program from when they began: what an epoch changes is in its batches.
    loader, batches = loader_of(workers=2, across_epochs=False)
    found = loader.batches(8)
    first = [next(found), next(found)]
    assert batches.begun == loader.epoch_steps, "none of the next epoch"
    # As mined negatives would.
    batches._seed = 2
    rest = [next(found) for _ in range(loader.epoch_steps)]
    loader.close()
    assert first == expected(1)[3:]
    assert rest == expected(2, seed=2) != expected(2)


def test_an_iteration_may_start_anywhere_and_anew_and_after_an_error_nothing_is_out_of_step() -> None:
    loader, _ = loader_of()
    run = expected(0, 1, 2, 3)
    assert some(loader, 15, 5) == run[15:]
    assert some(loader, 7, 9) == run[7:16]
    broken_off = loader.batches(5)
    assert next(broken_off) == run[5]
    assert some(loader, 5, 10) == run[5:15]
    assert list(broken_off) == []
    loader.close()
    damaged = expected(1)[2][0][1]
    loader, _ = loader_of(corpus={"damaged": (damaged,)})
    for _ in range(2):
        with pytest.raises(OSError, match=f"row {damaged} is damaged"):
            some(loader, 5, 5)
    assert some(loader, 5, 2) == expected(1)[:2]
    loader.close()


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


@pytest.fixture
def settings(backbone_folder: Backbones, tmp_path: Path) -> SubDocumentSettings:
    """A run that streams some 30 documents, several times over."""
    config = write_config(
        tmp_path, write_rows(tmp_path / "corpus.jsonl", rows_of(30)), backbone_folder("roberta"),
        {"projection_size": 16, "passage_words": 20}, loss={"similarity": "cosine", "temperature": 0.2},
        training={"batch_size": 4, "max_steps": 17, "learning_rate": 1e-3, "save_steps": 3},
    )  # fmt: skip
    return load_settings(SubDocumentSettings, config, ["corpus.streaming=true"])


def losses(folder: Path) -> dict[int, tuple[float, float]]:
    """Loss and place in the run at every step."""
    return {entry["step"]: (entry["loss"], entry["epoch"]) for entry in losses_of(folder)}


def test_a_stream_is_trained_on_over_several_epochs_and_goes_on_where_it_was(
    settings: SubDocumentSettings, tmp_path: Path, monkeypatch: Patch
) -> None:
    train(settings, device="cpu")
    assert sorted(losses(tmp_path / "run")) == list(range(1, 18))
    assert losses(tmp_path / "run")[17][1] == 1
    interrupted = settings.replace(output=str(tmp_path / "other"))
    original, before = cached_step.CachedStep.__call__, iter(range(11))

    def failing(self: Any, batch: Any) -> Any:
        if next(before, None) is None:
            raise KeyboardInterrupt
        return original(self, batch)

    monkeypatch.setattr(cached_step.CachedStep, "__call__", failing)
    with pytest.raises(KeyboardInterrupt):
        train(interrupted, device="cpu")
    monkeypatch.undo()

    state = json.loads((tmp_path / "other" / "checkpoint-9" / "trainer_state.json").read_text())
    assert state["data"]["epoch"] == 1, "the interruption is to fall into another epoch than the first"
    train(interrupted, resume=True, device="cpu")

    assert losses(tmp_path / "other") == losses(tmp_path / "run")
    assert same_model(tmp_path / "run", tmp_path / "other")
