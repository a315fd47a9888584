"""Predictions of documents as objects, rows and tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from ..documents.document import Document
from ..errors import OutputError, SettingsError
from ..runtime.files import write_atomically, write_rows, write_text
from ..segmentation.spans import Coverage, SegmentedDocument
from ..similarity.encoded_document import WordPart

if TYPE_CHECKING:
    import pandas as pd


FORMAT = "graphdoc.predictions/1"
# Passages that are listed with a prediction where nothing else is asked for.
LISTED_PASSAGES = 3
LISTED_WORDS = 10
THRESHOLD = 0.5

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Decision:
    """Why a document is likely, or not, to belong to a class.

    Args:
        label: the class.
        probability: its probability.
        logit: its logit.
        contributions: ``(passages,)``, what every passage adds to the logit; exact where the readout is a weighted sum
            of passages (see :func:`~graphdoc.modeling.attribution.logit_contributions`).
        words: what every word of the document adds, the greatest first, which is part of what its passages add; None
            where the head reads no words.
    """

    label: str
    probability: float
    logit: float
    contributions: Floats
    words: tuple[WordPart, ...] | None = None

    @property
    def rest(self) -> float:
        """What of the logit stems from no passage: with exact contributions the bias of the class."""
        return self.logit - float(self.contributions.sum(dtype=np.float64))

    @property
    def telling_words(self) -> tuple[WordPart, ...]:
        """The words that speak most for the class, ten at most, all of which add something to six places."""
        return tuple(one for one in (self.words or ())[:LISTED_WORDS] if round(one.contribution, 6) > 0)

    def strongest(self, count: int | None = LISTED_PASSAGES) -> list[int]:
        """Passages by falling contribution, as many as asked for; None for all."""
        return [int(row) for row in np.argsort(-self.contributions, kind="stable")[:count]]


@dataclass(frozen=True)
class Prediction:
    """What a model says of one document.

    Args:
        segmented: the document and its passages, without token ids.
        classes: names of the classes.
        logits: ``(classes,)``.
        probabilities: ``(classes,)``; with one label they sum to 1.
        labels: the classes that the document gets: the most likely one, or with several labels those at or above the
            threshold.
        decisions: why it gets them; where it gets none, why the most likely one is as likely as it is. Empty where
            explanations were not asked for.
        multi_label: whether a document can have any number of classes.
    """

    segmented: SegmentedDocument
    classes: tuple[str, ...]
    logits: Floats
    probabilities: Floats
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

    def probability_of(self, label: str) -> float:
        """The probability of a class.

        Raises:
            SettingsError: the model knows no such class.
        """
        return float(self.probabilities[place_of(label, self.classes)])

    def to_dict(self, passages: int | None = LISTED_PASSAGES) -> dict[str, Any]:
        """The prediction as plain values, a row of the JSON Lines file.

        Args:
            passages: most passages that are listed for a class; None for all.

        Returns:
            ``id``, ``title``, ``label`` (or ``labels`` where there can be several), ``probability`` (the highest),
            ``coverage`` (share of the text that was encoded), ``probabilities`` by class, and ``passages``: for every
            explained class its strongest passages with label, contribution, place and text; where the head reads words
            also ``words``, those that speak most for every explained class, with label and contribution.
        """
        given: dict[str, Any] = {"labels": list(self.labels)} if self.multi_label else {"label": self.label}
        probabilities = [round(value, 6) for value in self.probabilities.tolist()]
        words = [
            {"label": one.label, "word": word, "contribution": round(added, 6)}
            for one in self.decisions
            for word, added in one.telling_words
        ]
        return {
            "id": self.id,
            "title": self.document.title,
            **given,
            "probability": max(probabilities),
            "coverage": round(self.segmented.coverage.share, 6),
            "probabilities": dict(zip(self.classes, probabilities, strict=True)),
            "passages": [
                self._passage(decision, row) for decision in self.decisions for row in decision.strongest(passages)
            ],
            **({"words": words} if any(one.words is not None for one in self.decisions) else {}),
        }

    def _passage(self, decision: Decision, row: int) -> dict[str, Any]:
        span = self.segmented.passages[row]
        return {
            "label": decision.label,
            "contribution": round(float(decision.contributions[row]), 6),
            "passage": row,
            "section": span.section,
            "heading": self.document.sections[span.section].heading,
            "start": span.start,
            "end": span.end,
            "text": self.segmented.text(span),
        }


@dataclass(frozen=True)
class Predictions(Sequence[Prediction]):
    """What a model says of many documents, in their order.

    Args:
        items: one prediction per document.
        classes: names of the classes.
        multi_label: whether a document can have any number of them, or exactly one.
        threshold: probability from which on a document gets a class; None where it gets the most likely one.
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
        """Number of documents."""
        return len(self.items)

    @overload
    def __getitem__(self, place: int) -> Prediction: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Prediction, ...]: ...
    def __getitem__(self, place: int | slice) -> Prediction | tuple[Prediction, ...]:
        """The prediction of one document, or those of some."""
        return self.items[place]

    def __iter__(self) -> Iterator[Prediction]:
        return iter(self.items)

    @property
    def labels(self) -> list[Any]:
        """The label of every document; where there can be several, a tuple of labels for each."""
        return [item.labels if self.multi_label else item.label for item in self]

    @property
    def probabilities(self) -> Floats:
        """Probabilities of all classes, ``(documents, classes)``."""
        return np.array([item.probabilities for item in self], np.float32).reshape(len(self), len(self.classes))

    def to_frame(self) -> pd.DataFrame:
        """One row per document: ``id``, ``title``, its labels, ``probability``, ``coverage``, and every class's."""
        import pandas as pd

        return pd.DataFrame(
            [flat(item.to_dict(0)) for item in self], columns=columns_of(self.classes, self.multi_label)
        )

    def to_dict(self, passages: int | None = LISTED_PASSAGES) -> dict[str, Any]:
        """Everything as plain values, the content of the JSON file.

        Args:
            passages: most passages that are listed for a class of a document; None for all.
        """
        return {
            "format": FORMAT,
            "model": dict(self.model),
            "classes": list(self.classes),
            "multi_label": self.multi_label,
            "threshold": self.threshold,
            "contributions": "exact",
            "coverage": self.coverage.to_dict(),
            "documents": [item.to_dict(passages) for item in self],
        }

    def to_json(self, path: str | Path, passages: int | None = LISTED_PASSAGES) -> Path:
        """Write everything as JSON, atomically (see :meth:`to_dict`).

        Raises:
            OutputError: the file cannot be written.
        """
        return write_text(path, json.dumps(self.to_dict(passages), ensure_ascii=False, allow_nan=False) + "\n")


