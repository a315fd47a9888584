"""The range of temperatures that losses compute with."""

from __future__ import annotations

import math

# With less than this, exponents and gradients leave the range of fp32.
LEAST = 1e-4


def require_temperature(temperature: float) -> None:
    """Refuse a temperature that no loss can be computed with.

    Raises:
        ValueError: it is out of range.
    """
    if not LEAST <= temperature < math.inf:
        raise ValueError(f"temperature={temperature} must be at least {LEAST:g} and finite (0.05 to 1 is usual)")
