"""What the tests of pretraining run in two processes: ``pretraining_job.py JOB ARGUMENTS``."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import distributed

from graphdoc.cli import main
from graphdoc.corpus.document import TrainingDocument
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import GraphdocError
from graphdoc.graphs.batch import Packing
from graphdoc.losses import InfoNCELoss
from graphdoc.recipes.sub_documents import sub_document_batch
from graphdoc.runtime import processes
from graphdoc.runtime.processes import Processes
from graphdoc.sampling.sub_documents import SubDocumentSplit
from graphdoc.training.loop import TrainingLoop, reduce_gradients
from graphdoc.training.objectives import SubDocumentObjective
from graphdoc.training.step import CachedStep

torch.set_num_threads(1)

# How documents are split, and the loss.
LOSSES = {"half": InfoNCELoss("dot", 5.0, "both"), "one_passage": InfoNCELoss("cosine", 0.2)}
# The first process has a document of many passages, the second one many of few; of seven, one is dealt alone.
SHARES = ([0, 4], [1, 2, 3, 5, 6])
PASSAGES = (31, 2, 3, 2, 9, 2, 5)
GROUPS = (1, 2, 1, 3, 4, 2, 5)


def documents() -> list[TrainingDocument]:
    """Documents of very different sizes, some of them copies of others."""
    draw = np.random.default_rng(0)
    made = []
    for number, passages in enumerate(PASSAGES):
        token_ids = tuple(
            np.array([0, *draw.integers(4, 300, size=int(length)), 2], np.int32)
            for length in draw.integers(1, 40, size=passages)
        )
        sections = np.sort(draw.integers(0, 3, size=passages)).astype(np.int64)
        made.append(TrainingDocument(f"document {number}", GROUPS[number], sections, token_ids))
    return made


def gradient(
    encoder: DocumentEncoder, loss: InfoNCELoss, split: str, rows: Sequence[int]
) -> tuple[torch.Tensor, float]:
    """The flat gradient of a step over some documents, reduced over the processes, and the mean loss."""
    model = encoder.model.double().train()
    model.zero_grad()
    everything = documents()
    batch = sub_document_batch([everything[row] for row in rows], SubDocumentSplit(split), 0, graph="section")  # type: ignore[arg-type]
    output = CachedStep(model, SubDocumentObjective(loss), packing=Packing(300))(batch)
    reduce_gradients(model.parameters(), processes.process_count())
    mean = output.loss.clone()
    if distributed.is_initialized():
        distributed.all_reduce(mean)
        mean /= distributed.get_world_size()
    parts = [weight.grad.flatten() for weight in model.parameters() if weight.grad is not None]
    return torch.cat(parts), float(mean)


def all_gradients(backbone: str, rows: Sequence[int]) -> dict[str, tuple[torch.Tensor, float]]:
    """Gradients of both splits, in double precision, since sums in another order are rounded otherwise."""
    with mock.patch.object(torch.Tensor, "float", torch.Tensor.double):
        encoder = DocumentEncoder.from_backbone(backbone, device="cpu", projection_size=16, passage_words=20)
        return {split: gradient(encoder, loss, split, rows) for split, loss in LOSSES.items()}


def gradients(backbone: str, output: str) -> None:
    """Compute the gradients of this process's documents, reduced over both processes."""
    with Processes(torch.device("cpu")) as both:
        found = all_gradients(backbone, SHARES[both.rank])
        seen = {name: [values.tolist(), loss] for name, (values, loss) in found.items()}
        Path(f"{output}-{both.rank}.json").write_text(json.dumps(seen), encoding="utf-8")
    os._exit(0)


def commands(path: str, output: str) -> None:
    """Run commands one after the other, and write down what came of each and how often gradients were reduced."""
    rank = int(os.environ["RANK"])
    seen = []
    sizes: list[int] = []
    all_reduce = distributed.all_reduce

    def counted(tensor: torch.Tensor, *arguments: Any, **options: Any) -> Any:
        sizes.append(tensor.numel())
        return all_reduce(tensor, *arguments, **options)

    distributed.all_reduce = counted
    for arguments in json.loads(Path(path).read_text(encoding="utf-8")):
        sizes.clear()
        begin = time.monotonic()
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            status = main(arguments)
        seen.append(
            {"status": status, "err": err.getvalue(), "out": out.getvalue(), "reduced": list(sizes),
             "seconds": time.monotonic() - begin}
        )  # fmt: skip
        Path(f"{output}-{rank}.json").write_text(json.dumps(seen), encoding="utf-8")
    os._exit(0)


def fail_midway(config: str, kind: str, *options: str) -> None:
    """Let the second of two processes fail in its second step, in a way that nobody foresaw or by being killed."""
    compute = TrainingLoop._compute_gradient

    def failing(loop: Any, *arguments: Any) -> None:
        if kind != "whole" and loop.processes.rank == 1 and loop.state.global_step == 1:
            if kind == "killed":
                os.kill(os.getpid(), 9)
            raise RuntimeError("a process fails")
        compute(loop, *arguments)

    TrainingLoop._compute_gradient = failing  # type: ignore[method-assign]
    sys.exit(main(["pretrain", "--config", config, "--device", "cpu", *options]))


def asked_to_stop(config: str, output: str) -> None:
    """Ask the first of two processes to stop when they have agreed to go on, at the worst moment of the first step."""
    finish_step = TrainingLoop._finish_step

    def asking(loop: Any, *arguments: Any) -> None:
        if loop.processes.is_first and loop.state.global_step == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        finish_step(loop, *arguments)

    TrainingLoop._finish_step = asking  # type: ignore[method-assign]
    rank = int(os.environ["RANK"])
    err = io.StringIO()
    with redirect_stderr(err):
        status = main(["pretrain", "--config", config, "--device", "cpu"])
    Path(f"{output}-{rank}.json").write_text(json.dumps([status, err.getvalue()]), encoding="utf-8")
    os._exit(0)


def partners(output: str) -> None:
    """Halt the second of two processes until the first one has waited for too long, and write down what was said."""
    processes.LONGEST_WAIT = timedelta(seconds=3)
    said: list[str] = []
    rank = int(os.environ["RANK"])
    pids: list[int] = []
    try:
        with Processes(torch.device("cpu")) as both:
            pids = both.gather(os.getpid())
            if rank == 1:
                os.kill(os.getpid(), signal.SIGSTOP)
            both.gather(None)
    except GraphdocError as error:
        said.append(str(error))
    Path(f"{output}-{rank}.json").write_text(json.dumps(said), encoding="utf-8")
    if rank == 0:
        os.kill(pids[1], signal.SIGCONT)
    os._exit(0)


if __name__ == "__main__":
    jobs: dict[str, Callable[..., None]] = {
        function.__name__: function for function in (gradients, commands, fail_midway, asked_to_stop, partners)
    }
    jobs[sys.argv[1]](*sys.argv[2:])
