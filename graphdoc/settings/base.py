"""What all settings share: they refuse what they do not know, and say in one line what is wrong with a value."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Annotated, Any, Self

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
from pydantic_core import core_schema, to_jsonable_python

from ..errors import SettingsError
from .mistakes import Refused, either, first_mistake


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

    return BeforeValidator(check, json_schema_input_type=str)


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
            raise SettingsError(str(first_mistake(type(self), values, error))) from None

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

    def require_effect(self, key: str, has_effect: bool, reason: str) -> None:
        """Refuse a setting that was changed and changes nothing.

        Args:
            key: the setting, such as ``margin`` or ``loss.margin``.
            has_effect: whether it would change anything.
            reason: why not, and the fix, to follow "has no effect".

        Raises:
            Refused: it is not at its default, and has no effect.
        """
        *path, name = key.split(".")
        owner: Any = reduce(getattr, path, self)
        if not has_effect and getattr(owner, name) != type(owner).default_values()[name]:
            raise self.refused(key, f"has no effect {reason}")


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
