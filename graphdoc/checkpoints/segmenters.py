"""The segmenter that a model's configuration and tokenizer make."""

from __future__ import annotations

from transformers import PreTrainedTokenizerBase

from ..errors import ModelError, SettingsError
from ..modeling import DocumentConfig
from ..segmentation.segmenter import SegmentationConfig, Segmenter


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
                config.passage_words, config.passage_tokens, config.max_passages, config.language, config.unit
            ),
        )
    except SettingsError as error:
        raise ModelError(f"{name}: {str(error).replace('max_tokens', 'passage_tokens')}") from error
