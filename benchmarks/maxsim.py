"""How fast is one document compared with stored ones passage by passage (MaxSim)?

Beside the bare matrix product of all passages, which nothing can be faster than. Passages are drawn; those that are
stored have 384 numbers in bfloat16, 50 a document on average. One thread, timed by the processor's own clock.

    python benchmarks/maxsim.py [--documents 10000]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from reporting import alternate, describe_machine, write_result

from graphdoc.similarity.kinds import BLOCK_PASSAGES, maxsim

WIDTH, PASSAGES = 384, 50


def main() -> None:
    """Draw, time and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    draw = torch.Generator().manual_seed(0)
    stored = torch.randn(options.documents * PASSAGES, WIDTH, generator=draw).bfloat16()
    source, own = torch.randn(PASSAGES, WIDTH, generator=draw), torch.tensor([PASSAGES])
    alike = torch.full((options.documents,), PASSAGES)
    ragged = alike.clone()
    ragged[: options.documents // 2 * 2 : 2] -= 20
    ragged[1 : options.documents // 2 * 2 : 2] += 20
    narrow = source.bfloat16()

    def product() -> None:
        for start in range(0, len(stored), BLOCK_PASSAGES):
            stored[start : start + BLOCK_PASSAGES].float() @ source.T

    seconds = alternate(
        {
            "bare product in bfloat16": lambda: stored @ narrow.T,
            "bare product, widened to fp32": product,
            "MaxSim, 50 passages each": lambda: maxsim(source, own, stored, alike),
            "MaxSim, 30 or 70 passages": lambda: maxsim(source, own, stored, ragged),
        },
        options.repeats,
        clock=time.process_time,
    )
    best = {name: float(np.min(times)) for name, times in seconds.items()}
    bare = best["bare product, widened to fp32"]
    rows = [f"| {name} | {value:.3f} | {value / bare:.1f} |" for name, value in best.items()]
    text = [
        "# How fast is one document compared with stored ones passage by passage?",
        f"`python benchmarks/maxsim.py --documents {options.documents} --repeats {options.repeats}`",
        describe_machine(),
        f"One document of {PASSAGES} passages against {options.documents:,} stored ones, {WIDTH} numbers in bfloat16; "
        f"least of {options.repeats} rounds in turns, seconds of processor time on one thread.",
        "\n".join(["| | seconds | times the product |", "|---|---|---|", *rows]),
    ]
    write_result("maxsim", "\n\n".join(text) + "\n")


if __name__ == "__main__":
    main()
