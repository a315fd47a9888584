"""Pretrained passage encoders, and untrained graphs on them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import torch
from safetensors import SafetensorError
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_MASKED_LM_MAPPING,
    AutoConfig,
    AutoModel,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from ..errors import ModelError
from ..modeling import DocumentConfig, DocumentModel
from ..modeling.passage_encoder import pooler_options
from ..runtime.text import counted
from .configuration import check_settings, checked_config, token_limit
from .contents import CONFIG_FILE, read_json
from .folders import backbone_folder, existing, not_found, reinstall_hint
from .quiet import first_line, quiet_transformers
from .tokenizers import load_tokenizer

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
    usual = CHUNK_TOKENS if settings.get("unit") == "chunk" else DocumentConfig.passage_tokens
    settings.setdefault("skip", "identity")
    settings.setdefault("passage_tokens", min(usual, token_limit(encoder_config)))
    values = {"encoder_config": encoder_config, "backbone": backbone, **settings}
    return checked_config(values, f"a model on {backbone}")
