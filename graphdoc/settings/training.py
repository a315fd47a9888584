"""How long and how a model is trained."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from .base import Count, Settings

Optimizer = Literal["adam", "adamw"]
Schedule = Literal["linear", "cosine", "constant", "constant_with_warmup"]
Tracker = Literal["tensorboard", "wandb", "mlflow"]
# Without float16, which would need its losses scaled.
TrainingPrecision = Literal["float32", "bfloat16"]
LearningRate = Annotated[float, Field(gt=0, le=1e30)]
# Beyond this a slip of the pen fills the memory of most machines before the first step.
MOST_LOADING_PROCESSES = 128


class TrainingSettings(Settings):
    """How long and how a model is trained."""

    batch_size: Annotated[int, Field(ge=1, le=10**7)] = 1536
    """documents that the loss compares with each other, over all processes"""
    epochs: Annotated[float, Field(gt=0, le=1e6)] = 10.0
    """passes over the corpus"""
    max_steps: Count | None = None
    """steps after which a run ends whatever the epochs; needed for streaming"""
    learning_rate: LearningRate = 5e-5
    """highest learning rate"""
    encoder_learning_rate: LearningRate | None = None
    """that of the passage encoder; null for the same"""
    optimizer: Optimizer = "adam"
    """adam is the paper's"""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """decay of weights, not of biases and norms; not for adam"""
    schedule: Schedule = "linear"
    """course of the learning rate after the warm-up"""
    warmup: Annotated[float, Field(ge=0, le=1e9)] = 0.1
    """share of all steps (below 1) or number of steps over which the learning rate rises"""
    clip: Annotated[float, Field(ge=0)] = 1.0
    """longest gradient; longer ones are shortened to it; 0 for none"""
    precision: TrainingPrecision = "float32"
    """what the transformer computes in; graph, loss and weights are in float32"""
    token_budget: Count | None = None
    """most tokens, with padding, of a mini-batch; null takes few on a CPU and many on accelerators"""
    padding: Annotated[float, Field(ge=0, le=1)] | None = None
    """largest share of padding in a mini-batch; null decides by device"""
    keep_activations: Annotated[int, Field(ge=0, le=10**12)] = 0
    """tokens whose activations are kept rather than computed twice; as many as fit in memory"""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    """of everything that is drawn"""
    loading_processes: Annotated[int, Field(ge=0, le=MOST_LOADING_PROCESSES)] = 2
    """processes of each process that prepare batches ahead"""
    save_steps: Count | None = None
    """steps between checkpoints; null for one at the end of every epoch"""
    keep_checkpoints: Count = 2
    """checkpoints that are kept, apart from the best one"""
    log_steps: Count = 10
    """steps between entries in the log"""
    evaluation_steps: Count | None = None
    """steps between evaluations; null for one at the end of every epoch"""
    trackers: list[Tracker] = Field(default_factory=list)
    """where numbers are also written"""

    @model_validator(mode="after")
    def _check_effects(self) -> Self:
        self.require_effect(
            "weight_decay", self.optimizer != "adam", "with adam; set {here}optimizer=adamw, or leave it out"
        )
        # A constant rate has no warm-up, which 0 says as well.
        has_warmup = self.schedule != "constant" or self.warmup == 0
        self.require_effect(
            "warmup",
            has_warmup,
            "with {here}schedule=constant; set {here}schedule=constant_with_warmup, or leave it out",
        )
        return self
