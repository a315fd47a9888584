"""Configurations that strangers may have written, checked before anything is built from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import ModelError
from ..modeling import DocumentConfig
from ..settings.document import setting_names
from .quiet import first_line, quiet_transformers, shortened

# Building a model takes time and memory in proportion to these, whatever its weights say later.
_MOST = {
    "num_hidden_layers": 10_000,
    "num_layers": 10_000,
    "n_layers": 10_000,
    "encoder_layers": 10_000,
    "num_labels": 1_000_000,
}
_AT_LEAST_ONE = ("hidden_size", "num_attention_heads", "intermediate_size", "vocab_size", "max_position_embeddings")


def checked_config(values: Mapping[str, Any], name: str) -> DocumentConfig:
    """Build a configuration of values.

    Args:
        values: its fields.
        name: what to call the model in messages.

    Raises:
        ModelError: values are impossible or do not fit together.
    """
    excess = _excessive_size(values)
    if excess:
        raise ModelError(f"configuration of {name} is not valid: {excess}; save or fetch it again")
    try:
        with quiet_transformers():
            config = DocumentConfig(**values)
    except (TypeError, ValueError, KeyError) as error:
        raise ModelError(f"configuration of {name} is not valid: {first_line(error)}") from error
    except Exception as error:  # huggingface_hub's strict dataclasses raise their own kind
        raise ModelError(f"configuration of {name} is not valid: {shortened(' '.join(str(error).split()))}") from error
    impossible = _impossible_size(config.encoder_config)
    if impossible:
        raise ModelError(f"configuration of {name} is not valid: {impossible}")
    limit = token_limit(config.encoder_config)
    if config.passage_tokens > limit:
        raise ModelError(f"passage_tokens={config.passage_tokens} exceeds the {limit} tokens that {name} can read")
    return config


def check_settings(settings: Mapping[str, Any], name: str) -> None:
    """Refuse settings that no model has.

    Raises:
        ModelError: one is unknown.
    """
    for key in settings:
        if key not in setting_names():
            raise ModelError(f"setting {key!r} is unknown for {name}; known are {', '.join(setting_names())}")


def token_limit(encoder_config: Any) -> int:
    """Most tokens an encoder reads at once, special tokens included."""
    positions = int(getattr(encoder_config, "max_position_embeddings", 512))
    # RoBERTa and its kin start counting positions after the padding token's.
    offset = (encoder_config.pad_token_id or 0) + 1 if "roberta" in encoder_config.model_type else 0
    return positions - offset


def _excessive_size(values: Mapping[str, Any]) -> str | None:
    """What is too large in a configuration as it stands in a file, the passage encoder's included."""
    nested = values.get("encoder_config")
    for part in (values, nested if isinstance(nested, Mapping) else {}):
        for name, most in _MOST.items():
            value = part.get(name)
            if isinstance(value, int | float) and value > most:
                return f"{name}={value:g} is more than the {most:,} there may be"
    return None


def _impossible_size(encoder_config: Any) -> str | None:
    """What cannot be in the configuration of a passage encoder; None if all is possible."""
    for name in _AT_LEAST_ONE:
        value = getattr(encoder_config, name, None)
        if isinstance(value, int) and value < 1:
            return f"{name}={value} must be at least 1"
    padding, known = getattr(encoder_config, "pad_token_id", None), getattr(encoder_config, "vocab_size", None)
    if isinstance(padding, int) and isinstance(known, int) and not 0 <= padding < known:
        return f"pad_token_id={padding} is none of the {known:,} tokens"
    return None
