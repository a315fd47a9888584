"""Checkpoints of a run: whole models that can be used, with all that is needed to go on training."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedTokenizerBase, TrainerState
from transformers.trainer_utils import get_last_checkpoint, sort_checkpoints

from ..checkpoints.loading import WEIGHTS_FILE, save_checkpoint
from ..errors import ModelError, OutputError
from ..modeling import DocumentModel
from ..runtime.plain_text import one_line
from ..runtime.processes import Processes
from .moving_average import FILE as AVERAGE_FILE
from .moving_average import MovingAverage
from .optimizer_state import load_optimizer, save_optimizer, way_out
from .tuning import merged_weights, trained_updates, trained_weights

STATE_FILE = "trainer_state.json"
TRAINING_FOLDER = "training"
TRAINED_FILE = "trained.safetensors"
DATA_FILE = "data.json"
PREFIX = "checkpoint-"


class RunCheckpoints:
    """Writes and reads the checkpoints of a run.

    A checkpoint ``checkpoint-N`` is a folder that :meth:`~graphdoc.encoder.DocumentEncoder.from_pretrained` reads, as
    the run would leave it if it ended there. Its folder ``training`` holds the weights as they are in training, where
    those differ, and the optimiser's state. It is written under another name and then renamed, so that there is
    always a whole one.

    Args:
        folder: the run's folder.
        model: the model in training.
        tokenizer: tokenizer of its passage encoder.
        name: what model cards call it.
        keep: checkpoints that are kept, apart from the best.
        moving_average: the average of the weights, which is then the result.
        describe_training: gives the sections of the model card on how it was trained.
        only_updates: store what was trained on top of the backbone instead of all weights.
        data_state: gives the place in the data; None where the number of the step says it all.
    """

    def __init__(
        self,
        folder: Path,
        model: DocumentModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        name: str,
        keep: int = 2,
        moving_average: MovingAverage | None = None,
        describe_training: Callable[[], str] = str,
        only_updates: bool = False,
        data_state: Callable[[], Mapping[str, Any] | None] = lambda: None,
    ) -> None:
        self.folder = folder
        self.moving_average = moving_average
        self._model, self._tokenizer, self._name = model, tokenizer, name
        self._keep, self._describe, self._data_state = keep, describe_training, data_state
        self._only_updates = only_updates

    @property
    def last(self) -> Path | None:
        """The newest checkpoint of the run, None if there is none."""
        last = get_last_checkpoint(str(self.folder)) if self.folder.is_dir() else None
        return Path(last) if last is not None else None

    def save(
        self, state: Any, callbacks: Mapping[str, Any], optimizer: Any, scheduler: Any, processes: Processes
    ) -> None:
        """Write a checkpoint of the current step; one process writes, the others wait.

        Args:
            state: the trainer's state.
            callbacks: states of callbacks by name.
            optimizer: the optimiser.
            scheduler: its schedule.
            processes: the processes of the run.

        Raises:
            OutputError: it cannot be written; earlier checkpoints are whole.
        """
        target = self.at_step(state.global_step)
        if target.exists():
            # The end of an epoch can fall on a step that was saved already.
            processes.gather(None)
            return
        for name, values in callbacks.items():
            previous = state.stateful_callbacks.get(name)
            state.stateful_callbacks[name] = [*previous, values] if isinstance(previous, list) else values

        def write() -> None:
            partial = self.folder / f".partial-{target.name}"
            try:
                shutil.rmtree(partial, ignore_errors=True)
                self.save_result(partial)
                self._save_training(partial / TRAINING_FOLDER, optimizer, scheduler)
                state.save_to_json(str(partial / STATE_FILE))
                partial.rename(target)
            except (OSError, SafetensorError, OutputError) as error:
                # What writing a model says advises another place, and a run has one.
                reason = (error.__cause__ or error) if isinstance(error, OutputError) else error
                raise OutputError(
                    f"checkpoint {target} cannot be written: {one_line(str(reason))}; earlier checkpoints are whole: "
                    "free some space and resume"
                ) from error
            finally:
                shutil.rmtree(partial, ignore_errors=True)
            self._rotate(state.best_global_step)

        processes.run_first(write)

    def at_step(self, step: int) -> Path:
        """Folder of the checkpoint of a step, whether it is there or not; the run's folder may have been moved."""
        return self.folder / f"{PREFIX}{step}"

    def _rotate(self, best_step: int | None) -> None:
        """Delete all but the newest checkpoints and the best one."""
        kept = self.at_step(best_step or 0)
        for old in map(Path, sort_checkpoints(str(self.folder))[: -self._keep]):
            if old != kept:
                shutil.rmtree(old, ignore_errors=True)

    def save_result(self, folder: Path) -> Path:
        """Write the model as it is used: with the averaged weights if there are any, and low-rank updates added in.

        Raises:
            OutputError: it cannot be written.
        """
        with self.result_weights():
            weights = None if self._only_updates else merged_weights(self._model)
            return save_checkpoint(
                self._model,
                self._tokenizer,
                folder,
                name=self._name,
                weights=weights,
                updates=trained_updates(self._model) if self._only_updates else None,
                training=self._describe(),
            )

    @contextmanager
    def result_weights(self) -> Iterator[None]:
        """A context in which the model has the weights that are the result of the run."""
        if self.moving_average is None:
            yield
            return
        with self.moving_average.applied():
            yield

    @staticmethod
    def require_state(checkpoint: Path) -> None:
        """Refuse a checkpoint that does not say where its run was, before anything is made of it.

        Raises:
            ModelError: the trainer's state is missing or damaged.
        """
        path = checkpoint / STATE_FILE
        try:
            step = TrainerState.load_from_json(str(path)).global_step
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelError(f"{path} cannot be used ({type(error).__name__}); {way_out(checkpoint)}") from error
        if f"{PREFIX}{step}" != checkpoint.name:
            raise ModelError(f"{path} says step {step!r}; {way_out(checkpoint)}")

    def load_weights(self, checkpoint: Path) -> None:
        """Give the model the weights of a checkpoint as they were in training, and the average its own.

        Raises:
            ModelError: the checkpoint is damaged or belongs to another model.
        """
        training = checkpoint / TRAINING_FOLDER
        path = training / TRAINED_FILE if (training / TRAINED_FILE).exists() else checkpoint / WEIGHTS_FILE
        own: Mapping[str, Tensor] = trained_weights(self._model)
        try:
            saved = load_file(path)
            with torch.no_grad():
                for name, weight in own.items():
                    weight.copy_(saved[name])
            if self.moving_average is not None:
                path = training / AVERAGE_FILE
                self.moving_average.load(training)
        except (OSError, SafetensorError, KeyError, RuntimeError) as error:
            raise ModelError(
                f"{path} cannot be used ({str(error).partition(chr(10))[0][:200]}); {way_out(checkpoint)}"
            ) from error

    def load_optimizer(self, checkpoint: Path, optimizer: Any, scheduler: Any) -> None:
        """Give the optimiser and its schedule the state of a checkpoint.

        Raises:
            ModelError: the checkpoint is damaged or belongs to other weights.
        """
        load_optimizer(checkpoint / TRAINING_FOLDER, optimizer, scheduler)

    @staticmethod
    def read_data_state(checkpoint: Path) -> dict[str, Any]:
        """The place in the data where a checkpoint was written.

        Raises:
            ModelError: the checkpoint does not say.
        """
        path = checkpoint / TRAINING_FOLDER / DATA_FILE
        try:
            state: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ModelError(f"{path} cannot be read; {way_out(checkpoint)}") from error
        return state

    def _save_training(self, folder: Path, optimizer: Any, scheduler: Any) -> None:
        folder.mkdir()
        own = trained_weights(self._model)
        if self.moving_average is not None:
            self.moving_average.save(folder)
        if self.moving_average is not None or len(own) < len(list(self._model.parameters())):
            save_file({name: weight.detach().contiguous() for name, weight in own.items()}, folder / TRAINED_FILE)
        save_optimizer(folder, optimizer, scheduler)
        if (place := self._data_state()) is not None:
            (folder / DATA_FILE).write_text(json.dumps(place), encoding="utf-8")


