"""Contrastive pretraining on sub-documents (Graph-RoBERTa, sections 2.2 and 3.2-3.3)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from tqdm.auto import tqdm

from ..encoder import DocumentEncoder
from ..evaluation import ClusteringEvaluator
from ..graphs.packing import Packing
from ..inference.precision import computed_in
from ..losses import ONE_PROCESS, SubDocumentContrast
from ..runtime.processes import Processes
from ..settings.sub_documents import PretrainingSettings
from ..training.launch import join_run
from ..training.loop import RunEvaluation
from ..training.objectives import ViewContrast
from ..training.run import TrainingRun
from ..training.starting_model import begin_training, load_start
from ..training.step import CachedStep
from ..training.task import Task
from ..training.training_card import training_card
from .held_out import HeldOutEvaluation, cluster_evaluation, score_of
from .sub_document_data import PretrainingData, open_data


def pretrain(
    settings: PretrainingSettings,
    *,
    resume: bool = False,
    device: str | torch.device | None = None,
    show_progress: bool | None = None,
) -> Path:
    """Pretrain a document model without labels.

    Args:
        settings: the settings.
        resume: go on with the run in the output folder from its last checkpoint.
        device: where to train; None takes an accelerator if there is one.
        show_progress: show bars; None shows them on a terminal.

    Returns:
        Folder of the trained model.

    Raises:
        GraphdocError: what the user can mend; the message says how.
    """
    with join_run(settings.training, device) as processes:
        encoder = load_start(settings.model, processes.device, settings.loss.similarity)
        begin_training(encoder, settings.model)
        encoder.name = settings.folder.name
        data = open_data(settings, encoder, processes, show_progress)
        objective = ViewContrast(SubDocumentContrast(**settings.loss.as_values()))
        run = TrainingRun(
            settings,
            encoder,
            [Task("sub_documents", data, objective)],
            processes,
            _evaluation(settings, encoder, data, objective, processes),
            [
                data.describe(),
                f"{data.steps:,} steps of {data.batch_size:,} documents: each is compared with "
                f"{data.batch_size - 1:,} negatives, by {settings.loss.similarity} at temperature "
                f"{settings.loss.temperature:g}",
            ],
            lambda record, results: training_card(settings, _told(settings), record, data.report, results),
            show_progress,
        )
        result = run.start(resume)
        if settings.corpus.streaming and processes.is_first:
            # A stored corpus says it before the first step.
            share = f" (share of the first of {processes.count} processes)" if processes.count > 1 else ""
            tqdm.write(f"streamed in the last epoch{share}: {data.report.summary()}")
        return result


def _told(settings: PretrainingSettings) -> str:
    """How the model was trained, in a sentence for its card."""
    loss, training = settings.loss, settings.training
    return (
        f"Contrastive pretraining between sub-documents (split `{settings.split}`) without labels: InfoNCE on "
        f"{loss.similarity} similarity at temperature {loss.temperature:g}, batches of {training.batch_size:,} "
        f"documents, {training.epochs:g} epochs, {settings.model.tune} passage encoder."
    )


def _evaluation(
    settings: PretrainingSettings,
    encoder: DocumentEncoder,
    data: PretrainingData,
    objective: ViewContrast,
    processes: Processes,
) -> RunEvaluation | None:
    """Loss on documents held out, and clustering of labelled documents, as far as they are asked for."""
    evaluation = settings.evaluation
    if not evaluation.measures:
        return None
    clustering: ClusteringEvaluator | None = None
    is_ready = False
    precision = None if settings.training.precision == "float32" else settings.training.precision

    def read() -> None:
        nonlocal clustering
        clustering = cluster_evaluation(evaluation, precision)

    processes.run_first(read)
    held_out = None
    if data.held_out:
        model = encoder.model
        step = CachedStep(
            model,
            objective,
            precision=lambda: computed_in(precision, model.passage_encoder, "the model"),
            packing=Packing.on(model.device, settings.training.token_budget, settings.training.padding),
            gather=ONE_PROCESS,
        )
        held_out = HeldOutEvaluation(step, data.held_out)

    def measure() -> Mapping[str, float]:
        nonlocal clustering, is_ready
        if clustering is not None and not is_ready:
            clustering = clustering.prepared(encoder, encode_passages=settings.model.tune == "frozen")
            is_ready = True
        scores = held_out() if held_out is not None else {}
        return scores | (score_of(encoder, clustering) if clustering is not None else {})

    best = evaluation.best or ("nmi" if evaluation.clusters else "loss")
    return RunEvaluation(measure, best, not best.endswith("loss"), evaluation.at_start)
