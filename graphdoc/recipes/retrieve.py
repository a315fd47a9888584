"""Training a model to find documents by queries (Graph-RoBERTa, section 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Unpack

from ..losses import InfoNCE
from ..settings.retrieve import RetrievalSettings
from ..training.objectives import BestPassageContrast, Objective, QueryContrast
from ..training.starting_model import begin_training
from ..training.task import Task
from .base import Recipe, RunOptions, Start, train
from .query_sets import QuerySets, read_query_sets
from .ranking_validation import encoded_documents, evaluation_of, write_test_run
from .retrieve_data import RetrievalData


def train_retrieval(settings: RetrievalSettings, **options: Unpack[RunOptions]) -> Path:
    """Train a model to find documents by queries (see :func:`~graphdoc.recipes.base.train`)."""
    return train(settings, recipe, **options)


def recipe(start: Start[RetrievalSettings]) -> Recipe:
    """Data, objective and evaluation of the model that the run starts from."""
    settings, encoder = start.settings, start.encoder
    # A head would read vectors that are no longer those it was trained on.
    encoder.model.remove_head()
    begin_training(encoder, settings.model)
    # Before the corpus is made ready, which takes longer than finding a mistake in the queries.
    sets = queries_of(start)
    data = RetrievalData(start, sets)
    is_ranked = sets.test is not None or (sets.validation is not None and settings.validation.documents is None)
    encoded = encoded_documents(start) if settings.model.tune == "frozen" and is_ranked else None
    return Recipe(
        Task("retrieve", data, objective_of(settings)),
        data,
        evaluation_of(start, sets, encoded),
        _announcement(settings, data, sets),
        _how(settings, data),
        partial(write_test_run, start, sets, encoded) if sets.test is not None else None,
    )


def queries_of(start: Start[RetrievalSettings]) -> QuerySets:
    """The queries of the run, read once and given to all processes."""
    found: list[QuerySets] = []
    start.processes.run_first(lambda: found.append(read_query_sets(start.settings)))
    (sets,) = start.processes.gather(found)[0]
    return sets


def objective_of(settings: RetrievalSettings) -> Objective:
    """What the model is trained for."""
    contrast = InfoNCE(settings.loss.similarity, settings.loss.temperature)
    return QueryContrast(contrast) if settings.loss.unit == "document" else BestPassageContrast(contrast)


def _announcement(settings: RetrievalSettings, data: RetrievalData, sets: QuerySets) -> Sequence[str]:
    """What is going to happen, in lines."""
    lines = sets.describe()
    if sets.validation is None:
        lines.append("no queries to measure (validation.share): the last model is the result")
    return [
        *lines,
        f"{data.steps:,} steps of {data.batch_size:,} pairs; {data.negatives_line()}; {_loss_words(settings)}",
    ]


def _loss_words(settings: RetrievalSettings) -> str:
    loss = settings.loss
    of = "" if loss.unit == "document" else " of the three best passages"
    return f"{'dot products' if loss.similarity == 'dot' else 'cosines'}{of}, temperature {loss.temperature:g}"


def _how(settings: RetrievalSettings, data: RetrievalData) -> str:
    """How the model was trained, in a sentence for its card."""
    training, queries = settings.training, settings.queries
    what = f"made of {', '.join(queries.made_from)}" if queries.made_from else f"of {queries.source}"
    return (
        f"Retrieval of documents by queries {what}: {_loss_words(settings)}, {data.negatives_line()}, batches of "
        f"{training.batch_size:,} pairs, {training.epochs:g} epochs, {settings.model.tune} passage encoder."
    )
