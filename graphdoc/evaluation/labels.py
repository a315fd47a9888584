"""The one label that a document is measured by."""

from __future__ import annotations

from collections.abc import Sequence

from ..documents import Document
from ..errors import EvaluationError

MOST_NAMED = 3


def label_of(document: Document) -> str | None:
    """The label of a document as a string; None where it has none or several."""
    label = document.label
    if isinstance(label, tuple):
        label = label[0] if len(label) == 1 else None
    return None if label is None or label == "" else str(label)


def require_known(test_labels: Sequence[str], train_labels: Sequence[str]) -> None:
    """Refuse labels that a classifier cannot have learned.

    Raises:
        EvaluationError: test documents have labels that no train document has.
    """
    unknown = sorted(set(test_labels) - set(train_labels))
    if unknown:
        more = ", ..." if len(unknown) > MOST_NAMED else ""
        raise EvaluationError(
            f"test documents have labels that no train document has ({', '.join(unknown[:MOST_NAMED])}{more}); "
            "leave them out, or do without the linear probe"
        )
