"""Loading checkpoints: one folder of configuration, weights or what was trained on a backbone, and tokenizer."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import Module
from transformers import PreTrainedTokenizerBase

from ..errors import ModelError
from ..modeling import DocumentConfig, DocumentModel
from ..modeling.document_model import weights_hash
from .backbones import backbone_config, load_backbone, load_tokenizer
from .contents import (
    CONFIG_FILE,
    TOKENIZER_FILE,
    UPDATES_FILE,
    WEIGHTS_FILE,
    check_settings,
    checked_config,
    first_line,
    not_floating,
    quiet_transformers,
)
from .embedding_models import is_embedding_model, read_modules
from .folders import backbone_folder, checkpoint_folder, is_path, no_checkpoint, subtopic_folder

VOCABULARY_FILE = "lexical.json"
FORMAT = "graphdoc.vocabulary/1"
_PARTS = {"centre": "centre", "lexical": "lexical part"}


def is_fitted(key: str) -> bool:
    """Whether a weight is learned by fitting."""
    return key.partition(".")[0] in _PARTS


def require_fitted(missing: Iterable[str], name: str) -> None:
    """Refuse to load a checkpoint with parts that it was never fitted with.

    Args:
        missing: weights that the checkpoint does not have.
        name: what to call it.

    Raises:
        ModelError: a part is missing.
    """
    parts = sorted({key.partition(".")[0] for key in missing if is_fitted(key)})
    if parts:
        raise ModelError(
            f"{name} has no {_PARTS[parts[0]]}; fit one to documents of yours (graphdoc fit, or encoder.fit), or "
            f"leave {parts[0]} as it is"
        )


def fitted_buffers(model: DocumentModel) -> Iterator[Tensor]:
    """The tensors that a model was fitted with."""
    return (tensor for name, tensor in model.named_buffers() if is_fitted(name))


def vocabulary_hash(terms: Sequence[str]) -> str:
    """Hash of a vocabulary."""
    return hashlib.blake2b("\n".join(terms).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def save_vocabulary(model: DocumentModel, folder: Path) -> None:
    """Write the vocabulary of a model, where it has one."""
    if model.lexical is not None and not model.lexical.settings.hashed:
        content = {"format": FORMAT, "terms": list(model.lexical.vocabulary)}
        (folder / VOCABULARY_FILE).write_text(json.dumps(content, ensure_ascii=True), encoding="utf-8")


def load_vocabulary(model: DocumentModel, folder: Path, name: str) -> None:
    """Give a model the vocabulary of its checkpoint, where it needs one.

    Raises:
        ModelError: the file is missing or damaged, or belongs to another model.
    """
    if model.lexical is None or model.lexical.settings.hashed:
        return
    path = folder / VOCABULARY_FILE
    try:
        values: Any = json.loads(path.read_text(encoding="utf-8"))
        terms = values["terms"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelError(
            f"{VOCABULARY_FILE} of checkpoint {name} cannot be read: {first_line(error)}; save or fetch it again"
        ) from error
    is_list = isinstance(terms, list) and all(isinstance(term, str) for term in terms)
    if not is_list or vocabulary_hash(terms) != model.lexical.settings.vocabulary:
        raise ModelError(
            f"{VOCABULARY_FILE} of checkpoint {name} is not the vocabulary that its configuration names; take all "
            "files from the same save"
        )
    model.lexical.vocabulary = terms


# Key of a file's metadata: hash of the weights of the backbone that the updates were trained on.
BACKBONE_HASH = "backbone_hash"
# A low-rank update of the weight ``NAME`` is stored as two matrices whose product B A is added to it.
DOWN, UP = ".lora_A", ".lora_B"
ENCODER = "passage_encoder."


def apply_updates(model: DocumentModel, path: Path, name: str) -> None:
    """Give a model on its pretrained backbone what was trained.

    Args:
        model: the model, whose passage encoder has the backbone's weights.
        path: file of weights above the passage encoder, and of low-rank updates and weights inside it.
        name: what to call the checkpoint in messages.

    Raises:
        ModelError: the file is damaged, was trained on another backbone, or does not fit the configuration.
    """
    try:
        with safe_open(path, framework="pt") as file:
            trained_on = (file.metadata() or {}).get(BACKBONE_HASH)
            updates = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{path.name} of checkpoint {name} cannot be loaded: {error}; fetch it again") from error
    if trained_on != (found := _backbone_hash(model)):
        raise ModelError(
            f"{path.name} of checkpoint {name} was trained on weights of backbone {model.config.backbone} with hash "
            f"{trained_on}, and those found here have {found}; take the revision that it was trained on"
        )
    weights = {key: tensor.to(torch.float32) for key, tensor in updates.items() if not key.endswith((DOWN, UP))}
    own = model.state_dict()
    # A model may be loaded without what it was fitted to.
    weights = {key: tensor for key, tensor in weights.items() if key in own or not is_fitted(key)}
    for key in [key.removesuffix(DOWN) for key in updates if key.endswith(DOWN)]:
        up = updates.get(key + UP)
        if key in own and up is not None and up.shape[1:] == updates[key + DOWN].shape[:1]:
            weights[key] = own[key] + up.float() @ updates[key + DOWN].float()
        else:
            weights[key] = updates[key + DOWN]
    missing = {key for key in own if not key.startswith(ENCODER)} - weights.keys()
    stored = {key.partition(".")[0] for key in weights}
    require_fitted(missing, name)
    untrained = sorted({key.partition(".")[0] for key in missing} - stored)
    if untrained:
        raise ModelError(
            f"{name} has no weights for its {' and '.join(untrained)}; leave graph_layers, projection_size, readout "
            f"and labels as they are, or train from DocumentEncoder.from_backbone({model.config.backbone!r}, ...)"
        )
    wrong = missing | {key for key, tensor in weights.items() if key not in own or own[key].shape != tensor.shape}
    if wrong:
        raise ModelError(
            f"{path.name} of checkpoint {name} does not fit its configuration: {len(wrong)} weights are missing, "
            f"foreign or of another shape ({', '.join(sorted(wrong)[:3])}); take both files from the same run, and "
            "leave settings that change shapes as they are"
        )
    model.load_state_dict(weights, strict=False)


def low_rank(key: str, down: Tensor, up: Tensor, scale: float) -> dict[str, Tensor]:
    """A low-rank update as it is stored: ``up @ down * scale`` is added to the weight ``key``."""
    return {key + DOWN: down.detach().clone(), key + UP: up.detach() * scale}


def save_updates(model: DocumentModel, updates: Mapping[str, Tensor], path: Path) -> None:
    """Write what was trained on top of a model's backbone, with the hash of the backbone's weights.

    Args:
        model: the model in training.
        updates: what was trained, by name.
        path: the file.

    Raises:
        OSError: the file cannot be written.
        SafetensorError: the same.
    """
    # One entry alone: several would be written in an order that changes from time to time.
    metadata = {BACKBONE_HASH: _backbone_hash(model)}
    save_file({key: tensor.contiguous() for key, tensor in updates.items()}, path, metadata)


def without_low_rank(model: Module) -> dict[str, Tensor]:
    """The weights of a model as they are below its low-rank updates, named as in a model without any."""
    return {
        name.replace(".base_layer.", "."): tensor
        for name, tensor in model.state_dict().items()
        if ".lora_" not in name
    }


def _backbone_hash(model: DocumentModel) -> str:
    return weights_hash(without_low_rank(model.passage_encoder.transformer))


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
    if is_embedding_model(folder):
        return load_embedding_model(str(name) if revision is None else str(folder), **settings)
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
    if is_embedding_model(folder):
        config = embedding_config(str(name), **settings)
    else:
        config = _read_config(folder, str(name), settings)
    if config.backbone is not None and not (folder / TOKENIZER_FILE).is_file():
        # Of a checkpoint of updates the backbone has it.
        folder, owner = backbone_folder(config.backbone, weights=False), f"backbone {config.backbone}"
    return config, load_tokenizer(folder, config, owner)


def embedding_config(name: str, **settings: Any) -> DocumentConfig:
    """The configuration of a document encoder whose passage vectors are those of an embedding model.

    A document vector is the mean of its passages' vectors: there is no graph.

    Args:
        name: folder or hub id of the model.
        **settings: fields of the configuration to set otherwise.

    Raises:
        ModelError: the model has a module that graphdoc cannot read; the message names it.
    """
    values, _ = read_modules(backbone_folder(name, weights=False), name)
    usual = {"graph_layers": 0, "readout": "mean", "projection_size": None, "trained": True}
    if "passage_tokens" in values:
        whole = backbone_config(name).passage_tokens
        values["passage_tokens"] = min(values["passage_tokens"], whole)
    return backbone_config(name, **{**usual, **values, **settings})


def load_embedding_model(name: str, **settings: Any) -> tuple[DocumentModel, PreTrainedTokenizerBase]:
    """Load an embedding model as a document encoder.

    Args:
        name: folder or hub id of the model.
        **settings: fields of the configuration to set otherwise.

    Returns:
        The model in eval mode, and the tokenizer.

    Raises:
        ModelError: a module cannot be read, or weights are missing or damaged.
    """
    config = embedding_config(name, **settings)
    model, tokenizer = load_backbone(config)
    _, dense = read_modules(backbone_folder(name), name)
    if model.projection is not None:
        if dense is None:
            raise ModelError(
                f"{name} has no weights for its projection; leave projection_size as it is, or train from "
                f"DocumentEncoder.from_backbone({name!r}, ...)"
            )
        try:
            weights = load_file(dense / "model.safetensors")
            model.projection.load_state_dict({key: weights[f"linear.{key}"].float() for key in ("weight", "bias")})
        except (OSError, SafetensorError, KeyError, RuntimeError) as error:
            raise ModelError(
                f"{dense.name} of {name} cannot be loaded: {first_line(error)}; fetch it again"
            ) from error
    return model, tokenizer


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
    if settings.keys() - {"max_passages"}:
        # Other vectors have other scores.
        values.pop("background", None)
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
