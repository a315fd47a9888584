"""Reaching LanceDB: where an index lies, calls from plain code, and errors in one line."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from ..documents.section import clean_text
from ..errors import GraphdocError, RetrievalError, SettingsError
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


def require_folder(place: str | Path, *, must_be_empty: bool = False) -> None:
    """Refuse a folder that cannot hold an index; object stores are checked by LanceDB.

    Args:
        place: where the index lies.
        must_be_empty: refuse a folder that holds anything else; otherwise one that does not exist.

    Raises:
        RetrievalError: it is a file, or a folder with something else in it where it must be empty.
    """
    path = folder_of(place)
    if path is None:
        return
    text = str(path)
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
    """Set the newest version file of a table aside where it is cut short, as by a power cut or half a copy.

    A warning says that the version before it is read, as also where the newest file is missing.

    Raises:
        RetrievalError: more than the newest version is missing or damaged.
        OutputError: another process is writing there.
    """
    versions, newest = folder / TABLE_FOLDER / "_versions", 0
    # Before the files are listed, so that a version that is written meanwhile is not missed.
    with suppress(OSError, ValueError, KeyError, TypeError):
        newest = int(json.loads((versions / "latest_version_hint.json").read_text())["version"])
    files = sorted(path for path in versions.glob("*.manifest") if path.stem.isdecimal() and len(path.stem) == 20)[:2]
    if not files:
        return
    newest = max(newest, _version(files[0]))
    whole = [file for file in files if _is_whole(file)]
    if not whole or newest == _version(whole[0]):
        return
    if newest - _version(whole[0]) > 1:
        raise RetrievalError(
            f"{folder} is damaged: versions {_version(whole[0]) + 1} to {newest} are missing; copy the index again, "
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
        _version(whole[0]),
    )


def _is_whole(file: Path) -> bool:
    try:
        return file.read_bytes().endswith(_VERSION_END)
    except FileNotFoundError:  # Maintenance has removed it meanwhile.
        return True


def _version(file: Path) -> int:
    return _LARGEST_VERSION - int(file.stem)


Found = TypeVar("Found")


def wait_for(work: Coroutine[Any, Any, Found]) -> Found:
    """What asynchronous work gives.

    It runs in a loop of its own, so that code that is itself called from a loop (a notebook, a server) can wait here.
    """
    future = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


async def next_of(items: AsyncIterator[Found]) -> Found | None:
    """The next item, None where there is no more."""
    return await anext(items, None)


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="graphdoc-lance", daemon=True).start()
    return loop


# The thread of the loop is not there in a process that was forked, which not every system can do.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_loop.cache_clear)


# Where in LanceDB's own source an error arose.
_SOURCE = re.compile(r",?\s*(?:/\S+)?/(?:registry/src|rustc)/\S+|(?<=\s)/rustc/\S+")
# What a message holds, in small letters, and what to do then; the first that fits.
_WAYS_OUT: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("no space left", "file too large", "quota", "os error 28", "os error 27"),
        "the disk is full or a file may not grow; free some space and run the same again, nothing is lost",
    ),
    (
        ("forbidden", "status: 403", "accessdenied", "unauthorized", "status: 401", "invalidaccesskey"),
        "the store refuses access; check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the rights of this user",
    ),
    (
        ("nosuchbucket", "status: 404", "bucket does not exist"),
        "there is no such bucket; make it or correct the address",
    ),
    (
        ("error sending request", "connection refused", "timed out", "timeout", "connect error", "error trying to"),
        "the store does not answer; check AWS_ENDPOINT, AWS_REGION and the network",
    ),
    (("permission denied", "read-only file system"), "it may not be written; change its rights, or choose another"),
    (
        ("commit conflict", "too many concurrent writers", "concurrent commit", "retryable"),
        "another writer changed it at the same time; run the same again",
    ),
    (("no object store provider",), "give a folder, or an address such as s3://bucket/index"),
    (
        (
            *("not found", "failed to fill whole buffer", "invalid range", "too small", "invalid magic", "corrupt"),
            "panicked",
        ),
        "the index is damaged; take it from a copy, or remove it and index the documents again",
    ),
)


def translate_errors(place: str, work: Callable[[], Found]) -> Found:
    """What some work gives; errors of the store become one line.

    Args:
        place: where the store is.
        work: what is done there.

    Raises:
        SettingsError: a text holds half of a surrogate pair.
        RetrievalError: the store cannot be used.
    """
    try:
        return work()
    except GraphdocError:
        raise
    except Exception as error:
        # A panic of the library has a class of its own, which no module of it exports.
        if isinstance(error, RuntimeError | OSError | ValueError) or type(error).__name__ == "RustPanic":
            raise error_of(place, error) from error
        raise


def error_of(place: str, error: Exception) -> GraphdocError:
    """The error of this package that says what an error of LanceDB means."""
    text = one_line(_SOURCE.sub("", str(error)))
    if isinstance(error, UnicodeEncodeError):
        return SettingsError(f"{one_line(repr(error.object), 60)} holds half of a surrogate pair; leave it out")
    low = text.lower()
    way_out = next((way for signs, way in _WAYS_OUT if any(sign in low for sign in signs)), None)
    retried = re.search(r"RetryError.*?(status: \d+|source: .*)", text)
    shown = f"the store fails ({one_line(retried[1], 120)})" if retried else text[:300]
    return RetrievalError(f"{place} cannot be used: {shown}" + (f"; {way_out}" if way_out else ""))