def wins_tie(state: TrainerState, metrics: Mapping[str, float], metric: str) -> bool:
    """Whether a model that is as good as the best one so far takes its place.

    Few documents to measure give the same accuracy again and again, at first to models that hardly know anything yet.
    The lower loss tells them apart, or where none is measured, the later one is taken.

    Args:
        state: the state of the run.
        metrics: what was measured now.
        metric: the number by which the best model is told.
    """
    metric = f"eval_{metric.removeprefix('eval_')}"
    if state.best_metric is None or metrics.get(metric) != state.best_metric:
        return False
    before = next((entry for entry in state.log_history if entry.get("step") == state.best_global_step
                   and metric in entry), {})  # fmt: skip
    return "eval_loss" not in metrics or metrics["eval_loss"] < before.get("eval_loss", math.inf)


def not_finite(weights: Iterable[tuple[str, Tensor]]) -> str | None:
    """Name of a weight that is infinite or none, None where all are numbers."""
    return next((name for name, weight in weights if not torch.isfinite(weight).all()), None)


def require_finite(model: DocumentModel, step: int) -> None:
    """Refuse weights that are no numbers, before they are written or measured.

    Args:
        model: the model in training.
        step: after how many steps.

    Raises:
        ModelError: a weight that is trained is infinite or none.
    """
    if (wrong := not_finite(trained_weights(model).items())) is not None:
        raise ModelError(
            f"after step {step} the weights {wrong} are no numbers and nothing was written; earlier checkpoints are "
            "whole: lower training.learning_rate, or warm up over more steps (training.warmup)"
        )
