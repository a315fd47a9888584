"""The vectors that a teacher gave the passages or the documents of a training corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..corpus.document import values_hash
from ..corpus.prepare import TrainingCorpus
from ..errors import DocumentError, OutputError
from ..runtime.wording import counted
from ..vectors.shards import read_numbers, read_rows
from ..vectors.store import Manifest, checked_shards

Rows = npt.NDArray[np.int64]
LEVELS = ("passage", "document")


@dataclass(frozen=True)
class TeacherVectors:
    """Vectors by a teacher, in the order of a corpus.

    Args:
        level: what has a vector: ``passage`` or ``document``.
        vectors: ``(rows, teacher hidden)``, row after row of document after document.
        starts: first row of every document, and the number of rows, ``(documents + 1,)``.
        folder_of: place of the folder that every document was found in, ``(documents,)``.
        content: hash of the files that they were read from.
    """

    level: str
    vectors: Tensor
    starts: Rows
    folder_of: Rows
    content: str

    def of(self, rows: Sequence[int]) -> Tensor:
        """Vectors of some documents of the corpus, ``(rows, teacher hidden)``."""
        return torch.cat([self.vectors[self.starts[row] : self.starts[row + 1]] for row in rows])


def read_teacher(folders: Sequence[str], corpus: TrainingCorpus, name: str) -> TeacherVectors:
    """Find the vectors of the documents of a corpus in folders of vectors.

    They are held in memory: 3 GB for a million vectors of 768 numbers. A folder may hold more documents than the
    corpus, and more passages of a document.

    Args:
        folders: folders that ``graphdoc encode --output`` has written.
        corpus: the corpus.
        name: what to call it in messages.

    Raises:
        DocumentError: a document has no vectors, those of other passages, or none that are finite, or its id is there
            twice.
        OutputError: a folder is not finished or damaged, holds vectors of something else, or leaves out passages.
    """
    manifests = [Manifest.read(folder) for folder in folders]
    level = _level(manifests)
    counts = corpus.passage_counts if level == "passage" else np.ones(len(corpus), np.int64)
    starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    rows = _rows_by_id(corpus, name)
    vectors = np.empty((int(starts[-1]), manifests[0].hidden_size), np.float32)
    folder_of = np.full(len(corpus), -1, np.int64)
    for number, manifest in enumerate(manifests):
        for id, sections, found in _documents(manifest, level):
            row = rows.get(id)
            if row is None:
                continue
            if folder_of[row] >= 0:
                raise DocumentError(
                    f"{manifest.folder}: document {id!r} is there twice, or in {folders[folder_of[row]]} too; give "
                    "documents ids of their own and encode them again"
                )
            count = int(counts[row])
            if level == "passage":
                _require_passages(manifest, id, corpus[row].sections, sections)
            if not np.isfinite(found[:count]).all():
                raise DocumentError(
                    f"{manifest.folder}: document {id!r} has a vector that is not finite; encode it again with "
                    "--dtype float32"
                )
            vectors[starts[row] : starts[row + 1]] = found[:count]
            folder_of[row] = number
    if (missing := np.flatnonzero(folder_of < 0)).size:
        raise DocumentError(
            f"{counted(len(missing), 'document')} of {name} {'has' if len(missing) == 1 else 'have'} no vectors in "
            f"{', '.join(folders)}, such as {corpus[int(missing[0])].id!r}; encode the same documents as corpus.source"
        )
    content = values_hash([level, *(entry.checksum for manifest in manifests for entry in manifest.shards)])
    return TeacherVectors(level, torch.from_numpy(vectors), starts, folder_of, content)


def _level(manifests: Sequence[Manifest]) -> str:
    """What has a vector in all of the folders."""
    first = manifests[0]
    for manifest in manifests:
        level = str(manifest.settings["level"])
        if level not in LEVELS:
            raise OutputError(
                f"teacher={manifest.folder} holds vectors of {level}s; encode with --level {' or '.join(LEVELS)}"
            )
        if level == "passage" and manifest.model.get("repeats"):
            raise OutputError(
                f"teacher={manifest.folder} leaves out passages that repeat, and training does not; encode with "
                "--repeats keep"
            )
        if level != first.settings["level"] or manifest.hidden_size != first.hidden_size:
            raise OutputError(
                f"teacher={manifest.folder} holds {level} vectors of {manifest.hidden_size} numbers, and "
                f"{first.folder} {first.settings['level']} vectors of {first.hidden_size}; encode all alike"
            )
    return str(first.settings["level"])


def _rows_by_id(corpus: TrainingCorpus, name: str) -> dict[str, int]:
    ids = corpus.ids
    if (twice := next((id for id, count in Counter(ids).items() if count > 1), None)) is not None:
        raise DocumentError(
            f"{name}: several documents have the id {twice!r}, by which a teacher's vectors are found; give each "
            "its own"
        )
    return {id: row for row, id in enumerate(ids)}


def _documents(manifest: Manifest, level: str) -> Iterator[tuple[str, Rows, npt.NDArray[np.float32]]]:
    """Every document of a folder: its id, the sections of its passages and its vectors."""
    for path in checked_shards(manifest):
        ids, vectors = read_rows(path)
        if vectors.shape[1] != manifest.hidden_size:
            raise OutputError(f"{path} holds something else than its manifest says; run the encoding again")
        if level == "document":
            yield from ((id, np.zeros(0, np.int64), vectors[row : row + 1]) for row, id in enumerate(ids))
            continue
        sections, places = read_numbers(path, "section"), read_numbers(path, level)
        firsts = np.flatnonzero(places == 0).tolist()
        for start, end in zip(firsts, [*firsts[1:], len(ids)], strict=True):
            yield ids[start], sections[start:end], vectors[start:end]


def _require_passages(manifest: Manifest, id: str, expected: Rows, found: Rows) -> None:
    """Refuse vectors of other passages, as far as their sections show it."""
    place = Path(manifest.folder)
    if len(found) < len(expected):
        raise DocumentError(
            f"{place}: document {id!r} has vectors of {counted(len(found), 'passage')}, and {len(expected)} in "
            f"training; encode with --max-passages {len(expected)} or more, or lower corpus.max_passages"
        )
    if not np.array_equal(found[: len(expected)], expected):
        raise DocumentError(
            f"{place}: document {id!r} was cut into other passages than in training; encode with a model of the same "
            "unit, passage_words, passage_tokens and language, or with --level document"
        )
