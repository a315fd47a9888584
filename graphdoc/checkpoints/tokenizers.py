"""Tokenizers of passage encoders: what can be wrong with them, and the segmenter that each makes."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from ..errors import ModelError, SettingsError
from ..modeling import DocumentConfig
from ..segmentation.segmenter import SegmentationConfig, Segmenter
from .contents import TOKENIZER_FILE, read_json
from .quiet import first_line, quiet_transformers


def load_tokenizer(folder: Path, config: DocumentConfig, owner: str) -> PreTrainedTokenizerBase:
    """Load a tokenizer and check that it fits the passage encoder.

    Paths that its settings name, such as those of the machine it was made on, are never opened: the files of the same
    names in the folder are. A chat template has no use here and is left out.

    Raises:
        ModelError: its files are missing or broken, or belong to another model.
    """
    fix = "fetch its tokenizer files again"
    files = {
        key: str(file) if (file := folder / Path(value).name).is_file() else None
        for key, value in read_json(folder / TOKENIZER_FILE).items()
        if key.endswith("_file") and isinstance(value, str)
    }
    with quiet_transformers():
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, **files)
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
    tokenizer.chat_template = None
    return cast(PreTrainedTokenizerBase, tokenizer)


def segmenter_of(config: DocumentConfig, tokenizer: PreTrainedTokenizerBase, name: str) -> Segmenter:
    """The segmenter of a model.

    Args:
        config: its configuration.
        tokenizer: tokenizer of its passage encoder.
        name: what to call it in messages.

    Raises:
        ModelError: the sizes do not suit the tokenizer.
    """
    try:
        return Segmenter(
            tokenizer,  # type: ignore[arg-type]
            SegmentationConfig(
                config.passage_words,
                config.passage_tokens,
                config.max_passages,
                config.language,
                config.unit,
                # Titles in front of sentences are not what is trained on.
                "none" if config.unit == "sentence" else config.context,
            ),
        )
    except SettingsError as error:
        raise ModelError(f"{name}: {str(error).replace('max_tokens', 'passage_tokens')}") from error
