"""The folder of a run: its settings, what it is made with, its log and its results."""

from __future__ import annotations

import importlib.metadata
import json
import logging
import math
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import yaml
from accelerate import Accelerator

from ..errors import GraphdocError, MissingExtraError, OutputError
from ..runtime.files import LOCK_FILE, write_text
from ..runtime.progress import progress_bar
from ..runtime.text import one_line
from ..settings.run import RunSettings
from ..version import __version__
from .checkpoint import MEASURED, PREFIX, TrainState

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


def begin_run(folder: Path, settings: RunSettings, *, resume: bool) -> None:
    """Check that a run can begin, or go on, in a folder, before anything is read.

    Args:
        folder: the folder.
        settings: the settings of the run.
        resume: whether a run that was begun in the folder is to go on.

    Raises:
        OutputError: the folder holds another run, or one that is not to go on.
    """
    path = folder / CONFIG_FILE
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


def open_run(folder: Path, settings: RunSettings, record: Mapping[str, Any], *, resume: bool) -> None:
    """Write down what a run is made with, or check that a run goes on with the same data.

    Args:
        folder: the folder.
        settings: the settings of the run.
        record: what the run is made with: versions, seed, processes.
        resume: whether a run that was begun in the folder is to go on.

    Raises:
        OutputError: the run was begun on other data, or the folder cannot be written.
    """
    if (folder / CONFIG_FILE).exists():
        _check_same_data(folder, record)
    if not resume:
        for left in folder.glob(f"{WRONG_BATCH}*"):
            # It is of a run that was given up.
            left.unlink()
    # First what shows that the settings beside it are those of a run.
    write_text(folder / RECORD_FILE, json.dumps(record, indent=2) + "\n")
    write_text(folder / CONFIG_FILE, yaml.safe_dump(settings.as_values(), sort_keys=False, allow_unicode=True))


