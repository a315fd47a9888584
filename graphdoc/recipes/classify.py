"""Training a classifier on labelled documents (Graph-RoBERTa, section 3.2, "End-to-end Classification")."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..corpus.document import TEST_SPLITS, VALIDATION_SPLITS, values_hash
from ..corpus.parts import PassageVectors
from ..documents.document import Document
from ..errors import DocumentError, SettingsError
from ..evaluation import ClassificationEvaluator
from ..evaluation.labels import class_names, held_out_rows, named, ordered_classes
from ..graphs.kinds import GraphKind, JoinedGraphs
from ..inference.precision import training_precision
from ..losses import ClassificationLoss, balanced_weights
from ..runtime.text import counted
from ..sampling import DocumentSections, EpochBatches
from ..sampling.batches import Rows
from ..settings.finetuning import ClassificationSettings
from ..training.data import TrainingBatch, TrainingExample
from ..training.loop import RunEvaluation
from ..training.objectives import Classification
from ..training.run import Recipe, RunContext, begin_training
from .base import (
    CorpusData,
    RunOptions,
    VectorsOfDocuments,
    batch_of_parts,
    prepared_once,
    train,
    vectors_at,
)


def train_classifier(settings: ClassificationSettings, **options: Unpack[RunOptions]) -> Path:
    """Train a model with a head that gives documents their classes (see :func:`~graphdoc.recipes.base.train`)."""
    return train(settings, recipe, **options)


def recipe(run: RunContext[ClassificationSettings]) -> Recipe:
    """Data, objective and evaluation of the model that the run starts from."""
    settings, encoder, labels = run.settings, run.encoder, run.settings.labels
    data = LabelledData(run)
    encoder.model.add_head(data.classes, multi_label=labels.multi_label, dropout=labels.dropout)
    begin_training(encoder, settings.model)
    weights = None
    if labels.class_weights == "balanced":
        weights = balanced_weights(data.counts, data.documents if labels.multi_label else None)
    loss = run.loss or ClassificationLoss(labels.multi_label, weights, labels.label_smoothing)
    evaluation = None
    if data.truth:
        best = settings.validation.best
        measure = prepared_once(
            run,
            lambda: ClassificationEvaluator(
                data.validation_documents(),
                multi_label=labels.multi_label,
                separator=labels.separator,
                dtype=training_precision(encoder.device),
                best=best,
            ),
        )
        evaluation = RunEvaluation(measure, best, best != "loss", at_start=False)
    kind = "any number of classes" if labels.multi_label else "one class"
    return Recipe(data, Classification(loss), evaluation, f"Classification into {kind} out of {len(data.classes):,}")


WHOLE = DocumentSections(sections=1)


@dataclass(frozen=True)
class LabelledCollator:
    """Makes batches of labelled documents, in the processes that load ahead.

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

    def __call__(self, places: Sequence[tuple[TrainingExample, int, int]]) -> TrainingBatch:
        """Make a batch of documents of one epoch."""
        rows = [row for _, _, row in places]
        return section_batch(
            [example for example, _, _ in places],
            self.sections,
            places[0][1],
            {self.target: torch.from_numpy(self.values[rows])},
            graph=self.graph,
            passage_vectors=vectors_at(self.passage_vectors, rows),
            most_tokens=self.most_tokens,
        )


def token_counts(example: TrainingExample) -> npt.NDArray[np.int64]:
    """Tokens of every passage of a document, special tokens included, ``(passages,)``."""
    return np.array([len(ids) for ids in example.token_ids], np.int64)


