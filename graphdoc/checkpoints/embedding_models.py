"""What the modules of an embedding model of sentence-transformers stand for; none of its code is run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download

from ..errors import ModelError
from ..modeling import DocumentConfig
from .contents import CONFIG_FILE, check_contents, first_line, quiet_hub, read_json
from .folders import existing, not_found

MODULES_FILE, PROMPTS_FILE = "modules.json", "config_sentence_transformers.json"
# Pooling as sentence-transformers names it, from version 6 on and before.
_POOLINGS = {"cls": "cls", "cls_token": "cls", "mean": "mean", "mean_tokens": "mean", "lasttoken": "last"}
_AFTER_POOLING: tuple[list[str], ...] = ([], ["Normalize"], ["Dense"], ["Dense", "Normalize"])
_DOCUMENT_PROMPTS = ("document", "passage", "corpus")


def is_embedding_model(folder: Path) -> bool:
    """Whether a folder holds a model of sentence-transformers, and no checkpoint of graphdoc that both can read."""
    is_own = read_json(folder / CONFIG_FILE).get("model_type") == DocumentConfig.model_type
    return (folder / MODULES_FILE).is_file() and not is_own


def read_modules(folder: Path, name: str) -> tuple[dict[str, Any], Path | None]:
    """The settings of a passage encoder that the modules of a model stand for, and the folder of its dense layer.

    Args:
        folder: folder of the model.
        name: what to call it, and where it is on the hub.

    Raises:
        ModelError: there is a module that graphdoc cannot read; the message names it.
    """
    try:
        modules = json.loads((folder / MODULES_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{MODULES_FILE} of {name} cannot be read: {first_line(error)}; fetch it again") from error
    rows = [one for one in modules if isinstance(one, dict)] if isinstance(modules, list) else []
    parts = [(str(one.get("type", "")).rpartition(".")[2], str(one.get("path", ""))) for one in rows]
    kinds = [kind for kind, _ in parts]
    if kinds[:2] != ["Transformer", "Pooling"] or kinds[2:] not in _AFTER_POOLING or parts[0][1]:
        raise ModelError(
            f"{name} consists of the modules {', '.join(kinds) or 'none'}; graphdoc reads Transformer, Pooling, then "
            "Dense and Normalize where there are any"
        )
    values: dict[str, Any] = {"normalize_passages": kinds[-1] == "Normalize"}
    places = {kind: _module_folder(folder, path, name) for kind, path in parts if kind in ("Pooling", "Dense")}
    pooling = read_json(places["Pooling"] / "config.json")
    older = [key.removeprefix("pooling_mode_") for key in pooling if key.startswith("pooling_mode_") and pooling[key]]
    mode = str(pooling.get("pooling_mode") or " and ".join(older))
    if mode not in _POOLINGS:
        raise ModelError(f"{name} pools by {mode}; graphdoc reads models that pool by cls, mean or lasttoken")
    values["pooling"] = _POOLINGS[mode]
    limit = read_json(folder / "sentence_bert_config.json").get("max_seq_length")
    if isinstance(limit, int):
        values["passage_tokens"] = limit
    if "Dense" in places:
        dense = read_json(places["Dense"] / "config.json")
        activation = str(dense.get("activation_function", "")).rpartition(".")[2]
        if activation != "Tanh" or not dense.get("bias", True):
            raise ModelError(f"the dense layer of {name} is not tanh with a bias, which is what graphdoc reads")
        if not isinstance(dense.get("out_features"), int):
            raise ModelError(f"config.json of the dense layer of {name} names no out_features; fetch it again")
        values["projection_size"] = dense["out_features"]
    described = read_json(folder / PROMPTS_FILE)
    prompts, usual = described.get("prompts") or {}, described.get("default_prompt_name")
    are_texts = isinstance(prompts, dict) and all(isinstance(one, str) for one in prompts.values())
    if ((folder / PROMPTS_FILE).is_file() and not described) or not are_texts or not isinstance(usual, str | None):
        raise ModelError(f"{PROMPTS_FILE} of {name} cannot be read; fetch it again")
    usual = prompts.get(usual)
    values["document_prompt"] = next((prompts[key] for key in _DOCUMENT_PROMPTS if prompts.get(key)), usual) or ""
    values["query_prompt"] = prompts.get("query") or usual or ""
    if (values["document_prompt"] or values["query_prompt"]) and not pooling.get("include_prompt", True):
        raise ModelError(f"{name} leaves its prompt out of the pooling, which graphdoc cannot do")
    return values, places.get("Dense")


def _module_folder(folder: Path, path: str, name: str) -> Path:
    """The folder of a module, fetched where the model lies on the hub."""
    if Path(path).name != path or path in (".", "..") or len(path) > 100 or (folder / path).is_symlink():
        raise ModelError(f"{MODULES_FILE} of {name} names {path[:200]!r}, which is no folder in it; fetch it again")
    place = folder / path
    if not place.is_dir() and existing(name) is None:
        try:
            with quiet_hub():
                patterns = [f"{path}/config.json", f"{path}/model.safetensors"]
                place = Path(snapshot_download(name, allow_patterns=patterns)) / path
        except Exception as error:  # the hub client raises many kinds, from validation to connection errors
            raise not_found(name, error) from error
    if place.is_dir():
        check_contents(place, f"{path} of {name}")
    return place
