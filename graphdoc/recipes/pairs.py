"""Labelled pairs of documents: those that a run is trained on, and those that its model is measured on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from ..corpus.corpus import TrainingCorpus
from ..corpus.document import CorpusReport, values_hash
from ..corpus.source import CorpusSource
from ..documents.readers.pair_files import Pairs, Unknown, read_pair_file
from ..errors import DocumentError
from ..evaluation import PairEvaluator
from ..evaluation.pairs import documents_of_pairs, require_both_labels
from ..inference.precision import training_precision
from ..runtime.arrays import Rows
from ..runtime.processes import Processes, interleaved, share_of
from ..segmentation.segmenter import Segmenter
from ..segmentation.spans import SegmentedDocument
from ..settings.finetuning import PairRunSettings
from ..training.recipe import RunEvaluation
from ..training.run import RunContext
from .base import prepared_once


@dataclass(frozen=True)
class CorpusPairs:
    """Pairs whose documents are in a corpus, each once.

    Args:
        pairs: the pairs that are trained on.
        rows: ``(pairs, 2)``, rows of both documents of every pair.
        labels: ``(pairs,)``, 1 for pairs that belong together, else 0.
        ids: ids of their documents.
        left_out: how many were left out, by reason.
    """

    pairs: Pairs
    rows: Rows
    labels: Rows
    ids: frozenset[str]
    left_out: Mapping[str, int]

    @classmethod
    def from_pairs(cls, corpus: TrainingCorpus, pairs: Pairs, unknown: Unknown, *, setting: str) -> CorpusPairs:
        """The pairs whose documents are in the corpus, each once.

        Args:
            corpus: the documents.
            pairs: all pairs.
            unknown: ``stop`` at a pair with a document that is not there, or ``leave_out`` such pairs.
            setting: what leaves them out, for the message.

        Raises:
            DocumentError: a document is not there, or its id is that of several.
            EvaluationError: the pairs do not have both labels.
        """
        row_of = rows_by_id(corpus, pairs.name, (id for pair in pairs for id in (pair.a, pair.b)))
        known = pairs.among(row_of, unknown, setting=setting)
        first = {pair.documents: number for number, pair in reversed(list(enumerate(known)))}
        kept = known.select(sorted(number for (a, b), number in first.items() if a != b))
        require_both_labels(kept, len(pairs))
        return cls(
            kept,
            np.array([(row_of[pair.a], row_of[pair.b]) for pair in kept], np.int64),
            np.array([pair.label for pair in kept], np.int64),
            frozenset(id for pair in kept for id in (pair.a, pair.b)),
            {
                "of unknown documents": len(pairs) - len(known),
                "repeated": known.repeated,
                "with themselves": len(known) - known.repeated - len(kept),
            },
        )

    def counts(self) -> dict[str, Any]:
        """Counts of the training pairs."""
        return {
            "pairs": len(self.pairs),
            "pairs_hash": values_hash((pair.a, pair.b, pair.label) for pair in self.pairs),
            "similar": int(self.labels.sum()),
            "train": len(self.ids),
            "left_out": self.left_out,
        }


def rows_by_id(corpus: TrainingCorpus, name: str, ids: Iterable[str]) -> dict[str, int]:
    """The row of every id of the corpus, of which a file, for messages its name, names some.

    Raises:
        DocumentError: it names a document whose id another one has too.
    """
    there = corpus.ids
    counts = Counter(there)
    if repeated := [id for id in ids if counts[id] > 1]:
        raise DocumentError(
            f"{name}: several documents have the id {repeated[0]!r}; give every document its own id (corpus.columns.id)"
        )
    return {id: row for row, id in enumerate(there)}


class PairValidation:
    """The validation pairs of a run with their documents, of which each process cuts a share.

    Args:
        run: settings, model and processes; without ``validation.pairs`` nothing is measured.
        segmenter: how documents are cut; None cuts them as the model does.

    Raises:
        DocumentError: a document of a pair is not there, is there twice or has no text.
        EvaluationError: pairs do not have both labels.
    """

    # How a run measures its model, None for not at all; ids of the documents that are measured, and counts.
    evaluation: RunEvaluation | None = None
    ids: Collection[str] = ()
    measured: Mapping[str, int] = MappingProxyType({})

    def __init__(self, run: RunContext[Any], segmenter: Segmenter | None = None) -> None:
        self.run, self.settings = run, run.settings
        if run.settings.is_measured:
            self.use(*validation_pairs(self.settings, segmenter or run.encoder.segmenter, run.processes))

    def use(self, pairs: Pairs, documents: Mapping[str, SegmentedDocument]) -> None:
        """Take the pairs and their documents, by id."""
        evaluator = PairEvaluator(
            documents.values(), pairs, by="accuracy" if self.settings.validation.best == "accuracy" else "f1",
            unknown="leave_out", lengths=(), resamples=0, dtype=training_precision(self.run.encoder.device),
        )  # fmt: skip
        self._count(evaluator.pairs, evaluator.left_out)
        measure, best = prepared_once(self.run, evaluator), f"pair_{self.settings.validation.best}"
        self.evaluation = RunEvaluation(measure, best, True, size=len(evaluator.pairs))

    def _count(self, pairs: Pairs, left_out: Mapping[str, int]) -> None:
        self.ids = {id for pair in pairs for id in (pair.a, pair.b)}
        left = {f"left out: {name.replace('_', ' ')}": count for name, count in left_out.items()}
        self.measured = {"pairs": len(pairs), "documents": len(self.ids), **left}

    def counts(self, trained: Collection[str]) -> dict[str, Any]:
        """Counts of the validation pairs, and of their documents that are trained on too."""
        seen = {"documents trained on too": len(set(trained).intersection(self.ids))}
        return {"measured": {**self.measured, **seen}} if self.measured else {}


def validation_pairs(
    settings: PairRunSettings, segmenter: Segmenter, processes: Processes
) -> tuple[Pairs, dict[str, SegmentedDocument]]:
    """All pairs of the file that a run is measured on, and those of their documents that have text, by id.

    Raises:
        DocumentError: a document of a pair is not there, is there twice or has no text.
    """
    validation, corpus, part = settings.validation, settings.corpus, settings.pair_file
    pairs = read_pair_file(Path(validation.pairs or ""))
    wanted = {id for pair in pairs for id in (pair.a, pair.b)}
    source = corpus if validation.source is None else corpus.with_source(validation.source)
    everything = CorpusSource(source.replace(leave_out_splits=[], deduplicate=False)).documents(CorpusReport())
    named = documents_of_pairs((document for _, document in everything if document.id in wanted), pairs)
    own = list(segmenter.segment_many(list(named.values())[share_of(processes)]))
    documents = {one.document.id: one for one in interleaved(processes.gather(own)) if one.passages}
    pairs.among(documents, getattr(settings, part).unknown or "stop", setting=f"{part}.unknown=leave_out")
    return pairs, documents
