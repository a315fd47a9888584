"""Training a model to compare documents, by supervised contrast of their sections (CoLDE, section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from ..errors import SettingsError
from ..losses import PairCosine, SupervisedContrastive
from ..modeling import DocumentModel
from ..settings.compare import ComparisonSettings
from ..training.launch import join_run
from ..training.objectives import Objective, PairSimilarity, SectionContrast
from ..training.run import TrainingRun
from ..training.starting_model import begin_training, load_start
from ..training.task import Task
from ..training.training_card import training_card
from .compare_data import GroupedData, PairedData
from .pair_validation import PairValidation


def train_comparison(
    settings: ComparisonSettings,
    *,
    resume: bool = False,
    device: str | torch.device | None = None,
    show_progress: bool | None = None,
) -> Path:
    """Train a model whose document vectors tell documents that belong together from others.

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
        encoder = load_start(settings.model, processes.device, "cosine")
        _require_sections(settings, encoder.model)
        encoder.name = settings.folder.name
        # A head would read vectors that are no longer those it was trained on.
        encoder.model.remove_head()
        begin_training(encoder, settings.model)
        # Before the corpus is made ready, which takes longer than finding a mistake in the pairs.
        validation = PairValidation(settings, encoder, processes) if settings.validation.pairs else None
        make = GroupedData if settings.loss.kind == "contrastive" else PairedData
        data = make(settings, encoder, processes, show_progress)
        run = TrainingRun(
            settings,
            encoder,
            [Task("compare", data, _objective(settings))],
            processes,
            validation.evaluation() if validation else None,
            _announcement(settings, data, validation) if processes.is_first else (),
            lambda record, results: training_card(settings, _told(settings), record, data.report, results),
            show_progress,
        )
        return run.start(resume)


def _require_sections(settings: ComparisonSettings, model: DocumentModel) -> None:
    """Refuse sections that the model cannot read.

    Raises:
        SettingsError: it has no vectors of sections, or too small a table of them.
    """
    number, config = settings.sections.number, model.config
    if number > 1 and not model.readout.has_sections:
        raise SettingsError(
            f"sections.number={number} needs a model that reads sections, and the readout of {settings.model.start} "
            f"is {config.readout}; set model.settings.readout=sections, or sections.number=1"
        )
    if config.structural_embeddings and number > config.structural_sections:
        raise SettingsError(
            f"sections.number={number} is more than the model has embeddings for; set "
            f"model.settings.structural_sections={number}, or fewer sections"
        )


def _objective(settings: ComparisonSettings) -> Objective:
    if settings.loss.kind == "cosine":
        return PairSimilarity(PairCosine(settings.loss.margin))
    return SectionContrast(SupervisedContrastive(settings.loss.temperature))


def _announcement(
    settings: ComparisonSettings, data: GroupedData | PairedData, validation: PairValidation | None
) -> Sequence[str]:
    """What is going to happen, in lines."""
    unit = "documents" if settings.loss.kind == "contrastive" else "pairs"
    measured = "no pairs to measure (validation.pairs): the last model is the result"
    return [
        *data.describe(),
        measured if validation is None else validation.describe(data.ids),
        f"{data.steps:,} steps of {data.batch_size:,} {unit}, {_how(settings)}",
    ]


def _how(settings: ComparisonSettings) -> str:
    """How documents are compared in training, in a few words."""
    loss, sections = settings.loss, settings.sections
    split = f"split into up to {sections.number} sections" if sections.number > 1 else "whole"
    by = f"temperature {loss.temperature:g}" if loss.kind == "contrastive" else f"margin {loss.margin:g}"
    return f"{split}; {loss.kind} loss, {by}"


def _told(settings: ComparisonSettings) -> str:
    """How the model was trained, in a sentence for its card."""
    training, groups = settings.training, settings.groups
    what = "label" if groups.by == "label" else f"{groups.by} in {groups.file}"
    return (
        f"Comparison of documents that belong together by {what}: {_how(settings)}, batches of "
        f"{training.batch_size:,} documents, {training.epochs:g} epochs, {settings.model.tune} passage encoder."
    )
