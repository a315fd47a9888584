"""Runs the command line as ``python -m graphdoc``."""

from __future__ import annotations

import sys

from .cli import main

sys.exit(main())
