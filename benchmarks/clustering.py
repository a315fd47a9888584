"""Do document vectors find the groups of 20 Newsgroups? K-means fitted on train vectors, applied to test.

The protocol of table 1 of the Graph-RoBERTa paper: NMI and purity of the test messages, here over several seeds.
Messages are taken whole, with headers, footers and quotes. Vectors are taken as the model gives them, not brought to
unit length as `graphdoc evaluate cluster` does for models that compare by cosine.

    python benchmarks/clustering.py [--model mini] [--dtype float32] [--seeds 5]

With ``--cls roberta-base`` (or Longformer, BigBird) it is the [CLS] vector of a transformer, as in rows of that table.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from paper_baselines import first_chunk_encoder
from reporting import DATA, describe_machine, write_result

from graphdoc import DocumentEncoder, read_documents
from graphdoc.evaluation import cluster

NEWSGROUPS = DATA / "newsgroups20"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="mini")
    parser.add_argument("--cls", metavar="BACKBONE")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    encoder = (
        first_chunk_encoder(options.cls, dtype=options.dtype)
        if options.cls
        else DocumentEncoder.from_pretrained(options.model, dtype=options.dtype)
    )
    start = time.perf_counter()
    parts = [list(read_documents(NEWSGROUPS / f"{part}.jsonl.gz")) for part in ("train", "test")]
    train, test = (encoder.encode(part, show_progress=True) for part in parts)
    seconds = time.perf_counter() - start
    train_labels, test_labels = ([str(document.label) for document in part] for part in parts)
    groups = len(set(train_labels))
    scores = cluster(train, test, test_labels, groups, range(options.seeds))
    nmi, pure = scores.nmi, scores.purity
    lines = [
        f"# Clustering 20 Newsgroups with `{encoder.name}`",
        "",
        f"`python benchmarks/clustering.py --model {options.model} --dtype {options.dtype} --seeds {options.seeds}`",
        "",
        describe_machine(),
        "",
        f"{len(train):,} train and {len(test):,} test messages, whole, with headers, in {seconds / 60:.1f} minutes "
        f"({options.dtype}).",
        f"K-means with {groups} clusters and 10 starts, fitted on train vectors, applied to test.",
        "",
        "| | mean | smallest | largest | goal |",
        "|---|---|---|---|---|",
        f"| NMI | {np.mean(nmi):.3f} | {min(nmi):.3f} | {max(nmi):.3f} | 0.57 |",
        f"| purity | {np.mean(pure):.3f} | {min(pure):.3f} | {max(pure):.3f} | 0.57 |",
        "",
        "Graph-RoBERTa paper, table 1 (pretrained on OpenWebText): NMI 0.516, purity 0.475.",
        "",
    ]
    print("\n".join(lines))
    write_result("clustering", "\n".join(lines))


if __name__ == "__main__":
    main()
