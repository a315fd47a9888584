"""Contrastive pretraining on sub-documents (Graph-RoBERTa, sections 2.2 and 3.2-3.3)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Unpack

from ..losses import SubDocumentContrast
from ..sampling import SubDocuments
from ..settings.sub_documents import PretrainingSettings
from ..training.loop import RunEvaluation
from ..training.objectives import ViewContrast
from ..training.starting_model import begin_training
from ..training.task import Task
from .base import Recipe, RunOptions, Start, prepared_once, train, transformer_precision
from .held_out import HeldOutEvaluation, cluster_evaluation, measuring_step, score_of
from .sub_document_data import PretrainingData, open_data


def pretrain(settings: PretrainingSettings, **options: Unpack[RunOptions]) -> Path:
    """Pretrain a document model without labels (see :func:`~graphdoc.recipes.base.train`)."""
    return train(settings, recipe, **options)


def recipe(start: Start[PretrainingSettings]) -> Recipe:
    """Data, objective and evaluation of the model that the run starts from."""
    settings, encoder, processes = start.settings, start.encoder, start.processes
    begin_training(encoder, settings.model)
    data = open_data(start, SubDocuments(settings.split, settings.training.seed))
    objective = ViewContrast(SubDocumentContrast(**settings.loss.as_values()))
    steps = (
        f"{data.steps:,} steps of {data.batch_size:,} documents: each is compared with {data.batch_size - 1:,} "
        f"negatives, by {settings.loss.similarity} at temperature {settings.loss.temperature:g}"
    )

    def streamed() -> str:
        share = f" (share of the first of {processes.count} processes)" if processes.count > 1 else ""
        return f"streamed in the last epoch{share}: {data.report.summary()}"

    return Recipe(
        Task("sub_documents", data, objective),
        data,
        evaluation_of(start, data, objective),
        [steps],
        _how(settings),
        # A stored corpus says it before the first step.
        streamed if settings.corpus.streaming else None,
    )


def _how(settings: PretrainingSettings) -> str:
    """How the model was trained, in a sentence for its card."""
    loss, training = settings.loss, settings.training
    return (
        f"Contrastive pretraining between sub-documents (split `{settings.split}`) without labels: InfoNCE on "
        f"{loss.similarity} similarity at temperature {loss.temperature:g}, batches of {training.batch_size:,} "
        f"documents, {training.epochs:g} epochs, {settings.model.tune} passage encoder."
    )


def evaluation_of(
    start: Start[PretrainingSettings], data: PretrainingData, objective: ViewContrast
) -> RunEvaluation | None:
    """Loss on documents held out, and clustering of labelled documents, as far as they are asked for."""
    settings, encoder, evaluation = start.settings, start.encoder, start.settings.evaluation
    if not evaluation.measures:
        return None
    precision = transformer_precision(settings.training)
    ready = prepared_once(start, lambda: cluster_evaluation(evaluation, precision))
    held_out = HeldOutEvaluation(measuring_step(start, objective), data.held_out) if data.held_out else None

    def measure() -> Mapping[str, float]:
        clustering = ready()
        scores = held_out() if held_out is not None else {}
        return scores | (score_of(encoder, clustering) if clustering is not None else {})

    best = evaluation.best or ("nmi" if evaluation.clusters else "loss")
    return RunEvaluation(measure, best, not best.endswith("loss"), evaluation.at_start)
