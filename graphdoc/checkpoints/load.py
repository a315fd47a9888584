"""Loading checkpoints: one folder of configuration, weights, tokenizer and model card."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any, cast

import torch
from transformers import PreTrainedTokenizerBase

from ..errors import ModelError
from ..modeling import DocumentConfig, DocumentModel
from .backbones import load_backbone
from .configuration import check_settings, checked_config
from .contents import CONFIG_FILE, TOKENIZER_FILE, UPDATES_FILE, WEIGHTS_FILE, not_floating
from .fitted import fitted_buffers, load_vocabulary, require_fitted
from .folders import backbone_folder, checkpoint_folder, is_path, no_checkpoint, subtopic_folder
from .quiet import first_line, quiet_transformers
from .tokenizers import load_tokenizer
from .updates import apply_updates

logger = logging.getLogger("graphdoc")

# Settings that need no other weights, and with which vectors are of another kind.
READ_BY_HEAD = {"pooling", "normalize_passages", "centre", "readout"}


def load_checkpoint(
    name: str | Path, *, revision: str | None = None, **settings: Any
) -> tuple[DocumentModel, PreTrainedTokenizerBase]:
    """Load a document model and its tokenizer.

    Args:
        name: a folder written by ``save_pretrained``, ``mini`` (in the package), or a hub id.
        revision: branch, tag or commit on the hub.
        **settings: fields of the configuration to set otherwise, such as ``max_passages``.

    Returns:
        The model in eval mode, and the tokenizer.

    Raises:
        ModelError: there is no such checkpoint, or it is incomplete or of another kind.
    """
    folder = checkpoint_folder(str(name), revision)
    config = _read_config(folder, str(name), settings)
    is_whole, has_updates = ((folder / file).is_file() for file in (WEIGHTS_FILE, UPDATES_FILE))
    if is_whole and has_updates:
        raise ModelError(
            f"checkpoint {name} holds both {WEIGHTS_FILE} and {UPDATES_FILE}, of which one is left over from another "
            "save; remove that one"
        )
    if has_updates and config.backbone is not None:
        model, tokenizer = load_backbone(config)
        apply_updates(model, folder / UPDATES_FILE, str(name))
    elif is_whole:
        model, tokenizer = (
            _load_weights(folder, config, str(name)),
            load_tokenizer(folder, config, f"checkpoint {name}"),
        )
    else:
        raise ModelError(f"checkpoint {name} has no {WEIGHTS_FILE}; save it again or fetch the missing file")
    load_vocabulary(model, folder, str(name))
    _leave_out_foreign_head(model, folder, str(name), settings)
    if config.matching is not None:
        model.subtopic_folder = subtopic_folder(str(name), folder, revision)
    return model, tokenizer


def load_without_weights(
    name: str | Path, *, revision: str | None = None, **settings: Any
) -> tuple[DocumentConfig, PreTrainedTokenizerBase]:
    """Configuration and tokenizer of a checkpoint; arguments as for :func:`load_checkpoint`.

    Raises:
        ModelError: there is no such checkpoint, or it is of another kind.
    """
    folder, owner = checkpoint_folder(str(name), revision, weights=False), f"checkpoint {name}"
    config = _read_config(folder, str(name), settings)
    if config.backbone is not None and not (folder / TOKENIZER_FILE).is_file():
        # Of a checkpoint of updates the backbone has it.
        folder, owner = backbone_folder(config.backbone, weights=False), f"backbone {config.backbone}"
    return config, load_tokenizer(folder, config, owner)


def _load_weights(folder: Path, config: DocumentConfig, name: str) -> DocumentModel:
    with quiet_transformers():
        try:
            loaded = DocumentModel.from_pretrained(
                folder,
                config=config,
                dtype=torch.float32,
                output_loading_info=True,
                ignore_mismatched_sizes=True,
                use_safetensors=True,
            )
            foreign = not_floating(folder / WEIGHTS_FILE)
        except MemoryError:
            raise
        except Exception as error:  # from a foreign configuration transformers raises anything
            raise ModelError(
                f"{WEIGHTS_FILE} of checkpoint {name} cannot be loaded: {first_line(error)}; save or fetch it again"
            ) from error
    model, report = cast(tuple[DocumentModel, dict[str, Any]], loaded)
    if foreign:
        raise ModelError(
            f"{WEIGHTS_FILE} of checkpoint {name} holds weights that are no floating-point numbers ({foreign}); "
            "save or fetch it again"
        )
    require_fitted(report["missing_keys"], f"checkpoint {name}")
    mismatched = (key if isinstance(key, str) else key[0] for key in report["mismatched_keys"])
    wrong = sorted(str(key) for key in {*report["missing_keys"], *report["unexpected_keys"], *mismatched})
    if wrong:
        more = ", ..." if len(wrong) > 3 else ""
        raise ModelError(
            f"{WEIGHTS_FILE} of checkpoint {name} does not fit its configuration: {len(wrong)} weights are missing, "
            f"foreign or of another shape ({', '.join(wrong[:3])}{more}); take {CONFIG_FILE} and {WEIGHTS_FILE} from "
            "the same run, and leave settings that change shapes as they are"
        )
    for parameter in (*model.parameters(), *fitted_buffers(model)):
        # The last bits of a product depend on how weights lie in memory, and a file packs them without gaps.
        parameter.data = parameter.data.clone()
    model.train(False)
    return model


def _read_config(folder: Path, name: str, settings: dict[str, Any]) -> DocumentConfig:
    try:
        values = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(
            f"{CONFIG_FILE} of checkpoint {name} cannot be read: {first_line(error)}; save or fetch it again"
        ) from error
    kind = values.get("model_type") if isinstance(values, dict) else None
    if kind != DocumentConfig.model_type:
        raise no_checkpoint(name, str(kind or "nameless"))
    if not isinstance(values.get("encoder_config"), dict):
        raise ModelError(f"{CONFIG_FILE} of checkpoint {name} has no encoder_config; save the model again")
    backbone = values.get("backbone")
    if isinstance(backbone, str) and is_path(backbone):
        raise ModelError(
            f"{CONFIG_FILE} of checkpoint {name} names a path as its backbone, {backbone[:200]!r}; write the name of "
            "that folder alone, and run where the folder lies"
        )
    # The weights of a checkpoint have one name, whatever a configuration says.
    values.pop("transformers_weights", None)
    # How attention is computed belongs to the machine, and is checked where it is asked for.
    for part in (values, values["encoder_config"]):
        for key in ("attn_implementation", "_attn_implementation", "_attn_implementation_internal"):
            part.pop(key, None)
    check_settings(settings, name)
    return checked_config({**values, **settings}, name)


def _leave_out_foreign_head(model: DocumentModel, folder: Path, name: str, settings: dict[str, Any]) -> None:
    """Take a classification head away where settings make other vectors than those that it was learned on."""
    config = model.config
    # Pairs are told apart by the head alone, and without it nothing would be left.
    if model.head is None or config.matching is not None or not READ_BY_HEAD & settings.keys():
        return
    saved = _read_config(folder, name, {})
    for key in sorted(READ_BY_HEAD & settings.keys()):
        if (kept := getattr(saved, key)) != (given := getattr(config, key)):
            logger.warning(
                "the classification head of %s was learned on vectors with %s=%s; with %s it would give wrong "
                "classes, and is left out",
                name,
                key,
                json.dumps(kept),
                json.dumps(given),
            )
            model.remove_head(subtopics=False)
            return
