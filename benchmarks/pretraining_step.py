"""What does a pretraining step cost, in memory and time, against plain autograd and against the batch size?

Every measurement of memory is a process of its own: the highest resident memory above what there was before the step.
Seconds of a step are taken there too, and where all ways fit and a batch is repeated, by all ways in turns. Documents
have 50 passages of 128 tokens, as in the paper's batches. `cached` is gradient caching that keeps nothing, `kept`
keeps those of the whole batch, `plain` is autograd over everything at once; it stops where it no longer fits.
Operations are those of the passes that a way needs: plain and kept 3 forward passes' worth (a backward pass is two),
cached 4. Where the time of a large batch is too much, `--whole-below` measures memory alone: the second pass of
gradient caching, which has one mini-batch in memory at a time, stops after as many documents.

`--keep` asks something else, for a GPU: how fast a step of the largest batch is by the activations that are kept.

    python benchmarks/pretraining_step.py [--encoder tiny] [--sizes 64 256 1536] [--memory 16]
    python benchmarks/pretraining_step.py --encoder roberta --sizes 1536 --precision bfloat16 --device cuda --keep 0
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import torch
from reporting import ROOT, alternate, describe_machine, floating_point_operations, matrix_products, write_result
from torch import Tensor
from transformers import AutoConfig

from graphdoc.graphs.batch import MiniBatch
from graphdoc.losses import InfoNCELoss
from graphdoc.modeling import DocumentConfig, DocumentModel
from graphdoc.recipes.sub_documents import sub_document_batch
from graphdoc.sampling.sub_documents import SubDocumentSplit
from graphdoc.training.objectives import SubDocumentObjective, TrainingBatch
from graphdoc.training.step import CachedStep

ENCODERS: dict[str, dict[str, int]] = {
    "tiny": {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 256},
    "minilm": {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536},
    "roberta": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
}
PASSAGES, TOKENS, VOCABULARY = 50, 128, 30_522
WAYS, TURNS = ("cached", "kept", "plain"), "turns"
# Tokens that the paper's pretraining reads: ten passes over OpenWebText.
READ_TOKENS = 10 * 9e9


@dataclass(frozen=True)
class Example:
    """A document of random tokens."""

    id: str
    group: int
    sections: np.ndarray
    token_ids: tuple[np.ndarray, ...]


def make_model(encoder: str) -> DocumentModel:
    config = AutoConfig.for_model("bert", vocab_size=VOCABULARY, **ENCODERS[encoder])
    torch.manual_seed(0)
    return DocumentModel(DocumentConfig(encoder_config=config, pooling="mean")).train()


def make_batch(documents: int) -> TrainingBatch:
    draw = np.random.default_rng(0)
    examples = [
        Example(
            str(number),
            number,
            np.arange(PASSAGES) // 10,
            tuple(draw.integers(4, VOCABULARY, size=(PASSAGES, TOKENS), dtype=np.int32)),
        )
        for number in range(documents)
    ]
    return sub_document_batch(examples, SubDocumentSplit(), 0)


def run_step(model: DocumentModel, batch: TrainingBatch, way: str, precision: str) -> None:
    loss = InfoNCELoss("cosine", 0.2, "both")
    if way == "plain":
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            vectors = model.encode_passages(batch.graphs)
        documents = model.encode_graphs(vectors, batch.graphs).documents
        loss(
            documents[batch.roles["anchor"]], documents[batch.roles["candidate"]], batch.targets["group"]
        ).loss.backward()
    else:
        keep = 2**62 if way == "kept" else 0
        CachedStep(model, SubDocumentObjective(loss), precision=precision, keep_activations=keep)(batch)


class _Enough(Exception):
    """The second pass has run for long enough to know its memory."""


def stop_second_pass(model: DocumentModel, passages: int) -> None:
    """Let a model encode so many passages with gradient, and no more."""
    encode, left = model.encode_mini_batch, passages

    def counted(mini_batch: MiniBatch) -> Tensor:
        nonlocal left
        left -= len(mini_batch.input_ids) if torch.is_grad_enabled() else 0
        if left < 0:
            raise _Enough
        return encode(mini_batch)

    model.encode_mini_batch = counted  # type: ignore[method-assign]


def measure_here(encoder: str, documents: int, way: str, precision: str, repeats: int, whole_below: int) -> None:
    """Measure in this process and print the result as JSON."""
    model, batch = make_model(encoder), make_batch(documents)
    # Gradients and what libraries set up at first use belong to every way.
    run_step(model, make_batch(2), way, precision)
    before = psutil.Process().memory_info().rss
    Path("/proc/self/clear_refs").write_text("5")
    seconds = []
    if way == "cached" and documents > whole_below:
        stop_second_pass(model, whole_below * PASSAGES)
    for _ in range(repeats):
        model.zero_grad()
        began = time.perf_counter()
        with suppress(_Enough):
            run_step(model, batch, way, precision)
        seconds.append(time.perf_counter() - began)
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
    print(json.dumps({"megabytes": (peak - before) / 1e6, "seconds": float(np.median(seconds))}))


def time_in_turns(encoder: str, documents: int, precision: str, repeats: int) -> None:
    """Time all ways in turns in this process and print the median seconds as JSON."""
    model, batch = make_model(encoder), make_batch(documents)

    def step(way: str) -> None:
        model.zero_grad()
        run_step(model, batch, way, precision)

    seconds = alternate({way: partial(step, way) for way in WAYS}, repeats)
    print(json.dumps({way: float(np.median(found)) for way, found in seconds.items()}))


def measure(options: argparse.Namespace, documents: int, way: str) -> dict[str, float] | None:
    """Measure in a process of its own; None where it takes more memory than is allowed or there."""
    arguments = ["--encoder", options.encoder, "--one", str(documents), way, "--precision", options.precision]
    arguments += ["--repeats", str(options.repeats if documents <= options.repeat_below else 1)]
    arguments += ["--whole-below", str(options.whole_below)]
    child = subprocess.Popen(
        [sys.executable, __file__, *arguments], stdout=subprocess.PIPE, cwd=ROOT, text=True, env=dict(os.environ)
    )
    process = psutil.Process(child.pid)
    while child.poll() is None:
        try:
            if process.memory_info().rss > options.memory * 1e9:
                child.kill()
                child.wait()
                return None
        except psutil.NoSuchProcess:
            break
        time.sleep(0.05)
    output, _ = child.communicate()
    if child.returncode == -signal.SIGKILL:
        # The kernel was faster: there is less memory than was allowed.
        return None
    assert child.returncode == 0, f"{way} with {documents} documents failed"
    result: dict[str, float] = json.loads(output.splitlines()[-1])
    return result


def measure_by_kept(options: argparse.Namespace) -> None:
    """Time the step of one batch on a device by the tokens whose activations are kept; on a GPU, write a table."""
    size, shape, on_gpu = options.sizes[-1], ENCODERS[options.encoder], options.device != "cpu"
    model, batch, tokens = make_model(options.encoder).to(options.device), make_batch(size), size * PASSAGES * TOKENS
    dtype, objective = getattr(torch, options.precision), SubDocumentObjective(InfoNCELoss("cosine", 0.2, "both"))
    rate = matrix_products(8192, shape["hidden_size"], shape["intermediate_size"], dtype, device=options.device)
    forward = floating_point_operations(np.full(size * PASSAGES, TOKENS), AutoConfig.for_model("bert", **shape))
    lines = [
        f"# A pretraining step by kept activations ({options.encoder} encoder, {options.precision}, {options.device})",
        f"\n`python {' '.join(['benchmarks/pretraining_step.py', *sys.argv[1:]])}`\n\n{describe_machine()}\n",
        f"{size:,} documents of {PASSAGES} passages of {TOKENS} tokens, medians of {options.repeats} steps; matrix "
        f"products of the encoder's shape: {rate / 1e9:,.0f} GFLOP/s (goal: 55%).\n",
        "| tokens kept | documents/s | tokens/s | of the matrix-product rate | GB | hours of the paper's run |",
        "|---|---|---|---|---|---|",
    ]
    for keep in options.keep:
        step = CachedStep(model, objective, precision=options.precision, keep_activations=keep)
        if on_gpu:
            torch.cuda.reset_peak_memory_stats()
        seconds = float(np.median(alternate({"step": partial(step, batch)}, options.repeats)["step"]))
        used = torch.cuda.max_memory_allocated() if on_gpu else psutil.Process().memory_info().rss
        share, hours = forward * (4 - min(keep / tokens, 1)) / seconds / rate, READ_TOKENS / tokens * seconds / 3600
        cells = f"{size / seconds:,.1f} | {tokens / seconds:,.0f} | {share:.0%} | {used / 1e9:.1f} | {hours:,.0f}"
        lines.append(f"| {keep:,} | {cells} |")
    print("\n".join(lines))
    if on_gpu:
        write_result(f"pretraining_step_{options.encoder}_gpu", "\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", choices=list(ENCODERS), default="tiny")
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 128, 256, 512, 1024, 1536])
    parser.add_argument("--memory", type=float, default=16.0, help="GB that a run may take")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--repeat-below", type=int, default=256, help="largest batch that is repeated")
    parser.add_argument("--whole-below", type=int, default=2**62, help="largest batch whose second pass is run whole")
    parser.add_argument("--keep", type=int, nargs="+", help="tokens whose activations are kept; one batch, on --device")
    parser.add_argument("--device", default="cpu", help="where the steps of --keep are taken")
    parser.add_argument("--one", nargs=2, metavar=("DOCUMENTS", "WAY"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        documents, way = int(options.one[0]), options.one[1]
        if way == TURNS:
            time_in_turns(options.encoder, documents, options.precision, options.repeats)
        else:
            measure_here(options.encoder, documents, way, options.precision, options.repeats, options.whole_below)
        return
    if options.keep:
        return measure_by_kept(options)
    dtype = getattr(torch, options.precision)
    shape = ENCODERS[options.encoder]
    config = AutoConfig.for_model("bert", **shape)
    results: dict[tuple[int, str], dict[str, float] | None] = {}
    rates = []
    for size in options.sizes:
        rates.append(matrix_products(2048, shape["hidden_size"], shape["intermediate_size"], dtype))
        for way in WAYS:
            fits = all(results.get((smaller, way), {}) is not None for smaller in options.sizes if smaller < size)
            results[size, way] = measure(options, size, way) if fits else None
            print(size, way, results[size, way], flush=True)
        fitting = [found for way in WAYS if (found := results[size, way]) is not None]
        if len(fitting) == len(WAYS) and size <= options.repeat_below and (turns := measure(options, size, TURNS)):
            for way, found in zip(WAYS, fitting, strict=True):
                found["seconds"] = turns[way]
            print(size, TURNS, turns, flush=True)
    rate = float(np.median(rates))
    rows = []
    for size in options.sizes:
        tokens = size * PASSAGES * TOKENS
        forward = floating_point_operations(np.full(size * PASSAGES, TOKENS), config)
        plain = results[size, "plain"]
        cells = []
        for way in WAYS:
            result = results[size, way]
            if result is None:
                cells.append("no longer fits | | | ")
                continue
            if way == "cached" and size > options.whole_below:
                cells.append(f"{result['megabytes']:,.0f} | | | ")
                continue
            ratio = f"{result['seconds'] / plain['seconds']:.2f}" if plain else ""
            share = forward * (4 if way == "cached" else 3) / result["seconds"] / rate
            cells.append(f"{result['megabytes']:,.0f} | {ratio} | {tokens / result['seconds']:,.0f} | {share:.0%}")
        rows += [f"| {size:,} | {way} | {cell} |" for way, cell in zip(WAYS, cells, strict=True)]
    first, last = options.sizes[0], options.sizes[-1]
    small, large = results[first, "cached"], results[last, "cached"]
    assert small is not None and large is not None
    growth = (large["megabytes"] - small["megabytes"]) / (last - first) if last > first else float("nan")
    lines = [
        f"# Memory and time of a pretraining step ({options.encoder} encoder, {options.precision})",
        f"\n`python {' '.join(['benchmarks/pretraining_step.py', *sys.argv[1:]])}`\n\n{describe_machine()}\n",
        f"Documents of {PASSAGES} passages of {TOKENS} tokens; encoder of {shape['num_hidden_layers']} layers, "
        f"{shape['hidden_size']} wide; graph of 2 layers, 512 wide. Matrix products of the encoder's shape in this "
        f"run: {rate / 1e9:.0f} GFLOP/s. Memory is what a step takes above the model, its gradients and the batch; a "
        f"run may take {options.memory:g} GB in all.\n",
        "| documents | way | MB | time against plain | tokens/s | of the matrix-product rate |",
        "|---|---|---|---|---|---|",
        *rows,
        f"\nCached: {growth:.2f} MB more for every document from {first} to {last:,} (goal at most 2). Goals for time "
        "against plain where it fits: cached at most 1.40, kept at most 1.05.\n",
    ]
    if last > options.whole_below:
        lines += [f"Above {options.whole_below} documents the second pass stopped after as many: memory alone.", ""]
    print("\n".join(lines))
    write_result(f"pretraining_step_{options.encoder}", "\n".join(lines))


if __name__ == "__main__":
    main()
