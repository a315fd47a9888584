"""The training loop of all recipes: cached steps, exact resumption and safe checkpoints."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from ..errors import DocumentError, ModelError
from ..graphs.packing import Packing
from ..inference.precision import computed_in, inference
from ..modeling import DocumentModel
from ..runtime.processes import Processes, StopRequest
from ..sampling.draws import random_generator
from ..settings.training import TrainingSettings
from .checkpoint import RunCheckpoints, require_finite
from .distributed import broadcast_weights, mean_over_processes, reduce_gradients
from .log import RunLog, StepMeans
from .optimizer import make_optimizer, make_schedule
from .run_folder import ids_file, write_ids
from .state import MEASURED, TrainState
from .step import CachedStep
from .task import Task

logger = logging.getLogger(__name__)

# A stream has no end of an epoch at which to save and measure.
STREAM_SAVE_STEPS = 500


@dataclass(frozen=True)
class RunEvaluation:
    """How a model is measured while it is trained.

    Args:
        measure: measures the model, in the first process; the numbers by name.
        best: the number by which the best checkpoint is chosen.
        greater_is_better: whether more of it is better.
        at_start: also measure before the first step.
    """

    measure: Callable[[], Mapping[str, float]]
    best: str
    greater_is_better: bool
    at_start: bool = True


class TrainingLoop:
    """Trains a document model step by step, on one process or many.

    Every step is a pure function of the weights, the seed and the step's number: batches are, and random numbers are
    seeded anew at every step. So a run that was interrupted goes on from its last checkpoint as if nothing had been.
    A step takes a batch of every task; their gradients add up and are reduced once, over all processes. Checkpoints
    are written beside and moved into place, as folders that
    :meth:`~graphdoc.encoder.DocumentEncoder.from_pretrained` reads.

    Args:
        model: the model in training, on its device.
        tasks: what it is trained for; the epochs of the run are those of the first.
        settings: how the run goes.
        checkpoints: writes and reads the run's checkpoints.
        processes: the processes that train together.
        evaluation: measures the model now and then; the numbers go to the log under ``eval_``.
        show_progress: show a bar; None shows it on a terminal.

    Attributes:
        state: how far the run has come.
    """

    def __init__(
        self,
        model: DocumentModel,
        tasks: Sequence[Task],
        settings: TrainingSettings,
        checkpoints: RunCheckpoints,
        processes: Processes,
        *,
        evaluation: RunEvaluation | None = None,
        show_progress: bool | None = None,
    ) -> None:
        self.model, self.tasks, self.settings, self.processes = model, tasks, settings, processes
        self._checkpoints, self._evaluation, self._show_progress = checkpoints, evaluation, show_progress
        self._epoch_steps = tasks[0].data.loader.epoch_steps
        if self._epoch_steps is None:
            assert settings.max_steps is not None, "a stream does not know its end"
            steps, default = settings.max_steps, min(STREAM_SAVE_STEPS, settings.max_steps)
        else:
            steps, default = settings.max_steps or math.ceil(settings.epochs * self._epoch_steps), self._epoch_steps
        self._save_steps, self._evaluation_steps = settings.save_steps or default, settings.evaluation_steps or default
        self.state = TrainState(max_steps=steps)
        self._steps = [_cached_step(model, task, settings) for task in tasks]
        self._optimizer = make_optimizer(model, settings)
        self._schedule = make_schedule(self._optimizer, settings, steps)
        self._means = StepMeans()
        self._log: RunLog | None = None
        self._stop = StopRequest()
        # What the processes agreed on: a signal reaches them at different moments, and they have to stop as one.
        self._is_stopping = False
        self._frozen_encoder = not any(weight.requires_grad for weight in model.passage_encoder.parameters())
        if settings.warmup > steps and processes.is_first:
            logger.warning(
                "training.warmup=%g steps is more than the %d steps of the run, which ends before learning_rate is "
                "reached",
                settings.warmup,
                steps,
            )

    def run(self, checkpoint: Path | None = None) -> TrainState:
        """Train to the end, or on from a checkpoint, and leave the model with its best weights.

        Returns:
            How far the run has come.

        Raises:
            DocumentError: a process that loads documents was ended.
            ModelError: the loss or weights are no numbers; ids of the documents of that loss are in the folder.
            OutputError: a checkpoint or the log cannot be written, the last checkpoint is whole; or another process
                has stopped.
        """
        broadcast_weights(self.model)
        if checkpoint is not None:
            self._go_on(checkpoint)
        try:
            with ExitStack() as stack:
                for task in self.tasks:
                    stack.callback(task.data.loader.close)
                self.processes.run_first(partial(self._open_log, stack))
                stack.enter_context(self._stop)
                self._train()
        except RuntimeError as error:
            # torch raises it wherever the program is when a worker dies.
            if not str(error).startswith("DataLoader worker"):
                raise
            raise DocumentError(
                "a process that loads documents was ended from outside, perhaps for want of memory; lower "
                f"training.loading_processes={self.settings.loading_processes} and resume"
            ) from error
        if self.state.best_global_step:
            self._checkpoints.load_weights(self._checkpoints.at_step(self.state.best_global_step))
        return self.state

    @property
    def was_stopped(self) -> bool:
        """Whether the run ended early because the system asked for it."""
        return self._is_stopping and self.state.global_step < self.state.max_steps

    @property
    def _is_over(self) -> bool:
        patience = self.settings.patience if self._evaluation is not None else None
        return (
            self._is_stopping
            or self.state.global_step >= self.state.max_steps
            or (patience is not None and self.state.evaluations_without_better >= patience)
        )

    def _go_on(self, checkpoint: Path) -> None:
        """Take over weights, optimiser and state of a checkpoint."""
        self._checkpoints.load_weights(checkpoint)
        self._checkpoints.load_optimizer(checkpoint, self._optimizer, self._schedule)
        steps, self.state = self.state.max_steps, self._checkpoints.load_state(checkpoint)
        self.state.max_steps = steps
        best = self.state.best_global_step
        if best and not self._checkpoints.at_step(best).is_dir():
            if self.processes.is_first:
                logger.warning(
                    "%s, the best so far, is gone; the best of what follows is kept, or else the last",
                    self._checkpoints.at_step(best),
                )
            self.state.best_global_step, self.state.best_metric = None, None

    def _open_log(self, stack: ExitStack) -> None:
        settings, folder = self.settings, self._checkpoints.folder
        self._log = stack.enter_context(RunLog(folder, self.state, settings.trackers, self._show_progress))

    def _train(self) -> None:
        self._optimizer.zero_grad()
        batches = self._batches()
        while not self._is_over:
            with self._means.waiting():
                batch = next(batches, None)
            if batch is None:
                return
            self._compute_gradient(batch)
            norm = clip_grad_norm_(self.model.parameters(), self.settings.clip or math.inf)
            self._optimizer.step()
            if self._checkpoints.moving_average is not None:
                self._checkpoints.moving_average.update()
            rate = self._schedule.get_last_lr()[0]
            self._schedule.step()
            self._optimizer.zero_grad()
            self._count_step()
            self._finish_step({"grad_norm": norm, "learning_rate": rate})

    def _batches(self) -> Iterator[tuple[Any, ...]]:
        """A batch of every task, for every step that is left."""
        return zip(*(task.batches(self.state.global_step) for task in self.tasks), strict=False)

    def _compute_gradient(self, batches: Sequence[Any]) -> None:
        """Leave the gradient of a batch of every task on the weights, mean over all processes."""
        number = self.state.global_step
        self.model.train()
        if self._frozen_encoder:
            # Its dropout would change vectors that are supposed to stand still.
            self.model.passage_encoder.eval()
        seed = random_generator(self.settings.seed, "step", number, self.processes.rank).integers(2**63)
        torch.manual_seed(int(seed))
        outputs = [step(batch) for step, batch in zip(self._steps, batches, strict=True)]
        reduce_gradients(self.model.parameters())
        loss = torch.stack([task.weight * out.loss for task, out in zip(self.tasks, outputs, strict=True)]).sum()
        is_wrong, is_asked = mean_over_processes(
            torch.stack([~torch.isfinite(loss), torch.tensor(self._stop.is_made, device=loss.device)]).float()
        ).tolist()
        if is_wrong:
            self._refuse_loss(float(mean_over_processes(loss)), batches)
        self._is_stopping = bool(is_asked)
        metrics: dict[str, Tensor] = {"loss": loss}
        for task, output in zip(self.tasks, outputs, strict=True):
            several = {"loss": output.loss} if len(self.tasks) > 1 else {}
            metrics |= {self._metric(task, name): value for name, value in {**several, **output.metrics}.items()}
        self._means.add(metrics, sum(len(one) for one in batches), sum(one.tokens for one in batches))

    def _metric(self, task: Task, name: str) -> str:
        return f"{task.name}/{name}" if len(self.tasks) > 1 else name

    def _refuse_loss(self, loss: float, batches: Sequence[Any]) -> None:
        number = self.state.global_step + 1
        ids = [id for part in self.processes.gather([id for batch in batches for id in batch.ids]) for id in part]
        path = ids_file(self._checkpoints.folder, number)
        self.processes.run_first(lambda: write_ids(path, number, ids))
        raise ModelError(
            f"the loss of step {number} is {loss} and training was stopped; the ids of its {len(ids)} documents "
            f"are in {path}; look at them, at the weights it starts from, or lower learning_rate"
        )

    def _count_step(self) -> None:
        state = self.state
        state.global_step += 1
        # A stream does not say how long an epoch is.
        epoch, done = divmod(state.global_step - 1, self._epoch_steps or state.max_steps)
        state.epoch = epoch + (done + 1) / (self._epoch_steps or state.max_steps)
        if self._log is not None:
            self._log.advance()

    def _finish_step(self, numbers: Mapping[str, Any]) -> None:
        """Log, measure and save, each where it is due."""
        step, is_last = self.state.global_step, self.state.global_step >= self.state.max_steps
        evaluates = self._evaluation is not None and (step % self._evaluation_steps == 0 or is_last)
        saves = step % self._save_steps == 0 or is_last or self._is_stopping
        # What has been added up since the last entry is not part of a checkpoint: an entry before each makes resumed
        # runs log the same numbers.
        if saves or evaluates or step % self.settings.log_steps == 0:
            means = self._means.take(self.processes)
            numbers = {name: float(value) for name, value in numbers.items()}
            self._write({"loss": means.pop("loss"), **numbers, **means})
        if evaluates:
            # The best weights are of use only where they were kept.
            saves = self._evaluate() or saves
        if saves:
            require_finite(self.model, step)
            self._checkpoints.save(self.state, self._optimizer, self._schedule, self.processes)

    def _write(self, entry: Mapping[str, Any]) -> None:
        complete = self.state.log(entry)
        if self._log is not None:
            self._log.write(complete)

    def _evaluate(self) -> bool:
        """Measure the model, and say whether it is the best so far."""
        assert self._evaluation is not None
        measured = self.measure()
        self._write(measured)
        return self.state.judge(measured, self._evaluation.best, greater_is_better=self._evaluation.greater_is_better)

    def measure(self) -> dict[str, float]:
        """Measure the model as it would be saved, in the first process while the others wait.

        Returns:
            The numbers, each under ``eval_`` and its name.
        """
        assert self._evaluation is not None
        measure = self._evaluation.measure
        metrics: dict[str, float] = {}

        def measure_here() -> None:
            # Otherwise the first measure that needs numbers would complain, of something else.
            require_finite(self.model, self.state.global_step)
            with self._checkpoints.result_weights(), inference(self.model):
                metrics.update({MEASURED + name: float(value) for name, value in measure().items()})

        self.processes.run_first(measure_here)
        return self.processes.gather(metrics)[0]


def _cached_step(model: DocumentModel, task: Task, settings: TrainingSettings) -> CachedStep:
    return CachedStep(
        model,
        task.objective,
        weight=task.weight,
        precision=lambda: computed_in(settings.precision, model.passage_encoder, "the model"),
        packing=Packing.on(model.device, settings.token_budget, settings.padding),
        keep_activations=settings.keep_activations,
    )
