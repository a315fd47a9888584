"""What all settings share: they refuse what they do not know, and say in one line which key and value are wrong."""

from __future__ import annotations

import dataclasses
import difflib
import os
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args, get_type_hints

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import core_schema, to_jsonable_python

from ..errors import SettingsError
from ..runtime.text import one_line

_LONGEST_VALUE = 100
_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument", "invalid_key")


class Refused(SettingsError):
    """A setting that does not go with others.

    Args:
        key: the setting, as seen from the settings that refuse it.
        value: what it is.
        reason: what is wrong, to follow ``key=value``; ``{here}`` stands for where those settings are.
    """

    def __init__(self, key: str, value: object, reason: str) -> None:
        super().__init__(f"{key}={shown(value)} {reason.replace('{here}', '')}")
        self.key, self.value, self.reason = tuple(key.split(".")), value, reason


@dataclass(frozen=True)
class Mistake:
    """What is wrong with a setting.

    Args:
        key: the whole key, name by name.
        reason: what is wrong.
    """

    key: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        return ".".join(self.key) + self.reason

    def concerns(self, key: Sequence[str]) -> bool:
        """Whether it is about a key, about what the key holds, or about what holds the key."""
        length = min(len(self.key), len(key))
        return length > 0 and tuple(key[:length]) == self.key[:length]


def first_mistake(kind: type[BaseModel], error: ValidationError) -> Mistake:
    """The first thing that is wrong: unknown keys come before values.

    Args:
        kind: the settings that could not be made.
        error: what pydantic found.
    """
    errors = error.errors(include_url=False)
    first: Any = next((one for one in errors if one["type"] in _UNKNOWN), errors[0])
    key, inner = _place(kind, first["loc"])
    # Of several types that would do, the one that the value has says best what is wrong with it.
    same = (one for one in errors if one["type"] == "value_error" and _place(kind, one["loc"])[0] == key)
    first = first if first["type"] in _UNKNOWN else next(same, first)
    cause = first.get("ctx", {}).get("error")
    if first["type"] in _UNKNOWN:
        return _unknown(kind, inner, key, str(first["loc"][len(key)]))
    if isinstance(cause, Refused):
        here = "".join(f"{name}." for name in key)
        return Mistake(key + cause.key, f"={shown(cause.value)} {cause.reason.replace('{here}', here)}")
    if first["type"] == "missing":
        return Mistake(key, " is missing; give it a value")
    reason = str(cause) if cause is not None else first["msg"].removeprefix("Input ")
    return Mistake(key, f"={shown(first['input'])} {reason}")


def _unknown(root: type[BaseModel], kind: Any, key: tuple[str, ...], name: str) -> Mistake:
    names = list(_fields(kind))
    path = "".join(f"{part}." for part in key)
    everywhere = [".".join(other) for other in keys_of(root) if other[-1] == name]
    near = [f"{path}{one}" for one in difflib.get_close_matches(name, names, n=1, cutoff=0.4)]
    hint = (
        f"did you mean {' or '.join(everywhere or near)}?" if everywhere or near else f"there are {', '.join(names)}"
    )
    return Mistake((*key, one_line(name, _LONGEST_VALUE)), f" is unknown; {hint}")


def shown(value: object) -> str:
    """A value as a message shows it, much like YAML."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, BaseModel):
        value = value.model_dump()
    return one_line(repr(value), _LONGEST_VALUE)


def either(alternatives: Iterable[str]) -> str:
    """Words for one of several things.

    >>> either(["full", "section", "window"])
    'full, section or window'
    """
    *others, last = dict.fromkeys(alternatives)
    return f"{', '.join(others)} or {last}" if others else last


def keys_of(kind: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The keys of settings and of all settings in them, each name by name.

    Args:
        kind: the settings.
        path: where they are.
    """
    for name, field in _fields(kind).items():
        yield (*path, name)
        yield from keys_of(_kind(field), (*path, name))


