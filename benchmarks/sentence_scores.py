"""How fast are documents scored by their sentences (SDR, equations 4 to 6)?

Beside the bare matrix product of all sentences, which nothing can be faster than, a product for every pair of
paragraphs, and loops over sentences. Then one source against 20,000 candidates of 50 sentences. Vectors are drawn.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from reporting import alternate, describe_machine, write_result

from graphdoc.similarity.hierarchical import SentenceSet, score_documents

WIDTH, SENTENCES, PARAGRAPH = 384, 50, 5


def drawn(documents: int, draw: np.random.Generator) -> SentenceSet:
    """Documents of drawn sentences, in paragraphs of several lengths."""
    sizes = np.full(documents * SENTENCES // PARAGRAPH, PARAGRAPH)
    sizes[::2] -= 2
    sizes[1::2] += 2
    vectors = np.empty((documents * SENTENCES, WIDTH), np.float32)
    for start in range(0, len(vectors), 100_000):
        part = draw.standard_normal((min(100_000, len(vectors) - start), WIDTH), np.float32)
        vectors[start : start + len(part)] = part / np.linalg.norm(part, axis=1, keepdims=True)
    paragraphs = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return SentenceSet(vectors, paragraphs, np.arange(documents + 1, dtype=np.int64) * (SENTENCES // PARAGRAPH))


def by_paragraph_pairs(source: SentenceSet, candidates: SentenceSet) -> list[float]:
    """A product for every pair of paragraphs."""
    own = [source.vectors[a:b] for a, b in zip(source.paragraphs, source.paragraphs[1:], strict=False)]
    others = [candidates.vectors[a:b] for a, b in zip(candidates.paragraphs, candidates.paragraphs[1:], strict=False)]
    scores = []
    for first, last in zip(candidates.documents, candidates.documents[1:], strict=False):
        parts = [max(float((a @ b.T).max(axis=1).mean()) for b in others[first:last]) for a in own]
        scores.append(float(np.mean(parts)))
    return scores


def by_sentence_loops(source: SentenceSet, candidates: SentenceSet) -> list[float]:
    """A product for every pair of sentences."""
    scores = []
    for number in range(len(candidates)):
        one = candidates.document(number)
        total = 0.0
        for a, b in zip(source.paragraphs, source.paragraphs[1:], strict=False):
            best = -2.0
            for c, d in zip(one.paragraphs, one.paragraphs[1:], strict=False):
                found = 0.0
                for row in source.vectors[a:b]:
                    found += max(float(row @ other) for other in one.vectors[c:d])
                best = max(best, found / (b - a))
            total += best
        scores.append(total / (len(source.paragraphs) - 1))
    return scores


def memory_of_scoring(candidates: int) -> float:
    """Most memory beyond the vectors themselves, in MiB; for a process that does nothing else."""
    draw = np.random.default_rng(0)
    source, many = drawn(1, draw), drawn(candidates, draw)
    # From here on the kernel counts the peak anew.
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    score_documents(source, many)
    return (_status("VmHWM") - before) / 1024


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def main() -> None:
    """Time all, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--candidates", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--memory", action="store_true", help="measure the memory alone")
    options = parser.parse_args()
    if options.memory:
        print(memory_of_scoring(options.candidates))
        return
    draw = np.random.default_rng(0)
    source, some = drawn(1, draw), drawn(400, draw)
    few = SentenceSet(
        some.vectors[: 20 * SENTENCES],
        some.paragraphs[: 20 * SENTENCES // PARAGRAPH + 1],
        some.documents[:21],
    )
    np.testing.assert_allclose(score_documents(source, few), by_paragraph_pairs(source, few), atol=1e-6)
    np.testing.assert_allclose(score_documents(source, few), by_sentence_loops(source, few), atol=1e-6)
    lines = [
        "# How fast documents are scored by their sentences",
        f"`python benchmarks/sentence_scores.py --candidates {options.candidates}`",
        describe_machine(),
        f"Documents of {SENTENCES} sentences in paragraphs of 3 and 7, vectors of {WIDTH} numbers, one source. "
        f"Medians of {options.repeats} rounds in turns.",
        "| against | candidates | that | graphdoc | ratio |\n|---|---|---|---|---|",
    ]

    def compare(name: str, other: Callable[[], object], candidates: SentenceSet, *, slower: bool) -> None:
        seconds = alternate({"other": other, "own": lambda: score_documents(source, candidates)}, options.repeats)
        theirs, own = (float(np.median(seconds[key])) for key in ("other", "own"))
        ratio = own / theirs if not slower else theirs / own
        how = "times as long" if not slower else "times as fast"
        cells = (name, f"{len(candidates):,}", f"{1000 * theirs:.2f} ms", f"{1000 * own:.2f} ms", f"{ratio:.1f} {how}")
        lines[-1] += f"\n| {' | '.join(cells)} |"
        print(lines[-1].splitlines()[-1], flush=True)

    compare("bare matrix product", lambda: some.vectors @ source.vectors.T, some, slower=False)
    compare("a product per pair of paragraphs", lambda: by_paragraph_pairs(source, some), some, slower=True)
    compare("loops over sentences", lambda: by_sentence_loops(source, few), few, slower=True)
    many = drawn(options.candidates, draw)
    rows = [
        ("eq. 4 to 6", "sentences", "none", "source"),
        ("the same, z-scores", "sentences", "zscore", "source"),
        ("the same, both directions", "sentences", "none", "both"),
        ("flat", "flat", "none", "source"),
        ("paragraphs", "paragraphs", "none", "source"),
    ]
    compare("bare matrix product", lambda: many.vectors @ source.vectors.T, many, slower=False)
    table = [f"| {len(many):,} candidates | seconds |\n|---|---|"]
    for name, by, normalisation, direction in rows:
        times = []
        for _ in range(options.repeats):
            began = time.perf_counter()
            score_documents(source, many, by=by, normalisation=normalisation, direction=direction)  # type: ignore[arg-type]
            times.append(time.perf_counter() - began)
        table[0] += f"\n| {name} | {np.median(times):.2f} |"
    lines += table
    command = [sys.executable, __file__, "--memory", "--candidates"]
    grown = {
        count: float(subprocess.run([*command, str(count)], check=True, capture_output=True, text=True).stdout)
        for count in (options.candidates // 4, options.candidates)
    }
    each = ", ".join(f"{mebibytes:.0f} MiB with {count:,} candidates" for count, mebibytes in grown.items())
    lines.append(f"Most memory beyond the vectors themselves ({many.vectors.nbytes / 2**20:,.0f} MiB): {each}.")
    print(write_result("sentence_scores", "\n\n".join(lines)))


if __name__ == "__main__":
    main()
