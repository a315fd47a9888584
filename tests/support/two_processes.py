"""Runs a program in two processes that know of each other, as torchrun does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import graphdoc

ROOT = Path(graphdoc.__file__).parent.parent
COMMANDS_JOB = Path(__file__).parent / "pretraining_job.py"
# Far more than a run takes; a process that waits for another for ever is what is looked for.
PATIENCE = 900


def launch(
    *arguments: object, check: bool = True, folder: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a program (a file, or ``-m`` and a module) with its arguments in two processes, in a folder."""
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    variables = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, *launcher, *map(str, arguments)],
        cwd=folder,
        env={**os.environ, **variables, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        try:
            out, err = run.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            # The launcher ends its processes, which a kill would leave behind.
            run.terminate()
            run.wait(60)
            raise
    assert not check or run.returncode == 0, err
    return subprocess.CompletedProcess(run.args, run.returncode, out, err)


def run_commands(commands: Sequence[Sequence[object]], folder: Path) -> list[list[dict[str, Any]]]:
    """Run graphdoc commands one after the other in two processes; of either, what came of each."""
    wanted = [[str(argument) for argument in command] for command in commands]
    (folder / "commands.json").write_text(json.dumps(wanted), encoding="utf-8")
    launch(COMMANDS_JOB, "commands", folder / "commands.json", folder / "seen", folder=folder)
    return [json.loads((folder / f"seen-{rank}.json").read_text(encoding="utf-8")) for rank in (0, 1)]
