"""The settings of learning the subtopics of pairs of documents."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from ..documents.readers.pair_files import Unknown
from .base import FileName, Settings
from .clustering import ClusterSize, Neighbours
from .compare import ValidationPairSettings
from .corpus import LabelledCorpusSettings, Passages
from .document import Unit
from .model import ModelSettings, Tune
from .run import LabelledRunSettings
from .training import LearningRate, Schedule, TrainingSettings

Weight = Annotated[float, Field(ge=0, le=1e6)]
BestClusters = Literal["auc", "loss"]


class SubtopicCorpusSettings(LabelledCorpusSettings):
    """The documents of pairs, which are cut into sentences."""

    max_passages: Passages = 40
    """sentences of one document that are read, the first in reading order (the paper's receptive field); the rest is
    counted"""


class SubtopicModelSettings(ModelSettings):
    """What is trained, above a passage encoder that stands still."""

    tune: Tune = "frozen"
    """how the passage encoder is trained; here it is not, since graphs are made of its vectors"""

    @model_validator(mode="after")
    def _check_frozen(self) -> Self:
        if self.tune != "frozen":
            raise self.refused(
                "tune", "would change the vectors that graphs are made of; set it to frozen, and start from another "
                "encoder if this one does not suit the documents"
            )  # fmt: skip
        return self


class LabelledPairSettings(Settings):
    """Which pairs are trained on."""

    file: FileName | None = None
    """pairs with labels: two ids and 1 (similar) or 0 in a line, with tabs between"""
    unknown: Unknown = "stop"
    """stop at a pair with a document that is not in the corpus, or leave out such pairs and count them"""

    @model_validator(mode="after")
    def _check_file(self) -> Self:
        if self.file is None:
            raise self.refused("file", "is missing; give a file of pairs with labels")
        return self


class ClusterSettings(Settings):
    """How sentences become graphs and subtopics."""

    neighbours: Neighbours | None = 10
    """similar sentences that a sentence keeps in the graph of its pair; null for all"""
    cluster_size: ClusterSize = 6
    """sentences of a subtopic, about; those of a pair over it, and at least 2, are the subtopics that it can have"""


class SubtopicLossSettings(Settings):
    """The terms of the loss beside those of DMoN (SST, eq. 4-6)."""

    similar_weight: Weight = 1.0
    """factor of the term of similar pairs, whose documents shall be spread over subtopics alike (eq. 4); 0 leaves it
    out"""
    dissimilar_weight: Weight = 1.0
    """the paper's lambda, factor of the term of other pairs, whose subtopics shall be apart (eq. 5); it tries 0.02 to
    50; 0 leaves it out"""


class SubtopicValidationSettings(ValidationPairSettings):
    """Labelled pairs that a model is measured on while it is trained, by their subtopics."""

    best: BestClusters = "loss"
    """number that decides which checkpoint is the best: the loss, or auc, of similar pairs against others by the mass
    that both documents have in the same subtopics"""


class SubtopicTrainingSettings(TrainingSettings):
    """How long and how subtopics are learned; what the paper does not say was chosen by measuring."""

    batch_size: Annotated[int, Field(ge=2, le=10**7, multiple_of=2)] = 32
    """pairs of a batch, over all processes: half of them similar, half not"""
    learning_rate: LearningRate = 1e-3
    """highest learning rate"""
    schedule: Schedule = "constant"
    """course of the learning rate after the warm-up"""
    warmup: Annotated[float, Field(ge=0, le=1e9)] = 0.0
    """share of all steps (below 1) or number of steps over which the learning rate rises"""
    padding: Annotated[float, Field(ge=0, le=1)] | None = 0.3
    """largest share of padding in a mini-batch: sentences differ more in length than passages; null decides by
    device"""


class SubtopicRunSettings(LabelledRunSettings):
    """Everything about learning the subtopics of pairs of documents (SST, section 3.2, "Adaptive Clustering").

    Train a model that puts the sentences of two documents into subtopics. The passage encoder stands still; a
    graph of similar sentences, graph attention and a head above it learn clusters of sentences that are connected,
    over which the documents of similar pairs are spread alike.

    Which pairs are similar is said by a file (pairs.file: two ids and 1 or 0 in a line, with tabs between).
    validation.pairs names pairs that the model is measured on while it is trained and that decide which
    checkpoint is the best.

    All settings are in a YAML file; configs/finetune/ holds recipes to start from. What follows the options
    as key=value replaces what the file says. The run's folder (output) gets checkpoints, the log, the
    settings and, in its folder model, the trained model. A run that was interrupted goes on from its last
    checkpoint with --resume.
    """

    purpose: ClassVar[str] = "train a model to find the subtopics of pairs of documents"
    examples: ClassVar[str] = """examples:
  graphdoc finetune subtopics --config configs/finetune/subtopics.yaml corpus.source=papers/ pairs.file=pairs.tsv
  graphdoc finetune subtopics --config configs/finetune/subtopics.yaml loss.dissimilar_weight=10 --resume
  torchrun --nproc-per-node 2 finetune/subtopics.py --config configs/finetune/subtopics.yaml
"""
    next_command: ClassVar[str] = "graphdoc compare A B --subtopics MODEL"
    unit: ClassVar[Unit | None] = "sentence"
    evaluation_fix: ClassVar[str | None] = "give validation.pairs"

    output: FileName = "runs/subtopics"
    """folder of the run; the trained model is its folder model"""
    corpus: SubtopicCorpusSettings
    """the documents"""
    model: SubtopicModelSettings = SubtopicModelSettings()
    """what is trained, and where it starts"""
    training: SubtopicTrainingSettings = SubtopicTrainingSettings()
    """how long and how"""
    pairs: LabelledPairSettings
    """which pairs are similar"""
    subtopics: ClusterSettings = ClusterSettings()
    """how sentences become graphs and subtopics"""
    loss: SubtopicLossSettings = SubtopicLossSettings()
    """what is learned"""
    validation: SubtopicValidationSettings = SubtopicValidationSettings()
    """what is measured meanwhile"""

    @model_validator(mode="before")
    @classmethod
    def _look_into_the_pairs(cls, values: object) -> object:
        """Without pairs, it is their file that is missing."""
        return {"pairs": {}, **values} if isinstance(values, dict) else values

    @property
    def is_measured(self) -> bool:
        """Whether the model is measured while the run goes on."""
        return self.validation.pairs is not None
