"""What is encoded in front of a passage: the title of its document and the heading of its section."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..documents.document import Document
from ..runtime.text import one_line

# The part of a passage's tokens that its context may take.
SHARE = 4
# Longer words are none, so that no context takes long to cut.
_CHARACTERS_PER_TOKEN = 20
# A context that is cut ends with a full stop again.
_END = ". "

# Spans of the tokens of a text, special tokens left out.
Tokens = Callable[[str], Sequence[tuple[int, int]]]


class Prefix(NamedTuple):
    """What is encoded in front of a passage.

    Args:
        text: its text, which ends in white space, or nothing.
        tokens: how many tokens it has.
        is_shortened: whether it was cut.
    """

    text: str = ""
    tokens: int = 0
    is_shortened: bool = False


NO_CONTEXT = Prefix()


def prefix_of(document: Document, section: int, context: str, most_tokens: int, tokens: Tokens) -> Prefix:
    """The context of the passages of a section: ``Title. Heading. ``, without what is empty or there twice.

    Args:
        document: the document.
        section: the section's number.
        context: ``none``, ``title``, ``heading`` or ``both``.
        most_tokens: tokens that it may have; each part has an equal share of them.
        tokens: gives the tokens of a text.
    """
    wanted = {
        "title": (document.title,),
        "heading": (document.sections[section].heading,),
        "both": (document.title, document.sections[section].heading),
    }.get(context, ())
    lines = (one_line(text, most_tokens * _CHARACTERS_PER_TOKEN).rstrip(" .") for text in wanted)
    parts = list(dict.fromkeys(line for line in lines if line))
    if not parts:
        return NO_CONTEXT
    text = "".join(part + _END for part in parts)
    # White space at the end belongs to the token that follows.
    count = len(tokens(text.rstrip()))
    if count <= most_tokens:
        return Prefix(text, count)
    # Two tokens of every part for what ends it.
    share = max(1, most_tokens // len(parts) - 2)
    text = "".join(_first(part, share, tokens) + _END for part in parts)
    return Prefix(text, len(tokens(text.rstrip())), is_shortened=True)


def _first(text: str, most: int, tokens: Tokens) -> str:
    spans = tokens(text)
    return text if len(spans) <= most else text[: spans[most][0]].rstrip(" .")
