"""Tokenizers of passage encoders, and what can be wrong with them."""

from __future__ import annotations

from typing import cast

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from ..errors import ModelError
from ..modeling import DocumentConfig
from .messages import first_line
from .quiet import quiet_transformers


def load_tokenizer(source: str, config: DocumentConfig, owner: str) -> PreTrainedTokenizerBase:
    """Load a tokenizer and check that it fits the passage encoder.

    Raises:
        ModelError: its files are missing or broken, or belong to another model.
    """
    fix = "fetch its tokenizer files again"
    with quiet_transformers():
        try:
            tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
        except Exception as error:  # tokenizers raises plain Exceptions
            raise ModelError(f"{owner} has no usable tokenizer: {first_line(error)}; {fix}") from error
    # Without its vocabulary file transformers makes a tokenizer of special tokens alone, and says nothing.
    if len(tokenizer) <= len(tokenizer.all_special_ids):
        raise ModelError(f"the tokenizer of {owner} has no vocabulary; {fix}")
    if not tokenizer.is_fast:
        raise ModelError(f"the tokenizer of {owner} is a slow one, without offsets; save it with a tokenizer.json")
    if not isinstance(tokenizer.model_max_length, int | float):
        raise ModelError(f"the tokenizer of {owner} has no number as model_max_length; {fix}")
    known = int(config.encoder_config.vocab_size)  # type: ignore[union-attr]
    tokens = max(len(tokenizer), 1 + max(tokenizer.get_vocab().values()))
    if tokens > known:
        raise ModelError(
            f"the tokenizer of {owner} has {tokens:,} tokens, its passage encoder knows {known:,}; "
            "take both from the same model"
        )
    return cast(PreTrainedTokenizerBase, tokenizer)
