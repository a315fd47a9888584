"""Measuring a model with a head on labelled documents: from the command line, from Python, and while it is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..encoder import DocumentEncoder
from ..errors import EvaluationError
from ..inference.precision import Precision
from ..losses import ClassificationLoss
from ..losses.gathering import alone
from ..prediction import Prediction, explain, stream_predictions
from ..prediction.predicting import classes_of
from ..segmentation.coverage import CoverageTotals
from .classification import (
    ClassificationScores,
    Mistake,
    classification_scores,
    confident_mistakes,
    require_shared_classes,
)
from .labels import LabelledDocuments, ReadyDocument
from .ready_documents import MadeReady


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


class ClassificationEvaluation(MadeReady):
    """Labelled documents that models with a head are measured on, always in the same way.

    A trainer calls it with the encoder every so many steps and logs what it gives: ``evaluation(encoder)``. The model
    is in training mode again afterwards, and no random generator is used.

    Args:
        documents: the documents, segmented or not. Those without a label, or with several where one is wanted, are
            left out and counted (``labelled.without_label``, ``labelled.with_several``).
        multi_label: whether a document can have any number of classes.
        separator: what stands between the labels of a string that holds several.
        threshold: probability from which on a document gets a class, for models with several labels; None for 0.5.
        dtype: precision that the transformer computes in; None is that of its weights.

    Raises:
        EvaluationError: no document has a label.
    """

    def __init__(
        self,
        documents: Sequence[ReadyDocument],
        *,
        multi_label: bool = False,
        separator: str | None = None,
        threshold: float | None = None,
        dtype: Precision | None = None,
    ) -> None:
        self.labelled = LabelledDocuments.of(documents, multi_label=multi_label, separator=separator)
        self.multi_label, self.threshold, self.dtype = multi_label, threshold, dtype
        self.documents: Sequence[ReadyDocument] = self.labelled.documents
        if not self.documents:
            without, several = len(self.labelled.without_label), len(self.labelled.with_several)
            raise EvaluationError(
                f"no document to be measured has {'labels' if multi_label else 'one label'} ({without:,} have none, "
                f"{several:,} several); name the column that holds it (--label-column), or take folders for labels "
                "(--label-from folder)"
            )

    def __call__(self, encoder: DocumentEncoder) -> dict[str, float]:
        """Measure an encoder.

        Args:
            encoder: the encoder, also one whose model is being trained.

        Returns:
            ``accuracy``, ``macro_f1`` (with several labels ``micro_f1`` as well), ``calibration_error``, and ``loss``,
            the mean cross entropy of documents all of whose labels the model knows, without class weights.
        """
        predictions = self.predict(encoder, show_progress=False)
        loss = self._loss(predictions, classes_of(encoder))
        return {**self.score(predictions).metrics(), **({} if loss is None else {"loss": loss})}

    def predict(
        self,
        encoder: DocumentEncoder,
        *,
        totals: CoverageTotals | None = None,
        show_progress: bool | None = None,
    ) -> list[Prediction]:
        """Predict the classes of all documents that have labels, without explanations.

        Args:
            encoder: the encoder.
            totals: where coverage is added up.
            show_progress: show a bar; None shows it on a terminal when the work is long.

        Raises:
            ModelError: the model has no head.
            EvaluationError: the model gives one label and several are expected or the other way round, or it knows
                none of the documents' labels.
            DocumentError: a document has no text to encode.
        """
        if classes_of(encoder) and encoder.model.config.multi_label != self.multi_label:
            given, wanted = ("several labels", "one") if encoder.model.config.multi_label else ("one label", "several")
            raise EvaluationError(f"{encoder.name} gives a document {given}, and is measured as giving {wanted}")
        require_shared_classes(self.labelled.labels, classes_of(encoder))
        # While a model is trained, what its documents leave out would be told again with every evaluation.
        totals = CoverageTotals() if totals is None else totals
        return list(
            stream_predictions(
                encoder,
                self.documents,
                threshold=self.threshold,
                explain=False,
                dtype=self.dtype,
                totals=totals,
                show_progress=show_progress,
            )
        )

    def score(self, predictions: Sequence[Prediction]) -> ClassificationScores:
        """Measure predictions.

        Args:
            predictions: what :meth:`predict` gave.
        """
        return classification_scores(
            self.labelled.labels,
            [prediction.labels for prediction in predictions],
            predictions[0].classes,
            np.array([prediction.probabilities for prediction in predictions]),
            multi_label=self.multi_label,
        )

    def mistakes(
        self, encoder: DocumentEncoder, predictions: Sequence[Prediction], most: int = 20
    ) -> list[ExplainedMistake]:
        """The mistakes that the model is most sure of, with the passages behind them.

        Args:
            encoder: the encoder.
            predictions: what :meth:`predict` gave for it.
            most: how many; their documents are encoded once more.
        """
        labels = self.labelled.labels
        found = confident_mistakes(
            labels,
            [prediction.labels for prediction in predictions],
            predictions[0].classes,
            np.array([prediction.probabilities for prediction in predictions]),
            multi_label=self.multi_label,
        )
        known = set(predictions[0].classes)
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
                    # What they leave out was told when they were predicted.
                    totals=CoverageTotals(),
                ),
            )
            for mistake in found[:most]
        ]

    def _loss(self, predictions: Sequence[Prediction], classes: Sequence[str]) -> float | None:
        """Mean cross entropy of the documents all of whose labels are known; None if there is none."""
        known = set(classes)
        rows = [row for row, names in enumerate(self.labelled.labels) if known.issuperset(names)]
        if not rows:
            return None
        chosen = LabelledDocuments(
            tuple(self.labelled.documents[row] for row in rows),
            tuple(self.labelled.labels[row] for row in rows),
            self.multi_label,
        )
        logits = torch.from_numpy(np.array([predictions[row].logits for row in rows]))
        # One process measures, and the others wait for it.
        with alone():
            output = ClassificationLoss(self.multi_label)(logits, torch.from_numpy(chosen.targets(classes)))
        return float(output.loss)
