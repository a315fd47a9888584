"""Training a model to compare documents, by supervised contrast of their sections (CoLDE, section 3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Unpack

from ..errors import SettingsError
from ..losses import PairCosine, SupervisedContrastive
from ..modeling import DocumentModel
from ..settings.compare import LOSS_KINDS, ComparisonLossSettings, ComparisonSettings
from ..similarity.kinds import similarity_of
from ..training.objectives import Objective, PairMaxSim, PairSimilarity, SectionContrast
from ..training.starting_model import begin_training
from ..training.task import Task
from .base import Recipe, RunOptions, Start, train
from .compare_data import GroupedData, PairedData
from .pair_validation import PairValidation


def train_comparison(settings: ComparisonSettings, **options: Unpack[RunOptions]) -> Path:
    """Train a model to compare documents that belong together or not (see :func:`~graphdoc.recipes.base.train`)."""
    return train(settings, recipe, **options)


def recipe(start: Start[ComparisonSettings]) -> Recipe:
    """Data, objective and evaluation of the model that the run starts from."""
    settings, encoder = start.settings, start.encoder
    require_sections(settings, encoder.model)
    # A head would read vectors that are no longer those it was trained on.
    encoder.model.remove_head()
    begin_training(encoder, settings.model)
    # Before the corpus is made ready, which takes longer than finding a mistake in the pairs.
    validation = PairValidation(start) if settings.validation.pairs else None
    data = data_of(start)
    return Recipe(
        Task("compare", data, objective_of(settings, encoder.model)),
        data,
        validation.evaluation() if validation else None,
        _announcement(settings, data, validation) if start.processes.is_first else (),
        _how(settings),
    )


def data_of(start: Start[ComparisonSettings]) -> GroupedData | PairedData:
    """The documents, in groups or in pairs as the loss takes them."""
    return PairedData(start) if start.settings.loss.takes_pairs else GroupedData(start)


def require_sections(settings: ComparisonSettings, model: DocumentModel) -> None:
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


# By the kind of loss; which settings it has and what it is computed of is in settings.compare.LOSS_KINDS.
OBJECTIVES: dict[str, Callable[[ComparisonLossSettings], Objective]] = {
    "contrastive": lambda loss: SectionContrast(SupervisedContrastive(loss.temperature)),
    "cosine": lambda loss: PairSimilarity(PairCosine(loss.margin)),
}


# Of models that compare documents passage by passage.
PASSAGE_OBJECTIVES: dict[str, Callable[[ComparisonLossSettings], Objective]] = {
    "cosine": lambda loss: PairMaxSim(PairCosine(loss.margin)),
}


def objective_of(settings: ComparisonSettings, model: DocumentModel) -> Objective:
    """What the model is trained for.

    Raises:
        SettingsError: the loss cannot be computed as the model compares documents.
    """
    loss, similarity = settings.loss, model.config.similarity
    if not similarity_of(similarity).reads_passages:
        return OBJECTIVES[loss.kind](loss)
    if loss.kind not in PASSAGE_OBJECTIVES:
        raise SettingsError(
            f"loss.kind={loss.kind} trains document vectors, and model.settings.similarity={similarity} compares "
            f"passages; set loss.kind={' or '.join(PASSAGE_OBJECTIVES)} and groups.by=pairs, or another similarity"
        )
    return PASSAGE_OBJECTIVES[loss.kind](loss)


def _announcement(
    settings: ComparisonSettings, data: GroupedData | PairedData, validation: PairValidation | None
) -> Sequence[str]:
    """What is going to happen, in lines."""
    unit = "pairs" if settings.loss.takes_pairs else "documents"
    measured = "no pairs to measure (validation.pairs): the last model is the result"
    return [
        measured if validation is None else validation.describe(data.ids),
        f"{data.steps:,} steps of {data.batch_size:,} {unit}, {_split_and_loss(settings)}",
    ]


def _split_and_loss(settings: ComparisonSettings) -> str:
    """How documents are compared in training, in a few words."""
    loss, sections = settings.loss, settings.sections
    split = f"split into up to {sections.number} sections" if sections.number > 1 else "whole"
    own = "".join(f", {name} {getattr(loss, name):g}" for name in LOSS_KINDS[loss.kind].own)
    return f"{split}; {loss.kind} loss{own}"


def _how(settings: ComparisonSettings) -> str:
    """How the model was trained, in a sentence for its card."""
    training, groups = settings.training, settings.groups
    what = "label" if groups.by == "label" else f"{groups.by} in {groups.file}"
    return (
        f"Comparison of documents that belong together by {what}: {_split_and_loss(settings)}, batches of "
        f"{training.batch_size:,} documents, {training.epochs:g} epochs, {settings.model.tune} passage encoder."
    )
