"""The trainer of all recipes: transformers' Trainer with cached steps, exact resumption and safe checkpoints."""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset
from transformers import EarlyStoppingCallback, PrinterCallback, Trainer
from transformers.trainer_callback import ExportableState
from transformers.trainer_utils import TrainOutput

from ..errors import DocumentError, ModelError
from ..inference.precision import Precision, computed_in, inference
from ..modeling import DocumentModel
from ..runtime.processes import Processes
from ..sampling.sub_documents import random_generator
from ..settings.training import TrainingSettings
from .arguments import training_arguments
from .checkpoint import RunCheckpoints, require_finite, wins_tie
from .distributed import broadcast_weights, mean_over_processes, reduce_gradients
from .loading import EpochLoader
from .log import ProgressBar, RunLog, Stopping
from .run_folder import ids_file, write_ids
from .step import StepOutput

logger = logging.getLogger(__name__)

# Encoders of transformers call them ``layer`` or ``layers``.
_LAYER = re.compile(r"\.layers?\.(\d+)\.")

Evaluation = Callable[[], Mapping[str, float]]


class Batch(Protocol):
    """What the loader gives and the step takes."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the documents."""
        ...

    @property
    def tokens(self) -> int:
        """Number of tokens."""
        ...


class DocumentTrainer(Trainer):
    """Trains a document model step by step, on one process or many.

    Every step is a pure function of the weights, the seed and the step's number: batches are, and random numbers are
    seeded anew at every step. So a run that was interrupted goes on from its last checkpoint as if nothing had been.
    Gradients are reduced once a step, over all processes. Checkpoints are written beside and moved into place, as
    folders that :meth:`~graphdoc.encoder.DocumentEncoder.from_pretrained` reads.

    Args:
        model: the model in training, on its device.
        step: computes the gradient of a batch and leaves it on the parameters.
        loader: gives this process's share of every batch; has ``set_epoch``.
        settings: how the run goes.
        checkpoints: writes and reads the run's checkpoints.
        processes: the processes that train together.
        documents: documents of the corpus.
        evaluation: measures the model now and then; the numbers go to the log under ``eval_``.
        best_metric: number of the evaluation by which the best checkpoint is told; None for none.
        greater_is_better: whether more of it is better.
        show_progress: show a bar; None shows it on a terminal.
    """

    def __init__(
        self,
        model: DocumentModel,
        step: Callable[[Any], StepOutput],
        loader: DataLoader[Any],
        settings: TrainingSettings,
        checkpoints: RunCheckpoints,
        processes: Processes,
        *,
        documents: int,
        evaluation: Evaluation | None = None,
        best_metric: str | None = None,
        greater_is_better: bool = False,
        show_progress: bool | None = None,
    ) -> None:
        self.document_model = model
        self.settings = settings
        self.processes = processes
        self._step, self._loader, self._documents = step, loader, documents
        self._checkpoints, self._evaluation = checkpoints, evaluation
        self._stopping = Stopping()
        # What the processes agreed on: a signal reaches them at different moments, and they have to stop as one.
        self._stops = False
        self._window = _Window()
        self._frozen_encoder = not any(weight.requires_grad for weight in model.passage_encoder.parameters())
        callbacks: list[Any] = [self._stopping, ProgressBar(show_progress), RunLog(checkpoints.folder)]
        if checkpoints.moving_average is not None:
            callbacks.append(checkpoints.moving_average)
        if settings.patience is not None and evaluation is not None and best_metric is not None:
            callbacks.append(EarlyStoppingCallback(settings.patience))
        super().__init__(
            model=model,
            args=training_arguments(
                settings,
                checkpoints.folder,
                model.device,
                None if isinstance(loader.dataset, IterableDataset) else len(loader),
                evaluates=evaluation is not None,
                best_metric=best_metric,
                greater_is_better=greater_is_better,
            ),
            # The evaluation brings its own documents, but the Trainer insists on some.
            eval_dataset={} if evaluation is not None else None,
            callbacks=callbacks,
        )
        self.remove_callback(PrinterCallback)
        steps = self.args.max_steps if self.args.max_steps > 0 else math.ceil(settings.epochs * len(loader))
        if settings.warmup > steps and processes.is_first:
            logger.warning(
                "training.warmup=%g steps is more than the %d steps of the run, which ends before learning_rate is "
                "reached",
                settings.warmup,
                steps,
            )

    def train(  # type: ignore[override]
        self, resume_from_checkpoint: str | None = None
    ) -> TrainOutput:
        """Train to the end, or on from a checkpoint, and leave the model with its best weights.

        Raises:
            DocumentError: a process that loads documents was ended.
            ModelError: the loss or weights are no numbers; ids of the documents of that loss are in the folder.
            OutputError: a checkpoint or the log cannot be written, the last checkpoint is whole; or another process
                has stopped.
        """
        broadcast_weights(self.document_model)
        try:
            result = super().train(resume_from_checkpoint)
        except RuntimeError as error:
            # torch raises it wherever the program is when a worker dies.
            if not str(error).startswith("DataLoader worker"):
                raise
            raise DocumentError(
                "a process that loads documents was ended from outside, perhaps for want of memory; lower "
                f"training.loading_processes={self.settings.loading_processes} and resume"
            ) from error
        finally:
            self._stopping.restore()
            if isinstance(self._loader, EpochLoader):
                self._loader.close()
        if self.state.best_global_step:
            self._checkpoints.load_weights(self._checkpoints.at_step(self.state.best_global_step))
        return result

    @property
    def was_stopped(self) -> bool:
        """Whether the run ended early because the system asked for it."""
        return self._stops and self.state.global_step < self.state.max_steps

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        """Compute the gradient of one batch, mean over all processes."""
        number = self.state.global_step
        model.train()
        if self._frozen_encoder:
            # Its dropout would change vectors that are supposed to stand still.
            self.document_model.passage_encoder.eval()
        seed = random_generator(self.settings.seed, "step", number, self.processes.rank).integers(2**63)
        torch.manual_seed(int(seed))
        output = self._step(inputs)
        reduce_gradients(self.document_model.parameters())
        is_wrong, is_asked = mean_over_processes(
            torch.stack([~torch.isfinite(output.loss), torch.tensor(self._stopping.asked, device=output.loss.device)])
            .float()
        ).tolist()  # fmt: skip
        if is_wrong:
            self._refuse_loss(number, inputs, float(mean_over_processes(output.loss)))
        self._stops = bool(is_asked)
        self._window.add(output.metrics, len(inputs.ids), inputs.tokens)
        return output.loss

    def _refuse_loss(self, number: int, batch: Batch, loss: float) -> None:
        ids = [id for part in self.processes.gather(list(batch.ids)) for id in part]
        path = ids_file(self._checkpoints.folder, number)
        self.processes.run_first(lambda: write_ids(path, number, ids))
        raise ModelError(
            f"the loss of step {number + 1} is {loss} and training was stopped; the ids of its {len(ids)} documents "
            f"are in {path}; look at them, at the weights it starts from, or lower "
            "learning_rate"
        )

    def _maybe_log_save_evaluate(self, *args: Any, **kwargs: Any) -> None:
        if self._stops:
            self.control.should_save = self.control.should_training_stop = True
        # What has been added up since the last entry is not part of a checkpoint: an entry before each makes resumed
        # runs log the same numbers.
        if self.control.should_save or self.control.should_evaluate:
            self.control.should_log = True
        super()._maybe_log_save_evaluate(*args, **kwargs)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add the numbers since the last entry to an entry of the log, means over steps and processes."""
        if "train_loss" in logs:
            return  # the Trainer's summary, a mean over steps that a resumed run knows a part of
        if isinstance(self._loader.dataset, IterableDataset):
            # A stream does not say how long an epoch is; the Trainer counts the steps since the run was resumed.
            self.state.epoch = self.state.global_step / self.state.max_steps
        if "loss" in logs:
            logs.update(self._window.close(self.processes.count, self.args.device))
        super().log(logs, start_time)

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Measure the model and write the numbers to the log."""
        metrics = self.measure()
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def measure(self) -> dict[str, float]:
        """Measure the model as it would be saved, in the first process while the others wait.

        Returns:
            The numbers, each under ``eval_`` and its name.
        """
        assert self._evaluation is not None
        metrics: dict[str, float] = {}

        def measure() -> None:
            # Otherwise the first measure that needs numbers would complain, of something else.
            require_finite(self.document_model, self.state.global_step)
            with self._checkpoints.result_weights(), inference(self.document_model):
                metrics.update({f"eval_{name}": float(value) for name, value in self._evaluation().items()})  # type: ignore[misc]

        self.processes.run_first(measure)
        return self.processes.gather(metrics)[0]

    def get_train_dataloader(self) -> DataLoader[Any]:
        """The loader, which knows its share without Accelerate."""
        return self._loader

    def get_batch_samples(self, epoch_iterator: Any, num_batches: int, device: Any) -> tuple[list[Any], None]:
        """Wait for the next batch, and count how long."""
        began = time.perf_counter()
        batches: list[Any] = []
        batch = next(epoch_iterator, None)
        if batch is not None:
            batches.append(batch)
        self._window.waited(time.perf_counter() - began)
        return batches, None

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """The optimiser, with a learning rate of its own for the passage encoder where one is set."""
        if self.optimizer is None:
            kind, options = self.get_optimizer_cls_and_kwargs(self.args, self.document_model)
            self.optimizer = kind(self._parameter_groups(), **options)
        return self.optimizer

    def _parameter_groups(self) -> list[dict[str, Any]]:
        settings = self.settings
        decaying = set(self.get_decay_parameter_names(self.document_model))
        layers = int(self.document_model.config.encoder_config.num_hidden_layers)
        groups: dict[tuple[bool, int, bool], list[Any]] = {}
        for name, weight in self.document_model.named_parameters():
            if weight.requires_grad:
                in_encoder = name.startswith("passage_encoder.")
                below = layers_below(name, layers) if in_encoder and settings.layer_decay is not None else 0
                groups.setdefault((in_encoder, below, name in decaying), []).append(weight)
        return [
            {
                "params": weights,
                "weight_decay": settings.weight_decay if decays else 0.0,
                "lr": ((settings.encoder_learning_rate if in_encoder else None) or settings.learning_rate)
                * (settings.layer_decay or 1.0) ** below,
            }
            for (in_encoder, below, decays), weights in sorted(groups.items(), key=lambda entry: entry[0])
        ]

    def create_accelerator_and_postprocess(self) -> None:
        """Keep Accelerate from wrapping the model: gradients are reduced here, once a step."""
        super().create_accelerator_and_postprocess()
        self.accelerator.prepare_model = partial(self.accelerator.prepare_model, evaluation_mode=True)

    def _determine_best_metric(self, metrics: dict[str, float], trial: Any) -> bool:
        is_best = super()._determine_best_metric(metrics, trial)
        if not is_best and wins_tie(self.state, metrics, str(self.args.metric_for_best_model)):
            self.state.best_global_step, is_best = self.state.global_step, True
        # The best weights are of use only where they were kept.
        self.control.should_save = self.control.should_save or is_best
        return is_best

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        require_finite(self.document_model, self.state.global_step)
        self.store_flos()
        self._checkpoints.save(self.state, self._exported_states(), self.optimizer, self.lr_scheduler, self.processes)

    def _exported_states(self) -> dict[str, Any]:
        """States of callbacks that a resumed run needs, such as how long nothing became better."""
        return {
            type(callback).__name__: callback.state()
            for callback in [*self.callback_handler.callbacks, self.control]
            if isinstance(callback, ExportableState)
        }

    def _init_training_state(self, *args: Any, **kwargs: Any) -> tuple[int, int]:
        place: tuple[int, int] = super()._init_training_state(*args, **kwargs)
        best = self.state.best_global_step
        if best and not self._checkpoints.at_step(best).is_dir():
            if self.processes.is_first:
                logger.warning(
                    "%s, the best so far, is gone; the best of what follows is kept, or else the last",
                    self._checkpoints.at_step(best),
                )
            self.state.best_global_step, self.state.best_metric = None, None
        return place

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        self._checkpoints.load_weights(Path(resume_from_checkpoint))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            self._checkpoints.load_optimizer(Path(checkpoint), self.optimizer, self.lr_scheduler)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        """Nothing to restore: random numbers are seeded at every step."""

    def _load_scaler(self, checkpoint: str | None) -> None:
        """Nothing to restore: gradients are in fp32."""

    def num_examples(self, dataloader: Any) -> int:
        """Documents of the corpus."""
        return self._documents

    def floating_point_ops(self, inputs: Any) -> int:
        """Not counted here; benchmarks do."""
        return 0


