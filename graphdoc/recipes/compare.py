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
    GroupLabels,
    PairBatches,
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
    require_sections(settings, encoder.model)
    # A head for classes would read other vectors than those it was trained on.
    encoder.model.remove_head()
    begin_training(encoder, settings.model)
    # Before the corpus is made ready, which takes longer than finding a mistake in the pairs.
    validation = PairValidation(run) if settings.validation.pairs else None
    takes_pairs, groups = settings.loss.takes_pairs, settings.groups
    data = PairedData(run) if takes_pairs else GroupedData(run)
    measured = "no pairs to measure (validation.pairs): the last model is the result"
    if validation is not None and run.processes.is_first:
        measured = validation.describe(data.ids)
    what = "label" if groups.by == "label" else f"{groups.by} in {groups.file}"
    how = _split_and_loss(settings)
    return Recipe(
        data,
        objective_of(settings, encoder.model, run.loss),
        validation.evaluation() if validation else None,
        f"Comparison of documents that belong together by {what}: {how}",
        [measured, f"{data.steps:,} steps of {data.batch_size:,} {'pairs' if takes_pairs else 'documents'}, {how}"],
    )


def require_sections(settings: ComparisonSettings, model: DocumentModel) -> None:
    """Refuse sections that the model cannot read.

    Raises:
        SettingsError: it has no vectors of sections, or too small a table of them.
    """
    number, config = settings.sections.number, model.config
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


def objective_of(settings: ComparisonSettings, model: DocumentModel, given: Loss | None = None) -> Objective:
    """What the model is trained for.

    Args:
        settings: the settings of the run.
        model: the model.
        given: a loss in hand, instead of that of the settings.

    Raises:
        SettingsError: the loss cannot be computed as the model compares documents.
    """
    loss, similarity = settings.loss, model.config.similarity
    reads_passages = similarity_of(similarity).reads_passages
    if not loss.takes_pairs:
        if reads_passages:
            raise SettingsError(
                f"loss.kind={loss.kind} trains document vectors, and model.settings.similarity={similarity} compares "
                "passages; set loss.kind=cosine and groups.by=pairs, or another similarity"
            )
        return SectionContrast(given or SupervisedContrastive(loss.temperature))
    cosine = PairCosine(loss.margin)
    return PairMaxSim(cosine) if reads_passages else PairSimilarity(given or cosine)


def _split_and_loss(settings: ComparisonSettings) -> str:
    """How documents are compared in training, in a few words."""
    loss, sections = settings.loss, settings.sections
    split = f"split into up to {sections.number} sections" if sections.number > 1 else "whole"
    return f"{split}; {loss.kind} loss"


class _SectionData(CorpusData):
    """Documents that are split into sections where the model reads them."""

    _beyond = 0

    def _collator(self, settings: ComparisonSettings, groups: Rows) -> LabelledCollator:
        config, most = self._config, settings.sections.most_tokens
        sections = _document_sections(settings) if config.readout_class.has_sections else None
        return LabelledCollator("group", groups, config.vector_graph, self.vectors, sections, most)

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
        run: settings, model and processes.

    Attributes:
        ids: ids of the documents that are trained on.
        groups: the groups of all documents of the corpus.

    Raises:
        DocumentError: documents have no groups, or all the same; pairs name documents that are not there.
        SettingsError: batches are too small for the processes.
    """

    def __init__(self, run: RunContext[ComparisonSettings]) -> None:
        super().__init__(run)
        settings = run.settings
        self.groups = _groups(settings, self._corpus, warn=run.processes.is_first)
        labels, smallest = self.groups.labels, settings.smallest_group
        sizes = np.bincount(labels[labels >= 0])
        trained = (labels >= 0) & (sizes[labels] >= smallest)
        self._single = int((self._corpus.passage_counts[trained] == 1).sum()) if settings.sections.number > 1 else 0
        self._require_positives(settings, sizes, int(trained.sum()))
        self.plan(ClassBalancedBatches, labels=labels, smallest=smallest)
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

    def collator(self) -> LabelledCollator:
        """What makes batches of documents with their groups."""
        return self._collator(self._run.settings, self.groups.labels)

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
        run: settings, model and processes.

    Attributes:
        ids: ids of the documents that are trained on.
        pairs: the pairs that are trained on, each once.

    Raises:
        DocumentError: pairs name documents that are not there.
        EvaluationError: pairs do not have both labels.
        SettingsError: batches are too small for the processes.
    """

    def __init__(self, run: RunContext[ComparisonSettings]) -> None:
        super().__init__(run)
        settings = run.settings
        groups = settings.groups
        given = read_pair_file(groups.file or "")
        found = CorpusPairs.of(self._corpus, given, groups.on_unknown, setting="groups.unknown=leave_out")
        self._found, self.pairs, self.ids, self._rows = found, found.pairs, found.ids, found.rows
        self.documents = len(self.ids)
        self._beyond = self._beyond_limit(settings, sorted(set(found.rows.ravel().tolist())))
        counts = self._corpus.passage_counts[found.rows]
        examples = Examples(self._corpus, found.rows.ravel())
        self.plan(PairBatches, counts, examples=examples, batch_size=settings.training.batch_size // 2)

    def collator(self) -> PairCollator:
        """What makes batches of pairs with their labels."""
        documents = self._collator(self._run.settings, np.zeros(len(self._corpus), np.int64))
        return PairCollator(documents, self._rows, self._found.labels)

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
    given = (read_pair_file if groups.by == "pairs" else read_link_file)(groups.file or "")
    row_of = rows_by_id(corpus, given.name, (id for pair in given for id in (pair.a, pair.b)))
    if groups.on_unknown == "stop":
        given.among(row_of, setting="groups.unknown=leave_out")
    return groups_of_pairs(
        corpus.ids, given, unknown=groups.on_unknown, joining=groups.joining, most=groups.most, warn=warn
    )
