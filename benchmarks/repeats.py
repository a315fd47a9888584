"""What repeats in data sets, how much is left out for it, and what finding it and leaving it out costs.

python benchmarks/repeats.py newsgroups20/test.jsonl.gz wikispeedia/articles.jsonl.gz --name repeats
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

from reporting import DATA, describe_machine, write_result

from graphdoc import DocumentEncoder, read_documents
from graphdoc.segmentation import find_repeats


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What work gives, and its processor time."""
    start = time.process_time()
    return work(), time.process_time() - start


def row(source: Path, name: str, encoder: DocumentEncoder, most: int) -> str:
    """A row of the table: what is found in a source, and what it costs."""
    documents = list(read_documents(source, on_error="skip"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    repeats, finding = timed(lambda: find_repeats(documents))
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    some = documents[:most]
    own = encoder.leaving_out(repeats).segmenter
    plain, cutting = timed(lambda: list(encoder.segmenter.segment_many(some)))
    without, leaving = timed(lambda: list(own.segment_many(some)))
    passages = sum(len(one.passages) for one in plain)
    coverage = reduce(add, (one.coverage for one in without))
    touched = sum("repeated" in one.coverage.left_out for one in without)
    words = sum(document.words for document in documents)
    share = coverage.left_out.get("repeated", 0) / coverage.characters
    return (
        f"| {name} | {len(documents):,} | {words:,} | {repeats.least} | {len(repeats.hashes):,} | {touched} of "
        f"{len(some):,} | {share:.2%} | {coverage.kept_repeats} | {1e6 * finding / words:.2f} | {memory:.0f} | "
        f"{1e4 * (leaving - cutting) / passages:.2f} | {1e4 * cutting / passages:.2f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+", help="files and folders in the data")
    parser.add_argument("--documents", type=int, default=2000, help="documents that are cut")
    parser.add_argument("--name", help="write benchmarks/results/NAME.md")
    options = parser.parse_args()
    encoder = DocumentEncoder.from_pretrained("mini", device="cpu")
    lines = ["# Repeated passages", "", f"`python benchmarks/repeats.py {' '.join(sys.argv[1:])}`", ""]
    lines += [describe_machine(), ""]
    lines += [
        "Seconds of processor time: finding repeats in a million words (about 10,000 passages), leaving them out of"
    ]
    lines += [
        "10,000 passages, and cutting and tokenising these without. Memory is that of finding, beside the texts.",
        "",
    ]
    lines += [
        "| set | documents | words | least documents | shingles | documents with repeats | of their text | kept "
    ]
    lines[-1] += "whole | s finding | MB | s leaving out | s cutting |"
    lines += ["|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for name in options.sources:
        lines.append(row(DATA / name, name, encoder, options.documents))
        print(lines[-1])
    if options.name:
        write_result(options.name, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
