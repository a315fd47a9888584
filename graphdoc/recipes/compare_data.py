"""Where the batches of comparison come from: documents in groups, or pairs of documents with labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ..corpus.document import values_hash
from ..corpus.prepare import TrainingCorpus
from ..documents.readers.pair_files import read_link_file, read_pair_file
from ..errors import DocumentError
from ..evaluation.labels import class_names
from ..runtime.text import counted
from ..sampling import (
    ClassBalancedBatches,
    DocumentSections,
    GroupLabels,
    PairBatches,
    groups_of_labels,
    groups_of_links,
    groups_of_pairs,
)
from ..settings.compare import ComparisonSettings
from ..training.batch import TrainingBatch, TrainingExample
from .base import Start
from .corpus_data import CorpusData
from .corpus_pairs import CorpusPairs, rows_by_id
from .labelled_batch import WHOLE, LabelledCollator, token_counts

Rows = npt.NDArray[np.int64]


class _SectionData(CorpusData):
    """Documents that are split into sections where the model reads them."""

    _beyond = 0

    def _collator(self, settings: ComparisonSettings, groups: Rows) -> LabelledCollator:
        config, most = self._config, settings.sections.most_tokens
        sections = _document_sections(settings) if config.readout_class.has_sections else None
        return LabelledCollator("group", groups, config.vector_graph, self._vectors, sections, most)

    def _beyond_limit(self, settings: ComparisonSettings, rows: Iterable[int]) -> int:
        """Passages of documents that are not trained on, since their sections are longer than the limit."""
        if (most := settings.sections.most_tokens) is None:
            return 0
        is_split = self._config.readout_class.has_sections
        sections = _document_sections(settings) if is_split else WHOLE
        examples = (self._corpus[row] for row in rows)
        return sum(
            len(example.sections) - len(sections.split(example.sections).limited(token_counts(example), most).order)
            for example in examples
        )

    def _beyond_lines(self) -> list[str]:
        return [f"{self._beyond:,} of their passages lie beyond sections.most_tokens"] if self._beyond else []


def _document_sections(settings: ComparisonSettings) -> DocumentSections:
    sections = settings.sections
    return DocumentSections(sections.number, sections.by, sections.section_positions, settings.training.seed)


class GroupedData(_SectionData):
    """Batches of documents that belong to groups, split into sections.

    Args:
        start: what the recipe begins with.

    Attributes:
        ids: ids of the documents that are trained on.
        groups: the groups of all documents of the corpus.

    Raises:
        DocumentError: documents have no groups, or all the same; pairs name documents that are not there.
        SettingsError: batches are too small for the processes.
    """

    def __init__(self, start: Start[ComparisonSettings]) -> None:
        super().__init__(start)
        settings, processes = start.settings, start.processes
        self.groups = _groups(settings, self._corpus, warn=processes.is_first)
        labels, smallest = self.groups.labels, settings.smallest_group
        sizes = np.bincount(labels[labels >= 0])
        trained = (labels >= 0) & (sizes[labels] >= smallest)
        self._single = int((self._corpus.passage_counts[trained] == 1).sum()) if settings.sections.number > 1 else 0
        self._require_positives(settings, sizes, int(trained.sum()))
        training = settings.training

        def batches_of() -> ClassBalancedBatches:
            return ClassBalancedBatches(
                self._corpus.passage_counts,
                labels,
                training.batch_size,
                training.seed,
                processes.rank,
                processes.count,
                per_class=settings.groups.per_batch,
                smallest=smallest,
                most_share=settings.groups.most_share,
            )

        self._load(batches_of, self._collator(settings, labels))
        ids = self._corpus.ids
        self.ids = frozenset(ids[row] for row in np.flatnonzero(trained).tolist())
        self.documents = int(trained.sum())
        self._beyond = self._beyond_limit(settings, np.flatnonzero(trained).tolist())
        how = "groups.smallest=1" + ("" if settings.sections.number > 1 else " with sections.number=2")
        self._left_out = {
            "without one label": int((labels < 0).sum()),
            f"alone in their group ({how} trains on them)": int(((labels >= 0) & ~trained).sum()),
        }
        self._trained_groups = int((sizes >= smallest).sum())

    def _require_positives(self, settings: ComparisonSettings, sizes: Rows, documents: int) -> None:
        """Refuse documents that no batch could be made of in which something belongs together and something not.

        Raises:
            DocumentError: there are none that do.
        """
        name, smallest = self.groups.report.source, settings.smallest_group
        if (groups := int((sizes >= smallest).sum())) < 2:
            raise DocumentError(
                f"{settings.corpus.name}: {counted(groups, 'group')} by {name} {'has' if groups == 1 else 'have'} "
                f"{counted(smallest, 'document')} or more, so that there is nothing to tell apart; give more "
                "documents of more groups, or train on sections too (sections.number=2, groups.smallest=1)"
            )
        if self._single == documents and sizes.max() == 1:
            raise DocumentError(
                f"{settings.corpus.name}: all {documents:,} documents are alone in their groups by {name} and have "
                "one passage, so that nothing belongs together; give longer documents or larger groups"
            )

    def record(self) -> dict[str, Any]:
        """What a run writes down about its data."""
        return {
            **self._corpus.record(),
            "groups": self.groups.report.to_dict(),
            "groups_hash": values_hash(zip(self._corpus.ids, self.groups.labels.tolist(), strict=True)),
            "train": self.documents,
            "left_out": {reason: count for reason, count in self._left_out.items() if count},
            "passages_beyond_most_tokens": self._beyond,
        }

    def describe(self) -> list[str]:
        """What there is to train on, in a few lines."""
        lines = [self.report.summary(), *self.groups.report.summary().splitlines()]
        lines.append(f"{self.documents:,} documents of {counted(self._trained_groups, 'group')} to train on")
        lines += [
            f"left out: {counted(count, 'document')} {reason}" for reason, count in self._left_out.items() if count
        ]
        if self._single:
            lines.append(f"{self._single:,} of them have one passage and are one section each")
        lines += self._beyond_lines()
        return lines


class PairedData(_SectionData):
    """Batches of pairs of documents with labels.

    Args:
        start: what the recipe begins with.

    Attributes:
        ids: ids of the documents that are trained on.
        pairs: the pairs that are trained on, each once.

    Raises:
        DocumentError: pairs name documents that are not there.
        EvaluationError: pairs do not have both labels.
        SettingsError: batches are too small for the processes.
    """

    def __init__(self, start: Start[ComparisonSettings]) -> None:
        super().__init__(start)
        settings, processes = start.settings, start.processes
        training = settings.training
        found = CorpusPairs.of(
            self._corpus,
            read_pair_file(settings.groups.file or ""),
            settings.groups.on_unknown,
            setting="groups.unknown=leave_out",
        )
        self._found, self.pairs, self.ids, rows = found, found.pairs, found.ids, found.rows
        self.documents = len(self.ids)
        self._beyond = self._beyond_limit(settings, sorted(set(rows.ravel().tolist())))
        examples = PairedExamples(self._corpus, rows)
        collate = PairCollator(
            self._collator(settings, np.zeros(len(self._corpus), np.int64)),
            rows,
            found.labels,
        )

        def batches_of() -> PairBatches:
            return PairBatches(
                examples.passage_counts.reshape(-1, 2),
                training.batch_size // 2,
                training.seed,
                processes.rank,
                processes.count,
            )

        self._load(batches_of, collate, examples)

    def record(self) -> dict[str, Any]:
        """What a run writes down about its data."""
        return {
            **self._corpus.record(),
            **self._found.record(),
            "passages_beyond_most_tokens": self._beyond,
        }

    def describe(self) -> list[str]:
        """What there is to train on, in a few lines."""
        return [self.report.summary(), self._found.describe(), *self._beyond_lines()]


class PairedExamples:
    """The documents of pairs, counted through all pairs (see :class:`~graphdoc.sampling.PairBatches`).

    Args:
        corpus: the documents.
        rows: ``(pairs, 2)``, rows of both documents of every pair.
    """

    def __init__(self, corpus: TrainingCorpus, rows: Rows) -> None:
        self._corpus, self._rows = corpus, rows.ravel()

    def __len__(self) -> int:
        """Two for every pair."""
        return len(self._rows)

    def __getitem__(self, number: int) -> TrainingExample:
        """One document of a pair."""
        return self._corpus[int(self._rows[number])]

    @property
    def passage_counts(self) -> Rows:
        """Passages of every document, ``(2 pairs,)``."""
        counts: Rows = self._corpus.passage_counts[self._rows]
        return counts


@dataclass(frozen=True)
class PairCollator:
    """Makes batches of pairs, in the processes that load ahead.

    Args:
        documents: makes a batch of documents.
        rows: ``(pairs, 2)``, rows of both documents of every pair.
        labels: ``(pairs,)``, 1 for similar pairs, else 0.
    """

    documents: LabelledCollator
    rows: Rows
    labels: Rows

    def __call__(self, places: Sequence[tuple[TrainingExample, int, int]]) -> TrainingBatch:
        """Make a batch of pairs; a document that is in several of them is in the batch once."""
        ordered = [*places[0::2], *places[1::2]]
        rows = [int(self.rows[number // 2, number % 2]) for _, _, number in ordered]
        place = {row: number for number, row in enumerate(dict.fromkeys(rows))}
        once = dict(zip(rows, ordered, strict=True))
        batch = self.documents([(once[row][0], once[row][1], row) for row in place])
        first, second = torch.tensor([place[row] for row in rows]).view(2, -1)
        labels = torch.from_numpy(self.labels[[number // 2 for _, _, number in places[0::2]]])
        return replace(batch, targets={"label": labels}, roles={"first": first, "second": second})


def _groups(settings: ComparisonSettings, corpus: TrainingCorpus, *, warn: bool) -> GroupLabels:
    """The group of every document."""
    groups = settings.groups
    if groups.by == "label":
        names = [class_names(label) for label in corpus.labels]
        try:
            return groups_of_labels([found[0] if found and len(found) == 1 else None for found in names])
        except DocumentError as error:
            raise DocumentError(
                f"{settings.corpus.name}: {error} (corpus.columns.label is {settings.corpus.columns.label!r}; "
                "corpus.label_from=folder takes the names of folders)"
            ) from error
    read, make = (read_pair_file, groups_of_pairs) if groups.by == "pairs" else (read_link_file, groups_of_links)
    given = read(groups.file or "")
    row_of = rows_by_id(corpus, given.name, (id for pair in given for id in (pair.a, pair.b)))
    if groups.on_unknown == "stop":
        given.among(row_of, setting="groups.unknown=leave_out")
    return make(corpus.ids, given, unknown=groups.on_unknown, joining=groups.joining, most=groups.most, warn=warn)
