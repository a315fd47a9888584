"""A run of any recipe: its processes, the model it starts from, its folder, its checkpoints and its result."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
import yaml
from accelerate import Accelerator
from tqdm.auto import tqdm
from transformers import TrainerCallback

from ..checkpoints.backbones import backbone_config, load_tokenizer, segmenter_of
from ..checkpoints.contents import is_checkpoint as is_checkpoint_folder
from ..checkpoints.folders import SHIPPED, backbone_folder
from ..checkpoints.load import load_without_weights
from ..encoder import DocumentEncoder
from ..errors import ModelError, SettingsError
from ..inference.precision import training_precision
from ..losses import Loss
from ..modeling import DocumentConfig
from ..modeling.document_model import start_at_mean, weights_hash
from ..runtime.files import FolderLock
from ..runtime.processes import Processes, own_gpu, usable_device
from ..runtime.text import printable
from ..segmentation.segmenter import Segmenter
from ..settings.run import ModelSettings, RunSettings, TrainingSettings
from .checkpoint import MEASURED, RunCheckpoints, TrainState, finite, not_finite, require_finite_weights
from .loop import TrainingLoop, make_accelerator
from .optimizer import prepare_tuning, trained_weights
from .recipe import Recipe, RunEvaluation
from .run_folder import CONFIG_FILE as SETTINGS_FILE
from .run_folder import (
    CURVE_FILE,
    MODEL_FOLDER,
    RESULTS_FILE,
    abandon_run,
    begin_run,
    end_trackers,
    git_revision,
    open_run,
    read_results,
    require_trackers,
    start_trackers,
    versions,
    write_run_file,
)

logger = logging.getLogger(__name__)

KindOfSettings = TypeVar("KindOfSettings", bound=RunSettings)


def join_run(training: TrainingSettings, device: str | torch.device | None) -> Processes:
    """Join the processes of a run, and seed this one.

    Args:
        training: how the model is trained.
        device: where; None takes the accelerator of this process if there is one.

    Raises:
        ModelError: the device is unknown.
        SettingsError: the device is one GPU for several processes.
    """
    place = usable_device(device)
    if int(os.environ.get("LOCAL_WORLD_SIZE", "1")) > 1 and place.type == "cuda" and place != own_gpu():
        raise SettingsError(f"device={place} is one GPU for several processes; leave it out, and each takes its own")
    processes = Processes(place)
    # accelerate launch --cpu gives the address of several processes to the only one that it starts.
    if processes.count == 1 and "MASTER_PORT" in os.environ and "WORLD_SIZE" not in os.environ:
        print(
            "one process trains: the launcher started no others (accelerate launch --cpu needs MPI for them; torchrun "
            "does not)",
            file=sys.stderr,
        )
    torch.manual_seed(training.seed)
    return processes


def is_checkpoint_name(name: str) -> bool:
    """Whether a name means a checkpoint of this package rather than a pretrained encoder."""
    return any(map(is_checkpoint_folder, (SHIPPED / name, Path(name))))


def load_start(settings: ModelSettings, device: torch.device) -> DocumentEncoder:
    """Load the model that a run starts from.

    Raises:
        ModelError: there is no such model.
    """
    if is_checkpoint_name(settings.start):
        return DocumentEncoder.from_pretrained(settings.start, device=device, **settings.settings)
    encoder = DocumentEncoder.from_backbone(settings.start, device=device, **settings.settings)
    if settings.init == "mean":
        start_at_mean(encoder.model)
    return encoder


def load_segmenter(settings: ModelSettings) -> tuple[Segmenter, DocumentConfig]:
    """The segmenter and the configuration of the model that a run starts from, without its weights.

    Raises:
        ModelError: there is no such model.
    """
    if is_checkpoint_name(settings.start):
        config, tokenizer = load_without_weights(settings.start, **settings.settings)
    else:
        config = backbone_config(settings.start, **settings.settings)
        folder = backbone_folder(settings.start, weights=False)
        tokenizer = load_tokenizer(folder, config, f"backbone {settings.start}")
    return segmenter_of(config, tokenizer, settings.start), config


def begin_training(encoder: DocumentEncoder, settings: ModelSettings, *, subtopics: bool = False) -> None:
    """Mark the weights that are trained, after a head was added (see ``prepare_tuning``)."""
    prepare_tuning(encoder.model, settings.tune, settings.lora_rank, subtopics=subtopics)
    encoder.model.config.trained = True
    encoder.model.config.background = None


@dataclass(frozen=True)
class RunContext(Generic[KindOfSettings]):
    """What every recipe starts from.

    Args:
        settings: the settings of the run.
        encoder: the model that the run starts from, and its tokenizer.
        processes: the processes that train together.
        show_progress_bar: show bars; None shows them on a terminal.
        loss: replaces the loss of the settings.
        evaluation: replaces the evaluation of the settings.
        callbacks: called while the model is trained.
    """

    settings: KindOfSettings
    encoder: DocumentEncoder
    processes: Processes
    show_progress_bar: bool | None = None
    loss: Loss | None = None
    evaluation: RunEvaluation | None = None
    callbacks: Sequence[TrainerCallback] = ()


def run_recipe(
    context: RunContext[KindOfSettings], make: Callable[[RunContext[KindOfSettings]], Recipe], resume: bool
) -> Path:
    """Train by a recipe to the end, and write the model and what came of the run.

    Whatever can be refused is refused before a passage is encoded. A run refused before its first step leaves none.

    Args:
        context: settings, model and processes.
        make: makes the recipe.
        resume: go on with the run in the output folder from its last checkpoint.

    Returns:
        Folder of the trained model, or of the last checkpoint where the run was asked to stop.

    Raises:
        GraphdocError: another run is under way in the folder, or whatever else is in the way of this one.
    """
    settings, processes = context.settings, context.processes
    if (wrong := not_finite(context.encoder.model.named_parameters())) is not None:
        start = settings.model.start
        raise ModelError(f"model.start={start}: weight {wrong} is NaN or infinite; fetch or train it again")
    folder, is_new = settings.folder, True
    lock = FolderLock(folder)

    def begin() -> None:
        nonlocal is_new
        require_trackers(settings.training.report_to)
        begin_run(folder, settings, resume=resume)
        lock.acquire()
        # Another run may have begun and ended while this one waited.
        begin_run(folder, settings, resume=resume)
        is_new = not (folder / SETTINGS_FILE).exists()

    with ExitStack() as stack:
        stack.callback(lock.release)
        processes.run_first(begin)
        try:
            recipe, model = make(context), context.encoder.model
            if isinstance(context.loss, torch.nn.Module):
                # After the recipe has marked what is trained: the loss says itself which of its weights are.
                model.training_parts["loss"] = context.loss.to(model.device)
            recipe.evaluation = context.evaluation or recipe.evaluation
            record = _record(context, recipe)
            processes.run_first(partial(open_run, folder, settings, record))
            if processes.is_first:
                for line in _announcement(settings, recipe, record):
                    tqdm.write(printable(line))
            accelerator = make_accelerator(context.encoder.model.device, folder, settings.training.report_to)
            stack.callback(end_trackers, accelerator)
            processes.run_first(partial(start_trackers, accelerator, folder))
            recipe.load()
            result = _train(context, recipe, record, accelerator, resume)
        except KeyboardInterrupt:
            if processes.is_first:
                logger.warning("the run was interrupted; go on from its last checkpoint with --resume")
            raise
        except Exception:
            if processes.is_first and is_new:
                abandon_run(folder)
            raise
    if (last_words := recipe.finish()) is not None and processes.is_first:
        tqdm.write(printable(last_words))
    return result


def _train(
    context: RunContext[Any], recipe: Recipe, record: Mapping[str, Any], accelerator: Accelerator, resume: bool
) -> Path:
    settings: RunSettings = context.settings
    model, processes, folder = context.encoder.model, context.processes, settings.folder
    results: dict[str, Any] = {}
    checkpoints = RunCheckpoints(
        folder, model, context.encoder.tokenizer, name=folder.name, keep=settings.training.save_total_limit,
        describe_training=lambda: _card(settings, recipe, record, results),
        only_updates=settings.model.store == "updates",
    )  # fmt: skip
    loop = TrainingLoop(
        model, recipe, settings.training, checkpoints, processes, show_progress_bar=context.show_progress_bar,
        accelerator=accelerator, callbacks=context.callbacks,
    )  # fmt: skip
    last = checkpoints.last if resume else None
    if last is not None:
        begun_at = checkpoints.load_state(last)
        if processes.is_first:
            tqdm.write(f"going on from {last}")
        if begun_at.data is not None:
            recipe.load_state_dict(begun_at.data)
        if "before" in (begun := read_results(folder)):
            results["before"] = begun["before"]
    else:
        if resume and processes.is_first:
            logger.warning("%s has no checkpoint to resume from; the run starts from the beginning", folder)
        if recipe.evaluation is not None and recipe.evaluation.at_start:
            results["before"] = _without_prefix(loop.measure(recipe.evaluation))
            processes.run_first(lambda: write_run_file(folder / RESULTS_FILE, results))
    state = loop.run(last)
    results |= {**_measured_after(state), "steps": state.global_step}
    if processes.is_first and last == checkpoints.at_step(state.global_step):
        logger.warning("the run was at its end already, after step %d", state.global_step)
    if loop.was_stopped:
        if processes.is_first:
            logger.warning("the run was asked to stop after step %d; go on with --resume", state.global_step)
        return checkpoints.last or folder
    require_finite_weights(model, state.global_step)

    def finish() -> None:
        from ..analysis.figures.measured import plot_run

        checkpoints.save_result(folder / MODEL_FOLDER)
        write_run_file(folder / RESULTS_FILE, results)
        start = {f"{MEASURED}{name}": value for name, value in results.get("before", {}).items()}
        plot_run([{"step": 0, **start}, *state.log_history], folder / CURVE_FILE)

    processes.run_first(finish)
    return folder / MODEL_FOLDER


def _measured_after(state: TrainState) -> dict[str, Any]:
    after: dict[str, Any] = {}
    for entry in state.log_history:
        if "loss" in entry:
            after["loss"] = entry["loss"]
        # The model that is left is the best one, not always the last one.
        elif "after" not in after or state.best_global_step in (None, entry["step"]):
            after["after"] = _without_prefix(entry)
    if state.best_metric is not None:
        after["best"] = {"step": state.best_global_step, "score": state.best_metric}
    return after


def _without_prefix(scores: Mapping[str, Any]) -> dict[str, float | None]:
    return finite({name.removeprefix(MEASURED): one for name, one in scores.items() if name.startswith(MEASURED)})


def _record(context: RunContext[Any], recipe: Recipe) -> dict[str, Any]:
    model, loss = context.encoder.model, context.loss
    name = getattr(loss, "__qualname__", type(loss).__qualname__)
    trained, weights = trained_weights(model), dict(model.named_parameters())
    return {
        "versions": versions(),
        "git_revision": git_revision(),
        "seed": context.settings.training.seed,
        "processes": context.processes.count,
        "device": str(model.device),
        "precision": training_precision(model.device) or "float32",
        "corpus": recipe.record(),
        **({} if loss is None else {"loss": repr(loss) if is_dataclass(loss) else name}),
        "fixed_weights": weights_hash({name: weight for name, weight in weights.items() if name not in trained}),
        "trained_weights": sum(weight.numel() for weight in trained.values()),
        "weights": sum(weight.numel() for weight in weights.values()),
    }


def _announcement(settings: RunSettings, recipe: Recipe, record: Mapping[str, Any]) -> Iterator[str]:
    if recipe.report.documents:
        yield recipe.report.summary()
    for name, value in recipe.counts().items():
        yield from _counted(name.replace("_", " "), value)
    if recipe.evaluation is None:
        yield "nothing is measured during training: the last model is the result"
    elif not recipe.evaluation.chooses:
        yield f"measured: {recipe.evaluation.size}, too few to choose a checkpoint by: the last is the result"
    yield f"{recipe.steps:,} steps of {recipe.batch_size:,} {recipe.batch_unit}"
    yield (
        f"{record['trained_weights']:,} of {record['weights']:,} weights are trained ({settings.model.tune} passage "
        f"encoder), on {record['device']}, {record['processes']} process{'es' if record['processes'] > 1 else ''}"
    )


def _counted(name: str, value: Any) -> Iterator[str]:
    """Numbers by name in a line, and what they consist of in further ones; nothing of what there is not."""
    parts = value if isinstance(value, Mapping) else {"": value}
    shown = [f"{count:,} {what}".strip() for what, count in parts.items() if count and isinstance(count, int)]
    if shown:
        yield f"{name}: {', '.join(shown)}"
    for what, count in parts.items():
        if isinstance(count, Mapping):
            yield from _counted(f"{name}: {what}", count)


def _card(settings: RunSettings, recipe: Recipe, record: Mapping[str, Any], results: Mapping[str, Any]) -> str:
    """Sections of a model card on data, settings and results of a run, as Markdown."""
    training = settings.training
    parts = [
        "## Training",
        f"{recipe.summary}; batches of {training.batch_size:,}, {training.epochs:g} epochs, {settings.model.tune} "
        "passage encoder.",
        f"Data: {settings.corpus.name}. {recipe.report.summary()}",
        f"{record['trained_weights']:,} of {record['weights']:,} weights were trained, seed {record['seed']}, "
        f"git revision {record['git_revision'] or 'unknown'}.",
    ]
    if results:
        parts += ["## Results", f"```json\n{json.dumps(dict(results), indent=1)}\n```"]
    values = yaml.safe_dump(settings.as_values(), sort_keys=False, allow_unicode=True).rstrip()
    return "\n\n".join([*parts, "## Settings", f"```yaml\n{values}\n```\n"])
