"""What is wrong with settings, in one line: the key, the value and the fix."""

from __future__ import annotations

import dataclasses
import difflib
import math
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from ..errors import SettingsError
from ..runtime.text import one_line
from .foreign_names import own_name

_LONGEST_VALUE = 100
_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument", "invalid_key")
_KEYS_AND_VALUES = ("model_type", "dataclass_type", "model_attributes_type")
_PLAIN = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


class Refused(SettingsError):
    """A setting that does not go with others.

    Args:
        key: the setting, as seen from the settings that refuse it.
        value: what it is.
        reason: what is wrong and the fix, to follow ``key=value``; ``{here}`` stands for where those settings are.
    """

    def __init__(self, key: str, value: object, reason: str) -> None:
        super().__init__(f"{key}={shown(value)} {reason.replace('{here}', '')}")
        self.key, self.value, self.reason = tuple(key.split(".")), value, reason


@dataclass(frozen=True)
class Mistake:
    """What is wrong with a setting.

    Args:
        key: the whole key, name by name.
        reason: what is wrong, and the fix.
    """

    key: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        return ".".join(self.key) + self.reason

    def concerns(self, key: Sequence[str]) -> bool:
        """Whether it is about a key, about what the key holds, or about what holds the key."""
        length = min(len(self.key), len(key))
        return length > 0 and tuple(key[:length]) == self.key[:length]


def first_mistake(
    kind: type[BaseModel],
    values: Mapping[str, Any],
    error: ValidationError,
    others: Mapping[str, type[BaseModel]] | None = None,
) -> Mistake:
    """The first thing that is wrong, of which the user hears: unknown keys come before values.

    Args:
        kind: the settings that could not be made.
        values: what they were to be made of.
        error: what pydantic found.
        others: settings of other recipes by their names, of which an unknown key may be one.
    """
    found = error.errors(include_url=False)
    first: Any = next((one for one in found if one["type"] in _UNKNOWN), found[0])
    place = _place(kind, first["loc"])
    # Of several types that would do, the one that the value has says best what is wrong with it.
    first = next((one for one in found if one["type"] == "value_error" and _place(kind, one["loc"]) == place), first)
    if first["type"] in _UNKNOWN:
        name = first["loc"][len(place.key)]
        for recipe, other in (others or {}).items():
            if (key := (*place.key, str(name))) in keys_of(other):
                fix = f"leave it out, or set recipe={recipe}"
                return Mistake(key, f" is a setting of recipe={recipe}, and this is another; {fix}")
        return _unknown(kind, place, name)
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, Refused):
        here = "".join(f"{name}." for name in place.key)
        return Mistake(place.key + cause.key, f"={shown(cause.value)} {cause.reason.replace('{here}', here)}")
    if first["type"] == "missing":
        return Mistake(place.key, " is missing; give it a value")
    value = _value(values, place.key)
    if value is None and first["type"] != "value_error":
        return Mistake(place.key, " has no value; give one, or leave the key out")
    if first["type"] in _KEYS_AND_VALUES:
        inside = ", ".join(_fields(place.kind)) if place.kind else ""
        return Mistake(place.key, f"={shown(value)} should hold keys and values ({inside})")
    if cause is not None:
        return Mistake(place.key, f"={shown(first['input'])} {cause}")
    if place.field is None:
        return Mistake(place.key, f"={shown(value)} is wrong: {first['msg']}")
    finite = "a finite" if isinstance(value, float) and not math.isfinite(value) else "a"
    return Mistake(place.key, f"={shown(value)} must be {wanted(place.field).replace('a number', f'{finite} number')}")


