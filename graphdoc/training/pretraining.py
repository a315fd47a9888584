"""Contrastive pretraining on sub-documents (Graph-RoBERTa, sections 2.2 and 3.2-3.3)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from tqdm.auto import tqdm

from ..analysis.plots import plot_run
from ..devices import usable_device
from ..errors import SettingsError
from ..evaluation import ClusterEvaluation
from ..processes import Processes
from .checkpointing import RunCheckpoints
from .configuration import as_values
from .contrastive_step import ContrastiveStep
from .moving_average import MovingAverage
from .pretraining_data import open_data
from .pretraining_settings import PretrainingSettings
from .run_evaluation import HeldOutEvaluation, cluster_evaluation, score_of
from .run_folder import CURVE_FILE, MODEL_FOLDER, git_revision, open_run, read_results, versions, write_results
from .starting_model import start_model
from .trainer import DocumentTrainer, computing_in
from .training_card import training_card
from .tuning import trained_weights

logger = logging.getLogger(__name__)


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
        self.settings, self.processes, self.show_progress = settings, processes, show_progress
        torch.manual_seed(settings.training.seed)
        self.encoder = start_model(settings.model, device, settings.loss.similarity)
        self.encoder.name = settings.folder.name
        self.data = open_data(settings, self.encoder, processes, show_progress)
        self.results: dict[str, Any] = {}

    def run(self, resume: bool) -> Path:
        settings, training = self.settings, self.settings.training
        folder = settings.folder
        # What can be wrong is looked at before the folder is made, so that a run that never began does not occupy it.
        evaluation, record = self._evaluation(), self._record()
        self.processes.run_first(lambda: open_run(folder, as_values(settings), record, resume=resume))
        model = self.encoder.model
        checkpoints = RunCheckpoints(
            folder,
            model,
            self.encoder.tokenizer,
            name=folder.name,
            keep=training.keep_checkpoints,
            moving_average=MovingAverage(model, training.moving_average) if training.moving_average else None,
            describe_training=lambda: training_card(settings, record, self.data.report, self.results),
            only_updates=settings.model.store == "updates",
            data_state=self.data.state,
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
            self.data.loader,
            training,
            checkpoints,
            self.processes,
            documents=self.data.documents,
            **evaluation,
            show_progress=self.show_progress,
        )
        self._tell(record)
        last = checkpoints.last if resume else None
        if resume and last is None and self.processes.is_first:
            logger.warning("%s has no checkpoint to resume from; the run starts from the beginning", folder)
        if last is not None and self.data.state is not None:
            self.data.go_on(checkpoints.read_data_state(last))
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
            start = {f"eval_{name}": value for name, value in self.results.get("before", {}).items()}
            plot_run([{"step": 0, **start}, *trainer.state.log_history], folder / CURVE_FILE)

        self.processes.run_first(finish)
        return target

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
        held_out = None
        if self.data.held_out:
            held_out = HeldOutEvaluation(
                self.encoder.model, self.settings.loss, self.data.held_out, self.settings.training.token_budget
            )

        def evaluate() -> Mapping[str, float]:
            scores = held_out() if held_out is not None else {}
            scores |= score_of(self.encoder, clustering) if clustering is not None else {}
            if best not in scores:
                raise SettingsError(f"evaluation.best={best} is not measured; there are {', '.join(sorted(scores))}")
            return scores

        best = settings.best or ("nmi" if settings.clusters else "loss")
        return {"evaluation": evaluate, "best_metric": best, "greater_is_better": not best.endswith("loss")}

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
            "corpus": self.data.record(),
            "trained_weights": sum(weight.numel() for weight in trained_weights(self.encoder.model).values()),
            "weights": sum(weight.numel() for weight in self.encoder.model.parameters()),
        }

    def _tell(self, record: Mapping[str, Any]) -> None:
        """Say what is going to happen."""
        if not self.processes.is_first:
            return
        loss, data, processes = self.settings.loss, self.data, self.processes.count
        for line in (
            data.describe(),
            f"{data.steps:,} steps of {data.batch_size:,} documents: each is told from {data.batch_size - 1:,} "
            f"negatives, by {loss.similarity} at temperature {loss.temperature:g}",
            f"{record['trained_weights']:,} of {record['weights']:,} weights are trained "
            f"({self.settings.model.tune} passage encoder), on {record['device']}, "
            f"{processes} process{'es' if processes > 1 else ''}",
        ):
            tqdm.write(line)


def _without_prefix(scores: Mapping[str, Any]) -> dict[str, float]:
    return {name.removeprefix("eval_"): value for name, value in scores.items() if name.startswith("eval_")}
