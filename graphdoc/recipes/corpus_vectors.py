"""Document vectors of a training corpus by the model in training, in every process of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ..corpus.passage_vectors import PassageVectors
from ..corpus.prepare import TrainingCorpus
from ..encoder import DocumentEncoder
from ..graphs.joined_graphs import JoinedGraphs
from ..graphs.packing import Packing
from ..inference.segmenting import WINDOW_PASSAGES
from ..runtime.processes import Processes
from ..runtime.progress import progress_bar
from ..settings.training import TrainingSettings
from .base import transformer_precision
from .parts_batch import batch_of_parts, vectors_at

Vectors = npt.NDArray[np.float32]


def corpus_vectors(
    encoder: DocumentEncoder,
    corpus: TrainingCorpus,
    passage_vectors: PassageVectors | None,
    training: TrainingSettings,
    processes: Processes,
    *,
    show_progress: bool | None = None,
) -> Vectors:
    """Encode all documents of a corpus, each process some of them, in eval mode and in the precision of training.

    Args:
        encoder: the model.
        corpus: the documents.
        passage_vectors: vectors of their passages, where the passage encoder stands still.
        training: how the transformer computes.
        processes: the processes of the run, all of which have to call.
        show_progress: show a bar in the first process; None shows it on a terminal when the work is long.

    Returns:
        ``(documents, hidden)``, in every process.

    Raises:
        ModelError: a number of a vector is infinite or none.
        OutputError: another process has stopped.
    """
    # A training corpus holds tokens and no text, so that there is no lexical part.
    found = np.empty((len(corpus), encoder.model.config.hidden_size), np.float32)
    windows = list(_windows(corpus.passage_counts))
    options: dict[str, Any] = {
        "dtype": transformer_precision(training),
        "packing": Packing.on(encoder.model.device, training.token_budget, training.padding),
    }
    with progress_bar(show_progress if processes.is_first else False, len(corpus)) as bar:
        for start in range(0, len(windows), processes.count):
            some = windows[start : start + processes.count]
            own: Vectors | None = None
            if processes.rank < len(some):
                own = _encode(encoder, corpus, passage_vectors, some[processes.rank], options)
            # A window at a time, so that no exchange is large.
            for rows, vectors in zip(some, processes.gather(own), strict=False):
                found[rows.start : rows.stop] = vectors
                bar.update(len(rows))
    return found


def _windows(passage_counts: npt.NDArray[np.int64]) -> Iterator[range]:
    """Documents that are encoded together."""
    ends = np.cumsum(passage_counts, dtype=np.int64)
    full = np.flatnonzero(np.diff(ends // WINDOW_PASSAGES, prepend=0)) + 1
    cuts = sorted({0, *full.tolist(), len(passage_counts)})
    return (range(first, last) for first, last in pairwise(cuts))


def _encode(
    encoder: DocumentEncoder,
    corpus: TrainingCorpus,
    passage_vectors: PassageVectors | None,
    rows: Sequence[int],
    options: dict[str, Any],
) -> Vectors:
    examples = [corpus[row] for row in rows]
    graphs = JoinedGraphs.of_sections([one.sections for one in examples], encoder.model.config.vector_graph)
    parts = [(number, np.arange(len(one.sections))) for number, one in enumerate(examples)]
    batch = batch_of_parts(examples, parts, graphs, vectors_at(passage_vectors, list(rows)))
    documents = encoder.run_batch((), batch, **options).output.documents
    assert documents is not None
    return documents.float().cpu().numpy()
