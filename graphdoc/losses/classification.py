"""Losses of classification: of documents, and of masked tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from .base import ONE_PROCESS, Gather, LossOutput, mean_share, require_range


@dataclass(frozen=True)
class ClassificationLoss:
    r"""Measures how far logits are from the labels of documents, as a mean over the documents of all processes.

    Task: ``Classes``, or ``PairViews`` of one encoder.
    Call: ``loss(logits, targets)``, ``(documents, classes)``, ``(documents,)``, or twice the former for several labels.
    Source: Graph-RoBERTa, section 3.2; SST, appendix B.1.

    With a single label this is cross entropy over the softmax, weighted by the class of the document,

    .. math::
        \ell = \frac{\sum_i \left[ (1 - \epsilon)\, w_{y_i} (-\log p_{i y_i})
            + \frac{\epsilon}{C} \sum_c w_c (-\log p_{ic}) \right]}{\sum_i w_{y_i}},

    and with several the mean over documents and classes of the binary cross entropy of each sigmoid, with targets
    :math:`t_{ic}` moved to :math:`(1 - \epsilon)\, t_{ic} + \epsilon / 2` and positives weighted by their class:

    .. math::
        \ell = \frac{1}{N C} \sum_{ic} \left[ -w_c\, t_{ic} \log p_{ic} - (1 - t_{ic}) \log (1 - p_{ic}) \right].

    Args:
        multi_label: whether a document can have any number of classes, or exactly one.
        class_weights: weight of every class, such as :func:`balanced_weights` gives; None for 1 each.
        label_smoothing: the share :math:`\epsilon` of a target that is spread over all classes.

    >>> output = ClassificationLoss()(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0]))
    >>> round(output.loss.item(), 3), output.metrics["accuracy"].item()
    (0.72, 0.5)
    """

    multi_label: bool = False
    class_weights: tuple[float, ...] | None = None
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        require_range("label_smoothing", self.label_smoothing, below=1)
        require_range("class_weights", *(self.class_weights or ()))

    def __call__(self, logits: Tensor, targets: Tensor, *, gather: Gather = ONE_PROCESS) -> LossOutput:
        """Compute the loss of this process's documents.

        Args:
            logits: ``(documents, classes)``.
            targets: class of every document, ``(documents,)`` whole numbers; with several labels ``(documents,
                classes)``, 1 for the classes that a document has and 0 for the others.
            gather: how documents of other processes are counted.

        Returns:
            The loss, and the ``accuracy``, the share of documents whose most likely class is theirs, or with several
            labels of those that get all of theirs and no other at a probability of 0.5.
        """
        with torch.autocast(logits.device.type, enabled=False):
            logits = logits.float()
            weights = None if self.class_weights is None else logits.new_tensor(self.class_weights)
            if self.multi_label:
                smooth = targets.float() * (1 - self.label_smoothing) + self.label_smoothing / 2
                losses = functional.binary_cross_entropy_with_logits(
                    logits, smooth, pos_weight=weights, reduction="none"
                ).mean(dim=1)
                is_right = ((logits.detach() > 0) == (targets > 0.5)).all(dim=1)
                shares = torch.ones_like(losses)
            else:
                losses = functional.cross_entropy(
                    logits, targets, weights, reduction="none", label_smoothing=self.label_smoothing
                )
                is_right = logits.detach().argmax(dim=1) == targets
                shares = torch.ones_like(losses) if weights is None else weights[targets]
            everything, _ = gather.rows(torch.stack([shares, torch.ones_like(shares)], dim=1))
            total, documents = everything.sum(dim=0)
            loss = losses.sum() * gather.processes / total.clamp(min=torch.finfo(total.dtype).tiny)
            accuracy = is_right.float().sum() * gather.processes / documents.clamp(min=1)
        return LossOutput(loss, {"accuracy": accuracy})


def balanced_weights(counts: Sequence[int], documents: int | None = None) -> tuple[float, ...]:
    """Class weights with which every class counts as much as any other, of the training documents of every class.

    With one label a class's weight is ``documents / (classes * count)``, as in scikit-learn; with several, where the
    number of documents is given, it is documents without the class over documents with it, as torch wants it for
    positives. Classes without a document get the weight 1, as do those that all documents have.

    >>> balanced_weights([30, 10]), balanced_weights([30, 10], documents=40)
    ((0.6666666666666666, 2.0), (0.3333333333333333, 3.0))
    """
    if documents is None:
        classes = sum(count > 0 for count in counts)
        return tuple(sum(counts) / (classes * count) if count else 1.0 for count in counts)
    return tuple((documents - count) / count if 0 < count < documents else 1.0 for count in counts)


@dataclass(frozen=True)
class MaskedTokenLoss:
    r"""Measures how far logits are from the tokens that were masked, as a mean over those of all processes.

    Task: ``SentencePairs``, alone or in a list with another loss.
    Call: ``loss(logits, tokens)``, ``(masked, vocabulary)``, ``(masked,)``.
    Source: SDR, section 3.2, eq. 3, the first term; Devlin et al. 2019, "BERT", section 3.1.

    .. math::
        \ell = w \, \frac{1}{N} \sum_{i=1}^N -\log p_{i t_i}

    The tokens of a batch may come in parts, such as mini-batches: given the number of all of them, the losses and
    metrics of the parts add up to those of the whole. Everything is in fp32.

    Args:
        weight: factor of the loss; metrics are without it.

    >>> output = MaskedTokenLoss()(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0]))
    >>> round(output.loss.item(), 3), output.metrics["masked_accuracy"].item()
    (0.72, 0.5)
    """

    weight: float = 1.0

    def __post_init__(self) -> None:
        require_range("weight", self.weight)

    def __call__(
        self, logits: Tensor, tokens: Tensor, among: Tensor | None = None, *, gather: Gather = ONE_PROCESS
    ) -> LossOutput:
        """Compute the loss of this process's masked tokens.

        Args:
            logits: ``(masked, vocabulary)``, at masked places alone.
            tokens: ``(masked,)``, the tokens that stood there.
            among: how many masked tokens the whole batch has over all processes, where these are a part of them.
            gather: how masked tokens of other processes are counted.
        """
        if among is None:
            among = gather.rows(torch.tensor([len(tokens)], device=tokens.device))[0].sum()
        factor = mean_share(among, gather)
        with torch.autocast(logits.device.type, enabled=False):
            loss = functional.cross_entropy(logits.float(), tokens, reduction="sum") * factor
            right = (logits.detach().argmax(dim=1) == tokens).sum() * factor
        return LossOutput(self.weight * loss, {"masked_loss": loss.detach(), "masked_accuracy": right})
