"""Checkpoints of a run: whole models that can be used, with all that is needed to go on training."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from ..checkpoints.contents import WEIGHTS_FILE
from ..checkpoints.save import save_checkpoint
from ..errors import ModelError, OutputError
from ..modeling import DocumentModel
from ..modeling.document_model import TRAINING_PARTS
from ..runtime.files import write_text
from ..runtime.text import one_line
from .optimizer import load_optimizer, merged_weights, save_optimizer, trained_updates, trained_weights

# What measurements are called in the log, before their names.
MEASURED = "eval_"

STATE_FILE, TRAINING_FOLDER = "trainer_state.json", "training"
TRAINED_FILE, PARTS_FILE = "trained.safetensors", "parts.safetensors"
PREFIX = "checkpoint-"


def finite(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry for JSON, which has no word for what is not finite, such as a gradient that overflows: None there."""
    return {name: one if not isinstance(one, float) or math.isfinite(one) else None for name, one in entry.items()}


@dataclass
class TrainState:
    """How far a run has come; the fields are those of transformers' ``TrainerState``.

    ``best_global_step`` is None where nothing was measured, or the checkpoint is gone; ``data`` is the place in the
    data, where it does not follow from the number of the step.
    """

    global_step: int = 0
    max_steps: int = 0
    epoch: float = 0.0
    best_metric: float | None = None
    best_global_step: int | None = None
    log_history: list[dict[str, Any]] = field(default_factory=list)
    data: dict[str, Any] | None = None

    def log(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Add an entry to the history, and give it with the epoch."""
        complete = {**entry, "epoch": self.epoch}
        self.log_history.append(finite({**complete, "step": self.global_step}))
        return complete

    def judge(self, measured: Mapping[str, float], metric: str, *, greater_is_better: bool) -> None:
        """Take note of what was measured, and whether this is the best model so far by a metric.

        Few documents to measure give the same number again and again, at first to models that hardly know anything
        yet. The lower loss decides between them, or where none is measured, the later one wins. No model is the best
        by what is no finite number.
        """
        score, best, loss = measured[MEASURED + metric], self.best_metric, MEASURED + "loss"
        is_best = math.isfinite(score) and (best is None or (score > best if greater_is_better else score < best))
        if score == best:
            history = (entry.get(loss) for entry in self.log_history if entry["step"] == self.best_global_step)
            least = next((one for one in history if one is not None), math.inf)
            is_best = loss not in measured or measured[loss] < least
        if is_best:
            self.best_metric, self.best_global_step = score, self.global_step


class RunCheckpoints:
    """Writes and reads the checkpoints of a run.

    A checkpoint ``checkpoint-N`` is a folder that :meth:`~graphdoc.encoder.DocumentEncoder.from_pretrained` reads, as
    the run would leave it if it ended there. Its folder ``training`` holds the weights as they are in training, where
    those differ, those of parts that training alone uses, and the optimizer's state. It is written under another name
    and then renamed, so that there is always a whole one. Reading one that is damaged, or of another model, is a
    ModelError that names the file.

    Args:
        folder: the run's folder.
        model: the model in training.
        tokenizer: tokenizer of its passage encoder.
        name: what model cards call it.
        keep: checkpoints that are kept, apart from the best.
        describe_training: gives the sections of the model card on how it was trained.
        only_updates: store what was trained on top of the backbone instead of all weights.
    """

    def __init__(
        self,
        folder: Path,
        model: DocumentModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        name: str,
        keep: int = 2,
        describe_training: Callable[[], str] = str,
        only_updates: bool = False,
    ) -> None:
        self.folder = folder
        self._model, self._tokenizer, self._name = model, tokenizer, name
        self._keep, self._describe, self._only_updates = keep, describe_training, only_updates

    @property
    def last(self) -> Path | None:
        """The newest checkpoint of the run, None if there is none."""
        return next(reversed(self._all()), None)

    def _all(self) -> list[Path]:
        paths = (path for path in self.folder.glob(f"{PREFIX}*") if path.is_dir() and _step_of(path) >= 0)
        return sorted(paths, key=_step_of)

    def at_step(self, step: int) -> Path:
        """Folder of the checkpoint of a step, whether it is there or not; the run's folder may have been moved."""
        return self.folder / f"{PREFIX}{step}"

    def save(self, state: TrainState, optimizer: Any, schedule: Any, scaler: Any) -> None:
        """Write a checkpoint of the current step, and delete all but the newest and the best.

        Raises:
            OutputError: it cannot be written; earlier checkpoints are whole.
        """
        target = self.at_step(state.global_step)
        if target.exists():
            # The run goes on from an earlier one.
            return
        partial = self.folder / f".partial-{target.name}"
        training = partial / TRAINING_FOLDER
        try:
            shutil.rmtree(partial, ignore_errors=True)
            self.save_result(partial)
            training.mkdir()
            trained = {name: weight.detach().contiguous() for name, weight in trained_weights(self._model).items()}
            parts = {name: trained.pop(name) for name in list(trained) if name.startswith(TRAINING_PARTS)}
            if beside := parts | _buffers_of_parts(self._model):
                save_file(beside, training / PARTS_FILE)
            if len(trained) + len(parts) < len(list(self._model.parameters())):
                save_file(trained, training / TRAINED_FILE)
            save_optimizer(training, optimizer, schedule, scaler)
            write_text(partial / STATE_FILE, json.dumps(asdict(state), indent=2) + "\n")
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
        for old in self._all()[: -self._keep]:
            if _step_of(old) != state.best_global_step:
                shutil.rmtree(old, ignore_errors=True)

    def save_result(self, folder: Path) -> Path:
        """Write the model as it is used, with low-rank updates added in."""
        return save_checkpoint(
            self._model, self._tokenizer, folder, name=self._name,
            weights=None if self._only_updates else merged_weights(self._model),
            updates=trained_updates(self._model) if self._only_updates else None,
            training=self._describe(),
        )  # fmt: skip

    @staticmethod
    def load_state(checkpoint: Path) -> TrainState:
        """How far a run had come at a checkpoint."""
        with _reading(checkpoint / STATE_FILE, checkpoint):
            state = TrainState(**json.loads((checkpoint / STATE_FILE).read_text(encoding="utf-8")))
            if state.global_step != _step_of(checkpoint):
                raise ValueError(f"step {state.global_step!r}")
        return state

    def load_weights(self, checkpoint: Path) -> None:
        """Give the model the weights of a checkpoint as they were in training."""
        training = checkpoint / TRAINING_FOLDER
        path = training / TRAINED_FILE if (training / TRAINED_FILE).exists() else checkpoint / WEIGHTS_FILE
        weights = trained_weights(self._model) | _buffers_of_parts(self._model)
        with _reading(path, checkpoint), torch.no_grad():
            saved = load_file(path)
            if any(name.startswith(TRAINING_PARTS) for name in weights):
                saved |= load_file(training / PARTS_FILE)
            for name, weight in weights.items():
                weight.copy_(saved[name])

    @staticmethod
    def load_optimizer(checkpoint: Path, optimizer: Any, schedule: Any, scaler: Any) -> None:
        """Give the optimizer, its schedule and what scales gradients the state of a checkpoint."""
        folder = checkpoint / TRAINING_FOLDER
        with _reading(folder, checkpoint):
            load_optimizer(folder, optimizer, schedule, scaler)


def _buffers_of_parts(model: DocumentModel) -> dict[str, Tensor]:
    """Buffers that steps may change, such as the memory of a loss."""
    return {name: buffer for name, buffer in model.named_buffers() if name.startswith(TRAINING_PARTS)}


def _step_of(checkpoint: Path) -> int:
    """The step of a checkpoint by the name of its folder, -1 for what is none."""
    number = checkpoint.name.removeprefix(PREFIX)
    return int(number) if number.isdecimal() else -1


@contextmanager
def _reading(path: Path, checkpoint: Path) -> Iterator[None]:
    """Name the file of a checkpoint that cannot be read; safetensors, json and torch raise errors of their own."""
    try:
        yield
    except Exception as error:
        raise ModelError(
            f"{path} cannot be used ({type(error).__name__}: {one_line(str(error), 200)}); remove {checkpoint} to "
            "resume from the one before, or start again"
        ) from error


def not_finite(weights: Iterable[tuple[str, Tensor]]) -> str | None:
    """Name of a weight that is NaN or infinite, None where all are finite."""
    return next((name for name, weight in weights if not torch.isfinite(weight).all()), None)


def require_finite_weights(model: DocumentModel, step: int) -> None:
    """Refuse trained weights that are NaN or infinite after some steps, before they are written or measured."""
    if (wrong := not_finite(trained_weights(model).items())) is not None:
        raise ModelError(
            f"weight {wrong} became NaN or infinite after step {step}; no checkpoint was written: lower "
            "training.learning_rate, or warm up over more steps (training.warmup_steps)"
        )
