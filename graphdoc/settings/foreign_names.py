"""Names that users know from other libraries, for hints where they write them."""

from __future__ import annotations

from collections.abc import Collection

# Of transformers' TrainingArguments and model configurations, of sentence-transformers and of peft: our key, and what
# is different about it.
_OWN_NAMES: dict[str, tuple[str, str]] = {
    "per_device_train_batch_size": ("training.batch_size", "documents over all devices"),
    "per_device_eval_batch_size": ("training.token_budget", "tokens of a mini-batch"),
    "train_batch_size": ("training.batch_size", "documents over all devices"),
    "gradient_accumulation_steps": ("training.batch_size", "batches of any size fit: mini-batches are cached"),
    "mini_batch_size": ("training.token_budget", "tokens of a mini-batch"),
    "num_train_epochs": ("training.epochs", ""),
    "num_epochs": ("training.epochs", ""),
    "lr": ("training.learning_rate", ""),
    "lr_scheduler_type": ("training.schedule", ""),
    "scheduler": ("training.schedule", ""),
    "warmup_ratio": ("training.warmup", "below 1 it is a share of all steps"),
    "warmup_steps": ("training.warmup", "from 1 it is a number of steps"),
    "optim": ("training.optimizer", ""),
    "max_grad_norm": ("training.clip", ""),
    "fp16": ("training.precision", "bfloat16, since float16 is not for training"),
    "bf16": ("training.precision", "bfloat16"),
    "dtype": ("training.precision", ""),
    "torch_dtype": ("training.precision", ""),
    "eval_steps": ("training.evaluation_steps", ""),
    "logging_steps": ("training.log_steps", ""),
    "save_total_limit": ("training.keep_checkpoints", ""),
    "report_to": ("training.trackers", "a list"),
    "dataloader_num_workers": ("training.loading_processes", ""),
    "num_workers": ("training.loading_processes", ""),
    "early_stopping_patience": ("training.patience", ""),
    "torch_compile": ("model.compile", ""),
    "data_seed": ("training.seed", ""),
    "output_dir": ("output", ""),
    "output_path": ("output", ""),
    "model_name": ("model.start", ""),
    "model_name_or_path": ("model.start", ""),
    "max_seq_length": ("model.settings.passage_tokens", ""),
    "max_length": ("model.settings.passage_tokens", ""),
    "pooling_mode": ("model.settings.pooling", ""),
    "lora_alpha": ("model.lora.alpha", ""),
    "lora_dropout": ("model.lora.dropout", ""),
    "target_modules": ("model.lora.targets", ""),
    "r": ("model.lora.rank", ""),
    "scale": ("loss.temperature", "1 / scale"),
    "dataset_name": ("corpus.dataset", ""),
    "dataset_config_name": ("corpus.dataset_config", ""),
    "train_file": ("corpus.source", ""),
    "metric_for_best_model": ("evaluation.best", ""),
    "label_smoothing_factor": ("labels.label_smoothing", ""),
}
# Where a recipe has another key for the same.
_ELSEWHERE = {"evaluation.best": "validation.best"}


def own_name(name: str, keys: Collection[str]) -> str | None:
    """A hint for a name of another library, None where there is none.

    Args:
        name: the name that is unknown.
        keys: the whole keys that there are.

    >>> own_name("num_train_epochs", {"training.epochs"})
    'did you mean training.epochs?'
    """
    key, difference = _OWN_NAMES.get(name, ("", ""))
    key = key if key in keys else _ELSEWHERE.get(key, key)
    if key not in keys and not (key.startswith("model.settings.") and "model.settings" in keys):
        return None
    return f"did you mean {key}{f' ({difference})' if difference else ''}?"
