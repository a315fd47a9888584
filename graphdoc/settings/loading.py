"""The settings of a run: those of a YAML file, and others that replace them."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from operator import eq
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from ..errors import SettingsError
from ..registry import RecipeTargets, load, recipes_of
from ..runtime.text import one_line
from ..runtime.yaml_files import parse_yaml, read_yaml
from .base import Settings, first_mistake, shown
from .run import RunSettings

SettingsT = TypeVar("SettingsT", bound=Settings)

# Configs and the example documents travel with the package.
PACKAGE = Path(__file__).parents[1]

COMMAND_LINE = "the command line"
# The key that chooses between several recipes of a command.
RECIPE = "recipe"


def shipped_configs(command: str | None = None) -> dict[str, Path]:
    """The configs that travel with the package, by name, of ``pretrain``, of ``finetune`` or of both.

    >>> "quickstart" in shipped_configs("pretrain")
    True
    """
    folders = [command] if command else ["pretrain", "finetune"]
    files = [path for folder in folders for path in (PACKAGE / "configs" / folder).glob("*.yaml")]
    return {path.stem: path for path in sorted(files)}


def read_config(path: str | Path) -> dict[str, Any]:
    """Read a YAML file of settings, or a config that travels with the package by its name.

    Example documents that such a config names are those of the package where the working folder has none.

    Raises:
        SettingsError: there is neither, or the file cannot be read.
    """
    shipped = shipped_configs()
    # A folder of data may well have the name of its config.
    if str(path) not in shipped or Path(path).is_file():
        near = difflib.get_close_matches(str(path), shipped, n=1)
        if near and not Path(path).exists():
            raise SettingsError(f"{path} is neither a file nor a config of the package; did you mean {near[0]}?")
        return read_yaml(path)
    values = read_yaml(shipped[str(path)])
    source = values["corpus"].get("source")
    if isinstance(source, str) and source.startswith("examples/") and not Path(source).exists():
        values["corpus"]["source"] = str(PACKAGE / source)
    return values


def load_settings(kind: type[SettingsT], path: str | Path | None = None, overrides: Sequence[str] = ()) -> SettingsT:
    """Read the settings of a run.

    Args:
        kind: what settings there are.
        path: YAML file, or the name of a config that travels with the package; None starts from the defaults.
        overrides: ``key=value`` pairs that replace what the file says, such as ``training.epochs=3``; values are YAML.

    Raises:
        SettingsError: the file cannot be read, a key is unknown (the nearest one is named), a value is of the wrong
            type or out of range.

    >>> from graphdoc.settings.pretraining import SubDocumentSettings
    >>> settings = load_settings(SubDocumentSettings, overrides=["corpus.source=papers/", "training.epochs=3"])
    >>> settings.training.epochs
    3.0
    """
    return load_chosen([kind], path, overrides)


def settings_of(recipe: RecipeTargets) -> type[RunSettings]:
    """The settings of a recipe, by its line in the registry."""
    kind: type[RunSettings] = load(recipe.settings)
    return kind


def kinds_of(command: str) -> list[type[RunSettings]]:
    """The settings of the recipes of a command, those that it takes without the key ``recipe`` first."""
    return [settings_of(recipe) for recipe in recipes_of(command).values()]


def load_chosen(
    kinds: Sequence[type[SettingsT]], path: str | Path | None = None, overrides: Sequence[str] = ()
) -> SettingsT:
    """Read the settings of a run, of the kind that their key ``recipe`` chooses, the first one where it is not given.

    Raises:
        SettingsError: as for :func:`load_settings`; or there is no such recipe, or a key is one of another recipe.
    """
    values = read_config(path) if path is not None else {}
    replaced = []
    for override in overrides:
        key, value = _key_and_value(override)
        _assign(values, key, value)
        replaced.append(tuple(key))
    by_name = {kind.model_fields[RECIPE].default: kind for kind in kinds} if len(kinds) > 1 else {}
    chosen = values.get(RECIPE, next(iter(by_name), None))
    if by_name and chosen not in list(by_name):
        raise SettingsError(f"{RECIPE}={shown(chosen)} is unknown; there are {', '.join(by_name)}")
    kind = by_name.get(chosen, kinds[0])
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        wrong, mistake = first_mistake(kind, error)
        is_override = any(all(map(eq, wrong, other)) for other in replaced if wrong)
        source = COMMAND_LINE if is_override else one_line(str(path), 300) if path is not None else "the settings"
        raise SettingsError(f"{source}: {mistake}") from None


def _key_and_value(override: str) -> tuple[list[str], Any]:
    key, _, text = override.partition("=")
    try:
        if not text.strip() or not all(key.split(".")):
            raise ValueError("no key or no value")
        # A lone hyphen is standard input elsewhere, and a list of nothing in YAML.
        return key.split("."), text if text == "-" else parse_yaml(text)
    except (ValueError, yaml.YAMLError) as error:
        raise SettingsError(
            f"{COMMAND_LINE}: {one_line(override, 100)!r} is no setting; write key=value, such as training.epochs=3, "
            "with the value as YAML (null is none)"
        ) from error


def _assign(values: dict[str, Any], path: Sequence[str], value: Any) -> None:
    for name in path[:-1]:
        inner = values.get(name)
        # An anchor of the file may stand for the same values elsewhere.
        values[name] = values = dict(inner) if isinstance(inner, dict) else {}
    values[path[-1]] = value
