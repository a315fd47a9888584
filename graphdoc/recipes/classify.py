"""Training a classifier on labelled documents (Graph-RoBERTa, section 3.2, "End-to-end Classification")."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..corpus.document import TEST_SPLITS, VALIDATION_SPLITS, CorpusReport, TrainingDocument, values_hash
from ..corpus.parts import PassageVectors
from ..corpus.source import CorpusSource
from ..errors import DocumentError, SettingsError
from ..evaluation import ClassificationEvaluator
from ..evaluation.labels import class_names, first_three_names, held_out_rows, ordered_classes
from ..graphs.kinds import GraphKind, JoinedGraphs
from ..inference.precision import training_precision
from ..losses import ClassificationLoss
from ..losses.classification import balanced_weights
from ..runtime.text import counted
from ..sampling.batches import EpochBatches
from ..sampling.sub_documents import DocumentSections
from ..settings.finetuning import ClassificationSettings
from ..training.objectives import ClassificationObjective, TrainingBatch
from ..training.recipe import RunEvaluation
from ..training.run import begin_training
from .base import CorpusRecipe, LossSettings, VectorsOfDocuments, batch_of_parts, prepared_once, vectors_at

logger = logging.getLogger(__name__)

WHOLE = DocumentSections(sections=1)


@dataclass(frozen=True)
class LabelledCollator:
    """Makes batches of labelled documents by :func:`section_batch`, in the processes that load ahead.

    Args:
        target: name of what is to be learned, ``class`` or ``group``.
        values: ``(rows, ...)``, what is to be learned of every document of the corpus, by its row.
        graph: kind of the graphs; None where vectors depend on no edges.
        passage_vectors: vectors of a frozen passage encoder, which then go along instead of tokens.
        sections: how documents are split into sections; None leaves them whole.
        most_tokens: most tokens of a section; None for no limit.
    """

    target: str
    values: npt.NDArray[Any]
    graph: GraphKind | None
    passage_vectors: PassageVectors | None = None
    sections: DocumentSections | None = None
    most_tokens: int | None = None

    def __call__(self, places: Sequence[tuple[TrainingDocument, int, int]]) -> TrainingBatch:
        """Make a batch of documents of one epoch."""
        examples, (epoch, *_), rows = zip(*places, strict=True)
        return section_batch(
            examples, self.sections, epoch, {self.target: torch.from_numpy(self.values[list(rows)])},
            graph=self.graph, passage_vectors=vectors_at(self.passage_vectors, rows), most_tokens=self.most_tokens,
        )  # fmt: skip


def token_counts(example: TrainingDocument) -> npt.NDArray[np.int64]:
    """Tokens of every passage of a document, special tokens included, ``(passages,)``."""
    return np.array([len(ids) for ids in example.token_ids], np.int64)


def section_batch(
    examples: Sequence[TrainingDocument],
    sections: DocumentSections | None,
    epoch: int,
    targets: Mapping[str, Tensor],
    *,
    graph: GraphKind | str | None = "full",
    passage_vectors: VectorsOfDocuments | None = None,
    most_tokens: int | None = None,
) -> TrainingBatch:
    """Build the graphs of documents, whole or split into sections.

    A graph is that of the whole document with its own sections, as at inference; the sections that it is split into
    are those of the readout and of the structural embeddings.

    Args:
        examples: the documents.
        sections: how they are split, by a draw for every epoch; None leaves them whole.
        epoch: number of the epoch.
        targets: what the objective compares with, ``(documents, ...)`` by name.
        graph: kind of the graphs; None where vectors depend on no edges.
        passage_vectors: see :func:`~graphdoc.recipes.base.batch_of_parts`.
        most_tokens: most tokens of a section, special tokens included, beyond which its passages are left out.
    """
    splits = [(sections or WHOLE).sample(example.id, epoch, example.sections) for example in examples]
    if most_tokens is not None:
        splits = [
            split.limited(token_counts(example), most_tokens) for example, split in zip(examples, splits, strict=True)
        ]
    own_sections = [example.sections[split.order] for example, split in zip(examples, splits, strict=True)]
    batch = batch_of_parts(
        examples,
        [(number, split.order) for number, split in enumerate(splits)],
        JoinedGraphs.from_sections(own_sections, graph),
        passage_vectors,
        section_ids=None if sections is None else np.concatenate([split.section_ids for split in splits]),
        chunk_ids=None if sections is None else np.concatenate([split.chunk_ids for split in splits]),
    )
    return TrainingBatch(graphs=batch, ids=tuple(example.id for example in examples), targets=targets)


class ClassRecipe(CorpusRecipe[ClassificationSettings]):
    """Trains a model with a head that gives documents their classes.

    Attributes:
        classes: names of the classes that training documents have.
        class_counts: training documents of every class, ``(classes,)``.
        validation: rows of the documents that are measured.

    Raises:
        DocumentError: there are too few documents with labels, or too few classes; none to measure has a label that
            one to train on has.
        SettingsError: ``validation.best`` is the loss, and no document to measure has known labels alone.
    """

    summary = "Classification of documents (Graph-RoBERTa, section 3.2)"
    losses: ClassVar = {ClassificationLoss: LossSettings(ClassificationObjective)}

    def begin(self) -> None:
        """Refuse documents without labels."""
        self.run.processes.run_first(partial(_require_labels, self.settings))

    def divide(self) -> None:
        """Divide documents by their labels and splits, and give the model a head for their classes."""
        run, settings, encoder, labels = self.run, self.settings, self.run.encoder, self.settings.labels
        self._divide_by_labels()
        self._require_classes()
        self.plan(EpochBatches, rows=self._train)
        encoder.model.add_head(self.classes, multi_label=labels.multi_label, dropout=labels.dropout)
        begin_training(encoder, settings.model)
        weights = None
        if labels.class_weights == "balanced":
            weights = balanced_weights(self.class_counts, len(self._train) if labels.multi_label else None)
        loss = run.loss or ClassificationLoss(labels.multi_label, weights)
        self.objective = ClassificationObjective(loss)
        if len(self.validation):
            best = settings.validation.best
            evaluator = ClassificationEvaluator(
                self.documents_of(self.validation), multi_label=labels.multi_label, separator=labels.separator,
                dtype=training_precision(encoder.device), primary_metric=best,
            )  # fmt: skip
            self.evaluation = RunEvaluation(
                prepared_once(run, evaluator), best, best != "loss", at_start=False, size=len(self.validation)
            )

    def _divide_by_labels(self) -> None:
        """Find the documents to train on and to measure, by their labels and splits or by a draw."""
        settings, splits, multi_label = self.settings, self.corpus.splits, self.settings.labels.multi_label
        names = [class_names(label, settings.labels.separator) for label in self.corpus.labels]
        usable = [row for row, of_row in enumerate(names) if of_row is not None and (multi_label or len(of_row) == 1)]
        validation = [row for row in usable if splits[row] in VALIDATION_SPLITS]
        train = np.array([row for row in usable if splits[row] not in VALIDATION_SPLITS + TEST_SPLITS], np.int64)
        without = sum(of_row is None for of_row in names)
        self._left_out = {
            "without a label": without,
            "with not just one (labels.multi_label=true trains on them)": len(names) - len(usable) - without,
            "whose split is test": len(usable) - len(validation) - len(train),
        }
        # What rows have that are not trained on means nothing.
        self._names = [of_row or () for of_row in names]
        if not validation and settings.validation.share and len(train):
            firsts = [(self._names[row] or ("",))[0] for row in train]
            held_out = held_out_rows(firsts, settings.validation.share, settings.training.seed)
            train, validation = train[~held_out], train[held_out].tolist()
            if not validation and self.run.processes.is_first:
                least = 1 / max(Counter(firsts).values())
                logger.warning(
                    "validation.share=%g of %s is less than one document of every class, so nothing is measured; set "
                    "it to %.2f or more, or name documents to measure by split: dev",
                    *(settings.validation.share, counted(len(firsts), "document"), math.ceil(100 * least) / 100),
                )
        self._train, self.validation = train, np.array(validation, np.int64)
        found = Counter(name for row in train for name in self._names[row])
        self.classes = ordered_classes(found)
        self.class_counts = [found[name] for name in self.classes]

    def _require_classes(self) -> None:
        """Refuse classes that leave nothing to distinguish or to measure."""
        settings, known = self.settings, set(self.classes)
        if len(known) < 2 and not (known and settings.labels.multi_label):
            left_out = ", ".join(f"{count:,} {reason}" for reason, count in self._left_out.items() if count)
            if not len(self._train):
                raise DocumentError(f"{settings.corpus.name}: no document is left to train on: {left_out}")
            raise DocumentError(
                f"{settings.corpus.name}: {counted(len(self._train), 'document')} to train on with "
                f"{'the label ' + first_three_names(self.classes) if known else 'no label'}; left out are "
                f"{left_out or 'none'}; "
                "give documents of two classes, or say where labels are (corpus.columns.label is "
                f"{settings.corpus.columns.label!r}, corpus.label_from={settings.corpus.label_from})"
            )
        measured = {name for row in self.validation for name in self._names[row]}
        if measured and not measured & known:
            raise DocumentError(
                f"{settings.corpus.name}: no document to measure has a label that one to train on has: to train on "
                f"are {first_three_names(self.classes)}, to measure "
                f"{first_three_names(ordered_classes(measured))}; check labels and splits"
            )
        is_loss = settings.validation.best == "loss" and len(self.validation)
        if is_loss and not any(set(self._names[row]) <= known for row in self.validation):
            raise SettingsError(
                "validation.best=loss needs documents to measure that have no label unseen in training; use macro_f1"
            )

    def collator(self) -> LabelledCollator:
        """The collator of whole documents."""
        place = {name: number for number, name in enumerate(self.classes)}
        if self.settings.labels.multi_label:
            targets: npt.NDArray[Any] = np.zeros((len(self._names), len(place)), np.float32)
            for row, names in enumerate(self._names):
                targets[row, [place[name] for name in names if name in place]] = 1
        else:
            targets = np.array([place.get((names or ("",))[0], 0) for names in self._names], np.int64)
        return LabelledCollator("class", targets, self.config.vector_graph, self.vectors)

    def counts(self) -> dict[str, Any]:
        """Documents to train on and to measure, by class, and what was left out."""
        ids, known = self.corpus.ids, set(self.classes)
        trained_on = {ids[row] for row in self._train}
        return {
            "classes": dict(zip(self.classes, self.class_counts, strict=True)),
            "labels_hash": values_hash(zip(ids, self._names, self.corpus.splits, strict=True)),
            "train": len(self._train),
            "validation": len(self.validation),
            # They flatter a model, and these cannot be right.
            "measured_with_the_id_of_one_to_train_on": sum(ids[row] in trained_on for row in self.validation),
            "measured_with_unknown_labels": dict(
                Counter(name for row in self.validation for name in self._names[row] if name not in known)
            ),
            "left_out": {reason: count for reason, count in self._left_out.items() if count},
        }


def _require_labels(settings: ClassificationSettings) -> None:
    is_empty = True
    for _, document in CorpusSource(settings.corpus).documents(CorpusReport()):
        if class_names(document.label, settings.labels.separator) is not None:
            return
        is_empty = False
    if not is_empty:
        raise DocumentError(
            f"{settings.corpus.name}: no document has a label; say where labels are (corpus.columns.label is "
            f"{settings.corpus.columns.label!r}, corpus.label_from={settings.corpus.label_from})"
        )