def _place(kind: Any, location: Sequence[str | int]) -> tuple[tuple[str, ...], Any]:
    """The key that a location of pydantic's stands for, and the settings that it holds."""
    key: list[str] = []
    for part in location:
        fields = _fields(kind)
        if part not in fields:
            break
        key.append(str(part))
        kind = _kind(fields[str(part)])
    return tuple(key), kind


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


def output_folder(output: str) -> Path:
    """The folder that a setting names, with the home folder for ``~``; ``~name`` of nobody is a name like others."""
    try:
        return Path(output).expanduser()
    except RuntimeError:
        return Path(output)


def _as_text(value: object) -> object:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _require_usable_name(name: str) -> str:
    if not name.strip():
        raise ValueError("is blank; give a name, or leave the key out")
    if "\0" in name:
        raise ValueError("has a NUL character, which no file has in its name; choose another name")
    return name


FileName = Annotated[str, BeforeValidator(_as_text, json_schema_input_type=str), AfterValidator(_require_usable_name)]
"""Name of a file or folder."""
Count = Annotated[int, Field(ge=1, le=10**9)]
"""How many there are of something, or how often it is done."""
Share = Annotated[float, Field(ge=0, lt=1)]
"""A part of the whole, but not all of it."""


def known_name(names: Iterable[str]) -> BeforeValidator:
    """Accept the names of a registry alone, before anything is said of the kind of a value."""

    def check(name: object) -> object:
        if not isinstance(name, str) or name not in names:
            raise ValueError(f"must be {either(names)}")
        return name

    return BeforeValidator(check, json_schema_input_type=Literal[tuple(names)])


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
            raise SettingsError(str(first_mistake(type(self), error))) from None

    # Parts of settings that are read from a file are not made by ``__init__``, whose errors would lose their key.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @model_validator(mode="before")
    @classmethod
    def _take_over(cls, values: Any) -> Any:
        """Take what was given of more general settings, where a recipe has defaults of its own."""
        if isinstance(values, Settings) and type(values) is not cls and issubclass(cls, type(values)):
            return values.given_values()
        return values

    def replace(self, **changes: Any) -> Self:
        """The same settings with some others, checked anew.

        Args:
            **changes: settings by name.

        Raises:
            SettingsError: they do not go together.
        """
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

    @classmethod
    def default_values(cls) -> dict[str, Any]:
        """What settings are where nothing is given, as plain values, without those that must be given."""
        values: dict[str, Any] = {}
        for name, field in cls.model_fields.items():
            kind = field.annotation
            if not field.is_required():
                default = field.get_default(call_default_factory=True, validated_data={})
                values[name] = to_jsonable_python(default)
            elif isinstance(kind, type) and issubclass(kind, Settings):
                values[name] = kind.default_values()
        return values

    def refused(self, key: str, reason: str) -> Refused:
        """The error that a setting does not go with others.

        Args:
            key: the setting, such as ``patience`` or ``training.patience``.
            reason: what is wrong and the fix, to follow ``key=value``; ``{here}`` stands for where these settings are.
        """
        value = reduce(getattr, key.split("."), self)
        return Refused(key, value, reason)


@dataclass(frozen=True)
class Given:
    """Marks a dictionary that holds some settings of a kind, those that were given.

    Args:
        kind: the kind that checks them.
        hidden: settings of it that are not offered in the schema.
    """

    kind: type[Settings]
    hidden: frozenset[str] = frozenset()

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Check the settings as those of their kind, and keep what was given."""
        return core_schema.no_info_after_validator_function(
            Settings.given_values,
            handler.generate_schema(self.kind),
            serialization=core_schema.plain_serializer_function_ser_schema(dict),
        )

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Describe them as their kind does, without those that are hidden."""
        found = handler.resolve_ref_schema(handler(schema))
        offered = {name: part for name, part in found["properties"].items() if name not in self.hidden}
        return {**found, "properties": offered}
