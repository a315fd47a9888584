"""Passage vectors of a frozen passage encoder, computed once for a corpus and read memory-mapped."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from tqdm.auto import tqdm

from ..errors import ModelError, OutputError
from ..graphs.batch import GraphBatch
from ..graphs.packing import Packing
from ..inference.precision import Precision, computed_in, inference
from ..modeling import DocumentModel
from ..modeling.document_model import weights_hash
from ..runtime.files import is_unchanged, mark_checked, mark_path, write_atomically
from ..runtime.processes import Processes
from ..runtime.progress import progress_bar
from .prepare import ABANDONED_AFTER_SECONDS, TrainingCorpus

Vectors = npt.NDArray[np.float32]
Counts = npt.NDArray[np.int64]

FORMAT_VERSION = 1
# Passages of one part, about: enough to sort by length, and at 768 numbers each 50 MB to lose to an interruption.
PART_PASSAGES = 16_384
_MOST_OPEN = 256
# What a configuration says about where it came from, not about what it computes.
_NOT_COMPUTED_WITH = ("_name_or_path", "name_or_path", "transformers_version", "dtype", "torch_dtype", "architectures")


class PassageVectors:
    """Pooled passage vectors of a corpus, memory-mapped.

    It may be given to the workers of a data loader; each maps the files anew.

    Args:
        folder: a folder that :func:`prepare_passage_vectors` filled.
        passage_counts: passages of every document, ``(documents,)``.
        cuts: first document of every part, and the number of documents.
        hidden_size: length of a vector.

    Raises:
        OutputError: a part is missing or damaged.
    """

    def __init__(self, folder: Path, passage_counts: Counts, cuts: Sequence[int], hidden_size: int) -> None:
        self.folder = folder
        self.hidden_size = hidden_size
        self._counts = passage_counts
        self._ends = np.cumsum(passage_counts, dtype=np.int64)
        self._cuts = np.asarray(cuts)
        self._sizes = _part_sizes(passage_counts, cuts)
        for number in range(len(self._sizes)):
            self._open(number)
        # Every mapping keeps a file open, and a process may have only so many.
        self._part = lru_cache(maxsize=_MOST_OPEN)(self._open)

    def __len__(self) -> int:
        """Number of documents."""
        return len(self._counts)

    @property
    def shape(self) -> tuple[int, int]:
        """Passages of all documents, and length of a vector."""
        return (int(self._ends[-1]), self.hidden_size)

    def vectors_of(self, number: int) -> Vectors:
        """Vectors of the passages of one document, in reading order, ``(passages, hidden)``."""
        if not 0 <= number < len(self):
            raise IndexError(f"document {number} of {len(self)}")
        part = int(np.searchsorted(self._cuts, number, side="right")) - 1
        cut = int(self._cuts[part])
        end = int(self._ends[number] - (self._ends[cut - 1] if cut else 0))
        # A copy, since tensors are made of it, and a file that is mapped cannot be written to.
        return np.array(self._part(part)[end - int(self._counts[number]) : end])

    def __reduce__(self) -> tuple[Any, ...]:
        return PassageVectors, (self.folder, self._counts, self._cuts, self.hidden_size)

    def _open(self, part: int) -> Vectors:
        return _open_part(self.folder / _part_name(part), self._sizes[part], self.hidden_size)


def prepare_passage_vectors(
    corpus: TrainingCorpus,
    model: DocumentModel,
    packing: Packing | None = None,
    precision: Precision | None = None,
    processes: Processes | None = None,
    *,
    show_progress: bool | None = None,
) -> PassageVectors:
    """Encode all passages of a corpus with a model's passage encoder, or open what an earlier run has made.

    The vectors lie in a folder inside the corpus, in parts that are written atomically; a run that was interrupted
    goes on at the first part that is missing. The processes of a job divide the parts among themselves.

    Args:
        corpus: the documents.
        model: the model; its passage encoder must not change afterwards.
        packing: how passages are packed into mini-batches; None for the rule of the device.
        precision: compute the transformer in this precision; vectors are fp32 all the same.
        processes: the processes of the job; None for one.
        show_progress: show a bar in passages; None shows it on a terminal when the work is long.

    Returns:
        The vectors.

    Raises:
        ModelError: the precision does not fit the model, or its vectors depend on more than tokens or are no numbers.
        OutputError: the vectors cannot be written, or another process has stopped.
    """
    if model.structural_embeddings is not None:
        raise ModelError(
            "structural_embeddings change passage vectors with the sections that are drawn, so that a frozen passage "
            "encoder has no lasting ones; set structural_embeddings to false, or tune to lora or full"
        )
    hidden_size = model.config.passage_size
    fingerprint = _fingerprint(corpus, model, precision)
    folder = corpus.folder / f"passage-vectors-{fingerprint}"
    rank, count = (processes.rank, processes.count) if processes is not None else (0, 1)
    if rank == 0:
        _remove_abandoned(folder)
    cuts = _part_cuts(corpus.passage_counts)
    sizes = _part_sizes(corpus.passage_counts, cuts)
    own = range(rank, len(sizes), count)
    missing = [number for number in own if not _is_whole(folder / _part_name(number), sizes[number], hidden_size)]
    done = sum(sizes[number] for number in own) - sum(sizes[number] for number in missing)
    with (
        progress_bar(
            show_progress if rank == 0 else False, sum(sizes[number] for number in own), unit="passages", done=done
        ) as bar,
        computed_in(precision, model.passage_encoder, "the model"),
        inference(model),
    ):
        for number in missing:
            documents = range(cuts[number], cuts[number + 1])
            token_ids = tuple(ids for document in documents for ids in corpus[document].token_ids)
            vectors = _encode(model, token_ids, packing, bar)
            mark_checked(write_atomically(folder / _part_name(number), partial(_save, vectors)))
    if processes is not None:
        processes.gather(None)
    return PassageVectors(folder, corpus.passage_counts, cuts, hidden_size)


def _fingerprint(corpus: TrainingCorpus, model: DocumentModel, precision: Precision | None) -> str:
    """Hash of everything that the vectors depend on."""
    encoder = model.passage_encoder
    config = model.config.encoder_config.to_dict()
    made_of = {
        "format_version": FORMAT_VERSION,
        "corpus": corpus.fingerprint,
        "config": {key: value for key, value in config.items() if key not in _NOT_COMPUTED_WITH},
        "pooling": model.config.pooling,
        "precision": precision,
    }
    return weights_hash(encoder.state_dict(), json.dumps(made_of, sort_keys=True, default=str).encode())


def _encode(model: DocumentModel, token_ids: tuple[Any, ...], packing: Packing | None, bar: tqdm[Any]) -> Vectors:
    vectors = model.encode_passages(GraphBatch.of_passages(token_ids), packing, bar.update)
    if not torch.isfinite(vectors).all():
        raise ModelError(
            "the passage encoder gives vectors that are no numbers: its weights hold such; fetch or train it again"
        )
    return vectors.float().cpu().numpy()


def _part_cuts(passage_counts: Counts) -> list[int]:
    """First document of every part, and the number of documents."""
    ends = np.cumsum(passage_counts, dtype=np.int64)
    # The last document of a part is the one with which it is full.
    full = np.flatnonzero(np.diff(ends // PART_PASSAGES, prepend=0)) + 1
    return sorted({0, *full.tolist(), len(passage_counts)})


def _part_sizes(passage_counts: Counts, cuts: Sequence[int]) -> list[int]:
    """Passages of every part."""
    return [int(passage_counts[first:last].sum()) for first, last in pairwise(cuts)]


def _part_name(number: int) -> str:
    return f"part-{number:05d}.npy"


def _save(vectors: Vectors, path: Path) -> None:
    with path.open("wb") as stream:
        np.save(stream, vectors, allow_pickle=False)


def _is_whole(path: Path, passages: int, hidden_size: int) -> bool:
    # A part without its mark was written by a run that ended before it was done with it.
    if not path.exists() or not mark_path(path).exists():
        return False
    _open_part(path, passages, hidden_size)
    return True


def _open_part(path: Path, passages: int, hidden_size: int) -> Vectors:
    try:
        if not is_unchanged(path):
            raise ValueError("another checksum")
        vectors: Vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise OutputError(f"{path} is missing or was changed; remove it and run again") from error
    if vectors.shape != (passages, hidden_size) or vectors.dtype != np.float32:
        raise OutputError(f"{path} does not hold the vectors of its documents; remove it and run again")
    return vectors


def _remove_abandoned(folder: Path) -> None:
    for path in folder.glob(".partial-*"):
        try:
            if path.stat().st_mtime < time.time() - ABANDONED_AFTER_SECONDS:
                path.unlink()
        except OSError:
            continue