class _Window:
    """Sums between two entries of the log."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._began: float | None = None
        self._sums: dict[str, Tensor] = {}
        self._steps = self._documents = self._tokens = 0
        self._waited = 0.0

    def add(self, metrics: Mapping[str, Tensor], documents: int, tokens: int) -> None:
        for name, value in metrics.items():
            self._sums[name] = self._sums[name] + value if name in self._sums else value
        self._steps += 1
        self._documents += documents
        self._tokens += tokens

    def waited(self, seconds: float) -> None:
        # The time of a window is that of its steps, from the wait for the first batch on.
        if self._began is None:
            self._began = time.perf_counter() - seconds
        self._waited += seconds

    def close(self, processes: int, device: torch.device) -> dict[str, float]:
        seconds = max(time.perf_counter() - (self._began or 0.0), 1e-9)
        names: Sequence[str] = list(self._sums)
        steps = max(self._steps, 1)
        values = [float(self._sums[name]) / steps for name in names]
        values += [self._documents / seconds * processes, self._tokens / seconds * processes, self._waited / seconds]
        means = mean_over_processes(torch.tensor(values, dtype=torch.float64, device=device)).tolist()
        self._reset()
        return dict(zip([*names, "documents_per_second", "tokens_per_second", "waiting_share"], means, strict=True))


def layers_below(name: str, layers: int) -> int:
    """How many layers of the passage encoder lie between a weight and the top; embeddings lie below the first layer.

    Args:
        name: name of the weight, such as ``passage_encoder.transformer.encoder.layer.3.output.dense.weight``.
        layers: number of layers.
    """
    number = _LAYER.search(name)
    if number is not None:
        return layers - 1 - int(number[1])
    return layers if "embed" in name else 0


def computing_in(precision: Precision, model: DocumentModel) -> Callable[[], Any]:
    """Makes contexts in which the transformer of a model computes in a precision."""
    return lambda: computed_in(precision, model.passage_encoder, "the model")
