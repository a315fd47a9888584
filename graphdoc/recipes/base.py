"""The base of all recipes: the data of a corpus, documents that are held out, and measuring a model during training."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, ClassVar, Generic, Self, cast

import numpy as np
import numpy.typing as npt

from ..corpus.corpus import TrainingCorpus, prepare_run_corpus
from ..corpus.document import CorpusReport, TrainingDocument
from ..corpus.parts import PassageVectors, frozen_vectors
from ..corpus.source import CorpusSource
from ..documents.document import Document
from ..errors import DocumentError, SettingsError
from ..evaluation.evaluator import Evaluator
from ..evaluation.labels import split_of
from ..graphs.batch import GraphBatch
from ..graphs.kinds import JoinedGraphs
from ..losses import OWN_LOSSES, Loss
from ..losses.base import ONE_PROCESS
from ..modeling import DocumentConfig
from ..runtime.arrays import Rows
from ..sampling.batches import DocumentBatches, random_generator
from ..settings.base import Settings
from ..settings.run import CorpusSettings
from ..training.data import Collate, Corpus, EpochLoader
from ..training.objectives import Objective
from ..training.recipe import Recipe
from ..training.run import KindOfSettings, RunContext
from ..training.step import CachedStep

VectorsOfDocuments = Sequence[npt.NDArray[np.float32]]

# The draw of what is held out belongs to no epoch of training.
HELD_OUT_EPOCH = -1


class Examples:
    """Training examples that are documents of a corpus by their rows, or of each the passage at a place."""

    def __init__(self, corpus: TrainingCorpus, rows: Rows, places: Rows | None = None) -> None:
        self._corpus, self._rows, self._places = corpus, rows, places
        self.passage_counts: Rows = corpus.passage_counts[rows] if places is None else np.ones(len(rows), np.int64)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, number: int) -> TrainingDocument:
        row = int(self._rows[number])
        return self._corpus[row] if self._places is None else self._corpus.passage(row, int(self._places[number]))


@dataclass(frozen=True)
class LossSettings:
    """How a loss is trained by, and the settings that describe it, of the section ``loss``.

    Args:
        objective: what it looks at.
        attributes: names that are both a field of the loss and a key of the section.
        chosen_by: keys with the values that choose the loss.
        fixed: fields of the loss that are no key of the section, with the values that the task needs.
    """

    objective: Callable[[Any], Objective]
    attributes: tuple[str, ...] = ()
    chosen_by: Mapping[str, Any] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)


class CorpusRecipe(Recipe, Generic[KindOfSettings]):
    """A recipe on a corpus that was cut and tokenized once, whose batches are a function of the step alone.

    Args:
        run: what the run begins with: settings, model and processes.

    Attributes:
        losses: losses of this package that fit it, as settings describe them; one of the user's is used as it is.
    """

    losses: ClassVar[Mapping[type, LossSettings]] = {}

    corpus: TrainingCorpus

    @classmethod
    def from_run(cls, run: RunContext[KindOfSettings]) -> Self:
        """The recipe of a run, with its corpus."""
        recipe = cls(run)
        recipe.begin()
        segmenter, paragraph, bar = run.encoder.segmenter, recipe.config.paragraph, run.show_progress_bar
        recipe.corpus = prepare_run_corpus(run.settings, segmenter, paragraph, run.processes, show_progress_bar=bar)
        recipe.report = recipe.corpus.report
        recipe.divide()
        return recipe

    @classmethod
    def describe_losses(cls, losses: Sequence[Loss]) -> tuple[Loss | None, dict[str, Any]]:
        """Return the loss that the settings cannot describe, and the settings that describe the others.

        Raises:
            SettingsError: there are more losses than are added up, or one is for another task or has a value that
                this one cannot be trained with.
        """
        if len(losses) > 1:
            raise SettingsError(f"loss={[type(loss).__name__ for loss in losses]}: only one can be trained with")
        for loss in losses:
            if kind := next((kind for kind in cls.losses if isinstance(loss, kind)), None):
                described = cls.losses[kind]
                for name, value in described.fixed.items():
                    if (found := getattr(loss, name)) != value:
                        raise SettingsError(f"loss={type(loss).__name__}: {name}={found!r} has to be {value!r} here")
                of_loss = {name: getattr(loss, name) for name in described.attributes}
                is_described = loss == kind(**of_loss, **described.fixed)
                return None if is_described else loss, {**described.chosen_by, **of_loss}
            if isinstance(loss, OWN_LOSSES):
                fitting = ", ".join(kind.__name__ for kind in cls.losses)
                raise SettingsError(f"loss={type(loss).__name__} is for another task; this one trains with {fitting}")
        return next(iter(losses), None), {}

    @classmethod
    def objective_of(
        cls, settings: Settings, custom: Loss | None = None, kind: Callable[[Any], Objective] | None = None
    ) -> Objective:
        """The objective of a section ``loss``, or of another kind, with the loss that it describes or a custom one.

        Raises:
            SettingsError: the objective needs a loss of another class.
        """
        values = settings.as_values()
        usual, described = next(line for line in cls.losses.items() if line[1].chosen_by.items() <= values.items())
        objective = kind or described.objective
        loss = custom or usual(**{name: values[name] for name in described.attributes}, **described.fixed)
        if not isinstance(loss, takes := getattr(objective, "takes", object)):
            raise SettingsError(f"loss={type(loss).__name__} has to be {takes.__name__} here, or to extend it")
        return objective(loss)

    def __init__(self, run: RunContext[KindOfSettings]) -> None:
        self.run, self.settings = run, run.settings
        self.config = cast(DocumentConfig, run.encoder.model.config)

    @abstractmethod
    def begin(self) -> None:
        """Change the model and refuse mistakes, before a corpus is cut, which takes longer than finding them."""

    @abstractmethod
    def divide(self) -> None:
        """Find the documents that are trained on and those that are measured, and plan the batches."""

    @cached_property
    def vectors(self) -> PassageVectors | None:
        """Vectors of all passages, where the passage encoder is frozen; all processes have to ask for them."""
        run = self.run
        return frozen_vectors(run.settings, self.corpus, run.encoder, run.processes, run.show_progress_bar)

    @abstractmethod
    def collator(self) -> Collate:
        """The collator, which makes batches in the processes that load ahead."""

    def record(self) -> dict[str, Any]:
        """Description of the data for the record of a run."""
        return {**self.corpus.record(), **self.counts()}

    def hold_out(self, share: float, least: int) -> tuple[Rows, Rows]:
        """Draw a share of the documents, which is measured, and leave ``least`` at least to train on.

        Returns:
            Rows of the documents that are trained on and of those that are held out, both ascending.

        Raises:
            DocumentError: fewer are left.
        """
        count = len(self.corpus)
        order = random_generator(self.settings.training.seed, "held out").permutation(count)
        held_out = max(2, round(count * share)) if share else 0
        if count - held_out < least:
            raise DocumentError(
                f"{self.settings.corpus.name}: {max(0, count - held_out)} of {count} documents are left to train on "
                f"after validation.share={share:g}, and {least} are needed ({self.report.summary()})"
            )
        return np.sort(order[held_out:]), np.sort(order[:held_out])

    def plan(
        self,
        kind: Callable[..., DocumentBatches],
        counts: Rows | None = None,
        *,
        examples: Corpus | None = None,
        batch_size: int | None = None,
        across_epochs: bool = True,
        **options: Any,
    ) -> None:
        """Divide documents into batches.

        Args:
            kind: the kind of batches.
            counts: length of each example; None for its number of passages.
            examples: what batches consist of; None for the documents of the corpus.
            batch_size: of a batch; None for that of the settings.
            across_epochs: see :class:`~graphdoc.training.data.EpochLoader`.
            **options: further arguments of the kind.

        Raises:
            SettingsError: batches are too small for the processes.
        """
        training, processes = self.settings.training, self.run.processes
        self._examples: Corpus = self.corpus if examples is None else examples
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
        workers, across_epochs = self.settings.training.dataloader_num_workers, self._across_epochs
        self.loader = EpochLoader(
            self._examples, self._batches, self.collator(), workers, steps=self.steps, across_epochs=across_epochs
        )

    def documents_of(self, rows: Rows) -> list[Document]:
        """Documents of the corpus with their whole texts, by their rows, as they come in the source.

        Raises:
            DocumentError: they are not where they were when the corpus was made ready.
        """
        labels, splits = self.corpus.labels, self.corpus.splits
        wanted: Counter[Any] = Counter()
        for row in rows.tolist():
            example = self.corpus[row]
            wanted[example.id, example.group, labels[row], splits[row]] += 1
        documents = []
        source = CorpusSource(self.settings.corpus, self.settings.leaves_out_first_sentence)
        for group, document in source.documents(CorpusReport()):
            key = document.id, group, document.label, split_of(document)
            if wanted[key]:
                wanted[key] -= 1
                documents.append(document)
        if missing := next(iter(+wanted), None):
            raise changed_since(self.settings.corpus, missing[0])
        return documents


def changed_since(corpus: CorpusSettings, id: str) -> DocumentError:
    """The error that a document is no longer what the prepared corpus was made of."""
    return DocumentError(f"{corpus.name}: document {id!r} has changed since the corpus was ready; start the run again")


def vectors_at(passage_vectors: PassageVectors | None, rows: Sequence[int]) -> VectorsOfDocuments | None:
    """Vectors of the passages of some documents of a corpus, by their rows; None where there are none."""
    return None if passage_vectors is None else [passage_vectors.vectors_of(row) for row in rows]


def batch_of_parts(
    examples: Sequence[TrainingDocument],
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
    token_ids = tuple(examples[number].token_ids[row] for number, rows in parts for row in rows.tolist())
    return GraphBatch.from_graphs(graphs, token_ids, **sections)


def prepared_once(run: RunContext[Any], evaluator: Evaluator) -> Callable[[], Mapping[str, float]]:
    """Measure a model by an evaluator, whose documents are shared by all processes.

    When it is first asked for, its documents are cut once, and encoded once where the passage encoder is frozen.
    """

    @cache
    def ready() -> Evaluator:
        encode_passages = run.settings.model.tune == "frozen"
        return evaluator.prepared(run.encoder, run.processes, encode_passages=encode_passages)

    return lambda: ready()(run.encoder, run.processes)


def measuring_step(run: RunContext[Any], objective: Objective) -> CachedStep:
    """The step that measures a run: every process has its own batches."""
    return CachedStep.from_settings(run.encoder.model, objective, run.settings.training, gather=ONE_PROCESS)
