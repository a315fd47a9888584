"""The bar that long work shows."""

from __future__ import annotations

import sys
from typing import Any

from tqdm.auto import tqdm


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
        show: whether it is shown; None shows it on a terminal when the work is long.
        total: how much there is to do; None where that is not known.
        doing: what is done.
        unit: what is counted.
        done: how much an earlier run did; where that is everything, no bar is shown.
    """
    hidden = not (sys.stderr.isatty() if show is None else show) or (done > 0 and done == total)
    delay = 0.5 if show is None else 0
    return tqdm(total=total, initial=done, desc=doing, unit=f" {unit}", disable=hidden, delay=delay)
