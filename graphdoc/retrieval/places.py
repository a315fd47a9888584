"""Where an index lies and which documents are meant, as callers give them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ..documents.section import clean_text
from ..errors import RetrievalError, SettingsError
from ..runtime.plain_text import described, one_line


def ids_of(value: object) -> list[str]:
    """Ids as documents have them.

    Raises:
        SettingsError: there is something else among them.
    """
    given: list[object] = [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)
    ids = []
    for one in given:
        if not isinstance(one, str):
            raise SettingsError(f"the id {described(one)} is no text; give ids as strings")
        ids.append(clean_text(one).strip())
    return ids


def address_of(place: str | Path, *, must_be_empty: bool = False) -> str:
    """The place as a store takes it.

    Raises:
        RetrievalError: it is a file, or a folder with something else in it where it must be empty.
    """
    text = str(place)
    if "://" in text:
        return text
    path = Path(text)
    try:
        is_there = path.exists()
        os.fsencode(path)
    except (OSError, ValueError) as error:
        raise RetrievalError(f"{one_line(text, 80)!r} is no name of a folder ({error}); give another") from error
    if is_there and not path.is_dir():
        raise RetrievalError(f"{text} is a file; give the folder of an index")
    if not must_be_empty and not is_there:
        raise RetrievalError(f"{text} does not exist; make an index with: graphdoc index CORPUS --output {text}")
    if must_be_empty and path.is_dir():
        others = [one.name for one in path.iterdir() if one.name != ".lock" and one.suffix != ".lance"]
        if others:
            raise RetrievalError(f"{text} holds other files, such as {min(others)}; give an empty folder, or another")
    return str(path.absolute())
