"""How far a run has come, as its checkpoints say."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..runtime.files import write_text

# What measurements are called in the log, before their names.
MEASURED = "eval_"


@dataclass
class TrainState:
    """How far a run has come.

    Fields are named as in transformers' ``TrainerState``, which wrote the checkpoints of version 0.1.

    Args:
        global_step: steps done.
        max_steps: steps of the whole run.
        epoch: epochs done, with their fraction.
        best_metric: the best number so far by which models are judged, None where nothing was measured.
        best_global_step: the step of the best model, None where there is none or it is gone.
        evaluations_without_better: evaluations since the best number.
        log_history: all entries of the log, each with its step.
    """

    global_step: int = 0
    max_steps: int = 0
    epoch: float = 0.0
    best_metric: float | None = None
    best_global_step: int | None = None
    evaluations_without_better: int = 0
    log_history: list[dict[str, Any]] = field(default_factory=list)

    def log(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Add an entry to the history, and give it with the epoch."""
        complete = {**entry, "epoch": self.epoch}
        self.log_history.append({**complete, "step": self.global_step})
        return complete

    def judge(self, measured: Mapping[str, float], metric: str, *, greater_is_better: bool) -> bool:
        """Take note of what was measured.

        Few documents to measure give the same number again and again, at first to models that hardly know anything
        yet. The lower loss decides between them, or where none is measured, the later one wins.

        Args:
            measured: the numbers, as in the log.
            metric: the number by which models are judged.
            greater_is_better: whether more of it is better.

        Returns:
            Whether this is the best model so far.
        """
        score = measured[MEASURED + metric]
        best = self.best_metric
        if best is None:
            best = -math.inf if greater_is_better else math.inf
        if score > best if greater_is_better else score < best:
            self.best_metric, self.best_global_step = score, self.global_step
            self.evaluations_without_better = 0
            return True
        self.evaluations_without_better += 1
        if score == self.best_metric and self._wins_tie(measured, MEASURED + metric):
            self.best_global_step = self.global_step
            return True
        return False

    def _wins_tie(self, measured: Mapping[str, float], metric: str) -> bool:
        loss = MEASURED + "loss"
        entries = (entry for entry in self.log_history if entry["step"] == self.best_global_step and metric in entry)
        before = next(entries, {})
        return loss not in measured or measured[loss] < before.get(loss, math.inf)

    def save(self, path: Path) -> None:
        """Write the state as JSON."""
        write_text(path, json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def load(cls, path: Path) -> TrainState:
        """Read what :meth:`save` wrote, or the state of a run that version 0.1 began.

        Raises:
            OSError, ValueError, KeyError, TypeError, AttributeError: the file is missing or damaged.
        """
        values = json.loads(path.read_text(encoding="utf-8"))
        stopping = (values.get("stateful_callbacks") or {}).get("EarlyStoppingCallback", {}).get("attributes", {})
        without_better = stopping.get("early_stopping_patience_counter", 0)
        return cls(
            global_step=int(values["global_step"]),
            max_steps=int(values["max_steps"]),
            epoch=float(values["epoch"]),
            best_metric=values["best_metric"],
            best_global_step=values["best_global_step"],
            evaluations_without_better=int(values.get("evaluations_without_better", without_better)),
            log_history=list(values["log_history"]),
        )
