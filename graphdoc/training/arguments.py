"""Settings of a run in the words of transformers' Trainer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import TrainingArguments

from .settings import TrainingSettings

_OPTIMIZERS = {"adam": "adamw_torch", "adamw": "adamw_torch", "adafactor": "adafactor"}


def training_arguments(
    settings: TrainingSettings,
    folder: Path,
    device: torch.device,
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
        evaluates: whether there is anything to evaluate.
        best_metric: number by which evaluations are judged.
        greater_is_better: whether more of it is better.

    Returns:
        Arguments for the Trainer.
    """
    values: dict[str, Any] = {
        "output_dir": str(folder),
        "num_train_epochs": settings.epochs,
        "max_steps": settings.max_steps or -1,
        "learning_rate": settings.learning_rate,
        # Adam is AdamW without decay.
        "optim": _OPTIMIZERS[settings.optimizer],
        "weight_decay": settings.weight_decay,
        "lr_scheduler_type": settings.schedule,
        "warmup_steps": settings.warmup,
        "max_grad_norm": settings.clip,
        "logging_strategy": "steps",
        "logging_steps": settings.log_steps,
        "logging_nan_inf_filter": False,
        "save_strategy": "steps" if settings.save_steps else "epoch",
        "save_steps": settings.save_steps or 500,
        "save_total_limit": settings.keep_checkpoints,
        "eval_strategy": "no" if not evaluates else "steps" if settings.evaluation_steps else "epoch",
        "eval_steps": settings.evaluation_steps if evaluates else None,
        "metric_for_best_model": best_metric if evaluates else None,
        "greater_is_better": greater_is_better if evaluates else None,
        "seed": settings.seed,
        "report_to": list(settings.trackers),
        "disable_tqdm": True,
        "remove_unused_columns": False,
        "label_names": [],
        "use_cpu": device.type == "cpu",
    }
    return TrainingArguments(**values)
