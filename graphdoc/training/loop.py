"""The training loop of all recipes: cached steps, exact resumption and safe checkpoints."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import InitProcessGroupKwargs, broadcast, reduce
from torch import Tensor, nn
from transformers import TrainerCallback, TrainerControl

from ..errors import DocumentError, ModelError
from ..inference.precision import inference, training_precision
from ..modeling import DocumentModel
from ..runtime.processes import LONGEST_WAIT, Processes, StopRequest, exchange
from ..runtime.text import require_one_of
from ..sampling.batches import random_generator
from ..settings.run import TrainingSettings
from .checkpoint import MEASURED, RunCheckpoints, TrainState, require_finite_weights
from .objectives import TrainingBatch
from .optimizer import make_optimizer, make_schedule
from .recipe import Recipe, RunEvaluation
from .run_folder import WRONG_BATCH, RunLog, require_trackers, write_run_file
from .step import CachedStep

_ACCELERATE_NAMES = {None: "no", "bfloat16": "bf16", "float16": "fp16"}

# A stream has no end of an epoch at which to save and measure.
STREAM_SAVE_STEPS = 500


def make_accelerator(device: torch.device, folder: Path, trackers: Sequence[str]) -> Accelerator:
    """The Accelerator of a run, which reduces over processes, scales gradients and writes to trackers.

    Raises:
        MissingExtraError: a tracker is not installed.
    """
    require_trackers(trackers)
    # An earlier run of this program may have had another device and another precision.
    AcceleratorState._reset_state(reset_partial_state=True)
    return Accelerator(
        cpu=device.type == "cpu",
        mixed_precision=_ACCELERATE_NAMES[training_precision(device)],
        device_placement=False,
        log_with=list(trackers) or None,
        project_dir=folder,
        kwargs_handlers=[InitProcessGroupKwargs(timeout=LONGEST_WAIT)],
    )


def reduce_gradients(parameters: Iterable[nn.Parameter], processes: int) -> int:
    """Replace every gradient by its mean over all processes, all gradients of one type in one reduction.

    A step with gradient caching has many backward passes; reducing here, once, instead of after each of them costs
    one exchange whatever the batch. Parameters without gradient count as zero, so that processes whose documents did
    not reach a parameter fit those whose did.

    Returns:
        Number of reductions, 0 in a single process.
    """
    if processes == 1:
        return 0
    by_type: dict[tuple[torch.dtype, torch.device], list[nn.Parameter]] = defaultdict(list)
    for parameter in parameters:
        if parameter.requires_grad:
            by_type[parameter.dtype, parameter.device].append(parameter)
    for group in by_type.values():
        gradients = [torch.zeros_like(entry) if entry.grad is None else entry.grad for entry in group]
        flat = mean_over_processes(torch.cat([gradient.flatten() for gradient in gradients]), processes)
        for parameter, part in zip(group, flat.split([entry.numel() for entry in group]), strict=True):  # type: ignore[no-untyped-call]
            if parameter.grad is None:
                parameter.grad = torch.empty_like(parameter)
            parameter.grad.copy_(part.view_as(parameter))
    return len(by_type)


def mean_over_processes(values: Tensor, processes: int) -> Tensor:
    """The mean of a tensor over all processes; every process has to call it."""
    if processes == 1:
        return values
    with exchange():
        mean: Tensor = reduce(values, "mean")
    return mean


class StepMeans:
    """Adds up the numbers of steps between two entries of the log."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._sums: dict[str, Any] = {}
        self._steps = self._documents = self._tokens = 0
        self._waited = 0.0

    def add(self, metrics: Mapping[str, Tensor], batch: TrainingBatch) -> None:
        """Take in the numbers of a step of this process."""
        self._sums = {name: self._sums.get(name, 0) + value for name, value in metrics.items()}
        self._steps += 1
        self._documents += len(batch)
        self._tokens += batch.tokens

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """A context in which a batch is waited for; time is counted from the first of them on."""
        began = time.perf_counter()
        self._began = began if self._began is None else self._began
        yield
        self._waited += time.perf_counter() - began

    def take(self, processes: Processes) -> dict[str, float]:
        """Means over steps and processes, and documents and tokens a second of all."""
        seconds = max(time.perf_counter() - (self._began or 0.0), 1e-9)
        values = {name: float(value) / max(self._steps, 1) for name, value in self._sums.items()}
        values["waiting_share"] = self._waited / seconds
        rates = {"documents_per_second": self._documents / seconds, "tokens_per_second": self._tokens / seconds}
        of_all = processes.gather({**rates, **values})
        totals = {name: math.fsum(of_one[name] for of_one in of_all) for name in of_all[0]}
        if not totals["tokens_per_second"]:
            # Passage vectors were there already, so that no token was read.
            del totals["tokens_per_second"]
        return {name: total if name in rates else total / processes.count for name, total in totals.items()}


