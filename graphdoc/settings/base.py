"""What all settings share: they refuse what they do not know, and say in one line which key and value are wrong."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import to_jsonable_python

from ..errors import SettingsError
from ..runtime.other_names import LOADING, TRAINING, hint
from ..runtime.text import one_line

_LONGEST_VALUE = 100
_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")

Key = tuple[str, ...]


def first_mistake(kind: type[BaseModel], error: ValidationError) -> tuple[Key, str]:
    """The key of the first mistake, and the mistake in a line that begins with it; unknown keys come before values."""
    errors: list[Any] = list(error.errors(include_url=False))
    first = next((one for one in errors if one["type"] in _UNKNOWN), errors[0])
    key, fields = _place(kind, first["loc"])
    if first["type"] in _UNKNOWN:
        key = (*key, str(first["loc"][len(key)]))
        instead = hint(key[-1], fields, TRAINING | LOADING, "".join(f"{part}." for part in key[:-1]))
        return key, f"{one_line('.'.join(key), _LONGEST_VALUE)} is unknown; {instead}"
    # Of several types that would do, the one that the value has says best what is wrong with it.
    same = (one for one in errors if one["type"] == "value_error" and _place(kind, one["loc"])[0] == key)
    first = next(same, first)
    path, cause = ".".join(key), first.get("ctx", {}).get("error")
    if isinstance(cause, SettingsError):
        # It begins with a key of the settings that were checked.
        named = re.match(r"[\w.]*", str(cause))
        return (*key, *(named[0].split(".") if named else ())), f"{path}.{cause}" if path else str(cause)
    if first["type"] == "missing":
        return key, f"{path} is missing; give it a value"
    reason = str(cause) if cause is not None else first["msg"].removeprefix("Input ")
    return key, f"{path}={shown(first['input'])} {reason}"


def _place(kind: Any, location: Sequence[str | int]) -> tuple[Key, list[str]]:
    """The key that a location of pydantic's stands for, and the names of the settings that it holds."""
    key: list[str] = []
    for part in location:
        fields = getattr(kind, "__pydantic_fields__", {})
        if part not in fields:
            break
        key.append(str(part))
        annotation = fields[str(part)].annotation
        kind = next((one for one in (annotation, *get_args(annotation)) if hasattr(one, "__pydantic_fields__")), None)
    return tuple(key), list(getattr(kind, "__pydantic_fields__", {}))


def shown(value: object) -> str:
    """A value as a message shows it, much like YAML."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return one_line(repr(value.model_dump() if isinstance(value, BaseModel) else value), _LONGEST_VALUE)


def output_folder(output: str) -> Path:
    """The folder that a setting names, with the home folder for ``~``; ``~name`` of nobody is a name like others."""
    try:
        return Path(output).expanduser()
    except RuntimeError:
        return Path(output)


def _require_usable_name(name: str) -> str:
    if not name.strip() or "\0" in name:
        raise ValueError("cannot be the name of a file; choose another name, or leave the key out")
    return name


_AS_TEXT = BeforeValidator(lambda value: os.fspath(value) if isinstance(value, os.PathLike) else value, str)
FileName = Annotated[str, _AS_TEXT, AfterValidator(_require_usable_name)]
"""Name of a file or folder."""
Count = Annotated[int, Field(ge=1, le=10**9)]
"""How many there are of something, or how often it is done."""
Share = Annotated[float, Field(ge=0, lt=1)]
"""A part of the whole, but not all of it."""
Seed = Annotated[int, Field(ge=0, lt=2**32)]


def known_name(names: Iterable[str]) -> BeforeValidator:
    """Accept the names of a registry alone."""

    def check(name: object) -> object:
        if not isinstance(name, str) or name not in names:
            raise ValueError(f"is unknown; there are {', '.join(names)}")
        return name

    return BeforeValidator(check, json_schema_input_type=Literal[tuple(names)])


def require_one(settings: BaseModel, first: str, second: str) -> None:
    """Refuse settings of which neither is given, or both."""
    values = getattr(settings, first), getattr(settings, second)
    if bool(values[0]) == bool(values[1]):
        fix = "set one of them to null" if values[0] else "give one of them"
        raise SettingsError(f"{first}={shown(values[0])} and {second}={shown(values[1])}: {fix}")


class Settings(BaseModel):
    """A part of a configuration file: a value of the wrong kind, out of range or unknown is an error.

    Raises:
        SettingsError: there is such a value; the message names its key, the value and the fix.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise SettingsError(first_mistake(type(self), error)[1]) from None

    # Parts of settings that are read from a file are not made by ``__init__``, whose errors would lose their key.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    def replace(self, **changes: Any) -> Self:
        """The same settings with some changed, and checked."""
        return type(self)(**self.given_values() | changes)

    def given_values(self) -> dict[str, Any]:
        """Settings that are not left at their defaults, in their order."""
        return {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}

    def as_values(self) -> dict[str, Any]:
        """All settings as plain values, as a configuration file holds them."""
        return self.model_dump()

    def explained(self) -> str:
        """All settings as YAML, each below a comment that says what it is."""
        lines = []
        for name, field in type(self).model_fields.items():
            lines += textwrap.wrap(field.description or "", 100, initial_indent="# ", subsequent_indent="# ")
            value = getattr(self, name)
            if isinstance(value, Settings):
                lines += [f"{name}:", textwrap.indent(value.explained(), "  ")]
            else:
                plain = {name: to_jsonable_python(value)}
                lines.append(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True).rstrip())
        return "\n".join(lines)
