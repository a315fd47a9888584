"""graphdoc pretrain and finetune: train a model by the settings of a YAML file."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter

from ..errors import SettingsError
from ..registry import RECIPES, RecipeTargets
from ..runtime.imports import quick_imports
from ..runtime.text import one_line
from ..settings.loading import kinds_of, load_chosen, settings_of, shipped_configs
from ..settings.run import RunSettings
from .options import ModelOptions
from .output import Table, Terminal, names, plain
from .sources import OneDocument, is_missing_source

# Takes the settings and trains, in the place of the recipe, for scripts.
OwnTraining = Annotated[Callable[..., Path] | None, Parameter(parse=False)]
# What a shell gives a program that SIGTERM ended, so that nothing goes on as if there were a model.
STOPPED = 128 + signal.SIGTERM
_SENTENCE_END = re.compile(r"(?<! al)\. ")
# In the comment of a config: the command or the script that it is for.
_TASK = re.compile(r"(?:graphdoc finetune |finetune/)(\w+)(?: |\.py)")


@Parameter(name="*", group=Group("Run", sort_key=7))
@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of a run, and what is done of it."""

    config: str | None = None
    """settings of the run: a YAML file, or the name of a config of the package"""
    resume: bool = False
    """go on from the last checkpoint in the output folder"""
    device: str | None = None
    """cpu, cuda, ... (default: an accelerator if there is one)"""
    prepare_only: bool = False
    """cut and tokenize the corpus, on a machine without accelerators, and do not train"""
    show: Annotated[bool, Parameter(name="--print")] = False
    """print all settings, defaults too, and do nothing"""
    list_configs: Annotated[bool, Parameter(name="--list")] = False
    """list the configs of the package and do nothing"""
    schema: bool = False
    """print a JSON Schema of the settings, for editors, and do nothing"""


def pretrain(
    *overrides: Annotated[str, Parameter(name="KEY=VALUE")], run: RunOptions = RunOptions(), train: OwnTraining = None
) -> int:
    """Train a document model without labels.

    By default the halves of a document are separated from those of others (Graph-RoBERTa); recipe=sentence_pairs draws
    two sentences of one paragraph together and keeps those of different documents apart (SDR).

    All settings are in a YAML file; the package has configs to start from (--list). What follows as key=value replaces
    what the file says. The run's folder (output) gets checkpoints, the log, the settings and, in its folder model, the
    trained model for --model of all other commands. A run that was interrupted goes on from its last checkpoint with
    --resume and ends as if nothing had been. Several processes train together under accelerate launch or torchrun.

    Usage examples:
      graphdoc pretrain --config quickstart
      graphdoc pretrain --config own_corpus corpus.source=papers/ output=runs/papers
      graphdoc pretrain --config own_corpus corpus.source=papers/ output=runs/papers --resume
      torchrun --nproc-per-node 8 -m graphdoc pretrain --config graph_roberta

    Args:
        overrides: settings that replace those of the file, such as training.epochs=3
    """
    return _run("pretrain", overrides, run, train)


def finetune(
    task: Annotated[str | None, Parameter(name="TASK")] = None,
    /,
    *overrides: Annotated[str, Parameter(name="KEY=VALUE")],
    run: RunOptions = RunOptions(),
    train: OwnTraining = None,
) -> int:
    """Train a model for a task, on documents with labels, pairs, queries or groups.

    classify trains a head that names the classes of documents, one each or any number. compare trains vectors that are
    close for documents that belong together (CoLDE), by labels, pairs or links. retrieve trains vectors of documents
    that are close to those of the queries they answer. views trains a model that tells whether two long documents
    match, view by view, and subtopics one that finds the subtopics of a pair (SST).

    All settings are in a YAML file; the package has configs to start from (--list). What follows as key=value replaces
    what the file says. The run's folder (output) gets checkpoints, the log, the settings and, in its folder model, the
    trained model. A run that was interrupted goes on from its last checkpoint with --resume.

    Usage examples:
      graphdoc finetune classify --config own_labels corpus.source=letters.csv
      graphdoc finetune compare --config own_pairs corpus.source=letters/ groups.file=pairs.tsv
      graphdoc finetune retrieve --config own_queries corpus.source=letters/
      graphdoc finetune views --config views_own_pairs corpus.source=papers/ pairs.file=pairs.tsv --resume
      graphdoc finetune subtopics --config subtopics corpus.source=papers/ pairs.file=pairs.tsv
      torchrun --nproc-per-node 8 -m graphdoc finetune compare --config colde

    Args:
        task: what the model is trained for: classify, compare, retrieve, views or subtopics
        overrides: settings that replace those of the file, such as training.epochs=3
    """
    return _run(f"finetune {task or ''}".strip(), overrides, run, train)


