"""The settings of a training run, as a configuration file holds them."""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass, field
from typing import Literal, get_args

from ..training.tuning import LoraSettings, Tune
from .document import setting_names

Optimizer = Literal["adam", "adamw", "adafactor"]
Schedule = Literal["linear", "cosine", "constant", "constant_with_warmup", "inverse_sqrt", "warmup_stable_decay"]
Tracker = Literal["tensorboard"]
# Without float16, which would need its losses scaled.
TrainingPrecision = Literal["float32", "bfloat16"]

MOST_STEPS = 10**9
# Beyond this a slip of the pen fills the memory of most machines before the first step.
MOST_LOADING_PROCESSES = 128
_SET_BY_THE_RUN = {
    "labels": "the labels of the documents",
    "multi_label": "labels.multi_label",
    "classifier_dropout": "labels.dropout",
    "trained": "training itself",
}


@dataclass(frozen=True)
class ModelSettings:
    """What is trained and where it starts.

    Args:
        start: name or folder of a pretrained encoder, on which everything above starts untrained; or of a graphdoc
            checkpoint, which is trained on. The other settings of the model are then the checkpoint's, unless given.
        settings: fields of the model's configuration (see :class:`~graphdoc.modeling.DocumentConfig`), such as
            ``graph_kind``, ``pooling`` or ``projection_size``.
        tune: ``full``, ``lora`` or ``frozen`` passage encoder; what lies above it is always trained.
        lora: the low-rank updates, for ``tune: lora``.
        gradient_checkpointing: compute activations of the transformer again instead of holding them, for mini-batches
            of long passages.
        compile: compile the transformer, which pays off in runs of hours.
        store: ``whole`` checkpoints, or only the ``updates``: what was trained on top of the backbone, which is then
            loaded by its name; not for ``tune: full``.
        begin: how layers begin that start untrained: ``random``, or so that document vectors are nearly the ``mean``
            of the passage vectors (see :func:`~graphdoc.modeling.mean_start.start_at_mean`).
        result_readout: readout of the trained model, where it is another than the one it is trained with:
            ``document_node``, ``mean`` or ``initial_mean``, which have no weights of their own. For pretraining alone:
            what is fine-tuned on labels or groups learns for the vectors that it is trained with.

    Raises:
        ValueError: ``store`` does not go with ``tune``, ``begin`` is unknown, or a setting is one that the run makes.
    """

    start: str = "roberta-base"
    settings: dict[str, str | int | float | bool | None] = field(default_factory=dict)
    tune: Tune = "full"
    lora: LoraSettings = field(default_factory=LoraSettings)
    gradient_checkpointing: bool = False
    compile: bool = False
    store: Literal["whole", "updates"] = "whole"
    begin: Literal["random", "mean"] = "random"
    result_readout: Literal["document_node", "mean", "initial_mean"] | None = None

    def __post_init__(self) -> None:
        if not self.start.strip():
            raise ValueError("model.start is empty; give the name or folder of a pretrained encoder or checkpoint")
        if self.store == "updates" and self.tune == "full":
            raise ValueError("store='updates' needs a passage encoder that is not trained whole; set tune to lora or "
                             "frozen, or store to whole")  # fmt: skip
        for name in self.settings:
            if name in _SET_BY_THE_RUN:
                raise ValueError(f"model.settings.{name} is given by {_SET_BY_THE_RUN[name]}; leave it out")
            if name not in setting_names():
                near = difflib.get_close_matches(name, setting_names(), n=1, cutoff=0.4)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(setting_names())}"
                raise ValueError(f"model.settings.{name} is unknown; {hint}")
        if self.begin not in ("random", "mean"):
            raise ValueError(f"begin={self.begin!r} is unknown; use random or mean")

    def require_own_readout(self) -> None:
        """Refuse another readout for the result, which what is fine-tuned would not fit.

        Raises:
            ValueError: the result is to have another readout.
        """
        if self.result_readout is not None:
            raise ValueError(
                f"model.result_readout={self.result_readout} is for pretraining; leave it out, and set "
                "model.settings.readout to train with that readout"
            )


def require_used_rates(model: ModelSettings, training: TrainingSettings) -> None:
    """Refuse learning rates of a passage encoder that learns nothing.

    Raises:
        ValueError: there are such.
    """
    for name in ("encoder_learning_rate", "layer_decay"):
        value = getattr(training, name)
        if value is not None and model.tune == "frozen":
            raise ValueError(
                f"training.{name}={value} has no effect on a frozen passage encoder; leave it out, or set model.tune "
                "to lora or full"
            )


