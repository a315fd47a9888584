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
from ..modeling.document_model import weights_hash
from ..runtime.files import FolderLock
from ..runtime.processes import Processes
from ..runtime.text import printable
from ..settings.run import RunSettings
from .checkpoint import RunCheckpoints, require_finite
from .loop import RunEvaluation, TrainingLoop
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
from .state import MEASURED, TrainState
from .task import Task
from .tuning import fixed_weights, trained_weights

logger = logging.getLogger(__name__)

Results = Mapping[str, Any]


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
            except KeyboardInterrupt:
                if self.processes.is_first:
                    logger.warning("the run was interrupted; go on from its last checkpoint with --resume")
                raise
            except Exception:
                if self.processes.is_first:
                    abandon_run(folder)
                raise
        finally:
            lock.release()

    def _train(self, folder: Path, record: dict[str, Any], resume: bool) -> Path:
        settings, training, model = self.settings, self.settings.training, self.encoder.model
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
            data_state=self._data_state,
        )
        loop = TrainingLoop(
            model,
            self.tasks,
            training,
            checkpoints,
            self.processes,
            evaluation=self.evaluation,
            show_progress=self.show_progress,
        )
        self._announce(record)
        last = self._last_checkpoint(checkpoints) if resume else None
        results |= self._measured_before(loop, is_resumed=last is not None)
        state = loop.run(last)
        results |= {**_measured_after(state), "steps": state.global_step}
        if last == checkpoints.at_step(state.global_step) and self.processes.is_first:
            logger.warning("the run was at its end already, after step %d", state.global_step)
        if loop.was_stopped:
            if self.processes.is_first:
                logger.warning("the run was asked to stop after step %d; go on with --resume", state.global_step)
            return checkpoints.last or folder
        require_finite(model, state.global_step)
        target = folder / MODEL_FOLDER

        def finish() -> None:
            if settings.model.result_readout is not None:
                model.config.readout = settings.model.result_readout
            checkpoints.save_result(target)
            write_results(folder, results)
            start = {f"{MEASURED}{name}": value for name, value in results.get("before", {}).items()}
            plot_run([{"step": 0, **start}, *state.log_history], folder / CURVE_FILE)

        self.processes.run_first(finish)
        return target

    def _last_checkpoint(self, checkpoints: RunCheckpoints) -> Path | None:
        """The checkpoint to go on from, where the data then is too."""
        last = checkpoints.last
        if last is None:
            if self.processes.is_first:
                logger.warning(
                    "%s has no checkpoint to resume from; the run starts from the beginning", self.settings.folder
                )
            return None
        checkpoints.load_state(last)
        if self.processes.is_first:
            tqdm.write(f"going on from {last}")
        if self._data_state() is not None:
            place = checkpoints.read_data_state(last)
            for task in self.tasks:
                if task.data.state() is not None:
                    task.data.go_on(place[task.name] if len(self.tasks) > 1 else place)
        return last

    def _data_state(self) -> dict[str, Any] | None:
        """The place in the data of the task, or of every task by name; None where there is none to keep."""
        states = {task.name: state for task in self.tasks if (state := task.data.state()) is not None}
        return (states if len(self.tasks) > 1 else states[self.tasks[0].name]) if states else None

    def _measured_before(self, loop: TrainingLoop, is_resumed: bool) -> dict[str, Any]:
        """Measure the model that the run starts from; a run that goes on takes over what was measured then."""
        if is_resumed:
            before = read_results(self.settings.folder)
            return {name: before[name] for name in ("before",) if name in before}
        if self.evaluation is None or not self.evaluation.at_start:
            return {}
        results = {"before": _without_prefix(loop.measure())}
        self.processes.run_first(lambda: write_results(self.settings.folder, results))
        return results

    def _record(self) -> dict[str, Any]:
        model = self.encoder.model
        records = {task.name: task.data.record() for task in self.tasks}
        return {
            "versions": versions(),
            "git_revision": git_revision(),
            "seed": self.settings.training.seed,
            "processes": self.processes.count,
            "device": str(model.device),
            "corpus": records if len(self.tasks) > 1 else records[self.tasks[0].name],
            "fixed_weights": weights_hash(fixed_weights(model)),
            "trained_weights": sum(weight.numel() for weight in trained_weights(model).values()),
            "weights": sum(weight.numel() for weight in model.parameters()),
        }

    def _announce(self, record: Mapping[str, Any]) -> None:
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
            for part in line.splitlines():
                tqdm.write(printable(part))


def _measured_after(state: TrainState) -> dict[str, Any]:
    scores = [entry for entry in state.log_history if any(name.startswith(MEASURED) for name in entry)]
    losses = [entry["loss"] for entry in state.log_history if "loss" in entry]
    after: dict[str, Any] = {"loss": losses[-1]} if losses else {}
    best = state.best_global_step
    if scores:
        # The model that is left is the best one, not always the last one.
        after["after"] = _without_prefix(next((entry for entry in scores if entry["step"] == best), scores[-1]))
    if state.best_metric is not None:
        after["best"] = {"step": best, "score": state.best_metric}
    return after


def _without_prefix(scores: Mapping[str, Any]) -> dict[str, float]:
    return {name.removeprefix(MEASURED): value for name, value in scores.items() if name.startswith(MEASURED)}
