"""Saving checkpoints, on disk and on the hub."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

from safetensors import SafetensorError
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from ..errors import OutputError
from ..modeling import DocumentConfig, DocumentModel
from .card import is_own_card, model_card
from .contents import (
    CONFIG_FILE,
    INDEX_FILE,
    MODEL_FILES,
    MODEL_WEIGHTS,
    SUBTOPIC_FOLDER,
    TOKENIZER_FILE,
    UNFINISHED_FILE,
    UPDATES_FILE,
    WEIGHTS_FILE,
    read_json,
)
from .fitted import VOCABULARY_FILE, save_vocabulary
from .quiet import first_line, quiet_transformers
from .updates import save_updates

CARD_FILE = "README.md"
# What a checkpoint may consist of: one that is saved over another leaves none of these behind.
_FILES = frozenset(
    (
        *(CONFIG_FILE, WEIGHTS_FILE, INDEX_FILE, UPDATES_FILE, VOCABULARY_FILE),
        *(CARD_FILE, TOKENIZER_FILE, "tokenizer.json"),
    )
)
_FOLDERS = frozenset((SUBTOPIC_FOLDER,))


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
    interrupted save never looks whole. A checkpoint that was there is replaced as a whole; other files stay.

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
        OutputError: the folder cannot be written, or has a file that would be replaced and is not a checkpoint's.
    """
    target = Path(folder)
    try:
        _require_own(target, _FILES | _FOLDERS)
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".partial-", dir=target) as temporary, quiet_transformers():
            written = Path(temporary)
            if updates is None:
                model.save_pretrained(written, state_dict=weights)
                tokenizer.save_pretrained(written)
            else:
                model.config.save_pretrained(written)
                save_updates(model, updates, written / UPDATES_FILE)
            if model.subtopic_folder is not None:
                _copy_model(model.subtopic_folder, written / SUBTOPIC_FOLDER)
            save_vocabulary(model, written)
            card = written / CARD_FILE
            card.write_text(model_card(cast(DocumentConfig, model.config), name, training), encoding="utf-8")
            for path in written.glob("*.safetensors"):
                # safetensors writes for the owner alone; others may read a checkpoint as they may its other files.
                path.chmod(card.stat().st_mode)
            _require_own(target, (path.name for path in written.iterdir()))
            _move_in(written, target)
    except (OSError, SafetensorError, ValueError) as error:
        # A ValueError is a name that no file can have, or that the tokenizer's writer cannot.
        if isinstance(error, ValueError) and _is_usual(str(target)):
            raise
        reason = (error.strerror if isinstance(error, OSError) else None) or first_line(error)
        raise OutputError(
            f"checkpoint folder {target} cannot be written: {reason}; choose another place or free some space"
        ) from error
    return target


def upload(save: Callable[[str], Any], repository: str, private: bool, message: str) -> str:
    """Upload a checkpoint.

    Args:
        save: writes the checkpoint into a folder.
        repository: ``owner/name``; made if it is missing.
        private: whether a new repository is private.
        message: commit message.

    Returns:
        The address of the commit.
    """
    from huggingface_hub import HfApi

    api = HfApi()
    api.create_repo(repository, private=private, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        save(folder)
        return str(api.upload_folder(repo_id=repository, folder_path=folder, commit_message=message))


def _is_usual(name: str) -> bool:
    """Whether a name of a folder has neither NUL characters nor bytes that are no UTF-8."""
    return "\0" not in name and not any("\ud800" <= character <= "\udfff" for character in name)


def _require_own(target: Path, names: Iterable[str]) -> None:
    """Refuse to replace files that are not a checkpoint's."""
    configs = (read_json(target / file) for file in (CONFIG_FILE, UNFINISHED_FILE))
    is_own = any(values.get("model_type") == DocumentConfig.model_type for values in configs)
    for path in sorted(target / name for name in names):
        if path.name in _FOLDERS:
            is_model = read_json(path / CONFIG_FILE).get("model_type") == DocumentConfig.model_type
            replaceable = is_own and is_model and not path.is_symlink()
        else:
            replaceable = is_own_card(path) if path.name == CARD_FILE else is_own and not path.is_dir()
        if (path.exists() or path.is_symlink()) and not replaceable:
            raise OutputError(
                f"{path} was not written by graphdoc and would be replaced; move it away, or save into another folder"
            )


def _copy_model(source: Path, target: Path) -> None:
    """Copy the files of a checkpoint, whatever else lies beside them."""
    target.mkdir()
    for pattern in (*MODEL_FILES, MODEL_WEIGHTS, CARD_FILE):
        for path in source.glob(pattern):
            if path.is_file():
                shutil.copyfile(path, target / path.name)


def _move_in(written: Path, target: Path) -> None:
    """Replace the checkpoint of a folder; without a configuration nothing is loaded from it meanwhile."""
    (written / CONFIG_FILE).replace(target / UNFINISHED_FILE)
    for name in (CONFIG_FILE, *sorted(_FILES - {CONFIG_FILE})):
        (target / name).unlink(missing_ok=True)
    for name in _FOLDERS:
        shutil.rmtree(target / name, ignore_errors=True)
    for path in (*written.iterdir(), target / UNFINISHED_FILE):
        path.replace(target / (CONFIG_FILE if path.name == UNFINISHED_FILE else path.name))
