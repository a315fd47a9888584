"""What all benchmarks share: taking turns, describing the machine, and writing a table to ``benchmarks/results``."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import torch

from graphdoc.runtime.files import write_text

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
DATA = ROOT.parent / "shared" / "data"
LIBRARIES = ("torch", "transformers", "torch-geometric", "sentence-transformers", "scikit-learn", "numpy")


def alternate(
    functions: Mapping[str, Callable[[], object]],
    repeats: int,
    warm_up: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds of functions that take turns, so that whatever else the machine does falls on all of them.

    Every other round runs backwards, since what runs after a heavy neighbour finds a cold cache.

    Args:
        functions: what to time, by name.
        repeats: number of timed rounds.
        warm_up: rounds before, not timed.
        clock: ``time.process_time`` leaves out what other programs take away; it fits work on one thread.
    """
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for number in range(-warm_up, repeats):
        order = list(functions) if number % 2 == 0 else list(reversed(functions))
        for name in order:
            _finish()
            start = clock()
            functions[name]()
            _finish()
            if number >= 0:
                seconds[name].append(clock() - start)
    return seconds


def describe_machine() -> str:
    """One paragraph: processors, memory, accelerators and versions."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    parts = [
        f"{_processor_name()}, {os.cpu_count()} processors, {torch.get_num_threads()} torch threads",
        f"{memory:.0f} GiB memory",
        *(torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())),
        f"{platform.system()}, Python {platform.python_version()}",
        ", ".join(f"{name} {found}" for name in LIBRARIES if (found := _version(name))),
    ]
    return "Machine: " + "; ".join(parts) + "."


def write_result(name: str, text: str, folder: Path = RESULTS) -> Path:
    """Write Markdown, with the command that made it, to ``<name>.md`` of a folder, atomically."""
    return write_text(folder / f"{name}.md", text.rstrip() + "\n")


def _finish() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None


def floating_point_operations(lengths: np.ndarray, config: object) -> float:
    """Operations of one forward pass over passages of these lengths."""
    hidden, inner = config.hidden_size, config.intermediate_size  # type: ignore[attr-defined]
    weights = 4 * hidden**2 + 2 * hidden * inner
    return float(config.num_hidden_layers * (2 * lengths * weights + 4 * lengths**2 * hidden).sum())  # type: ignore[attr-defined]


def matrix_products(
    rows: int, hidden: int, inner: int, dtype: torch.dtype, repeats: int = 40, device: torch.device | str = "cpu"
) -> float:
    """Operations per second of the largest matrix product of a layer."""
    a, w = (torch.randn(count, hidden, dtype=dtype, device=device) for count in (rows, inner))
    for _ in range(5):
        torch.nn.functional.linear(a, w)
    _finish()
    start = time.perf_counter()
    for _ in range(repeats):
        torch.nn.functional.linear(a, w)
    _finish()
    return 2 * rows * hidden * inner * repeats / (time.perf_counter() - start)
