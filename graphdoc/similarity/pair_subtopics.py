"""The subtopics of two documents that are compared, or of one."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..errors import SettingsError
from ..runtime.text import require_whole
from ..subtopics.table import SubtopicTable
from ..subtopics.ways import subtopic_finder
from .cosine import similarity_matrix
from .encoded_document import NO_SENTENCES, EncodedDocument, Vectors

CLUSTER_SIZE = 6


def pair_subtopics(
    a: EncodedDocument,
    b: EncodedDocument | None,
    language: str,
    *,
    by: str = "words",
    cluster_size: int = CLUSTER_SIZE,
    receptive_field: int | None = None,
    model: str | Path | None = None,
    seed: int = 0,
) -> SubtopicTable:
    """Find the subtopics of the sentences of two documents, or of one (SST, section 3.2).

    Args:
        a: first document, with its sentences.
        b: second document, with its sentences; None for the subtopics of the first alone.
        language: language of the documents, a two-letter code.
        by: what makes sentences alike: ``words``, ``vectors``, or ``adaptive``, what a model has learned.
        cluster_size: sentences of a subtopic, about.
        receptive_field: sentences of a document that are looked at, its first ones; None for all.
        model: name or folder of that model, for ``adaptive``.
        seed: seed of the clustering.

    Returns:
        The subtopics; how alike both documents are in one is the mean cosine between their sentences.

    Raises:
        ModelError: there is no such model, or it has not learned to find subtopics.
        SettingsError: a setting is out of range, there is no such way, or sentences were not encoded.
    """
    require_whole("cluster_size", cluster_size, may_be_none=False)
    require_whole("receptive_field", receptive_field)
    require_whole("seed", seed, least=0, may_be_none=False)
    finder = subtopic_finder(by, language, model)
    sides = [_Field.of(one, receptive_field) for one in ([a] if b is None else [a, b])]
    if b is None:
        sides.append(sides[0].emptied())
    # What is random in finding subtopics depends on the order of sentences.
    is_turned = b is not None and a.segmented.document.id > b.segmented.document.id
    first, second = (finder.features(one.texts, one.vectors) for one in (sides[::-1] if is_turned else sides))
    found = finder.find(first, second, cluster_size=cluster_size, seed=seed)
    vectors = np.concatenate([one.vectors for one in sides])
    return SubtopicTable.of(
        found.turned() if is_turned else found,
        [*sides[0].texts, *sides[1].texts],
        similarity_matrix(vectors, vectors, "cosine"),
        language,
        by=by,
        cluster_size=cluster_size,
        beyond=(sides[0].beyond, sides[1].beyond),
        within=b is None,
    )


class _Field(NamedTuple):
    """The sentences of a document that are looked at, with their vectors, and how many are not."""

    texts: list[str]
    vectors: Vectors
    beyond: int

    @classmethod
    def of(cls, one: EncodedDocument, receptive_field: int | None) -> _Field:
        if one.sentences is None or one.lone_sentence_vectors is None:
            raise SettingsError(NO_SENTENCES)
        kept = one.sentences[:receptive_field]
        texts = [one.segmented.text(span) for span in kept]
        return cls(texts, one.lone_sentence_vectors[: len(kept)], len(one.sentences) - len(kept))

    def emptied(self) -> _Field:
        return _Field([], self.vectors[:0], 0)
