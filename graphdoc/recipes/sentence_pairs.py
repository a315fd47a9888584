"""Training on sentence pairs without labels (SDR, section 3.2)."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

import torch
from torch.nn import functional

from ..checkpoints.language_models import load_language_model_head
from ..encoder import DocumentEncoder
from ..errors import SettingsError
from ..evaluation.pair_scores import pair_auc
from ..losses import MaskedTokens, PairContrast, PairCosine
from ..modeling import DocumentModel
from ..settings.sentence_pairs import SentencePairLossSettings, SentencePairSettings
from ..training.batch import TrainingBatch
from ..training.loop import RunEvaluation
from ..training.sentence_pairs import SentencePairContrast
from ..training.starting_model import begin_training, is_checkpoint
from ..training.step import CachedStep
from ..training.task import Task
from .base import Recipe, RunOptions, Start, train
from .held_out import measuring_step
from .sentence_pair_data import SentencePairData

HEAD = "language_model"


def pretrain(settings: SentencePairSettings, **options: Unpack[RunOptions]) -> Path:
    """Train sentence vectors without labels (see :func:`~graphdoc.recipes.base.train`)."""
    return train(settings, recipe, **options)


def recipe(start: Start[SentencePairSettings]) -> Recipe:
    """Data, objective and evaluation of the model that the run starts from."""
    settings = start.settings
    begin_sentences(start.encoder, settings)
    data = SentencePairData(start)
    objective = objective_of(settings, start.encoder.model)
    return Recipe(
        Task("sentence_pairs", data, objective),
        data,
        evaluation_of(start, data, objective),
        [f"{data.steps:,} steps of {data.batch_size:,} pairs; {_loss(settings)}"],
        _how(settings),
    )


def begin_sentences(encoder: DocumentEncoder, settings: SentencePairSettings) -> None:
    """Give the model a language-model head where tokens are guessed, and mark the weights that are trained.

    Graph and readout come after sentence vectors and stay as they are.

    Args:
        encoder: the encoder around the model.
        settings: the settings of the run.

    Raises:
        SettingsError: the model has untrained parts that this does not train.
    """
    model = encoder.model
    _require_trained_parts(model, settings)
    # A head would read vectors that are no longer those it was trained on.
    model.remove_head()
    if settings.loss.mlm_weight:
        start = settings.model.start
        backbone = model.config.backbone if is_checkpoint(start) else start
        model.training_parts[HEAD] = load_language_model_head(model.passage_encoder.transformer, backbone)
    begin_training(encoder, settings.model)
    model.graph.requires_grad_(False)
    model.readout.requires_grad_(False)


def _require_trained_parts(model: DocumentModel, settings: SentencePairSettings) -> None:
    """Refuse untrained layers whose vectors the result would then give.

    Raises:
        SettingsError: there are such layers.
    """
    if model.config.trained:
        return
    advice = "which sentence pairs do not train"
    if model.config.graph_layers and not model.reads_initial_nodes:
        raise SettingsError(
            f"model.settings.graph_layers={model.config.graph_layers} on {settings.model.start} are new layers, "
            f"{advice}; set model.settings.graph_layers=0, or start from a model whose graph is trained"
        )
    if any(True for _ in model.readout.parameters()):
        raise SettingsError(
            f"model.settings.readout={model.config.readout} on {settings.model.start} has new weights, {advice}; set "
            "model.settings.readout=mean"
        )
    if model.projection is not None and not settings.loss.contrast_weight:
        raise SettingsError(
            f"model.settings.projection_size={model.config.projection_size} on {settings.model.start} is a new layer, "
            "which masked tokens do not train; set model.settings.projection_size=null"
        )


def objective_of(settings: SentencePairSettings, model: DocumentModel) -> SentencePairContrast:
    """What the model is trained for (SDR, eq. 1-3, with drawn pairs)."""
    loss = settings.loss
    return SentencePairContrast(
        pair_loss(loss),
        loss.contrast_weight,
        MaskedTokens(loss.mlm_weight),
        model.training_parts[HEAD] if loss.mlm_weight else None,
    )


def pair_loss(settings: SentencePairLossSettings) -> PairCosine | PairContrast:
    """The loss between the sentences of pairs: with those that were drawn (SDR, eq. 1), or all of the batch."""
    return PairContrast(settings.temperature) if settings.compares_all else PairCosine(1 - settings.margin)


def evaluation_of(
    start: Start[SentencePairSettings], data: SentencePairData, objective: SentencePairContrast
) -> RunEvaluation | None:
    """How the model is measured meanwhile, None for not at all."""
    evaluation = start.settings.evaluation
    if data.held_out is None:
        return None
    measure = HeldOutPairs(measuring_step(start, objective), data.held_out)
    return RunEvaluation(measure, evaluation.best, not evaluation.best.endswith("loss"), evaluation.at_start)


class HeldOutPairs:
    """Measures pairs of documents that are not trained on, always with the same partners and masks.

    Args:
        step: the step of the run, which measures by its own forward pass.
        batch: all pairs.
    """

    def __init__(self, step: CachedStep, batch: TrainingBatch) -> None:
        self._step, self._batch = step, batch

    def __call__(self) -> dict[str, float]:
        """Measure the model, which is in eval mode.

        Returns:
            The loss and its terms, the mean cosine of pairs of one paragraph and of others, ``auc``, the probability
            that one of the former is more similar than one of the latter, and how many masked tokens are guessed.
        """
        output = self._step.measure(self._batch)
        assert output.rows is not None
        first, second = (output.rows[self._batch.roles[role]].float().cpu() for role in ("first", "second"))
        labels = self._batch.targets["label"]
        scores = {name: float(value) for name, value in output.metrics.items()}
        # Of one kind alone there is nothing to rank.
        auc = pair_auc(labels, functional.cosine_similarity(first, second)) if len(torch.unique(labels)) > 1 else 0.5
        return {"loss": float(output.loss), "auc": auc, **scores}


def _loss(settings: SentencePairSettings) -> str:
    """The terms of the loss in a few words."""
    loss = settings.loss
    parts = []
    if loss.contrast_weight:
        on = "with masked tokens" if loss.contrast_on == "masked" else "as they are"
        drawn = f"cosine loss of pairs {on}, m = {loss.margin:g}"
        among = f"contrast of pairs {on} with their batch, temperature {loss.temperature:g}"
        parts.append(f"{loss.contrast_weight:g} x {among if loss.compares_all else drawn}")
    if loss.mlm_weight:
        parts.append(f"{loss.mlm_weight:g} x loss of masked tokens")
    return " + ".join(parts)


def _how(settings: SentencePairSettings) -> str:
    """How the model was trained, in a sentence for its card."""
    training = settings.training
    return (
        f"Sentence pairs without labels (SDR, section 3.2): {_loss(settings)}; batches of {training.batch_size:,} "
        f"pairs, {training.epochs:g} epochs, {settings.model.tune} passage encoder."
    )
