"""The folder of an index: whether it has the table, and what is read where its newest version is damaged."""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from pathlib import Path

from ..errors import RetrievalError
from ..runtime.files import FolderLock

logger = logging.getLogger(__name__)

# The folder of the table within that of an index.
TABLE_FOLDER = "documents.lance"
# Version files end with these bytes, and are named so that the newest comes first.
_VERSION_END, _LARGEST_VERSION = b"LANC", 2**64 - 1


def folder_of(place: str | Path) -> Path | None:
    """The folder that an index lies in; None for the address of an object store.

    >>> folder_of("s3://bucket/index") is None, folder_of("papers.index").name
    (True, 'papers.index')
    """
    return None if "://" in str(place) else Path(place).absolute()


def has_table(folder: Path) -> bool:
    """Whether a folder has the table of an index, also one that is damaged or half made."""
    try:
        return (folder / TABLE_FOLDER).exists()
    except OSError:  # No folder can have the name.
        return False


def fall_back_from_damage(folder: Path) -> None:
    """Set the newest version file of a table aside where it is cut short, as by a power cut or half a copy.

    A warning says that the version before it is read, as also where the newest file is missing; where more than one is
    missing or damaged, the index is refused.

    Raises:
        RetrievalError: more than one version is missing or damaged.
    """

    def version(file: Path) -> int:
        return _LARGEST_VERSION - int(file.stem)

    def is_whole(file: Path) -> bool:
        try:
            return file.read_bytes().endswith(_VERSION_END)
        except FileNotFoundError:  # Maintenance has removed it meanwhile.
            return True

    versions, newest = folder / TABLE_FOLDER / "_versions", 0
    # Before the files are listed, so that a version that is written meanwhile is not missed.
    with suppress(OSError, ValueError, KeyError, TypeError):
        newest = int(json.loads((versions / "latest_version_hint.json").read_text())["version"])
    files = sorted(path for path in versions.glob("*.manifest") if path.stem.isdecimal() and len(path.stem) == 20)[:2]
    whole = [file for file in files if is_whole(file)]
    newest = max([newest, *map(version, files[:1])])
    if not whole or newest == version(whole[0]):
        return
    if newest - version(whole[0]) > 1:
        raise RetrievalError(
            f"{folder} is damaged: versions {version(whole[0]) + 1} to {newest} are missing; copy the index again, "
            "or remove it and index the documents again"
        )
    if files[0] != whole[0]:
        with FolderLock(folder, "another change"):
            files[0].replace(files[0].with_suffix(".damaged"))
    logger.warning(
        "%s: version %d is damaged or missing; version %d is read, without the change after it: copy the index again, "
        "or index the documents again",
        folder,
        newest,
        version(whole[0]),
    )
