"""Where the batches of a classifier come from: a corpus with a label for every document."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ..corpus.document import TEST_SPLITS, TRAIN_SPLITS, VALIDATION_SPLITS, plain_split, values_hash
from ..documents.document import Document
from ..errors import DocumentError, SettingsError
from ..evaluation.labels import class_names, held_out_rows, named, ordered_classes
from ..runtime.text import counted
from ..sampling import EpochBatches
from ..settings.classify import ClassificationSettings
from .base import Start
from .corpus_data import CorpusData
from .labelled_batch import LabelledCollator

logger = logging.getLogger(__name__)

Rows = npt.NDArray[np.int64]
# The paper reads twice as many passages at inference as in training; beyond, it is worth telling.
USUAL_RATIO = 2


class LabelledData(CorpusData):
    """Batches of a corpus with labels, for training and for validation.

    Args:
        start: what the recipe begins with.

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

    def __init__(self, start: Start[ClassificationSettings]) -> None:
        super().__init__(start)
        settings = self._settings = start.settings
        self._names = self._labels()
        self._train, self._validation = self._parts()
        found = Counter(name for row in self._train for name in self._names_of(row))
        self.classes = ordered_classes(found)
        self.counts = [found[name] for name in self.classes]
        if len(self.classes) < 2 and not (self.classes and settings.labels.multi_label):
            raise DocumentError(
                f"{settings.corpus.name}: the {counted(len(self._train), 'document')} to train on have "
                f"{'one label' if self.classes else 'no label'} ({named(self.classes) or 'none'}), and there is "
                "nothing to tell apart; give documents of two classes, or name their column (corpus.columns.label)"
            )
        known = set(self.classes)
        self.documents = len(self._train)
        self.truth = [self._names_of(row) for row in self._validation]
        self._is_known = any(set(names) <= known for names in self.truth)
        self._require_measurable()
        self._unseen = Counter(name for names in self.truth for name in names if name not in known)
        self._targets = self._numbered()

    def _require_measurable(self) -> None:
        """Refuse what no measuring would tell anything of.

        Raises:
            DocumentError: no document to measure has a label that the model will know.
            SettingsError: settings need documents to measure, or such all of whose labels it will know.
        """
        settings, training = self._settings, self._training
        found = [name for names in self.truth for name in names]
        if found and not set(found) & set(self.classes):
            raise DocumentError(
                f"{settings.corpus.name}: no document to measure has a label that one to train on has: to train on "
                f"are {named(self.classes)}, to measure {named(ordered_classes(found))}; check labels and the field "
                "split"
            )
        fix = "raise validation.share, or give documents with split dev"
        if training.patience is not None and not self.has_validation:
            raise SettingsError(
                f"training.patience={training.patience} needs documents to measure, and there are none; {fix}"
            )
        if settings.validation.best == "loss" and self.has_validation and not self._is_known:
            raise SettingsError(
                "validation.best=loss needs documents to measure that have no label unseen in training, and there are "
                "none; use macro_f1"
            )

    def load(self) -> None:
        """Make the loader, once the model has its head.

        Raises:
            SettingsError: batches are too small for the processes.
        """
        training, processes = self._training, self._processes
        self._load(
            lambda: EpochBatches(
                self._corpus.passage_counts,
                training.batch_size,
                training.seed,
                processes.rank,
                processes.count,
                rows=self._train,
            ),
            self._collator(),
        )

    @property
    def has_validation(self) -> bool:
        """Whether there are documents to measure."""
        return bool(len(self._validation))

    def validation_documents(self) -> list[Document]:
        """The documents that are measured, with their whole texts.

        Raises:
            DocumentError: they are not where they were when the corpus was made ready.
        """
        return self.documents_of(self._validation)

    def record(self) -> dict[str, Any]:
        """What a run writes down about its data."""
        return {
            **self._corpus.record(),
            "classes": dict(zip(self.classes, self.counts, strict=True)),
            "labels_hash": values_hash(zip(self._corpus.ids, self._names, self._corpus.splits, strict=True)),
            "train": self.documents,
            "validation": len(self._validation),
            "left_out": dict(self._left_out),
        }

    def describe(self) -> list[str]:
        """What there is to train on, in a few lines."""
        lines = [
            self.report.summary(),
            f"{self.documents:,} documents of {len(self.classes)} classes to train on ({self._sizes()}), "
            f"{len(self._validation):,} to measure",
        ]
        if not self.has_validation:
            share = f"validation.share={self._settings.validation.share:g} of every class, rounded down, or split dev"
            lines.append(f"no documents to measure ({share}): the last model is the result")
        lines += [*self._reads_more()]
        lines += [f"left out: {counted(count, 'document')} {reason}" for reason, count in self._left_out.items()]
        if self._other_splits:
            lines.append(
                f"{counted(self._other_splits.total(), 'document')} to train on with a split that is none of train, "
                f"dev and test: {named(map(str, self._other_splits))}"
            )
        ids = self._corpus.ids
        trained_on = {ids[row] for row in self._train}
        if shared := sum(ids[row] in trained_on for row in self._validation):
            lines.append(f"{counted(shared, 'document')} to measure with the id of one to train on; accuracy flatters")
        single = [name for name, count in zip(self.classes, self.counts, strict=True) if count == 1]
        if single:
            have = "has" if len(single) == 1 else "have"
            lines.append(f"{len(single):,} of the classes {have} one document to train on: {named(single)}")
        if self._unseen:
            lines.append(
                f"{counted(self._unseen.total(), 'document')} to measure with labels that none to train on has "
                f"({named(self._unseen)}); they count as missed"
            )
        return lines

    def _reads_more(self) -> Iterator[str]:
        """A line where the model will read far more of a document than it is trained and measured on."""
        trained, read = self._settings.corpus.max_passages, self._config.max_passages
        if self.report.documents_cut and (read is None or read > USUAL_RATIO * trained):
            who = "the trained model, and validation," if self.has_validation else "the trained model"
            number = "all" if read is None else str(read)
            yield (
                f"training reads the first {counted(trained, 'passage')} of a document, {who} "
                f"{'all' if read is None else f'up to {read:,}'}, which can be better or worse: try graphdoc evaluate "
                f"classify with --max-passages {trained} and with {number}; model.settings.max_passages sets it"
            )

    def _sizes(self) -> str:
        return f"{min(self.counts):,} to {max(self.counts):,} each"

    def _names_of(self, row: int) -> tuple[str, ...]:
        names = self._names[row]
        assert names is not None
        return names

    def _labels(self) -> list[tuple[str, ...] | None]:
        """Classes of every document of the corpus, None for those that are left out, which are counted."""
        labels = self._settings.labels
        self._left_out: Counter[str] = Counter()
        result: list[tuple[str, ...] | None] = []
        for label in self._corpus.labels:
            names = class_names(label, labels.separator)
            if names is None:
                self._left_out["without a label"] += 1
            elif len(names) != 1 and not labels.multi_label:
                several = "several labels" if names else "an empty list of labels"
                self._left_out[f"with {several} (labels.multi_label=true trains on them)"] += 1
                names = None
            result.append(names)
        return result

    def _parts(self) -> tuple[Rows, Rows]:
        """Rows that are trained on, and rows that are measured."""
        settings = self._settings
        splits = [split and plain_split(split) for split in self._corpus.splits]
        usable = [row for row, names in enumerate(self._names) if names is not None]
        if not usable:
            raise DocumentError(
                f"{settings.corpus.name}: none of the {len(self._names):,} documents has "
                f"{'labels' if settings.labels.multi_label else 'one label'}{self._why_none_is_usable()}"
            )
        test = [row for row in usable if splits[row] in TEST_SPLITS]
        validation = [row for row in usable if splits[row] in VALIDATION_SPLITS]
        if len(test) + len(validation) < len(usable):
            if test:
                self._left_out["whose split is test"] += len(test)
            train = np.setdiff1d(usable, [*test, *validation])
            self._other_splits = Counter(split for row in train if (split := splits[row]) not in TRAIN_SPLITS)
        else:
            raise DocumentError(
                f"{settings.corpus.name}: the split of all {len(usable):,} documents is test or validation; give "
                "documents to train on, or leave the field out"
            )
        if not validation and settings.validation.share:
            firsts = [(self._names_of(row) or ("",))[0] for row in train]
            held_out = held_out_rows(firsts, settings.validation.share, settings.training.seed)
            train, validation = train[~held_out], train[held_out].tolist()
        return train.astype(np.int64), np.array(validation, np.int64)

    def _why_none_is_usable(self) -> str:
        without = self._left_out.get("without a label", 0)
        if without == len(self._names):
            return f"; {self._where_labels_are()}"
        return f": {', '.join(f'{count:,} are {reason}' for reason, count in self._left_out.items())}"

    def _where_labels_are(self) -> str:
        corpus = self._settings.corpus
        if corpus.label_from == "folder":
            return (
                "put the files of every class into a folder directly below the source, or take labels from a column "
                "(corpus.label_from=column)"
            )
        return (
            f"name the column that holds them (corpus.columns.label is {corpus.columns.label!r}), or, where every "
            "class has a folder of its own, set corpus.label_from=folder"
        )

    def _numbered(self) -> npt.NDArray[Any]:
        """Targets of every row of the corpus; those of rows that are not trained on mean nothing."""
        place = {name: number for number, name in enumerate(self.classes)}
        if not self._settings.labels.multi_label:
            return np.array([place.get((names or ("",))[0], 0) for names in self._names], np.int64)
        result = np.zeros((len(self._names), len(self.classes)), np.float32)
        for row, names in enumerate(self._names):
            result[row, [place[name] for name in names or () if name in place]] = 1
        return result

    def _collator(self) -> LabelledCollator:
        return LabelledCollator("class", self._targets, self._config.vector_graph, self._vectors)
