"""Settings of a run in the words of transformers' Trainer."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from transformers import TrainingArguments

from ..settings.training import TrainingSettings

# Share of the steps in which ``warmup_stable_decay`` comes down, as in the paper that proposed it (Hu et al. 2024).
DECAY_SHARE = 0.1

# A stream has no end of an epoch at which to save and measure.
STREAM_SAVE_STEPS = 500

_OPTIMIZERS = {"adam": "adamw_torch", "adamw": "adamw_torch", "adafactor": "adafactor"}


def training_arguments(
    settings: TrainingSettings,
    folder: Path,
    device: torch.device,
    epoch_steps: int | None,
    *,
    evaluates: bool = False,
    best_metric: str | None = None,
    greater_is_better: bool = False,
) -> TrainingArguments:
    """Translate the settings of a run.

    Args:
        settings: the settings.
        folder: the run's folder.
        device: where the model is trained.
        epoch_steps: steps of an epoch; None for a stream, which does not know and finds its place by itself.
        evaluates: whether there is anything to evaluate.
        best_metric: number by which evaluations are judged.
        greater_is_better: whether more of it is better.

    Returns:
        Arguments for the Trainer.
    """
    is_stream = epoch_steps is None
    if epoch_steps is None:
        epoch_steps = min(STREAM_SAVE_STEPS, settings.max_steps or STREAM_SAVE_STEPS)
    values: dict[str, Any] = {
        "output_dir": str(folder),
        "num_train_epochs": settings.epochs,
        "max_steps": settings.max_steps or -1,
        "learning_rate": settings.learning_rate,
        # Adam is AdamW without decay.
        "optim": _OPTIMIZERS[settings.optimizer],
        "weight_decay": settings.weight_decay,
        "lr_scheduler_type": settings.schedule,
        "lr_scheduler_kwargs": _schedule_options(settings, epoch_steps),
        "warmup_steps": settings.warmup,
        "max_grad_norm": settings.clip,
        "logging_strategy": "steps",
        "logging_steps": settings.log_steps,
        "logging_nan_inf_filter": False,
        # The end of an epoch is told by its step, so that the Trainer measures first and saves what it found: its own
        # strategy for epochs measures after the last step was saved, and a run that resumes there would not know.
        "save_strategy": "steps",
        "save_steps": settings.save_steps or epoch_steps,
        # The run's own checkpoints decide what is kept; the Trainer would delete the last one but for the best.
        "save_total_limit": None,
        "eval_strategy": "steps" if evaluates else "no",
        "eval_steps": (settings.evaluation_steps or epoch_steps) if evaluates else None,
        "metric_for_best_model": best_metric if evaluates else None,
        "greater_is_better": greater_is_better if evaluates else None,
        "seed": settings.seed,
        "report_to": list(settings.trackers),
        "disable_tqdm": True,
        "remove_unused_columns": False,
        "ignore_data_skip": is_stream,
        "label_names": [],
        "use_cpu": device.type == "cpu",
    }
    return TrainingArguments(**values)


def _schedule_options(settings: TrainingSettings, epoch_steps: int) -> dict[str, Any] | None:
    if settings.schedule != "warmup_stable_decay":
        return None
    steps = settings.max_steps or math.ceil(settings.epochs * epoch_steps)
    return {"num_decay_steps": max(1, round(DECAY_SHARE * steps))}
