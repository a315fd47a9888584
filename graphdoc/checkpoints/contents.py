"""Check the files of a checkpoint: only its own, weights as safetensors, and a valid configuration."""

from __future__ import annotations

import json
import logging
import os
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from huggingface_hub.utils import logging as hub_logging
from transformers.utils import logging as transformers_logging

from ..errors import ModelError
from ..runtime.other_names import LOADING, hint

if TYPE_CHECKING:
    # A missing model is found without torch.
    from ..modeling import DocumentConfig

CONFIG_FILE, WEIGHTS_FILE, UPDATES_FILE = "config.json", "model.safetensors", "updates.safetensors"
INDEX_FILE, ADAPTER_FILE = f"{WEIGHTS_FILE}.index.json", "adapter_config.json"
TOKENIZER_FILE, VOCABULARY_FILE, CARD_FILE = "tokenizer_config.json", "lexical.json", "README.md"
# The configuration of a checkpoint while the rest is saved; an interrupted save leaves it behind.
UNFINISHED_FILE = ".unfinished-config.json"
# In the folder of a checkpoint that of another, by which the subtopics of pairs are found.
SUBTOPIC_FOLDER = "subtopic_model"
# What the files of a model are called.
MODEL_FILES, MODEL_WEIGHTS = ("*.json", "*.txt", "*.model"), "*.safetensors"
# To build a model takes time and memory in proportion to these, whatever its weights say later.
_SIZES = ("num_hidden_layers", "num_layers", "n_layers", "encoder_layers", "num_labels")
_LARGEST = 100_000
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Keep loading reports and bars of transformers, and what the hub client prints, off the screen."""
    verbosities = [(library, library.get_verbosity()) for library in (transformers_logging, hub_logging)]
    bars = transformers_logging.is_progress_bar_enabled()
    for library, _ in verbosities:
        library.set_verbosity(logging.ERROR)
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        for library, verbosity in verbosities:
            library.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()


def summary(error: Exception) -> str:
    """The first sentence of a library's message; some go on for pages."""
    first = str(error).partition(". ")[0].rstrip(".\n") or type(error).__name__
    return textwrap.shorten(first, 240, placeholder=" ...")


def check_contents(folder: Path, owner: str) -> None:
    """Refuse a folder whose files lead out of it, or whose weights are no safetensors.

    A link may point inside the folder and, in the hub's cache, to the contents of the same repository.

    Raises:
        ModelError: a link or a name in a file leads out of the folder, or the weights are pickled or an adapter's.
    """
    root = folder.resolve()
    # The model of subtopics and the modules of an embedding model lie one folder deeper.
    snapshots = [place for place in (root, root.parent) if place.parent.name == "snapshots"]
    allowed = [root, *(place.parent.parent / "blobs" for place in snapshots)]
    try:
        files = [path for path in folder.iterdir() if not path.is_dir()]
    except OSError as error:
        raise ModelError(f"{owner} cannot be read: {error.strerror or error}; check its permissions") from error
    for path in files:
        target = Path(os.path.realpath(path))
        if not any(target.is_relative_to(place) for place in allowed):
            raise ModelError(f"{path.name} of {owner} is a link out of its folder, to {target}; put the file there")
    for file, key, name in _named_files(folder):
        if not isinstance(name, str) or Path(name).name != name or name == ".." or "\\" in name:
            raise ModelError(f"{file} of {owner} names {str(name)[:200]!r} in {key}, which is no file in its folder")
    names = {path.name for path in files}
    if ADAPTER_FILE in names:
        raise ModelError(f"{owner} is an adapter ({ADAPTER_FILE}); merge it into its model and load the result")
    pickled = sorted((name for name in names if name.endswith(_PICKLES)), key=lambda name: ("model" not in name, name))
    if pickled and not {WEIGHTS_FILE, INDEX_FILE, UPDATES_FILE} & names:
        raise ModelError(
            f"{pickled[0]} of {owner} is a pickle, which may run code when it is read; give its weights as "
            f"{WEIGHTS_FILE}, as save_pretrained of transformers writes them"
        )


def _named_files(folder: Path) -> Iterator[tuple[str, str, Any]]:
    """File, key and value of the names of files that transformers opens because another file names them."""
    for index in folder.glob("*.safetensors.index.json"):
        shards = read_json(index).get("weight_map")
        # What is no name may not even be hashable.
        for name in {str(name): name for name in shards.values()}.values() if isinstance(shards, dict) else ():
            yield index.name, "weight_map", name
    for file, key in ((CONFIG_FILE, "transformers_weights"), (TOKENIZER_FILE, "fast_tokenizer_files")):
        value = read_json(folder / file).get(key)
        for name in value if isinstance(value, list) else [] if value is None else [value]:
            yield file, key, name


def read_json(path: Path) -> dict[str, Any]:
    """The values of a JSON file; none if it is missing or damaged, which is for others to report."""
    try:
        # Reading a pipe would wait for a writer.
        values = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def is_checkpoint(folder: Path) -> bool:
    """Whether a folder holds the configuration of a document model."""
    from ..modeling import DocumentConfig

    return bool(read_json(folder / CONFIG_FILE).get("model_type") == DocumentConfig.model_type)


def checked_config(values: Mapping[str, Any], name: str) -> DocumentConfig:
    """Build a configuration of values; a ModelError says which are impossible or do not fit together."""
    from ..modeling import DocumentConfig

    encoder = values.get("encoder_config")
    sizes = {key: encoder[key] for key in _SIZES if key in encoder} if isinstance(encoder, dict) else {}
    for key, size in sizes.items():
        if isinstance(size, int | float) and size > _LARGEST:
            raise ModelError(f"configuration of {name} is not valid: {key}={size:g} is over {_LARGEST:,}")
    try:
        with quiet_libraries():
            config = DocumentConfig(**values)
    except Exception as error:  # from a foreign configuration transformers and huggingface_hub raise anything
        raise ModelError(f"configuration of {name} is not valid: {summary(error)}") from error
    limit = token_limit(config.encoder_config)
    if config.passage_tokens > limit:
        raise ModelError(f"passage_tokens={config.passage_tokens} exceeds the {limit} tokens that {name} can read")
    return config


def check_settings(settings: Mapping[str, Any], name: str) -> None:
    """Refuse settings that no model has."""
    from ..modeling.configuration import configuration_names

    known = configuration_names()
    for key in settings:
        if key not in known:
            raise ModelError(f"setting {key!r} is unknown for {name}; {hint(key, known, LOADING)}")


def token_limit(encoder_config: Any) -> int:
    """Most tokens an encoder reads at once, special tokens included."""
    positions = int(getattr(encoder_config, "max_position_embeddings", 512))
    # RoBERTa and its kin start counting positions after the padding token's.
    offset = (encoder_config.pad_token_id or 0) + 1 if "roberta" in encoder_config.model_type else 0
    return positions - offset
