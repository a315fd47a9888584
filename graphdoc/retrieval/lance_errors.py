"""Errors of LanceDB, said in one line with the way out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from ..errors import GraphdocError, RetrievalError, SettingsError
from ..runtime.text import one_line

Found = TypeVar("Found")

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


def said(place: str, work: Callable[[], Found]) -> Found:
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
