"""Train and test documents of evaluations on labels: how they are named and read."""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import EvaluationError
from .sources import encodable, read_many

if TYPE_CHECKING:
    from ..documents.document import Document
    from ..documents.readers import ReadingReport
    from ..encoder import DocumentEncoder

SPLIT_COLUMN = "split"
TEST_SPLIT = "test"


@dataclass(frozen=True)
class Parts:
    """The documents that were read: train, test, and those of other parts."""

    train: list[Document]
    test: list[Document]
    others: list[Document]

    @property
    def shared_ids(self) -> int:
        """Number of ids that occur in train and in test."""
        return len({document.id for document in self.train} & {document.id for document in self.test})

    def encodable(self, encoder: DocumentEncoder, report: ReadingReport) -> Parts:
        """The documents that give passages; others are listed in the report."""
        return Parts(*(list(encodable(part, encoder, report)) for part in (self.train, self.test, self.others)))


def add_part_arguments(parser: argparse.ArgumentParser, *, train: str, test: str) -> None:
    """Add how train and test documents are named.

    Args:
        parser: the parser.
        train: what train documents are for.
        test: what test documents are for.
    """
    data = parser.add_argument_group("documents")
    data.add_argument("--data", metavar="SOURCE", nargs="+", help="corpora with a column that says train or test")
    data.add_argument(
        "--split-column", default=SPLIT_COLUMN, metavar="NAME", help="the column that says so (default: %(default)s)"
    )
    data.add_argument(
        "--test-split", default=TEST_SPLIT, metavar="VALUE", help="what is measured (default: %(default)s)"
    )
    data.add_argument("--train", metavar="SOURCE", nargs="+", help=train)
    data.add_argument("--test", metavar="SOURCE", nargs="+", help=test)


def check_parts(options: argparse.Namespace, *, needs_train: bool = True) -> list[str]:
    """Refuse documents that are named in both ways, or by half; gives all sources.

    Raises:
        EvaluationError: they are.
    """
    data, train, test = options.data or [], options.train or [], options.test or []
    if bool(data) == bool(train or test) or (train and not test) or (needs_train and test and not train):
        two = "--train SOURCE and --test SOURCE" if needs_train else "--test SOURCE, if need be with --train SOURCE"
        raise EvaluationError(f"give the documents as --data SOURCE, or as {two}")
    for option, value, usual in (
        ("--split-column", options.split_column, SPLIT_COLUMN),
        ("--test-split", options.test_split, TEST_SPLIT),
    ):
        if not data and value != usual:
            raise EvaluationError(
                f"{option} {value} is for --data; with --test all documents of that source are measured"
            )
    return [*data, *train, *test]


def read_parts(
    options: argparse.Namespace, report: ReadingReport, *, needs_train: bool = True, keep_others: bool = False
) -> Parts:
    """Read the documents, and separate train from test.

    Args:
        options: the arguments.
        report: is filled while documents are read.
        needs_train: whether there have to be train documents.
        keep_others: whether documents of other parts are kept.

    Raises:
        EvaluationError: a part has no documents.
    """
    if not options.data:
        train, test = (
            list(read_many(part, options, report)) if part else [] for part in (options.train, options.test)
        )
        for name, part in (("train", train), ("test", test)):
            if getattr(options, name) and not part:
                raise EvaluationError(f"there are no documents in {' '.join(getattr(options, name))}; check --{name}")
        return Parts(train, test, [])
    parts = Parts([], [], [])
    found: Counter[str] = Counter()
    for document in read_many(options.data, options, report):
        value = document.metadata.get(options.split_column)
        found["" if value is None else str(value)] += 1
        target = {"train": parts.train, options.test_split: parts.test}.get(str(value), parts.others)
        if target is not parts.others or keep_others:
            target.append(document)
    place, column = " ".join(options.data), options.split_column
    if not found.keys() - {""}:
        instead = (
            "give --train and --test" if needs_train else f"measure all documents: --test {place} in place of --data"
        )
        raise EvaluationError(
            f"no document of {place} has a column {column!r}; name it with --split-column, or {instead}"
        )
    for split, documents in (("train", parts.train), (options.test_split, parts.test)):
        if not documents and (needs_train or documents is parts.test):
            values = ", ".join(repr(value) for value in sorted(found)[:5])
            raise EvaluationError(f"no document of {place} has {split!r} in column {column!r}, only {values}")
    return parts
