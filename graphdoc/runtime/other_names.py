"""What users of sentence-transformers, PyLate and transformers look for, and what it is called here."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from ..errors import SettingsError

_CUT = "passage_tokens and max_passages of the model"
_PRECISION = "accelerate launch --mixed_precision"
_RANK = "similarity, or search of a DocumentIndex"
_CALLBACKS = "callbacks, when the Trainer is made"

# By where it is looked for, since a name may mean two things: arguments of encode, encode_query and encode_document;
ENCODING = {
    "normalize": "normalize_embeddings", "output_value": "level",
    "precision": "dtype", "pool": "workers", "batch_size": "token_budget, tokens of a mini-batch",
    "prompt": "query_prompt and document_prompt of the model",
    "prompt_name": "encode_query or encode_document", "is_query": "encode_query or encode_document",
}  # fmt: skip
# of fit, which does not train;
FITTING = ENCODING | dict.fromkeys(("epochs", "train_objectives", "learning_rate", "steps_per_epoch"), "a Trainer")
# settings of a model, as arguments of from_pretrained;
LOADING = {
    "torch_dtype": "dtype", "similarity_fn_name": "similarity", "prompts": "query_prompt and document_prompt",
    "document_length": _CUT, "query_length": _CUT, "truncate_dim": "vectors[:, :dimensions]",
    "token": "the environment variable HF_TOKEN", "cache_folder": "the environment variable HF_HOME",
    "local_files_only": "the environment variable HF_HUB_OFFLINE", "trust_remote_code": "a model without code",
}  # fmt: skip
# settings of training, as arguments of a Trainer;
TRAINING = {
    "args": "keyword arguments such as epochs=3", "train_dataset": "task", "data": "task", "train_objectives": "task",
    "eval_dataset": "evaluator", "compute_metrics": "evaluator", "output_dir": "output",
    "num_train_epochs": "epochs", "per_device_train_batch_size": "batch_size", "mini_batch_size": "token_budget",
    "warmup_ratio": "warmup_steps", "metric_for_best_model": "best, a setting of validation",
    "load_best_model_at_end": "no name: the best model is kept", "fp16": _PRECISION, "bf16": _PRECISION,
    "precision": _PRECISION, "resume_from_checkpoint": "resume of its method train",
    "gradient_accumulation_steps": "token_budget, tokens of a mini-batch of which batches are made",
}  # fmt: skip
# attributes of an encoder, of a Trainer and of the package.
ENCODER = {
    "max_seq_length": _CUT, "get_max_seq_length": _CUT, "tokenize": "segment", "rank": _RANK, "rerank": _RANK,
    "save": "save_pretrained", "save_to_hub": "push_to_hub", "encode_multi_process": "encode_to_disk",
    "start_multi_process_pool": "encode_to_disk", "to": "device of from_pretrained", "config": "model.config",
    "evaluate": "an evaluator of graphdoc.evaluation, called with the encoder", "parameters": "model.parameters",
    "eval": "model.eval", "train": "a Trainer", "similarity_fn_name": "model.config.similarity",
}  # fmt: skip
TRAINER = {
    "add_callback": _CALLBACKS, "remove_callback": _CALLBACKS, "args": "settings", "model": "encoder",
    "evaluate": "the evaluator itself, called with the encoder", "predict": "predict of the encoder",
    "push_to_hub": "push_to_hub of the encoder", "save_model": "save_pretrained of the encoder",
    "state": "results.json and log.jsonl of the output folder",
}  # fmt: skip
PACKAGE = {
    "SentenceTransformer": "DocumentEncoder", "SentenceTransformerTrainer": "Trainer",
    "util": _RANK, "retrieve": "DocumentIndex", "indexes": "DocumentIndex",
}  # fmt: skip


def hint(name: str, known: Iterable[str], others: Mapping[str, str], section: str = "") -> str:
    """What to use instead of a name that is unknown; what is known begins with the name of its section."""
    if name in others:
        return f"use {others[name]}"
    nearest = difflib.get_close_matches(name, names := list(known), n=1)
    return f"did you mean {section}{nearest[0]}?" if nearest else f"there are {', '.join(names)}"


def require_known(given: Iterable[str], known: Iterable[str], others: Mapping[str, str]) -> None:
    """Refuse the first option that is unknown, with a SettingsError that says what to use instead."""
    for name in given:
        if name not in known:
            raise SettingsError(f"{name} is unknown; {hint(name, known, others)}")


def no_attribute(owner: str, name: str, others: Mapping[str, str]) -> AttributeError:
    """The error for an attribute that does not exist."""
    message = f"{owner} has no attribute {name!r}"
    return AttributeError(f"{message}; use {others[name]}" if name in others else message)
