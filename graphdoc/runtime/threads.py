"""Threads of torch, and processes that are forked while they exist."""

from __future__ import annotations

import logging
import os
from functools import cache

logger = logging.getLogger("graphdoc")


@cache
def survive_forks() -> None:
    """Let processes that are forked from now on compute with one thread.

    The threads that torch has started are not there in a fork, whose first parallel operation waits for them for ever.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_compute_alone)


def _compute_alone() -> None:
    import torch

    if torch.get_num_threads() > 1:
        torch.set_num_threads(1)
        logger.info("this process was forked after encoding, so torch computes with one thread in it")
