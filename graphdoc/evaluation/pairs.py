"""Pairs of documents that belong together or not, and how well the cosine tells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.metrics import roc_auc_score

from ..documents.readers.pair_files import LabelledPair, Pairs, read_pair_file
from ..errors import DocumentError, EvaluationError
from ..runtime.wording import counted
from ..similarity.cosine import row_cosines
from .labels import ReadyDocument, plain_document

AnyDocument = TypeVar("AnyDocument", bound=ReadyDocument)


def read_pairs(path: str | Path) -> list[LabelledPair]:
    """Read pairs from a file of three columns separated by tabs, ``id_a id_b label``; a line of such names may lead.

    Raises:
        DocumentError: the file cannot be read, or a line is not of this form or contradicts another.
        EvaluationError: not both labels occur.
    """
    pairs = read_pair_file(path)
    require_both_labels(pairs)
    return list(pairs)


def documents_of_pairs(documents: Iterable[AnyDocument], *pairs: Pairs) -> dict[str, AnyDocument]:
    """The documents that pairs name, by id.

    Args:
        documents: these and others, segmented or not.
        *pairs: the pairs.

    Raises:
        DocumentError: two of them have one id.
    """
    wanted = {id for part in pairs for pair in part for id in (pair.a, pair.b)}
    found: dict[str, AnyDocument] = {}
    for document in documents:
        id = plain_document(document).id
        if id in found:
            raise _same_id(id, "pairs do not say which is meant")
        if id in wanted:
            found[id] = document
    return found


def require_own_ids(documents: Iterable[ReadyDocument]) -> None:
    """Refuse documents that cannot be told apart by their ids.

    Raises:
        DocumentError: two of them have one id.
    """
    found: set[str] = set()
    for document in documents:
        id = plain_document(document).id
        if id in found:
            raise _same_id(id, "they would count as one")
        found.add(id)


def _same_id(id: str, consequence: str) -> DocumentError:
    return DocumentError(
        f"several documents have the id {id!r}, so that {consequence}; give every document an id of its own"
    )


def require_both_labels(pairs: Pairs, given: int | None = None) -> None:
    """Refuse pairs among which there is nothing to tell apart.

    Args:
        pairs: the pairs that are used.
        given: number of pairs that there were before some were left out; None where none was.

    Raises:
        EvaluationError: not both labels occur.
    """
    if len({pair.label for pair in pairs}) < 2:
        if given is not None and given > len(pairs):
            raise EvaluationError(
                f"{pairs.name}: {given - len(pairs):,} of {counted(given, 'pair')} cannot be used, since they are of "
                "documents that are not among those read, of a document with itself, or given before, and the rest do "
                "not have both labels, 0 and 1; read the corpus that the pairs are from, and give some pairs of each"
            )
        raise EvaluationError(f"{pairs.name} do not have both labels, 0 and 1; give some pairs of each")


def pair_auc(vectors_by_id: Mapping[str, npt.NDArray[np.float32]], pairs: Sequence[LabelledPair]) -> float:
    """Area under the ROC curve of the cosine on labelled pairs: how often a 1 scores above a 0.

    Args:
        vectors_by_id: document vectors ``(hidden,)`` by id.
        pairs: the pairs.

    Raises:
        EvaluationError: a document of a pair has no vector, or not both labels occur.
    """
    require_ids(pairs, vectors_by_id)
    require_both_labels(Pairs.of(pairs))
    labels = [pair.label for pair in pairs]
    a = np.array([vectors_by_id[pair.a] for pair in pairs])
    b = np.array([vectors_by_id[pair.b] for pair in pairs])
    return float(roc_auc_score(labels, row_cosines(a, b)))


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
