"""Mined negatives: documents that a ranking puts high for a query and that do not answer it, as lists in a file."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from ..documents.parsing.formats import numbered_lines
from ..documents.section import clean_text
from ..errors import DocumentError, RetrievalError
from ..runtime.files import write_atomically
from ..runtime.text import counted, one_line

FORMAT, FORMAT_VERSION = "graphdoc negatives", 1
# Why a document that ranks high is no negative; the first that holds counts.
JUDGED, CLOSE, SIMILAR = "judged_positive", "score_close_to_positive", "near_duplicate_of_positive"
REASONS = {
    JUDGED: "are judged positives",
    CLOSE: "have scores too close to that of the best positive, or above it",
    SIMILAR: "are copies or near-duplicates of a positive",
}
_HEADER = "the first line of a file of negatives says its format; make it anew with: graphdoc mine"
_LINE = 'a line is expected as {"query": id, "negatives": [ids]}'


@dataclass(frozen=True)
class NegativeLists:
    """Negatives of queries, and where they come from.

    Args:
        record: what they were mined with as plain values: ``by``, ``depth``, ``margin``, ``mask_similar``, the model
            with the hash of its weights, and ``excluded``, the number of candidates by the reason that they are none.
        lists: ids of documents by query id, best first; a query that has none left has an empty list.

    >>> NegativeLists({"by": "words"}, {"q1": ("tide", "wave"), "q2": ()}).without
    ('q2',)
    """

    record: Mapping[str, Any]
    lists: Mapping[str, tuple[str, ...]]

    def __len__(self) -> int:
        """Number of queries."""
        return len(self.lists)

    @property
    def excluded(self) -> dict[str, int]:
        """Candidates that are no negatives, by reason (see ``REASONS``)."""
        return dict(self.record.get("excluded", {}))

    @property
    def without(self) -> tuple[str, ...]:
        """Queries for which no negative is left."""
        return tuple(query for query, ids in self.lists.items() if not ids)

    @property
    def content(self) -> str:
        """Hash of the lists, by which they are known again."""
        digest = hashlib.blake2b(digest_size=16)
        for line in self._lines():
            digest.update(line.encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def describe(self) -> list[str]:
        """What there is, and what was left out, in a few lines."""
        total = sum(map(len, self.lists.values()))
        mean = total / len(self.lists) if self.lists else 0.0
        lines = [
            f"{counted(total, 'mined negative')} of {_queries(len(self))}, {mean:.1f} each, by "
            f"{self.record.get('by', 'an unknown way')}"
        ]
        lines += [
            f"no negatives: {self.excluded[reason]:,} candidates that {words}"
            for reason, words in REASONS.items()
            if self.excluded.get(reason)
        ]
        if self.without:
            lines.append(f"{_queries(len(self.without))} {'has' if len(self.without) == 1 else 'have'} none left")
        return lines

    def write(self, path: str | Path) -> Path:
        """Write the lists with their record as JSON Lines, atomically; a name that ends in ``.gz`` is compressed.

        Raises:
            OutputError: the file cannot be written.
        """
        header = {"format": FORMAT, "format_version": FORMAT_VERSION, "queries": len(self), "record": self.record}

        def write(temporary: Path) -> None:
            with temporary.open("wb") as raw:
                # Without name and time, so that the same lists are the same file.
                is_packed = str(path).endswith(".gz")
                file: Any = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if is_packed else raw
                file.write(json.dumps(header).encode() + b"\n")
                for line in self._lines():
                    file.write(line.encode())
                if is_packed:
                    file.close()

        return write_atomically(path, write)

    def _lines(self) -> Iterator[str]:
        for query, ids in self.lists.items():
            yield json.dumps({"query": query, "negatives": list(ids)}) + "\n"

    @classmethod
    def read(
        cls, path: str | Path, *, documents: Collection[str] | None = None, queries: Collection[str] | None = None
    ) -> NegativeLists:
        """Read lists that :meth:`write` wrote.

        Args:
            path: the file.
            documents: ids that there are; None checks none.
            queries: ids of the queries that there are; None checks none.

        Raises:
            RetrievalError: the file is missing, damaged or of a newer version, or names what is not there.
        """
        lines = _parsed(path)
        header = next(lines, None)
        if header is None or header[1].get("format") != FORMAT or not isinstance(header[1].get("record"), dict):
            raise RetrievalError(f"{path} is no file of negatives: {_HEADER}")
        excluded = header[1]["record"].get("excluded", {})
        if not isinstance(excluded, dict) or not all(isinstance(count, int) for count in excluded.values()):
            raise RetrievalError(
                f"{path}:1: excluded is {one_line(json.dumps(excluded), 60)}, not counts by reason; mine the "
                "negatives anew"
            )
        version = header[1].get("format_version")
        if version != FORMAT_VERSION:
            raise RetrievalError(
                f"{path} has the format version {version!r}, this graphdoc reads {FORMAT_VERSION}; mine the negatives "
                "anew, or install the version that wrote it"
            )
        lists: dict[str, tuple[str, ...]] = {}
        for number, line in lines:
            query, ids = line.get("query"), line.get("negatives")
            if not isinstance(query, str) or not _are_ids(ids):
                raise RetrievalError(f"{path}:{number}: {_LINE}; mend the line")
            if query in lists or len(set(ids)) < len(ids):
                what = f"query {query!r} occurs" if query in lists else f"a negative of query {query!r} occurs"
                raise RetrievalError(f"{path}:{number}: {what} twice; keep one of the two")
            lists[query] = tuple(ids)
        if len(lists) != header[1].get("queries"):
            raise RetrievalError(
                f"{path} is damaged: it has {_queries(len(lists))}, and was written with "
                f"{header[1].get('queries')!r}; mine the negatives anew"
            )
        _require_known(path, "query", lists, queries)
        if documents is not None:
            there = documents if isinstance(documents, set | frozenset | dict) else frozenset(documents)
            _require_known(path, "document", (id for ids in lists.values() for id in ids), there)
        return cls(header[1]["record"], lists)


def _parsed(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Lines with their numbers."""
    try:
        for number, text in numbered_lines(path):
            try:
                value = json.loads(text)
            except ValueError:
                value = None
            if not isinstance(value, dict):
                raise RetrievalError(
                    f"{path}:{number}: the line is no JSON object; {_LINE if number > 1 else _HEADER}"
                )
            yield number, value
    except DocumentError as error:
        raise RetrievalError(str(error)) from error.__cause__


def _are_ids(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(id, str) and clean_text(id).strip() for id in value)


def _require_known(path: str | Path, kind: str, ids: Iterable[str], known: Collection[str] | None) -> None:
    if known is None:
        return
    unknown = dict.fromkeys(id for id in ids if id not in known)
    if unknown:
        count = _queries(len(unknown)) if kind == "query" else counted(len(unknown), kind)
        raise RetrievalError(
            f"{path}: {count} of these negatives {'is' if len(unknown) == 1 else 'are'} not there, such as "
            f"{next(iter(unknown))!r}; mine the negatives anew with these queries and documents"
        )


def _queries(count: int) -> str:
    return f"{count:,} {'query' if count == 1 else 'queries'}"
