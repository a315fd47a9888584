"""What all recipes share: the data of a corpus, pairs of its documents, and measuring a model meanwhile."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack

import numpy as np
import numpy.typing as npt
import torch

from ..corpus.corpus import TrainingCorpus, prepare_run_corpus
from ..corpus.document import CorpusReport, split_of
from ..corpus.parts import PassageVectors, frozen_vectors
from ..corpus.source import CorpusSource
from ..documents.document import Document
from ..encoder import DocumentEncoder
from ..errors import DocumentError, SettingsError
from ..evaluation.evaluator import Evaluator
from ..graphs.batch import GraphBatch, TokenIds
from ..graphs.joined_graphs import JoinedGraphs
from ..graphs.packing import Packing
from ..inference.precision import Precision, computed_in
from ..losses import ONE_PROCESS, Loss
from ..runtime.processes import place
from ..sampling.batches import DocumentBatches, Rows
from ..settings.run import RunSettings, TrainingSettings
from ..training.data import Collate, Corpus, EpochLoader, TaskData, TrainingBatch, TrainingExample
from ..training.loop import RunEvaluation
from ..training.objectives import Objective
from ..training.optimizer import finish_tuning
from ..training.run import Recipe, RunContext, join_run, load_start, require_startable, run_recipe
from ..training.step import CachedStep

Settings = TypeVar("Settings", bound=RunSettings)
AnyEvaluator = TypeVar("AnyEvaluator", bound=Evaluator)
VectorsOfDocuments = Sequence[npt.NDArray[np.float32]]


class RunOptions(TypedDict, total=False):
    """What a run is given beside its settings.

    Args:
        resume: go on with the run in the output folder from its last checkpoint.
        device: where to train; None takes an accelerator if there is one.
        show_progress: show bars; None shows them on a terminal.
        encoder: a model in hand, which is trained instead of the one that the settings name.
        loss: a loss in hand, instead of that of the settings.
        evaluate: measures the model meanwhile, instead of what the settings say, by the number that it has as
            ``best``.
    """

    resume: bool
    device: str | torch.device | None
    show_progress: bool | None
    encoder: DocumentEncoder | None
    loss: Loss | None
    evaluate: Evaluator | None


def train(settings: Settings, make: Callable[[RunContext[Settings]], Recipe], **options: Unpack[RunOptions]) -> Path:
    """Train a model by a recipe, alone or as one of the processes that a launcher started.

    Args:
        settings: the settings.
        make: makes the recipe of the model that the run starts from.
        options: see :class:`RunOptions`.

    Returns:
        Folder of the trained model.

    Raises:
        GraphdocError: what the user can mend; the message says how.
    """
    given, evaluate = options.get("encoder"), options.get("evaluate")
    device = options.get("device")
    if given is not None and device is None:
        device = given.device
    with join_run(settings.training, device) as processes:
        if given is None:
            encoder = load_start(settings.model, processes.device, settings.similarity)
            encoder.name = settings.folder.name
        else:
            encoder = given
            place(encoder.model, processes.device)
            encoder.model.config.similarity = settings.similarity
        require_startable(encoder, settings.model)
        evaluation = None
        if evaluate is not None:
            evaluation = RunEvaluation(partial(evaluate, encoder), evaluate.best, evaluate.greater_is_better)
        context = RunContext(
            settings, encoder, processes, options.get("show_progress"), options.get("loss"), evaluation
        )
        try:
            return run_recipe(context, make, options.get("resume", False))
        finally:
            if given is not None:
                finish_tuning(encoder.model)


class Examples:
    """Documents of a corpus by the numbers of something that is made of them, such as pairs.

    Args:
        corpus: the documents.
        rows: ``(examples,)``, the row of the document of every example.
        counts: ``(examples,)``, how long each is; None for the passages of its document.
        places: ``(examples,)``, the passage that each is, where it is one; None for whole documents.
    """

    def __init__(
        self, corpus: TrainingCorpus, rows: Rows, counts: Rows | None = None, places: Rows | None = None
    ) -> None:
        self._corpus, self._rows, self._places = corpus, rows, places
        self.passage_counts: Rows = corpus.passage_counts[rows] if counts is None else counts

    def __len__(self) -> int:
        """Number of examples."""
        return len(self._rows)

    def __getitem__(self, number: int) -> TrainingExample:
        """The document, or passage, of an example."""
        row = int(self._rows[number])
        return self._corpus[row] if self._places is None else self._corpus.passage(row, int(self._places[number]))


class CorpusData(TaskData):
    """Batches of a corpus that was cut and tokenised once, as a function of the step alone.

    Args:
        run: settings, model and processes.

    Attributes:
        documents: documents to train on.
        batch_size: documents, or pairs, of a batch, over all processes; there once there are batches.
        steps: steps of the whole run; there once there are batches.
        loader: gives this process's share of every batch; there once the data is loaded.
    """

    def __init__(self, run: RunContext[Any]) -> None:
        self._run, self._training, self._processes = run, run.settings.training, run.processes
        self._source = run.settings.corpus
        self._config = run.encoder.model.config
        self._corpus = prepare_run_corpus(
            run.settings, run.encoder.segmenter, self._config.paragraph, run.processes, show_progress=run.show_progress
        )

    @property
    def corpus(self) -> TrainingCorpus:
        """The documents of the run, cut and tokenised."""
        return self._corpus

    @property
    def report(self) -> CorpusReport:
        """What was read, kept and left out."""
        return self._corpus.report

    @cached_property
    def vectors(self) -> PassageVectors | None:
        """Vectors of all passages, where the passage encoder is frozen; all processes have to ask for them."""
        run = self._run
        return frozen_vectors(run.settings, self._corpus, run.encoder, run.processes, run.show_progress)

    @abstractmethod
    def collator(self) -> Collate:
        """What makes batches of documents."""

    def plan(
        self,
        kind: Callable[..., DocumentBatches],
        counts: npt.NDArray[np.int64] | None = None,
        *,
        examples: Corpus | None = None,
        batch_size: int | None = None,
        across_epochs: bool = True,
        **options: Any,
    ) -> None:
        """Divide documents into batches.

        Args:
            kind: the kind of batches.
            counts: how long everything is that batches are made of; None for the passages of the examples.
            examples: what batches are made of; None for the documents of the corpus.
            batch_size: of a batch; None for that of the settings.
            across_epochs: see :class:`~graphdoc.training.data.EpochLoader`.
            **options: what the kind takes beside them.

        Raises:
            SettingsError: batches are too small for the processes.
        """
        training, processes = self._training, self._processes
        self._examples: Corpus = self._corpus if examples is None else examples
        self._across_epochs = across_epochs
        counts = self._examples.passage_counts if counts is None else counts
        try:
            self._batches = kind(
                counts, batch_size or training.batch_size, training.seed, processes.rank, processes.count, **options
            )
        except ValueError as error:
            raise SettingsError(f"{error}; use fewer processes or a larger batch_size") from error
        self.batch_size = self._batches.batch_size
        self.steps = training.max_steps or int(np.ceil(training.epochs * len(self._batches)))

    def load(self) -> None:
        """Encode passages once, where their encoder is frozen, and make the loader."""
        self.loader = EpochLoader(
            self._examples,
            self._batches,
            self.collator(),
            self._training.loading_processes,
            steps=self.steps,
            across_epochs=self._across_epochs,
        )

    def documents_of(self, rows: npt.NDArray[np.int64]) -> list[Document]:
        """Documents of the corpus with their whole texts, such as those that are measured, as they come in the source.

        Args:
            rows: ``(documents,)``, their places in the corpus.

        Raises:
            DocumentError: they are not where they were when the corpus was made ready.
        """
        labels, splits = self._corpus.labels, self._corpus.splits
        wanted: Counter[Any] = Counter()
        for row in rows.tolist():
            example = self._corpus[row]
            wanted[example.id, example.group, labels[row], splits[row]] += 1
        found = []
        for group, document in CorpusSource(self._source).documents(CorpusReport()):
            key = document.id, group, document.label, split_of(document)
            if wanted[key]:
                wanted[key] -= 1
                found.append(document)
        if missing := next(iter(+wanted), None):
            raise DocumentError(
                f"{self._source.name}: document {missing[0]!r} has changed since the corpus was made ready; start the "
                "run again"
            )
        return found


def vectors_at(passage_vectors: PassageVectors | None, rows: Sequence[int]) -> VectorsOfDocuments | None:
    """Vectors of the passages of some documents of a corpus, by their rows; None where there are none."""
    return None if passage_vectors is None else [passage_vectors.vectors_of(row) for row in rows]


def batch_of_parts(
    examples: Sequence[TrainingExample],
    parts: Sequence[tuple[int, Rows]],
    graphs: JoinedGraphs,
    passage_vectors: VectorsOfDocuments | None,
    **sections: Any,
) -> GraphBatch:
    """Put the graphs of parts of documents together.

    Args:
        examples: the documents.
        parts: the number of a document, and some of its passages in the order of the nodes.
        graphs: the graphs of the parts.
        passage_vectors: pooled vectors of every document's passages, ``(passages, encoder hidden)`` each, which then
            go along instead of token ids.
        sections: see :meth:`~graphdoc.graphs.batch.GraphBatch.from_graphs`.
    """
    if passage_vectors is not None:
        vectors = [passage_vectors[number][rows] for number, rows in parts]
        return GraphBatch.from_graphs(graphs, (), passage_vectors=vectors, **sections)
    token_ids: list[TokenIds] = []
    for number, rows in parts:
        token_ids.extend(examples[number].token_ids[row] for row in rows.tolist())
    return GraphBatch.from_graphs(graphs, tuple(token_ids), **sections)


def prepared_once(run: RunContext[Any], read: Callable[[], AnyEvaluator | None]) -> Callable[[], AnyEvaluator | None]:
    """Read an evaluator, and prepare its documents when it is first asked for; in the first process, which measures.

    Args:
        run: settings, model and processes.
        read: reads the evaluator's documents; may give None.

    Returns:
        Gives the evaluator, whose documents are cut once, and encoded once where the passage encoder is frozen.
    """
    found: list[AnyEvaluator | None] = []
    run.processes.run_first(lambda: found.append(read()))

    @cache
    def ready() -> AnyEvaluator | None:
        (evaluator,) = found
        is_frozen = run.settings.model.tune == "frozen"
        return None if evaluator is None else evaluator.prepared(run.encoder, encode_passages=is_frozen)

    return ready


def transformer_precision(training: TrainingSettings) -> Precision | None:
    """Precision that the transformer is measured in, which is that of training; None is that of its weights."""
    return None if training.precision == "float32" else training.precision


def measuring_step(run: RunContext[Any], objective: Objective) -> CachedStep:
    """The step of a run as it is measured: by this process alone, since the others wait for it."""
    training, model = run.settings.training, run.encoder.model
    precision = transformer_precision(training)
    return CachedStep(
        model,
        objective,
        precision=lambda: computed_in(precision, model.passage_encoder, "the model"),
        packing=Packing.on(model.device, training.token_budget, training.padding),
        gather=ONE_PROCESS,
    )


class HeldOutEvaluation:
    """Loss and accuracy on documents that are not trained on, always in the same batches and sub-documents.

    Args:
        step: measures a batch (see :func:`measuring_step`).
        batches: gives the documents.
    """

    def __init__(self, step: CachedStep, batches: Callable[[], Sequence[TrainingBatch]]) -> None:
        self._step, self._batches = step, cache(batches)

    def __call__(self) -> dict[str, float]:
        """Measure the model, which is in eval mode."""
        sums: Counter[str] = Counter()
        documents = 0
        for batch in self._batches():
            result = self._step.measure(batch)
            measured = {"loss": result.loss, **result.metrics}
            # How many pairs are no negatives says something of the documents, not of the model.
            measured.pop("left_out_share", None)
            for name, value in measured.items():
                sums[name] += float(value) * len(batch)  # type: ignore[assignment]
            documents += len(batch)
        return {name: value / documents for name, value in sums.items()}
