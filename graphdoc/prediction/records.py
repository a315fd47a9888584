"""Predictions of documents as objects, rows and tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ..documents.document import Document
from ..errors import OutputError, SettingsError
from ..runtime.arrays import Vectors
from ..runtime.files import JsonResult, write_atomically, write_rows
from ..segmentation.spans import Coverage, SegmentedDocument
from ..similarity.kinds import WordPart

if TYPE_CHECKING:
    import pandas as pd


FORMAT = "graphdoc.predictions/1"
# Passages and words that are listed with a prediction where nothing else is asked for.
LISTED_PASSAGES, LISTED_WORDS = 3, 10
SUFFIXES = (".jsonl", ".csv", ".parquet")
_GROUP_ROWS = 1024


@dataclass(frozen=True)
class Decision:
    """Why a document is likely, or not, to belong to a class.

    Args:
        label: the class.
        probability: its probability.
        logit: its logit.
        contributions: ``(passages,)``, what every passage adds to the logit (see
            :func:`~graphdoc.modeling.attribution.logit_contributions`).
        words: what every word adds, part of what its passages add, the greatest first; None without words.
    """

    label: str
    probability: float
    logit: float
    contributions: Vectors
    words: tuple[WordPart, ...] | None = None

    @property
    def rest(self) -> float:
        """The part of the logit that comes from no passage: the bias of the class."""
        return self.logit - float(self.contributions.sum(dtype=np.float64))

    @property
    def keywords(self) -> tuple[WordPart, ...]:
        """The words that speak most for the class, ten at most, all of which add something to six places."""
        return tuple(word for word in (self.words or ())[:LISTED_WORDS] if round(word.contribution, 6) > 0)

    def strongest(self, count: int | None = LISTED_PASSAGES) -> list[int]:
        """Passages by falling contribution, as many as asked for; None for all."""
        return list(map(int, np.argsort(-self.contributions, kind="stable")[:count]))


@dataclass(frozen=True)
class Prediction:
    """Prediction of a model for one document.

    Args:
        segmented: the document and its passages, without token ids.
        classes: names of the classes.
        logits: ``(classes,)``.
        probabilities: ``(classes,)``; with one label they sum to 1.
        labels: the classes that the document gets.
        decisions: why it gets them; where it gets none, why the most likely one is as likely as it is. Empty where
            explanations were not asked for.
        multi_label: whether a document can have any number of classes.
    """

    segmented: SegmentedDocument
    classes: tuple[str, ...]
    logits: Vectors
    probabilities: Vectors
    labels: tuple[str, ...]
    decisions: tuple[Decision, ...] = ()
    multi_label: bool = False

    def __repr__(self) -> str:
        shown = ", ".join(f"{label} {self.probability_of(label):.3f}" for label in self.labels) or "no label"
        return f"Prediction({self.document.id!r}: {shown})"

    @property
    def document(self) -> Document:
        """The document."""
        return self.segmented.document

    @property
    def id(self) -> str:
        """The document's id."""
        return self.document.id

    @property
    def label(self) -> str | None:
        """The most likely of the document's labels, None if it has none."""
        return max(self.labels, key=self.probability_of, default=None)

    @property
    def probability(self) -> float:
        """The highest probability of a class."""
        return float(self.probabilities.max())

    @property
    def is_near_chance(self) -> bool:
        """Whether the only label is hardly more likely than chance: a tenth of the way to certainty, or less."""
        chance = 1 / len(self.classes)
        return not self.multi_label and self.probability - chance < 0.1 * (1 - chance)

    def probability_of(self, label: str) -> float:
        """The probability of a class."""
        return float(self.probabilities[class_index(label, self.classes)])

    def to_dict(self, passages: int | None = LISTED_PASSAGES) -> dict[str, Any]:
        """The prediction as plain values, with the most telling passages for a class; None for all of them."""
        probabilities = [round(float(value), 6) for value in self.probabilities]
        words = [
            {"label": decision.label, "word": word, "contribution": round(added, 6)}
            for decision in self.decisions
            for word, added in decision.keywords
        ]
        has_words = any(decision.words is not None for decision in self.decisions)
        return {
            "id": self.id,
            "title": self.document.title,
            **({"labels": list(self.labels)} if self.multi_label else {"label": self.label}),
            "probability": max(probabilities),
            "coverage": round(self.segmented.coverage.share, 6),
            "probabilities": dict(zip(self.classes, probabilities, strict=True)),
            "passages": [
                {
                    "label": decision.label,
                    "contribution": round(float(decision.contributions[row]), 6),
                    **self.passage(row),
                }
                for decision in self.decisions
                for row in decision.strongest(passages)
            ],
            **({"words": words} if has_words else {}),
        }

    def passage(self, row: int) -> dict[str, Any]:
        """A passage as plain values: its number, its section, its place there and its text."""
        span = self.segmented.passages[row]
        heading = self.document.sections[span.section].heading
        place = {"section": span.section, "heading": heading, "start": span.start, "end": span.end}
        return {"passage": row, **place, "text": self.segmented.text(span)}


