"""Measuring learned subtopics on labelled pairs while they are trained."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from ..corpus.prepare import training_segmenter
from ..evaluation.pair_scores import pair_auc
from ..evaluation.pairs import require_both_labels
from ..inference.pipeline import StreamOptions
from ..inference.sentences import sentence_segmenter
from ..losses.clustering import ClusterTerms
from ..runtime.text import counted
from ..segmentation.spans import Coverage
from ..settings.subtopics import SubtopicRunSettings
from ..subtopics.pair_graphs import Vectors
from ..training.batch import TrainingBatch
from ..training.loop import RunEvaluation
from ..training.subtopics import SubtopicClusters, paired_sentences
from .base import Start, transformer_precision
from .held_out import measuring_step
from .pair_validation import validation_pairs
from .subtopic_data import subtopic_batch

# Pairs that are measured at once.
BATCH_PAIRS = 256


@dataclass(frozen=True)
class MeasuredPair:
    """A pair that is measured.

    Args:
        ids: ids of its documents.
        label: 1 for documents that are similar, else 0.
    """

    ids: tuple[str, str]
    label: int


class SubtopicValidation:
    """The validation pairs of a run, with the vectors of their sentences, made once in the first process.

    Args:
        start: what the recipe begins with; its settings have ``validation.pairs``.
        objective: what is trained.

    Attributes:
        pairs: the pairs, each once; there in the first process.
        left_out: how many are not measured, by reason.

    Raises:
        DocumentError: a document of a pair is not there, is there twice or has no text.
        EvaluationError: pairs do not have both labels.
    """

    pairs: list[MeasuredPair]
    left_out: dict[str, int]
    _coverage: Coverage

    def __init__(self, start: Start[SubtopicRunSettings], objective: SubtopicClusters) -> None:
        self._start, self._objective = start, objective
        self._vectors: dict[str, Vectors] = {}
        start.processes.run_first(self._read)

    def _read(self) -> None:
        settings, encoder = self._start.settings, self._start.encoder
        segmenter = training_segmenter(sentence_segmenter(encoder, with_context=False), settings.corpus)
        given, documents = validation_pairs(settings.validation, settings.corpus, segmenter)
        kept = given.among(documents, "leave_out")
        apart = kept.chosen([number for number, pair in enumerate(kept) if pair.a != pair.b])
        require_both_labels(apart, len(given))
        self.pairs = [MeasuredPair((pair.a, pair.b), pair.label) for pair in apart]
        self.left_out = {
            "of unknown documents": len(given) - len(kept),
            "with themselves": len(kept) - len(apart),
        }
        wanted = {id for pair in self.pairs for id in pair.ids}
        cut = [document for id, document in documents.items() if id in wanted]
        precision = transformer_precision(settings.training)
        self._coverage = Coverage()
        options: StreamOptions = {
            "dtype": precision,
            "token_budget": settings.training.token_budget,
            "padding": settings.training.padding,
            "show_progress": self._start.show_progress,
            "totals": self._coverage,
        }
        for document in encoder.with_passage_vectors(cut, **options):
            assert document.passage_vectors is not None
            self._vectors[document.document.id] = document.passage_vectors

    def evaluation(self) -> RunEvaluation:
        """How a run measures its model."""
        validation = self._start.settings.validation
        return RunEvaluation(self.measure, validation.best, validation.best == "auc", validation.at_start)

    def measure(self) -> Mapping[str, float]:
        """Measure the model, which is in eval mode.

        Returns:
            ``loss``; the terms ``modularity`` and ``collapse`` over all pairs, ``similar_divergence`` over those that
            are similar and ``dissimilar_orthogonality`` over the others; ``similar_shared`` and
            ``dissimilar_shared``, the mean mass that both documents have in the same subtopics; ``auc``, the
            probability that this mass is larger for a similar pair than for another one.
        """
        step = measuring_step(self._start, self._objective)
        found: list[ClusterTerms] = []
        for first in range(0, len(self.pairs), BATCH_PAIRS):
            batch = self._batch(self.pairs[first : first + BATCH_PAIRS])
            rows = step.measure(batch).rows
            assert rows is not None
            found.append(
                self._objective.clusters.terms(rows.cpu(), paired_sentences(batch.graphs, batch.targets["columns"]))
            )
        terms = ClusterTerms(*(torch.cat(parts) for parts in zip(*found, strict=True)))
        labels = torch.tensor([pair.label for pair in self.pairs])
        similar = labels == 1
        return {
            "loss": float(self._objective.clusters.of_terms(terms, labels).mean()),
            "auc": pair_auc(labels.numpy(), terms.shared.numpy().astype(np.float64)),
            "modularity": float(terms.modularity.mean()),
            "collapse": float(terms.collapse.mean()),
            "similar_divergence": float(terms.divergence[similar].mean()),
            "dissimilar_orthogonality": float(terms.orthogonality[~similar].mean()),
            "similar_shared": float(terms.shared[similar].mean()),
            "dissimilar_shared": float(terms.shared[~similar].mean()),
        }

    def _batch(self, pairs: list[MeasuredPair]) -> TrainingBatch:
        clustering = self._start.encoder.model.config.clustering
        assert clustering is not None
        vectors = [(self._vectors[pair.ids[0]], self._vectors[pair.ids[1]]) for pair in pairs]
        return subtopic_batch(vectors, [pair.label for pair in pairs], [pair.ids[0] for pair in pairs], clustering)

    def describe(self, trained: Collection[str]) -> str:
        """What is measured, in a line; in the first process.

        Args:
            trained: ids of the documents that are trained on.
        """
        line = f"{counted(len(self.pairs), 'pair')} of {len(self._vectors):,} documents to measure"
        left_out = [f"{count:,} {reason}" for reason, count in self.left_out.items() if count]
        line += f"; left out: {', '.join(left_out)}" if left_out else ""
        if beyond := self._coverage.passages - self._coverage.encoded_passages:
            line += f"; {counted(beyond, 'sentence')} of them beyond corpus.max_passages"
        seen = len(set(self._vectors).intersection(trained))
        return line + (f"; {seen:,} of these documents are trained on too" if seen else "")
