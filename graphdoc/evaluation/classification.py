"""How well a model with a head finds the labels of documents, and its mistakes with the passages behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Unpack

import numpy as np
import torch
from torch.nn import functional

from ..encoder import DocumentEncoder
from ..errors import EvaluationError
from ..inference.precision import Precision
from ..prediction import Prediction, explain, stream_predictions
from ..prediction.predicting import classes_of, given_labels, probabilities_of, threshold_of
from ..runtime.processes import Processes
from ..segmentation.spans import Coverage
from .classification_scores import (
    ClassificationScores,
    Mistake,
    classification_scores,
    confident_mistakes,
    require_shared_classes,
)
from .evaluator import Evaluator, Vectors, WorkOptions, measured_once
from .labels import LabelledDocuments, ReadyDocument


@dataclass(frozen=True)
class GivenLabels:
    """What a model gives the documents of an evaluator.

    Args:
        logits: ``(documents, classes)``.
        classes: names of the classes.
        multi_label: whether a document can have any number of classes.
        threshold: probability from which on a document gets a class; None where it gets the most likely one.
    """

    logits: Vectors
    classes: tuple[str, ...]
    multi_label: bool
    threshold: float | None

    @cached_property
    def probabilities(self) -> Vectors:
        """Probabilities of the classes, ``(documents, classes)``."""
        return probabilities_of(torch.from_numpy(self.logits), self.multi_label)

    @cached_property
    def labels(self) -> list[tuple[str, ...]]:
        """The classes that every document gets, ``(documents,)``."""
        return [given_labels(row, self.classes, self.threshold) for row in self.probabilities]


@dataclass(frozen=True)
class ExplainedMistake:
    """A mistake with the passages behind it.

    Args:
        mistake: the mistake.
        truth: the document's labels.
        prediction: what the model says of the document, with decisions for the class of the mistake first and then for
            the document's labels that the model knows.
    """

    mistake: Mistake
    truth: tuple[str, ...]
    prediction: Prediction

    def to_dict(self, passages: int) -> dict[str, Any]:
        """Everything as plain values for JSON.

        Args:
            passages: how many of those are listed that speak most for the class of the mistake, each with its
                contribution to all explained classes.
        """
        prediction, decisions = self.prediction, self.prediction.decisions
        document = prediction.document
        listed = decisions[0].strongest(passages)
        spans = [prediction.segmented.passages[row] for row in listed]
        return {
            "id": document.id,
            "title": document.title,
            "label": self.mistake.label,
            "missed": self.mistake.missed,
            "confidence": round(self.mistake.confidence, 6),
            "truth": list(self.truth),
            "given": list(prediction.labels),
            "probabilities": {decision.label: round(decision.probability, 6) for decision in decisions},
            "coverage": round(prediction.segmented.coverage.share, 6),
            "passages": [
                {
                    "passage": row,
                    "section": span.section,
                    "heading": document.sections[span.section].heading,
                    "start": span.start,
                    "end": span.end,
                    "text": prediction.segmented.text(span),
                    "contributions": {
                        decision.label: round(float(decision.contributions[row]), 6) for decision in decisions
                    },
                }
                for row, span in zip(listed, spans, strict=True)
            ],
        }


class ClassificationEvaluator(Evaluator):
    """Labelled documents that models with a head are measured on.

    Args:
        documents: the documents, segmented or not. Those without a label, or with several where one is wanted, are
            left out and counted (``labelled.without_label``, ``labelled.with_several``).
        multi_label: whether a document can have any number of classes.
        separator: what stands between the labels of a string that holds several.
        threshold: probability from which on a document gets a class, for models with several labels; None for 0.5.
        dtype: precision that the transformer computes in; None is that of its weights.
        best: name of the number by which models are ranked.

    Raises:
        EvaluationError: no document has a label.
    """

    task = "classify"

    def __init__(
        self,
        documents: Sequence[ReadyDocument],
        *,
        multi_label: bool = False,
        separator: str | None = None,
        threshold: float | None = None,
        dtype: Precision | None = None,
        best: str = "accuracy",
    ) -> None:
        self.labelled = LabelledDocuments.of(documents, multi_label=multi_label, separator=separator)
        self.multi_label, self.threshold, self.dtype, self.best = multi_label, threshold, dtype, best
        self.documents: Sequence[ReadyDocument] = self.labelled.documents
        if not self.documents:
            without, several = len(self.labelled.without_label), len(self.labelled.with_several)
            raise EvaluationError(
                f"no document to be measured has {'labels' if multi_label else 'one label'} ({without:,} have none, "
                f"{several:,} several); name its column (--column label=NAME), or take folders for labels "
                "(--label-from folder)"
            )

    def __call__(self, encoder: DocumentEncoder, processes: Processes | None = None) -> dict[str, float]:
        """Measure an encoder (see :meth:`Evaluator.__call__`).

        Returns:
            ``accuracy``, ``macro_f1`` (with several labels ``micro_f1`` as well), ``calibration_error``, and ``loss``,
            the mean cross entropy of documents all of whose labels the model knows, without class weights.
        """
        given = self.predict(encoder, processes, show_progress=False)
        return measured_once(processes, lambda: {**self.score(given).metrics(), **self._loss(given)})

    def predict(
        self, encoder: DocumentEncoder, processes: Processes | None = None, **options: Unpack[WorkOptions]
    ) -> GivenLabels:
        """Predict the classes of all documents that have labels, without explanations (see :meth:`Evaluator.encode`).

        Raises:
            ModelError: the model has no head.
            EvaluationError: the model gives one label and several are expected or the other way round, or it knows
                none of the documents' labels.
            DocumentError: a document has no text to encode.
        """
        classes = classes_of(encoder)
        if encoder.model.config.multi_label != self.multi_label:
            given, wanted = ("several labels", "one") if encoder.model.config.multi_label else ("one label", "several")
            raise EvaluationError(f"{encoder.name} gives a document {given}, and is measured as giving {wanted}")
        require_shared_classes(self.labelled.labels, classes)

        def compute(documents: Sequence[ReadyDocument], counted: Coverage) -> Vectors:
            stream = stream_predictions(
                encoder,
                documents,
                threshold=self.threshold,
                explain=False,
                dtype=self.dtype,
                totals=counted,
                show_progress=options.get("show_progress"),
            )
            return np.array([prediction.logits for prediction in stream], np.float32).reshape(-1, len(classes))

        logits = self._rows(compute, processes, options.get("totals"))
        return GivenLabels(logits, classes, self.multi_label, threshold_of(encoder, self.threshold))

    def score(self, given: GivenLabels) -> ClassificationScores:
        """Measure predictions.

        Args:
            given: what :meth:`predict` gave.
        """
        return classification_scores(
            self.labelled.labels, given.labels, given.classes, given.probabilities, multi_label=self.multi_label
        )

    def mistakes(self, encoder: DocumentEncoder, given: GivenLabels, most: int = 20) -> list[ExplainedMistake]:
        """The mistakes that the model is most sure of, with the passages behind them.

        Args:
            encoder: the encoder.
            given: what :meth:`predict` gave for it.
            most: how many; their documents are encoded once more.
        """
        labels, known = self.labelled.labels, set(given.classes)
        found = confident_mistakes(
            labels, given.labels, given.classes, given.probabilities, multi_label=self.multi_label
        )
        return [
            ExplainedMistake(
                mistake,
                labels[mistake.row],
                explain(
                    encoder,
                    self.documents[mistake.row],
                    list(dict.fromkeys([mistake.label, *(name for name in labels[mistake.row] if name in known)])),
                    threshold=self.threshold,
                    dtype=self.dtype,
                    # What they leave out was reported when they were predicted.
                    totals=Coverage(),
                ),
            )
            for mistake in found[:most]
        ]

    def _loss(self, given: GivenLabels) -> dict[str, float]:
        """Mean cross entropy of the documents all of whose labels are known; nothing if there is none."""
        known = self.labelled.known(given.classes)
        if not len(known):
            return {}
        rows = torch.from_numpy(given.logits[known])
        targets = torch.from_numpy(self.labelled.targets(given.classes, known))
        if self.multi_label:
            return {"loss": float(functional.binary_cross_entropy_with_logits(rows, targets))}
        return {"loss": float(functional.cross_entropy(rows, targets))}
