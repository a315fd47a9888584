"""Labelled pairs of the documents of a corpus, as recipes train on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..corpus.document import values_hash
from ..corpus.prepare import TrainingCorpus
from ..documents.readers.pair_files import Pairs, Unknown
from ..errors import DocumentError
from ..evaluation.pairs import require_both_labels
from ..runtime.text import counted

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class CorpusPairs:
    """Pairs whose documents are in a corpus.

    Args:
        pairs: the pairs that are trained on, each once.
        rows: ``(pairs, 2)``, rows of both documents of every pair.
        left_out: how many were left out, by reason.
    """

    pairs: Pairs
    rows: Rows
    left_out: dict[str, int]

    @classmethod
    def of(cls, corpus: TrainingCorpus, given: Pairs, unknown: Unknown, *, setting: str) -> CorpusPairs:
        """The pairs of a corpus.

        Args:
            corpus: the documents.
            given: the pairs.
            unknown: ``stop`` at a pair with a document that is not there, or ``leave_out`` such pairs.
            setting: what leaves them out, for the message.

        Raises:
            DocumentError: a document is not there, or its id is that of several.
            EvaluationError: the pairs do not have both labels.
        """
        row_of = rows_by_id(corpus, given.name, (id for pair in given for id in (pair.a, pair.b)))
        known = given.among(row_of, unknown, setting=setting)
        first = {pair.documents: number for number, pair in reversed(list(enumerate(known)))}
        kept = known.chosen(sorted(number for (a, b), number in first.items() if a != b))
        require_both_labels(kept, len(given))
        left_out = {
            "of unknown documents": len(given) - len(known),
            "repeated": known.repeated,
            "with themselves": len(known) - known.repeated - len(kept),
        }
        rows = np.array([(row_of[pair.a], row_of[pair.b]) for pair in kept], np.int64)
        return cls(kept, rows, left_out)

    @property
    def labels(self) -> Rows:
        """1 for pairs that belong together, else 0, ``(pairs,)``."""
        return np.array([pair.label for pair in self.pairs], np.int64)

    @property
    def ids(self) -> frozenset[str]:
        """Ids of their documents."""
        return frozenset(id for pair in self.pairs for id in (pair.a, pair.b))

    def record(self) -> dict[str, Any]:
        """What a run writes down about them."""
        return {
            "pairs": len(self.pairs),
            "pairs_hash": values_hash((pair.a, pair.b, pair.label) for pair in self.pairs),
            "similar": int(self.labels.sum()),
            "train": len(self.ids),
            "left_out": {reason: count for reason, count in self.left_out.items() if count},
        }

    def describe(self) -> str:
        """What there is to train on, in a line."""
        line = (
            f"{counted(len(self.pairs), 'pair')} of {len(self.ids):,} documents to train on, "
            f"{int(self.labels.sum()):,} of them similar"
        )
        left_out = ", ".join(f"{count:,} {reason}" for reason, count in self.left_out.items() if count)
        return line + (f"; left out: {left_out}" if left_out else "")


def rows_by_id(corpus: TrainingCorpus, name: str, ids: Iterable[str]) -> dict[str, int]:
    """The row of every id of the corpus.

    Args:
        corpus: the documents.
        name: the file that names some of them, for messages.
        ids: the ids that it names.

    Raises:
        DocumentError: it names a document whose id another one has too.
    """
    there = corpus.ids
    if len(row_of := {id: row for row, id in enumerate(there)}) < len(there):
        wanted = set(ids)
        repeated = next((id for id, count in Counter(there).items() if count > 1 and id in wanted), None)
        if repeated is not None:
            raise DocumentError(
                f"{name}: several documents have the id {repeated!r}, so that it is not clear which is meant; "
                "give every document an id of its own (corpus.columns.id)"
            )
    return row_of
