"""What all commands that train share: their arguments, and telling what came of a run."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ..runtime.plain_text import one_line
from .tables import Column, Table, console, names, plain

if TYPE_CHECKING:
    from ..settings.run import RunSettings

SettingsT = TypeVar("SettingsT", bound="RunSettings")


def add_training_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a command that trains."""
    parser.add_argument(
        "settings",
        metavar="KEY=VALUE",
        nargs="*",
        help="settings that replace those of the file; --print shows all, docs/training-settings.md explains them",
    )
    parser.add_argument("--config", metavar="FILE", required=True, help="settings of the run, as YAML")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint in the output folder")
    parser.add_argument("--device", help="cpu, cuda, ... (default: an accelerator if there is one)")
    parser.add_argument("--print", action="store_true", help="print all settings, defaults too, and do nothing")


def settings_of(kind: type[SettingsT], options: argparse.Namespace) -> SettingsT | None:
    """The settings of a run; None where they were only to be printed, which is then done.

    Raises:
        SettingsError: the file or a setting is not valid.
    """
    from ..settings.loading import load_settings

    settings = load_settings(kind, options.config, options.settings)
    if not options.print:
        return settings
    import yaml

    values = yaml.safe_dump(settings.as_values(), sort_keys=False, allow_unicode=True)
    console().print(values, markup=False, highlight=False)
    return None


# What a shell gives a program that SIGTERM ended, so that nothing goes on as if there were a model.
STOPPED = 128 + signal.SIGTERM


def train(run: Callable[..., Path], settings: RunSettings, options: argparse.Namespace, next_command: str) -> int:
    """Train, and say what came of it and where the model is.

    Args:
        run: trains by the settings.
        settings: the settings.
        options: the arguments of the command.
        next_command: what to try the model with; ``MODEL`` stands for its folder.

    Returns:
        The exit status.
    """
    from ..training.run_folder import MODEL_FOLDER

    model = run(settings, resume=options.resume, device=options.device)
    is_finished = model == settings.folder / MODEL_FOLDER
    if os.environ.get("RANK", "0") != "0":
        return 0 if is_finished else STOPPED
    if is_finished:
        _tell_results(settings.folder)
    console().print(plain(f"wrote {model}"))
    if not is_finished:
        return STOPPED
    command = next_command.replace("MODEL", shlex.quote(one_line(str(model))))
    console().print(plain(f"try it:  {command}"))
    return 0


def _four_decimals(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _tell_results(folder: Path) -> None:
    """A table of what was measured before and after."""
    from ..training.run_folder import read_results

    results = read_results(folder)
    before, after = results.get("before", {}), results.get("after", {})
    if not after:
        return
    parts = {name: part for name, part in (("before", before), ("after", after)) if part}
    rows = Table([names("measured"), *(Column(name, _four_decimals) for name in parts)])
    for name in after:
        rows.add(name, *(part.get(name) for part in parts.values()))
    rows.print(console())
    if (best := results.get("best")) and results.get("steps"):
        console().print(plain(f"the best model measured is that of step {best['step']:,} of {results['steps']:,}"))