def place_of(label: str, classes: Sequence[str]) -> int:
    """The number of a class.

    Raises:
        SettingsError: there is no such class.
    """
    if label not in classes:
        shown = ", ".join(classes[:5]) + (", ..." if len(classes) > 5 else "")
        raise SettingsError(f"label {label!r} is unknown to the model; it knows {shown}")
    return classes.index(label)


def columns_of(classes: Sequence[str], multi_label: bool) -> list[str]:
    """Columns of a table of predictions, passages apart."""
    return [
        *("id", "title", "labels" if multi_label else "label", "probability", "coverage"),
        *map(column_of, classes),
    ]


def column_of(label: str) -> str:
    """The column that holds the probabilities of a class."""
    return f"p({label})"


def flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of JSON Lines as one of a table: a column for the probability of every class."""
    values = {name: value for name, value in row.items() if name != "probabilities"}
    return values | {column_of(label): value for label, value in row["probabilities"].items()}


SUFFIXES = (".jsonl", ".csv", ".parquet")
_ROWS_OF_A_GROUP = 1024


def write_predictions(
    path: str | Path,
    predictions: Iterable[Prediction],
    classes: Sequence[str],
    *,
    multi_label: bool = False,
    passages: int | None = 3,
) -> int:
    """Write predictions one after the other, in constant memory; the file appears when it is whole.

    JSON Lines have the rows of :meth:`~graphdoc.prediction.Prediction.to_dict`. CSV and Parquet have a column
    ``p(NAME)`` for every class, and ``words`` where the head reads words and predictions are explained; lists, which
    CSV cannot hold, are JSON there.

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
    write = {".jsonl": _write_jsonl, ".csv": _write_csv, ".parquet": _write_parquet}[known_suffix(path)]
    written = 0

    def rows() -> Iterator[dict[str, Any]]:
        nonlocal written
        for prediction in predictions:
            yield prediction.to_dict(passages)
            written += 1

    write_atomically(path, lambda temporary: write(temporary, rows(), classes, multi_label))
    return written


def known_suffix(path: str | Path) -> str:
    """The suffix of a file for predictions.

    Raises:
        OutputError: it is unknown.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise OutputError(f"{path} has no suffix of a table; use one of {', '.join(SUFFIXES)}")
    return suffix


def _write_jsonl(path: Path, rows: Iterator[dict[str, Any]], classes: Sequence[str], multi_label: bool) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")


def _write_csv(path: Path, rows: Iterator[dict[str, Any]], classes: Sequence[str], multi_label: bool) -> None:
    columns, rows = _columns(rows, classes, multi_label)
    cells = ([_cell(values[name]) for name in columns] for values in map(flat, rows))
    with path.open("w", encoding="utf-8", newline="") as file:
        write_rows(file, columns, cells)


def _columns(
    rows: Iterator[dict[str, Any]], classes: Sequence[str], multi_label: bool
) -> tuple[list[str], Iterator[dict[str, Any]]]:
    """The columns of a table, by its first row, and all of its rows."""
    first = list(islice(rows, 1))
    lists = ["passages", *(name for name in ("words",) if any(name in row for row in first))]
    return [*columns_of(classes, multi_label), *lists], chain(first, rows)


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value


def _write_parquet(path: Path, rows: Iterator[dict[str, Any]], classes: Sequence[str], multi_label: bool) -> None:
    import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
    import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]

    passage = pa.struct(
        [
            *(("label", pa.string()), ("contribution", pa.float32()), ("passage", pa.int32())),
            *(("section", pa.int32()), ("heading", pa.string())),
            *(("start", pa.int64()), ("end", pa.int64()), ("text", pa.string())),
        ]
    )
    word = pa.struct([("label", pa.string()), ("word", pa.string()), ("contribution", pa.float32())])
    kinds = {
        "id": pa.string(),
        "title": pa.string(),
        "label": pa.string(),
        "labels": pa.list_(pa.string()),
        "passages": pa.list_(passage),
        "words": pa.list_(word),
    }
    columns, rows = _columns(rows, classes, multi_label)
    schema = pa.schema([(name, kinds.get(name, pa.float32())) for name in columns])
    with pq.ParquetWriter(path, schema) as writer:
        for first in rows:
            group = [first, *islice(rows, _ROWS_OF_A_GROUP - 1)]
            writer.write_table(pa.Table.from_pylist([flat(row) for row in group], schema))
