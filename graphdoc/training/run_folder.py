"""The folder of a run: its settings, what it is made with, and its results."""

from __future__ import annotations

import importlib.metadata
import json
import logging
import platform
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from ..errors import OutputError
from ..runtime.files import LOCK_FILE, write_text
from ..settings.run import RunSettings
from ..version import __version__
from .checkpoint import PREFIX

logger = logging.getLogger(__name__)

CONFIG_FILE, RECORD_FILE, RESULTS_FILE = "config.yaml", "record.json", "results.json"
LOG_FILE, MODEL_FOLDER, CURVE_FILE = "log.jsonl", "model", "curve.png"
# Lists of negatives that the run makes; those of a run that was given up say what they are good for.
NEGATIVES_FOLDER = "negatives"
WRONG_BATCH = "wrong-batch-"

_PACKAGES = ("torch", "torch-geometric", "transformers", "datasets", "accelerate", "numpy", "scikit-learn", "peft")

# Settings that may differ when a run goes on: they say where and how it is computed, not what.
_FREE = {
    ("output",),
    ("training", "log_steps"),
    ("training", "loading_processes"),
    ("training", "token_budget"),
    ("training", "padding"),
    ("training", "keep_activations"),
    ("training", "keep_checkpoints"),
    ("training", "trackers"),
    ("corpus", "preparing_processes"),
    ("corpus", "cache"),
    # What was read is compared by its content.
    ("corpus", "on_error"),
}


# Hash of the documents in the record of the data.
CONTENT = "content"
# What may differ in the record of the data: how it is stored, and what was passed over.
_NO_DATA = {"fingerprint", "ignored", "errors", "first_errors"}


def git_revision() -> str | None:
    """Commit of the source tree, with ``-dirty`` if it was changed; None outside of a repository."""
    folder = Path(__file__).parent
    try:
        run = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return run.stdout.strip() or None


def versions() -> dict[str, str]:
    """Versions of Python, graphdoc and the packages that decide about numbers."""
    found = {"python": platform.python_version(), "graphdoc": __version__}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def open_run(folder: Path, settings: RunSettings, record: Mapping[str, Any], *, resume: bool) -> None:
    """Make the folder of a run, or check that a run can go on in it.

    Args:
        folder: the folder.
        settings: the settings of the run.
        record: what the run is made with: versions, seed, processes.
        resume: whether a run that was begun in the folder is to go on.

    Raises:
        OutputError: the folder holds another run or one on other data, or cannot be written.
    """
    path = folder / CONFIG_FILE
    require_own_folder(folder)
    if path.exists():
        if others := sorted(_settings_in(path).keys() - settings.as_values().keys()):
            raise OutputError(
                f"{folder} holds a run of another kind, which has settings for {', '.join(map(str, others))}; remove "
                "it, or choose another with output=FOLDER"
            )
        if not resume:
            raise OutputError(
                f"{folder} holds a run already; go on with it by --resume, remove it, or choose another with "
                "output=FOLDER"
            )
        check_same_settings(path, settings)
        _check_same_data(folder, record)
    if not resume:
        for left in folder.glob(f"{WRONG_BATCH}*"):
            # It is of a run that was given up.
            left.unlink()
    # First what shows that the settings beside it are those of a run.
    write_text(folder / RECORD_FILE, json.dumps(record, indent=2) + "\n")
    write_text(path, yaml.safe_dump(settings.as_values(), sort_keys=False, allow_unicode=True))


def require_own_folder(folder: Path) -> None:
    """Refuse a folder that holds something else than a run.

    Raises:
        OutputError: it does, or is no folder.
    """
    if "\0" in str(folder):
        raise OutputError(f"output={str(folder)!r}: the name has a NUL character; choose another output")
    try:
        if not folder.exists():
            return
        is_foreign = folder.is_dir() and any(_is_foreign(entry) for entry in folder.iterdir())
    except OSError as error:
        raise OutputError(f"{folder} cannot be used: {error.strerror or error}; choose another output") from error
    if not folder.is_dir():
        raise OutputError(f"{folder} is a file; choose another output")
    if is_foreign and not (folder / CONFIG_FILE).exists():
        raise OutputError(f"{folder} is not empty and holds no run; choose another output")
    if is_foreign and not (folder / RECORD_FILE).exists() and not any(folder.glob(f"{PREFIX}*")):
        raise OutputError(
            f"{folder / CONFIG_FILE} is not that of a run, since there is no {RECORD_FILE} beside it; choose another "
            "output"
        )


