"""Filters of a search: one condition over the columns of an index, as people write it."""

from __future__ import annotations

import re

from ..errors import SettingsError
from ..runtime.text import described, one_line

MOST_CHARACTERS = 10_000
# What stands for itself: texts, names in quotes.
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`")
# Signs and words with which a filter would be more than one condition, or none that can be answered.
_NOT_OURS = re.compile(r";|--|/\*|\?|\$\d|(?<!:):(?!:)|\b(?:select|over)\b|['\"`]", re.IGNORECASE)
_HOW = "write one condition, like: year >= 2010 AND label = 'sea'"


def require_filter(where: object) -> None:
    """Refuse what is no single condition, so that a filter can be joined to others by ``AND``.

    Raises:
        SettingsError: it is empty or too long, leaves a parenthesis or quote open, or holds a comment, a placeholder,
            a subquery or a second statement.

    >>> require_filter("year >= 2010 AND title LIKE '%;%'")
    """
    if where is None:
        return
    if not isinstance(where, str) or not where.strip():
        given = repr(where) if isinstance(where, str) else described(where)
        raise SettingsError(f"the filter is {given}; write it like: year >= 2010, or leave it out")
    shown = one_line(where, 60)
    if len(where) > MOST_CHARACTERS:
        raise SettingsError(
            f"the filter {shown!r} has {len(where):,} characters; give {MOST_CHARACTERS:,} at most, such as a "
            "condition on a field that all of these documents share"
        )
    if any("\ud800" <= character <= "\udfff" or character == "\0" for character in where):
        raise SettingsError(f"the filter {shown!r} holds a character that no text has; leave it out")
    bare = _QUOTED.sub("_", where)
    found = _NOT_OURS.search(bare)
    if found:
        raise SettingsError(f"the filter {shown!r} cannot hold {found[0]!r}; {_HOW}")
    depth = 0
    for sign in re.findall("[()]", bare):
        depth += 1 if sign == "(" else -1
        if depth < 0:
            break
    if depth:
        which = "closes a parenthesis that is not open" if depth < 0 else "leaves a parenthesis open"
        raise SettingsError(f"the filter {shown!r} {which}; {_HOW}")
