"""Sizes that no encoder has, found before anything is built from a configuration that strangers may have written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Building a model takes time and memory in proportion to these, whatever its weights say later.
_MOST = {
    "num_hidden_layers": 10_000,
    "num_layers": 10_000,
    "n_layers": 10_000,
    "encoder_layers": 10_000,
    "num_labels": 1_000_000,
}
_AT_LEAST_ONE = ("hidden_size", "num_attention_heads", "intermediate_size", "vocab_size", "max_position_embeddings")


def excessive_size(values: Mapping[str, Any]) -> str | None:
    """What is too large in a configuration as it stands in a file; None if nothing is.

    Args:
        values: the configuration; the one of the passage encoder may be in it.
    """
    nested = values.get("encoder_config")
    for part in (values, nested if isinstance(nested, Mapping) else {}):
        for name, most in _MOST.items():
            value = part.get(name)
            if isinstance(value, int | float) and value > most:
                return f"{name}={value:g} is more than the {most:,} there may be"
    return None


def impossible_size(encoder_config: Any) -> str | None:
    """What cannot be in the configuration of a passage encoder; None if all is possible.

    Args:
        encoder_config: the configuration.
    """
    for name in _AT_LEAST_ONE:
        value = getattr(encoder_config, name, None)
        if isinstance(value, int) and value < 1:
            return f"{name}={value} must be at least 1"
    padding, known = getattr(encoder_config, "pad_token_id", None), getattr(encoder_config, "vocab_size", None)
    if isinstance(padding, int) and isinstance(known, int) and not 0 <= padding < known:
        return f"pad_token_id={padding} is none of the {known:,} tokens"
    return None
