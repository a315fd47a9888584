"""A worker of a Ray cluster that is killed once, for tests of what that costs."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from graphdoc.vectors.writer import ShardEncoder, ShardTask


class Mortal(ShardEncoder):
    """Is killed when it makes its third shard for the first time."""

    mark: Path

    def __getstate__(self) -> dict[str, object]:
        return super().__getstate__() | {"mark": self.mark}

    def encode(self, task: ShardTask) -> tuple[int, bytes]:
        if task.number == 2 and not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().encode(task)