def abandon_run(folder: Path) -> None:
    """Take back :func:`open_run` after a run that was refused before its first step, so that a mended one can begin.

    Args:
        folder: the folder; a run that has logged or saved anything is left alone.
    """
    log = folder / LOG_FILE
    if any(folder.glob(f"{PREFIX}*")) or (log.exists() and log.stat().st_size):
        return
    for name in (CONFIG_FILE, RECORD_FILE, RESULTS_FILE, LOG_FILE, LOCK_FILE):
        (folder / name).unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def check_same_settings(path: Path, settings: RunSettings) -> None:
    """Refuse the settings of another run.

    A setting that the version of the package did not have yet with which the run was begun was at its default.

    Args:
        path: the settings that a run was begun with.
        settings: the settings of the run that is to go on, or to be there already.

    Raises:
        OutputError: they differ in what decides about the model, or cannot be read.
    """
    old, new = dict(_leaves(_settings_in(path))), dict(_leaves(settings.as_values()))
    old = {key: value for key, value in _leaves(settings.default_values()) if key in new} | old
    for key in sorted({*old, *new}):
        if key not in _FREE and old.get(key) != new.get(key):
            name = ".".join(key)
            raise OutputError(
                f"{path.parent} holds a run with {name}={old.get(key)!r}, not {new.get(key)!r}; resume it with the "
                "settings it has, or choose another output"
            )


def settings_in_words(folder: Path) -> dict[str, Any]:
    """The settings of a run by their names, such as ``training.seed``; none where it has not written them."""
    path = folder / CONFIG_FILE
    return {".".join(key): value for key, value in _leaves(_settings_in(path))} if path.is_file() else {}


def _settings_in(path: Path) -> dict[str, Any]:
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert isinstance(found, dict)
    except (OSError, ValueError, yaml.YAMLError, AssertionError) as error:
        raise OutputError(f"{path} cannot be read, so the run cannot go on; choose another output") from error
    return found


def _is_foreign(entry: Path) -> bool:
    """Whether something in a folder is not what a run leaves that never began."""
    if entry.name == RECORD_FILE:
        return "graphdoc" not in (_values_in(entry).get("versions") or ())
    return entry.name not in (LOG_FILE, LOCK_FILE, NEGATIVES_FOLDER) and not entry.name.startswith(WRONG_BATCH)


def _values_in(path: Path) -> dict[str, Any]:
    """Values that a run wrote as JSON, nothing where they cannot be read."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def _check_same_data(folder: Path, record: Mapping[str, Any]) -> None:
    """Refuse documents, labels, pairs or a start that have changed under their names since the run began."""
    begun = _values_in(folder / RECORD_FILE)
    if "corpus" not in begun:
        # A run that was stopped before anything was written down has no checkpoint either.
        if any(folder.glob(f"{PREFIX}*")):
            logger.warning(
                "%s cannot be read: whether the run goes on with the documents that it began with is not checked",
                folder / RECORD_FILE,
            )
        return
    if "fixed_weights" in begun and begun["fixed_weights"] != record.get("fixed_weights"):
        raise OutputError(
            f"{folder} holds a run on a model.start with other weights; put it back as it was, or choose another "
            "output"
        )
    before, now = begun["corpus"], json.loads(json.dumps(record.get("corpus")))
    if not isinstance(before, dict) or not isinstance(now, dict):
        return
    # A version of the package may count what another one does not.
    shared = [key for key in before if key in now and key not in _NO_DATA and key != CONTENT]
    old, new = (dict(_leaves({key: values[key] for key in shared})) for values in (before, now))
    for key in [*old, *new]:
        if key[0] == "coverage" and key not in old:
            continue
        if old.get(key) != new.get(key):
            raise OutputError(
                f"{folder} holds a run on other data: {'.'.join(key)} was {old.get(key)!r} and is {new.get(key)!r}; "
                "put documents, labels and pairs back as they were, or choose another output"
            )
    # Numbers say more, where they differ.
    if CONTENT in before and before[CONTENT] != now.get(CONTENT):
        raise OutputError(
            f"{folder} holds a run on other data: documents, or their order, have changed; put them back as they "
            "were, or choose another output"
        )


def _leaves(values: Any, path: tuple[str, ...] = ()) -> Any:
    if isinstance(values, Mapping) and values:
        for key, value in values.items():
            yield from _leaves(value, (*path, str(key)))
    else:
        yield path, values


def ids_file(folder: Path, step: int) -> Path:
    """Where the ids of the documents of a batch go that went wrong."""
    return folder / f"{WRONG_BATCH}{step}.json"


def write_ids(path: Path, step: int, ids: list[str]) -> Path:
    """Write the ids of the documents of a batch that went wrong."""
    return write_text(path, json.dumps({"step": step, "documents": ids}, indent=1) + "\n")


def read_results(folder: Path) -> dict[str, Any]:
    """What :func:`write_results` wrote, nothing where it has not."""
    return _values_in(folder / RESULTS_FILE)


def write_results(folder: Path, results: Mapping[str, Any]) -> Path:
    """Write what came of a run."""
    return write_text(folder / RESULTS_FILE, json.dumps(results, indent=2) + "\n")
