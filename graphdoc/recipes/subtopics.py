"""Learning the subtopics of pairs of documents (SST, section 3.2, "Adaptive Clustering")."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Unpack, cast

from ..encoder import DocumentEncoder
from ..errors import SettingsError
from ..losses import SubtopicLoss
from ..modeling.graph_attention import GraphAttention
from ..settings.clustering import ClusteringSettings
from ..settings.subtopics import SubtopicLossSettings, SubtopicRunSettings
from ..subtopics.clustering import number_of_subtopics
from ..training.starting_model import begin_training
from ..training.subtopics import SubtopicClusters
from ..training.task import Task
from .base import Recipe, RunOptions, Start, train
from .subtopic_data import SubtopicData
from .subtopic_validation import SubtopicValidation


def train_subtopics(settings: SubtopicRunSettings, **options: Unpack[RunOptions]) -> Path:
    """Train a model to find the subtopics of pairs (see :func:`~graphdoc.recipes.base.train`)."""
    return train(settings, recipe, **options)


def recipe(start: Start[SubtopicRunSettings]) -> Recipe:
    """Data, objective and evaluation of the model that the run starts from."""
    settings = start.settings
    begin_subtopics(start.encoder, settings)
    objective = objective_of(settings.loss)
    validation = SubtopicValidation(start, objective) if settings.validation.pairs else None
    data = SubtopicData(start)
    return Recipe(
        Task("subtopics", data, objective),
        data,
        validation.evaluation() if validation else None,
        _announcement(settings, data, validation) if start.processes.is_first else (),
        _how(settings),
    )


def begin_subtopics(encoder: DocumentEncoder, settings: SubtopicRunSettings) -> None:
    """Give a model the head that puts sentences into subtopics, where it has none of the same kind.

    Documents are cut into sentences from then on, and their vectors stay what they were: means of passage vectors
    before the graph, which no pair is needed for.

    Args:
        encoder: the encoder around the model.
        settings: the settings of the run.

    Raises:
        SettingsError: the model has no graph layers, or its vectors depend on them.
    """
    model = encoder.model
    config, subtopics = model.config, settings.subtopics
    if not config.graph_layers:
        raise SettingsError("model.settings.graph_layers=0: subtopics are read off graph layers; set it to 1 or more")
    if not model.reads_initial_nodes:
        raise SettingsError(
            f"model.settings.readout={config.readout} reads graphs of single documents, and the graphs here are of "
            "pairs; set model.settings.readout=initial_mean"
        )
    if config.structural_embeddings:
        raise SettingsError("model.settings.structural_embeddings=true: sentences have none; set it to false")
    field = settings.corpus.max_passages
    wanted = ClusteringSettings(
        columns=number_of_subtopics(2 * field, subtopics.cluster_size),
        neighbours=subtopics.neighbours,
        receptive_field=field,
        cluster_size=subtopics.cluster_size,
    )
    # A head for classes would read vectors of other passages.
    model.remove_head(subtopics=False)
    if config.subtopics != wanted.as_values():
        model.add_subtopic_head(wanted)
    was_trained = config.trained
    begin_training(encoder, settings.model, subtopics=True)
    # All sentences share it, and the head takes off what they share: its gradient is nothing but rounding.
    cast(GraphAttention, model.graph.layers[-1]).conv.bias.requires_grad_(False)
    config.unit = "sentence"
    # What is trained here are subtopics, not the vectors of documents.
    config.trained = was_trained


def objective_of(loss: SubtopicLossSettings) -> SubtopicClusters:
    """What the model is trained for."""
    return SubtopicClusters(
        SubtopicLoss(loss.divergence, loss.orthogonality, loss.similar_weight, loss.dissimilar_weight)
    )


def _announcement(
    settings: SubtopicRunSettings, data: SubtopicData, validation: SubtopicValidation | None
) -> Sequence[str]:
    """What is going to happen, in lines."""
    measured = "no pairs to measure (validation.pairs): the last model is the result"
    return [
        measured if validation is None else validation.describe(data.found.ids),
        f"{data.steps:,} steps of {data.batch_size:,} pairs, half of them similar; {_graph_and_loss(settings)}",
    ]


def _graph_and_loss(settings: SubtopicRunSettings) -> str:
    """How pairs are read and clustered, in a few words."""
    subtopics, loss = settings.subtopics, settings.loss
    graph = "all" if subtopics.neighbours is None else f"{subtopics.neighbours:,} similar"
    return (
        f"{graph} neighbours, a subtopic for every {subtopics.cluster_size:,} sentences; modularity and collapse, "
        f"{loss.similar_weight:g} x divergence ({loss.divergence}) of similar pairs, {loss.dissimilar_weight:g} x "
        f"orthogonality ({loss.orthogonality}) of the others"
    )


def _how(settings: SubtopicRunSettings) -> str:
    """How the model was trained, in a sentence for its card."""
    training = settings.training
    return (
        f"Subtopics of pairs of documents (SST, section 3.2): {_graph_and_loss(settings)}; first "
        f"{settings.corpus.max_passages:,} sentences of a document, batches of {training.batch_size:,} pairs, "
        f"{training.epochs:g} epochs."
    )
