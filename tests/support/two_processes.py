"""Runs a program in two processes that know of each other, as a launcher starts them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from forked import PATIENCE, Forked, run_together
from torch.distributed import TCPStore

COMMANDS_JOB = Path(__file__).parent / "pretraining_job.py"
PROCESSES = 2
# Launchers that people use, after ``python -m``; with --cpu accelerate would start a single process.
LAUNCHERS = {
    "torchrun": ("torch.distributed.run", "--standalone", "--nproc-per-node", "2"),
    "accelerate": (
        *("accelerate.commands.launch", "--multi_gpu", "--num_machines", "1", "--num_processes", "2"),
        *("--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"),
    ),
}


def launched(launcher: str, *arguments: object) -> CompletedProcess[str]:
    """Run a program with its arguments in two processes that a launcher starts."""
    command = [sys.executable, "-m", *LAUNCHERS[launcher], *map(str, arguments)]
    return subprocess.run(command, check=False, timeout=PATIENCE, capture_output=True, text=True)


def launch(*arguments: object, check: bool = True, folder: Path | None = None) -> list[CompletedProcess[str]]:
    """Run a program (a file, or ``-m`` and a module) with its arguments in two processes, in a folder."""
    # As torchrun does it: the store is the launcher's, at a port that is free for certain.
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=PATIENCE))
    known = {
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": "0", "WORLD_SIZE": str(PROCESSES), "LOCAL_WORLD_SIZE": str(PROCESSES),
    }  # fmt: skip
    programs = [
        Forked(*arguments, folder=folder, environment={**known, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(PROCESSES)
    ]
    done = run_together(programs)
    assert not check or not any(run.returncode for run in done), "\n".join(run.stderr for run in done)
    return done


def run_commands(
    commands: Sequence[Sequence[object]], folder: Path, launcher: str | None = None
) -> list[list[dict[str, Any]]]:
    """Run graphdoc commands one after the other in two processes; of either, what came of each."""
    wanted = [[str(argument) for argument in command] for command in commands]
    (folder / "commands.json").write_text(json.dumps(wanted), encoding="utf-8")
    job = (COMMANDS_JOB, "commands", folder / "commands.json", folder / "seen")
    if launcher is None:
        launch(*job, folder=folder)
    else:
        assert (done := launched(launcher, *job)).returncode == 0, done.stderr
    return [json.loads((folder / f"seen-{rank}.json").read_text(encoding="utf-8")) for rank in range(PROCESSES)]