def shown(value: object) -> str:
    """A value as a message shows it, much like YAML."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, BaseModel):
        value = value.model_dump()
    return one_line(repr(value), _LONGEST_VALUE)


def wanted(field: FieldInfo) -> str:
    """What a field takes, such as "a whole number of at least 1, or null"."""
    return either(_alternatives(field.annotation, [field]))


def _alternatives(annotation: Any, metadata: Sequence[Any] = ()) -> list[str]:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _alternatives(inner[0], [*inner[1:], *metadata])
    if origin in (Union, types.UnionType):
        return [word for one in inner for word in _alternatives(one, metadata)]
    if origin is Literal:
        return [str(choice) for choice in inner]
    if origin is list:
        return [f"a list of {either(_alternatives(*inner))}"]
    if annotation is type(None):
        return ["null"]
    examples = [one for field in metadata if isinstance(field, FieldInfo) for one in field.examples or ()]
    such_as = f", such as {shown(examples[0])}" if examples else ""
    return [_PLAIN.get(annotation, "keys and values") + _bounds(metadata) * (annotation in (int, float)) + such_as]


def _bounds(metadata: Sequence[Any]) -> str:
    words = {"gt": "above", "ge": "of at least", "lt": "below", "le": "at most"}
    constraints = [part for one in metadata for part in (one.metadata if isinstance(one, FieldInfo) else [one])]
    found = {name: getattr(one, name) for one in constraints for name in words if hasattr(one, name)}
    bounds = [f"{words[name]} {_number(found[name])}" for name in words if name in found]
    return " " + " and ".join(bounds) if bounds else ""


def _number(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:g}"


def either(alternatives: Iterable[str]) -> str:
    """Words for one of several things.

    >>> either(["full", "section", "window"])
    'full, section or window'
    """
    *others, last = dict.fromkeys(alternatives)
    comma = "," if any(" " in one for one in others) else ""
    return f"{', '.join(others)}{comma} or {last}" if others else last


def keys_of(kind: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The keys of settings and of all settings in them, each name by name.

    Args:
        kind: the settings.
        path: where they are.
    """
    for name, field in _fields(kind).items():
        yield (*path, name)
        yield from keys_of(_kind(field), (*path, name))


class _Place(NamedTuple):
    """A place in settings: its key, its field, and the settings that it holds, if any."""

    key: tuple[str, ...]
    field: FieldInfo | None
    kind: Any


def _place(kind: Any, location: Sequence[str | int]) -> _Place:
    """The key that a location of pydantic's means, which goes on with types and numbers in lists."""
    key: list[str] = []
    field: FieldInfo | None = None
    for part in location:
        fields = _fields(kind)
        if part not in fields:
            break
        key.append(str(part))
        field = fields[str(part)]
        kind = _kind(field)
    return _Place(tuple(key), field, kind)


def _unknown(root: type[BaseModel], place: _Place, name: object) -> Mistake:
    marked = () if place.field is None else place.field.metadata
    hidden = {name for one in marked for name in getattr(one, "hidden", ())}
    names = [one for one in _fields(place.kind) if one not in hidden]
    path = "".join(f"{part}." for part in place.key)
    if not isinstance(name, str):
        where = f"; {path.rstrip('.')} has" if path else "; there are"
        return Mistake((*place.key, str(name)), f" is no name of a setting{where} {', '.join(names)}")
    everywhere = [".".join(key) for key in keys_of(root) if key[-1] == name]
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
    if everywhere:
        hint = f"did you mean {' or '.join(everywhere)}?"
    elif own := own_name(name, {".".join(key) for key in keys_of(root)}):
        hint = own
    elif near:
        hint = f"did you mean {path}{near[0]}?"
    else:
        hint = f"there are {', '.join(names)}"
    return Mistake((*place.key, one_line(name, _LONGEST_VALUE)), f" is unknown; {hint}")


def _fields(kind: Any) -> Mapping[str, FieldInfo]:
    if kind is None:
        return {}
    if issubclass(kind, BaseModel):
        return dict(kind.model_fields)
    hints = get_type_hints(kind)
    return {one.name: FieldInfo.from_annotation(hints[one.name]) for one in dataclasses.fields(kind)}


def _kind(field: FieldInfo) -> Any:
    """The settings that a field holds, also where they may be left out; None for a value."""
    marked = [getattr(one, "kind", None) for one in field.metadata]
    for one in (field.annotation, *get_args(field.annotation), *marked):
        if isinstance(one, type) and (issubclass(one, BaseModel) or dataclasses.is_dataclass(one)):
            return one
    return None


def _value(values: Any, key: Iterable[str]) -> Any:
    for name in key:
        values = values.get(name) if isinstance(values, Mapping) else getattr(values, name, None)
    return values
