"""Training a model to match pairs of long documents, view by view (SST, section 3.4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Unpack

from ..checkpoints.folders import checkpoint_folder
from ..encoder import DocumentEncoder
from ..errors import SettingsError
from ..losses import ClassificationLoss, InfoNCE, PairCosine
from ..registry import SUBTOPICS, VIEW_READERS, load
from ..settings.view_training import LOSS_KINDS, ViewLossSettings, ViewRunSettings
from ..settings.views import DEFAULT_SUBTOPIC_MODEL
from ..training.objectives import Classification, Objective, PairSimilarity, QueryContrast
from ..training.starting_model import begin_training
from ..training.task import Task
from .base import Recipe, RunOptions, Start, train
from .pair_validation import PairValidation
from .view_data import ViewData


def train_views(settings: ViewRunSettings, **options: Unpack[RunOptions]) -> Path:
    """Train a model to match pairs of documents view by view (see :func:`~graphdoc.recipes.base.train`)."""
    return train(settings, recipe, **options)


def recipe(start: Start[ViewRunSettings]) -> Recipe:
    """Data, objective and evaluation of the model that the run starts from."""
    settings = start.settings
    begin_views(start.encoder, settings)
    validation = PairValidation(start) if settings.validation.pairs else None
    data = ViewData(start)
    return Recipe(
        Task("views", data, objective_of(settings)),
        data,
        validation.evaluation() if validation else None,
        _announcement(settings, data, validation) if start.processes.is_first else (),
        _how(settings),
    )


def begin_views(encoder: DocumentEncoder, settings: ViewRunSettings) -> None:
    """Give a model the settings of its views, and a head where views are read together.

    Args:
        encoder: the encoder around the model.
        settings: the settings of the run.

    Raises:
        ModelError: there is no model of that name to find subtopics by.
        SettingsError: the model has graph layers, through which views would not go.
    """
    model = encoder.model
    if model.config.graph_layers:
        raise SettingsError(
            f"model.settings.graph_layers={model.config.graph_layers}: a view is one passage, which has no graph; set "
            "model.settings.graph_layers=0"
        )
    reader = load(VIEW_READERS[settings.views.encoder])
    if not reader.labels:
        # A head would read vectors that are no longer those it was trained on.
        model.remove_head()
    elif model.config.labels != list(reader.labels):
        model.add_head(reader.labels)
    model.config.views = settings.views.as_values()
    finder = load(SUBTOPICS[settings.views.subtopics])
    named = settings.views.subtopic_model or (DEFAULT_SUBTOPIC_MODEL if finder.reads_vectors else None)
    model.subtopic_folder = None if named is None else checkpoint_folder(named)
    begin_training(encoder, settings.model)


# By the kind of loss; which settings it has is in settings.view_training.LOSS_KINDS.
OBJECTIVES: dict[str, Callable[[ViewLossSettings], Objective]] = {
    "cross_entropy": lambda loss: Classification(ClassificationLoss()),
    "cosine": lambda loss: PairSimilarity(PairCosine(loss.margin)),
    "contrast": lambda loss: QueryContrast(InfoNCE("cosine", loss.temperature), once=False),
}


def objective_of(settings: ViewRunSettings) -> Objective:
    """What the model is trained for."""
    return OBJECTIVES[settings.loss.kind](settings.loss)


def _announcement(settings: ViewRunSettings, data: ViewData, validation: PairValidation | None) -> Sequence[str]:
    """What is going to happen, in lines."""
    measured = "no pairs to measure (validation.pairs): the last model is the result"
    return [
        measured if validation is None else validation.describe(data.found.ids),
        f"{data.steps:,} steps of {data.batch_size:,} pairs; {_views_and_loss(settings)}",
    ]


def _views_and_loss(settings: ViewRunSettings) -> str:
    """How pairs are read and learned, in a few words."""
    views, loss = settings.views, settings.loss
    own = "".join(f", {name} {getattr(loss, name):g}" for name in LOSS_KINDS[loss.kind].own)
    drawn = f"{views.sampling} views of {views.view_tokens} tokens by {views.subtopics}"
    if views.together:
        drawn += f", {views.views} at once"
    which = "another one in every epoch" if settings.training_views == "every_epoch" else "always the same"
    if settings.pool_order == "likelihood":
        which += (
            f", of the {settings.pool_range or settings.views_drawn} most likely of {settings.views_drawn} in order"
        )
    return f"{drawn}, {which}; {views.encoder} encoder, {loss.kind} loss{own}"


def _how(settings: ViewRunSettings) -> str:
    """How the model was trained, in a sentence for its card."""
    training = settings.training
    return (
        f"Matching of pairs of documents view by view (SST): {_views_and_loss(settings)}, batches of "
        f"{training.batch_size:,} pairs, {training.epochs:g} epochs, {settings.model.tune} passage encoder."
    )
