"""Heads: what is read off document vectors."""

from __future__ import annotations

from torch import Tensor, nn

from ..errors import SettingsError


class ClassificationHead(nn.Module):
    r"""Separates classes by document vectors (Graph-RoBERTa, section 3.2, "End-to-end Classification").

    .. math::
        z = W \, \mathrm{dropout}(d) + b

    One linear layer on the vector :math:`d` that the readout gives, so that a logit is a sum over whatever the vector
    is a sum of. With a single label probabilities are the softmax over the logits, with several the sigmoid of each.

    Args:
        width: width of document vectors.
        classes: number of classes.
        dropout: dropout on document vectors in training.

    Raises:
        SettingsError: the dropout is out of range.
    """

    def __init__(self, width: int, classes: int, dropout: float = 0.1) -> None:
        super().__init__()
        if not 0 <= dropout < 1:
            raise SettingsError(f"classifier_dropout={dropout!r} must be a number of at least 0 and below 1")
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(width, classes)

    def forward(self, documents: Tensor) -> Tensor:
        """Compute logits.

        Args:
            documents: ``(documents, width)``.

        Returns:
            ``(documents, classes)``.
        """
        logits: Tensor = self.linear(self.dropout(documents))
        return logits
