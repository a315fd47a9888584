"""How long does a transformer take in training on a processor, with masks of dropout drawn by torch and by graphdoc?

A transformer of the size of MiniLM and a mini-batch of 16 passages of 128 tokens, the default token budget: forward
without gradient, as in the first pass of gradient caching, and forward with backward pass.

    python benchmarks/dropout.py [--repeats 10]
"""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from reporting import alternate, describe_machine, write_result
from transformers import AutoConfig, AutoModel

from graphdoc.modeling.passage_encoder import QuickDropout

PASSAGES, TOKENS, VOCABULARY = 16, 128, 30_522
TORCH, GRAPHDOC = "torch", "graphdoc"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=10, help="timed rounds")
    options = parser.parse_args()
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        "bert", hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
    )
    model = AutoModel.from_config(config, add_pooling_layer=False).train()
    ids = torch.randint(4, VOCABULARY, (PASSAGES, TOKENS))

    def encode(dropout: str, precision: str, backward: bool) -> None:
        context: AbstractContextManager[Any] = QuickDropout() if dropout == GRAPHDOC else nullcontext()
        autocast = torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16")
        with autocast, torch.set_grad_enabled(backward), context:
            hidden = model(ids).last_hidden_state
        if backward:
            model.zero_grad()
            hidden.float().mean().backward()

    rows = []
    for precision in ("float32", "bfloat16"):
        for backward in (False, True):
            ways = {name: partial(encode, name, precision, backward) for name in (TORCH, GRAPHDOC)}
            seconds = {name: float(np.median(found)) for name, found in alternate(ways, options.repeats).items()}
            what = "forward and backward" if backward else "forward"
            cells = [f"{1000 * seconds[name]:.0f} ms" for name in ways]
            rows.append(f"| {what} | {precision} | {' | '.join(cells)} | {seconds[GRAPHDOC] / seconds[TORCH]:.2f} |")
            print(rows[-1], flush=True)
    lines = [
        "# Masks of dropout on a processor",
        "",
        f"`python benchmarks/dropout.py --repeats {options.repeats}`",
        "",
        describe_machine(),
        "",
        f"A BERT of 6 layers of 384 in training, {PASSAGES} passages of {TOKENS} tokens, dropout 0.1 everywhere; "
        "median of rounds in turns.",
        "",
        "| | precision | masks by torch | by graphdoc | ratio |",
        "|---|---|---|---|---|",
        *rows,
    ]
    write_result("dropout", "\n".join(lines))


if __name__ == "__main__":
    main()
