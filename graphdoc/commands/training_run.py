"""What all commands that train share: their arguments, and telling what came of a run."""

from __future__ import annotations

import argparse
import inspect
import os
import shlex
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from ..registry import load, recipes_of
from ..runtime.memory import quick_imports
from ..runtime.text import one_line
from ..settings.loading import RECIPE, kinds_of, load_chosen, settings_of
from ..settings.run import RunSettings
from .tables import Column, Table, console, names, plain


def add_training_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a command that trains."""
    parser.add_argument(
        "settings",
        metavar="KEY=VALUE",
        nargs="*",
        help="settings that replace those of the file; --print shows all, docs/training-settings.md explains them",
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        required=True,
        help="settings of the run: a YAML file, or a name such as quickstart",
    )
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint in the output folder")
    parser.add_argument("--device", help="cpu, cuda, ... (default: an accelerator if there is one)")
    parser.add_argument("--print", action="store_true", help="print all settings, defaults too, and do nothing")


class TrainingCommand:
    """The command of a recipe, or of several, of which the key ``recipe`` says which.

    Args:
        words: the words of the command, as in the registry of recipes.

    Attributes:
        NAME: the last of the words.
        HELP: what the command is for.
        DESCRIPTION: what it does.
        EPILOG: examples.
    """

    def __init__(self, words: str) -> None:
        self._words = words
        self._trainings = {settings_of(recipe): recipe.train for recipe in recipes_of(words).values()}
        kinds: list[type[RunSettings]] = list(self._trainings)
        self.NAME = words.rpartition(" ")[2]
        self.HELP, self.DESCRIPTION = kinds[0].purpose, _description(kinds)
        self.EPILOG = "examples:\n" + "".join(kind.examples.removeprefix("examples:\n") for kind in kinds)

    add_arguments = staticmethod(add_training_arguments)

    def run(self, options: argparse.Namespace, own: Callable[..., Path] | None = None) -> int:
        """Train, say where the model is, and give the exit status; or print the settings.

        Args:
            options: the arguments of the command.
            own: trains by the settings in the place of the recipe.
        """
        settings = load_chosen(kinds_of(self._words), options.config, options.settings)
        if options.print:
            print(settings.explained())
            return 0
        with quick_imports():
            run = own or load(self._trainings[type(settings)])
        return train(run, settings, options)


def _description(kinds: Sequence[type[RunSettings]]) -> str:
    """What a command does: what its first recipe says, and which others there are."""
    text = inspect.getdoc(kinds[0]) or ""
    if len(kinds) == 1:
        return text
    names = [str(kind.model_fields[RECIPE].default) if RECIPE in kind.model_fields else "" for kind in kinds]
    width = max(map(len, names))
    lines = (f"  {name:{width}}  {kind.purpose}" for name, kind in zip(names, kinds, strict=True))
    return "\n".join([text, "", f"recipes, of which the key {RECIPE} chooses one, else the first:", *lines])


class TrainingGroup:
    """The commands of recipes whose words begin alike, such as ``finetune``.

    Args:
        name: the first of the words.
        tasks: the commands.

    Attributes:
        HELP: what the commands are for.
        DESCRIPTION: the same, as a sentence.
        EPILOG: where to find more.
    """

    def __init__(self, name: str, tasks: Sequence[TrainingCommand]) -> None:
        self.HELP = f"train a model for a task: {', '.join(task.NAME for task in tasks)}"
        self.DESCRIPTION = "Train a model for a task."
        self.EPILOG = f"graphdoc {name} TASK --help   says more about the task, with examples\n"


# What a shell gives a program that SIGTERM ended, so that nothing goes on as if there were a model.
STOPPED = 128 + signal.SIGTERM


def train(run: Callable[..., Path], settings: RunSettings, options: argparse.Namespace) -> int:
    """Train, and say what came of it and where the model is.

    Args:
        run: trains by the settings.
        settings: the settings.
        options: the arguments of the command.

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
    command = settings.next_command.replace("MODEL", shlex.quote(one_line(str(model))))
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
