"""Where an index lies and which documents are meant, as callers give them."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..documents.section import clean_text
from ..errors import RetrievalError, SettingsError
from ..runtime.files import FolderLock
from ..runtime.text import described, one_line

logger = logging.getLogger(__name__)

# The folder of the table within that of an index.
TABLE_FOLDER = "documents.lance"
# Version files end with these bytes, and are named so that the newest comes first.
_VERSION_END, _LARGEST_VERSION = b"LANC", 2**64 - 1


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
        address: the place as LanceDB takes it.
        folder: its folder; None in an object store.
    """

    address: str
    folder: Path | None = None

    def __str__(self) -> str:
        return self.address


def place_of(place: str | Path) -> Place:
    """Read a place: a folder, or an address such as that of an object store.

    >>> place_of("s3://bucket/index")
    Place(address='s3://bucket/index', folder=None)
    """
    address = str(place)
    if "://" in address:
        return Place(address)
    folder = Path(address).absolute()
    return Place(str(folder), folder)


def has_table(folder: Path) -> bool:
    """Whether a folder has the table of an index, also one that is damaged or half made."""
    try:
        return (folder / TABLE_FOLDER).exists()
    except OSError:  # No folder can have the name.
        return False


def require_folder(place: Place, *, must_be_empty: bool = False) -> None:
    """Refuse a folder that cannot hold an index; object stores are checked by LanceDB.

    Args:
        place: where the index lies.
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
    if must_be_empty and is_there:
        others = [one.name for one in path.iterdir() if one.name not in (".lock", TABLE_FOLDER)]
        if others:
            raise RetrievalError(f"{text} holds other files, such as {min(others)}; give an empty folder, or another")


def is_unfinished(folder: Path) -> bool:
    """Whether a folder holds no file of a table beside those of its versions, so that no document can be there."""
    files = (path for path in (folder / TABLE_FOLDER).rglob("*") if path.is_file())
    return all(path.parent.name in ("_transactions", "_versions") for path in files)


def fall_back_from_damage(folder: Path) -> None:
    """Set the newest version files of a table aside where they are cut short, and warn where newest ones are missing.

    A power cut or half a copy leaves such files; the version before them is whole.

    Raises:
        OutputError: another process is writing there.
    """
    versions = folder / TABLE_FOLDER / "_versions"
    files = sorted(path for path in versions.glob("*.manifest") if path.stem.isdecimal() and len(path.stem) == 20)
    newest = 0
    while len(files) > 1 and not files[0].read_bytes().endswith(_VERSION_END):
        newest = newest or _version(files[0])
        with FolderLock(folder, "another change"):
            files[0].replace(files[0].with_suffix(".damaged"))
        files = files[1:]
    if not files:
        return
    with suppress(OSError, ValueError, KeyError, TypeError):
        newest = max(newest, int(json.loads((versions / "latest_version_hint.json").read_text())["version"]))
    if newest > _version(files[0]):
        logger.warning(
            "%s: version %d is damaged or missing; version %d is read, without the changes after it: copy the index "
            "again, or index the documents again",
            folder,
            newest,
            _version(files[0]),
        )


def _version(file: Path) -> int:
    return _LARGEST_VERSION - int(file.stem)