def require_own_folder(folder: Path) -> None:
    """Refuse a folder that holds something else than a run.

    Raises:
        OutputError: it does, or is no folder.
    """
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

    Args:
        path: the settings that a run was begun with.
        settings: the settings of the run that is to go on, or to be there already.

    Raises:
        OutputError: they differ in what decides about the model, or cannot be read.
    """
    old, new = dict(_leaves(_settings_in(path))), dict(_leaves(settings.as_values()))
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
    if begun.get("loss") != record.get("loss"):
        raise OutputError(f"{folder} holds a run with the loss {begun.get('loss')}; give that, or another output")
    before, now = begun["corpus"], json.loads(json.dumps(record.get("corpus")))
    if not isinstance(before, dict) or not isinstance(now, dict):
        return
    old, new = (
        dict(_leaves({key: value for key, value in values.items() if key not in _NO_DATA})) for values in (before, now)
    )
    # Numbers say more than the hash of the documents, where they differ too.
    for key in sorted(dict.fromkeys([*old, *new]), key=lambda key: key == (CONTENT,)):
        if old.get(key) != new.get(key):
            raise OutputError(
                f"{folder} holds a run on other data: {'.'.join(key)} was {old.get(key)!r} and is {new.get(key)!r}; "
                "put documents, labels and pairs back as they were, or choose another output"
            )


def _leaves(values: Any, path: tuple[str, ...] = ()) -> Any:
    if isinstance(values, Mapping) and values:
        for key, value in values.items():
            yield from _leaves(value, (*path, str(key)))
    else:
        yield path, values


def write_ids(path: Path, step: int, ids: list[str]) -> Path:
    """Write the ids of the documents of a batch that went wrong."""
    return write_text(path, json.dumps({"step": step, "documents": ids}, indent=1) + "\n")


def read_results(folder: Path) -> dict[str, Any]:
    """What :func:`write_results` wrote, nothing where it has not."""
    return _values_in(folder / RESULTS_FILE)


def write_results(folder: Path, results: Mapping[str, Any]) -> Path:
    """Write what came of a run."""
    return write_text(folder / RESULTS_FILE, json.dumps(results, indent=2) + "\n")


# What the bar shows of an entry of the log, in this order.
_SHOWN = {
    "loss": "loss {:.4f}",
    "accuracy": "accuracy {:.1%}",
    "positive_similarity": "positive {:.3f}",
    "negative_similarity": "negative {:.3f}",
    "documents_per_second": "{:,.0f} documents/s",
    "tokens_per_second": "{:,.0f} tokens/s",
}


class RunLog:
    """Shows and writes the entries of a run's log; a context, in which the bar is on the terminal.

    A run that is resumed drops the entries of what it does again.

    Args:
        folder: the run's folder.
        state: where the run begins or goes on.
        trackers: where numbers are also written.
        show: whether to show the bar; None shows it on a terminal.

    Attributes:
        bar: the bar of the run's steps.

    Raises:
        MissingExtraError: a tracker is not installed.
        OutputError: the log cannot be written, or a tracker does not start.
    """

    def __init__(
        self, folder: Path, state: TrainState, trackers: Sequence[str] = (), show: bool | None = None
    ) -> None:
        self.path, self._state = folder / LOG_FILE, state
        self._trackers: list[Accelerator] = []
        self._tells_results = sys.stderr.isatty() if show is None else show
        self.bar = progress_bar(show, state.max_steps, "Training", "steps", done=state.global_step)
        with self._writing():
            kept = [line for line, step in _entries(self.path) if step <= state.global_step]
            temporary = self.path.with_name(f".partial-{os.getpid()}-{self.path.name}")
            temporary.write_text("".join(f"{line}\n" for line in kept if state.global_step), encoding="utf-8")
            temporary.replace(self.path)

        try:
            for name in trackers:
                self._trackers.append(start_tracker(name, folder, settings_in_words(folder)))
        except GraphdocError:
            self.__exit__()
            raise

    def __enter__(self) -> RunLog:
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.close()
        for tracker in self._trackers:
            tracker.end_training()

    def write(self, entry: Mapping[str, Any]) -> None:
        """Add an entry of the current step."""
        step = self._state.global_step
        with self._writing(), self.path.open("a", encoding="utf-8") as stream:
            # JSON has no word for what is not finite, such as a gradient that overflows.
            values = {
                name: value if not isinstance(value, float) or math.isfinite(value) else None
                for name, value in entry.items()
            }
            stream.write(json.dumps({"step": step, **values}, allow_nan=False) + "\n")
        for tracker in self._trackers:
            tracker.log({_tracked_name(name): value for name, value in entry.items()}, step=step)
        shown = ", ".join(form.format(entry[name]) for name, form in _SHOWN.items() if name in entry)
        if shown:
            self.bar.set_postfix_str(shown)
        results = {name.removeprefix(MEASURED): value for name, value in entry.items() if name.startswith(MEASURED)}
        if results and self._tells_results:
            numbers = ", ".join(f"{name} {value:.4f}" for name, value in results.items())
            self.bar.write(f"step {step}: {numbers}", file=sys.stderr)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputError(
                f"{self.path} cannot be written: {error.strerror or error}; checkpoints are whole: mend that and "
                "resume"
            ) from error


def _entries(path: Path) -> list[tuple[str, int]]:
    """Lines of a log with their steps; what a kill cut, or a disk damaged, is left out."""
    entries = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else ():
        try:
            entries.append((line, int(json.loads(line)["step"])))
        except (ValueError, TypeError, KeyError):
            continue
    return entries


def _tracked_name(name: str) -> str:
    """The name of a number where trackers group numbers by what comes before a slash."""
    return f"eval/{name.removeprefix(MEASURED)}" if name.startswith(MEASURED) else f"train/{name}"


# What helps where a tracker does not start.
_FIXES = {
    "tensorboard": "mend that, or leave it out of training.trackers",
    "wandb": "log in (wandb login), or set WANDB_MODE=offline to write into the run's folder",
    "mlflow": "check MLFLOW_TRACKING_URI; without it files go into the run's folder",
}


def require_trackers(names: Sequence[str]) -> None:
    """Refuse trackers whose library is not installed.

    Raises:
        MissingExtraError: there is one.
    """
    for name in names:
        if find_spec(name) is None:
            raise MissingExtraError(name, "track", f"write numbers there (training.trackers=[{name}])")


def start_tracker(name: str, folder: Path, settings: Mapping[str, Any]) -> Accelerator:
    """Start a tracker of a run, by way of Accelerate.

    Args:
        name: ``tensorboard``, ``wandb`` or ``mlflow``.
        folder: the run's folder.
        settings: the run's settings, by their names.

    Raises:
        MissingExtraError: its library is not installed.
        OutputError: it does not start, as without a network or a login.
    """
    require_trackers([name])
    run_name = folder.resolve().name
    options: dict[str, dict[str, Any]] = {
        "wandb": {"dir": str(folder), "name": run_name},
        "mlflow": {"run_name": run_name},
    }
    project = {"tensorboard": "runs", "wandb": os.environ.get("WANDB_PROJECT", "graphdoc")}.get(name, "graphdoc")
    try:
        if name == "mlflow":
            _place_mlflow(folder)
        accelerator = Accelerator(cpu=not torch.cuda.is_available(), log_with=name, project_dir=folder)
        # TensorBoard would write the settings as a run of its own.
        accelerator.init_trackers(project, None if name == "tensorboard" else dict(settings), options)
    except Exception as error:  # each library raises kinds of its own
        reason = one_line(str(error)).strip().rstrip(".")[:200] or type(error).__name__
        raise OutputError(f"training.trackers=[{name}] does not start: {reason}; {_FIXES[name]}") from error
    return accelerator


def _place_mlflow(folder: Path) -> None:
    """Let MLflow write into the run's folder where no server is named, and report nothing on its own use."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    server = os.environ.get("MLFLOW_TRACKING_URI")
    if not server:
        # Plain files are all that the small package of MLflow writes without a server, and it asks to be told so.
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    import mlflow

    # Said anew for every run: MLflow keeps what it was told last.
    mlflow.set_tracking_uri(server or (folder.resolve() / "mlruns").as_uri())