@dataclass(frozen=True)
class TrainingSettings:
    """How long and how a model is trained.

    Args:
        batch_size: documents that the loss compares with each other, over all processes.
        epochs: passes over the corpus.
        max_steps: steps after which a run ends whatever the epochs; needed for streaming.
        learning_rate: highest learning rate.
        encoder_learning_rate: that of the passage encoder; None is the same.
        layer_decay: learning rate of each layer of the passage encoder, as a share of the next one's; the embeddings
            come below the first. None for the same rate everywhere.
        optimizer: ``adam`` (the paper's), ``adamw`` or ``adafactor``.
        weight_decay: decay of weights, not of biases and norms; for ``adamw``.
        schedule: course of the learning rate after the warm-up.
        warmup: share of all steps (below 1) or number of steps over which the learning rate rises.
        clip: longest gradient; longer ones are shortened to it. 0 for none.
        moving_average: share that the average of the weights keeps at every step, such as 0.999; the average is then
            what is evaluated and saved as the result. None for none.
        precision: what the transformer computes in; graph, loss and weights are in float32.
        token_budget: most tokens, with padding, of a mini-batch; by default small on a CPU and large on accelerators.
        keep_activations: tokens whose activations are kept rather than computed twice; as many as fit in memory.
        seed: of everything that is drawn.
        loading_processes: processes of each process that prepare batches ahead, at most 128.
        save_steps: steps between checkpoints; None for one at the end of every epoch.
        keep_checkpoints: checkpoints that are kept, apart from the best one.
        log_steps: steps between entries in the log.
        evaluation_steps: steps between evaluations; None for one at the end of every epoch.
        patience: evaluations without a better result after which a run ends; None for never.
        trackers: where numbers are also written: ``tensorboard``.

    Raises:
        ValueError: a value is out of range; the message names it.
    """

    batch_size: int = 1536
    epochs: float = 10.0
    max_steps: int | None = None
    learning_rate: float = 5e-5
    encoder_learning_rate: float | None = None
    layer_decay: float | None = None
    optimizer: Optimizer = "adam"
    weight_decay: float = 0.0
    schedule: Schedule = "linear"
    warmup: float = 0.1
    clip: float = 1.0
    moving_average: float | None = None
    precision: TrainingPrecision = "float32"
    token_budget: int | None = None
    keep_activations: int = 0
    seed: int = 0
    loading_processes: int = 2
    save_steps: int | None = None
    keep_checkpoints: int = 2
    log_steps: int = 10
    evaluation_steps: int | None = None
    patience: int | None = None
    trackers: list[Tracker] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("batch_size", "max_steps", "token_budget", "save_steps", "keep_checkpoints", "log_steps",
                     "evaluation_steps", "patience"):  # fmt: skip
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name}={value} must be at least 1")
        for name, most in (("learning_rate", 1e30), ("encoder_learning_rate", 1e30), ("epochs", 1e6)):
            value = getattr(self, name)
            if value is not None and not 0 < value <= most:
                raise ValueError(f"{name}={value} must be a number above 0 and at most {most:g}")
        if self.max_steps is not None and self.max_steps > MOST_STEPS:
            raise ValueError(f"max_steps={self.max_steps} must be at most {MOST_STEPS:,}")
        for name in ("weight_decay", "warmup", "clip", "keep_activations", "loading_processes"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 0 and finite")
        if self.loading_processes > MOST_LOADING_PROCESSES:
            raise ValueError(
                f"loading_processes={self.loading_processes} must be at most {MOST_LOADING_PROCESSES}; "
                "each takes memory, and a few keep up with training"
            )
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"seed={self.seed} must be at least 0 and below {2**32}")
        if self.layer_decay is not None and not 0 < self.layer_decay <= 1:
            raise ValueError(f"layer_decay={self.layer_decay} must be above 0 and at most 1, such as 0.9")
        if self.moving_average is not None and not 0 < self.moving_average < 1:
            raise ValueError(f"moving_average={self.moving_average} must be above 0 and below 1, such as 0.999")
        if self.precision not in get_args(TrainingPrecision):
            raise ValueError(f"precision={self.precision} is not for training; use float32 or bfloat16")
        if self.optimizer not in get_args(Optimizer):
            raise ValueError(f"optimizer {self.optimizer!r} is unknown; use one of {', '.join(get_args(Optimizer))}")
        if self.weight_decay and self.optimizer == "adam":
            raise ValueError(f"weight_decay={self.weight_decay} has no effect with adam; use optimizer=adamw")
