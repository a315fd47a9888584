"""Pairs of documents that belong together or not, and how well the cosine tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.metrics import roc_auc_score

from ..errors import DocumentError, EvaluationError

COLUMNS = ("id_a", "id_b", "label")


class LabelledPair(NamedTuple):
    """Two documents and whether they belong together.

    Args:
        a: id of the first document.
        b: id of the second.
        label: 1 if they belong together, else 0.
    """

    a: str
    b: str
    label: int


def read_pairs(path: str | Path) -> list[LabelledPair]:
    """Read pairs from a file of three columns separated by tabs, ``id_a id_b label``; a line of these names may lead.

    Raises:
        DocumentError: the file cannot be read, or a line is not of this form.
        EvaluationError: not both labels occur.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise DocumentError(f"pairs {path} cannot be read: {error.strerror}; check the path") from error
    except ValueError as error:
        raise DocumentError(f"pairs {path} are no utf-8 text; save them as UTF-8") from error
    pairs = []
    for number, line in enumerate(lines, start=1):
        cells = tuple(line.split("\t"))
        if not line.strip() or (number == 1 and cells == COLUMNS):
            continue
        if len(cells) != 3 or cells[2] not in ("0", "1"):
            raise DocumentError(
                f"{path}:{number}: a pair is expected as id_a, id_b and 0 or 1 with tabs between; mend the line"
            )
        pairs.append(LabelledPair(cells[0], cells[1], int(cells[2])))
    if len({pair.label for pair in pairs}) < 2:
        raise EvaluationError(f"pairs {path} do not have both labels, 0 and 1; AUC needs some of each")
    return pairs


def pair_auc(vectors_by_id: Mapping[str, npt.NDArray[np.float32]], pairs: Sequence[LabelledPair]) -> float:
    """Area under the ROC curve of the cosine on labelled pairs: how often a 1 scores above a 0.

    Args:
        vectors_by_id: document vectors ``(hidden,)`` by id.
        pairs: the pairs.

    Raises:
        EvaluationError: a document of a pair has no vector, or not both labels occur.
    """
    require_ids(pairs, vectors_by_id)
    labels = [pair.label for pair in pairs]
    if len(set(labels)) < 2:
        raise EvaluationError("the pairs do not have both labels, 0 and 1; AUC needs some of each")
    a = np.array([vectors_by_id[pair.a] for pair in pairs], np.float64)
    b = np.array([vectors_by_id[pair.b] for pair in pairs], np.float64)
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    cosines = (a * b).sum(axis=1) / np.where(lengths > 0, lengths, 1.0)
    return float(roc_auc_score(labels, cosines))


def require_ids(pairs: Sequence[LabelledPair], ids: Mapping[str, object]) -> None:
    """Refuse pairs of documents that are not there.

    Raises:
        EvaluationError: a document is not there; the message counts them and names one.
    """
    missing = sorted({id for pair in pairs for id in pair[:2]} - ids.keys())
    if missing:
        raise EvaluationError(
            f"{len(missing):,} documents of the pairs are not among those read, such as {missing[0]!r}; "
            "read the corpus that the pairs are from"
        )
