"""What else came with a document: a dictionary that nothing changes, so that documents can be hashed and shared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

# Characters of page furniture (navigation, headers, popups) that a reader left out, white space not counted.
FURNITURE_CHARACTERS = "furniture_characters"


class Metadata(dict[str, Any]):
    """A dictionary that cannot be changed; lists inside it are tuples, sets frozen, dictionaries of this kind.

    Args:
        values: a mapping, or pairs of keys and values.
    """

    def __init__(self, values: Any = ()) -> None:
        super().__init__((key, _frozen(value)) for key, value in dict(values).items())

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset((key, _hash(value)) for key, value in self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return Metadata, (dict(self),)

    def plain(self) -> dict[str, Any]:
        """The same with plain dictionaries and lists, as JSON has them."""
        return {key: _thawed(value) for key, value in self.items()}

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("the metadata of a document cannot change; make another document with dataclasses.replace")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse


def _frozen(value: Any) -> Any:
    if isinstance(value, Metadata | str | int | float | None):
        return value
    if isinstance(value, Mapping):
        return Metadata(value)
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return tuple(_frozen(entry) for entry in value)
    return frozenset(value) if isinstance(value, set) else value


def _thawed(value: Any) -> Any:
    if isinstance(value, Metadata):
        return value.plain()
    return [_thawed(entry) for entry in value] if isinstance(value, tuple) else value


def _hash(value: Any) -> int:
    try:
        return hash(tuple(map(_hash, value)) if isinstance(value, tuple) else value)
    except TypeError:
        # Values of unknown types that are equal share at least their type.
        return hash(type(value))
