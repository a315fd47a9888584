"""What a run tells while it goes on: a bar on the terminal and a log as JSON Lines."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]
from transformers import TrainerCallback

from ..errors import OutputError
from .run_folder import LOG_FILE

# What the bar shows of an entry of the log, in this order.
_SHOWN = {
    "loss": "loss {:.4f}",
    "accuracy": "accuracy {:.1%}",
    "positive_similarity": "positive {:.3f}",
    "negative_similarity": "negative {:.3f}",
    "documents_per_second": "{:,.0f} documents/s",
    "tokens_per_second": "{:,.0f} tokens/s",
}


class ProgressBar(TrainerCallback):
    """A bar over the steps of a run, with the latest numbers of its log.

    Args:
        show: whether to show it; None on a terminal.
    """

    def __init__(self, show: bool | None = None) -> None:
        self._show = sys.stderr.isatty() if show is None else show
        self._bar: Any = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Draw the bar where the run is."""
        hidden = not (self._show and state.is_world_process_zero)
        self._bar = tqdm(
            total=state.max_steps, initial=state.global_step, desc="Training", unit=" steps", disable=hidden
        )

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Move on by a step."""
        self._bar.update(state.global_step - self._bar.n)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Show the latest numbers."""
        shown = ", ".join(form.format(logs[name]) for name, form in _SHOWN.items() if name in logs)
        if shown and self._bar is not None:
            self._bar.set_postfix_str(shown)
        results = {name.removeprefix("eval_"): value for name, value in logs.items() if name.startswith("eval_")}
        if results and self._bar is not None and not self._bar.disable:
            numbers = ", ".join(f"{name} {value:.4f}" for name, value in results.items())
            self._bar.write(f"step {state.global_step}: {numbers}", file=sys.stderr)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Leave the bar as it is."""
        if self._bar is not None:
            self._bar.close()


class RunLog(TrainerCallback):
    """Writes every entry of the log as a line of JSON; a run that is resumed drops what it does again.

    Args:
        folder: the run's folder.

    Raises:
        OutputError: the log cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOG_FILE

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Drop entries of steps after the checkpoint that the run goes on from."""
        if not state.is_world_process_zero:
            return
        with self._writing():
            kept = [line for line, step in _entries(self.path) if step <= state.global_step]
            temporary = self.path.with_name(f".partial-{os.getpid()}-{self.path.name}")
            temporary.write_text("".join(f"{line}\n" for line in kept if state.global_step), encoding="utf-8")
            temporary.replace(self.path)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Add an entry."""
        if state.is_world_process_zero:
            with self._writing(), self.path.open("a", encoding="utf-8") as stream:
                # JSON has no word for what is not finite, such as gradients that fp16 overflows in.
                entry = {
                    name: value if not isinstance(value, float) or math.isfinite(value) else None
                    for name, value in logs.items()
                }
                stream.write(json.dumps({"step": state.global_step, **entry}, allow_nan=False) + "\n")

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


class Stopping(TrainerCallback):
    """Remembers that the system asked this process to stop (SIGTERM)."""

    def __init__(self) -> None:
        self.asked = False
        self._previous: Any = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Listen for the signal."""
        try:
            self._previous = signal.signal(signal.SIGTERM, self._ask)
        except ValueError:  # only the main thread can
            self._previous = None

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Give the signal back."""
        self.restore()

    def restore(self) -> None:
        """Let the signal do what it did before."""
        if self._previous is not None:
            signal.signal(signal.SIGTERM, self._previous)
            self._previous = None

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
