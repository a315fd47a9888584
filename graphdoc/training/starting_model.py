"""The model that a run starts from."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from ..checkpoints.backbones import backbone_config
from ..checkpoints.contents import CONFIG_FILE, read_json
from ..checkpoints.folders import SHIPPED, backbone_folder
from ..checkpoints.load import load_without_weights
from ..checkpoints.tokenizers import load_tokenizer, segmenter_of
from ..encoder import DocumentEncoder
from ..errors import ModelError, SettingsError
from ..modeling import DocumentConfig
from ..modeling.document_model import start_at_mean
from ..registry import READOUTS, load
from ..segmentation.segmenter import Segmenter
from ..settings.document import DocumentSettings, setting_names
from ..settings.model import SET_BY_THE_RUN, ModelSettings
from .checkpoint import PREFIX, not_finite
from .tuning import prepare_tuning


def settings_of_run(folder: Path) -> dict[str, Any]:
    """Settings of the model of a run that was begun, as its checkpoints have them; nothing where there are none.

    A version of the package may give new models other settings than the one that the run was begun with.

    Args:
        folder: the folder of the run.
    """
    for checkpoint in sorted(folder.glob(f"{PREFIX}*")):
        stored = read_json(checkpoint / CONFIG_FILE)
        with suppress(ValueError, SettingsError):
            found = DocumentSettings(**{name: stored[name] for name in setting_names() if name in stored})
            return {name: value for name, value in found if name not in SET_BY_THE_RUN} if stored else {}
    return {}


def load_start(
    settings: ModelSettings, device: torch.device, similarity: str, begun: Mapping[str, Any] | None = None
) -> DocumentEncoder:
    """Load the model that a run starts from.

    Args:
        settings: what is trained and where it starts.
        device: where it is trained.
        similarity: how its vectors are compared by the loss, and from then on.
        begun: settings of the model of a run that goes on (:func:`settings_of_run`); those given count more.

    Returns:
        The encoder around the model in training.

    Raises:
        ModelError: there is no such model, or its weights are no numbers.
        SettingsError: its layers cannot begin as they should, or its readout has weights that the result has no
            place for.
    """
    encoder = _load(settings, device, {"similarity": similarity, **(begun or {}), **settings.settings})
    if settings.result_readout is not None:
        trained, result = encoder.model.readout, load(READOUTS[settings.result_readout])(encoder.model.config)
        if any(True for readout in (trained, result) for _ in readout.parameters()):
            raise SettingsError(
                f"model.result_readout={settings.result_readout} leaves no place for the weights of the "
                f"{encoder.model.config.readout} readout that is trained, or has some that are not; leave it out, or "
                "take readouts without weights, such as mean"
            )
    if (wrong := not_finite(encoder.model.named_parameters())) is not None:
        raise ModelError(f"model.start={settings.start}: the weights {wrong} are no numbers; fetch or train it again")
    return encoder


def _load(settings: ModelSettings, device: torch.device, values: dict[str, Any]) -> DocumentEncoder:
    if is_checkpoint(settings.start):
        if settings.begin != "random":
            raise SettingsError(
                f"model.begin={settings.begin} is for layers that start untrained, and {settings.start} has trained "
                "ones; leave it out"
            )
        return DocumentEncoder.from_pretrained(settings.start, device=device, **values)
    encoder = DocumentEncoder.from_backbone(settings.start, device=device, **values)
    if settings.begin == "mean":
        start_at_mean(encoder.model)
    return encoder


def load_segmenter(settings: ModelSettings) -> tuple[Segmenter, DocumentConfig]:
    """The segmenter and the configuration of the model that a run starts from, without its weights.

    Args:
        settings: what is trained and where it starts.

    Raises:
        ModelError: there is no such model.
    """
    if is_checkpoint(settings.start):
        config, tokenizer = load_without_weights(settings.start, **settings.settings)
    else:
        config = backbone_config(settings.start, **settings.settings)
        tokenizer = load_tokenizer(
            backbone_folder(settings.start, weights=False), config, f"backbone {settings.start}"
        )
    return segmenter_of(config, tokenizer, settings.start), config


def begin_training(encoder: DocumentEncoder, settings: ModelSettings, *, subtopics: bool = False) -> None:
    """Mark the weights that are trained, after a head was added where there is to be one.

    Args:
        encoder: the encoder around the model.
        settings: what is trained.
        subtopics: whether the loss looks at the head for subtopics.

    Raises:
        ModelError: nothing of the model would be trained.
        SettingsError: gradient checkpointing of a transformer that has none.
        MissingExtraError: low-rank updates without the library for them.
    """
    prepare_tuning(encoder.model, settings.tune, settings.lora, subtopics=subtopics)
    transformer: Any = encoder.model.passage_encoder.transformer
    if settings.gradient_checkpointing:
        if not transformer.supports_gradient_checkpointing:
            raise SettingsError(
                f"model.gradient_checkpointing=true: {type(transformer).__name__} of {settings.start} has no gradient "
                "checkpointing; leave it out, and lower training.token_budget if memory is short"
            )
        transformer.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})
    if settings.compile:
        transformer.compile(dynamic=True)
    encoder.model.config.trained = True


def is_checkpoint(name: str) -> bool:
    """Whether a name means a checkpoint of this package rather than a pretrained encoder."""
    folder = SHIPPED / name if (SHIPPED / name / CONFIG_FILE).is_file() else Path(name)
    return bool(read_json(folder / CONFIG_FILE).get("model_type") == DocumentConfig.model_type)
