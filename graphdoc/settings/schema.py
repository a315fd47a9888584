"""What all settings have in common: they are frozen, take no unknown keys, and name what is wrong in one line."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import PydanticCustomError

_MUST = {
    "bool_type": "must be true or false",
    "finite_number": "must be a finite number",
    "float_type": "must be a number",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "int_type": "must be a whole number",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be at most {le}",
    "list_type": "must be a list",
    "literal_error": "is unknown; use one of {expected}",
    "missing": "is missing",
    "string_type": "must be text",
}
_LONGEST = 80


class Settings(BaseModel):
    """Settings whose bounds are annotations; a whole number is no truth value and text is no number."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def known(value: str, names: Collection[str]) -> str:
    """The value, if it is one of the names.

    Raises:
        PydanticCustomError: it is not; see :func:`problem`.
    """
    if value not in names:
        raise PydanticCustomError("literal_error", "is unknown", {"expected": ", ".join(names)})
    return value


def problem(error: ValidationError, names: Collection[str] = ()) -> str:
    """The first thing that is wrong with settings, as one line with the key, the value and the fix.

    Args:
        error: what pydantic found.
        names: keys there are, for a key that is unknown.
    """
    first: dict[str, Any] = dict(error.errors(include_url=False)[0])
    key, value, context = ".".join(map(str, first["loc"])), repr(first.get("input")), first.get("ctx", {})
    if first["type"] == "value_error":
        return str(context["error"])
    if first["type"] == "extra_forbidden":
        near = difflib.get_close_matches(key, names, n=1, cutoff=0.4)
        return f"{key} is unknown; " + (
            f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(names))}"
        )
    must = _MUST.get(first["type"], first["msg"])
    shown = value if len(value) <= _LONGEST else value[:_LONGEST] + "..."
    return f"{key}={shown} {must.format(**context)}"
