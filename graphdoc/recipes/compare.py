"""Training a model to compare documents, by supervised contrast of their sections (CoLDE, section 3)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch

from ..corpus.corpus import TrainingCorpus
from ..corpus.document import TrainingDocument, values_hash
from ..documents.readers.pair_files import read_link_file, read_pair_file
from ..errors import DocumentError, SettingsError
from ..evaluation.labels import class_names
from ..losses import Loss, PairCosineLoss, SupervisedContrastiveLoss
from ..modeling import DocumentModel
from ..runtime.arrays import Rows
from ..runtime.text import counted
from ..sampling.batches import ClassBalancedBatches, EpochBatches
from ..sampling.groups import GroupLabels, groups_of_labels, groups_of_pairs
from ..sampling.sub_documents import DocumentSections
from ..settings.finetuning import ComparisonSettings
from ..similarity.kinds import similarity_of
from ..training.objectives import Objective, PairMaxSimObjective, PairObjective, SectionObjective, TrainingBatch
from ..training.run import begin_training
from .base import CorpusRecipe, Examples, LossSettings
from .classify import WHOLE, LabelledCollator, token_counts
from .pairs import CorpusPairs, PairValidation, rows_by_id

logger = logging.getLogger(__name__)


def objective_of(settings: ComparisonSettings, model: DocumentModel, custom: Loss | None = None) -> Objective:
    """The training objective, with the loss of the settings or a custom one.

    Raises:
        SettingsError: the model has no vectors that the loss compares, or the given loss compares no passages.
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
    kind = PairMaxSimObjective if similarity_of(config.similarity).reads_passages else None
    if kind and not loss.takes_pairs:
        raise SettingsError(
            f"loss.kind={loss.kind} trains document vectors, and model.settings.similarity={config.similarity} "
            "compares passages; set loss.kind=cosine and groups.by=pairs, or another similarity"
        )
    return ComparisonRecipe.objective_of(loss, custom, kind)


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

    def __call__(self, places: Sequence[tuple[TrainingDocument, int, int]]) -> TrainingBatch:
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
    groups = settings.groups
    if groups.by == "label":
        names = [class_names(label) for label in corpus.labels]
        try:
            return groups_of_labels([found[0] if found and len(found) == 1 else None for found in names])
        except DocumentError as error:
            columns = f"corpus.columns.label={settings.corpus.columns.label}"
            raise DocumentError(f"{settings.corpus.name}: {error} ({columns})") from error
    listed = (read_pair_file if groups.by == "pairs" else read_link_file)(groups.file or "")
    row_of = rows_by_id(corpus, listed.name, (id for pair in listed for id in (pair.a, pair.b)))
    if groups.on_unknown == "stop":
        listed.among(row_of, setting="groups.unknown=leave_out")
    return groups_of_pairs(
        corpus.ids, listed, unknown=groups.on_unknown, joining=groups.joining, star_size=groups.star_size
    )


