"""The folder of a run: its settings, what it is made with, its log and its results."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml
from accelerate import Accelerator

from ..checkpoints.contents import read_json
from ..errors import GraphdocError, MissingExtraError, OutputError
from ..runtime.files import LOCK_FILE, write_text, writing_error
from ..runtime.progress import progress_bar
from ..runtime.text import one_line
from ..settings.run import RunSettings
from ..version import __version__
from .checkpoint import MEASURED, PREFIX, TrainState, finite

CONFIG_FILE, RECORD_FILE, RESULTS_FILE = "config.yaml", "record.json", "results.json"
LOG_FILE, MODEL_FOLDER, CURVE_FILE = "log.jsonl", "model", "curve.png"
# Lists of negatives that the run makes; each says what it was made for, also after an abandoned run.
NEGATIVES_FOLDER = "negatives"
WRONG_BATCH = "wrong-batch-"

_PACKAGES = ("torch", "torch-geometric", "transformers", "datasets", "accelerate", "numpy", "scikit-learn", "peft")

# Settings that may differ when a run goes on: they say where and how it is computed, not what.
_FREE_TRAINING = (
    *("logging_steps", "dataloader_num_workers", "token_budget", "padding", "keep_activations", "save_total_limit"),
    "report_to",
)
# What was read is compared by its content, whatever was to become of errors.
_FREE_CORPUS = ("preparing_processes", "cache", "on_error")
_FREE = {("output",), *(("training", name) for name in _FREE_TRAINING), *(("corpus", name) for name in _FREE_CORPUS)}

# What may differ in the record of the data: how it is stored, and what was passed over.
_NO_DATA = {"fingerprint", "ignored", "errors", "first_errors"}


def git_revision() -> str | None:
    """Commit of the source tree, with ``-dirty`` if it was changed; None outside of a repository."""
    folder = Path(__file__).parent
    try:
        command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return None
    return run.stdout.strip() or None


def versions() -> dict[str, str]:
    """Versions of Python, graphdoc and the packages that decide about numbers."""
    result = {"python": platform.python_version(), "graphdoc": __version__}
    for name in _PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            result[name] = importlib.metadata.version(name)
    return result


def begin_run(folder: Path, settings: RunSettings, *, resume: bool) -> None:
    """Check that a run can begin, or go on where ``resume`` says so, in a folder, before anything is read.

    Raises:
        OutputError: the folder holds another run, one that is not to go on, or something else.
    """
    try:
        names = {path.name for path in folder.iterdir()} if folder.exists() else set()
    except OSError as error:
        raise OutputError(f"{folder} cannot be used: {error.strerror or error}; choose another output") from error
    if {CONFIG_FILE, RECORD_FILE} <= names:
        if not resume:
            raise OutputError(
                f"{folder} holds a run already; go on with it by --resume, remove it, or choose another with "
                "output=FOLDER"
            )
        check_same_settings(folder / CONFIG_FILE, settings)
        return
    # What a run leaves that never began, also with a tracker.
    left = {LOG_FILE, LOCK_FILE, NEGATIVES_FOLDER, "graphdoc", "mlruns", "wandb"}
    left |= {name for name in names if name.startswith(WRONG_BATCH)}
    if "graphdoc" in (read_json(folder / RECORD_FILE).get("versions") or ()):
        left.add(RECORD_FILE)
    if foreign := sorted(names - left):
        raise OutputError(
            f"{folder / foreign[0]} is not that of a run, since {CONFIG_FILE} and {RECORD_FILE} are not both there; "
            "choose another output"
        )


def open_run(folder: Path, settings: RunSettings, record: Mapping[str, Any]) -> None:
    """Write down what a run is made with, or check that a run goes on with the same data.

    Raises:
        OutputError: the run was begun on other documents, labels, pairs, weights or loss, or cannot be written.
    """
    if (folder / CONFIG_FILE).exists():
        old, new = (_data_of(values) for values in (read_json(folder / RECORD_FILE), json.loads(json.dumps(record))))
        # Numbers say more than the hash of the documents, where they differ too.
        for key in sorted({*old, *new}, key=lambda key: (key == ("content",), key)):
            if old.get(key) != new.get(key):
                raise OutputError(
                    f"{folder} holds a run on other data: {'.'.join(key)} was {old.get(key)!r} and is "
                    f"{new.get(key)!r}; put documents, labels, pairs and models back as they were, or choose another "
                    "output"
                )
    else:
        for left in folder.glob(f"{WRONG_BATCH}*"):
            # It is of an abandoned run.
            left.unlink()
    # First the record, without which the settings are not taken for those of a run.
    write_run_file(folder / RECORD_FILE, record)
    write_text(folder / CONFIG_FILE, yaml.safe_dump(settings.as_values(), sort_keys=False, allow_unicode=True))


def _data_of(record: Mapping[str, Any]) -> dict[tuple[str, ...], Any]:
    """What of a record decides about the model: documents, labels, pairs, weights that stay, and the loss."""
    named = {"model.start": record.get("fixed_weights"), "loss": record.get("loss"), **(record.get("corpus") or {})}
    return _leaves({name: value for name, value in named.items() if name not in _NO_DATA})


def abandon_run(folder: Path) -> None:
    """Take back :func:`open_run` after a run that was refused before it logged or saved anything."""
    log = folder / LOG_FILE
    if any(folder.glob(f"{PREFIX}*")) or (log.exists() and log.stat().st_size):
        return
    for name in (CONFIG_FILE, RECORD_FILE, RESULTS_FILE, LOG_FILE, LOCK_FILE):
        (folder / name).unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def check_same_settings(path: Path, settings: RunSettings) -> None:
    """Refuse settings that differ from those of a file in what decides about the model.

    Raises:
        OutputError: they do, or the file cannot be read.
    """
    old, new = _settings_in(path), _leaves(settings.as_values())
    for key in sorted({*old, *new} - _FREE):
        if old.get(key) != new.get(key):
            raise OutputError(
                f"{path.parent} holds a run with {'.'.join(key)}={old.get(key)!r}, not {new.get(key)!r}; resume it "
                "with the settings it has, or choose another output"
            )


def _settings_in(path: Path) -> dict[tuple[str, ...], Any]:
    try:
        return _leaves(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise OutputError(f"{path} cannot be read, so the run cannot go on; choose another output") from error


def _leaves(values: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    if not isinstance(values, Mapping) or not values:
        return {path: values}
    leaves: dict[tuple[str, ...], Any] = {}
    for key, value in values.items():
        leaves |= _leaves(value, (*path, str(key)))
    return leaves


def write_run_file(path: Path, values: Mapping[str, Any]) -> Path:
    """Write a small file of a run."""
    return write_text(path, json.dumps(values, indent=2) + "\n")


def read_results(folder: Path) -> dict[str, Any]:
    """The results of a run; empty where it has none yet."""
    return read_json(folder / RESULTS_FILE)


# What the bar shows of an entry of the log.
_SHOWN = ("loss", "accuracy", "documents_per_second", "tokens_per_second")


class RunLog:
    """Shows and writes the entries of a run's log; a context, in which the bar is on the terminal.

    A run that is resumed drops the entries of what it does again.

    Args:
        folder: the run's folder.
        state: where the run begins or goes on.
        accelerator: writes numbers to its trackers too.
        show: whether to show the bar; None shows it on a terminal.

    Raises:
        OutputError: the log cannot be written, or a tracker does not start.
    """

    def __init__(
        self, folder: Path, state: TrainState, accelerator: Accelerator | None = None, show: bool | None = None
    ) -> None:
        self.path, self._state = folder / LOG_FILE, state
        self._tells_results = sys.stderr.isatty() if show is None else show
        self.bar = progress_bar(show, state.max_steps, "Training", "steps", done=state.global_step)
        try:
            kept = [line for line, step in _entries(self.path) if step <= state.global_step]
            write_text(self.path, "".join(f"{line}\n" for line in kept if state.global_step))
            self._tracking = accelerator if accelerator is not None and accelerator.log_with else None
            if self._tracking is not None:
                start_trackers(self._tracking, folder)
        except GraphdocError:
            self.bar.close()
            raise

    def __enter__(self) -> RunLog:
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.close()
        if self._tracking is not None:
            end_trackers(self._tracking)

    def write(self, entry: Mapping[str, Any]) -> None:
        """Add an entry of the current step."""
        step = self._state.global_step
        try:
            with self.path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps({"step": step, **finite(entry)}, allow_nan=False) + "\n")
        except OSError as error:
            raise writing_error(self.path, error) from error
        if self._tracking is not None:
            # Trackers group numbers by what comes before a slash.
            grouped = {
                f"eval/{name.removeprefix(MEASURED)}" if name.startswith(MEASURED) else f"train/{name}": value
                for name, value in entry.items()
            }
            self._tracking.log(grouped, step=step)
        if "loss" in entry:
            self.bar.set_postfix({name: entry[name] for name in _SHOWN if name in entry})
        results = {name.removeprefix(MEASURED): value for name, value in entry.items() if name.startswith(MEASURED)}
        if results and self._tells_results:
            numbers = ", ".join(f"{name} {value:.4f}" for name, value in results.items())
            self.bar.write(f"step {step}: {numbers}", file=sys.stderr)


def _entries(path: Path) -> list[tuple[str, int]]:
    """Lines of a log with their steps; what a kill cut, or a disk damaged, is left out."""
    entries = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else ():
        try:
            entries.append((line, int(json.loads(line)["step"])))
        except (ValueError, TypeError, KeyError):
            continue
    return entries


def require_trackers(names: Sequence[str]) -> None:
    """Refuse trackers whose library is not installed, as a missing extra."""
    for name in names:
        if find_spec(name) is None:
            raise MissingExtraError(name, "track", f"write numbers there (training.report_to=[{name}])")


_ADVICE = {"wandb": "log in (wandb login), set WANDB_MODE=offline, ", "mlflow": "check MLFLOW_TRACKING_URI, "}


def start_trackers(accelerator: Accelerator, folder: Path) -> None:
    """Start the trackers of a run (``tensorboard``, ``wandb`` or ``mlflow``), where they have not been started.

    Raises:
        OutputError: a tracker does not start, as without a network or a login.
    """
    if accelerator.trackers or not accelerator.log_with:
        return
    names = [str(tracker) for tracker in accelerator.log_with]
    path = folder / CONFIG_FILE
    settings = {".".join(key): value for key, value in (_settings_in(path) if path.is_file() else {}).items()}
    run_name = folder.resolve().name
    options = {"wandb": {"dir": str(folder), "name": run_name}, "mlflow": {"run_name": run_name}}
    try:
        if "mlflow" in names:
            # Without a server the small package of MLflow writes plain files only, and only if this is set.
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
            os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
            import mlflow

            # For every run: MLflow keeps the last address.
            mlflow.set_tracking_uri(os.environ.get("MLFLOW_TRACKING_URI") or (folder.resolve() / "mlruns").as_uri())
        accelerator.init_trackers(os.environ.get("WANDB_PROJECT", "graphdoc"), None, options)
        for tracker in accelerator.trackers:
            # TensorBoard would write the settings as a run of its own.
            if tracker.name != "tensorboard":
                tracker.store_init_configuration(settings)
    except Exception as error:  # each library raises errors of its own
        reason = one_line(str(error), 200) or type(error).__name__
        advice = "".join(text for name, text in _ADVICE.items() if name in names)
        raise OutputError(f"training.report_to={names} do not start: {reason}; {advice}or leave them out") from error


def end_trackers(accelerator: Accelerator) -> None:
    """End the trackers of a run; its processes stay together, which they would not by ``end_training``."""
    while accelerator.trackers:
        accelerator.trackers.pop().finish()
