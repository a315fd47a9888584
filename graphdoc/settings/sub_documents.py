"""The settings of contrastive pretraining."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ..losses import SubDocumentContrast
from ..sampling import Split
from .corpus import CorpusSettings
from .output_folder import output_folder, require_usable_output
from .training import ModelSettings, TrainingSettings, require_used_rates

# What is measured of documents that are held out.
HELD_OUT_NUMBERS = ("accuracy", "embedding_norm", "loss", "negative_similarity", "positive_similarity", "spread")


@dataclass(frozen=True)
class EvaluationSettings:
    """What a run is measured by while it goes on.

    Args:
        held_out: share of the corpus that is not trained on but measured: its loss and the accuracy of telling its
            documents apart, always on the same sub-documents.
        data: labelled documents whose field ``split`` is train or test, for k-means clustering of the test part; None
            for no clustering.
        train: labelled documents that k-means is fitted on, instead of ``data``.
        test: labelled documents that it is applied to.
        pairs: file of labelled pairs among them, ``id_a id_b label`` separated by tabs.
        seeds: how many seeds of k-means.
        at_start: also measure before the first step.
        best: number by which the best checkpoint is told; None takes ``nmi`` if there is clustering, or else ``loss``.

    Raises:
        ValueError: a value is out of range.
    """

    held_out: float = 0.0
    data: str | None = None
    train: str | None = None
    test: str | None = None
    pairs: str | None = None
    seeds: int = 3
    at_start: bool = True
    best: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.held_out < 1:
            raise ValueError(f"held_out={self.held_out} must be at least 0 and below 1")
        if self.seeds < 1:
            raise ValueError(f"seeds={self.seeds} must be at least 1")
        if (self.train is None) != (self.test is None):
            raise ValueError("evaluation.train and evaluation.test belong together; give both or none")
        if self.data is not None and self.train is not None:
            raise ValueError("evaluation.data and evaluation.train are both given; leave one of them out")
        if self.pairs is not None and not self.clusters:
            raise ValueError("evaluation.pairs needs the documents; give evaluation.data, or train and test")
        if self.best is not None and not self.measures:
            raise ValueError(
                f"evaluation.best={self.best} needs an evaluation; give held_out, data, or train and test"
            )
        if self.best is not None and self.best not in self.numbers:
            raise ValueError(f"evaluation.best={self.best} is not measured; there are {', '.join(self.numbers)}")

    @property
    def clusters(self) -> bool:
        """Whether labelled documents are clustered."""
        return self.data is not None or self.train is not None

    @property
    def numbers(self) -> list[str]:
        """Names of what is measured."""
        clustering = [*(["pair_auc"] if self.pairs is not None else []), "nmi", "purity"] if self.clusters else []
        return sorted([*(HELD_OUT_NUMBERS if self.held_out else ()), *clustering])

    @property
    def measures(self) -> bool:
        """Whether anything is measured while the run goes on."""
        return self.clusters or self.held_out > 0


@dataclass(frozen=True)
class PretrainingSettings:
    """Everything about a pretraining run (Graph-RoBERTa, sections 2.2 and 3); the defaults are the paper's.

    Args:
        corpus: the documents.
        model: what is trained, and where it starts.
        split: how documents are split into sub-documents, ``half`` or ``one_passage``.
        loss: how sub-documents are told apart.
        training: how long and how.
        evaluation: what is measured meanwhile.
        output: folder of the run; the trained model is its folder ``model``.

    Raises:
        ValueError: settings do not fit together.
    """

    corpus: CorpusSettings
    model: ModelSettings = field(default_factory=ModelSettings)
    split: Split = "half"
    loss: SubDocumentContrast = field(default_factory=SubDocumentContrast)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    output: str = "runs/pretraining"

    def __post_init__(self) -> None:
        require_usable_output(self.output, self.corpus)
        require_used_rates(self.model, self.training)
        if self.corpus.least_passages < 2:
            raise ValueError(
                f"corpus.least_passages={self.corpus.least_passages} keeps documents that cannot be split in two; set "
                "it to 2 or more"
            )
        if self.training.batch_size < 2:
            raise ValueError(
                f"training.batch_size={self.training.batch_size} leaves no other document to tell a document from; "
                "set it to 2 or more"
            )
        if self.training.patience is not None and not self.evaluation.measures:
            raise ValueError(
                f"training.patience={self.training.patience} needs an evaluation; give evaluation.held_out, data, or "
                "train and test"
            )

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return output_folder(self.output)
