"""Several processes encode a share each and get the numbers of a single one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from typed import Encoders, Patch

from graphdoc.documents.document import Document
from graphdoc.evaluation import ClassificationEvaluator, ClusteringEvaluator, Evaluator, LabelledPair, PairEvaluator
from graphdoc.segmentation.spans import Coverage

WORDS = {"rice": "rice steam koji mould grain", "sea": "tide wave marsh wall flood"}


class Exchange:
    """Stands for the processes of a job: threads that wait for each other and exchange values."""

    def __init__(self, count: int) -> None:
        self.barrier, self.values = threading.Barrier(count, timeout=600), [None] * count

    def gather(self, rank: int, value: Any) -> list[Any]:
        self.values[rank] = value
        self.barrier.wait()
        found = list(self.values)
        self.barrier.wait()
        return found


class Member:
    def __init__(self, exchange: Exchange, rank: int, count: int) -> None:
        self.exchange, self.rank, self.count = exchange, rank, count

    def gather(self, value: Any) -> list[Any]:
        return self.exchange.gather(self.rank, value)

    def run_first(self, function: Callable[[], object]) -> None:
        if self.rank == 0:
            function()
        self.gather(None)


def documents(part: str, count: int) -> list[Document]:
    draw = np.random.default_rng(len(part))
    result = []
    for number in range(count):
        label = list(WORDS)[number % 2]
        text = " ".join(draw.choice(WORDS[label].split(), 10 + 7 * number))
        result.append(Document.from_text(f"{text}.", id=f"{part}{number}", label=label))
    return result


def evaluators() -> dict[str, Evaluator]:
    train, test = documents("train", 7), documents("test", 4)
    pairs = [LabelledPair("test0", "test2", 1), LabelledPair("test0", "test1", 0)]
    return {
        "classify": ClassificationEvaluator(test),
        "cluster": ClusteringEvaluator(train, test, probe=True),
        "compare": PairEvaluator(test, pairs),
    }


@pytest.mark.parametrize("task", ["classify", "cluster", "compare"])
def test_processes_share_work_and_get_the_same_numbers(task: str, tiny_encoder: Encoders, monkeypatch: Patch) -> None:
    count, settings = 3, {"readout": "mean", "labels": list(WORDS), "max_passages": 2}
    evaluator = evaluators()[task]
    assert evaluator.task == task
    expected = evaluator(tiny_encoder("bert", **settings))
    encoders = [tiny_encoder("bert", **settings) for _ in range(count)]
    exchange = Exchange(count)
    members: list[Any] = [Member(exchange, rank, count) for rank in range(count)]
    with ThreadPoolExecutor(count) as pool:
        found = list(pool.map(evaluator, encoders, members))
        ready = list(pool.map(lambda encoder, member: evaluator.prepared(encoder, member), encoders, members))
        # Each has prepared its own share, and encodes no other.
        monkeypatch.setattr("graphdoc.segmentation.segmenter.Segmenter._plan", None)
        again = list(pool.map(lambda one, *others: one(*others), ready, encoders, members))
    for numbers in (*found, *again):
        assert numbers == pytest.approx(expected, abs=1e-5)
    assert evaluator.best in expected and evaluator.greater_is_better


def test_coverage_is_that_of_all_documents(tiny_encoder: Encoders) -> None:
    evaluator, exchange = evaluators()["compare"], Exchange(2)
    alone, shared = Coverage(), [Coverage(), Coverage()]
    evaluator.encode(tiny_encoder("bert", max_passages=1), totals=alone)

    def encode(rank: int) -> None:
        member: Any = Member(exchange, rank, 2)
        evaluator.encode(tiny_encoder("bert", max_passages=1), member, totals=shared[rank])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(encode, range(2)))
    assert alone.documents == len(evaluator.documents) == 3
    assert [one.to_dict() for one in shared] == [alone.to_dict()] * 2