def _run(words: str, overrides: tuple[str, ...], options: RunOptions, train_with: Callable[..., Path] | None) -> int:
    """Train by settings, or do what the options say instead; gives the exit status."""
    if options.list_configs:
        _list_configs(words.partition(" ")[0])
        return 0
    if options.schema:
        recipes = [recipe for name, recipe in RECIPES.items() if f"{name} ".startswith(f"{words} ")]
        _print_schema(recipes or list(RECIPES.values()))
        return 0
    if words not in RECIPES:
        tasks = ", ".join(name.partition(" ")[2] for name in RECIPES if name.startswith("finetune "))
        raise SettingsError(f"{words.partition(' ')[2] or 'no task'}: give one of the tasks {tasks}")
    if options.config is None:
        raise SettingsError("--config is missing: a YAML file, or the name of one of the package (--list shows them)")
    others = shipped_configs().keys() - (own := shipped_configs(words.partition(" ")[0])).keys()
    if options.config in others and not Path(options.config).is_file():
        raise SettingsError(f"--config {options.config} is not one of {words}; there are {', '.join(own)}")
    settings = load_chosen(kinds_of(words), options.config, overrides)
    if options.show:
        print(settings.explained())
        return 0
    if settings.corpus.sources and all(map(is_missing_source, settings.corpus.sources)):
        OneDocument().documents(settings.corpus.sources)
    ModelOptions(model=settings.model.start).require()
    if options.prepare_only:
        _prepare(settings)
        return 0
    with quick_imports():
        from ..trainer import train
        from ..training.run_folder import MODEL_FOLDER
    model = (train_with or train)(settings, resume=options.resume, device=options.device)
    is_finished = model == settings.folder / MODEL_FOLDER
    if os.environ.get("RANK", "0") == "0":
        if is_finished:
            _print_results(settings.folder)
        Terminal().print(plain(f"wrote {model}"))
        if is_finished:
            command = settings.next_command.replace("MODEL", shlex.quote(one_line(str(model))))
            Terminal().print(plain(f"try it:  {command}"))
    return 0 if is_finished else STOPPED


def _prepare(settings: RunSettings) -> None:
    if settings.corpus.streaming:
        raise SettingsError("corpus.streaming=true: the run itself reads documents that are streamed")
    from ..corpus.corpus import prepare_run_corpus
    from ..training.run import load_segmenter

    segmenter, config = load_segmenter(settings.model)
    corpus = prepare_run_corpus(settings, segmenter, config.paragraph)
    Terminal().print(plain(f"{settings.corpus.name}: {corpus.report.summary()}"))
    Terminal().print(plain(f"ready in {corpus.folder}"))


def _print_results(folder: Path) -> None:
    from ..training.run_folder import read_results

    results = read_results(folder)
    parts = {name: results[name] for name in ("before", "after") if results.get(name)}
    if "after" not in parts:
        return
    rows = Table([names("measured"), *parts])
    for name in parts["after"]:
        numbers = (part.get(name) for part in parts.values())
        rows.add(name, *("" if number is None else f"{number:.4f}" for number in numbers))
    rows.print(Terminal())
    if (best := results.get("best")) and results.get("steps"):
        Terminal().print(plain(f"the best model measured is that of step {best['step']:,} of {results['steps']:,}"))


def _list_configs(command: str) -> None:
    """Print the configs of ``pretrain`` or ``finetune`` that the package has, with their first sentence."""
    rows = Table([names("config"), names("task"), names("what it is")])
    for name, path in shipped_configs(command).items():
        lines = [line.removeprefix("#").strip() for line in path.read_text(encoding="utf-8").splitlines()]
        task = _TASK.search(" ".join(lines)) if command == "finetune" else None
        about = _SENTENCE_END.split(" ".join(lines[: lines.index("")] if "" in lines else lines[:1]))[0]
        rows.add(name, task[1] if task else "", about)
    rows.print(Terminal())


def _print_schema(recipes: Sequence[RecipeTargets]) -> None:
    """Print a JSON Schema of the settings of some recipes, for editors."""
    schemas: list[dict[str, Any]] = [settings_of(recipe).model_json_schema() for recipe in recipes]
    definitions = {name: part for schema in schemas for name, part in schema.pop("$defs").items()}
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    print(json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "$defs": definitions}))
