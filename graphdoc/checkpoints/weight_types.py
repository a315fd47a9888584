"""What kinds of numbers a file of weights holds."""

from __future__ import annotations

from pathlib import Path

from safetensors import safe_open


def not_floating(path: Path) -> str | None:
    """Name and type of the first weight that is no floating-point number; torch would cast it and say nothing."""
    with safe_open(path, framework="pt") as weights:
        for name in weights.keys():  # noqa: SIM118
            kind = str(weights.get_slice(name).get_dtype())
            if kind not in ("F64", "F32", "F16", "BF16"):
                return f"{name}: {kind}"
    return None
