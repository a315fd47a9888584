"""Losses with labels in two processes: ``losses_job.py OUTPUT`` writes what each of them finds."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, distributed

from graphdoc.losses import LossOutput, PairCosine, SupervisedContrastive
from graphdoc.losses.gathering import alone
from graphdoc.runtime.processes import Processes

torch.set_num_threads(1)

HIDDEN = 5
# Labels by process. Numbers of rows and of rows with a positive differ, and positives lie in the other process.
LABELS = {
    "uneven": ([1, 2, 1, 3, 2, 7, 1], [2, 9]),
    "positives of one process only": ([1, 1, 4], [5, 6, 7, 8]),
    "positives across processes only": ([1, 2], [2, 1, 3]),
    "no rows in one process": ([1, 2, 1, 2, 3], []),
    "no positives": ([1, 2, 3], [4, 5]),
}
# Labels of pairs by process.
PAIRS = {"uneven": ([1, 0, 0, 0, 1], [1]), "one label each": ([1, 1], [0, 0, 0]), "no pairs in one": ([], [1, 0])}

Loss = Callable[[Tensor, Tensor], LossOutput]


def rows_of(count: int) -> Tensor:
    """Rows that are the same in every process."""
    return torch.randn(count, HIDDEN, generator=torch.Generator().manual_seed(count))


def supervised(vectors: Tensor, labels: Tensor) -> LossOutput:
    """The supervised contrastive loss."""
    return SupervisedContrastive(0.3)(vectors, labels)


def pair_cosine(vectors: Tensor, labels: Tensor) -> LossOutput:
    """The cosine loss of vectors with those of a fixed other document each."""
    return PairCosine(0.1)(vectors, vectors.detach().flip(-1), labels)


CASES: list[tuple[str, Loss, tuple[list[int], list[int]]]] = [
    *((f"supervised, {name}", supervised, labels) for name, labels in LABELS.items()),
    *((f"pairs, {name}", pair_cosine, labels) for name, labels in PAIRS.items()),
]


def measured(loss: Loss, rows: Tensor, labels: list[int]) -> dict[str, object]:
    """The loss, its metrics and the gradient at the rows."""
    vectors = rows.clone().requires_grad_()
    output = loss(vectors, torch.tensor(labels, dtype=torch.int64))
    output.loss.backward()  # type: ignore[no-untyped-call]
    assert vectors.grad is not None
    metrics = {name: value.item() for name, value in output.metrics.items()}
    return {"loss": output.loss.item(), "metrics": metrics, "gradient": vectors.grad.tolist()}


def main(output: str) -> None:
    """Measure the losses of this process's rows."""
    with Processes(torch.device("cpu")) as processes:
        found = {}
        for name, loss, shares in CASES:
            everything = rows_of(sum(map(len, shares)))
            first = len(shares[0])
            own = everything[:first] if processes.rank == 0 else everything[first:]
            found[name] = measured(loss, own, shares[processes.rank])
            with alone():
                found[f"{name}, alone"] = measured(loss, own, shares[processes.rank])
        Path(f"{output}-{processes.rank}.json").write_text(json.dumps(found), encoding="utf-8")
        distributed.barrier()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
