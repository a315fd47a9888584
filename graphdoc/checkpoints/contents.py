"""What a checkpoint holds: files of its own alone, weights as safetensors, and a configuration that is possible."""

from __future__ import annotations

import json
import logging
import os
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from huggingface_hub.utils import logging as hub_logging
from safetensors import safe_open
from transformers.utils import logging as transformers_logging

from ..errors import ModelError
from ..modeling import DocumentConfig
from ..modeling.configuration import configuration_names


@contextmanager
def quiet_hub() -> Iterator[None]:
    """Keep the hub client's lines about every new attempt off the screen."""
    verbosity = hub_logging.get_verbosity()
    hub_logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        hub_logging.set_verbosity(verbosity)


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep loading reports and bars of transformers off the screen, and what the hub client says meanwhile."""
    verbosity = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        with quiet_hub():
            yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()


def first_line(error: Exception) -> str:
    """The first line of a library's message; some go on for pages."""
    return shortened(next((line for line in str(error).splitlines() if line.strip()), type(error).__name__))


def shortened(text: str) -> str:
    """The beginning of a text, without a full stop at its end."""
    return textwrap.shorten(text, 240, placeholder=" ...").rstrip(".")


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


# Building a model takes time and memory in proportion to these, whatever its weights say later.
_MOST = {
    "num_hidden_layers": 10_000,
    "num_layers": 10_000,
    "n_layers": 10_000,
    "encoder_layers": 10_000,
    "num_labels": 1_000_000,
}
_AT_LEAST_ONE = ("hidden_size", "num_attention_heads", "intermediate_size", "vocab_size", "max_position_embeddings")


def checked_config(values: Mapping[str, Any], name: str) -> DocumentConfig:
    """Build a configuration of values.

    Args:
        values: its fields.
        name: what to call the model in messages.

    Raises:
        ModelError: values are impossible or do not fit together.
    """
    excess = _excessive_size(values)
    if excess:
        raise ModelError(f"configuration of {name} is not valid: {excess}; save or fetch it again")
    try:
        with quiet_transformers():
            config = DocumentConfig(**values)
    except (TypeError, ValueError, KeyError) as error:
        raise ModelError(f"configuration of {name} is not valid: {first_line(error)}") from error
    except Exception as error:  # huggingface_hub's strict dataclasses raise their own kind
        raise ModelError(f"configuration of {name} is not valid: {shortened(' '.join(str(error).split()))}") from error
    impossible = _impossible_size(config.encoder_config)
    if impossible:
        raise ModelError(f"configuration of {name} is not valid: {impossible}")
    limit = token_limit(config.encoder_config)
    if config.passage_tokens > limit:
        raise ModelError(f"passage_tokens={config.passage_tokens} exceeds the {limit} tokens that {name} can read")
    return config


def check_settings(settings: Mapping[str, Any], name: str) -> None:
    """Refuse settings that no model has.

    Raises:
        ModelError: one is unknown.
    """
    for key in settings:
        if key not in configuration_names():
            raise ModelError(f"setting {key!r} is unknown for {name}; known are {', '.join(configuration_names())}")


def token_limit(encoder_config: Any) -> int:
    """Most tokens an encoder reads at once, special tokens included."""
    positions = int(getattr(encoder_config, "max_position_embeddings", 512))
    # RoBERTa and its kin start counting positions after the padding token's.
    offset = (encoder_config.pad_token_id or 0) + 1 if "roberta" in encoder_config.model_type else 0
    return positions - offset


def _excessive_size(values: Mapping[str, Any]) -> str | None:
    """What is too large in a configuration as it stands in a file, the passage encoder's included."""
    nested = values.get("encoder_config")
    for part in (values, nested if isinstance(nested, Mapping) else {}):
        for name, most in _MOST.items():
            value = part.get(name)
            if isinstance(value, int | float) and value > most:
                return f"{name}={value:g} is more than the {most:,} there may be"
    return None


def _impossible_size(encoder_config: Any) -> str | None:
    """What cannot be in the configuration of a passage encoder; None if all is possible."""
    for name in _AT_LEAST_ONE:
        value = getattr(encoder_config, name, None)
        if isinstance(value, int) and value < 1:
            return f"{name}={value} must be at least 1"
    padding, known = getattr(encoder_config, "pad_token_id", None), getattr(encoder_config, "vocab_size", None)
    if isinstance(padding, int) and isinstance(known, int) and not 0 <= padding < known:
        return f"pad_token_id={padding} is none of the {known:,} tokens"
    return None
