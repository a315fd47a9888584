"""All losses in two processes: ``losses_job.py OUTPUT`` writes what each of them finds."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed

from graphdoc.losses import (
    ClassificationLoss,
    Gather,
    InfoNCELoss,
    Loss,
    MaskedTokenLoss,
    PairCosineLoss,
    SubtopicLoss,
    SupervisedContrastiveLoss,
)
from graphdoc.losses.clustering import PairedSentences
from graphdoc.runtime.processes import Processes

torch.set_num_threads(1)

Tensors = tuple[Tensor | PairedSentences, ...]


@dataclass(frozen=True)
class Case:
    """A loss and its tensors, of each of two processes and of one process with the rows of both.

    Tensors that are floating point have a gradient; not every case has anything to learn.
    """

    loss: Loss
    shares: tuple[Tensors, Tensors]
    union: Tensors
    has_loss: bool = True


def measured(loss: Loss, tensors: Tensors, gather: Gather) -> dict[str, Any]:
    """The loss, its metrics and the gradients at the tensors that have one."""
    given = [
        one.clone().requires_grad_() if isinstance(one, Tensor) and one.is_floating_point() else one for one in tensors
    ]
    output = loss(*given, gather=gather)
    output.loss.backward()  # type: ignore[no-untyped-call]
    metrics = {name: value.item() for name, value in output.metrics.items()}
    return {
        "loss": output.loss.item(),
        "metrics": metrics,
        "gradients": [one.grad.tolist() for one in given if isinstance(one, Tensor) and one.grad is not None],
    }


def _dealt(loss: Loss, first: int, *tensors: Tensor, has_loss: bool = True) -> Case:
    """Rows dealt to two processes, the first ones to the first."""
    return Case(loss, (tuple(one[:first] for one in tensors), tuple(one[first:] for one in tensors)), tensors, has_loss)


def _rows(count: int, width: int = 5, seed: int = 0) -> Tensor:
    return torch.randn(count, width, generator=torch.Generator().manual_seed(100 * count + seed))


def _labelled(loss: Loss, first: list[int], second: list[int], has_loss: bool = True) -> Case:
    labels = torch.tensor(first + second)
    return _dealt(loss, len(first), _rows(len(labels)), labels, has_loss=has_loss)


def _contrast(loss: Loss, counts: tuple[int, int], positives: tuple[list[list[int]], list[list[int]]]) -> Case:
    """Anchors with any number of positives among unequal numbers of candidates."""
    anchors, candidates, draw = _rows(sum(map(len, positives))), _rows(sum(counts), seed=1), np.random.default_rng(2)
    groups = torch.from_numpy(draw.integers(-1, 4, size=(len(anchors), 2)))
    others = torch.from_numpy(draw.integers(-1, 9, size=len(candidates)))
    own = [torch.tensor(share, dtype=torch.int64).reshape(-1, 2) for share in positives]
    start, count = len(own[0]), counts[0]
    shares = (
        (anchors[:start], candidates[:count], groups[:start], others[:count], own[0]),
        (anchors[start:], candidates[count:], groups[start:], others[count:], own[1]),
    )
    moved = torch.where(own[1] < 0, -1, own[1] + count)
    return Case(loss, shares, (anchors, candidates, groups, others, torch.cat([own[0], moved])))


def _paired_rows(first: int) -> Case:
    """Pairs that have each other to find, and some whose rows are there to be told apart."""
    labels, rows = torch.tensor([1, 0, 0, 1, 1, 1, 0]), (_rows(7), _rows(7, seed=1), GROUPS, GROUPS % 4)
    numbers = torch.arange(7)
    shares = [
        (*(one[part] for one in rows), torch.where(labels[part] == 1, numbers[: len(labels[part])], -1))
        for part in (slice(first), slice(first, None))
    ]
    loss = InfoNCELoss("cosine", 0.3, "both")
    return Case(loss, (shares[0], shares[1]), (*rows, torch.where(labels == 1, numbers, -1)))


def _classified(loss: ClassificationLoss, first: int, second: int) -> Case:
    count, draw = first + second, torch.Generator().manual_seed(first)
    shape = (count, 4) if loss.multi_label else (count,)
    return _dealt(loss, first, 2 * _rows(count, 4), torch.randint(2 if loss.multi_label else 4, shape, generator=draw))


def _paired(sizes: Tensor) -> PairedSentences:
    """Pairs of some sizes, the sentences of each connected in a ring."""
    pair_of = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
    ends = sizes.cumsum(0)[pair_of]
    places = torch.arange(len(pair_of))
    following = torch.where(places + 1 == ends, ends - sizes[pair_of], places + 1)
    edges = torch.stack([torch.cat([places, following]), torch.cat([following, places])])
    weights = (1 + sizes[pair_of]).float().reciprocal()
    is_second = ends - places <= sizes[pair_of] // 2
    return PairedSentences(pair_of, is_second, sizes // 2, edges, torch.cat([weights, weights]))


def _clustered(labels: list[int], first: int) -> Case:
    sizes = torch.tensor([4, 7, 5, 6, 4])[: len(labels)]
    logits, known, cut = 2 * _rows(int(sizes.sum()), 3), torch.tensor(labels), int(sizes[:first].sum())
    shares = (
        (logits[:cut], _paired(sizes[:first]), known[:first]),
        (logits[cut:], _paired(sizes[first:]), known[first:]),
    )
    return Case(SubtopicLoss(dissimilar_weight=0.5), shares, (logits, _paired(sizes), known))


SUPERVISED, COSINE, CONTRAST = SupervisedContrastiveLoss(0.3), PairCosineLoss(0.1), InfoNCELoss("cosine", 0.3)
WEIGHTS = (0.5, 2.0, 7.0, 1.0)
CLASSIFICATION = {
    "single": ClassificationLoss(),
    "weighted": ClassificationLoss(class_weights=WEIGHTS, label_smoothing=0.1),
    "several labels": ClassificationLoss(multi_label=True, class_weights=WEIGHTS, label_smoothing=0.2),
}
GROUPS = torch.tensor([1, 2, 1, 3, 4, 2, 5])
# Numbers of rows, and of rows with a positive, differ between the processes; positives lie in the other one.
CASES: dict[str, Case] = {
    "supervised, uneven": _labelled(SUPERVISED, [1, 2, 1, 3, 2, 7, 1], [2, 9]),
    "supervised, positives of one process": _labelled(SUPERVISED, [1, 1, 4], [5, 6, 7, 8]),
    "supervised, positives across processes": _labelled(SUPERVISED, [1, 2], [2, 1, 3]),
    "supervised, no rows in one": _labelled(SUPERVISED, [1, 2, 1, 2, 3], []),
    "supervised, no positives": _labelled(SUPERVISED, [1, 2, 3], [4, 5], has_loss=False),
    **{
        f"pairs, {name}": _dealt(COSINE, first, _rows(len(labels)), _rows(len(labels), seed=1), torch.tensor(labels))
        for name, first, labels in (
            ("uneven", 5, [1, 0, 0, 0, 1, 1]),
            ("one label each", 2, [1, 1, 0, 0, 0]),
            ("none in one", 0, [1, 0]),
        )
    },
    **{f"pairs among all, {first} first": _paired_rows(first) for first in (0, 2, 5)},
    "contrast, uneven": _contrast(CONTRAST, (7, 2), ([[0, 3], [2, -1], [-1, -1], [6, 1], [0, -1]], [[1, 0]])),
    "contrast, no anchors in one": _contrast(CONTRAST, (3, 4), ([[0, 1], [2, -1]], [])),
    "contrast, candidates of one": _contrast(CONTRAST, (4, 0), ([[0, -1], [3, 2]], [[-1, -1]])),
    **{
        f"sub-documents, {name}": _dealt(loss, 2, _rows(7), _rows(7, seed=1), GROUPS)
        for name, loss in (("both", InfoNCELoss("dot", 3.0, "both")), ("one", InfoNCELoss("cosine", 0.2)))
    },
    "subtopics, uneven": _clustered([1, 0, 0, 1, 1], 3),
    "subtopics, one label each": _clustered([1, 0, 0], 1),
    **{
        f"masked tokens, {first} and {second}": _dealt(
            MaskedTokenLoss(0.3), first, 2 * _rows(first + second, 6), torch.arange(first + second) % 6
        )
        for first, second in ((2, 5), (0, 3))
    },
    **{
        f"classes, {name}, {first} and {second}": _classified(loss, first, second)
        for name, loss in CLASSIFICATION.items()
        for first, second in ((3, 3), (7, 2), (4, 0))
    },
}


def main(output: str) -> None:
    """Measure the losses of this process's rows with those of the other process."""
    with Processes(torch.device("cpu")) as processes:
        found = {name: measured(case.loss, case.shares[processes.rank], Gather()) for name, case in CASES.items()}
        Path(f"{output}-{processes.rank}.json").write_text(json.dumps(found), encoding="utf-8")
        distributed.barrier()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
