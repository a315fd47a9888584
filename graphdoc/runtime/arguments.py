"""Checks of what callers give; an error names the argument, its value and the fix."""

from __future__ import annotations

import os
from collections.abc import Sequence
from numbers import Integral

from ..errors import SettingsError
from .plain_text import described


def require_one_of(name: str, value: object, choices: Sequence[str]) -> None:
    """Refuse a value that is not among the choices.

    Raises:
        SettingsError: it is not.
    """
    if not isinstance(value, str) or value not in choices:
        given = repr(value) if isinstance(value, str) else described(value)
        raise SettingsError(f"{name} {given} is unknown; use one of {', '.join(choices)}")


def require_whole(name: str, value: object, *, least: int = 1, may_be_none: bool = True) -> None:
    """Refuse what is no whole number of at least ``least``.

    Raises:
        SettingsError: it is not.
    """
    if value is None and may_be_none:
        return
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        given = value if type(value) is int else described(value)
        raise SettingsError(f"{name}={given} must be a whole number of at least {least}")


def require_seed(seed: object) -> None:
    """Refuse what is no seed of NumPy and of scikit-learn.

    Raises:
        SettingsError: it is no whole number from 0 to 2**32 - 1.
    """
    require_whole("seed", seed, least=0, may_be_none=False)
    if int(seed) >= 2**32:  # type: ignore[call-overload]
        raise SettingsError(f"seed={described(seed)} must be less than 2**32")


def require_path(name: str, value: object) -> None:
    """Refuse what names no file or folder.

    Raises:
        SettingsError: it does not.
    """
    if not isinstance(value, str | os.PathLike) or not str(value):
        given = repr(value) if isinstance(value, str) else described(value)
        raise SettingsError(f"{name} {given} is no name of a file or folder; give a string or a Path")
