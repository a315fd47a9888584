"""A run of any recipe: its folder, what is measured before and after, its checkpoints and its result."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from ..analysis.figures.run import plot_run
from ..encoder import DocumentEncoder
from ..graphs.packing import Packing
from ..modeling.weights_hash import weights_hash
from ..runtime.locks import FolderLock
from ..runtime.processes import Processes
from ..settings.run import RunSettings
from .checkpoint import PREFIX, RunCheckpoints, require_finite
from .loop import DocumentTrainer, Evaluation, computing_in
from .moving_average import MovingAverage
from .run_folder import (
    CURVE_FILE,
    MODEL_FOLDER,
    abandon_run,
    git_revision,
    open_run,
    read_results,
    require_own_folder,
    versions,
    write_results,
)
from .step import CachedStep
from .task import Task
from .tuning import fixed_weights, trained_weights

logger = logging.getLogger(__name__)

Results = Mapping[str, Any]


@dataclass(frozen=True)
class RunEvaluation:
    """How a model is measured while it is trained.

    Args:
        measure: measures the model, in the first process; the numbers by name.
        best: the number by which the best checkpoint is told.
        greater_is_better: whether more of it is better.
        at_start: also measure before the first step.
    """

    measure: Evaluation
    best: str
    greater_is_better: bool
    at_start: bool = True


@dataclass(frozen=True)
class TrainingRun:
    """The parts of a run.

    Args:
        settings: the recipe's settings.
        encoder: the model in training and its tokenizer.
        tasks: what it is trained for.
        processes: the processes that train together.
        evaluation: how the model is measured meanwhile; None for not at all.
        announcement: lines that say what is going to happen.
        card: makes the sections of the model card on training, of what the run was made with and its results.
        show_progress: show bars; None shows them on a terminal.
    """

    settings: RunSettings
    encoder: DocumentEncoder
    tasks: Sequence[Task]
    processes: Processes
    evaluation: RunEvaluation | None
    announcement: Sequence[str]
    card: Callable[[Mapping[str, Any], Results], str]
    show_progress: bool | None = None

    def start(self, resume: bool) -> Path:
        """Train to the end, and write the model and what came of the run.

        A run that is refused before its first step leaves no run in its folder.

        Args:
            resume: go on with the run in the output folder from its last checkpoint.

        Returns:
            Folder of the trained model, or of the last checkpoint where the run was asked to stop.

        Raises:
            GraphdocError: another run is under way in the folder, or whatever else is in the way of this one.
        """
        folder, record = self.settings.folder, self._record()
        lock = FolderLock(folder)

        def begin() -> None:
            require_own_folder(folder)
            lock.acquire()
            open_run(folder, self.settings, record, resume=resume)

        try:
            self.processes.run_first(begin)
            try:
                return self._train(folder, record, resume)
            except Exception:
                if self.processes.is_first:
                    abandon_run(folder)
                raise
        finally:
            lock.release()

    def _train(self, folder: Path, record: dict[str, Any], resume: bool) -> Path:
        settings, training, model = self.settings, self.settings.training, self.encoder.model
        (task,) = self.tasks
        results: dict[str, Any] = {}
        checkpoints = RunCheckpoints(
            folder,
            model,
            self.encoder.tokenizer,
            name=folder.name,
            keep=training.keep_checkpoints,
            moving_average=MovingAverage(model, training.moving_average) if training.moving_average else None,
            describe_training=lambda: self.card(record, results),
            only_updates=settings.model.store == "updates",
            data_state=task.data.state,
        )
        trainer = self._trainer(checkpoints)
        self._tell(record)
        last = checkpoints.last if resume else None
        if resume and last is None and self.processes.is_first:
            logger.warning("%s has no checkpoint to resume from; the run starts from the beginning", folder)
        if last is not None:
            checkpoints.require_state(last)
        if last is not None and self.processes.is_first:
            tqdm.write(f"going on from {last}")
        if last is not None and task.data.state() is not None:
            task.data.go_on(checkpoints.read_data_state(last))
        results |= self._measured_before(trainer, is_resumed=last is not None)
        outcome = trainer.train(str(last) if last is not None else None)
        results |= {**_measured_after(trainer), "steps": outcome.global_step}
        if last is not None and last.name == f"{PREFIX}{outcome.global_step}" and self.processes.is_first:
            logger.warning("the run was at its end already, after step %d", outcome.global_step)
        if trainer.was_stopped:
            if self.processes.is_first:
                logger.warning("the run was asked to stop after step %d; go on with --resume", outcome.global_step)
            return checkpoints.last or folder
        require_finite(model, outcome.global_step)
        target = folder / MODEL_FOLDER

        def finish() -> None:
            if settings.model.result_readout is not None:
                model.config.readout = settings.model.result_readout
            checkpoints.save_result(target)
            write_results(folder, results)
            start = {f"eval_{name}": value for name, value in results.get("before", {}).items()}
            plot_run([{"step": 0, **start}, *trainer.state.log_history], folder / CURVE_FILE)

        self.processes.run_first(finish)
        return target

    def _trainer(self, checkpoints: RunCheckpoints) -> DocumentTrainer:
        training, evaluation = self.settings.training, self.evaluation
        (task,) = self.tasks
        step = CachedStep(
            self.encoder.model,
            task.objective,
            precision=computing_in(training.precision, self.encoder.model),
            packing=Packing.on(self.encoder.model.device, training.token_budget, training.padding),
            keep_activations=training.keep_activations,
        )
        return DocumentTrainer(
            self.encoder.model,
            step,
            task.data.loader,
            training,
            checkpoints,
            self.processes,
            documents=task.data.documents,
            evaluation=evaluation.measure if evaluation else None,
            best_metric=evaluation.best if evaluation else None,
            greater_is_better=evaluation.greater_is_better if evaluation else False,
            show_progress=self.show_progress,
        )

    def _measured_before(self, trainer: DocumentTrainer, is_resumed: bool) -> dict[str, Any]:
        """Measure the model that the run starts from; a run that goes on takes over what was measured then."""
        if is_resumed:
            before = read_results(self.settings.folder)
            return {name: before[name] for name in ("before",) if name in before}
        if self.evaluation is None or not self.evaluation.at_start:
            return {}
        results = {"before": _without_prefix(trainer.measure())}
        self.processes.run_first(lambda: write_results(self.settings.folder, results))
        return results

    def _record(self) -> dict[str, Any]:
        model = self.encoder.model
        return {
            "versions": versions(),
            "git_revision": git_revision(),
            "seed": self.settings.training.seed,
            "processes": self.processes.count,
            "device": str(model.device),
            "corpus": self.tasks[0].data.record(),
            "fixed_weights": weights_hash(fixed_weights(model)),
            "trained_weights": sum(weight.numel() for weight in trained_weights(model).values()),
            "weights": sum(weight.numel() for weight in model.parameters()),
        }

    def _tell(self, record: Mapping[str, Any]) -> None:
        """Say what is going to happen."""
        if not self.processes.is_first:
            return
        processes = self.processes.count
        for line in (
            *self.announcement,
            f"{record['trained_weights']:,} of {record['weights']:,} weights are trained "
            f"({self.settings.model.tune} passage encoder), on {record['device']}, "
            f"{processes} process{'es' if processes > 1 else ''}",
        ):
            tqdm.write(line)


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


def _without_prefix(scores: Mapping[str, Any]) -> dict[str, float]:
    return {name.removeprefix("eval_"): value for name, value in scores.items() if name.startswith("eval_")}
