"""Configuration files: YAML into dataclasses, with overrides, and errors that name the key."""

from __future__ import annotations

import dataclasses
import difflib
import re
import types
import typing
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from jsonargparse import ArgumentError, ArgumentParser, Namespace

from ..errors import SettingsError
from ..runtime.plain_text import one_line

Settings = TypeVar("Settings")


def load_settings(kind: type[Settings], path: str | Path | None = None, overrides: Sequence[str] = ()) -> Settings:
    """Read the settings of a run.

    Args:
        kind: the dataclass of the settings; its fields may be dataclasses themselves.
        path: YAML file; None starts from the defaults.
        overrides: ``key=value`` pairs that replace what the file says, such as ``training.epochs=3``; values are YAML.

    Returns:
        The settings.

    Raises:
        SettingsError: the file cannot be read, a key is unknown (the nearest one is named), a value is of the wrong
            type or out of range.
    """
    source = str(path) if path is not None else "the settings"
    values = _read(Path(path)) if path is not None else {}
    _check_keys(kind, values, source)
    _require_names(values, source)
    for override in overrides:
        key, separator, text = override.partition("=")
        if not separator or not key:
            raise SettingsError(f"{override!r} is no setting; write key=value, such as training.epochs=3")
        if not text.strip():
            raise SettingsError(f"the command line: {key} has no value; give one, or leave the key out (null is none)")
        try:
            # A lone hyphen is standard input elsewhere, and a list of nothing in YAML.
            value = text if text == "-" else _parsed(text)
        except yaml.YAMLError as error:
            raise SettingsError(
                f"{one_line(override, 100)!r}: the value is no YAML; put it in quotes, inside those of the shell"
            ) from error
        _check_keys(kind, _nested(key, value), "the command line")
        _require_names(_nested(key, value), "the command line")
        _assign(values, key.split("."), value)
    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(kind, fail_untyped=False)
    try:
        parsed = parser.parse_object(values)
        built = parser.instantiate(parsed)
        result: Settings = kind(**_as_arguments(built))
    except (ArgumentError, ValueError, TypeError) as error:
        reason = _with_whole_key(_reason(error), kind, {override.partition("=")[0] for override in overrides})
        is_override = any(_names(reason, override.partition("=")[0]) for override in overrides)
        raise SettingsError(f"{'the command line' if is_override else source}: {reason}") from error
    return result


def as_values(settings: Any) -> dict[str, Any]:
    """Settings as plain values, as a configuration file holds them."""
    values: dict[str, Any] = dataclasses.asdict(settings)
    return values


def default_values(settings: Any) -> dict[str, Any]:
    """What settings of this kind are where nothing is given, as plain values, without those that must be given."""
    values: dict[str, Any] = {}
    for entry in dataclasses.fields(settings):
        given = getattr(settings, entry.name)
        if entry.default is not dataclasses.MISSING:
            values[entry.name] = entry.default
        elif entry.default_factory is not dataclasses.MISSING:
            values[entry.name] = entry.default_factory()
        elif dataclasses.is_dataclass(given):
            values[entry.name] = default_values(given)
    return {name: as_values(value) if dataclasses.is_dataclass(value) else value for name, value in values.items()}


def _read(path: Path) -> dict[str, Any]:
    try:
        values = _parsed(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror or error}; check the path") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        reason = one_line(str(error).replace(' in "<unicode string>",', " in"))
        raise SettingsError(f"{path} is no valid YAML: {reason}") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise SettingsError(f"{path} holds a {type(values).__name__}; it should hold keys and values")
    return values


def _parsed(text: str) -> Any:
    """What YAML says.

    Raises:
        YAMLError: it is none; the parser lets dates, numbers and depths that cannot be end in errors of other kinds.
    """
    try:
        return yaml.load(text, _Loader)
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise yaml.YAMLError(f"{type(error).__name__}: {one_line(str(error))}") from error


_GIVEN = "Given value: "


class _Loader(yaml.SafeLoader):
    """Reads YAML, with numbers such as 1e-3 as numbers and without keys that are given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Refuse a key that is given twice, of which one value would be lost."""
        seen: list[Any] = []
        for key_node, _ in node.value:
            if key_node.value in seen:
                mark = key_node.start_mark
                raise yaml.constructor.ConstructorError(None, None, f"{key_node.value} is given twice", mark)
            seen.append(key_node.value)
        return dict(super().construct_mapping(node, deep))


