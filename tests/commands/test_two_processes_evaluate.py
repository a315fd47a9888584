"""Evaluations under a launcher: two processes print and write what one does, and none waits for one that stopped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import graphdoc

ROOT = Path(graphdoc.__file__).parent.parent
WORDS = {"rice": "rice steam koji mould grain", "<b>sea</b>": "tide wave marsh wall flood"}


def start(*arguments: str | Path, rank: int | None = None, port: int = 0, folder: Path) -> subprocess.Popen[str]:
    """Start the command line, as one of two processes where it has a rank."""
    job = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    if rank is not None:
        environment |= {name: str(value) for name, value in job.items()}
    return subprocess.Popen(
        [sys.executable, "-m", "graphdoc", *map(str, arguments)],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def free_port() -> int:
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    rows = [
        {
            "id": f"d{number}",
            "text": f"{WORDS[label]} {number} " * (4 + number) + ".",
            "label": label,
            "split": "test" if number % 3 == 0 else "train",
        }
        for number in range(13)
        for label in [list(WORDS)[number % 2]]
    ]
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (tmp_path / "pairs.tsv").write_text("d0\td2\t1\nd0\td1\t0\nd3\td5\t1\nd4\td5\t0\n", encoding="utf-8")
    return path


def without_noise(value: Any) -> Any:
    """Numbers with five decimals: batches are others in two processes."""
    if isinstance(value, dict):
        return {key: without_noise(one) for key, one in value.items()}
    if isinstance(value, list):
        return [without_noise(one) for one in value]
    return round(value, 4) if isinstance(value, float) else value


@pytest.mark.parametrize("task", ["cluster", "compare", "classify"])
def test_two_processes_are_one(task: str, corpus: Path, classifiers: Callable[..., str]) -> None:
    model = classifiers(max_passages=3)
    options = {"cluster": ["--probe", "--seeds", "2"], "compare": ["--pairs", "pairs.tsv", "--resamples", "9"]}
    command = ["evaluate", task, "--data", corpus.name, "--model", model, *options.get(task, ["--no-baseline"])]
    command += ["--no-baseline"] if task != "classify" else []
    alone = start(*command, "--json", "one.json", folder=corpus.parent)
    port = free_port()
    both = [start(*command, "--json", "two.json", rank=rank, port=port, folder=corpus.parent) for rank in (0, 1)]
    outputs = [process.communicate(timeout=600) for process in (alone, *both)]
    assert [process.returncode for process in (alone, *both)] == [0, 0, 0], outputs
    assert outputs[2][0] == "" and outputs[1][0].replace("two.json", "one.json") == outputs[0][0]
    one, two = (json.loads((corpus.parent / f"{name}.json").read_text()) for name in ("one", "two"))
    assert without_noise(two) == without_noise(one)
    # Coverage is that of all documents, not of a share.
    coverage = (one["rows"][-1] if task != "classify" else one)["coverage"]
    assert coverage["documents"] == {"cluster": 13, "compare": 6, "classify": 5}[task]


def test_a_stopped_partner_ends_the_wait_with_a_line(corpus: Path, classifiers: Callable[..., str]) -> None:
    model = classifiers(max_passages=3)
    # The second process finds a document without text in its share.
    lines = corpus.read_text(encoding="utf-8").splitlines()
    broken = json.loads(lines[3]) | {"text": "\u200b"}
    lines[3] = json.dumps(broken)
    corpus.write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = ("evaluate", "classify", "--data", corpus.name, "--model", model, "--no-baseline")
    port = free_port()
    both = [start(*command, rank=rank, port=port, folder=corpus.parent) for rank in (0, 1)]
    outputs = [process.communicate(timeout=600) for process in both]
    assert [process.returncode for process in both] == [2, 2], outputs
    messages = [err for _, err in outputs]
    assert "'d3'" in messages[1]
    assert "process 1 has stopped" in messages[0] or "another process" in messages[0]
    assert "Traceback" not in "".join(messages)
