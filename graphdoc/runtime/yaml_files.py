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
# Values and characters of a file once all its aliases are written out.
MOST_VALUES, MOST_CHARACTERS = 20_000, 2**22


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Read a file of keys and values.

    Args:
        path: the file; pipes and devices are refused, since they may never end.

    Raises:
        SettingsError: it cannot be read, is no YAML, is too large or holds something else.
    """
    try:
        text = _text(Path(path))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SettingsError(f"{one_line(str(path), 300)} cannot be read: {reason}; check the path") from error
    try:
        values = parse_yaml(text.decode("utf-8"))
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise SettingsError(f"{path} is no valid YAML: {_reason(error)}; mend the file") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise SettingsError(f"{path} holds a {type(values).__name__}; it should hold keys and values")
    return values


def parse_yaml(text: str, *, as_written: bool = False) -> Any:
    """Parse YAML of limited size.

    Args:
        text: the YAML.
        as_written: keep every scalar as the string that was written: no dates, no ``no`` that turns into False.

    Raises:
        YAMLError: it is no YAML, or too much of it; impossible dates, numbers and depths are errors of this kind too.
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


def _text(path: Path) -> bytes:
    # A pipe that nobody writes to would hold up even its opening.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise ValueError("it is no file but a pipe or device; save its content as a file")
        text = stream.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES:,} bytes, too many for settings")
    return text


class _StringLoader(yaml.BaseLoader):
    """Reads scalars as strings, and refuses text whose aliases unfold without end."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        # Values and characters so far, and those of every node that an alias may stand for.
        self._size = (0, 0)
        self._sizes: dict[int, tuple[int, int]] = {}

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose a node, and count all that it holds once aliases are written out."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        before = self._size
        node = super().compose_node(parent, index)
        if isinstance(event, yaml.AliasEvent):
            added = self._sizes.get(id(node))
            if added is None:
                raise yaml.composer.ComposerError(None, None, "a value contains itself", event.start_mark)  # type: ignore[arg-type]
        else:
            added = (1, len(node.value)) if isinstance(node, yaml.ScalarNode) else (1, 0)
        self._size = (self._size[0] + added[0], self._size[1] + added[1])
        self._sizes[id(node)] = (self._size[0] - before[0], self._size[1] - before[1])
        if self._size[0] > MOST_VALUES or self._size[1] > MOST_CHARACTERS:
            problem = f"it holds more than {MOST_VALUES:,} values or {MOST_CHARACTERS:,} characters"
            raise yaml.composer.ComposerError(None, None, problem, event.start_mark)
        return node


class _Loader(_StringLoader, yaml.SafeLoader):
    """Reads plain values, numbers such as 1e-3 among them, and refuses a key that is given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Refuse a key that is given twice, of which one value would be lost."""
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                continue
            if key_node.value in seen:
                mark = key_node.start_mark
                raise yaml.constructor.ConstructorError(None, None, f"{key_node.value} is given twice", mark)
            seen.add(key_node.value)
        return dict(super().construct_mapping(node, deep))


# YAML 1.1 takes 1e-3 for a text, since it has no dot.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("-+0123456789")
)
