"""What all recipes share: a model to start from, the processes of a run, its announcement and its card."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Generic, Protocol, TypedDict, TypeVar, Unpack

import torch
from tqdm.auto import tqdm

from ..corpus.report import CorpusReport
from ..encoder import DocumentEncoder
from ..evaluation.evaluator import Evaluator
from ..inference.precision import Precision
from ..runtime.processes import Processes
from ..runtime.text import printable
from ..settings.run import RunSettings
from ..settings.training import TrainingSettings
from ..training.launch import join_run
from ..training.loop import RunEvaluation
from ..training.run import TrainingRun
from ..training.starting_model import load_start, settings_of_run
from ..training.task import Task
from ..training.training_card import training_card

Settings = TypeVar("Settings", bound=RunSettings)
AnyEvaluator = TypeVar("AnyEvaluator", bound=Evaluator)


class RunOptions(TypedDict, total=False):
    """What a run is given beside its settings.

    Args:
        resume: go on with the run in the output folder from its last checkpoint.
        device: where to train; None takes an accelerator if there is one.
        show_progress: show bars; None shows them on a terminal.
    """

    resume: bool
    device: str | torch.device | None
    show_progress: bool | None


class RecipeData(Protocol):
    """What a recipe says of its data."""

    @property
    def report(self) -> CorpusReport:
        """What was read, kept and left out."""
        ...

    def describe(self) -> list[str]:
        """What there is to train on, in a few lines."""
        ...


@dataclass(frozen=True)
class Start(Generic[Settings]):
    """What every recipe begins with.

    Args:
        settings: the settings of the run.
        encoder: the model that the run starts from, and its tokenizer.
        processes: the processes that train together.
        show_progress: show bars; None shows them on a terminal.
    """

    settings: Settings
    encoder: DocumentEncoder
    processes: Processes
    show_progress: bool | None = None


@dataclass(frozen=True)
class Recipe:
    """What a model is trained for and how it is measured.

    Args:
        task: data and objective.
        data: the data of the task, as it is announced and reported.
        evaluation: how the model is measured meanwhile; None for not at all.
        announcement: further lines that say what is going to happen.
        how: how the model is trained, in a sentence for its card.
        last_words: makes a line that is said when the run is over.
    """

    task: Task
    data: RecipeData
    evaluation: RunEvaluation | None
    announcement: Sequence[str]
    how: str
    last_words: Callable[[], str] | None = None


def train(settings: Settings, make: Callable[[Start[Settings]], Recipe], **options: Unpack[RunOptions]) -> Path:
    """Train a model by a recipe, alone or as one of the processes that a launcher started.

    Args:
        settings: the settings.
        make: makes the recipe of the model that the run starts from.
        options: see :class:`RunOptions`.

    Returns:
        Folder of the trained model.

    Raises:
        GraphdocError: what the user can mend; the message says how.
    """
    show_progress = options.get("show_progress")
    with join_run(settings.training, options.get("device")) as processes:
        begun = settings_of_run(settings.folder) if options.get("resume") else None
        encoder = load_start(settings.model, processes.device, settings.similarity, begun)
        encoder.name = settings.folder.name
        recipe = make(Start(settings, encoder, processes, show_progress))
        run = TrainingRun(
            settings,
            encoder,
            [recipe.task],
            processes,
            recipe.evaluation,
            [*recipe.data.describe(), *recipe.announcement] if processes.is_first else (),
            lambda record, results: training_card(settings, recipe.how, record, recipe.data.report, results),
            show_progress,
        )
        result = run.start(options.get("resume", False))
        if recipe.last_words is not None and processes.is_first:
            tqdm.write(printable(recipe.last_words()))
        return result


def prepared_once(start: Start[Any], read: Callable[[], AnyEvaluator | None]) -> Callable[[], AnyEvaluator | None]:
    """Read an evaluator, and prepare its documents when it is first asked for; in the first process, which measures.

    Args:
        start: what the recipe begins with.
        read: reads the evaluator's documents; may give None.

    Returns:
        Gives the evaluator, whose documents are cut once, and encoded once as far as the encoder stands still.
    """
    found: list[AnyEvaluator | None] = []
    start.processes.run_first(lambda: found.append(read()))

    @cache
    def ready() -> AnyEvaluator | None:
        (evaluator,) = found
        is_frozen = start.settings.model.tune == "frozen"
        return None if evaluator is None else evaluator.prepared(start.encoder, encode_passages=is_frozen)

    return ready


def transformer_precision(training: TrainingSettings) -> Precision | None:
    """Precision that the transformer is measured in, which is that of training; None is that of its weights."""
    return None if training.precision == "float32" else training.precision
