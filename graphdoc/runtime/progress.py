"""What long work shows: a bar on a terminal, and a line a minute where there is none."""

from __future__ import annotations

import sys
import time
from typing import Any, cast

from tqdm.auto import tqdm
from tqdm.std import tqdm as plain_tqdm

# Between two lines where there is no terminal.
SECONDS = 60.0


class MinuteLines(plain_tqdm):  # type: ignore[type-arg]
    """A bar that is a line on the error stream every minute, and one at the end of what took longer than that."""

    def __init__(self, **settings: Any) -> None:
        self._due = time.monotonic() + SECONDS
        self._is_told = False
        super().__init__(**settings, delay=SECONDS, mininterval=min(1.0, SECONDS), miniters=1)

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Write a line, where one is due."""
        if time.monotonic() >= self._due:
            self._write_line()
            self._due = time.monotonic() + SECONDS

    def clear(self, nolock: bool = False) -> None:
        """Do nothing: lines stay."""

    def close(self) -> None:
        """Write a last line, if there were others."""
        if not self.disable and self._is_told:
            self._write_line()
        # Nothing is left on the screen to clear.
        self.delay = float("inf")
        super().close()

    def _write_line(self) -> None:
        values = self.format_dict
        done = f"{self.n:,}" if self.total is None else f"{self.n:,} of {self.total:,}"
        unit = self.unit.removesuffix("s") if (self.total or self.n) == 1 else self.unit
        line = f"{self.desc}: {done}{unit} in {self.format_interval(values['elapsed'])}"
        rate = (self.n - self.initial) / max(values["elapsed"], 1e-9)
        if self.total is not None and self.n < self.total and rate:
            line += f", about {self.format_interval((self.total - self.n) / rate)} left"
        print(f"{line}, {self.postfix}" if self.postfix else line, file=self.fp, flush=True)
        self._is_told = True


def progress_bar(
    show: bool | None,
    total: int | None = None,
    doing: str = "Encoding",
    unit: str = "documents",
    *,
    done: int = 0,
) -> tqdm[Any]:
    """Make a bar.

    Args:
        show: whether it is shown; None shows it on a terminal when the work is long, and elsewhere a line a minute.
        total: how much there is to do; None where that is not known.
        doing: what is done.
        unit: what is counted.
        done: how much an earlier run did; where that is everything, no bar is shown.
    """
    hidden = show is False or (done > 0 and done == total)
    settings: dict[str, Any] = {"total": total, "initial": done, "desc": doing, "unit": f" {unit}", "disable": hidden}
    if show is None and not sys.stderr.isatty():
        return cast("tqdm[Any]", MinuteLines(**settings))
    return tqdm(**settings, delay=0.5 if show is None else 0)


class Parts:
    """Advances a bar of documents by the parts of some that are worked on together, and says how many parts are done.

    Args:
        bar: the bar; None shows nothing.
        documents: how many documents they are.
        parts: their parts.
        noun: what these are, such as ``sentences``.
    """

    def __init__(self, bar: tqdm[Any] | None, documents: int, parts: int, noun: str) -> None:
        self._bar, self._documents, self._parts, self._noun = bar, documents, parts, noun
        self._done = self._shown = 0

    def __call__(self, parts: int) -> None:
        """Say that so many more parts are done."""
        self._done += parts
        bar = self._bar
        if bar is None:
            return
        # One long document is hours of no document done.
        text = f"{self._done:,} of {self._parts:,} {self._noun}" if self._done < self._parts else ""
        bar.set_postfix_str(text, refresh=False)
        whole = self._documents * self._done // self._parts
        bar.update(whole - self._shown)
        now = time.time()
        if (
            whole == self._shown
            and not bar.disable
            and now >= max(bar.start_t + (bar.delay or 0), bar.last_print_t + bar.mininterval)
        ):
            bar.refresh()
            bar.last_print_t = now
        self._shown = whole
