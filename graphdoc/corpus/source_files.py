"""By what the files of a corpus are known again: their content.

Size and time of a file do not say enough: archives, ``rsync -t`` and ``touch`` set a file's time to any value. A file
is therefore known by a hash of all its bytes. So that a run over 40 GB does not begin by reading them, the hashes are
kept in the cache, and one is taken from there only if

- size, mtime, ctime and inode of the file are those with which it was hashed (programs cannot set ctime),
- it had rested for two seconds by then, so that no later change can have the same times, and
- blocks spread over the file, 256 KB together, read each time, have their hash too.

What escapes this has changed bytes between the blocks of a large file without the file system noticing, as a failing
disk does. Hashing takes about a second for a gigabyte, once.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..documents.readers.folders import FoundFile, find_files, is_pattern
from ..errors import DocumentError, OutputError
from ..runtime.files import file_checksum, file_stamp, write_text
from ..runtime.progress import progress_bar

_BLOCKS, _BLOCK_BYTES = 16, 2**14
_RESTED_NS = 2 * 10**9


def file_identities(paths: Iterable[Path], records: Path) -> list[list[Any]]:
    """Path, size and hash of files, in their order; a file that is not there has neither.

    Args:
        paths: the files.
        records: folder that keeps what was hashed.
    """
    found = [path.absolute() for path in paths]
    names = hashlib.blake2b("\0".join(map(str, found)).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    record = records / f"{names}.json"
    known, now = _read(record), {}
    identities = []
    with progress_bar(None, len(found), "Checking", "files") as bar:
        for path in found:
            name = str(path)
            try:
                # Opening a named pipe would wait for a writer.
                if not path.is_file():
                    raise FileNotFoundError
                entry = now[name] = _entry(path, known.get(name))
            except (OSError, OutputError):
                # Reading says what is wrong.
                identities.append([name, None, None])
            else:
                identities.append([name, entry["stamp"][0], entry["checksum"]])
            bar.update(1)
    if now != known:
        # Without a record the files are hashed again.
        with suppress(OutputError):
            write_text(record, json.dumps(now))
    return identities


def _entry(path: Path, known: Any) -> dict[str, Any]:
    stamp, sample = list(file_stamp(path)), _sample(path)
    if (
        isinstance(known, dict)
        and known.get("rested")
        and (known.get("stamp"), known.get("sample")) == (stamp, sample)
    ):
        return known
    rested = time.time_ns() - max(stamp[1:3]) > _RESTED_NS
    checksum = file_checksum(path)
    return {
        "stamp": stamp,
        "sample": sample,
        "checksum": checksum,
        "rested": rested and list(file_stamp(path)) == stamp,
    }


def _sample(path: Path) -> str:
    """Hash of blocks spread evenly over a file, the first and the last among them."""
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as stream:
        last = max(0, path.stat().st_size - _BLOCK_BYTES)
        for place in sorted({last * block // (_BLOCKS - 1) for block in range(_BLOCKS)}):
            stream.seek(place)
            digest.update(stream.read(_BLOCK_BYTES))
    return digest.hexdigest()


def _read(record: Path) -> Mapping[str, Any]:
    try:
        known = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def source_files(sources: Iterable[str]) -> Iterator[Path]:
    """The files that paths, folders and patterns mean, in the order in which they are read."""
    for source in sources:
        path = Path(source)
        if path.is_dir() or (not path.exists() and is_pattern(source)):
            try:
                yield from [found.path for found in find_files(source) if isinstance(found, FoundFile)]
            except DocumentError:
                # Reading says what is wrong.
                continue
        elif path.exists():
            yield path
        else:
            # One document of a corpus is named by the file and its id.
            places = (position for position, character in enumerate(source) if character == "#")
            yield from [Path(source[:place]) for place in places if Path(source[:place]).is_file()][:1]
