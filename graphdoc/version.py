"""The version of the package, read by setup.cfg without importing anything else."""

from __future__ import annotations

__version__ = "0.1.0"