@dataclass(frozen=True)
class Predictions(Sequence[Prediction], JsonResult):
    """Predictions of a model for many documents, in their order.

    Args:
        items: one prediction per document.
        classes: names of the classes.
        multi_label: whether a document can have any number of them, or exactly one.
        threshold: least probability of a class that a document gets; None where it gets the most likely one.
        model: what the predictions were made with, for the record.
        coverage: what of the documents was encoded.
    """

    items: tuple[Prediction, ...]
    classes: tuple[str, ...]
    multi_label: bool
    threshold: float | None
    model: Mapping[str, Any]
    coverage: Coverage

    def __repr__(self) -> str:
        return f"Predictions({len(self)} documents, {len(self.classes)} classes, model {self.model.get('name')})"

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> Prediction: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Prediction, ...]: ...
    def __getitem__(self, index: int | slice) -> Prediction | tuple[Prediction, ...]:
        return self.items[index]

    @property
    def labels(self) -> list[Any]:
        """The label of every document; where there can be several, a tuple of labels for each."""
        return [item.labels if self.multi_label else item.label for item in self]

    @property
    def probabilities(self) -> Vectors:
        """Probabilities of all classes, ``(documents, classes)``."""
        return np.array([item.probabilities for item in self], np.float32).reshape(len(self), len(self.classes))

    def to_frame(self) -> pd.DataFrame:
        """One row per document: ``id``, ``title``, its labels, ``probability``, ``coverage``, and every class's."""
        import pandas as pd

        rows = [_table_row(item.to_dict(0)) for item in self]
        return pd.DataFrame(rows, columns=_columns(self.classes, self.multi_label))

    def to_dict(self, passages: int | None = LISTED_PASSAGES) -> dict[str, Any]:
        """Everything as plain values, with the most telling passages for a class; None for all of them."""
        return {
            "format": FORMAT, "model": dict(self.model), "classes": list(self.classes),
            "multi_label": self.multi_label, "threshold": self.threshold, "contributions": "exact",
            "coverage": self.coverage.to_dict(), "documents": [item.to_dict(passages) for item in self],
        }  # fmt: skip


def class_index(label: str, classes: Sequence[str]) -> int:
    """The number of a class.

    Raises:
        SettingsError: there is no such class.
    """
    if label not in classes:
        shown = ", ".join(classes[:5]) + (", ..." if len(classes) > 5 else "")
        raise SettingsError(f"label {label!r} is unknown to the model; it knows {shown}")
    return classes.index(label)


def write_predictions(
    path: str | Path,
    predictions: Iterable[Prediction],
    classes: Sequence[str],
    *,
    multi_label: bool = False,
    passages: int | None = LISTED_PASSAGES,
) -> int:
    """Write predictions one after the other, in constant memory; the file appears when it is whole.

    JSON Lines have the rows of :meth:`~graphdoc.prediction.Prediction.to_dict`. CSV and Parquet have a column
    ``p(NAME)`` for every class, and ``words`` where the head reads them and explains; lists are JSON in CSV.

    Args:
        path: the file; its suffix, one of ``.jsonl``, ``.csv`` and ``.parquet``, says which kind.
        predictions: the predictions.
        classes: names of the classes.
        multi_label: whether a document can have any number of them.
        passages: most passages that are listed for a class of a document; None for all.

    Returns:
        The number of documents.

    Raises:
        OutputError: the file cannot be written, or its suffix is unknown.

    >>> import tempfile
    >>> from graphdoc import DocumentEncoder
    >>> encoder = DocumentEncoder.from_pretrained("mini", device="cpu")
    >>> _ = encoder.model.add_head(["cooking", "sea"])
    >>> path = Path(tempfile.mkdtemp()) / "classes.csv"
    >>> write_predictions(path, encoder.predict(["Rice is steamed."]), ["cooking", "sea"])
    1
    """
    suffix, written = Path(path).suffix.lower(), 0
    if suffix not in SUFFIXES:
        raise OutputError(f"{path} has no suffix of a table; use one of {', '.join(SUFFIXES)}")

    def rows() -> Iterator[dict[str, Any]]:
        nonlocal written
        for prediction in predictions:
            yield prediction.to_dict(passages)
            written += 1

    def write(temporary: Path) -> None:
        if suffix == ".jsonl":
            with temporary.open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows())
            return
        table: Iterator[dict[str, Any]] = map(_table_row, rows())
        first = list(islice(table, 1))
        table = chain(first, table)
        columns = [*_columns(classes, multi_label), "passages", *(["words"] if first and "words" in first[0] else [])]
        if suffix == ".parquet":
            _write_parquet(temporary, table, columns)
        else:
            with temporary.open("w", encoding="utf-8", newline="") as file:
                write_rows(file, columns, ([_cell(row[name]) for name in columns] for row in table))

    write_atomically(path, write)
    return written


def _columns(classes: Sequence[str], multi_label: bool) -> list[str]:
    label = "labels" if multi_label else "label"
    return ["id", "title", label, "probability", "coverage", *(f"p({name})" for name in classes)]


def _table_row(row: dict[str, Any]) -> dict[str, Any]:
    return row | {f"p({label})": value for label, value in row.pop("probabilities").items()}


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value


def _write_parquet(path: Path, rows: Iterator[dict[str, Any]], columns: Sequence[str]) -> None:
    import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
    import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]

    text, real, place = pa.string(), pa.float32(), pa.int64()
    passage = {"label": text, "contribution": real, "passage": pa.int32(), "section": pa.int32(), "heading": text}
    passage |= {"start": place, "end": place, "text": text}
    word = {"label": text, "word": text, "contribution": real}
    lists = {"labels": text, "passages": pa.struct(passage.items()), "words": pa.struct(word.items())}
    kinds = dict.fromkeys(("id", "title", "label"), text) | {name: pa.list_(kind) for name, kind in lists.items()}
    schema = pa.schema([(name, kinds.get(name, real)) for name in columns])
    with pq.ParquetWriter(path, schema) as writer:
        while group := list(islice(rows, _GROUP_ROWS)):
            writer.write_table(pa.Table.from_pylist(group, schema))
