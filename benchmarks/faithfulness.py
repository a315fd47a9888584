"""Do contributions explain what a model says? Deletion curves, and the areas under them.

Passages are taken out of documents step by step, those with the highest contribution first or at random, while a
similarity (with ``--pairs``) or the probability of the predicted class is watched.

    python benchmarks/faithfulness.py --data papers.jsonl.gz --pairs pairs_test.tsv --sample 300 --model mini
    python benchmarks/faithfulness.py --data test.jsonl.gz --sample 300 --model runs/topics/model
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
from reporting import describe_machine

from graphdoc import DocumentEncoder, read_documents
from graphdoc.commands.output import signed_interval
from graphdoc.evaluation import read_pair_file
from graphdoc.evaluation.faithfulness import contribution_curves
from graphdoc.evaluation.resampling import mean_estimate


def main(arguments: Sequence[str] | None = None) -> None:
    """Encode, shorten and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", required=True)
    parser.add_argument("--pairs", help="pairs of label 1 are watched")
    parser.add_argument("--model", nargs="+", default=["mini"])
    parser.add_argument("--sample", type=int, help="pairs or documents, drawn")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--orders", type=int, default=5)
    parser.add_argument("--max-passages", type=int, default=100)
    parser.add_argument("--dtype", default="float32")
    options = parser.parse_args(arguments)
    documents = list(read_documents(options.data))
    pairs = None
    if options.pairs:
        similar = {pair.documents: pair for pair in read_pair_file(options.pairs) if pair.label and pair.a != pair.b}
        pairs = _drawn(list(similar.values()), options.sample)
    if pairs is None:
        documents = _drawn(documents, options.sample)
    print(describe_machine())
    points = np.linspace(0, 1, options.steps + 1)
    print(f"\n| model | passages | area | less than random | {' | '.join(f'{point:.0%}' for point in points)} |")
    print(f"|---|---|{'---:|' * (len(points) + 2)}")
    for name in options.model:
        encoder = DocumentEncoder.from_pretrained(name, max_passages=options.max_passages, dtype=options.dtype)
        curves = contribution_curves(encoder, documents, pairs, steps=options.steps, orders=options.orders)
        # (documents, 2, points)
        stacked = np.array(list(curves.values()))
        areas = np.trapezoid(stacked, points, axis=-1)
        ahead = signed_interval(mean_estimate(areas[:, 1] - areas[:, 0]))
        for row, (method, difference) in enumerate((("by contribution", ahead), ("at random", ""))):
            curve = " | ".join(f"{value:.3f}" for value in stacked[:, row].mean(axis=0))
            print(f"| {name} | {method} | {areas[:, row].mean():.3f} | {difference} | {curve} |")


def _drawn(everything: list, most: int | None) -> list:
    if most is None or most >= len(everything):
        return everything
    return [everything[at] for at in sorted(np.random.default_rng(0).choice(len(everything), most, replace=False))]


if __name__ == "__main__":
    main()
