"""What does the death of a process of a Ray cluster cost? The same folder is encoded without and with one.

A cluster on this machine encodes documents in shards. In the second run one of its processes is killed once a share of
the shards is written. Both folders must hold the same bytes; the ratio of the times is what the death costs.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import signal
import threading
import time
from pathlib import Path

from reporting import DATA, ROOT, describe_machine, write_result

from graphdoc import Document, DocumentEncoder, read_documents

SHARD = 4
# How a process of the cluster that holds the model is named by the system.
ACTOR = "ray::"


def checksums(folder: Path) -> dict[str, str]:
    """The checksum of every file of a folder."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def actors() -> list[int]:
    """Processes of the cluster that hold the model and have computed for some seconds."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            name = (folder / "cmdline").read_bytes().decode(errors="replace") if folder.name.isdigit() else ""
            ticks = (folder / "stat").read_text().rsplit(")", 1)[1].split()[11] if name.startswith(ACTOR) else "0"
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(ticks) > 3 * os.sysconf("SC_CLK_TCK"):
            found.append(int(folder.name))
    return sorted(found)


def killer(folder: Path, shards: int, killed: list[int]) -> None:
    """Wait for some shards, and kill a process that makes others."""
    while len(list(folder.glob("shard-*"))) < shards or not actors():
        time.sleep(0.2)
    killed.append(actors()[0])
    os.kill(killed[0], signal.SIGKILL)


def encoded(encoder: DocumentEncoder, documents: list[Document], folder: Path, *, dies: bool) -> tuple[float, int]:
    """Seconds of a run, and how many processes were killed in it."""
    killed: list[int] = []
    shutil.rmtree(folder, ignore_errors=True)
    if dies:
        shards = len(documents) // SHARD // 3
        threading.Thread(target=killer, args=(folder, shards, killed), daemon=True).start()
    began = time.perf_counter()
    encoder.encode_to_disk(documents, folder, shard_size=SHARD, ray="local")
    return time.perf_counter() - began, len(killed)


def main() -> None:
    """Encode in turns, and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=400)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / "ray-death")
    given = parser.parse_args()
    source = DATA / "wikispeedia" / "articles.jsonl.gz"
    source = source if source.exists() else ROOT / "examples" / "documents"
    documents = list(read_documents(source))[: given.documents]
    # Otherwise Ray's own processes hardly move beside other work.
    os.environ.setdefault("RAY_worker_niceness", "0")
    encoder = DocumentEncoder.from_pretrained("mini", max_passages=10, dtype="float32")
    seconds: dict[bool, list[float]] = {False: [], True: []}
    found: dict[bool, dict[str, str]] = {}
    for _ in range(given.turns):
        for dies in (False, True):
            took, killed = encoded(encoder, documents, given.work / str(dies), dies=dies)
            if killed != int(dies):
                raise SystemExit(f"{killed} processes were killed, not {int(dies)}; take more documents")
            seconds[dies].append(took)
            found[dies] = checksums(given.work / str(dies))
            print(f"{'killed' if dies else 'undisturbed'}: {took:.0f} s", flush=True)
    if found[True] != found[False]:
        raise SystemExit("the folders differ")
    without, beside = (sum(own) for own in seconds.values())
    rows = [
        f"| {name} | {', '.join(f'{one:.0f}' for one in seconds[dies])} |"
        for name, dies in (("undisturbed", False), ("a process killed", True))
    ]
    report = [
        "# The death of a process of a Ray cluster",
        f"`python benchmarks/ray_death.py --documents {given.documents} --turns {given.turns}`",
        describe_machine(),
        f"{len(documents)} documents of at most 10 passages in shards of {SHARD}, `mini` in float32, "
        f"{len(found[True])} files. Killed once a third of the shards is there. All files have the same checksums.",
        "\n".join(["| | seconds, in turns |", "|---|---|", *rows]),
        f"With a death it takes {beside / without:.2f} times as long.",
    ]
    print(write_result("ray_death", "\n\n".join(report) + "\n"))


if __name__ == "__main__":
    main()
