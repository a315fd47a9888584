"""Loading checkpoints: one folder of configuration, weights or what was trained on a backbone, and tokenizer."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import Module
from transformers import PreTrainedTokenizerBase

from ..errors import ModelError
from ..modeling import DocumentConfig, DocumentModel
from ..modeling.document_model import weights_hash
from .backbones import embedding_config, is_embedding_model, load_backbone, load_embedding_model, load_tokenizer
from .contents import (
    CONFIG_FILE,
    TOKENIZER_FILE,
    UPDATES_FILE,
    VOCABULARY_FILE,
    WEIGHTS_FILE,
    check_settings,
    checked_config,
    quiet_libraries,
    summary,
)
from .folders import backbone_folder, checkpoint_folder, full_name, is_path, subtopic_folder

logger = logging.getLogger("graphdoc")

FORMAT = "graphdoc.vocabulary/1"
# Key of a file's metadata: hash of the weights of the backbone that the updates were trained on.
BACKBONE_HASH = "backbone_hash"
# A low-rank update of the weight ``NAME`` is stored as two matrices whose product B A is added to it.
DOWN, UP = ".lora_A", ".lora_B"
ENCODER = "passage_encoder."
# What a model learns by fitting, as weights and configuration name it; a model may be loaded without.
_FITTED = {"centre": "centre", "lexical": "lexical part"}
# Settings that need no other weights, and with which vectors are of another kind.
_READ_BY_HEAD = ("centre", "normalize_passages", "pooling", "readout")
_FLOATING = ("F64", "F32", "F16", "BF16")


def load_checkpoint(
    name: str | Path, *, revision: str | None = None, **settings: Any
) -> tuple[DocumentModel, PreTrainedTokenizerBase]:
    """Load a document model in eval mode and its tokenizer.

    Args:
        name: a folder written by ``save_pretrained``, ``mini`` (in the package), or a hub id.
        revision: branch, tag or commit on the hub.
        **settings: fields of the configuration to set otherwise, such as ``max_passages``.

    Raises:
        ModelError: there is no such checkpoint, or it is incomplete or of another kind.
    """
    name = full_name(str(name))
    folder = checkpoint_folder(name, revision)
    if is_embedding_model(folder):
        return load_embedding_model(name if revision is None else str(folder), **settings)
    values = _read_config(folder, name)
    config = _config(values, settings, name)
    is_whole, has_updates = ((folder / file).is_file() for file in (WEIGHTS_FILE, UPDATES_FILE))
    if is_whole and has_updates:
        raise ModelError(
            f"checkpoint {name} holds both {WEIGHTS_FILE} and {UPDATES_FILE}, of which one is left over from another "
            "save; remove that one"
        )
    if has_updates and config.backbone is not None:
        model, tokenizer = load_backbone(config)
        apply_updates(model, folder / UPDATES_FILE, name)
    elif is_whole:
        model = _load_weights(folder, config, name)
        tokenizer = load_tokenizer(folder, config, f"checkpoint {name}")
    else:
        raise ModelError(f"checkpoint {name} has no {WEIGHTS_FILE}; save it again or fetch the missing file")
    load_vocabulary(model, folder, name)
    changed = _changed(values, settings)
    _leave_out_foreign_head(model, changed, name)
    if changed and "similarity" not in changed and values.get("background"):
        logger.warning("how alike documents are to %s was measured with another %s, and is not used", name, changed[0])
    if config.matching is not None:
        model.subtopic_folder = subtopic_folder(name, folder, revision)
    return model, tokenizer


def load_without_weights(
    name: str | Path, *, revision: str | None = None, **settings: Any
) -> tuple[DocumentConfig, PreTrainedTokenizerBase]:
    """Configuration and tokenizer of a checkpoint; arguments as for :func:`load_checkpoint`."""
    name = full_name(str(name))
    folder, owner = checkpoint_folder(name, revision, weights=False), f"checkpoint {name}"
    if is_embedding_model(folder):
        config = embedding_config(name, **settings)
    else:
        config = _config(_read_config(folder, name), settings, name)
    if config.backbone is not None and not (folder / TOKENIZER_FILE).is_file():
        # Of a checkpoint of updates the backbone has it.
        folder, owner = backbone_folder(config.backbone, weights=False), f"backbone {config.backbone}"
    return config, load_tokenizer(folder, config, owner)


def _read_config(folder: Path, name: str) -> dict[str, Any]:
    """The configuration of a checkpoint as its file has it, without what belongs to a machine."""
    try:
        values: Any = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{CONFIG_FILE} of checkpoint {name} cannot be read: {summary(error)}") from error
    kind = values.get("model_type") if isinstance(values, dict) else None
    if kind != DocumentConfig.model_type or not isinstance(values.get("encoder_config"), dict):
        raise ModelError(
            f"{name} is a {str(kind or 'nameless')[:60]!r} model without encoder_config and modules.json, no graphdoc "
            f"checkpoint or embedding model; train one that starts from it: DocumentEncoder.from_backbone({name!r})"
        )
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
    return cast(dict[str, Any], values)


def _config(values: Mapping[str, Any], settings: Mapping[str, Any], name: str) -> DocumentConfig:
    check_settings(settings, name)
    # Other vectors have other scores.
    own = {"background": None} if _changed(values, settings) else {}
    return checked_config({**values, **own, **settings}, name)


def _changed(saved: Mapping[str, Any], settings: Mapping[str, Any]) -> list[str]:
    """Settings with which vectors of documents are others than a checkpoint was saved with."""
    same = ("max_passages", "query_prompt", "search_by", "background")
    before = {name: saved.get(name, getattr(DocumentConfig, name)) for name in settings if name not in same}
    return [name for name, value in before.items() if settings[name] != value]


def _load_weights(folder: Path, config: DocumentConfig, name: str) -> DocumentModel:
    owner = f"{WEIGHTS_FILE} of checkpoint {name}"
    with quiet_libraries():
        try:
            options: dict[str, Any] = dict.fromkeys(
                ("output_loading_info", "ignore_mismatched_sizes", "use_safetensors"), True
            )
            loaded = DocumentModel.from_pretrained(folder, config=config, dtype=torch.float32, **options)
            with safe_open(folder / WEIGHTS_FILE, framework="pt") as file:
                kinds = {key: str(file.get_slice(key).get_dtype()) for key in file.keys()}  # noqa: SIM118
        except MemoryError:
            raise
        except Exception as error:  # from a foreign configuration transformers raises anything
            raise ModelError(f"{owner} cannot be loaded: {summary(error)}; save or fetch it again") from error
    # Whole numbers, as of quantized weights, were cast without a word.
    if whole := [f"{key}: {kind}" for key, kind in kinds.items() if kind not in _FLOATING]:
        raise ModelError(f"{owner} holds weights that are no floating-point numbers ({whole[0]})")
    model, report = cast(tuple[DocumentModel, dict[str, Any]], loaded)
    missing = set(map(str, report["missing_keys"]))
    _require_fitted(missing, f"checkpoint {name}")
    mismatched = {key if isinstance(key, str) else str(key[0]) for key in report["mismatched_keys"]}
    _require_fit(missing | set(report["unexpected_keys"]) | mismatched, owner)
    for tensor in (*model.parameters(), *(one for key, one in model.named_buffers() if _is_fitted(key))):
        # The last bits of a product depend on how weights lie in memory, and a file packs them without gaps.
        tensor.data = tensor.data.clone()
    model.train(False)
    return model


def apply_updates(model: DocumentModel, path: Path, name: str) -> None:
    """Give a model, whose passage encoder has the backbone's weights, what was trained on it.

    The file has weights above the passage encoder, and low-rank updates and weights inside it.

    Raises:
        ModelError: the file is damaged, was trained on another backbone, or does not fit the configuration.
    """
    owner = f"{path.name} of checkpoint {name}"
    try:
        with safe_open(path, framework="pt") as file:
            trained_on = (file.metadata() or {}).get(BACKBONE_HASH)
            updates = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{owner} cannot be loaded: {summary(error)}; fetch it again") from error
    if trained_on != (here := _backbone_hash(model)):
        raise ModelError(
            f"{owner} was trained on weights of backbone {model.config.backbone} with hash {trained_on}, and those "
            f"here have {here}; take the revision that it was trained on"
        )
    expected = model.state_dict()
    weights = {key: tensor.float() for key, tensor in updates.items() if not key.endswith((DOWN, UP))}
    weights = {key: tensor for key, tensor in weights.items() if key in expected or not _is_fitted(key)}
    for key in [key.removesuffix(DOWN) for key in updates if key.endswith(DOWN)]:
        down, up = updates[key + DOWN], updates.get(key + UP)
        fits = key in expected and up is not None and up.shape[1:] == down.shape[:1]
        weights[key] = expected[key] + cast(Tensor, up).float() @ down.float() if fits else down
    missing = {key for key in expected if not key.startswith(ENCODER)} - weights.keys()
    _require_fitted(missing, name)
    untrained = {key.partition(".")[0] for key in missing} - {key.partition(".")[0] for key in weights}
    if untrained:
        raise ModelError(
            f"{name} has no weights for its {' and '.join(sorted(untrained))}; leave graph_layers, projection_size, "
            f"readout and labels as they are, or train from DocumentEncoder.from_backbone({model.config.backbone!r})"
        )
    foreign = {key for key, tensor in weights.items() if key not in expected or expected[key].shape != tensor.shape}
    _require_fit(missing | foreign, owner)
    model.load_state_dict(weights, strict=False)


def _is_fitted(key: str) -> bool:
    return key.partition(".")[0] in _FITTED


def _require_fitted(missing: Collection[str], name: str) -> None:
    """Refuse to load a checkpoint with parts that it was never fitted with."""
    if parts := sorted({key.partition(".")[0] for key in missing if _is_fitted(key)}):
        raise ModelError(
            f"{name} has no {_FITTED[parts[0]]}; fit one to documents of yours (graphdoc fit, or encoder.fit), or "
            f"leave {parts[0]} as it is"
        )


def _require_fit(wrong: Collection[str], owner: str) -> None:
    if wrong:
        raise ModelError(
            f"{owner} does not fit its configuration: {len(wrong)} weights are missing, foreign or of another shape "
            f"({', '.join(sorted(wrong)[:3])}); take all files from the same save, and leave settings that change "
            "shapes as they are"
        )


def _leave_out_foreign_head(model: DocumentModel, changed: Sequence[str], name: str) -> None:
    """Take a classification head away where settings make other vectors than those that it was learned on."""
    # Pairs are told apart by the head alone, and without it nothing would be left.
    if model.head is None or model.config.matching is not None:
        return
    if read := [key for key in _READ_BY_HEAD if key in changed]:
        logger.warning(
            "the classification head of %s was learned on vectors with another %s, and is left out", name, read[0]
        )
        model.remove_head(subtopics=False)


def vocabulary_hash(terms: Sequence[str]) -> str:
    """Hash of a vocabulary."""
    return hashlib.blake2b("\n".join(terms).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def save_vocabulary(model: DocumentModel, folder: Path) -> None:
    """Write the vocabulary of a model, where it has one."""
    if model.lexical is not None:
        content = {"format": FORMAT, "terms": list(model.lexical.vocabulary)}
        (folder / VOCABULARY_FILE).write_text(json.dumps(content, ensure_ascii=True), encoding="utf-8")


def load_vocabulary(model: DocumentModel, folder: Path, name: str) -> None:
    """Give a model the vocabulary of its checkpoint, where it needs one.

    Raises:
        ModelError: the file is missing or damaged, or belongs to another model.
    """
    if model.lexical is None:
        return
    try:
        terms = json.loads((folder / VOCABULARY_FILE).read_text(encoding="utf-8"))["terms"]
        is_own = vocabulary_hash(terms) == model.lexical.settings.vocabulary
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelError(f"{VOCABULARY_FILE} of checkpoint {name} cannot be read: {summary(error)}") from error
    if not is_own:
        raise ModelError(
            f"{VOCABULARY_FILE} of checkpoint {name} is not the vocabulary that its configuration names; take all "
            "files from the same save"
        )
    model.lexical.vocabulary = terms


def low_rank(key: str, down: Tensor, up: Tensor, scale: float) -> dict[str, Tensor]:
    """A low-rank update as it is stored: ``up @ down * scale`` is added to the weight ``key``."""
    return {key + DOWN: down.detach().clone(), key + UP: up.detach() * scale}


def save_updates(model: DocumentModel, updates: Mapping[str, Tensor], path: Path) -> None:
    """Write what was trained on top of a model's backbone, with the hash of the backbone's weights."""
    # One entry alone: several would be written in an order that changes from time to time.
    metadata = {BACKBONE_HASH: _backbone_hash(model)}
    save_file({key: tensor.contiguous() for key, tensor in updates.items()}, path, metadata)


def without_low_rank(model: Module) -> dict[str, Tensor]:
    """The weights of a model as they are below its low-rank updates, named as in a model without any."""
    state = model.state_dict().items()
    return {name.replace(".base_layer.", "."): tensor for name, tensor in state if ".lora_" not in name}


def _backbone_hash(model: DocumentModel) -> str:
    return weights_hash(without_low_rank(model.passage_encoder.transformer))
