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
from pathlib import Path

import numpy as np
from paper_baselines import first_chunk_encoder
from reporting import DATA, describe_machine, write_result

from graphdoc import DocumentEncoder, read_documents
from graphdoc.evaluation import cluster

NEWSGROUPS = DATA / "newsgroups20"


def encode(encoder: DocumentEncoder, path: Path) -> tuple[np.ndarray, list[str], int]:
    labels: list[str] = []
    passages = 0
    vectors = []
    for segmented, vector in encoder.stream(read_documents(path), show_progress=True):
        labels.append(str(segmented.document.label))
        passages += len(segmented.passages)
        vectors.append(vector.numpy())
    return np.concatenate(vectors), labels, passages


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
    train, train_labels, train_passages = encode(encoder, NEWSGROUPS / "train.jsonl.gz")
    test, test_labels, test_passages = encode(encoder, NEWSGROUPS / "test.jsonl.gz")
    seconds = time.perf_counter() - start
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
        f"{len(train):,} train and {len(test):,} test messages, whole, with headers; "
        f"{train_passages + test_passages:,} passages in {seconds / 60:.1f} minutes ({options.dtype}).",
        f"K-means with {groups} clusters and 10 starts, fitted on train vectors, applied to test.",
        "",
        "| | mean | smallest | largest | goal |",
        "|---|---|---|---|---|",
        f"| NMI | {nmi.mean:.3f} | {min(nmi.values):.3f} | {max(nmi.values):.3f} | 0.57 |",
        f"| purity | {pure.mean:.3f} | {min(pure.values):.3f} | {max(pure.values):.3f} | 0.57 |",
        "",
        "Graph-RoBERTa paper, table 1 (pretrained on OpenWebText): NMI 0.516, purity 0.475.",
        "",
    ]
    print("\n".join(lines))
    write_result("clustering", "\n".join(lines))


if __name__ == "__main__":
    main()
