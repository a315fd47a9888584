"""Heads: what is read off document vectors, and off the sentences of a pair."""

from __future__ import annotations

from torch import Tensor, nn

from ..errors import SettingsError
from ..graphs.node_rows import NodeRows
from .readouts.readout import mean_by_group


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


class SubtopicHead(nn.Module):
    r"""Puts the sentences of a pair of documents into subtopics (SST, section 3.2).

    .. math::
        z_i = W \Big(v_i - \frac{1}{n} \sum_j v_j\Big) + b

    What all :math:`n` sentences of a pair have in common is taken off, since it does not tell which of them belong
    together. The head has one width for all pairs; a pair of fewer subtopics leaves the last columns out.

    Args:
        width: width of nodes.
        columns: most subtopics of a pair.
    """

    def __init__(self, width: int, columns: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, columns)

    def forward(self, sentences: Tensor, rows: NodeRows) -> Tensor:
        """Compute logits.

        Args:
            sentences: ``(sentences, width)``, pair after pair, after the graph.
            rows: which pair each is of.

        Returns:
            ``(sentences, columns)``.
        """
        means = mean_by_group(sentences, rows.document_of, rows.counts)
        logits: Tensor = self.linear(sentences - means.index_select(0, rows.document_of))
        return logits
