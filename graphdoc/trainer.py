"""Training from Python: an encoder, documents with the way examples are drawn from them, and a loss."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import TrainerCallback

from .documents.document import Document
from .encoder import DocumentEncoder
from .errors import SettingsError
from .evaluation.evaluator import Evaluator
from .inference.segmenting import LONGEST_NAME, as_document
from .losses import OWN_LOSSES, Loss
from .registry import RECIPES, load
from .runtime.files import write_text
from .runtime.other_names import TRAINER, TRAINING, hint, no_attribute
from .runtime.processes import move_to_device
from .runtime.text import described
from .sampling.tasks import Task
from .settings.base import Settings
from .settings.run import CorpusSettings, RunSettings, TrainingSettings, Tune
from .similarity.kinds import similarity_of
from .training.optimizer import finish_tuning
from .training.recipe import RunEvaluation
from .training.run import RunContext, join_run, load_start, run_recipe

# What messages and model cards call documents that are passed as objects.
IN_MEMORY = "documents in memory"


def train(
    settings: RunSettings,
    *,
    resume: bool = False,
    device: str | torch.device | None = None,
    show_progress_bar: bool | None = None,
    encoder: DocumentEncoder | None = None,
    loss: Loss | None = None,
    evaluator: Evaluator | None = None,
    callbacks: Sequence[TrainerCallback] = (),
) -> Path:
    """Train a model by the settings of any recipe, alone or as one of the processes that a launcher started.

    Args:
        settings: the settings, of which there is a kind for every recipe.
        resume: see :meth:`Trainer.train`.
        device: see :class:`Trainer`, as for ``show_progress_bar``.
        show_progress_bar: show bars.
        encoder: trained instead of the model that the settings name.
        loss: used instead of the loss of the settings.
        evaluator: measures the model during training, by its ``primary_metric``, instead of what the settings say.
        callbacks: see :class:`Trainer`.

    Returns:
        Folder of the trained model, or of the last checkpoint where the run was asked to stop.
    """
    recipes = {load(one.settings): one.recipe for one in RECIPES.values()}
    kind = next(recipes[own] for own in type(settings).__mro__ if own in recipes)
    with join_run(settings.training, device if encoder is None else device or encoder.device) as processes:
        start = encoder or load_start(settings.model, processes.device)
        if encoder is None:
            start.name = settings.folder.name
        move_to_device(start.model, processes.device)
        config = start.model.config
        # A loss of the user's own does not say how vectors are compared; where ours does not, passages may be.
        is_foreign = loss is not None and not isinstance(loss, OWN_LOSSES)
        similarity = getattr(loss, "similarity", settings.similarity)
        is_kept = is_foreign or (similarity is None and similarity_of(config.similarity).reads_passages)
        if "similarity" not in settings.model.settings and not is_kept:
            config.similarity = similarity or "cosine"
        evaluation = None
        if evaluator is not None:
            call = partial(evaluator, start, processes)
            evaluation = RunEvaluation(call, evaluator.primary_metric, evaluator.greater_is_better)
        context = RunContext(settings, start, processes, show_progress_bar, loss, evaluation, callbacks)
        try:
            return run_recipe(context, load(kind).from_run, resume)
        finally:
            if encoder is not None:
                finish_tuning(encoder.model)
                encoder.source = None


class Trainer:
    """Trains an encoder, on one process or on those that ``torchrun`` or ``accelerate launch`` started.

    Whatever can be refused is refused before the first document is encoded. The recipes, the commands and the scripts
    in ``pretrain/`` and ``finetune/`` train in the same way, with the same results.

    Args:
        encoder: a model, which has the trained weights afterwards; or the name of a checkpoint or encoder.
        task: documents, and how examples are drawn from them: one of the tasks of :mod:`graphdoc.sampling`.
        loss: a loss of :mod:`graphdoc.losses`, or one of your own; for sentence pairs also
            :class:`~graphdoc.losses.MaskedTokenLoss`, alone or in a list with the loss of pairs, to which it is added.
            None takes that of the paper.
        output: folder of the run, with its checkpoints, its log and, in ``model``, the trained model.
        settings: settings of the recipe, such as those of a file, of which the other arguments replace some.
        evaluator: measures the model during training and decides which checkpoint is the best: an evaluator of
            :mod:`graphdoc.evaluation`, or settings by name, such as ``{"share": 0.1}``.
        callbacks: callbacks of transformers, such as ``EarlyStoppingCallback(3)``; a resumed run begins them anew.
        tune: ``full`` trains the passage encoder, ``lora`` low-rank updates of it, ``frozen`` what lies above it.
        model: further settings of :class:`~graphdoc.settings.run.ModelSettings`, by name; ``start`` and ``settings``
            only without an encoder.
        corpus: further settings of :class:`~graphdoc.settings.run.CorpusSettings`, by name.
        device: where to train; None takes that of a given encoder, or an accelerator if there is one.
        show_progress_bar: show bars; None shows them on a terminal.
        **training: settings of :class:`~graphdoc.settings.run.TrainingSettings`, such as ``batch_size``.

    Raises:
        SettingsError: a setting is unknown or out of its bounds, or the loss does not fit the data.

    >>> from graphdoc.losses import InfoNCELoss
    >>> from graphdoc.sampling import SubDocuments
    >>> trainer = Trainer("roberta-base", SubDocuments("papers/"), InfoNCELoss(), output="runs/a", epochs=3)
    >>> trainer.settings.training.epochs
    3.0
    """

    def __init__(
        self,
        encoder: DocumentEncoder | str | PathLike[str],
        task: Task,
        loss: Loss | Sequence[Loss] | None = None,
        *,
        output: str | PathLike[str] | None = None,
        settings: RunSettings | None = None,
        evaluator: Evaluator | Mapping[str, Any] | None = None,
        callbacks: Sequence[TrainerCallback] = (),
        tune: Tune | None = None,
        model: Mapping[str, Any] | None = None,
        corpus: Mapping[str, Any] | None = None,
        device: str | torch.device | None = None,
        show_progress_bar: bool | None = None,
        **training: Any,
    ) -> None:
        if not isinstance(encoder, DocumentEncoder | str | PathLike):
            raise SettingsError(f"encoder={described(encoder)} is neither a DocumentEncoder nor the name of a model")
        self.encoder = encoder if isinstance(encoder, DocumentEncoder) else None
        if self.encoder is not None and (unused := {"start", "settings"}.intersection(model or ())):
            raise SettingsError(f"model={min(unused)!r} is of a model that is still to be made; change the encoder")
        if not isinstance(evaluator, Evaluator | Mapping | None):
            raise SettingsError(f"evaluator={described(evaluator)} is neither an Evaluator nor settings by name")
        for name in sorted(training.keys() - TrainingSettings.model_fields):
            raise SettingsError(f"{name} is unknown; {hint(name, TrainingSettings.model_fields, TRAINING)}")
        self._options: dict[str, Any] = {
            "device": device, "show_progress_bar": show_progress_bar,
            "callbacks": [one() if isinstance(one, type) else one for one in callbacks],
            "evaluator": evaluator if isinstance(evaluator, Evaluator) else None,
        }  # fmt: skip
        if not isinstance(task, Task):
            raise SettingsError(f"task={described(task)} is no task; use one of graphdoc.sampling, with the documents")
        kind: type[RunSettings] = load(RECIPES[task.recipe].settings)
        start = encoder if isinstance(encoder, str | PathLike) else encoder.model.config.backbone or encoder.name
        source, in_memory = _documents(task.documents)
        losses = [] if loss is None else loss if isinstance(loss, Sequence) else [loss]
        if any(isinstance(one, type) or not callable(one) for one in losses):
            raise SettingsError(f"loss={described(loss)} is no object of a loss; give one, such as InfoNCELoss()")
        self._loss, of_loss = load(RECIPES[task.recipe].recipe).describe_losses(losses)
        measured = evaluator if isinstance(evaluator, Mapping) else {}
        sections: dict[str, Mapping[str, Any]] = {
            "corpus": {**source, **(corpus or {})},
            "model": {"start": fspath(start), **({"tune": tune} if tune else {}), **(model or {})},
            # A whole number of epochs is a number.
            "training": {key: float(value) if key == "epochs" else value for key, value in training.items()},
            "loss": of_loss,
            "validation": measured,
        }
        values = {} if settings is None else settings.given_values()
        given = {} if output is None else {"output": fspath(output)}
        chosen = {name: part.given_values() for name, part in values.items() if isinstance(part, Settings)}
        values |= chosen
        given |= task.values([*values, *(f"{name}.{key}" for name, part in chosen.items() for key in part)])
        given |= {f"{name}.{key}": value for name, part in sections.items() for key, value in part.items()}
        files = {**task.files(), "validation.pairs": measured.get("pairs")}
        given |= {key: _file(rows) for key, rows in files.items() if rows is not None}
        for key, value in given.items():
            section, _, name = key.partition(".")
            values[section] = {**values.get(section, {}), name: value} if name else value
        self.settings = kind(**values)
        switches = {"share", "pairs"} & type(self.settings.validation).model_fields.keys()
        if measured.keys() - switches and not self.settings.is_measured:
            raise SettingsError(f"evaluator={described(measured)} measures nothing; set its {min(switches)}")
        if in_memory is not None:
            self.settings = self.settings.model_copy(update={"corpus": self.settings.corpus.with_documents(in_memory)})

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(type(self).__name__, name, TRAINER)

    def train(self, resume: bool = False) -> Path:
        """Train to the end.

        Args:
            resume: go on with the run in the output folder from its last checkpoint, bit for bit, if there is one.

        Returns:
            Folder of the trained model, or of the last checkpoint where the run was asked to stop.

        Raises:
            GraphdocError: what the user can mend; the message says how.
        """
        return train(self.settings, resume=resume, encoder=self.encoder, loss=self._loss, **self._options)


def _documents(documents: Any) -> tuple[dict[str, Any], Any]:
    """Settings of a corpus, and the documents themselves where they are passed as objects, readable several times."""
    if isinstance(documents, CorpusSettings):
        return documents.given_values(), documents.in_memory
    if isinstance(documents, str | PathLike):
        return {"source": fspath(documents)}, None
    if isinstance(documents, Iterable) and not isinstance(documents, Document | Mapping):
        is_read_again = isinstance(documents, Sequence) or any(
            hasattr(documents, name) for name in ("iterrows", "column_names")
        )
        kept: Any = documents if is_read_again else list(documents)
        if isinstance(kept, Sequence) and kept and all(isinstance(one, str | PathLike) for one in kept):
            # Path.exists refuses a text that is too long. Names that are not there are words.
            is_path = any(not isinstance(one, str) or os.path.exists(one) for one in kept)  # noqa: PTH110
            if is_path or all(len(one) <= LONGEST_NAME and len(one.split()) < 2 for one in kept):
                return {"source": [fspath(one) for one in kept]}, None
            kept = list(map(as_document, kept))
        return {"source": IN_MEMORY}, kept
    raise SettingsError(f"documents={type(documents).__name__} cannot be read; give documents, a data set or a path")


def _file(rows: str | PathLike[str] | Iterable[Sequence[Any]]) -> str:
    """The file of pairs; pairs in memory are written to the cache, under a hash of their content."""
    if isinstance(rows, str | PathLike):
        return fspath(rows)
    text = "".join("\t".join(" ".join(str(cell).split()) for cell in row) + "\n" for row in rows)
    name = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    path = CorpusSettings(source=IN_MEMORY).corpora_folder.parent / "pairs" / f"{name}.tsv"
    if not path.is_file():
        write_text(path, text)
    return str(path)
