"""Heads: what is read off document vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from ..errors import SettingsError
from ..runtime.plain_text import class_name, one_line

_MOST_NAMED = 3


class ClassificationHead(nn.Module):
    r"""Tells classes apart by document vectors (Graph-RoBERTa, section 3.2, "End-to-end Classification").

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


def checked_labels(labels: Sequence[Any], multi_label: bool) -> list[str]:
    """The names of classes, each on one line (see :func:`~graphdoc.runtime.plain_text.class_name`).

    Args:
        labels: the names, in the order of the logits.
        multi_label: whether a document can have any number of them, or exactly one.

    Raises:
        SettingsError: they are no list of names, too few, or two are the same.
    """
    if isinstance(labels, str) or not isinstance(labels, Sequence) or not all(isinstance(one, str) for one in labels):
        shown = one_line(repr(labels), 80)
        raise SettingsError(f"labels={shown} must be a list of names, or None for a model without head")
    names = [class_name(label) for label in labels]
    if "" in names:
        raise SettingsError(f"labels has a blank name at place {names.index('')}; give every class a name")
    doubled = [name for name, count in Counter(names).items() if count > 1]
    if doubled:
        more = ", ..." if len(doubled) > _MOST_NAMED else ""
        raise SettingsError(
            f"labels names {', '.join(map(repr, doubled[:_MOST_NAMED]))}{more} twice (white space aside); "
            "give every class a name of its own"
        )
    if not names or (len(names) < 2 and not multi_label):
        raise SettingsError(f"labels={names!r} are too few; give two names, or with multi_label at least one")
    return names
