"""Cross entropy in two processes: ``cross_entropy_job.py OUTPUT`` writes what each of them finds."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed

from graphdoc.losses.cross_entropy import ClassificationLoss
from graphdoc.losses.gathering import alone
from graphdoc.runtime.processes import Processes

torch.set_num_threads(1)

CLASSES = 4
WEIGHTS = (0.5, 2.0, 7.0, 1.0)
LOSSES = {
    "single": ClassificationLoss(),
    "weighted": ClassificationLoss(class_weights=WEIGHTS, label_smoothing=0.1),
    "several": ClassificationLoss(multi_label=True, class_weights=WEIGHTS, label_smoothing=0.2),
}
# Documents of the first and of the second process.
SHARES = {"even": (3, 3), "uneven": (7, 2), "none in one": (4, 0)}


def documents_of(count: int, multi_label: bool) -> tuple[Tensor, Tensor]:
    """Logits and targets that are the same in every process."""
    draw = torch.Generator().manual_seed(count)
    logits = 2 * torch.randn(count, CLASSES, generator=draw)
    shape = (count, CLASSES) if multi_label else (count,)
    return logits, torch.randint(2 if multi_label else CLASSES, shape, generator=draw)


def measured(loss: ClassificationLoss, logits: Tensor, targets: Tensor) -> dict[str, Any]:
    """The loss, its accuracy and the gradient at the logits."""
    logits = logits.clone().requires_grad_()
    output = loss(logits, targets.float() if loss.multi_label else targets)
    output.loss.backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    accuracy = output.metrics["accuracy"].item()
    return {"loss": output.loss.item(), "accuracy": accuracy, "gradient": logits.grad.tolist()}


def main(output: str) -> None:
    """Measure the losses of this process's documents."""
    with Processes(torch.device("cpu")) as processes:
        found = {}
        for name, loss in LOSSES.items():
            for share, (first, second) in SHARES.items():
                logits, targets = documents_of(first + second, loss.multi_label)
                own = slice(first) if processes.rank == 0 else slice(first, None)
                found[f"{name}, {share}"] = measured(loss, logits[own], targets[own])
                if first and second:
                    with alone():
                        found[f"{name}, {share}, alone"] = measured(loss, logits[own], targets[own])
        Path(f"{output}-{processes.rank}.json").write_text(json.dumps(found), encoding="utf-8")
        distributed.barrier()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
