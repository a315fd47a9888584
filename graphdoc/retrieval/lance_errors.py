"""Errors of LanceDB, said in one line with the way out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from ..errors import GraphdocError, RetrievalError, SettingsError
from ..runtime.text import one_line
from .filter_types import columns_in, misfit_in
from .rows import columns_there

Found = TypeVar("Found")

# Where in LanceDB's own source an error arose.
_SOURCE = re.compile(r",?\s*(?:/\S+)?/(?:registry/src|rustc)/\S+|(?<=\s)/rustc/\S+")
# What only a filter brings about.
_OF_FILTER = re.compile(
    "Error resolving filter|filter expression|sql filter|not supported SQL|logical expression|Error during planning"
)
# What LanceDB puts before the reason why a filter does not fit: who called whom, and the filter again.
_BEFORE_REASON = re.compile(
    r".*(?:Error during planning|Arrow error|Execution error|Invalid user input|Invalid input,)[: ]+(?=.)"
)
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


def said(place: str, work: Callable[[], Found], where: str | None = None, schema: Any = None) -> Found:
    """What some work gives; errors of the store become one line.

    Args:
        place: where the store is.
        work: what is done there.
        where: the filter that it is done with.
        schema: the columns that the filter is about (an Arrow schema).

    Raises:
        SettingsError: a filter does not fit.
        RetrievalError: the store cannot be used.
    """
    try:
        return work()
    except GraphdocError:
        raise
    except Exception as error:
        # A panic of the library has a class of its own, which no module of it exports.
        if isinstance(error, RuntimeError | OSError | ValueError) or type(error).__name__ == "RustPanic":
            raise error_of(place, error, where, schema) from error
        raise


def error_of(place: str, error: Exception, where: str | None = None, schema: Any = None) -> GraphdocError:
    """The error of this package that says what an error of LanceDB means."""
    text = one_line(_SOURCE.sub("", str(error)))
    if isinstance(error, UnicodeEncodeError):
        return SettingsError(f"{one_line(repr(error.object), 60)} holds half of a surrogate pair; leave it out")
    column = re.search(r"No field named \"?([^\s\".]+)", text) or re.search(r"Column (\S+) does not exist", text)
    if column:
        valid = re.search(r"Valid fields are ([^.]*)", text)
        names = [name.strip("`") for name in (valid[1].split(", ") if valid else []) if not name.startswith("_")]
        there = f"; {columns_there(names)}" if names else "; look at DocumentIndex.columns"
        # A word that a column is compared with was meant as a text.
        is_text = re.search(rf"(?:=|<|>|\blike)\s*[\"`]?{re.escape(column[1])}", where or "", re.IGNORECASE)
        hint = f"; a text stands in single quotes: '{one_line(column[1], 60)}'" if is_text else ""
        return SettingsError(f"the filter names {one_line(column[1], 60)!r}, which is no column{hint}{there}")
    if "sql parser error" in text or "invalid SQL predicate" in text:
        reason = re.search(r"sql parser error: ([^)]*)", text)
        return SettingsError(
            f"the filter cannot be read: {(reason[1] if reason else text)[:200]}; write it like: year >= 2010"
        )
    if "does not return a boolean" in text:
        return SettingsError(
            f"the filter is no condition: {text.removeprefix('Invalid input, ')[:200]}; compare with something, like: "
            "year >= 2010"
        )
    if _OF_FILTER.search(text):
        return _misfit(text, where, schema)
    low = text.lower()
    way_out = next((way for signs, way in _WAYS_OUT if any(sign in low for sign in signs)), None)
    retried = re.search(r"RetryError.*?(status: \d+|source: .*)", text)
    shown = f"the store fails ({one_line(retried[1], 120)})" if retried else text[:300]
    return RetrievalError(f"{place} cannot be used: {shown}" + (f"; {way_out}" if way_out else ""))


def _misfit(text: str, where: str | None, schema: Any) -> GraphdocError:
    """The error of a filter that does not fit its columns."""
    found = misfit_in(where, schema) if where and schema is not None else None
    if found is not None:
        return found
    reason = _BEFORE_REASON.sub("", text).split(". No function matches")[0][:200].rstrip(". ")
    held = columns_in(where, schema) if where and schema is not None else ""
    held = f"{held}; " if held else ""
    return SettingsError(f"the filter does not fit its columns: {reason}; {held}compare each with its own type")
