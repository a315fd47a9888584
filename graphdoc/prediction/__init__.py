"""Classes of documents: what a model with a head says, how sure it is, and which passages speak for it."""

from __future__ import annotations

from .predicting import explain, predict, stream_predictions
from .records import Decision, Prediction, Predictions, write_predictions

__all__ = ["Decision", "Prediction", "Predictions", "explain", "predict", "stream_predictions", "write_predictions"]