class ComparisonRecipe(CorpusRecipe[ComparisonSettings]):
    """Trains a model to compare documents that belong together or not, by groups or by labelled pairs.

    Raises:
        DocumentError: nothing belongs together or apart, or pairs name documents that are not there.
        EvaluationError: pairs do not have both labels.
        SettingsError: the model has no vectors that the loss compares, or batches are too small for the processes.
    """

    summary = "Comparison of documents that belong together (CoLDE)"
    losses: ClassVar = {
        SupervisedContrastiveLoss: LossSettings(SectionObjective, ("temperature",), {"kind": "contrastive"}),
        PairCosineLoss: LossSettings(PairObjective, ("margin",), {"kind": "cosine"}),
    }

    def begin(self) -> None:
        """Make the objective, mark the weights that are trained, and read the pairs that are measured."""
        run = self.run
        self.objective = objective_of(self.settings, run.encoder.model, run.loss)
        run.encoder.model.remove_head()
        begin_training(run.encoder, self.settings.model)
        self._validation = PairValidation(run)
        self.evaluation = self._validation.evaluation

    def divide(self) -> None:
        """Plan batches of groups or of labelled pairs."""
        settings, sections = self.settings, self.settings.sections
        self._sections = None
        if self.config.readout_class.has_sections:
            seed = settings.training.seed
            self._sections = DocumentSections(sections.number, sections.by, sections.section_positions, seed)
        self._labels: Rows = np.zeros(len(self.corpus), np.int64)
        self._pairs: CorpusPairs | None = None
        if settings.loss.takes_pairs:
            self.batch_unit = "pairs"
            rows = self._plan_pairs()
        else:
            rows = self._plan_groups()
        self._beyond = self._passages_beyond(rows)

    def _plan_pairs(self) -> Rows:
        """Draw batches of labelled pairs, and give the rows of their documents."""
        groups, corpus = self.settings.groups, self.corpus
        listed = read_pair_file(groups.file or "")
        pairs = CorpusPairs.from_pairs(corpus, listed, groups.on_unknown, setting="groups.unknown=leave_out")
        self._pairs, self._counts, self._ids = pairs, pairs.counts(), pairs.ids
        counts, firsts = corpus.passage_counts[pairs.rows].sum(axis=1), Examples(corpus, pairs.rows[:, 0])
        self.plan(EpochBatches, counts, examples=firsts, batch_size=self.settings.training.batch_size // 2)
        return np.unique(pairs.rows)

    def _plan_groups(self) -> Rows:
        settings, ids, groups = self.settings, self.corpus.ids, _groups(self.settings, self.corpus)
        self._labels, sizes = groups.labels, groups.sizes
        smallest = settings.groups.smallest or (1 if settings.sections.number > 1 else 2)
        has_label = self._labels >= 0
        is_trained = has_label & (sizes[self._labels] >= smallest)
        rows, number = np.flatnonzero(is_trained), int((sizes >= smallest).sum())
        is_single = self.corpus.passage_counts[rows] == 1
        if number < 2 or (settings.sections.number > 1 and is_single.all() and sizes.max() == 1):
            raise DocumentError(
                f"{settings.corpus.name}: {counted(number, 'group')} by {groups.source} of "
                f"{counted(smallest, 'document')} or more, and nothing belongs together or apart; give more documents "
                "of more groups, or train on sections of longer ones (sections.number=2, groups.smallest=1)"
            )
        self.plan(ClassBalancedBatches, labels=self._labels, smallest=smallest)
        if self.run.processes.is_first:
            for warning in groups.warnings():
                logger.warning(warning)
        self._ids = frozenset(ids[row] for row in rows.tolist())
        self._counts = {
            "groups": groups.record(),
            "groups_hash": values_hash(zip(ids, self._labels.tolist(), strict=True)),
            "train": len(rows),
            "left_out": {
                "without one label": int((self._labels < 0).sum()),
                "alone in their group (groups.smallest=1 trains on them)": int((has_label & ~is_trained).sum()),
            },
        }
        return rows

    def _passages_beyond(self, rows: Rows) -> int:
        """Passages that are not trained on, since their sections are longer than ``sections.most_tokens``."""
        most, sections = self.settings.sections.most_tokens, self._sections or WHOLE
        if most is None:
            return 0
        examples = [self.corpus[row] for row in rows.tolist()]
        kept = (sections.split(one.sections).limited(token_counts(one), most) for one in examples)
        return sum(len(one.sections) - len(split.order) for one, split in zip(examples, kept, strict=True))

    def collator(self) -> LabelledCollator | PairCollator:
        """The collator of documents with their groups, or of pairs with their labels."""
        most = self.settings.sections.most_tokens
        documents = LabelledCollator(
            "group", self._labels, self.config.vector_graph, self.vectors, self._sections, most
        )
        if self._pairs is None:
            return documents
        return PairCollator(self.corpus, documents, self._pairs.rows, self._pairs.labels)

    def counts(self) -> dict[str, Any]:
        """Counts of the training and validation data."""
        return {**self._counts, "passages_beyond_most_tokens": self._beyond, **self._validation.counts(self._ids)}
