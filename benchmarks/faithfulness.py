"""Do contributions and attention explain what a model says? Areas under deletion and insertion curves.

Passages are taken out of documents step by step, those with the highest contribution, the most attention or the most
words in common first, or at random, while a similarity (with ``--pairs``) or the probability of the predicted class is
watched.

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
from graphdoc.evaluation.faithfulness import KINDS, RANDOM, measure_faithfulness


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
    print("\n| model | passages by | deletion | better than random | insertion | better than random |")
    print("|---|---|---:|---:|---:|---:|")
    for name in options.model:
        encoder = DocumentEncoder.from_pretrained(name, max_passages=options.max_passages, dtype=options.dtype)
        scores = measure_faithfulness(encoder, documents, pairs, steps=options.steps, orders=options.orders)
        for method in scores.methods:
            cells = []
            for kind in KINDS:
                ahead = "" if method == RANDOM else signed_interval(scores.ahead(method, kind))
                cells += [f"{scores.area(method, kind).value:.3f}", ahead]
            print(f"| {name} | {method} | {' | '.join(cells)} |")


def _drawn(everything: list, most: int | None) -> list:
    if most is None or most >= len(everything):
        return everything
    return [
        everything[place] for place in sorted(np.random.default_rng(0).choice(len(everything), most, replace=False))
    ]


if __name__ == "__main__":
    main()
