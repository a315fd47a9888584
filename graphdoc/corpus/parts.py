"""Arrays that belong to a corpus, kept in parts and read memory-mapped, such as the vectors of its passages."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ..encoder import DocumentEncoder
from ..errors import ModelError, OutputError
from ..graphs.batch import GraphBatch, Packing
from ..inference.precision import Precision, computed_in, inference, training_precision
from ..modeling import DocumentModel
from ..modeling.document_model import weights_hash
from ..runtime.arrays import Vectors
from ..runtime.files import is_unchanged, mark_checked, write_atomically
from ..runtime.processes import Processes
from ..runtime.progress import progress_bar
from ..settings.run import RunSettings
from ..vectors.folder import NOT_COMPUTED_WITH
from .corpus import TrainingCorpus, remove_abandoned

FORMAT_VERSION = 1
# Passages of one part, about: enough to sort by length, and at 768 numbers each 50 MB to lose to an interruption.
PART_PASSAGES = 16_384
# Every mapping keeps a file open, and a process may only have a limited number of them.
_MOST_OPEN = 256


class MappedParts:
    """Arrays in a folder, part by part: each is written atomically, and mapped where it is read.

    It may be given to the workers of a data loader; each maps the files itself.
    """

    def __init__(self, folder: Path, parts: int) -> None:
        self.folder, self.parts = folder, parts
        self._mapped = lru_cache(maxsize=_MOST_OPEN)(self.open)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_mapped"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _mapped=lru_cache(maxsize=_MOST_OPEN)(self.open))

    def missing(self, rank: int, count: int) -> list[int]:
        """Numbers of the missing or damaged parts among every ``count``-th one from ``rank`` on."""
        result = []
        for number in range(rank, self.parts, count):
            try:
                self.open(number)
            except OutputError:
                result.append(number)
        return result

    def write(self, number: int, array: npt.NDArray[Any]) -> None:
        """Write a part."""

        def save(path: Path) -> None:
            with path.open("wb") as stream:
                np.save(stream, array, allow_pickle=False)

        mark_checked(write_atomically(self.folder / f"part-{number:05d}.npy", save))

    def open(self, number: int) -> npt.NDArray[Any]:
        """Map a part; one that is missing or damaged is an OutputError."""
        path = self.folder / f"part-{number:05d}.npy"
        try:
            if not is_unchanged(path):
                raise ValueError("another checksum")
            array: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
            self._check(number, array)
        except (OSError, ValueError, EOFError, IndexError) as error:
            raise OutputError(f"{path} is missing or was changed; run again") from error
        return array

    def _check(self, number: int, array: npt.NDArray[Any]) -> None:
        """Raise ValueError for an array that is not the part of that number."""
        raise NotImplementedError


class PassageVectors(MappedParts):
    """Pooled passage vectors of a corpus, memory-mapped (see :func:`prepare_passage_vectors`).

    Args:
        folder: the folder that holds them.
        passage_counts: passages of every document, ``(documents,)``.
        hidden_size: length of a vector.
    """

    def __init__(self, folder: Path, passage_counts: npt.NDArray[np.int64], hidden_size: int) -> None:
        self.hidden_size = hidden_size
        self._counts = passage_counts
        self._ends = np.cumsum(passage_counts, dtype=np.int64)
        # The last document of a part is the one with which it is full.
        full = np.flatnonzero(np.diff(self._ends // PART_PASSAGES, prepend=0)) + 1
        self._cuts = np.unique([0, *full, len(passage_counts)])
        super().__init__(folder, len(self._cuts) - 1)

    def __len__(self) -> int:
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
        return np.array(self._mapped(part)[end - int(self._counts[number]) : end])

    def documents_of(self, part: int) -> range:
        """The documents of a part."""
        return range(*self._cuts[part : part + 2].tolist())

    def passages_of(self, part: int) -> int:
        """Passages of a part."""
        return int(self._counts[slice(*self._cuts[part : part + 2])].sum())

    def _check(self, number: int, array: npt.NDArray[Any]) -> None:
        if array.shape != (self.passages_of(number), self.hidden_size) or array.dtype != np.float32:
            raise ValueError("vectors of other documents")


def prepare_passage_vectors(
    corpus: TrainingCorpus,
    model: DocumentModel,
    packing: Packing | None = None,
    precision: Precision | None = None,
    processes: Processes | None = None,
    *,
    show_progress_bar: bool | None = None,
) -> PassageVectors:
    """Encode all passages of a corpus with a model's passage encoder, or open what an earlier run has made.

    The vectors lie in a folder inside the corpus. A run that was interrupted goes on at the first part that is
    missing; the processes of a job divide the parts among themselves.

    Args:
        corpus: the documents.
        model: the model; its passage encoder must not change afterwards.
        packing: how passages are packed into mini-batches; None for the rule of the device.
        precision: what the transformer computes in; vectors are fp32 all the same.
        processes: the processes of the job; None for one.
        show_progress_bar: show a bar in passages; None shows it on a terminal when the work is long.

    Raises:
        ModelError: the precision does not fit the model, or vectors depend on more than tokens, or are NaN.
        OutputError: the vectors cannot be written, or another process has stopped.
    """
    if model.structural_embeddings is not None:
        raise ModelError(
            "structural_embeddings change passage vectors with the sections that are drawn, so that a frozen passage "
            "encoder has no lasting ones; set structural_embeddings to false, or tune to lora or full"
        )
    config = model.config.encoder_config.to_dict()
    made_of = {
        "format_version": FORMAT_VERSION,
        "corpus": corpus.fingerprint,
        "config": {key: value for key, value in config.items() if key not in NOT_COMPUTED_WITH},
        "pooling": model.config.pooling,
        "precision": precision,
    }
    content = json.dumps(made_of, sort_keys=True, default=str).encode()
    folder = corpus.folder / f"passage-vectors-{weights_hash(model.passage_encoder.state_dict(), content)}"
    rank, count = (processes.rank, processes.count) if processes is not None else (0, 1)
    if rank == 0:
        remove_abandoned(folder)
    vectors = PassageVectors(folder, corpus.passage_counts, model.config.passage_size)
    missing = vectors.missing(rank, count)
    total = sum(map(vectors.passages_of, range(rank, vectors.parts, count)))
    done = total - sum(map(vectors.passages_of, missing))
    with (
        progress_bar(show_progress_bar if rank == 0 else False, total, unit="passages", done=done) as bar,
        computed_in(precision, model.passage_encoder, "the model"),
        inference(model),
    ):
        for part in missing:
            token_ids = tuple(ids for document in vectors.documents_of(part) for ids in corpus[document].token_ids)
            encoded = model.encode_passages(GraphBatch.from_passages(token_ids), packing, bar.update)
            if not torch.isfinite(encoded).all():
                raise ModelError(
                    "the passage encoder produced NaN or infinite vectors; its weights contain NaN: fetch or train it "
                    "again"
                )
            vectors.write(part, encoded.float().cpu().numpy())
    if processes is not None:
        processes.gather(None)
    return vectors


def frozen_vectors(
    settings: RunSettings,
    corpus: TrainingCorpus,
    encoder: DocumentEncoder,
    processes: Processes,
    show_progress_bar: bool | None = None,
) -> PassageVectors | None:
    """The vectors of the passages of a run's corpus, for all its processes; None where the encoder is trained."""
    training = settings.training
    if settings.model.tune != "frozen":
        return None
    precision = training_precision(encoder.model.device)
    packing, bar = Packing.on(encoder.model.device, training.token_budget, training.padding), show_progress_bar
    return prepare_passage_vectors(corpus, encoder.model, packing, precision, processes, show_progress_bar=bar)
