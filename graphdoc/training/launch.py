"""What a launcher sets up for a run: its processes, and what Accelerate is configured to do."""

from __future__ import annotations

import os

import torch

from ..errors import SettingsError
from ..runtime.processes import Processes, own_gpu, usable_device
from ..settings.training import TrainingSettings

# Settings of Accelerate that have no place here, with what does the same.
_REFUSED = {
    "ACCELERATE_USE_DEEPSPEED": "DeepSpeed",
    "ACCELERATE_USE_FSDP": "FSDP",
    "ACCELERATE_USE_MEGATRON_LM": "Megatron-LM",
    "ACCELERATE_USE_PARALLELISM_CONFIG": "a parallelism configuration",
}
_OFF = ("", "0", "false", "no", "off")
_PRECISIONS = {"bf16": "bfloat16"}


def join_run(training: TrainingSettings, device: str | torch.device | None) -> Processes:
    """Join the processes of a run, and seed this one.

    Args:
        training: how the model is trained.
        device: where; None takes the accelerator of this process if there is one.

    Raises:
        ModelError: the device is unknown.
        SettingsError: Accelerate is set up for something else than the run does, or the device is one for several
            processes.
    """
    place = usable_device(device)
    _check_accelerate(training)
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if processes > 1 and place.type == "cuda" and place != own_gpu():
        raise SettingsError(
            f"device={place} is one GPU, and {processes} processes train here; leave it out, and each takes its own"
        )
    joined = Processes(place)
    torch.manual_seed(training.seed)
    return joined


def _check_accelerate(training: TrainingSettings) -> None:
    """Refuse what ``accelerate launch`` or its configuration file asks for and the run would not do.

    Raises:
        SettingsError: there is such a setting.
    """
    for key, name in _REFUSED.items():
        if os.environ.get(key, "").lower() not in _OFF:
            raise SettingsError(
                f"{key}={os.environ[key]}: graphdoc keeps the whole model on every device and has no use for {name}; "
                "set distributed_type to MULTI_GPU, MULTI_CPU or NO in accelerate config; for memory, lower "
                "training.token_budget"
            )
    precision = os.environ.get("ACCELERATE_MIXED_PRECISION", "").lower()
    if precision not in _OFF and _PRECISIONS.get(precision) != training.precision:
        fix = "set training.precision=bfloat16, or mixed_precision" if precision == "bf16" else "set mixed_precision"
        raise SettingsError(
            f"ACCELERATE_MIXED_PRECISION={precision} is not training.precision={training.precision}; {fix} to no in "
            "accelerate config"
        )
    steps = os.environ.get("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "1")
    if steps not in ("1", "auto"):
        raise SettingsError(
            f"ACCELERATE_GRADIENT_ACCUMULATION_STEPS={steps}: the loss compares all documents of a batch, "
            "whatever fits into memory; set it to 1, and training.batch_size to the documents of a step"
        )
    compiler = os.environ.get("ACCELERATE_DYNAMO_BACKEND", "no")
    if compiler.lower() not in _OFF:
        raise SettingsError(
            f"ACCELERATE_DYNAMO_BACKEND={compiler}: set it to no, and model.compile=true to compile the transformer"
        )
