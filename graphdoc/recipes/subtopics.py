"""Learning the subtopics of pairs of documents (SST, section 3.2, "Adaptive Clustering")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
import torch

from ..corpus.document import TrainingDocument
from ..corpus.parts import PassageVectors
from ..corpus.source import training_segmenter
from ..documents.readers.pair_files import LabelledPair, Pairs, read_pair_file
from ..encoder import DocumentEncoder
from ..errors import SettingsError
from ..evaluation.pair_scores import pair_auc
from ..evaluation.pairs import require_both_labels
from ..inference.levels import sentence_segmenter
from ..inference.precision import training_precision
from ..losses import SubtopicLoss
from ..losses.clustering import ClusterTerms
from ..modeling.graph_attention import GraphAttention
from ..runtime.arrays import Rows, Vectors
from ..runtime.processes import interleaved, share_of
from ..sampling.batches import BalancedPairBatches
from ..segmentation.spans import Coverage, SegmentedDocument
from ..settings.document import ClusteringSettings
from ..settings.finetuning import SubtopicRunSettings
from ..subtopics.subtopics import columns_of, number_of_subtopics, pair_graphs
from ..training.objectives import SubtopicObjective, TrainingBatch, paired_sentences
from ..training.recipe import RunEvaluation
from ..training.run import RunContext, begin_training
from .base import CorpusRecipe, Examples, LossSettings, measuring_step
from .pairs import CorpusPairs, PairValidation


def begin_subtopics(encoder: DocumentEncoder, settings: SubtopicRunSettings) -> None:
    """Give a model the head that puts sentences into subtopics, where it has none of the same kind.

    Documents are cut into sentences from then on, and their vectors stay what they were: means of passage vectors
    before the graph, which no pair is needed for.

    Raises:
        SettingsError: the model has no graph layers, or its vectors depend on them.
    """
    model = encoder.model
    config, subtopics = model.config, settings.subtopics
    wrong = {
        "graph_layers=0: subtopics are read off graph layers; set it to 1 or more": not config.graph_layers,
        f"readout={config.readout} reads graphs of single documents, not of pairs; set it to initial_mean": (
            not model.reads_initial_nodes
        ),
        "structural_embeddings=true: sentences have none; set it to false": config.structural_embeddings,
    }
    if reason := next((reason for reason, is_so in wrong.items() if is_so), None):
        raise SettingsError(f"model.settings.{reason}")
    field = settings.corpus.max_passages
    wanted = ClusteringSettings(
        columns=number_of_subtopics(2 * field, subtopics.cluster_size), neighbours=subtopics.neighbours,
        receptive_field=field, cluster_size=subtopics.cluster_size,
    )  # fmt: skip
    # A head for classes would read vectors of other passages.
    model.remove_head(subtopics=False)
    if config.subtopics != wanted.as_values():
        model.add_subtopic_head(wanted)
    was_trained = config.trained
    begin_training(encoder, settings.model, subtopics=True)
    # All sentences share it, and the head takes off what they share: its gradient is nothing but rounding.
    cast(GraphAttention, model.graph.layers[-1]).conv.bias.requires_grad_(False)
    config.unit = "sentence"
    # What is trained here are subtopics, not the vectors of documents.
    config.trained = was_trained


def subtopic_batch(
    pairs: Sequence[tuple[Vectors, Vectors]], labels: Sequence[int], ids: Sequence[str], settings: ClusteringSettings
) -> TrainingBatch:
    """Put vectors of the sentences of pairs into a batch, with the targets ``label`` and ``columns``, ``(pairs,)``."""
    columns = [columns_of(len(first) + len(second), settings) for first, second in pairs]
    targets = {"label": torch.tensor(labels), "columns": torch.tensor(columns)}
    return TrainingBatch(pair_graphs(pairs, settings.neighbours), tuple(ids), targets)


@dataclass(frozen=True)
class SubtopicCollator:
    """Makes batches of pairs, in the processes that load ahead.

    Args:
        vectors: vectors of the sentences of all documents.
        rows: ``(pairs, 2)``, rows of both documents of every pair.
        labels: ``(pairs,)``, 1 for pairs that are similar, else 0.
        settings: those of the model.
    """

    vectors: PassageVectors
    rows: Rows
    labels: Rows
    settings: ClusteringSettings

    def __call__(self, places: Sequence[tuple[TrainingDocument, int, int]]) -> TrainingBatch:
        """Make a batch of pairs."""
        numbers = [number for _, _, number in places]
        pairs = [tuple(self.vectors.vectors_of(row) for row in self.rows[number].tolist()) for number in numbers]
        ids = [example.id for example, _, _ in places]
        return subtopic_batch(pairs, self.labels[numbers].tolist(), ids, self.settings)  # type: ignore[arg-type]


class SubtopicRecipe(CorpusRecipe[SubtopicRunSettings]):
    """Trains a model to find the subtopics of labelled pairs, half of the pairs of a batch similar.

    Raises:
        DocumentError: pairs name documents that are not there.
        EvaluationError: pairs do not have both labels.
        SettingsError: the model has no graph that subtopics are read off, or batches are too small for the processes.
    """

    summary = "Subtopics of pairs of documents (SST, section 3.2)"
    batch_unit = "pairs"
    losses: ClassVar = {SubtopicLoss: LossSettings(SubtopicObjective, ("similar_weight", "dissimilar_weight"))}

    def begin(self) -> None:
        """Give the model its head, make the objective, and read the pairs."""
        run = self.run
        self.objective = cast(SubtopicObjective, self.objective_of(self.settings.loss, run.loss))
        begin_subtopics(run.encoder, run.settings)
        self._validation = SubtopicValidation(run, self.objective)
        self.evaluation = self._validation.evaluation
        self._listed = read_pair_file(self.settings.pairs.file or "")

    def divide(self) -> None:
        """Find the documents of the pairs, and plan the batches."""
        unknown = self.settings.pairs.on_unknown
        self._pairs = CorpusPairs.from_pairs(self.corpus, self._listed, unknown, setting="pairs.unknown=leave_out")
        rows = self._pairs.rows
        sentences, firsts = self.corpus.passage_counts[rows].sum(axis=1), Examples(self.corpus, rows[:, 0])
        self.plan(BalancedPairBatches, sentences, examples=firsts, labels=self._pairs.labels)

    def load(self) -> None:
        """Encode the sentences to train on and those to measure, and make the loader."""
        super().load()
        self._validation.encode()

    def collator(self) -> SubtopicCollator:
        """The collator, which makes graphs of pairs."""
        clustering = self.config.clustering
        assert self.vectors is not None and clustering is not None
        return SubtopicCollator(self.vectors, self._pairs.rows, self._pairs.labels, clustering)

    def counts(self) -> dict[str, Any]:
        """Counts of the training and validation data."""
        return {**self._pairs.counts(), **self._validation.counts(self._pairs.ids)}


# Pairs that are measured at once.
BATCH_PAIRS = 256


class SubtopicValidation(PairValidation):
    """The validation pairs of a run; each process measures a share of them, whose sentences it encodes once.

    Attributes:
        pairs: the pairs, each once.
    """

    pairs: tuple[LabelledPair, ...]

    def __init__(self, run: RunContext[SubtopicRunSettings], objective: SubtopicObjective) -> None:
        self._objective, self._vectors = objective, dict[str, Vectors]()
        sentences = sentence_segmenter(run.encoder, with_context=False)
        super().__init__(run, training_segmenter(sentences, run.settings.corpus))

    def use(self, pairs: Pairs, documents: Mapping[str, SegmentedDocument]) -> None:
        """Take the pairs and their documents, by id."""
        known = pairs.among(documents, "leave_out")
        distinct = known.select([number for number, pair in enumerate(known) if pair.a != pair.b])
        require_both_labels(distinct, len(pairs))
        self.pairs, self._own = distinct.pairs, distinct.pairs[share_of(self.run.processes)]
        self._count(distinct, {"unknown": len(pairs) - len(known), "with themselves": len(known) - len(distinct)})
        own = {id for pair in self._own for id in (pair.a, pair.b)}
        self._documents = [document for id, document in documents.items() if id in own]
        measured = (document.coverage for id, document in documents.items() if id in self.ids)
        beyond = sum(coverage.passages - coverage.encoded_passages for coverage in measured)
        self.measured = {**self.measured, "sentences beyond corpus.max_passages": beyond}
        best = self.settings.validation.best
        self.evaluation = RunEvaluation(self.measure, best, best == "auc", size=len(self.pairs))

    def encode(self) -> None:
        """Make the vectors of the sentences of this process."""
        if not self.settings.is_measured:
            return
        training = self.settings.training
        for document in self.run.encoder.with_passage_vectors(
            self._documents, dtype=training_precision(self.run.encoder.device), token_budget=training.token_budget,
            padding=training.padding, show_progress_bar=self.run.show_progress_bar, totals=Coverage(),
        ):  # fmt: skip
            assert document.passage_vectors is not None
            self._vectors[document.document.id] = document.passage_vectors

    def measure(self) -> Mapping[str, float]:
        """Measure the model, which is in eval mode: the loss, its terms, and the subtopics that both documents have.

        ``modularity`` and ``collapse`` are means over all pairs, ``similar_`` and ``dissimilar_`` ones over those;
        ``shared`` is the mass that both documents have in the same subtopics, and ``auc`` the probability that it is
        larger for a similar pair than for another one.
        """
        step = measuring_step(self.run, self._objective)
        own: list[tuple[float, ...]] = []
        for first in range(0, len(self._own), BATCH_PAIRS):
            batch = self._batch(self._own[first : first + BATCH_PAIRS])
            rows = step.measure(batch).rows
            assert rows is not None
            terms = self._objective.criterion.terms(
                rows.cpu(), paired_sentences(batch.graphs, batch.targets["columns"])
            )
            own += zip(*(part.tolist() for part in terms), strict=True)
        of_all = interleaved(self.run.processes.gather(own))
        terms = ClusterTerms(*(torch.tensor(part) for part in zip(*of_all, strict=True)))
        labels = torch.tensor([pair.label for pair in self.pairs])
        similar = labels == 1
        return {
            "loss": float(self._objective.criterion.of_terms(terms, labels).mean()),
            "auc": pair_auc(labels.numpy(), terms.shared.numpy().astype(np.float64)),
            "modularity": float(terms.modularity.mean()),
            "collapse": float(terms.collapse.mean()),
            "similar_divergence": float(terms.divergence[similar].mean()),
            "dissimilar_orthogonality": float(terms.orthogonality[~similar].mean()),
            "similar_shared": float(terms.shared[similar].mean()),
            "dissimilar_shared": float(terms.shared[~similar].mean()),
        }

    def _batch(self, pairs: Sequence[LabelledPair]) -> TrainingBatch:
        clustering = self.run.encoder.model.config.clustering
        assert clustering is not None
        vectors = [(self._vectors[pair.a], self._vectors[pair.b]) for pair in pairs]
        return subtopic_batch(vectors, [pair.label for pair in pairs], [pair.a for pair in pairs], clustering)
