"""What a run says while it goes on: a bar on the terminal, a log as JSON Lines, and trackers."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from ..errors import GraphdocError, OutputError
from ..runtime.processes import Processes
from ..runtime.progress import progress_bar
from .run_folder import LOG_FILE, settings_in_words
from .state import MEASURED, TrainState
from .trackers import start_tracker

# What the bar shows of an entry of the log, in this order.
_SHOWN = {
    "loss": "loss {:.4f}",
    "accuracy": "accuracy {:.1%}",
    "positive_similarity": "positive {:.3f}",
    "negative_similarity": "negative {:.3f}",
    "documents_per_second": "{:,.0f} documents/s",
    "tokens_per_second": "{:,.0f} tokens/s",
}


class RunLog:
    """Shows and writes the entries of a run's log; a context, in which the bar is on the terminal.

    A run that is resumed drops the entries of what it does again.

    Args:
        folder: the run's folder.
        state: where the run begins or goes on.
        trackers: where numbers are also written (see :data:`~graphdoc.training.trackers.TRACKERS`).
        show: whether to show the bar; None on a terminal, and elsewhere a line a minute.

    Raises:
        MissingExtraError: a tracker is not installed.
        OutputError: the log cannot be written, or a tracker does not start.
    """

    def __init__(
        self, folder: Path, state: TrainState, trackers: Sequence[str] = (), show: bool | None = None
    ) -> None:
        self.path, self._state = folder / LOG_FILE, state
        self._trackers: list[Any] = []
        self._tells_results = sys.stderr.isatty() if show is None else show
        self._bar = progress_bar(show, state.max_steps, "Training", "steps", done=state.global_step)
        with self._writing():
            kept = [line for line, step in _entries(self.path) if step <= state.global_step]
            temporary = self.path.with_name(f".partial-{os.getpid()}-{self.path.name}")
            temporary.write_text("".join(f"{line}\n" for line in kept if state.global_step), encoding="utf-8")
            temporary.replace(self.path)

        try:
            for name in trackers:
                self._trackers.append(start_tracker(name, folder, settings_in_words(folder)))
        except GraphdocError:
            self.__exit__()
            raise

    def __enter__(self) -> RunLog:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()
        for tracker in self._trackers:
            tracker.finish()

    def advance(self) -> None:
        """Move the bar to the current step."""
        self._bar.update(self._state.global_step - self._bar.n)

    def write(self, entry: Mapping[str, Any]) -> None:
        """Add an entry of the current step."""
        step = self._state.global_step
        with self._writing(), self.path.open("a", encoding="utf-8") as stream:
            # JSON has no word for what is not finite, such as a gradient that overflows.
            values = {
                name: value if not isinstance(value, float) or math.isfinite(value) else None
                for name, value in entry.items()
            }
            stream.write(json.dumps({"step": step, **values}, allow_nan=False) + "\n")
        for tracker in self._trackers:
            tracker.log({_tracked_name(name): value for name, value in entry.items()}, step=step)
        shown = ", ".join(form.format(entry[name]) for name, form in _SHOWN.items() if name in entry)
        if shown:
            self._bar.set_postfix_str(shown)
        results = {name.removeprefix(MEASURED): value for name, value in entry.items() if name.startswith(MEASURED)}
        if results and self._tells_results:
            numbers = ", ".join(f"{name} {value:.4f}" for name, value in results.items())
            self._bar.write(f"step {step}: {numbers}", file=sys.stderr)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputError(
                f"{self.path} cannot be written: {error.strerror or error}; checkpoints are whole: mend that and "
                "resume"
            ) from error


def _entries(path: Path) -> list[tuple[str, int]]:
    """Lines of a log with their steps; what a kill cut, or a disk damaged, is left out."""
    entries = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else ():
        try:
            entries.append((line, int(json.loads(line)["step"])))
        except (ValueError, TypeError, KeyError):
            continue
    return entries


def _tracked_name(name: str) -> str:
    """The name of a number where trackers group numbers by what comes before a slash."""
    return f"eval/{name.removeprefix(MEASURED)}" if name.startswith(MEASURED) else f"train/{name}"


class StepMeans:
    """Adds up the numbers of steps between two entries of the log."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._began: float | None = None
        self._sums: dict[str, Tensor] = {}
        self._steps = self._documents = self._tokens = 0
        self._waited = 0.0

    def add(self, metrics: Mapping[str, Tensor], documents: int, tokens: int) -> None:
        """Take in the numbers of a step of this process."""
        for name, value in metrics.items():
            self._sums[name] = self._sums[name] + value if name in self._sums else value
        self._steps += 1
        self._documents += documents
        self._tokens += tokens

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """A context in which a batch is waited for; time is counted from the first of them on."""
        began = time.perf_counter()
        self._began = began if self._began is None else self._began
        yield
        self._waited += time.perf_counter() - began

    def take(self, processes: Processes) -> dict[str, float]:
        """Means over steps and processes, and documents and tokens a second of all; then begin anew."""
        seconds = max(time.perf_counter() - (self._began or 0.0), 1e-9)
        own = [float(value) / max(self._steps, 1) for value in self._sums.values()]
        own += [self._waited / seconds, self._documents / seconds, self._tokens / seconds]
        *means, waited, documents, tokens = (
            math.fsum(values) / processes.count for values in zip(*processes.gather(own), strict=True)
        )
        names = list(self._sums)
        self._reset()
        return {
            **dict(zip(names, means, strict=True)),
            "documents_per_second": documents * processes.count,
            "tokens_per_second": tokens * processes.count,
            "waiting_share": waited,
        }