def section_batch(
    examples: Sequence[TrainingExample],
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
        sections: how they are split; None leaves them whole.
        epoch: number of the epoch, for the draw.
        targets: what the objective compares with, ``(documents, ...)`` by name.
        graph: kind of the graphs; None where vectors depend on no edges.
        passage_vectors: pooled vectors of every document's passages, ``(passages, encoder hidden)`` each, which then
            go along instead of token ids.
        most_tokens: most tokens of a section, special tokens included; None for no limit.

    Returns:
        The batch; every passage of every document is in it exactly once, but for those beyond ``most_tokens``.
    """
    how = WHOLE if sections is None else sections
    splits = [how.draw(example.id, epoch, example.sections) for example in examples]
    if most_tokens is not None:
        splits = [
            split.limited(token_counts(example), most_tokens) for example, split in zip(examples, splits, strict=True)
        ]
    batch = batch_of_parts(
        examples,
        [(number, split.order) for number, split in enumerate(splits)],
        JoinedGraphs.of_sections(
            [example.sections[split.order] for example, split in zip(examples, splits, strict=True)], graph
        ),
        passage_vectors,
        section_ids=None if sections is None else np.concatenate([split.section_ids for split in splits]),
        chunk_ids=None if sections is None else np.concatenate([split.chunk_ids for split in splits]),
    )
    return TrainingBatch(graphs=batch, ids=tuple(example.id for example in examples), targets=targets)


class LabelledData(CorpusData):
    """Batches of a corpus with labels, for training and for validation.

    Args:
        run: settings, model and processes.

    Attributes:
        classes: names of the classes that training documents have.
        counts: training documents of every class, ``(classes,)``.
        documents: documents to train on.
        truth: labels of the documents that are measured.

    Raises:
        DocumentError: there are too few documents with labels, or too few classes; none to measure has a label that
            one to train on has.
        SettingsError: settings need documents to measure, and there are none.
    """

    def __init__(self, run: RunContext[ClassificationSettings]) -> None:
        super().__init__(run)
        self._left_out: Counter[str] = Counter()
        self._names = [self._classes_of(label) for label in self.corpus.labels]
        self._train, self._validation = self._parts()
        found = Counter(name for row in self._train for name in self._names[row] or ())
        self.classes = ordered_classes(found)
        self.counts = [found[name] for name in self.classes]
        self.documents = len(self._train)
        self.truth = [self._names[row] or () for row in self._validation]
        self._require_classes()
        self.plan(EpochBatches, rows=self._train)

    def _classes_of(self, label: Any) -> tuple[str, ...] | None:
        """Classes of a document; None for one that is left out, which is counted."""
        labels = self.settings.labels
        names = class_names(label, labels.separator)
        if names is None:
            self._left_out["without a label"] += 1
        elif len(names) != 1 and not labels.multi_label:
            several = "several labels" if names else "an empty list of labels"
            self._left_out[f"with {several} (labels.multi_label=true trains on them)"] += 1
            return None
        return names

    def _parts(self) -> tuple[Rows, Rows]:
        """Rows that are trained on, and rows that are measured."""
        settings, corpus = self.settings, self.settings.corpus
        splits = self.corpus.splits
        usable = [row for row, names in enumerate(self._names) if names is not None]
        if not usable:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in self._left_out.items())
            raise DocumentError(
                f"{corpus.name}: none of {len(self._names):,} documents can be trained on ({reasons}); name the "
                f"column of labels (corpus.columns.label is {corpus.columns.label!r}), or set corpus.label_from=folder"
            )
        test = [row for row in usable if splits[row] in TEST_SPLITS]
        validation = [row for row in usable if splits[row] in VALIDATION_SPLITS]
        train = np.setdiff1d(usable, [*test, *validation])
        if not len(train):
            raise DocumentError(
                f"{corpus.name}: the split of all {len(usable):,} documents is test or validation; give documents to "
                "train on, or leave the field out"
            )
        if test:
            self._left_out["whose split is test"] += len(test)
        if not validation and settings.validation.share:
            firsts = [(self._names[row] or ("",))[0] for row in train]
            held_out = held_out_rows(firsts, settings.validation.share, settings.training.seed)
            train, validation = train[~held_out], train[held_out].tolist()
        return train.astype(np.int64), np.array(validation, np.int64)

    def _require_classes(self) -> None:
        """Refuse classes that nothing could be told apart by, or measured by."""
        settings, known = self.settings, set(self.classes)
        if len(known) < 2 and not (known and settings.labels.multi_label):
            raise DocumentError(
                f"{settings.corpus.name}: the {counted(len(self._train), 'document')} to train on have "
                f"{'one label' if known else 'no label'} ({named(self.classes) or 'none'}), and there is "
                "nothing to tell apart; give documents of two classes, or name their column (corpus.columns.label)"
            )
        measured = {name for names in self.truth for name in names}
        if measured and not measured & known:
            raise DocumentError(
                f"{settings.corpus.name}: no document to measure has a label that one to train on has: to train on "
                f"are {named(self.classes)}, to measure {named(ordered_classes(measured))}; check labels and splits"
            )
        if settings.validation.best == "loss" and self.truth and not any(set(names) <= known for names in self.truth):
            raise SettingsError(
                "validation.best=loss needs documents to measure that have no label unseen in training, and there are "
                "none; use macro_f1"
            )

    def collator(self) -> LabelledCollator:
        """What makes batches of whole documents."""
        place = {name: number for number, name in enumerate(self.classes)}
        # What rows have that are not trained on means nothing.
        if self.settings.labels.multi_label:
            targets: npt.NDArray[Any] = np.zeros((len(self._names), len(place)), np.float32)
            for row, names in enumerate(self._names):
                targets[row, [place[name] for name in names or () if name in place]] = 1
        else:
            targets = np.array([place.get((names or ("",))[0], 0) for names in self._names], np.int64)
        return LabelledCollator("class", targets, self.config.vector_graph, self.vectors)

    def validation_documents(self) -> list[Document]:
        """The documents that are measured, with their whole texts.

        Raises:
            DocumentError: they are not where they were when the corpus was made ready.
        """
        return self.documents_of(self._validation)

    def record(self) -> dict[str, Any]:
        """What a run writes down about its data."""
        return {
            **self.corpus.record(),
            "classes": dict(zip(self.classes, self.counts, strict=True)),
            "labels_hash": values_hash(zip(self.corpus.ids, self._names, self.corpus.splits, strict=True)),
            "train": self.documents,
            "validation": len(self._validation),
            "left_out": dict(self._left_out),
        }

    def describe(self) -> list[str]:
        """What there is to train on, in a few lines."""
        lines = [
            self.report.summary(),
            f"{self.documents:,} documents of {len(self.classes)} classes to train on ({min(self.counts):,} to "
            f"{max(self.counts):,} each), {len(self._validation):,} to measure",
            *(f"left out: {counted(count, 'document')} {reason}" for reason, count in self._left_out.items()),
        ]
        ids = self.corpus.ids
        trained_on = {ids[row] for row in self._train}
        if shared := sum(ids[row] in trained_on for row in self._validation):
            lines.append(f"{counted(shared, 'document')} to measure with the id of one to train on; accuracy flatters")
        unseen = Counter(name for names in self.truth for name in names if name not in self.classes)
        if unseen:
            lines.append(
                f"{counted(unseen.total(), 'document')} to measure with labels that none to train on has "
                f"({named(unseen)}); they count as missed"
            )
        return lines
