"""Does encoding to disk keep to its promises: flat memory, the same bytes after SIGKILL, the same from two processes?

Runs the command line on real short messages (20 Newsgroups, made-up sentences where the data is missing):

- memory: the highest resident memory of encoding few and many documents;
- kills: a run that is killed at random moments and started again, against an undisturbed one, byte by byte;
- two processes (torchrun, gloo) against one with as many threads each, and against one with all threads.

    python benchmarks/bulk_encoding.py [--documents 20000] [--few 2000] [--kills 10] [--killed-documents 2000]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from reporting import DATA, ROOT, describe_machine, write_result

from graphdoc import read_documents
from graphdoc.vectors.folder import read_vectors

# Small enough that every kill finds some shards done and others not.
SMALL_SHARDS = 128
USUAL_SHARDS = 1024


def texts(words: int) -> Iterator[str]:
    """Endless short texts: the messages' first words, then the words after those, and so on."""
    source = DATA / "newsgroups20" / "test.jsonl.gz"
    if source.exists():
        messages = [document.text.split("\n\n", 1)[-1].split() for document in read_documents(source)]
    else:
        draw = random.Random(0)
        stock = ("the", "report", "of", "board", "river", "method", "shows", "that", "when", "long", "answer", "by")
        messages = [draw.choices(stock, k=200) for _ in range(1_000)]
    start = 0
    while any(len(message) > start for message in messages):
        yield from (" ".join(message[start : start + words]) for message in messages if len(message) > start)
        start += words


def write_corpus(path: Path, count: int, words: int) -> Path:
    """Write the first texts as JSON Lines."""
    with path.open("w", encoding="utf-8") as stream:
        for number, text in enumerate(islice(texts(words), count)):
            stream.write(json.dumps({"id": f"message {number}", "text": text}) + "\n")
    return path


def command(corpus: Path, output: Path, shard_size: int = SMALL_SHARDS) -> list[str]:
    """Arguments after the interpreter that encode a corpus; times that ``auto`` measures would be recorded."""
    arguments = ["-m", "graphdoc", "encode", corpus, "--output", output, "--shard-size", shard_size, "--device", "cpu"]
    return [str(argument) for argument in [*arguments, "--dtype", "float32"]]


def encode(corpus: Path, output: Path, *launcher: str, **environment: str) -> float:
    """Encode to the end and return the seconds it took."""
    start = time.perf_counter()
    arguments = [sys.executable, *launcher, *command(corpus, output)]
    subprocess.run(arguments, check=True, cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def peak_memory(corpus: Path, output: Path) -> int:
    """Highest resident memory of one encoding run, in MB."""
    child = subprocess.Popen(
        [sys.executable, *command(corpus, output, USUAL_SHARDS)], cwd=ROOT, stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, "encoding failed"
    return _megabytes(usage)


def kill_and_restart(corpus: Path, folder: Path, kills: int, seed: int) -> tuple[bool, list[str]]:
    """Kill a run at random moments, let it end, and compare it with an undisturbed one.

    Args:
        corpus: what to encode.
        folder: where to work.
        kills: how often.
        seed: of the moments.

    Returns:
        Whether all files are the same, and a row for every kill.
    """
    one = write_corpus(folder / "one.jsonl", 1, 20)
    starting = encode(one, folder / "one")
    duration = encode(corpus, folder / "undisturbed") - starting
    draw = random.Random(seed)
    rows = []
    for number in range(1, kills + 1):
        # Kills spread over the whole run, some of them over its start; what a kill undoes leaves work for the last.
        moment = starting * 0.8 + draw.uniform(0, 1.5 * max(duration, 1.0) / kills)
        child = subprocess.Popen(
            [sys.executable, *command(corpus, folder / "killed")], cwd=ROOT, stdout=subprocess.DEVNULL
        )
        try:
            child.wait(moment)
            ended = "had ended"
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            ended = "killed"
        shards = len(list((folder / "killed").glob("shard-*"))) if (folder / "killed").exists() else 0
        rows.append(f"| {number} | {moment:.1f} | {ended} | {shards} |")
    encode(corpus, folder / "killed")
    return _contents(folder / "killed") == _contents(folder / "undisturbed"), rows


def _megabytes(usage: resource.struct_rusage) -> int:
    return int(usage.ru_maxrss // (1024 if sys.platform != "darwin" else 1024**2))


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=20_000, help="documents of the large memory run")
    parser.add_argument("--few", type=int, default=2_000, help="documents of the small memory run")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--killed-documents", type=int, default=2_000, help="documents of the other runs")
    parser.add_argument("--words", type=int, default=20, help="most words of a document")
    parser.add_argument("--seed", type=int, default=0, help="seed of the moments of the kills")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        peaks = {
            count: peak_memory(write_corpus(folder / f"{count}.jsonl", count, options.words), folder / str(count))
            for count in (options.few, options.documents)
        }
        corpus = write_corpus(folder / "corpus.jsonl", options.killed_documents, options.words)
        same, rows = kill_and_restart(corpus, folder, options.kills, options.seed)
        launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
        seconds = {
            "one process, one thread": encode(corpus, folder / "one thread", OMP_NUM_THREADS="1"),
            "two processes, one thread each": encode(corpus, folder / "two", *launcher, OMP_NUM_THREADS="1"),
        }
        same_two = _contents(folder / "two") == _contents(folder / "one thread")
        ids, vectors = read_vectors(folder / "two")
        other_ids, other_vectors = read_vectors(folder / "undisturbed")
        assert ids == other_ids, "the order of documents differs"
        difference = float(np.abs(vectors - other_vectors).max())
    growth = peaks[options.documents] - peaks[options.few]
    lines = [
        "# Encoding to disk",
        "",
        f"`python benchmarks/bulk_encoding.py --documents {options.documents} --few {options.few} "
        f"--kills {options.kills} --killed-documents {options.killed_documents} "
        f"--words {options.words} --seed {options.seed}`",
        "",
        describe_machine(),
        "",
        f"Model `mini`, messages of up to {options.words} words, `graphdoc encode`; shards of {USUAL_SHARDS} "
        f"documents for memory, of {SMALL_SHARDS} otherwise.",
        "",
        "## Memory",
        "",
        "| documents | highest resident memory, MB |",
        "|---|---|",
        *(f"| {count:,} | {peak:,} |" for count, peak in peaks.items()),
        "",
        f"Growth: {growth} MB (goal: less than 200).",
        "",
        "## Killed and started again",
        "",
        f"{options.killed_documents:,} documents, SIGKILL after a random time from the start of the process. Bytes of "
        f"all files in the end, against an undisturbed run: **{'the same' if same else 'DIFFERENT'}**.",
        "",
        "| kill | after, s | | shards there |",
        "|---|---|---|---|",
        *rows,
        "",
        "## Two processes",
        "",
        *(f"- {name}: {taken:.1f} s with start." for name, taken in seconds.items()),
        f"- Bytes of all files of the two: {'the same' if same_two else 'DIFFERENT'}.",
        f"- Largest difference of a number from one process with all threads: {difference:.1e} (goal: 1e-6).",
    ]
    print("\n".join(lines))
    write_result("bulk_encoding", "\n".join(lines))


if __name__ == "__main__":
    main()
