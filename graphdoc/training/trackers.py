"""Where else the numbers of a run are written: trackers, by way of Accelerate."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..errors import MissingExtraError, OutputError
from ..runtime.text import one_line


@dataclass(frozen=True, slots=True)
class TrackerKind:
    """A tracker.

    Args:
        options: what it is made with, by the run's folder.
        keeps_settings: whether it lists the settings of runs, to compare them by.
        fix: what to do where it does not start.
    """

    options: Callable[[Path], dict[str, Any]]
    keeps_settings: bool = True
    fix: str = "mend that, or leave it out of training.trackers"


def _tensorboard(folder: Path) -> dict[str, Any]:
    return {"run_name": "runs", "logging_dir": folder}


def _wandb(folder: Path) -> dict[str, Any]:
    return {"run_name": os.environ.get("WANDB_PROJECT", "graphdoc"), "dir": str(folder), "name": _run_name(folder)}


def _mlflow(folder: Path) -> dict[str, Any]:
    # It would report on its own use over the network.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    server = os.environ.get("MLFLOW_TRACKING_URI")
    if not server:
        # Plain files are all that the small package of MLflow writes without a server, and it asks to be told so.
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    import mlflow

    # Said anew for every run: MLflow keeps what it was told last.
    mlflow.set_tracking_uri(server or (folder.resolve() / "mlruns").as_uri())
    return {"experiment_name": "graphdoc", "run_name": _run_name(folder)}


def _run_name(folder: Path) -> str:
    return folder.resolve().name


TRACKERS = {
    # It would write the settings as a run of its own.
    "tensorboard": TrackerKind(_tensorboard, keeps_settings=False),
    "wandb": TrackerKind(_wandb, fix="log in (wandb login), or set WANDB_MODE=offline to write into the run's folder"),
    "mlflow": TrackerKind(_mlflow, fix="check MLFLOW_TRACKING_URI; without it files go into the run's folder"),
}


def start_tracker(name: str, folder: Path, settings: Mapping[str, Any]) -> Any:
    """Start a tracker of a run.

    Args:
        name: one of :data:`TRACKERS`.
        folder: the run's folder.
        settings: the run's settings, by their names.

    Raises:
        MissingExtraError: its library is not installed.
        OutputError: it does not start, as without a network or a login.
    """
    from accelerate import PartialState
    from accelerate.tracking import LOGGER_TYPE_TO_CLASS

    if find_spec(name) is None:
        raise MissingExtraError(name, "track", f"write numbers there (training.trackers=[{name}])")
    kind = TRACKERS[name]
    try:
        # Accelerate's log asks for it; some trackers make it themselves.
        PartialState()
        tracker = LOGGER_TYPE_TO_CLASS[name](**kind.options(folder))
        tracker.start()
        if kind.keeps_settings and settings:
            tracker.store_init_configuration(dict(settings))
    except Exception as error:  # each library raises kinds of its own
        reason = one_line(str(error)).strip().rstrip(".")[:200] or type(error).__name__
        raise OutputError(f"training.trackers=[{name}] does not start: {reason}; {kind.fix}") from error
    return tracker