# YAML 1.1 takes 1e-3 for a text, since it has no dot.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def _check_keys(kind: Any, values: Mapping[Any, Any], source: str, path: str = "", root: Any = None) -> None:
    """Refuse keys that the dataclass does not have, and keys without a value that need one.

    Raises:
        SettingsError: a key is unknown, or has no value.
    """
    root = root or kind
    hints = typing.get_type_hints(kind)
    names = [entry.name for entry in dataclasses.fields(kind) if entry.init]
    for key, value in values.items():
        if key not in names:
            near = difflib.get_close_matches(str(key), names, n=1, cutoff=0.4)
            everywhere = _places(root, str(key))
            if everywhere:
                hint = f"did you mean {' or '.join(everywhere)}?"
            elif near:
                hint = f"did you mean {path}{near[0]}?"
            else:
                hint = f"there are {', '.join(names)}"
            raise SettingsError(f"{source}: {path}{key} is unknown; {hint}")
        inner = _dataclass_of(hints[key])
        if value is None and type(None) not in typing.get_args(hints[key]):
            raise SettingsError(f"{source}: {path}{key} has no value; give one, or leave the key out")
        if inner is not None and value is not None and not isinstance(value, Mapping):
            inside = ", ".join(entry.name for entry in dataclasses.fields(inner))
            raise SettingsError(f"{source}: {path}{key} is {value!r}; it should hold keys and values ({inside})")
        if inner is not None and isinstance(value, Mapping):
            _check_keys(inner, value, source, f"{path}{key}.", root)


def _require_names(values: Mapping[Any, Any], source: str, path: str = "") -> None:
    """Refuse keys that YAML reads as numbers, dates or truth values.

    Raises:
        SettingsError: a key is no text.
    """
    for key, value in values.items():
        if not isinstance(key, str):
            place = f" of {path.rstrip('.')}" if path else ""
            raise SettingsError(f"{source}: the key {key!r}{place} is no name; names of settings are text")
        if isinstance(value, Mapping):
            _require_names(value, source, f"{path}{key}.")


def _places(kind: Any, name: str, path: str = "") -> list[str]:
    """Where a key occurs further down."""
    found = []
    hints = typing.get_type_hints(kind)
    for entry in dataclasses.fields(kind):
        if entry.name == name:
            found.append(f"{path}{name}")
        inner = _dataclass_of(hints[entry.name])
        if inner is not None:
            found.extend(_places(inner, name, f"{path}{entry.name}."))
    return found


def _dataclass_of(hint: Any) -> Any:
    """The dataclass that an annotation stands for, also one that may be left out."""
    for candidate in (hint, *(typing.get_args(hint) if _is_union(hint) else ())):
        if dataclasses.is_dataclass(candidate):
            return candidate
    return None


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


def _nested(key: str, value: Any) -> dict[str, Any]:
    for name in reversed(key.split(".")):
        value = {name: value}
    nested: dict[str, Any] = value
    return nested


def _assign(values: dict[str, Any], path: Sequence[str], value: Any) -> None:
    for name in path[:-1]:
        inner = values.get(name)
        if not isinstance(inner, dict):
            inner = values[name] = {}
        values = inner
    values[path[-1]] = value


def _as_arguments(built: Any) -> dict[str, Any]:
    return dict(vars(built)) if isinstance(built, Namespace) else dict(built)


def _with_whole_key(reason: str, kind: Any, given: Collection[str]) -> str:
    """A reason with the whole key of the value it begins with; dataclasses know their own fields only.

    Of several keys that end alike, it is the one that was given on the command line, where only one was.
    """
    start = re.match(r"(\w+)(?==| is )", reason)
    places = _places(kind, start[1]) if start else []
    if len(places) > 1:
        places = [place for place in places if place in given]
    return f"{places[0]}{reason.removeprefix(start[1])}" if start and len(places) == 1 else reason


def _names(reason: str, key: str) -> bool:
    """Whether a reason is about the value of a key, or of one that holds it."""
    parts = key.split(".")
    keys = "|".join(re.escape(".".join(parts[:length])) for length in range(2, len(parts) + 1))
    return re.match(rf'"?({keys or re.escape(key)})("|=| )', reason) is not None


def _reason(error: Exception) -> str:
    """What jsonargparse or a dataclass says is wrong, on one line and without the parser's own words."""
    lines = [line.strip(" -") for line in str(error).splitlines() if line.strip(" -")]
    # Where several types would do, the value comes last, after pages on every one of them.
    given = [f". Got value: {line.removeprefix(_GIVEN)}" for line in lines if line.startswith(_GIVEN)]
    text = one_line("".join([" ".join(lines[:3]), *given[:1]]))
    text = re.sub(r"<class '(\w+)'>", r"\1", text).replace("NoneType", "null").replace("Parser key ", "")
    text = re.sub(
        r"Does not validate against any of the Union subtypes Subtypes: \[(.*?)\](?=$|\. Got value)",
        r"expected one of \1",
        text,
    )
    text = re.sub(r"Expected an? (?:typing\.Literal)?", "expected ", text).replace("expected [", "expected one of [")
    text = text.replace(". Got value:", ", not")[:500]
    return f"{text} an empty value" if text.endswith(", not") else text
