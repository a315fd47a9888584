"""Labels of documents as names of classes: the one way in which they are read, for one label or several."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..documents.document import Document, Label
from ..errors import EvaluationError
from ..inference.segmenting import ManyDocuments, as_document, documents_of
from ..runtime.text import class_name, one_line
from ..segmentation.spans import SegmentedDocument

ReadyDocument = Document | SegmentedDocument

# Share of every label's documents that hyperparameters are chosen on.
HELD_OUT = 0.2


def ready_documents(documents: ManyDocuments) -> Iterator[ReadyDocument]:
    """Documents, segmented or not, as they are, and texts and rows as those that an encoder takes them for."""
    return (one if isinstance(one, SegmentedDocument) else as_document(one) for one in documents_of(documents))


def plain_document(document: ReadyDocument) -> Document:
    """The document itself, whether it is segmented or not."""
    return document.document if isinstance(document, SegmentedDocument) else document


def split_of(document: Document) -> str | None:
    """The part of a corpus that a document's field ``split`` names, in lower case."""
    value = document.metadata.get("split")
    return None if value is None else one_line(str(value)).lower()


def class_names(label: Label, separator: str | None = None) -> tuple[str, ...] | None:
    """The classes that a label names, each once.

    Args:
        label: a string, a number, or several strings.
        separator: what stands between the labels of a string that holds several, such as ``;`` in a CSV file.

    Returns:
        Names of classes (see :func:`~graphdoc.runtime.text.class_name`) in the order given; none of them for an
        empty list, which says that the document belongs to no class; None where there is no label, or a blank one.

    >>> class_names("tide; wave;tide", ";"), class_names(7), class_names(""), class_names(())
    (('tide', 'wave'), ('7',), None, ())
    """
    if label is None:
        return None
    if isinstance(label, tuple) and not label:
        return ()
    parts = label if isinstance(label, tuple) else str(label).split(separator) if separator else (label,)
    return tuple(dict.fromkeys(name for part in parts if (name := class_name(part)))) or None


@dataclass(frozen=True)
class LabelledDocuments:
    """Documents with their classes, and the account of those that have none.

    Args:
        documents: the documents that have labels, segmented or not.
        labels: the classes of every document, ``(documents,)``; exactly one each unless ``multi_label``.
        multi_label: whether a document can have any number of classes.
        without_label: ids of documents that were left out because they have no label.
        with_several: ids of those left out because they have several or an empty list, where one label is wanted.
    """

    documents: tuple[ReadyDocument, ...]
    labels: tuple[tuple[str, ...], ...]
    multi_label: bool = False
    without_label: tuple[str, ...] = ()
    with_several: tuple[str, ...] = ()

    @classmethod
    def from_documents(
        cls, documents: ManyDocuments, *, multi_label: bool = False, separator: str | None = None
    ) -> LabelledDocuments:
        """Read the labels of documents; ``separator`` stands between several labels in a string."""
        labelled: list[tuple[ReadyDocument, tuple[str, ...]]] = []
        without_label, with_several = list[str](), list[str]()
        for document in ready_documents(documents):
            plain = plain_document(document)
            names = class_names(plain.label, separator if multi_label else None)
            if names is None:
                without_label.append(plain.id)
            elif len(names) == 1 or multi_label:
                labelled.append((document, names))
            else:
                with_several.append(plain.id)
        kept, labels = zip(*labelled, strict=True) if labelled else ((), ())
        return cls(kept, labels, multi_label, tuple(without_label), tuple(with_several))

    def __len__(self) -> int:
        """Number of documents that have labels."""
        return len(self.documents)

    @property
    def left_out(self) -> int:
        """Number of documents that were left out."""
        return len(self.without_label) + len(self.with_several)

    @property
    def single_labels(self) -> list[str]:
        """The label of every document that has exactly one, ``(documents,)``."""
        return [name for (name,) in self.labels]

    @cached_property
    def classes(self) -> list[str]:
        """Names of the classes that occur, in the order of :func:`ordered_classes`."""
        return ordered_classes(name for names in self.labels for name in names)

    def targets(self, classes: Sequence[str]) -> npt.NDArray[np.int64] | npt.NDArray[np.float32]:
        """Numbers of the classes, ``(documents,)``; with several labels ``(documents, classes)`` of 1 and 0."""
        column = {name: number for number, name in enumerate(classes)}
        if not self.multi_label:
            return np.array([column[name] for name in self.single_labels], np.int64)
        result = np.zeros((len(self.labels), len(classes)), np.float32)
        for row, names in enumerate(self.labels):
            result[row, [column[name] for name in names]] = 1
        return result


def ordered_classes(names: Iterable[str]) -> list[str]:
    """Names of classes, each once: whole numbers by value, then the others by the alphabet."""

    def place(name: str) -> tuple[int, int, str]:
        is_number = name.removeprefix("-").isdecimal() and len(name) <= 18
        return (0, int(name), name) if is_number else (1, 0, name)

    return sorted(set(names), key=place)


def held_out_rows(labels: Sequence[str], share: float, seed: int = 0) -> npt.NDArray[np.bool_]:
    """Draw the documents that are held out, ``(documents,)``: the same share of every class, rounded down.

    Of a class with fewer than ``1 / share`` documents none is held out.

    >>> held_out_rows(["sea", "sea", "land", "land"], share=0.5).sum().item()
    2
    """
    draw = np.random.default_rng(seed)
    truth = np.asarray(labels)
    result = np.zeros(len(truth), np.bool_)
    for label in np.unique(truth):
        rows = np.flatnonzero(truth == label)
        result[draw.permutation(rows)[: int(len(rows) * share)]] = True
    return result


def first_three_names(names: Iterable[str]) -> str:
    """The first three of some names, for messages."""
    listed = list(names)
    return ", ".join(listed[:3]) + (", ..." if len(listed) > 3 else "")


def require_labels(labels: Sequence[str], part: str) -> None:
    """Refuse documents of a part, ``train`` or ``test``, that have fewer than two labels."""
    if not len(labels):
        raise EvaluationError(
            f"no {part} document has a label; name the column that holds it (--column label=NAME), or call it label"
        )
    if len(different := set(labels)) < 2:
        raise EvaluationError(f"all {part} documents have the label {different.pop()!r}; two are needed at least")
