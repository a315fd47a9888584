"""Text from outside, made harmless for a terminal, a log or a plot."""

from __future__ import annotations


def one_line(text: str, width: int | None = None) -> str:
    """Put text on one line without control characters, so that no document or file name can steer a terminal.

    Args:
        text: any text.
        width: most characters; longer text is cut and ends in an ellipsis.

    Returns:
        The text with single spaces.
    """
    line = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    return line if width is None or len(line) <= width else line[: width - 1].rstrip() + "…"
