"""Training on the vectors of a teacher (Tung and Mori 2019; Fang et al. 2021)."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from ..errors import SettingsError
from ..losses import CosineMatching
from ..settings.distillation import DistillationSettings
from ..training.loop import RunEvaluation
from ..training.objectives import TeacherMatching
from ..training.starting_model import begin_training
from ..training.task import Task
from .base import Recipe, RunOptions, Start, train
from .distillation_data import DistillationData
from .held_out import HeldOutEvaluation, measuring_step


def pretrain(settings: DistillationSettings, **options: Unpack[RunOptions]) -> Path:
    """Train a model on the vectors of a teacher (see :func:`~graphdoc.recipes.base.train`)."""
    return train(settings, recipe, **options)


def recipe(start: Start[DistillationSettings]) -> Recipe:
    """Data, objective and evaluation of the model that the run starts from."""
    settings = start.settings
    data = DistillationData(start)
    begin_distillation(start, data.teacher.level)
    objective = TeacherMatching(CosineMatching(settings.loss.temperature), data.teacher.level == "passage")
    return Recipe(
        Task("distillation", data, objective),
        data,
        evaluation_of(start, data, objective),
        [f"{data.steps:,} steps of {data.batch_size:,} documents; {_loss(settings)}"],
        _how(settings, data),
    )


def begin_distillation(start: Start[DistillationSettings], level: str) -> None:
    """Mark the weights that are trained.

    Args:
        start: what the recipe begins with.
        level: what the teacher has vectors of; of passages, the readout stays as it is.

    Raises:
        SettingsError: the readout is new, and would not be trained.
    """
    model, settings = start.encoder.model, start.settings
    # A head would read vectors that are no longer those it was trained on.
    model.remove_head()
    has_weights = any(True for _ in model.readout.parameters())
    if level == "passage" and has_weights and not model.config.trained:
        raise SettingsError(
            f"model.settings.readout={model.config.readout} on {settings.model.start} has new weights, which passages "
            "do not train; set model.settings.readout=mean, or encode the teacher's vectors with --level document"
        )
    begin_training(start.encoder, settings.model)
    if level == "passage":
        model.readout.requires_grad_(False)


def evaluation_of(
    start: Start[DistillationSettings], data: DistillationData, objective: TeacherMatching
) -> RunEvaluation | None:
    """How the model is measured meanwhile: on documents that are held out, if there are any."""
    evaluation = start.settings.evaluation
    if not data.held_out:
        return None
    measure = HeldOutEvaluation(measuring_step(start, objective), data.held_out)
    lower_is_better = evaluation.best in ("loss", "cosine_error")
    return RunEvaluation(measure, evaluation.best, not lower_is_better, evaluation.at_start)


def _loss(settings: DistillationSettings) -> str:
    temperature = settings.loss.temperature
    return "squares of cosines" if temperature is None else f"divergence of neighbours at temperature {temperature:g}"


def _how(settings: DistillationSettings, data: DistillationData) -> str:
    """How the model was trained, in a sentence for its card."""
    training = settings.training
    return (
        f"Distillation of the cosines that a teacher gives between {data.teacher.level}s: {_loss(settings)}, batches "
        f"of {training.batch_size:,} documents of one corpus, {training.epochs:g} epochs, {settings.model.tune} "
        "passage encoder."
    )
