"""Where an index lies and which documents are meant, as callers give them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..documents.section import clean_text
from ..errors import RetrievalError, SettingsError
from ..registry import ENGINES, load
from ..runtime.plain_text import described, one_line

DEFAULT_ENGINE = "lancedb"


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


@dataclass(frozen=True, slots=True)
class Place:
    """Where an index lies.

    Args:
        engine: the store that keeps it, a name of :data:`~graphdoc.registry.ENGINES`.
        address: the place as the store takes it.
        folder: its folder; None where it is not in one.
    """

    engine: str
    address: str
    folder: Path | None = None

    def __str__(self) -> str:
        return self.address if self.engine == DEFAULT_ENGINE else f"{self.engine}:{self.address}"


def place_of(place: str | Path) -> Place:
    """Read a place: a folder or an address, with the name of a store before it where that is not LanceDB.

    >>> place_of("s3://bucket/index"), place_of("qdrant://localhost:6333/papers")
    (Place(engine='lancedb', address='s3://bucket/index', folder=None), \
Place(engine='qdrant', address='//localhost:6333/papers', folder=None))
    """
    text = str(place)
    name, _, rest = text.partition(":")
    engine = name if name in ENGINES and rest else DEFAULT_ENGINE
    address = rest if engine == name else text
    if "://" in address or address.startswith("//"):
        return Place(engine, address)
    folder = Path(address).absolute()
    return Place(engine, str(folder), folder)


def store_in(folder: Path) -> str | None:
    """The store that has an index in a folder, also one that is damaged or half made; None where none has."""
    try:
        found = (name for name, engine in ENGINES.items() if (folder / f"documents{load(engine).SUFFIX}").exists())
        return next(found, None)
    except OSError:  # No folder can have the name.
        return None


def require_folder(place: Place, suffix: str, *, must_be_empty: bool = False) -> None:
    """Refuse a folder that cannot hold an index; other places are checked by their store.

    Args:
        place: where the index lies.
        suffix: of what the store itself puts into the folder.
        must_be_empty: refuse a folder that holds anything else; otherwise one that does not exist.

    Raises:
        RetrievalError: it is a file, or a folder with something else in it where it must be empty.
    """
    if place.folder is None:
        return
    path, text = place.folder, str(place)
    try:
        is_there = path.exists()
        os.fsencode(path)
    except (OSError, ValueError) as error:
        raise RetrievalError(f"{one_line(text, 80)!r} is no name of a folder ({error}); give another") from error
    if is_there and not path.is_dir():
        raise RetrievalError(f"{text} is a file; give the folder of an index")
    if not must_be_empty and not is_there:
        raise RetrievalError(f"{text} does not exist; make an index with: graphdoc index CORPUS --output {text}")
    if not must_be_empty and (other := store_in(path)) not in (None, place.engine):
        name = str(path) if other == DEFAULT_ENGINE else f"{other}:{path}"
        raise RetrievalError(f"{text} is an index in another store; give it as {name}")
    if must_be_empty and is_there:
        others = [one.name for one in path.iterdir() if one.name != ".lock" and one.suffix != suffix]
        if others:
            raise RetrievalError(f"{text} holds other files, such as {min(others)}; give an empty folder, or another")
