"""Measuring a model during its run: loss on documents held out, and clustering of labelled documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..documents.readers import read_documents
from ..encoder import DocumentEncoder
from ..errors import DocumentError, EvaluationError
from ..evaluation import ClusteringEvaluator, read_pair_file
from ..graphs.packing import Packing
from ..inference.precision import Precision, computed_in
from ..losses import ONE_PROCESS
from ..settings.sub_documents import EvaluationSettings
from ..training.batch import TrainingBatch
from ..training.objectives import Objective
from ..training.step import CachedStep
from .base import Start, transformer_precision


def measuring_step(start: Start[Any], objective: Objective) -> CachedStep:
    """The step of a run as it is measured: by this process alone, since the others wait for it."""
    training, model = start.settings.training, start.encoder.model
    precision = transformer_precision(training)
    return CachedStep(
        model,
        objective,
        precision=lambda: computed_in(precision, model.passage_encoder, "the model"),
        packing=Packing.on(model.device, training.token_budget, training.padding),
        gather=ONE_PROCESS,
    )


class HeldOutEvaluation:
    """Loss and accuracy on documents that are not trained on, always in the same batches and sub-documents.

    Args:
        step: measures a batch (see :func:`measuring_step`).
        batches: the documents.
    """

    def __init__(self, step: CachedStep, batches: Sequence[TrainingBatch]) -> None:
        self._step, self._batches = step, batches

    def __call__(self) -> dict[str, float]:
        """Measure the model, which is in eval mode."""
        sums: dict[str, float] = {}
        documents = 0
        for batch in self._batches:
            result = self._step.measure(batch)
            measured = {"loss": result.loss, **result.metrics}
            # How many pairs are no negatives says something of the documents, not of the model.
            measured.pop("left_out_share", None)
            for name, value in measured.items():
                sums[name] = sums.get(name, 0.0) + float(value) * len(batch)
            documents += len(batch)
        return {name: value / documents for name, value in sums.items()}


def cluster_evaluation(settings: EvaluationSettings, dtype: Precision | None = None) -> ClusteringEvaluator | None:
    """The labelled documents that a run is measured on, None if there are none.

    Args:
        settings: where they are and what is measured.
        dtype: precision that the transformer computes in; None is that of its weights.

    Raises:
        DocumentError: they cannot be read, or have no split.
        EvaluationError: there are too few of them.
    """
    if not settings.clusters:
        return None
    if settings.data is not None:
        parts: dict[str, list[object]] = {"train": [], "test": []}
        for document in read_documents(settings.data):
            split = str(document.metadata.get("split"))
            if split in parts:
                parts[split].append(document)
        train, test = parts["train"], parts["test"]
        if not train or not test:
            raise DocumentError(
                f"{settings.data} has {len(train)} documents with split train and {len(test)} with test; give both, "
                "or name two sources as evaluation.train and evaluation.test"
            )
    else:
        train, test = list(read_documents(settings.train)), list(read_documents(settings.test))
    pairs = read_pair_file(settings.pairs) if settings.pairs is not None else ()
    seeds = range(settings.seeds)
    try:
        return ClusteringEvaluator(train, test, pairs=pairs, seeds=seeds, dtype=dtype)  # type: ignore[arg-type]
    except EvaluationError as error:
        name = "data" if settings.data is not None else "train"
        raise EvaluationError(f"evaluation.{name}={getattr(settings, name)}: {error}") from error


def score_of(encoder: DocumentEncoder, evaluation: ClusteringEvaluator) -> dict[str, float]:
    """What an evaluation gives, without its spread over seeds."""
    return {name: value for name, value in evaluation(encoder).items() if not name.endswith("_std")}
