"""Contrastive pretraining on sub-documents (Graph-RoBERTa, sections 2.2 and 3.2-3.3)."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch

from ..corpus.document import CorpusReport
from ..corpus.parts import PassageVectors
from ..corpus.source import StreamingCorpus
from ..errors import ModelError, SettingsError
from ..graphs.kinds import GraphKind, JoinedGraphs
from ..losses import SubDocumentContrast
from ..sampling import EpochBatches, SubDocumentSplit
from ..settings.pretraining import PretrainingSettings
from ..training.data import Collate, StreamLoader, TaskData, TrainingBatch, TrainingExample
from ..training.loop import RunEvaluation
from ..training.objectives import ViewContrast
from ..training.run import Recipe, RunContext, begin_training
from ..training.step import CachedStep
from .base import (
    HELD_OUT_EPOCH,
    CorpusData,
    RunOptions,
    VectorsOfDocuments,
    batch_of_parts,
    measuring_step,
    train,
    vectors_at,
)

logger = logging.getLogger(__name__)


def pretrain(settings: PretrainingSettings, **options: Unpack[RunOptions]) -> Path:
    """Pretrain a document model without labels (see :func:`~graphdoc.recipes.base.train`)."""
    return train(settings, recipe, **options)


def recipe(run: RunContext[PretrainingSettings]) -> Recipe:
    """Data, objective and evaluation of the model that the run starts from."""
    settings = run.settings
    begin_training(run.encoder, settings.model)
    if settings.split == "one_passage":
        run.encoder.model.config.search_by = "document"
    objective = ViewContrast(run.loss or SubDocumentContrast(**settings.loss.as_values()))
    how = "Contrast between sub-documents, without labels (Graph-RoBERTa)"
    if settings.corpus.streaming:
        stream = StreamedData(run)
        # A stored corpus says it before the first step.
        return Recipe(
            stream, objective, None, how, last_words=lambda: f"streamed in the last epoch: {stream.report.summary()}"
        )
    data = SubDocumentData(run)
    evaluation = None
    if settings.is_measured:
        # Always the same batches and sub-documents, made when they are first measured.
        step, batches, best = measuring_step(run, objective), cache(data.held_out_batches), settings.validation.best
        evaluation = RunEvaluation(lambda: held_out_scores(step, batches()), best, not best.endswith("loss"))
    return Recipe(data, objective, evaluation, how)


def sub_document_batch(
    examples: Sequence[TrainingExample],
    split: SubDocumentSplit,
    epoch: int,
    *,
    graph: GraphKind | str | None = "full",
    passage_vectors: VectorsOfDocuments | None = None,
) -> TrainingBatch:
    """Split documents into sub-documents and build the graphs of both, each over its passages in reading order.

    Args:
        examples: the documents, each of two passages at least.
        split: how they are split.
        epoch: number of the epoch, for the draw.
        graph: kind of the graphs; None where vectors depend on no edges.
        passage_vectors: pooled vectors of every document's passages, ``(passages, encoder hidden)`` each, which then
            go along instead of token ids.

    Returns:
        The batch, with the roles ``anchor`` and ``candidate`` and the target ``group``. Single passages are encoded as
        queries are.
    """
    draws = [split.draw(example.id, epoch, len(example.sections)) for example in examples]
    anchors, candidates = (
        [example.sections[draw[view]] for example, draw in zip(examples, draws, strict=True)] for view in (0, 1)
    )
    if split.split == "one_passage":
        first = JoinedGraphs.of_queries([one[0] for one in anchors])
    else:
        first = JoinedGraphs.of_sections(anchors, graph)
    graphs = JoinedGraphs.join([first, JoinedGraphs.of_sections(candidates, graph)])
    parts = [(number, draw[view]) for view in (0, 1) for number, draw in enumerate(draws)]
    return TrainingBatch(
        graphs=batch_of_parts(examples, parts, graphs, passage_vectors),
        ids=tuple(example.id for example in examples),
        targets={"group": torch.tensor([example.group for example in examples], dtype=torch.int64)},
        roles={"anchor": slice(len(examples)), "candidate": slice(len(examples), None)},
    )


def _collate(
    places: Sequence[tuple[TrainingExample, int, int]],
    split: SubDocumentSplit,
    graph: GraphKind | None,
    passage_vectors: PassageVectors | None = None,
) -> TrainingBatch:
    examples, (epoch, *_), rows = zip(*places, strict=True)
    vectors = vectors_at(passage_vectors, rows)
    return sub_document_batch(examples, split, epoch, graph=graph, passage_vectors=vectors)


def _split_of(settings: PretrainingSettings) -> SubDocumentSplit:
    return SubDocumentSplit(settings.split, settings.training.seed)


class SubDocumentData(CorpusData):
    """Batches of a corpus that was cut and tokenised once.

    Args:
        run: settings, model and processes.

    Raises:
        DocumentError: there are too few documents.
        SettingsError: batches are too small for the processes.
    """

    def __init__(self, run: RunContext[PretrainingSettings]) -> None:
        super().__init__(run)
        batch_size = run.settings.training.batch_size
        rows, self._held_out = self.hold_out(run.settings.validation.share, least=2)
        self.documents = len(rows)
        self.plan(EpochBatches, rows=rows)
        if self.documents < batch_size and run.processes.is_first:
            logger.warning(
                "there are %d documents, fewer than batch_size=%d: every batch holds all of them, and the run has %d "
                "steps; more of them take more epochs",
                self.documents,
                batch_size,
                self.steps,
            )

    def collator(self) -> Collate:
        """What splits documents."""
        graph = self.config.vector_graph
        return partial(_collate, split=_split_of(self.settings), graph=graph, passage_vectors=self.vectors)

    def held_out_batches(self) -> list[TrainingBatch]:
        """Batches of the documents that are held out, of nearly one size, since the loss grows with it."""
        rows, collate = self._held_out, self.collator()
        number = min(max(1, round(len(rows) / self.settings.training.batch_size)), len(rows) // 2)
        return [
            collate([(self.corpus[row], HELD_OUT_EPOCH, row) for row in part.tolist()])
            for part in np.array_split(rows, number)
        ]

    def describe(self) -> list[str]:
        """What there is to train on."""
        return [self.report.summary(), f"{self.documents:,} documents to train on, {len(self._held_out):,} held out"]

    def record(self) -> dict[str, Any]:
        """What a run writes down about its corpus."""
        return {**self.corpus.record(), "held_out": len(self._held_out)}


def held_out_scores(step: CachedStep, batches: Sequence[TrainingBatch]) -> dict[str, float]:
    """Loss and metrics on documents that are not trained on; the model is in eval mode."""
    sums: Counter[str] = Counter()
    for batch in batches:
        result = step.measure(batch)
        for name, value in {"loss": result.loss, **result.metrics}.items():
            sums[name] += float(value) * len(batch)  # type: ignore[assignment]
    # How many pairs are no negatives says something of the documents, not of the model.
    sums.pop("left_out_share", None)
    documents = sum(map(len, batches))
    return {name: value / documents for name, value in sums.items()}


class StreamedData(TaskData):
    """Batches of a corpus that is read and cut anew in every epoch, without being copied.

    Args:
        run: settings, model and processes.

    Raises:
        SettingsError: a batch cannot be divided evenly among the processes.
    """

    def __init__(self, run: RunContext[PretrainingSettings]) -> None:
        settings, processes = run.settings, run.processes
        training = settings.training
        assert training.max_steps is not None, "settings of a stream have them"
        if training.batch_size % processes.count:
            raise SettingsError(
                f"training.batch_size={training.batch_size} is no multiple of the {processes.count} processes, as "
                "corpus.streaming needs; change one of them"
            )
        self._processes = processes
        self._corpus = StreamingCorpus(settings.corpus, run.encoder.segmenter, processes, seed=training.seed)
        self._name = settings.corpus.name
        self.batch_size, self.steps = training.batch_size, training.max_steps
        self.documents = training.batch_size * training.max_steps
        collate = partial(_collate, split=_split_of(settings), graph=run.encoder.model.config.vector_graph)
        self.loader = StreamLoader(self._corpus, training.batch_size // processes.count, collate, processes)

    def load(self) -> None:
        """Do nothing: a stream is read when its batches are asked for."""

    @property
    def report(self) -> CorpusReport:
        """What was read, kept and left out of the epoch so far."""
        return self._corpus.report

    def describe(self) -> list[str]:
        """What there is to train on."""
        return [f"streaming {self._name}, in a share for each process"]

    def record(self) -> dict[str, Any]:
        """What a run writes down about its corpus."""
        return {"streamed": self._name}

    def state_dict(self) -> dict[str, Any]:
        """The place in the stream, the same in every process."""
        return {**self._corpus.state, "processes": self._processes.count}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a place in the stream.

        Raises:
            ModelError: it was reached by another number of processes, whose shares were others.
        """
        if state["processes"] != self._processes.count:
            raise ModelError(
                f"the run was streamed by {state['processes']} processes, whose shares of the corpus are not those of "
                f"{self._processes.count}; resume it with {state['processes']}, or start anew"
            )
        self._corpus.load_state(state)
