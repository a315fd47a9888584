"""What users of sentence-transformers, PyLate and transformers look for, and what it is called here."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_CUT = "passage_tokens and max_passages of the model"
_PRECISION = "accelerate launch --mixed_precision"
_RANK = "similarity, or search of a DocumentIndex"

OTHER_NAMES = {
    # Arguments of encode.
    "normalize": "normalize_embeddings", "convert_to_numpy": "convert_to_tensor", "output_value": "level",
    "precision": "dtype", "pool": "workers",
    "batch_size": "token_budget, tokens of a mini-batch", "prompt": "query_prompt and document_prompt of the model",
    "prompt_name": "encode_query or encode_document", "is_query": "encode_query or encode_document",
    # Arguments of from_pretrained.
    "torch_dtype": "dtype", "similarity_fn_name": "similarity", "prompts": "query_prompt and document_prompt",
    "document_length": _CUT, "query_length": _CUT, "truncate_dim": "vectors[:, :dimensions]",
    "token": "the environment variable HF_TOKEN", "cache_folder": "the environment variable HF_HOME",
    "local_files_only": "the environment variable HF_HUB_OFFLINE", "trust_remote_code": "a model without code",
    # Attributes.
    "max_seq_length": _CUT, "get_max_seq_length": _CUT, "tokenize": "segment", "rank": _RANK, "rerank": _RANK,
    "save": "save_pretrained", "save_to_hub": "push_to_hub", "encode_multi_process": "encode_to_disk",
    "start_multi_process_pool": "encode_to_disk", "to": "device of from_pretrained",
    # Arguments of trainers.
    "args": "keyword arguments such as epochs=3", "train_dataset": "task", "data": "task", "train_objectives": "task",
    "eval_dataset": "evaluator", "compute_metrics": "evaluator", "output_dir": "output",
    "num_train_epochs": "epochs", "per_device_train_batch_size": "batch_size", "mini_batch_size": "token_budget",
    "warmup_ratio": "warmup_steps", "metric_for_best_model": "best, a setting of validation",
    "load_best_model_at_end": "no name: the best model is kept", "fp16": _PRECISION, "bf16": _PRECISION,
    "gradient_accumulation_steps": "token_budget, tokens of a mini-batch of which batches are made",
    # What packages export.
    "SentenceTransformer": "DocumentEncoder", "SentenceTransformerTrainer": "Trainer",
    "util": _RANK, "retrieve": "DocumentIndex", "indexes": "DocumentIndex",
}  # fmt: skip


def hint(name: str, known: Iterable[str]) -> str:
    """What to use instead of a name that is unknown."""
    if name in OTHER_NAMES:
        return f"use {OTHER_NAMES[name]}"
    nearest = difflib.get_close_matches(name, names := list(known), n=1)
    return f"did you mean {nearest[0]}?" if nearest else f"there are {', '.join(names)}"
