"""Contrastive pretraining on sub-documents (Graph-RoBERTa, sections 2.2 and 3.2-3.3)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np
import torch

from ..corpus.document import CorpusReport, TrainingDocument
from ..corpus.parts import PassageVectors
from ..corpus.source import StreamingCorpus
from ..errors import ModelError, SettingsError
from ..evaluation.evaluator import greater_is_better
from ..graphs.kinds import GraphKind, JoinedGraphs
from ..losses import InfoNCELoss
from ..runtime.processes import Processes, interleaved, share_of
from ..sampling.batches import EpochBatches
from ..sampling.sub_documents import SubDocumentSplit
from ..settings.pretraining import SubDocumentSettings
from ..training.data import Collate, StreamLoader
from ..training.objectives import Objective, SubDocumentObjective, TrainingBatch
from ..training.recipe import Recipe, RunEvaluation
from ..training.run import RunContext, begin_training
from ..training.step import CachedStep
from .base import (
    HELD_OUT_EPOCH,
    CorpusRecipe,
    LossSettings,
    VectorsOfDocuments,
    batch_of_parts,
    measuring_step,
    vectors_at,
)

logger = logging.getLogger(__name__)

SUMMARY = "Contrast between sub-documents, without labels (Graph-RoBERTa)"


def sub_document_batch(
    examples: Sequence[TrainingDocument],
    split: SubDocumentSplit,
    epoch: int,
    *,
    graph: GraphKind | str | None = "full",
    passage_vectors: VectorsOfDocuments | None = None,
) -> TrainingBatch:
    """Split documents into sub-documents and build the graphs of both, each over its passages in reading order.

    Args:
        examples: the documents, each of two passages at least.
        split: how they are split, by a draw for every epoch.
        epoch: number of the epoch.
        graph: kind of the graphs; None where vectors depend on no edges.
        passage_vectors: see :func:`~graphdoc.recipes.base.batch_of_parts`.

    Returns:
        The batch, with the roles ``anchor`` and ``candidate`` and the target ``group``; single passages are queries.
    """
    draws = [split.sample(example.id, epoch, len(example.sections)) for example in examples]
    anchors, candidates = (
        [example.sections[draw[view]] for example, draw in zip(examples, draws, strict=True)] for view in (0, 1)
    )
    if split.split == "one_passage":
        first = JoinedGraphs.from_queries([one[0] for one in anchors])
    else:
        first = JoinedGraphs.from_sections(anchors, graph)
    graphs = JoinedGraphs.join([first, JoinedGraphs.from_sections(candidates, graph)])
    parts = [(number, draw[view]) for view in (0, 1) for number, draw in enumerate(draws)]
    return TrainingBatch(
        graphs=batch_of_parts(examples, parts, graphs, passage_vectors),
        ids=tuple(example.id for example in examples),
        targets={"group": torch.tensor([example.group for example in examples], dtype=torch.int64)},
        roles={"anchor": slice(len(examples)), "candidate": slice(len(examples), None)},
    )


def _collate(
    places: Sequence[tuple[TrainingDocument, int, int]],
    split: SubDocumentSplit,
    graph: GraphKind | None,
    passage_vectors: PassageVectors | None = None,
) -> TrainingBatch:
    examples, (epoch, *_), rows = zip(*places, strict=True)
    return sub_document_batch(examples, split, epoch, graph=graph, passage_vectors=vectors_at(passage_vectors, rows))


def _begin(run: RunContext[SubDocumentSettings]) -> tuple[SubDocumentSplit, Objective]:
    """How documents are split, and what the loss looks at, of a model that is ready to be trained."""
    settings = run.settings
    begin_training(run.encoder, settings.model)
    if settings.split == "one_passage":
        run.encoder.model.config.search_by = "document"
    objective = SubDocumentRecipe.objective_of(settings.loss, run.loss)
    return SubDocumentSplit(settings.split, settings.training.seed), objective


class SubDocumentRecipe(CorpusRecipe[SubDocumentSettings]):
    """Separates the sub-documents of the documents of a stored corpus.

    Raises:
        DocumentError: there are too few documents.
        SettingsError: batches are too small for the processes.
    """

    summary = SUMMARY
    losses: ClassVar = {InfoNCELoss: LossSettings(SubDocumentObjective, ("similarity", "temperature", "directions"))}

    @classmethod
    def from_run(cls, run: RunContext[SubDocumentSettings]) -> Recipe:  # type: ignore[override]
        """The recipe for documents that are stored, or for those that are streamed."""
        return StreamedRecipe(run) if run.settings.corpus.streaming else super().from_run(run)

    def begin(self) -> None:
        """Make the objective, and mark the weights that are trained."""
        self._split, self.objective = _begin(self.run)

    def divide(self) -> None:
        """Draw the documents that are held out, and plan the batches."""
        run, batch_size = self.run, self.settings.training.batch_size
        self._rows, self._held_out = self.hold_out(run.settings.validation.share, least=2)
        self.plan(EpochBatches, rows=self._rows)
        if len(self._rows) < batch_size and run.processes.is_first:
            logger.warning(
                "there are %d documents, fewer than batch_size=%d: every batch holds all of them, and the run has %d "
                "steps; more of them take more epochs", len(self._rows), batch_size, self.steps,
            )  # fmt: skip
        if run.settings.is_measured:
            # Always the same batches and sub-documents, made when they are first measured.
            step, best = measuring_step(run, self.objective), run.settings.validation.best
            measure = partial(held_out_sub_document_scores, step, cache(self.held_out_batches), run.processes)
            self.evaluation = RunEvaluation(measure, best, greater_is_better(best), size=len(self._held_out))

    def collator(self) -> Collate:
        """The collator, which splits documents."""
        return partial(_collate, split=self._split, graph=self.config.vector_graph, passage_vectors=self.vectors)

    def held_out_batches(self) -> list[TrainingBatch]:
        """Batches of the documents that are held out, of nearly one size, since the loss grows with it."""
        rows, collate = self._held_out, self.collator()
        number = min(max(1, round(len(rows) / self.settings.training.batch_size)), len(rows) // 2)
        return [
            collate([(self.corpus[row], HELD_OUT_EPOCH, row) for row in part.tolist()])
            for part in np.array_split(rows, number)
        ]

    def counts(self) -> dict[str, Any]:
        """Documents to train on and to measure."""
        return {"train": len(self._rows), "held_out": len(self._held_out)}


def held_out_sub_document_scores(
    step: CachedStep, made: Callable[[], Sequence[TrainingBatch]], processes: Processes
) -> dict[str, float]:
    """Loss and metrics on documents that are not trained on, of which each process measures some batches.

    The model is in eval mode.
    """
    batches, own = made(), list[dict[str, float]]()
    for batch in batches[share_of(processes)]:
        result = step.measure(batch)
        scores = {"loss": result.loss, **result.metrics}
        own.append({name: float(value) * len(batch) for name, value in scores.items()})
    of_all, documents = interleaved(processes.gather(own)), sum(map(len, batches))
    # How many pairs are no negatives says something of the documents, not of the model.
    names = of_all[0].keys() - {"left_out_share"}
    return {name: sum(scores[name] for scores in of_all) / documents for name in of_all[0] if name in names}


class StreamedRecipe(Recipe):
    """Separates the sub-documents of a corpus that is read and cut in every epoch, without being copied.

    Raises:
        SettingsError: a batch cannot be divided evenly among the processes.
    """

    summary = SUMMARY

    def __init__(self, run: RunContext[SubDocumentSettings]) -> None:
        settings, processes, training = run.settings, run.processes, run.settings.training
        assert training.max_steps is not None, "settings of a stream have them"
        split, self.objective = _begin(run)
        if training.batch_size % processes.count:
            raise SettingsError(
                f"training.batch_size={training.batch_size} is no multiple of the {processes.count} processes, as "
                "corpus.streaming needs; change one of them"
            )
        self._processes, self._name = processes, settings.corpus.name
        self._corpus = StreamingCorpus(settings.corpus, run.encoder.segmenter, processes, seed=training.seed)
        self.batch_size, self.steps = training.batch_size, training.max_steps
        collate = partial(_collate, split=split, graph=run.encoder.model.config.vector_graph)
        self.loader = StreamLoader(self._corpus, training.batch_size // processes.count, collate, processes)

    def load(self) -> None:
        """Do nothing: a stream is read when its batches are asked for."""

    @property
    def report(self) -> CorpusReport:  # type: ignore[override]
        """Counts of what was read, kept and left out in this epoch so far."""
        return self._corpus.report

    def counts(self) -> dict[str, Any]:
        """The name of the corpus; a stream does not know its size."""
        return {"streamed": self._name}

    def finish(self) -> str:
        """What became of the documents of the last epoch."""
        return f"streamed in the last epoch: {self.report.summary()}"

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
                f"{self._processes.count}; resume it with {state['processes']}, or start again"
            )
        self._corpus.load_state(state)
