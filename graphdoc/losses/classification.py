"""Losses of classification: of documents, and of masked tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from .gathering import ONE_PROCESS, Gather, LossOutput


@dataclass(frozen=True)
class ClassificationLoss:
    r"""Measures how far logits are from the labels of documents, as a mean over the documents of all processes.

    With a single label this is cross entropy over the softmax, weighted by the class of the document,

    .. math::
        \ell = \frac{\sum_i \left[ (1 - \epsilon)\, w_{y_i} (-\log p_{i y_i})
            + \frac{\epsilon}{C} \sum_c w_c (-\log p_{ic}) \right]}{\sum_i w_{y_i}},

    and with several the mean over documents and classes of the binary cross entropy of each sigmoid, with targets
    :math:`t_{ic}` moved to :math:`(1 - \epsilon)\, t_{ic} + \epsilon / 2` and positives weighted by their class:

    .. math::
        \ell = \frac{1}{N C} \sum_{ic} \left[ -w_c\, t_{ic} \log p_{ic} - (1 - t_{ic}) \log (1 - p_{ic}) \right].

    Both are what torch's losses of these names give on the union of all processes' documents. Everything is in fp32.

    Args:
        multi_label: whether a document can have any number of classes, or exactly one.
        class_weights: weight of every class, such as :func:`balanced_weights` gives; None for 1 each.
        label_smoothing: the share :math:`\epsilon` of a target that is spread over all classes.

    Raises:
        ValueError: a value is out of range.

    >>> output = ClassificationLoss()(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0]))
    >>> round(output.loss.item(), 3), output.metrics["accuracy"].item()
    (0.72, 0.5)
    """

    multi_label: bool = False
    class_weights: tuple[float, ...] | None = None
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing={self.label_smoothing} must be at least 0 and below 1")
        for number, weight in enumerate(self.class_weights or ()):
            if not 0 < weight < math.inf:
                raise ValueError(f"the weight {weight} of class {number} must be a number above 0")

    def __call__(self, logits: Tensor, targets: Tensor, *, gather: Gather = ONE_PROCESS) -> LossOutput:
        """Compute the loss of this process's documents.

        Args:
            logits: ``(documents, classes)``.
            targets: class of every document, ``(documents,)`` whole numbers; with several labels ``(documents,
                classes)``, 1 for the classes that a document has and 0 for the others.
            gather: how documents of other processes are counted.

        Returns:
            The loss; the mean over processes is that of all documents, also where processes hold different numbers.
            The metric ``accuracy`` is the share of documents whose most likely class is theirs, or with several labels
            of those that get all of theirs and no other at a probability of 0.5.

        Raises:
            ValueError: shapes do not fit.
        """
        expected = logits.shape if self.multi_label else logits.shape[:1]
        if logits.dim() != 2 or targets.shape != expected:
            shape = "(documents, classes)" if self.multi_label else "(documents,)"
            raise ValueError(
                f"logits {tuple(logits.shape)} and targets {tuple(targets.shape)} must have the shapes "
                f"(documents, classes) and {shape}"
            )
        if self.class_weights is not None and len(self.class_weights) != logits.shape[1]:
            raise ValueError(f"{len(self.class_weights)} class weights do not fit logits of {logits.shape[1]} classes")
        with torch.autocast(logits.device.type, enabled=False):
            logits = logits.float()
            weights = None if self.class_weights is None else logits.new_tensor(self.class_weights)
            losses, shares = (self._several if self.multi_label else self._single)(logits, targets, weights)
            # The mean over processes must be the weighted mean over all documents, however they are dealt out.
            everything, _ = gather.rows(torch.stack([shares, torch.ones_like(shares)], dim=1))
            total, documents = everything.sum(dim=0)
            loss = losses.sum() * gather.processes / total.clamp(min=torch.finfo(total.dtype).tiny)
            right = self._right(logits.detach(), targets).float().sum()
            accuracy = right * gather.processes / documents.clamp(min=1)
        return LossOutput(loss, {"accuracy": accuracy})

    def _single(self, logits: Tensor, targets: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        """Losses of documents and their weights, both ``(documents,)``."""
        losses = functional.cross_entropy(
            logits, targets, weights, reduction="none", label_smoothing=self.label_smoothing
        )
        return losses, torch.ones_like(losses) if weights is None else weights[targets]

    def _several(self, logits: Tensor, targets: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        """Losses of documents, means over classes, and their weights, both ``(documents,)``."""
        smooth = targets.float() * (1 - self.label_smoothing) + self.label_smoothing / 2
        losses = functional.binary_cross_entropy_with_logits(logits, smooth, pos_weight=weights, reduction="none")
        return losses.mean(dim=1), torch.ones_like(losses[:, 0])

    def _right(self, logits: Tensor, targets: Tensor) -> Tensor:
        if self.multi_label:
            return ((logits > 0) == (targets > 0.5)).all(dim=1)
        return logits.argmax(dim=1) == targets


def balanced_weights(counts: Sequence[int], documents: int | None = None) -> tuple[float, ...]:
    """Class weights with which every class counts as much as any other.

    Args:
        counts: training documents of every class.
        documents: training documents, where they can have any number of classes; None where each has exactly one.

    Returns:
        With one label a class's weight is ``documents / (classes * count)``, as in scikit-learn; with several it is
        documents without the class over documents with it, as torch wants it for positives. Classes without a document
        are not counted and get the weight 1, as do those that all documents have.

    Raises:
        ValueError: there is no document, or a class has more than there are.

    >>> balanced_weights([30, 10]), balanced_weights([30, 10], documents=40)
    ((0.6666666666666666, 2.0), (0.3333333333333333, 3.0))
    """
    most = sum(counts) if documents is None else documents
    if most < 1 or any(not 0 <= count <= most for count in counts):
        raise ValueError(f"counts {list(counts)} do not fit {most} documents")
    if documents is None:
        classes = sum(count > 0 for count in counts)
        return tuple(most / (classes * count) if count else 1.0 for count in counts)
    return tuple((most - count) / count if 0 < count < most else 1.0 for count in counts)


@dataclass(frozen=True)
class MaskedTokens:
    r"""Measures how far logits are from the tokens that were masked, as a mean over those of all processes.

    .. math::
        \ell = w \, \frac{1}{N} \sum_{i=1}^N -\log p_{i t_i}

    The tokens of a batch may come in parts, such as mini-batches: given the number of all of them, the losses and
    metrics of the parts add up to those of the whole. Everything is in fp32. Source: Devlin et al. 2019, "BERT",
    section 3.1; the first term of SDR, eq. 3.

    Args:
        weight: factor of the loss; metrics are without it.

    Raises:
        ValueError: the weight is negative.

    >>> output = MaskedTokens()(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0]))
    >>> round(output.loss.item(), 3), output.metrics["masked_accuracy"].item()
    (0.72, 0.5)
    """

    weight: float = 1.0

    def __post_init__(self) -> None:
        if not self.weight >= 0:
            raise ValueError(f"weight={self.weight} must be 0 or more")

    def __call__(
        self, logits: Tensor, tokens: Tensor, among: Tensor | None = None, *, gather: Gather = ONE_PROCESS
    ) -> LossOutput:
        """Compute the loss of this process's masked tokens.

        Args:
            logits: ``(masked, vocabulary)``, at masked places alone.
            tokens: ``(masked,)``, the tokens that stood there.
            among: how many masked tokens the whole batch has over all processes, where these are a part of them; None
                where they are all that this process has.
            gather: how masked tokens of other processes are counted.

        Returns:
            The loss, with ``masked_loss``, its mean without the weight, and ``masked_accuracy``, the share of tokens
            that were the most likely.

        Raises:
            ValueError: shapes do not fit.
        """
        if logits.dim() != 2 or tokens.shape != logits.shape[:1]:
            raise ValueError(
                f"logits {tuple(logits.shape)} and tokens {tuple(tokens.shape)} must have the shapes (masked, "
                "vocabulary) and (masked,)"
            )
        if among is None:
            among = gather.rows(torch.tensor([len(tokens)], device=tokens.device))[0].sum()
        # The mean over processes must be the mean over masked tokens, also where processes hold different numbers.
        factor = gather.processes / among.clamp(min=1)
        with torch.autocast(logits.device.type, enabled=False):
            loss = functional.cross_entropy(logits.float(), tokens, reduction="sum") * factor
            right = (logits.detach().argmax(dim=1) == tokens).sum() * factor
        return LossOutput(self.weight * loss, {"masked_loss": loss.detach(), "masked_accuracy": right})
