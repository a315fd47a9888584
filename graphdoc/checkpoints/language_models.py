"""Language-model heads of pretrained encoders."""

from __future__ import annotations

import logging

import torch
from transformers import MODEL_FOR_MASKED_LM_MAPPING, AutoModelForMaskedLM, PreTrainedModel

from ..errors import ModelError
from ..modeling.heads import LanguageModelHead, NewHead, PretrainedHead
from .folders import backbone_folder
from .quiet import first_line, quiet_transformers

logger = logging.getLogger(__name__)


def load_language_model_head(transformer: PreTrainedModel, backbone: str | None) -> LanguageModelHead:
    """The head of the language model that a passage encoder comes from, or a new one where that is not to be had.

    A new one shares the input embeddings, is drawn from torch's random generator and comes with a warning.

    Args:
        transformer: the passage encoder's transformer.
        backbone: name or folder of the pretrained encoder that it comes from; None where nothing is known of it.

    Returns:
        The head, on the device of the transformer.
    """
    try:
        head: LanguageModelHead = _pretrained(transformer, backbone)
    except (ModelError, ValueError) as error:
        logger.warning(
            "%s comes without a language-model head (%s); a new one is trained, tied to the input embeddings",
            backbone or "the model",
            error,
        )
        head = NewHead(transformer)
    return head.to(transformer.device)


def _pretrained(transformer: PreTrainedModel, backbone: str | None) -> PretrainedHead:
    """The head that comes with the weights of a backbone.

    Raises:
        ModelError: the backbone is not to be had.
        ValueError: it has no such head, or another passage encoder.
    """
    if backbone is None:
        raise ValueError("it does not say what it was made from")
    if type(transformer.config) not in MODEL_FOR_MASKED_LM_MAPPING:
        raise ValueError(f"{transformer.config.model_type} has none in transformers")
    folder = backbone_folder(backbone)
    with quiet_transformers():
        try:
            language_model, report = AutoModelForMaskedLM.from_pretrained(
                folder,
                dtype=torch.float32,
                trust_remote_code=False,
                use_safetensors=True,
                output_loading_info=True,
                ignore_mismatched_sizes=True,
            )
        except Exception as error:  # from a foreign configuration transformers raises anything
            raise ValueError(first_line(error)) from error
    own = f"{language_model.base_model_prefix}."
    if type(language_model.config) is not type(transformer.config):
        raise ValueError(f"it is {language_model.config.model_type}, not {transformer.config.model_type}")
    if any(not str(key).startswith(own) for key in report["missing_keys"]):
        raise ValueError("its weights are those of the encoder alone")
    head = PretrainedHead(language_model, transformer).eval()
    try:
        with torch.no_grad():
            head.to(transformer.device)(torch.zeros(1, transformer.config.hidden_size, device=transformer.device))
    except Exception as error:  # what a head of another form raises
        raise ValueError(f"it cannot be taken by itself: {first_line(error)}") from error
    return head
