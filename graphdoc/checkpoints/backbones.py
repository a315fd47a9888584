"""Pretrained passage encoders with their tokenizers and language-model heads, and untrained graphs on them."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_MASKED_LM_MAPPING,
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from ..errors import ModelError, SettingsError
from ..modeling import DocumentConfig, DocumentModel
from ..modeling.heads import LanguageModelHead, NewHead, PretrainedHead
from ..modeling.passage_encoder import pooler_options
from ..runtime.text import counted
from ..segmentation.segmenter import SegmentationConfig, Segmenter
from .contents import (
    CONFIG_FILE,
    TOKENIZER_FILE,
    check_settings,
    checked_config,
    first_line,
    quiet_transformers,
    read_json,
    token_limit,
)
from .embedding_models import is_embedding_model, read_modules
from .folders import backbone_folder, existing, not_found, reinstall_hint


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
                config.document_prompt,
            ),
        )
    except SettingsError as error:
        raise ModelError(f"{name}: {str(error).replace('max_tokens', 'passage_tokens')}") from error


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


# What a chunk holds where nothing else is asked for (CoLDE, section 3.1).
CHUNK_TOKENS = 512


def load_backbone(config: DocumentConfig) -> tuple[DocumentModel, PreTrainedTokenizerBase]:
    """Build a document model whose passage encoder has the pretrained weights of ``config.backbone``.

    Everything above the passage encoder is freshly initialised from torch's random generator. Where the backbone is a
    folder, the configuration keeps the folder's name and not where it lies.

    Raises:
        ModelError: the backbone cannot be found or its files are damaged.
    """
    assert config.backbone is not None
    backbone = config.backbone
    folder = backbone_folder(backbone)
    with quiet_transformers():
        try:
            options = pooler_options(cast(PreTrainedConfig, config.encoder_config))
            loaded = AutoModel.from_pretrained(
                folder,
                dtype=torch.float32,
                trust_remote_code=False,
                use_safetensors=True,
                output_loading_info=True,
                **options,
            )
        except (RuntimeError, SafetensorError) as error:
            raise ModelError(
                f"weights of backbone {backbone} cannot be loaded: {first_line(error)}{reinstall_hint(backbone)}"
            ) from error
        except Exception as error:  # from a foreign configuration transformers raises anything
            raise not_found(backbone, error) from error
        pretrained, report = cast(tuple[PreTrainedModel, dict[str, Any]], loaded)
        require_all_weights(report["missing_keys"], backbone)
        model = DocumentModel(config)
    model.passage_encoder.transformer.load_state_dict(pretrained.state_dict())
    if (own := existing(backbone)) is not None:
        model.config.backbone = own.resolve().name
    model.train(False)
    return model, load_tokenizer(folder, config, f"backbone {backbone}")


def require_all_weights(missing: Iterable[str], backbone: str) -> None:
    """Refuse a backbone in whose place transformers has drawn weights at random.

    Args:
        missing: names of weights that its files lack.
        backbone: its name or folder.

    Raises:
        ModelError: some are missing; not those of a pooler, which nothing reads.
    """
    lacked = sorted(name for name in map(str, missing) if "pooler" not in name.split("."))
    if lacked:
        more = ", ..." if len(lacked) > 3 else ""
        raise ModelError(
            f"the files of backbone {backbone} lack {counted(len(lacked), 'weight')} that its {CONFIG_FILE} asks for "
            f"({', '.join(lacked[:3])}{more}){reinstall_hint(backbone) or '; save or fetch them again'}"
        )


def backbone_config(backbone: str, **settings: Any) -> DocumentConfig:
    """Configuration of an untrained graph on a pretrained passage encoder.

    Raises:
        ModelError: the backbone cannot be found, or a setting is unknown or does not fit.
    """
    folder = backbone_folder(backbone, weights=False)
    if read_json(folder / CONFIG_FILE).get("model_type") == DocumentConfig.model_type:
        raise ModelError(f"{backbone} is a graphdoc checkpoint; load it with DocumentEncoder.from_pretrained")
    with quiet_transformers():
        try:
            encoder_config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
            encoder_config.name_or_path = ""
        except Exception as error:  # from a foreign configuration transformers raises anything
            raise not_found(backbone, error) from error
    kind = type(encoder_config)
    if encoder_config.is_encoder_decoder or (
        kind in MODEL_FOR_CAUSAL_LM_MAPPING and kind not in MODEL_FOR_MASKED_LM_MAPPING
    ):
        raise ModelError(f"{backbone} ({encoder_config.model_type}) is no encoder; take one such as roberta-base")
    check_settings(settings, backbone)
    if is_embedding_model(folder) and "pooling" not in settings:
        settings["pooling"] = read_modules(folder, backbone)[0]["pooling"]
    usual = CHUNK_TOKENS if settings.get("unit") == "chunk" else DocumentConfig.passage_tokens
    settings.setdefault("skip", "identity")
    settings.setdefault("passage_tokens", min(usual, token_limit(encoder_config)))
    values = {"encoder_config": encoder_config, "backbone": backbone, **settings}
    return checked_config(values, f"a model on {backbone}")
