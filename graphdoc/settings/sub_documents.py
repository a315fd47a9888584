"""The settings of contrastive pretraining."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from .base import FileName, Settings, Share
from .corpus import CorpusSettings, Passages
from .document import Similarity
from .run import RunSettings
from .training import TrainingSettings

Split = Literal["half", "one_passage"]
Directions = Literal["both", "one"]
# With less than this, exponents and gradients leave the range of float32.
LEAST_TEMPERATURE = 1e-4
Temperature = Annotated[float, Field(ge=LEAST_TEMPERATURE)]

# What is measured of documents that are held out.
HELD_OUT_NUMBERS = ("accuracy", "embedding_norm", "loss", "negative_similarity", "positive_similarity", "spread")


class ContrastSettings(Settings):
    """How the two sub-documents of a document are separated from those of others (Graph-RoBERTa, eq. 5-6)."""

    similarity: Similarity = "dot"
    """dot is the paper's; the trained model compares by it from then on"""
    temperature: Temperature = 1.0
    """what similarities are divided by; with cosine 0.05 to 0.35 are usual, with dot 1"""
    directions: Directions = "both"
    """both views look for the other, or one: the single passage for the rest of its document (section 3.3)"""
    mask_groups: bool = True
    """exact copies of a document are no negatives of it"""


class EvaluationSettings(Settings):
    """What a run is measured by while it goes on."""

    held_out: Share = 0.0
    """share of the corpus that is not trained on but measured, always on the same sub-documents"""
    data: FileName | None = None
    """labelled documents whose field split is train or test, for k-means clustering of the test part"""
    train: FileName | None = None
    """labelled documents that k-means is fitted on, instead of data"""
    test: FileName | None = None
    """labelled documents that it is applied to"""
    pairs: FileName | None = None
    """file of labelled pairs among them, id_a id_b label separated by tabs"""
    seeds: Annotated[int, Field(ge=1, le=10_000)] = 3
    """how many seeds of k-means"""
    at_start: bool = True
    """also measure before the first step"""
    best: str | None = None
    """number that decides which checkpoint is the best; null takes nmi if there is clustering, or else loss"""

    @model_validator(mode="after")
    def _check_documents(self) -> Self:
        for one, other in (("train", "test"), ("test", "train")):
            if getattr(self, one) is not None and getattr(self, other) is None:
                raise self.refused(one, f"needs {{here}}{other} too; give both or none")
            if getattr(self, one) is not None and self.data is not None:
                raise self.refused(one, f"and {{here}}data={self.data!r} are both given; leave one of them out")
        for name in ("pairs", "seeds"):
            self.require_effect(
                name, self.clusters, "without documents; give {here}data, or {here}train and {here}test"
            )
        if self.best is not None and self.best not in self.numbers:
            there = (
                f"there are {', '.join(self.numbers)}"
                if self.numbers
                else "give {here}held_out, data, or train and test"
            )
            raise self.refused("best", f"is not measured; {there}")
        return self

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


class DividedCorpusSettings(CorpusSettings):
    """A corpus whose documents can be divided in two."""

    least_passages: Annotated[Passages, Field(ge=2)] = 2
    """documents of fewer passages are skipped and counted; sub-documents need 2"""


class ContrastTrainingSettings(TrainingSettings):
    """How long and how a model is trained by contrast, which takes other documents."""

    batch_size: Annotated[int, Field(ge=2, le=10**7)] = 1536
    """documents that the loss compares with each other, over all processes"""


class PretrainingSettings(RunSettings):
    """Everything about a pretraining run (Graph-RoBERTa, sections 2.2 and 3); the defaults are the paper's.

    Train a document model without labels, by separating the halves of a document from those of others.

    All settings are in a YAML file; configs/pretrain/ holds recipes to start from. What follows the options
    as key=value replaces what the file says. The run's folder (output) gets checkpoints, the log, the
    settings and, in its folder model, the trained model for --model of all other commands.

    A run that was interrupted goes on from its last checkpoint with --resume; it then ends as if nothing had
    been. Several processes train together under accelerate launch or torchrun, with the same batches and the
    same result.
    """

    purpose: ClassVar[str] = "train a document model without labels"
    examples: ClassVar[str] = """examples:
  graphdoc pretrain --config configs/pretrain/quickstart.yaml
  graphdoc pretrain --config configs/pretrain/own_corpus.yaml corpus.source=papers/ output=runs/papers
  graphdoc pretrain --config configs/pretrain/own_corpus.yaml corpus.source=papers/ output=runs/papers --resume
  graphdoc pretrain --config configs/pretrain/own_corpus.yaml --print
  torchrun --nproc-per-node 8 pretrain/sub_documents.py --config configs/pretrain/graph_roberta.yaml
"""
    next_command: ClassVar[str] = "graphdoc encode DOCUMENTS --model MODEL"
    streams: ClassVar[bool] = True
    evaluation_fix: ClassVar[str | None] = "give evaluation.held_out, data, or train and test"

    recipe: Literal["sub_documents"] = "sub_documents"
    """how a model is trained: sub_documents or sentence_pairs"""
    output: FileName = "runs/pretraining"
    """folder of the run; the trained model is its folder model"""
    corpus: DividedCorpusSettings
    """the documents"""
    training: ContrastTrainingSettings = ContrastTrainingSettings()
    """how long and how"""
    split: Split = "half"
    """how documents are split into sub-documents: random halves, or one passage and the rest"""
    loss: ContrastSettings = ContrastSettings()
    """how sub-documents are separated"""
    evaluation: EvaluationSettings = EvaluationSettings()
    """what is measured meanwhile"""

    @property
    def similarity(self) -> Similarity:
        """How vectors are compared by the loss, and from then on."""
        return self.loss.similarity

    @property
    def is_measured(self) -> bool:
        """Whether the model is measured while the run goes on."""
        return self.evaluation.measures

    @model_validator(mode="after")
    def _check_streaming(self) -> Self:
        if self.corpus.streaming and self.training.max_steps is None:
            raise self.refused(
                "corpus.streaming", "needs training.max_steps, since a stream does not know its length; give them"
            )
        if self.corpus.streaming and self.evaluation.held_out:
            raise self.refused(
                "evaluation.held_out", "cannot take documents out of a stream; set it to 0, or corpus.streaming=false"
            )
        return self
