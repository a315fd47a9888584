"""What is said about a score, next to those of unrelated pairs."""

from __future__ import annotations

from .kinds import FEWEST_DOCUMENTS

NO_BACKGROUND = (
    "this model has no scale for unrelated documents: its scores can be compared only with each other; graphdoc fit "
    f"learns the scale from {FEWEST_DOCUMENTS} or more of your documents"
)
UNKNOWN_WORDS = (
    "the model knows few words of these documents, and has not measured how alike unrelated ones are by vectors alone"
)
# Of documents that are closer than a smaller share of unrelated pairs nothing can be said.
_LEAST_SIGN = 0.95


def percent_closer(share: float) -> str:
    """The share of unrelated pairs that are less alike, in percent as people read it.

    >>> percent_closer(0.9921), percent_closer(0.99999), percent_closer(0.314)
    ('99.2 %', '99.99 %', '31 %')
    """
    percent = 100 * share
    text = f"{percent:.0f}" if percent < 90 else f"{percent:.1f}" if percent < 99.9 else f"{min(percent, 99.99):.2f}"
    return f"{text} %"


def describe_share(share: float, pairs: str = "unrelated pairs") -> str:
    """What the share of unrelated pairs that are less alike says about two documents.

    >>> describe_share(0.9921), describe_share(0.81)
    ('closer than 99.2 % of unrelated pairs', 'no sign of a relation: 19 of 100 unrelated pairs are closer')
    """
    if share < _LEAST_SIGN:
        return f"no sign of a relation: {100 * (1 - share):.0f} of 100 unrelated pairs are closer"
    return f"closer than {percent_closer(share)} of {pairs}"
