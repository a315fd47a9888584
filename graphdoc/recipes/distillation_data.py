"""Where the batches of distillation come from: documents with the vectors of a teacher."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..corpus.passage_vectors import PassageVectors
from ..errors import DocumentError
from ..graphs.joined_graphs import JoinedGraphs
from ..graphs.kinds.kind import GraphKind
from ..runtime.wording import counted
from ..sampling import CorpusBatches
from ..sampling.draws import Rows, random_generator
from ..settings.distillation import DistillationSettings
from ..training.batch import TrainingBatch, TrainingExample
from .base import Start
from .corpus_data import CorpusData
from .parts_batch import batch_of_parts, vectors_at
from .teacher_vectors import TeacherVectors, read_teacher


@dataclass(frozen=True)
class DistillationCollator:
    """Makes batches of documents with the vectors of a teacher, in the processes that load ahead.

    Args:
        teacher: the teacher's vectors of all documents of the corpus.
        graph: kind of the graphs; None where vectors depend on no edges.
        passage_vectors: vectors of a frozen passage encoder, which then go along instead of tokens.
    """

    teacher: TeacherVectors
    graph: GraphKind | None
    passage_vectors: PassageVectors | None = None

    def __call__(self, places: Sequence[tuple[TrainingExample, int, int]]) -> TrainingBatch:
        """Make a batch of whole documents."""
        examples, rows = [example for example, _, _ in places], [row for _, _, row in places]
        sections = [example.sections for example in examples]
        graphs = batch_of_parts(
            examples,
            [(number, np.arange(len(one))) for number, one in enumerate(sections)],
            JoinedGraphs.of_sections(sections, self.graph),
            vectors_at(self.passage_vectors, rows),
        )
        ids = tuple(example.id for example in examples)
        return TrainingBatch(graphs=graphs, ids=ids, targets={"teacher": self.teacher.of(rows)})


class DistillationData(CorpusData):
    """Batches of documents of one corpus each, with the vectors of a teacher.

    Args:
        start: what the recipe begins with.

    Attributes:
        teacher: the teacher's vectors.
        held_out: batches of the documents that are held out.

    Raises:
        DocumentError: documents have no vectors or those of other passages, or there are too few.
        OutputError: a folder of vectors cannot be used.
        SettingsError: batches are too small for the processes.
    """

    def __init__(self, start: Start[DistillationSettings]) -> None:
        super().__init__(start)
        settings, training, processes = start.settings, self._training, self._processes
        self.teacher = read_teacher(settings.teachers, self._corpus, settings.corpus.name)
        corpora, held_out = self._hold_out(settings)
        self.documents, self._corpora = sum(map(len, corpora)), len(corpora)
        self._held_out_documents = sum(map(len, held_out))
        collator = DistillationCollator(self.teacher, self._config.vector_graph, self._vectors)

        def batches_of() -> CorpusBatches:
            return CorpusBatches(
                self._corpus.passage_counts,
                training.batch_size,
                training.seed,
                processes.rank,
                processes.count,
                corpora=corpora,
            )

        self._load(batches_of, collator)
        self.held_out = [
            collator([(self._corpus[row], 0, row) for row in part.tolist()])
            for own in held_out
            for part in np.array_split(own, max(1, round(len(own) / training.batch_size)))
        ]

    def describe(self) -> list[str]:
        """What there is to train on, in lines."""
        return [
            self.report.summary(),
            f"{self.documents:,} documents of {self._corpora:,} {'corpus' if self._corpora == 1 else 'corpora'} to "
            f"train on, {self._held_out_documents:,} held out",
            f"the teacher has {len(self.teacher.vectors):,} vectors of {self.teacher.vectors.shape[1]:,} numbers of "
            f"their {self.teacher.level}s",
        ]

    def record(self) -> dict[str, Any]:
        """What a run writes down about its data."""
        return {**self._corpus.record(), "teacher": self.teacher.content, "held_out": self._held_out_documents}

    def _hold_out(self, settings: DistillationSettings) -> tuple[list[Rows], list[Rows]]:
        """Rows of every corpus that are trained on, and rows that are held out, two at least to be compared."""
        share, training, held_out = settings.evaluation.held_out, [], []
        for number in np.unique(self.teacher.folder_of).tolist():
            rows = np.flatnonzero(self.teacher.folder_of == number)
            order = random_generator(settings.training.seed, "held out", number).permutation(rows)
            count = max(2, round(len(rows) * share)) if share else 0
            if count >= len(rows):
                raise DocumentError(
                    f"teacher={settings.teachers[number]} has vectors of {counted(len(rows), 'document')} to train "
                    f"on, of which {count} are held out (evaluation.held_out), and none is left; give more "
                    "documents, or set evaluation.held_out=0"
                )
            training.append(np.sort(order[count:]))
            if count:
                held_out.append(np.sort(order[:count]))
        return training, held_out
