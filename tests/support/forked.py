"""Starts programs in processes that are forked from one which has imported what all of them import.

They are processes as any other, with a group, an environment and a folder of their own, and begin after milliseconds
where an interpreter that imports the same takes many seconds.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from multiprocessing import connection
from pathlib import Path
from subprocess import CompletedProcess, TimeoutExpired

import torch

IMPORTED = (
    "graphdoc.cli",
    "graphdoc.commands.encode",
    "graphdoc.commands.finetune",
    "graphdoc.recipes.compare",
    "graphdoc.recipes.classify",
    "graphdoc.recipes.sub_documents",
    "graphdoc.retrieval.index",
)
# Far more than a run takes; a process that waits for another for ever is what is looked for.
PATIENCE = 900
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([*IMPORTED, __name__])


class Forked:
    """A program that runs: what the tests need of ``subprocess.Popen``.

    Args:
        arguments: a file, or ``-m`` and a module, and what it is called with.
        folder: where it runs; None for here.
        environment: variables beside those of this process.
    """

    def __init__(
        self, *arguments: object, folder: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        self.args = [str(argument) for argument in arguments]
        self._texts = tempfile.TemporaryDirectory()
        self._process = _context.Process(
            target=_run,
            args=(
                self.args,
                str(folder or Path.cwd()),
                {**os.environ, **ENVIRONMENT, **(environment or {})},
                self._texts.name,
            ),
        )
        self._process.start()

    @property
    def pid(self) -> int:
        """Number of the process."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def sentinel(self) -> int:
        """What is ready once the process has ended."""
        return self._process.sentinel

    @property
    def returncode(self) -> int | None:
        """Exit status, or the negative number of the signal that ended it; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """The exit status, if it has ended."""
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal to the process alone."""
        os.kill(self.pid, number)

    def said(self) -> str:
        """What was written to the output so far."""
        path = Path(self._texts.name) / "out"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for the end; what was written to the two outputs."""
        self._process.join(timeout)
        if self.returncode is None:
            raise TimeoutExpired(self.args, timeout or 0.0)
        out, err = ((Path(self._texts.name) / name).read_text(encoding="utf-8") for name in ("out", "err"))
        return out, err


def run(*given: object, check: bool = True, patience: float = PATIENCE, **environment: str) -> CompletedProcess[str]:
    """Run a program to its end."""
    (done,) = run_together([Forked(*given, environment=environment)], patience)
    assert not check or done.returncode == 0, done.stderr
    return done


def run_together(programs: Sequence[Forked], patience: float = PATIENCE) -> list[CompletedProcess[str]]:
    """Wait for programs that need each other; none is left behind."""
    try:
        waiting = {program.sentinel for program in programs}
        while waiting:
            ended = connection.wait(list(waiting), patience)
            if not ended:
                raise TimeoutExpired(programs[0].args, patience)
            waiting -= set(ended)  # type: ignore[arg-type]
        texts = [program.communicate() for program in programs]
    finally:
        for program in programs:
            if program.returncode is None:
                program.send_signal(signal.SIGKILL)
    return [
        CompletedProcess(program.args, program.returncode or 0, out, err)
        for program, (out, err) in zip(programs, texts, strict=True)
    ]


def _run(arguments: list[str], folder: str, environment: dict[str, str], texts: str) -> None:
    """Be the program."""
    os.setsid()
    # As in an interpreter that was started by itself.
    multiprocessing.set_start_method(None, force=True)  # type: ignore[arg-type]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    # The variable is read when the library is imported.
    torch.set_num_threads(int(environment["OMP_NUM_THREADS"]))
    for number, name in ((1, "out"), (2, "err")):
        target = os.open(Path(texts) / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(target, number)
        os.close(target)
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path.insert(0, str(Path(arguments[0]).parent))
        runpy.run_path(arguments[0], run_name="__main__")
