"""Arrays that belong to a corpus, kept in parts and read memory-mapped, such as the vectors of its passages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from tqdm.auto import tqdm

from ..encoder import DocumentEncoder
from ..errors import ModelError, OutputError
from ..graphs.batch import GraphBatch
from ..graphs.layout import Packing
from ..inference.precision import Precision, computed_in, inference
from ..modeling import DocumentModel
from ..modeling.document_model import weights_hash
from ..runtime.files import is_unchanged, mark_checked, mark_path, write_atomically
from ..runtime.processes import Processes
from ..runtime.progress import progress_bar
from ..settings.run import RunSettings
from ..vectors.folder import NOT_COMPUTED_WITH
from .corpus import TrainingCorpus, remove_abandoned

Vectors = npt.NDArray[np.float32]
Counts = npt.NDArray[np.int64]

FORMAT_VERSION = 1
# Passages of one part, about: enough to sort by length, and at 768 numbers each 50 MB to lose to an interruption.
PART_PASSAGES = 16_384
_MOST_OPEN = 256


class Parts:
    """Arrays in a folder, part by part: each is written atomically, and mapped where it is read.

    Args:
        folder: the folder.
        check: raises ValueError for an array that is not the part of that number.
    """

    def __init__(self, folder: Path, check: Callable[[int, npt.NDArray[Any]], None]) -> None:
        self._folder, self._check = folder, check
        # Every mapping keeps a file open, and a process may have only so many.
        self._mapped = lru_cache(maxsize=_MOST_OPEN)(self.open)

    def __getitem__(self, number: int) -> npt.NDArray[Any]:
        """The array of a part."""
        return self._mapped(number)

    def path(self, number: int) -> Path:
        """The file of a part."""
        return self._folder / f"part-{number:05d}.npy"

    def missing(self, numbers: Iterable[int]) -> list[int]:
        """The parts that are not there yet, or were left by a run that ended before it was done with them."""
        missing = []
        for number in numbers:
            path = self.path(number)
            if path.exists() and mark_path(path).exists():
                self.open(number)
            else:
                missing.append(number)
        return missing

    def write(self, number: int, array: npt.NDArray[Any]) -> None:
        """Write a part.

        Raises:
            OutputError: it cannot be written.
        """

        def save(path: Path) -> None:
            with path.open("wb") as stream:
                np.save(stream, array, allow_pickle=False)

        mark_checked(write_atomically(self.path(number), save))

    def open(self, number: int) -> npt.NDArray[Any]:
        """Map a part.

        Raises:
            OutputError: it is missing or damaged.
        """
        path = self.path(number)
        try:
            if not is_unchanged(path):
                raise ValueError("another checksum")
            array: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
            self._check(number, array)
        except (OSError, ValueError, EOFError, IndexError) as error:
            raise OutputError(f"{path} is missing or was changed; remove it and run again") from error
        return array


class PassageVectors:
    """Pooled passage vectors of a corpus, memory-mapped.

    It may be given to the workers of a data loader; each maps the files anew.

    Args:
        folder: a folder that :func:`prepare_passage_vectors` filled.
        passage_counts: passages of every document, ``(documents,)``.
        hidden_size: length of a vector.

    Raises:
        OutputError: a part is missing or damaged.
    """

    def __init__(self, folder: Path, passage_counts: Counts, hidden_size: int) -> None:
        self.folder = folder
        self.hidden_size = hidden_size
        self._counts = passage_counts
        self._ends = np.cumsum(passage_counts, dtype=np.int64)
        self._cuts = np.asarray(_part_cuts(passage_counts))
        self._parts = vector_parts(folder, passage_counts, hidden_size)
        for number in range(len(self._cuts) - 1):
            self._parts.open(number)

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
        return np.array(self._parts[part][end - int(self._counts[number]) : end])

    def __reduce__(self) -> tuple[Any, ...]:
        return PassageVectors, (self.folder, self._counts, self.hidden_size)


def vector_parts(folder: Path, passage_counts: Counts, hidden_size: int) -> Parts:
    """The parts of the passage vectors of a corpus."""
    sizes = _part_sizes(passage_counts, _part_cuts(passage_counts))

    def check(number: int, vectors: npt.NDArray[Any]) -> None:
        if vectors.shape != (sizes[number], hidden_size) or vectors.dtype != np.float32:
            raise ValueError("vectors of other documents")

    return Parts(folder, check)


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
        ModelError: the precision does not fit the model, or vectors depend on more than tokens, or are NaN.
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
        remove_abandoned(folder)
    cuts = _part_cuts(corpus.passage_counts)
    sizes = _part_sizes(corpus.passage_counts, cuts)
    own, parts = range(rank, len(sizes), count), vector_parts(folder, corpus.passage_counts, hidden_size)
    missing = parts.missing(own)
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
            parts.write(number, _encode(model, token_ids, packing, bar))
    if processes is not None:
        processes.gather(None)
    return PassageVectors(folder, corpus.passage_counts, hidden_size)


def _fingerprint(corpus: TrainingCorpus, model: DocumentModel, precision: Precision | None) -> str:
    """Hash of everything that the vectors depend on."""
    encoder = model.passage_encoder
    config = model.config.encoder_config.to_dict()
    made_of = {
        "format_version": FORMAT_VERSION,
        "corpus": corpus.fingerprint,
        "config": {key: value for key, value in config.items() if key not in NOT_COMPUTED_WITH},
        "pooling": model.config.pooling,
        "precision": precision,
    }
    return weights_hash(encoder.state_dict(), json.dumps(made_of, sort_keys=True, default=str).encode())


def _encode(model: DocumentModel, token_ids: tuple[Any, ...], packing: Packing | None, bar: tqdm[Any]) -> Vectors:
    vectors = model.encode_passages(GraphBatch.of_passages(token_ids), packing, bar.update)
    if not torch.isfinite(vectors).all():
        raise ModelError(
            "the passage encoder produced NaN or infinite vectors; its weights contain NaN: fetch or train it again"
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


def frozen_vectors(
    settings: RunSettings,
    corpus: TrainingCorpus,
    encoder: DocumentEncoder,
    processes: Processes,
    show_progress: bool | None = None,
) -> PassageVectors | None:
    """The vectors of the passages of a run's corpus, where the passage encoder is not trained.

    Args:
        settings: the settings of the run.
        corpus: the corpus.
        encoder: the model and its tokenizer.
        processes: the processes of the run, all of which have to call.
        show_progress: show bars; None shows them on a terminal.

    Returns:
        The vectors; None where the passage encoder is trained.
    """
    training = settings.training
    if settings.model.tune != "frozen":
        return None
    precision = None if training.precision == "float32" else training.precision
    packing = Packing.on(encoder.model.device, training.token_budget, training.padding)
    return prepare_passage_vectors(corpus, encoder.model, packing, precision, processes, show_progress=show_progress)
