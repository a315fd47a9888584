"""Reading YAML that anyone may have written: plain values only, of a size that fits a configuration file."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Any

import yaml

from ..errors import SettingsError
from ..runtime.text import one_line

MOST_BYTES = 2**20
# Aliases of a file: few enough that what it holds cannot unfold without end.
MOST_ALIASES = 10


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Read a file of keys and values; pipes and devices are refused, since they may never end."""
    try:
        # A pipe that nobody writes to would hold up even its opening.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise ValueError("it is no file but a pipe or device; save its content as a file")
            text = stream.read(MOST_BYTES + 1)
        if len(text) > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES:,} bytes, too many for settings")
        values = parse_yaml(text.decode("utf-8"))
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise SettingsError(f"{path} is no valid YAML: {_reason(error)}; mend the file") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SettingsError(f"{one_line(str(path), 300)} cannot be read: {reason}; check the path") from error
    if not isinstance(values, dict | None):
        raise SettingsError(f"{path} holds a {type(values).__name__}; it should hold keys and values")
    return values or {}


def parse_yaml(text: str, *, as_written: bool = False) -> Any:
    """Parse YAML; ``as_written`` keeps every scalar as a string: no dates, no ``no`` that turns into False.

    What is impossible (dates, numbers, depths), or too much, is a YAMLError too.
    """
    try:
        return yaml.load(text, _StringLoader if as_written else _Loader)
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise yaml.YAMLError(f"{type(error).__name__}: {one_line(str(error))}") from error


def _reason(error: Exception) -> str:
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem is None:
        return one_line(str(error), 300)
    mark = error.problem_mark or error.context_mark
    return one_line(error.problem, 300) + (f" (line {mark.line + 1}, column {mark.column + 1})" if mark else "")


class _StringLoader(yaml.BaseLoader):
    """Reads scalars as strings, and refuses text whose aliases unfold without end."""

    aliases = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose a node, which must not hold itself."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        node = super().compose_node(parent, index)
        if isinstance(event, yaml.AliasEvent):
            self.aliases += 1
            # A node has an end when all that it holds is composed.
            if self.aliases > MOST_ALIASES or (node is not None and node.end_mark is None):
                problem = f"it has more than {MOST_ALIASES} aliases, or a value contains itself"
                raise yaml.composer.ComposerError(None, None, problem, event.start_mark)  # type: ignore[arg-type]
        return node


class _Loader(_StringLoader, yaml.SafeLoader):
    """Reads plain values, numbers such as 1e-3 among them, and refuses a key that is given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Refuse a key that is given twice, of which one value would be lost."""
        keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for number, key in enumerate(keys):
            if any(key.value == earlier.value for earlier in keys[:number]):
                raise yaml.constructor.ConstructorError(None, None, f"{key.value} is given twice", key.start_mark)
        return dict(super().construct_mapping(node, deep))


# YAML 1.1 takes 1e-3 for a text, since it has no dot.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("-+0123456789")
)
