"""Training a model to compare documents, by supervised contrast of their sections (CoLDE, section 3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch

from ..corpus.corpus import TrainingCorpus
from ..corpus.document import values_hash
from ..documents.readers.pair_files import read_link_file, read_pair_file
from ..errors import DocumentError, SettingsError
from ..evaluation.labels import class_names
from ..losses import Loss, PairCosine, SupervisedContrastive
from ..modeling import DocumentModel
from ..runtime.text import counted
from ..sampling import (
    ClassBalancedBatches,
    DocumentSections,
    EpochBatches,
    GroupLabels,
    groups_of_labels,
    groups_of_pairs,
)
from ..sampling.batches import Rows
from ..settings.finetuning import ComparisonSettings
from ..similarity.kinds import similarity_of
from ..training.data import TrainingBatch, TrainingExample
from ..training.objectives import Objective, PairMaxSim, PairSimilarity, SectionContrast
from ..training.run import Recipe, RunContext, begin_training
from .base import CorpusData, Examples, RunOptions, train
from .classify import WHOLE, LabelledCollator, token_counts
from .pairs import CorpusPairs, PairValidation, rows_by_id


def train_comparison(settings: ComparisonSettings, **options: Unpack[RunOptions]) -> Path:
    """Train a model to compare documents that belong together or not (see :func:`~graphdoc.recipes.base.train`)."""
    return train(settings, recipe, **options)


def recipe(run: RunContext[ComparisonSettings]) -> Recipe:
    """Data, objective and evaluation of the model that the run starts from."""
    settings, encoder = run.settings, run.encoder
    objective = objective_of(settings, encoder.model, run.loss)
    # A head for classes would read other vectors than those it was trained on.
    encoder.model.remove_head()
    begin_training(encoder, settings.model)
    # Before the corpus is made ready, which takes longer than finding a mistake in the pairs.
    validation = PairValidation(run)
    data = PairedData(run) if settings.loss.takes_pairs else GroupedData(run)
    how = f"Comparison of documents that belong together by {settings.groups.by} (CoLDE)"
    return Recipe(data, objective, validation.evaluation(), how, validation.describe(data.ids))


def objective_of(settings: ComparisonSettings, model: DocumentModel, given: Loss | None = None) -> Objective:
    """What the model is trained for.

    Args:
        settings: the settings of the run.
        model: the model.
        given: a loss in hand, instead of that of the settings.

    Raises:
        SettingsError: the model has no vectors that the loss compares.
    """
    loss, number, config = settings.loss, settings.sections.number, model.config
    if number > 1 and not model.readout.has_sections:
        raise SettingsError(
            f"sections.number={number} needs a model that reads sections, and the readout of {settings.model.start} "
            f"is {config.readout}; set model.settings.readout=sections, or sections.number=1"
        )
    if config.structural_embeddings and number > config.structural_sections:
        raise SettingsError(
            f"sections.number={number} is more than the model has embeddings for; set "
            f"model.settings.structural_sections={number}, or fewer sections"
        )
    reads_passages = similarity_of(config.similarity).reads_passages
    if loss.takes_pairs:
        cosine = PairCosine(loss.margin)
        return PairMaxSim(cosine) if reads_passages else PairSimilarity(given or cosine)
    if reads_passages:
        raise SettingsError(
            f"loss.kind={loss.kind} trains document vectors, and model.settings.similarity={config.similarity} "
            "compares passages; set loss.kind=cosine and groups.by=pairs, or another similarity"
        )
    return SectionContrast(given or SupervisedContrastive(loss.temperature))


class _SectionData(CorpusData):
    """Documents that are split into sections where the model reads them."""

    # Ids of the documents that are trained on.
    ids: frozenset[str]

    def __init__(self, run: RunContext[ComparisonSettings]) -> None:
        super().__init__(run)
        sections = run.settings.sections
        self._most = sections.most_tokens
        self._sections = None
        if self.config.readout_class.has_sections:
            seed = run.settings.training.seed
            self._sections = DocumentSections(sections.number, sections.by, sections.section_positions, seed)

    def _documents(self, groups: Rows) -> LabelledCollator:
        """What makes batches of documents with their groups, ``(documents,)``."""
        return LabelledCollator("group", groups, self.config.vector_graph, self.vectors, self._sections, self._most)

    def _count_beyond(self, rows: Iterable[int]) -> None:
        """Count the passages that are not trained on, since their sections are longer than the limit."""
        self._beyond, sections = 0, self._sections or WHOLE
        if self._most is not None:
            for example in (self.corpus[row] for row in rows):
                kept = sections.split(example.sections).limited(token_counts(example), self._most)
                self._beyond += len(example.sections) - len(kept.order)

    def _lines(self) -> list[str]:
        return [f"{self._beyond:,} of their passages lie beyond sections.most_tokens"] if self._beyond else []


class GroupedData(_SectionData):
    """Batches of documents that belong to groups, split into sections.

    Args:
        run: settings, model and processes.

    Attributes:
        groups: the groups of all documents of the corpus.

    Raises:
        DocumentError: documents have no groups, or all the same; pairs name documents that are not there.
        SettingsError: batches are too small for the processes.
    """

    def __init__(self, run: RunContext[ComparisonSettings]) -> None:
        super().__init__(run)
        settings = run.settings
        self.groups = _groups(settings, self.corpus)
        labels, smallest, sizes = self.groups.labels, settings.smallest_group, self.groups.sizes
        is_trained = (labels >= 0) & (sizes[labels] >= smallest)
        rows, number = np.flatnonzero(is_trained), int((sizes >= smallest).sum())
        self.documents, self._number = len(rows), number
        is_single = self.corpus.passage_counts[rows] == 1
        if number < 2 or (settings.sections.number > 1 and is_single.all() and sizes.max() == 1):
            raise DocumentError(
                f"{settings.corpus.name}: {counted(number, 'group')} by {self.groups.source} of "
                f"{counted(smallest, 'document')} or more, and nothing belongs together or apart; give more documents "
                "of more groups, or train on sections of longer ones (sections.number=2, groups.smallest=1)"
            )
        self.plan(ClassBalancedBatches, labels=labels, smallest=smallest)
        ids = self.corpus.ids
        self.ids = frozenset(ids[row] for row in rows.tolist())
        self._count_beyond(rows.tolist())
        self._left_out = {
            "without one label": int((labels < 0).sum()),
            "alone in their group (groups.smallest=1 trains on them)": int(((labels >= 0) & ~is_trained).sum()),
        }

    def collator(self) -> LabelledCollator:
        """What makes batches of documents with their groups."""
        return self._documents(self.groups.labels)

    def record(self) -> dict[str, Any]:
        """What a run writes down about its data."""
        return {
            **self.corpus.record(),
            "groups": self.groups.record(),
            "groups_hash": values_hash(zip(self.corpus.ids, self.groups.labels.tolist(), strict=True)),
            "train": self.documents,
            "left_out": {reason: count for reason, count in self._left_out.items() if count},
            "passages_beyond_most_tokens": self._beyond,
        }

    def describe(self) -> list[str]:
        """What there is to train on, in a few lines."""
        return [
            self.report.summary(),
            *self.groups.summary(),
            f"{self.documents:,} documents of {counted(self._number, 'group')} to train on",
            *(f"left out: {counted(count, 'document')} {reason}" for reason, count in self._left_out.items() if count),
            *self._lines(),
        ]


class PairedData(_SectionData):
    """Batches of pairs of documents with labels.

    Args:
        run: settings, model and processes.

    Attributes:
        pairs: the pairs that are trained on.

    Raises:
        DocumentError: pairs name documents that are not there.
        EvaluationError: pairs do not have both labels.
        SettingsError: batches are too small for the processes.
    """

    unit = "pairs"

    def __init__(self, run: RunContext[ComparisonSettings]) -> None:
        super().__init__(run)
        groups, corpus = run.settings.groups, self.corpus
        given = read_pair_file(groups.file or "")
        self.pairs = CorpusPairs.of(corpus, given, groups.on_unknown, setting="groups.unknown=leave_out")
        self.ids, self.documents, rows = self.pairs.ids, len(self.pairs.ids), self.pairs.rows
        self._count_beyond(np.unique(rows).tolist())
        counts, firsts = corpus.passage_counts[rows].sum(axis=1), Examples(corpus, rows[:, 0])
        self.plan(EpochBatches, counts, examples=firsts, batch_size=run.settings.training.batch_size // 2)

    def collator(self) -> PairCollator:
        """What makes batches of pairs with their labels."""
        documents = self._documents(np.zeros(len(self.corpus), np.int64))
        return PairCollator(self.corpus, documents, self.pairs.rows, self.pairs.labels)

    def record(self) -> dict[str, Any]:
        """What a run writes down about its data."""
        return {**self.corpus.record(), **self.pairs.record(), "passages_beyond_most_tokens": self._beyond}

    def describe(self) -> list[str]:
        """What there is to train on, in a few lines."""
        return [self.report.summary(), self.pairs.describe(), *self._lines()]


@dataclass(frozen=True)
class PairCollator:
    """Makes batches of pairs, in the processes that load ahead.

    Args:
        corpus: the documents.
        documents: makes a batch of documents.
        rows: ``(pairs, 2)``, rows of both documents of every pair.
        labels: ``(pairs,)``, 1 for similar pairs, else 0.
    """

    corpus: TrainingCorpus
    documents: LabelledCollator
    rows: Rows
    labels: Rows

    def __call__(self, places: Sequence[tuple[TrainingExample, int, int]]) -> TrainingBatch:
        """Make a batch of pairs; a document that is in several of them is in the batch once."""
        firsts, (epoch, *_), numbers = zip(*places, strict=True)
        # All first documents, then all second ones.
        rows = self.rows[list(numbers)].T.ravel().tolist()
        known = dict(zip(rows, firsts, strict=False))
        place = {row: number for number, row in enumerate(dict.fromkeys(rows))}
        batch = self.documents([(known.get(row) or self.corpus[row], epoch, row) for row in place])
        first, second = torch.tensor([place[row] for row in rows]).view(2, -1)
        labels = torch.from_numpy(self.labels[list(numbers)])
        return replace(batch, targets={"label": labels}, roles={"first": first, "second": second})


def _groups(settings: ComparisonSettings, corpus: TrainingCorpus) -> GroupLabels:
    """The group of every document."""
    groups = settings.groups
    if groups.by == "label":
        names = [class_names(label) for label in corpus.labels]
        try:
            return groups_of_labels([found[0] if found and len(found) == 1 else None for found in names])
        except DocumentError as error:
            columns = f"corpus.columns.label={settings.corpus.columns.label}"
            raise DocumentError(f"{settings.corpus.name}: {error} ({columns})") from error
    given = (read_pair_file if groups.by == "pairs" else read_link_file)(groups.file or "")
    row_of = rows_by_id(corpus, given.name, (id for pair in given for id in (pair.a, pair.b)))
    if groups.on_unknown == "stop":
        given.among(row_of, setting="groups.unknown=leave_out")
    return groups_of_pairs(corpus.ids, given, unknown=groups.on_unknown, joining=groups.joining, most=groups.most)