class TrainingLoop:
    """Trains a document model step by step, on one process or many.

    Every step is a pure function of the weights, the seed and the step's number: batches are, and random numbers are
    seeded at every step. So an interrupted run goes on from its last checkpoint as if nothing had happened.
    Gradients are reduced once a step, over all processes. Checkpoints are written under another name and renamed, as
    folders that :meth:`~graphdoc.encoder.DocumentEncoder.from_pretrained` reads.

    Args:
        model: the model in training, on its device.
        recipe: gives batches and the loss, and measures the model; the numbers go to the log under ``eval_``.
        settings: how the run goes.
        checkpoints: writes and reads the run's checkpoints.
        processes: the processes that train together.
        show_progress_bar: show a bar; None shows it on a terminal.
        accelerator: the one whose trackers have been started; None makes one.
        callbacks: see :class:`~graphdoc.trainer.Trainer`.

    Attributes:
        state: how far the run has come.
    """

    def __init__(
        self,
        model: DocumentModel,
        recipe: Recipe,
        settings: TrainingSettings,
        checkpoints: RunCheckpoints,
        processes: Processes,
        *,
        show_progress_bar: bool | None = None,
        accelerator: Accelerator | None = None,
        callbacks: Sequence[TrainerCallback] = (),
    ) -> None:
        self.model, self.settings, self.processes = model, settings, processes
        self._recipe, self._checkpoints, self._show_progress = recipe, checkpoints, show_progress_bar
        length = recipe.loader.epoch_steps
        steps = settings.max_steps or math.ceil(settings.epochs * (length or 0))
        # A stream does not say how long an epoch is.
        self._epoch_steps, often = (length, length) if length else (steps, min(STREAM_SAVE_STEPS, steps))
        self._save_steps = settings.save_steps or often
        self.state, self._callbacks, self._control = TrainState(max_steps=steps), callbacks, TrainerControl()
        # What callbacks read of transformers' TrainingArguments.
        self._arguments: Any = SimpleNamespace(
            output_dir=str(checkpoints.folder), max_steps=steps, logging_steps=settings.logging_steps,
            num_train_epochs=settings.epochs, load_best_model_at_end=True,
            eval_strategy="steps" if recipe.evaluation else "no",
            metric_for_best_model=recipe.evaluation and recipe.evaluation.best,
            greater_is_better=recipe.evaluation and recipe.evaluation.greater_is_better,
        )  # fmt: skip
        self.accelerator = accelerator or make_accelerator(model.device, checkpoints.folder, settings.report_to)
        keep = settings.keep_activations
        self._step = CachedStep.from_settings(model, recipe.objective, settings, keep_activations=keep)
        optimizer = make_optimizer(model, settings)
        self._schedule = make_schedule(optimizer, settings, steps)
        self._optimizer = self.accelerator.prepare_optimizer(optimizer)
        self._means = StepMeans()
        self._log: RunLog | None = None
        self._stop = StopRequest()
        # What the processes agreed on: a signal reaches them at different moments, and they have to stop as one.
        self._is_stopping = False
        self._frozen_encoder = not any(weight.requires_grad for weight in model.passage_encoder.parameters())

    def run(self, checkpoint: Path | None = None) -> TrainState:
        """Train to the end, or on from a checkpoint, and leave the model with its best weights.

        Raises:
            DocumentError: a process that loads documents was ended.
            ModelError: the loss or a weight became NaN or infinite; ids of the documents are in the folder.
            OutputError: a checkpoint or the log cannot be written, the last one is whole; or a process has stopped.
        """
        if self.processes.count > 1:
            with exchange():
                broadcast(dict(self.model.state_dict()))
        if checkpoint is not None:
            self._load(checkpoint)
        try:
            with ExitStack() as stack:
                stack.callback(self._recipe.loader.close)
                if self.model.device.type == "cuda":
                    # What stays in float32, such as the graph, takes TF32 where the GPU has it.
                    stack.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
                    torch.set_float32_matmul_precision("high")
                opened: list[RunLog] = []
                folder, show = self._checkpoints.folder, self._show_progress
                self.processes.run_first(lambda: opened.append(RunLog(folder, self.state, self.accelerator, show)))
                self._log = stack.enter_context(opened[0]) if opened else None
                stack.enter_context(self._stop)
                self._train()
        except RuntimeError as error:
            # torch raises it wherever the program is when a worker dies.
            if not str(error).startswith("DataLoader worker"):
                raise
            raise DocumentError(
                "a process that loads documents was ended from outside, perhaps for want of memory; lower "
                f"training.dataloader_num_workers={self.settings.dataloader_num_workers} and resume"
            ) from error
        if self.state.best_global_step:
            self._checkpoints.load_weights(self._checkpoints.at_step(self.state.best_global_step))
        return self.state

    @property
    def was_stopped(self) -> bool:
        """Whether the run ended early because the system asked for it."""
        return self._is_stopping and self.state.global_step < self.state.max_steps

    def _load(self, checkpoint: Path) -> None:
        self._checkpoints.load_weights(checkpoint)
        self._checkpoints.load_optimizer(checkpoint, self._optimizer, self._schedule, self.accelerator.scaler)
        steps, self.state = self.state.max_steps, self._checkpoints.load_state(checkpoint)
        self.state.max_steps = steps
        best = self.state.best_global_step
        if best and not self._checkpoints.at_step(best).is_dir():
            # It was removed: the best of what follows is kept, or else the last.
            self.state.best_global_step, self.state.best_metric = None, None

    def _train(self) -> None:
        self._optimizer.zero_grad()
        batches = self._batches(self.state.global_step)
        is_first = self.processes.is_first
        vars(self.state).update(is_world_process_zero=is_first, is_local_process_zero=is_first)
        self._call("on_train_begin")
        while not self._is_stopping and not self._is_last:
            with self._means.waiting():
                batch = next(batches, None)
            if batch is None:
                break
            self._call("on_step_begin")
            self._compute_gradient(batch)
            norm = self.accelerator.clip_grad_norm_(self.model.parameters(), self.settings.max_grad_norm or math.inf)
            self._optimizer.step()
            rate = self._schedule.get_last_lr()[0]
            self._schedule.step()
            self._optimizer.zero_grad()
            state = self.state
            epoch, done = divmod(state.global_step, self._epoch_steps)
            state.global_step += 1
            state.epoch = epoch + (done + 1) / self._epoch_steps
            if self._log is not None:
                self._log.bar.update()
            self._finish_step({"grad_norm": norm, "learning_rate": rate})
            if done + 1 == self._epoch_steps:
                self._call("on_epoch_end")
        self._call("on_train_end")

    def _batches(self, first: int) -> Iterator[TrainingBatch]:
        """This process's share of every batch from a step of the run on; epochs begin on the way."""
        length, batches = self._recipe.loader.epoch_steps, self._recipe.loader.batches(first)
        for step in count(first):
            if step == first or (length is not None and step % length == 0):
                self._recipe.begin_epoch(step // length if length is not None else 0)
                self._call("on_epoch_begin")
            if (batch := next(batches, None)) is None:
                return
            yield batch

    @property
    def _is_last(self) -> bool:
        return self.state.global_step >= self.state.max_steps or self._control.should_training_stop

    def _call(self, event: str, **values: Any) -> None:
        """Call a method of all callbacks; all processes stop or save where one of the first asks for it."""
        for callback in self._callbacks:
            getattr(callback, event)(self._arguments, self.state, self._control, model=self.model, **values)
        if self._callbacks and event in ("on_step_end", "on_epoch_end", "on_evaluate"):
            self._control = self.processes.from_first(lambda: self._control)

    def _compute_gradient(self, batch: TrainingBatch) -> None:
        """Leave the gradient of a batch on the weights, mean over all processes."""
        number = self.state.global_step
        self.model.train()
        if self._frozen_encoder:
            # Its dropout would change vectors that are supposed to stay the same.
            self.model.passage_encoder.eval()
        seed = random_generator(self.settings.seed, "step", number, self.processes.rank).integers(2**63)
        torch.manual_seed(int(seed))
        if (scaler := self.accelerator.scaler) is not None:
            self._step.scale = scaler.scale(torch.ones((), device=self.model.device))
        output = self._step(batch)
        reduce_gradients(self.model.parameters(), self.processes.count)
        loss = output.loss
        is_wrong, is_asked = mean_over_processes(
            torch.stack([~torch.isfinite(loss), torch.tensor(self._stop.is_made, device=loss.device)]).float(),
            self.processes.count,
        ).tolist()
        if is_wrong:
            self._refuse_loss(float(mean_over_processes(loss, self.processes.count)), batch)
        self._is_stopping = bool(is_asked)
        self._means.add({"loss": loss, **output.metrics}, batch)

    def _refuse_loss(self, loss: float, batch: TrainingBatch) -> None:
        number = self.state.global_step + 1
        ids = [id for part in self.processes.gather(list(batch.ids)) for id in part]
        path = self._checkpoints.folder / f"{WRONG_BATCH}{number}.json"
        self.processes.run_first(lambda: write_run_file(path, {"step": number, "documents": ids}))
        raise ModelError(
            f"the loss of step {number} is {loss} and training was stopped; the ids of its {len(ids)} documents "
            f"are in {path}; look at them, at the weights it starts from, or lower learning_rate"
        )

    def _finish_step(self, numbers: Mapping[str, Any]) -> None:
        self._control.should_save = self._control.should_evaluate = self._control.should_log = False
        self._call("on_step_end")
        step, control = self.state.global_step, self._control
        is_due = step % self._save_steps == 0 or self._is_last or control.should_save or control.should_evaluate
        saves = is_due or self._is_stopping
        # What has been added up since the last entry is not part of a checkpoint: an entry before each makes resumed
        # runs log the same numbers.
        if saves or control.should_log or step % self.settings.logging_steps == 0:
            means, self._means = self._means.take(self.processes), StepMeans()
            self._write({"loss": means.pop("loss"), **{name: float(one) for name, one in numbers.items()}, **means})
        evaluation = self._recipe.evaluation
        if evaluation is not None and is_due:
            measured = self._write(self.measure(evaluation))
            self._call("on_evaluate", metrics=dict(measured))
            if evaluation.chooses:
                self.state.judge(measured, evaluation.best, greater_is_better=evaluation.greater_is_better)
        if saves:
            require_finite_weights(self.model, step)
            self.state.data = self._recipe.state_dict()
            state, optimizer, schedule, scaler = self.state, self._optimizer, self._schedule, self.accelerator.scaler
            self.processes.run_first(lambda: self._checkpoints.save(state, optimizer, schedule, scaler))
            self._call("on_save")

    def _write(self, entry: Mapping[str, Any]) -> Mapping[str, Any]:
        complete = self.state.log(entry)
        if self._log is not None:
            self._log.write(complete)
        self._call("on_log", logs=dict(complete))
        return complete

    def measure(self, evaluation: RunEvaluation) -> dict[str, float]:
        """Measure the model as it would be saved; names get ``eval_``. A metric to choose by has to be among them."""
        # Otherwise the first measure that needs numbers would complain, of something else.
        require_finite_weights(self.model, self.state.global_step)
        with inference(self.model):
            metrics = {name: float(value) for name, value in evaluation.measure().items()}
        # A measure of a user may differ from process to process, and all have to keep the same checkpoint.
        measured = self.processes.from_first(lambda: metrics)
        if evaluation.chooses:
            require_one_of("primary_metric", evaluation.best, [*measured])
        return {MEASURED + name: value for name, value in measured.items()}
