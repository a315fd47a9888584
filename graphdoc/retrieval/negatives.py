"""Mined negatives: documents that a ranking puts high for a query and that do not answer it, as lists in a file."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from ..documents.parsing.formats import numbered_lines
from ..documents.section import clean_text
from ..errors import DocumentError, RetrievalError
from ..runtime.files import write_atomically
from ..runtime.text import counted

FORMAT, FORMAT_VERSION = "graphdoc negatives", 1
# Why a document that ranks high is no negative; the first that holds counts.
JUDGED, CLOSE, SIMILAR = "judged_positive", "score_close_to_positive", "near_duplicate_of_positive"
REASONS = {
    JUDGED: "are judged positives",
    CLOSE: "have scores too close to that of the best positive, or above it",
    SIMILAR: "are copies or near-duplicates of a positive",
}
_AGAIN = "mine the negatives again with: graphdoc mine"


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
            digest.update(line)
        return digest.hexdigest()

    def describe(self) -> list[str]:
        """What there is, and what was left out, in a few lines."""
        total = sum(map(len, self.lists.values()))
        mean, by = total / len(self.lists) if self.lists else 0.0, self.record.get("by", "unknown means")
        lines = [f"{counted(total, 'mined negative')} of {_queries(len(self))}, {mean:.1f} each, by {by}"]
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
        content = json.dumps(header).encode() + b"\n" + b"".join(self._lines())
        # Without name and time, so that the same lists are the same file.
        content = gzip.compress(content, mtime=0) if str(path).endswith(".gz") else content
        return write_atomically(path, lambda temporary: temporary.write_bytes(content))

    def _lines(self) -> Iterator[bytes]:
        for query, ids in self.lists.items():
            yield (json.dumps({"query": query, "negatives": list(ids)}) + "\n").encode()

    @classmethod
    def read(cls, path: str | Path) -> NegativeLists:
        """Read lists that :meth:`write` wrote.

        Raises:
            RetrievalError: the file is missing, damaged or of another version.
        """
        lines = _parsed(path)
        _, header = next(lines, (0, {}))
        record, version = header.get("record"), header.get("format_version")
        if header.get("format") != FORMAT or version != FORMAT_VERSION or not isinstance(record, dict):
            raise RetrievalError(
                f"{path} is no file of negatives of format version {FORMAT_VERSION}, but of {version!r}; {_AGAIN}"
            )
        excluded = record.get("excluded", {})
        if not isinstance(excluded, dict) or not all(isinstance(count, int) for count in excluded.values()):
            raise RetrievalError(f"{path}:1: excluded is not a count by reason; {_AGAIN}")
        lists: dict[str, tuple[str, ...]] = {}
        for number, line in lines:
            query, ids = line.get("query"), line.get("negatives")
            if not isinstance(query, str) or not _are_ids(ids) or query in lists or len(set(ids)) < len(ids):
                raise RetrievalError(
                    f'{path}:{number}: this is not {{"query": id, "negatives": [ids]}} with each id once; {_AGAIN}'
                )
            lists[query] = tuple(ids)
        if len(lists) != header.get("queries"):
            raise RetrievalError(
                f"{path} is damaged: it has {_queries(len(lists))} and was written with {header.get('queries')!r}; "
                f"{_AGAIN}"
            )
        return cls(record, lists)


def _parsed(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Lines with their numbers."""
    try:
        for number, text in numbered_lines(path):
            try:
                value = json.loads(text)
            except ValueError:
                value = None
            if not isinstance(value, dict):
                raise RetrievalError(f"{path}:{number}: the line is not a JSON object; {_AGAIN}")
            yield number, value
    except DocumentError as error:
        raise RetrievalError(str(error)) from error.__cause__


def _are_ids(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(id, str) and clean_text(id).strip() for id in value)


def _queries(count: int) -> str:
    return f"{count:,} {'query' if count == 1 else 'queries'}"
