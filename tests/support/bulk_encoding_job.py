"""What the tests of bulk encoding run in processes of their own: ``bulk_encoding_job.py JOB ARGUMENTS``."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from graphdoc.documents.readers import read_documents
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import OutputError
from graphdoc.runtime.processes import Processes
from graphdoc.vectors.writer import encode_to_disk

torch.set_num_threads(1)


def kill_at_random(checkpoint: str, corpus: str, folder: str, seed: str, kills: str) -> None:
    """Start encoding again and again, each time in a fork of this process that is killed, and let the last one end."""
    encoder = DocumentEncoder.from_pretrained(checkpoint)

    def start(target: str) -> int:
        child = os.fork()
        if not child:
            encode_to_disk(encoder, read_documents(corpus), target, shard_size=8)
            os._exit(0)
        return child

    begin = time.monotonic()
    assert os.waitpid(start(f"{folder}-undisturbed"), 0)[1] == 0
    duration = time.monotonic() - begin
    draw = random.Random(int(seed))
    for number in range(int(kills)):
        child = start(folder)
        # Some kills fall into what another run has not done yet, and the first falls into work for certain.
        time.sleep(draw.uniform(0, duration * 2 / int(kills)) + duration / 20 if number else 0)
        while not any(Path(folder).glob("shard*")):
            time.sleep(0.001)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        print(f"kill {number}: {'killed' if os.WIFSIGNALED(status) else 'had ended'}")
    assert os.waitpid(start(folder), 0)[1] == 0


def memory(checkpoint: str, folder: str, documents: str) -> None:
    """Encode made-up documents that carry much with them, and print by how many MB the process grew."""
    encoder = DocumentEncoder.from_pretrained(checkpoint)
    first = 0

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 2**20

    def made_up(count: int) -> Iterator[dict[str, object]]:
        nonlocal first
        draw = random.Random(0)
        for number in range(count):
            if number == count // 10:
                first = resident()
            words = draw.choices(("bar", "ben", "dis", "dot", "fur"), k=draw.randint(1, 60))
            yield {"id": str(number), "text": " ".join(words), "ballast": draw.randbytes(2_000).hex() * 5}

    encode_to_disk(encoder, made_up(int(documents)), folder, shard_size=200)
    print(resident() - first)


def fail_in_turn() -> None:
    """Let first what the first of two processes does fail, then the second one, which lives on."""
    with Processes(torch.device("cpu")) as processes:
        rank = processes.rank

        def fail() -> None:
            raise OutputError("the first one fails")

        try:
            processes.run_first(fail)
        except OutputError as error:
            print(f"rank {rank}: {error}\n", end="", flush=True)
    try:
        with Processes(torch.device("cpu")) as processes:
            if processes.gather(rank) == [0, 1] and rank == 1:
                raise OutputError("the second one fails")
            processes.gather(None)
    except OutputError as error:
        print(f"rank {rank}: {error}\n", end="", flush=True)
    # The second process still lives when the first one finds out.
    time.sleep(3 if rank == 1 else 0)
    os._exit(0)


if __name__ == "__main__":
    jobs = {function.__name__: function for function in (kill_at_random, memory, fail_in_turn)}
    jobs[sys.argv[1]](*sys.argv[2:])
