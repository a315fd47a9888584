"""Passages that are encoded once by a frozen backbone and kept in a file, for all that benchmarks train above it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from graphdoc import Document, DocumentEncoder
from graphdoc.errors import OutputError
from graphdoc.inference.precision import Precision
from graphdoc.segmentation.spans import SegmentedDocument


def passages_of(
    path: Path, encoder: DocumentEncoder, documents: Iterable[Document], dtype: Precision = "bfloat16"
) -> list[SegmentedDocument]:
    """Documents with the vectors of their passages, made or read again; those without text are left out.

    Args:
        path: the file, ``.npz``; what it holds is found again by the ids of documents, which are unique.
        encoder: an encoder with the backbone and the segmentation.
        documents: the documents.
        dtype: precision that the transformer computes in.

    Raises:
        OutputError: the file was made for other documents.
    """
    segmented = [one for one in encoder.segmenter.segment_many(documents) if one.passages]
    if not path.is_file():
        made = list(encoder.with_passage_vectors(segmented, dtype=dtype, show_progress_bar=True))
        vectors = [one.passage_vectors for one in made if one.passage_vectors is not None]
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(
            path,
            ids=np.array([one.document.id for one in made]),
            counts=np.array([len(one.passages) for one in made]),
            vectors=np.concatenate(vectors).astype(np.float16),
        )
    with np.load(path) as stored:
        ids, counts, rows = stored["ids"].tolist(), stored["counts"], stored["vectors"]
    place = dict(zip(ids, zip(np.cumsum(counts) - counts, counts, strict=True), strict=True))
    found = []
    for one in segmented:
        start, count = place.get(one.document.id, (0, 0))
        # What was made with a higher limit serves lower ones.
        wanted = len(one.passages)
        if count < wanted or (count > wanted and wanted != encoder.model.config.max_passages):
            raise OutputError(f"{path} holds other passages of {one.document.id!r}, or none; remove it")
        found.append(replace(one, passage_vectors=rows[start : start + wanted].astype(np.float32)))
    return found
