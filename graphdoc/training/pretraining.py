"""Contrastive pretraining on sub-documents (Graph-RoBERTa, sections 2.2 and 3.2-3.3)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm.auto import tqdm

from ..devices import usable_device
from ..errors import DocumentError, SettingsError
from ..evaluation import ClusterEvaluation
from ..processes import Processes
from ..sampling import SubDocuments
from ..sampling.sub_documents import random_generator
from .checkpointing import RunCheckpoints
from .configuration import as_values
from .contrastive_step import ContrastiveStep
from .corpus import prepare_corpus
from .moving_average import MovingAverage
from .passage_vectors import PassageVectors, prepare_passage_vectors
from .pretraining_settings import PretrainingSettings
from .run_evaluation import HeldOutEvaluation, cluster_evaluation, score_of
from .run_folder import MODEL_FOLDER, git_revision, open_run, read_results, versions, write_results
from .starting_model import start_model
from .trainer import DocumentTrainer, computing_in
from .training_card import training_card
from .training_data import EpochBatches, EpochLoader
from .tuning import trained_weights
from .view_batch import TrainingExample, ViewBatch, sub_document_batch

logger = logging.getLogger(__name__)

# The draw of documents that are held out belongs to no epoch of training.
HELD_OUT_EPOCH = -1


@dataclass(frozen=True)
class SubDocumentCollator:
    """Makes batches of sub-documents, in the processes that load ahead.

    Args:
        sub_documents: how documents are split.
        graph_kind: kind of the graphs.
        window: reach of the ``window`` kind.
        passage_vectors: vectors of a frozen passage encoder, which then go along instead of tokens.
    """

    sub_documents: SubDocuments
    graph_kind: str
    window: int
    passage_vectors: PassageVectors | None = None

    def __call__(self, places: Sequence[tuple[TrainingExample, int, int]]) -> ViewBatch:
        """Make a batch of documents of one epoch."""
        vectors = None
        if self.passage_vectors is not None:
            vectors = [self.passage_vectors.vectors_of(row) for _, _, row in places]
        return sub_document_batch(
            [example for example, _, _ in places],
            self.sub_documents,
            places[0][1],
            graph_kind=self.graph_kind,
            window=self.window,
            passage_vectors=vectors,
        )


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
    place = usable_device(device)
    with Processes(place) as processes:
        return _Pretraining(settings, place, processes, show_progress).run(resume)


class _Pretraining:
    """One run: its parts, put together."""

    def __init__(
        self, settings: PretrainingSettings, device: torch.device, processes: Processes, show_progress: bool | None
    ) -> None:
        if settings.corpus.streaming:
            raise SettingsError("corpus.streaming is not there for pretraining yet; set it to false")
        self.settings, self.processes, self.show_progress = settings, processes, show_progress
        torch.manual_seed(settings.training.seed)
        self.encoder = start_model(settings.model, device, settings.loss.similarity)
        self.encoder.name = settings.folder.name
        self.corpus = prepare_corpus(settings.corpus, self.encoder.segmenter, processes, show_progress=show_progress)
        self.vectors = self._passage_vectors()
        self.sub_documents = SubDocuments(settings.split, settings.training.seed)
        self.collator = SubDocumentCollator(
            self.sub_documents, self.encoder.model.config.graph_kind, self.encoder.model.config.window, self.vectors
        )
        self.rows, self.held_out = self._hold_out()
        self.results: dict[str, Any] = {}

    def _passage_vectors(self) -> PassageVectors | None:
        if self.settings.model.tune != "frozen":
            return None
        training = self.settings.training
        return prepare_passage_vectors(
            self.corpus,
            self.encoder.model,
            training.token_budget,
            None if training.precision == "float32" else training.precision,
            self.processes,
            show_progress=self.show_progress,
        )

    def _hold_out(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Rows that are trained on, and rows that are held out."""
        count = len(self.corpus)
        order = random_generator(self.settings.training.seed, "held out").permutation(count)
        share = self.settings.evaluation.held_out
        held_out = max(2, round(count * share)) if share else 0
        if count - held_out < 2:
            raise DocumentError(
                f"{self.settings.corpus.name} has {count} documents of two passages or more"
                + (f", of which {held_out} are held out" if held_out else "")
                + "; there have to be 2 to train on"
            )
        return np.sort(order[held_out:]), np.sort(order[:held_out])

    def run(self, resume: bool) -> Path:
        settings, training = self.settings, self.settings.training
        folder = settings.folder
        # What can be wrong is looked at before the folder is made, so that a run that never began does not occupy it.
        batches, evaluation, record = self._batches(self.rows), self._evaluation(), self._record()
        self.processes.run_first(lambda: open_run(folder, as_values(settings), record, resume=resume))
        model = self.encoder.model
        checkpoints = RunCheckpoints(
            folder,
            model,
            self.encoder.tokenizer,
            name=folder.name,
            keep=training.keep_checkpoints,
            moving_average=MovingAverage(model, training.moving_average) if training.moving_average else None,
            describe_training=lambda: training_card(settings, record, self.corpus.report, self.results),
        )
        trainer = DocumentTrainer(
            model,
            ContrastiveStep(
                model,
                settings.loss,
                precision=computing_in(training.precision, model),
                token_budget=training.token_budget,
                keep_activations=training.keep_activations,
            ),
            EpochLoader(self.corpus, batches, self.collator, training.loading_processes),
            training,
            checkpoints,
            self.processes,
            documents=len(self.rows),
            **evaluation,
            show_progress=self.show_progress,
        )
        self._tell(batches)
        last = checkpoints.last if resume else None
        if resume and last is None and self.processes.is_first:
            logger.warning("%s has no checkpoint to resume from; the run starts from the beginning", folder)
        self._measure_before(trainer, is_resumed=last is not None)
        result = trainer.train(str(last) if last is not None else None)
        self.results.update(self._measured_after(trainer), steps=result.global_step)
        if trainer.was_stopped:
            logger.warning("the run was asked to stop after step %d; go on with --resume", result.global_step)
            return checkpoints.last or folder
        target = folder / MODEL_FOLDER

        def finish() -> None:
            checkpoints.save_result(target)
            write_results(folder, self.results)

        self.processes.run_first(finish)
        return target

    def _batches(self, rows: np.ndarray[Any, Any]) -> EpochBatches:
        training = self.settings.training
        if len(rows) < training.batch_size and self.processes.is_first:
            logger.warning(
                "there are %d documents, fewer than batch_size=%d: every batch holds all of them",
                len(rows),
                training.batch_size,
            )
        try:
            return EpochBatches(
                self.corpus.passage_counts,
                training.batch_size,
                training.seed,
                self.processes.rank,
                self.processes.count,
                rows=rows,
            )
        except ValueError as error:
            raise SettingsError(f"{error}; use fewer processes or a larger batch_size") from error

    def _evaluation(self) -> dict[str, Any]:
        """What the trainer needs to know of evaluations."""
        settings = self.settings.evaluation
        if not settings.measures:
            return {}
        clustering: ClusterEvaluation | None = None

        def read() -> None:
            nonlocal clustering
            clustering = cluster_evaluation(settings)

        self.processes.run_first(read)
        held_out = self._held_out_evaluation() if len(self.held_out) else None

        def evaluate() -> Mapping[str, float]:
            scores = held_out() if held_out is not None else {}
            scores |= score_of(self.encoder, clustering) if clustering is not None else {}
            if best not in scores:
                raise SettingsError(f"evaluation.best={best} is not measured; there are {', '.join(sorted(scores))}")
            return scores

        best = settings.best or ("nmi" if settings.clusters else "loss")
        return {"evaluation": evaluate, "best_metric": best, "greater_is_better": not best.endswith("loss")}

    def _held_out_evaluation(self) -> HeldOutEvaluation:
        size = min(self.settings.training.batch_size, len(self.held_out))
        places = [(self.corpus[row], HELD_OUT_EPOCH, int(row)) for row in self.held_out]
        starts = range(0, len(places) - size + 1, size)
        return HeldOutEvaluation(
            self.encoder.model,
            self.settings.loss,
            [self.collator(places[start : start + size]) for start in starts],
            self.settings.training.token_budget,
        )

    def _measure_before(self, trainer: DocumentTrainer, is_resumed: bool) -> None:
        """Measure the model that the run starts from; a run that goes on takes over what was measured then."""
        evaluation = self.settings.evaluation
        if is_resumed:
            before = read_results(self.settings.folder)
            self.results.update({name: before[name] for name in ("before",) if name in before})
        elif evaluation.at_start and evaluation.measures:
            self.results["before"] = _without_prefix(trainer.measure())
            self.processes.run_first(lambda: write_results(self.settings.folder, self.results))

    @staticmethod
    def _measured_after(trainer: DocumentTrainer) -> dict[str, Any]:
        scores = [entry for entry in trainer.state.log_history if any(name.startswith("eval_") for name in entry)]
        losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        after: dict[str, Any] = {"loss": losses[-1]} if losses else {}
        best = trainer.state.best_global_step
        if scores:
            # The model that is left is the best one, not always the last one.
            after["after"] = _without_prefix(next((entry for entry in scores if entry["step"] == best), scores[-1]))
        if trainer.state.best_metric is not None:
            after["best"] = {"step": best, "score": trainer.state.best_metric}
        return after

    def _record(self) -> dict[str, Any]:
        return {
            "versions": versions(),
            "git_revision": git_revision(),
            "seed": self.settings.training.seed,
            "processes": self.processes.count,
            "device": str(self.encoder.model.device),
            "corpus": {"fingerprint": self.corpus.fingerprint, **self.corpus.report.to_dict()},
            "held_out": len(self.held_out),
            "trained_weights": sum(weight.numel() for weight in trained_weights(self.encoder.model).values()),
            "weights": sum(weight.numel() for weight in self.encoder.model.parameters()),
        }

    def _tell(self, batches: EpochBatches) -> None:
        """Say what is going to happen."""
        if not self.processes.is_first:
            return
        training, report = self.settings.training, self.corpus.report
        weights = self._record()
        steps = training.max_steps or int(np.ceil(training.epochs * len(batches)))
        for line in (
            report.summary(),
            f"{len(self.rows):,} documents to train on, {len(self.held_out):,} held out",
            f"{steps:,} steps of {batches.batch_size:,} documents: each is told from {batches.batch_size - 1:,} "
            f"negatives, by {self.settings.loss.similarity} at temperature {self.settings.loss.temperature:g}",
            f"{weights['trained_weights']:,} of {weights['weights']:,} weights are trained "
            f"({self.settings.model.tune} passage encoder), on {self.encoder.model.device}, "
            f"{self.processes.count} process{'es' if self.processes.count > 1 else ''}",
        ):
            tqdm.write(line)


def _without_prefix(scores: Mapping[str, Any]) -> dict[str, float]:
    return {name.removeprefix("eval_"): value for name, value in scores.items() if name.startswith("eval_")}
