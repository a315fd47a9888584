"""What a folder must hold to be loaded: files of its own alone, and weights as safetensors."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors import safe_open

from ..errors import ModelError

CONFIG_FILE, WEIGHTS_FILE, UPDATES_FILE = "config.json", "model.safetensors", "updates.safetensors"
INDEX_FILE, ADAPTER_FILE = f"{WEIGHTS_FILE}.index.json", "adapter_config.json"
TOKENIZER_FILE = "tokenizer_config.json"
# The configuration of a checkpoint while the rest is saved; an interrupted save leaves it behind.
UNFINISHED_FILE = ".unfinished-config.json"
# In the folder of a checkpoint that of another, by which the subtopics of pairs are found.
SUBTOPIC_FOLDER = "subtopic_model"
# What the files of a model are called.
MODEL_FILES, MODEL_WEIGHTS = ("*.json", "*.txt", "*.model"), "*.safetensors"
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_FLOATING = ("F64", "F32", "F16", "BF16")


def check_contents(folder: Path, owner: str) -> None:
    """Refuse a folder whose files lead out of it, or whose weights are no safetensors.

    A link may point inside the folder and, in the hub's cache, to the contents of the same repository.

    Args:
        folder: the folder of a checkpoint or a pretrained encoder.
        owner: what to call it in messages.

    Raises:
        ModelError: a link or a name in a file leads out of the folder, or the weights are pickled or an adapter's.
    """
    root = folder.resolve()
    # The model of subtopics lies one folder deeper.
    snapshots = [one for one in (root, root.parent) if one.parent.name == "snapshots"]
    places = [root, *(one.parent.parent / "blobs" for one in snapshots)]
    try:
        files = [path for path in folder.iterdir() if not path.is_dir()]
    except OSError as error:
        raise ModelError(f"{owner} cannot be read: {error.strerror or error}; check its permissions") from error
    for path in files:
        end = Path(os.path.realpath(path))
        if not any(end.is_relative_to(place) for place in places):
            raise ModelError(
                f"{path.name} of {owner} is a link out of its folder, to {end}; put the file itself there"
            )
    for file, key, name in _named_files(folder):
        if not isinstance(name, str) or Path(name).name != name or name == ".." or "\\" in name:
            raise ModelError(
                f"{file} of {owner} names {str(name)[:200]!r} in {key}, which is no file in the same folder; "
                "fetch the model again"
            )
    names = {path.name for path in files}
    if ADAPTER_FILE in names:
        raise ModelError(
            f"{owner} is an adapter ({ADAPTER_FILE}); merge it into its model (merge_and_unload of peft), save that "
            "and load the result"
        )
    pickled = sorted((name for name in names if name.endswith(_PICKLES)), key=lambda name: ("model" not in name, name))
    if pickled and not {WEIGHTS_FILE, INDEX_FILE, UPDATES_FILE} & names:
        raise ModelError(
            f"{pickled[0]} of {owner} is a pickle, which may run code when it is read; give its weights as "
            f"{WEIGHTS_FILE}, as save_pretrained of transformers writes them"
        )


def read_json(path: Path) -> dict[str, Any]:
    """The values of a JSON file; none if it is missing or damaged, which is for others to report."""
    try:
        # Reading a pipe would wait for a writer.
        values = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def not_floating(path: Path) -> str | None:
    """Name and type of the first weight that is no floating-point number; torch would cast it and say nothing."""
    with safe_open(path, framework="pt") as weights:
        for name in weights.keys():  # noqa: SIM118
            kind = str(weights.get_slice(name).get_dtype())
            if kind not in _FLOATING:
                return f"{name}: {kind}"
    return None


def _named_files(folder: Path) -> Iterator[tuple[str, str, Any]]:
    """File, key and value of the names of files that transformers opens because another file names them."""
    for index in folder.glob("*.safetensors.index.json"):
        shards = read_json(index).get("weight_map")
        # What is no name may not even be hashable.
        for _, name in (
            sorted({str(name): name for name in shards.values()}.items()) if isinstance(shards, dict) else ()
        ):
            yield index.name, "weight_map", name
    for file, key in ((CONFIG_FILE, "transformers_weights"), (TOKENIZER_FILE, "fast_tokenizer_files")):
        value = read_json(folder / file).get(key)
        for name in value if isinstance(value, list) else [] if value is None else [value]:
            yield file, key, name
