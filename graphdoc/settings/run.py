"""What the settings of every recipe hold: the documents, the model, the training, and what is measured."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, PrivateAttr, field_validator, model_validator
from pydantic.dataclasses import dataclass

from ..documents.parsing.rows import Columns
from ..documents.readers.folders import source_reaching
from ..documents.readers.reading import LabelFrom, OnError
from ..errors import SettingsError
from ..registry import LEAST_TEMPERATURE, VectorSimilarity
from .base import Count, FileName, Seed, Settings, Share, output_folder, require_one, shown
from .document import DocumentSettings, Unit

Passages = Annotated[int, Field(ge=1, le=10**6)]


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class ColumnNames(Columns):
    """The names of columns, as a configuration file holds them."""


class CorpusSettings(Settings):
    """Where a training corpus comes from and how it is made ready."""

    # Given documents, read instead of the source that names them.
    _in_memory: Any = PrivateAttr(default=None)

    source: list[FileName] | FileName | None = None
    """files, folders, glob patterns and corpora, one or a list"""
    dataset: FileName | None = None
    """name or folder of a data set for datasets.load_dataset, instead of source"""
    dataset_config: str | None = None
    """which configuration of the data set"""
    revision: str | None = None
    """branch, tag or commit of the data set; refs/convert/parquet holds the hub's own Parquet files"""
    split: str = "train"
    """which split of the data set; slices such as train[:10%] work too, except when streaming"""
    columns: Annotated[
        ColumnNames, BeforeValidator(lambda columns: asdict(columns) if isinstance(columns, Columns) else columns)
    ] = ColumnNames()
    """what the columns of rows are called"""
    label_from: LabelFrom = "column"
    """where labels come from: a column, or the folder that a file lies in, directly below the source"""
    encoding: str = "utf-8"
    """how text files are encoded"""
    on_error: OnError = "skip_in_folders"
    """skip, count and name what cannot be read: where a folder holds it, everywhere, or stop at it"""
    max_passages: Passages = 50
    """passages of one document that are kept, the first in reading order; the rest is counted"""
    least_passages: Passages = 1
    """documents of fewer passages are skipped and counted; sub-documents need 2"""
    leave_out_splits: list[str] = Field(default_factory=list)
    """documents are left out whose field split is one of these, such as test; capitals do not matter"""
    leave_out_sections: list[str] = Field(default_factory=list)
    """headings of sections that are taken out of all documents, such as Abstract"""
    deduplicate: bool = False
    """leave out documents whose text is exactly that of an earlier one"""
    streaming: bool = False
    """read the documents again in every epoch instead of storing their tokens; for sub-documents"""
    preparing_processes: Annotated[int, Field(ge=1, le=512)] | None = None
    """processes that cut and tokenize; null takes one for every core"""
    cache: FileName | None = None
    """folder for prepared corpora; null takes $GRAPHDOC_CACHE, or else ~/.cache/graphdoc"""

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        require_one(self, "source", "dataset")
        if "-" in self.sources:
            raise SettingsError("source='-' is standard input, which can be read only once; save it as a file")
        return self

    @property
    def in_memory(self) -> Any:
        """Documents passed as objects, read instead of ``source``; None if there are none."""
        return self._in_memory

    def with_documents(self, documents: Any) -> Self:
        """The same settings for documents passed as objects, which can be read several times."""
        held = self.model_copy()
        held._in_memory = documents
        return held

    def replace(self, **changes: Any) -> Self:
        """The same settings with some changed, and checked, for the same documents."""
        return super().replace(**changes).with_documents(self._in_memory)

    @property
    def sources(self) -> list[str]:
        """The paths and patterns of ``source`` as a list, empty for a data set."""
        if self.source is None:
            return []
        return [self.source] if isinstance(self.source, str) else list(self.source)

    def with_source(self, source: list[str] | str) -> Self:
        """The same way to read other documents."""
        values = self.given_values()
        for name in ("dataset", "dataset_config", "revision", "split"):
            values.pop(name, None)
        return type(self)(**values | {"source": source})

    @property
    def name(self) -> str:
        """What to call the corpus in messages."""
        if self.dataset:
            return f"data set {self.dataset!r} ({self.split})"
        first, *others = self.sources
        return f"{first} and {len(others)} more" if others else first

    @property
    def corpora_folder(self) -> Path:
        """Folder that holds prepared corpora, each under its fingerprint."""
        folder = self.cache or os.environ.get("GRAPHDOC_CACHE") or "~/.cache/graphdoc"
        return Path(folder).expanduser() / "corpora"

    @property
    def processes(self) -> int:
        """Number of processes that cut and tokenize."""
        if self.preparing_processes is not None:
            return self.preparing_processes
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        # Each process of a job streams for itself, so those of one machine share its cores.
        sharing = int(os.environ.get("LOCAL_WORLD_SIZE", "1")) if self.streaming else 1
        return max(1, cores // sharing)


Tune = Literal["full", "lora", "frozen"]


class ModelSettings(Settings):
    """What is trained and where it starts."""

    start: FileName = "roberta-base"
    """name or folder of a pretrained encoder, on which everything above starts untrained; or of a graphdoc checkpoint,
    which is trained on, with its settings unless others are given"""
    settings: dict[str, Any] = Field(
        default_factory=dict, json_schema_extra=lambda schema: schema.update(DocumentSettings.model_json_schema())
    )
    """settings of the model itself, such as graph_kind, pooling or projection_size"""
    tune: Tune = "full"
    """how the passage encoder is trained; what lies above it is always trained"""
    lora_rank: Annotated[int, Field(ge=1, le=65_536)] = 8
    """rank of the low-rank updates of attention and feed-forward layers, for tune: lora (Hu et al. 2021)"""
    store: Literal["whole", "updates"] = "whole"
    """store whole checkpoints, or only what was trained on top of the backbone, which is then loaded by its name"""
    init: Literal["random", "mean"] = "random"
    """initialization of new layers; mean makes document vectors nearly the mean of the passage vectors"""

    @field_validator("settings")
    @classmethod
    def _check_settings(cls, settings: dict[str, Any]) -> dict[str, Any]:
        return DocumentSettings(**settings).given_values()

    @model_validator(mode="after")
    def _check_store(self) -> Self:
        if self.store == "updates" and self.tune == "full":
            raise SettingsError(
                "store='updates' needs a passage encoder that is not trained whole; set tune to lora or frozen"
            )
        return self


Schedule = Literal["linear", "cosine", "constant", "constant_with_warmup"]
Tracker = Literal["tensorboard", "wandb", "mlflow"]
LearningRate = Annotated[float, Field(gt=0, le=1e30)]

Temperature = Annotated[float, Field(ge=LEAST_TEMPERATURE)]


class TrainingSettings(Settings):
    """How long and how a model is trained."""

    batch_size: Annotated[int, Field(ge=1, le=10**7)] = 32
    """documents or pairs (of labelled ones, documents) of a batch, over all processes, which contrast compares"""
    epochs: Annotated[float, Field(gt=0, le=1e6)] = 10.0
    """passes over the corpus"""
    max_steps: Count | None = None
    """steps after which a run ends whatever the epochs; needed for streaming"""
    learning_rate: LearningRate = 5e-5
    """highest learning rate"""
    encoder_learning_rate: LearningRate | None = None
    """learning rate of the passage encoder; null for learning_rate"""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """decay of weights, not of biases and norms (AdamW); with 0, which is the paper's, that is Adam"""
    lr_scheduler_type: Schedule = "linear"
    """course of the learning rate after the warm-up"""
    warmup_steps: Annotated[float, Field(ge=0, le=1e9)] = 0.1
    """share of all steps (below 1) or number of steps over which the learning rate rises"""
    max_grad_norm: Annotated[float, Field(ge=0)] = 1.0
    """longest gradient; longer ones are shortened to it; 0 for none"""
    token_budget: Count | None = None
    """most tokens, with padding, of a mini-batch; null takes few on a CPU and many on accelerators"""
    padding: Annotated[float, Field(ge=0, le=1)] | None = None
    """largest share of padding in a mini-batch; null decides by device"""
    keep_activations: Annotated[int, Field(ge=0, le=10**12)] = 0
    """tokens whose activations are kept rather than computed twice; as many as fit in memory"""
    seed: Seed = 0
    """seed of all random draws"""
    dataloader_num_workers: Annotated[int, Field(ge=0, le=128)] = 2
    """processes of each process that prepare batches ahead"""
    save_steps: Count | None = None
    """steps between checkpoints, each of which is measured; null for one at the end of every epoch"""
    save_total_limit: Count = 2
    """checkpoints that are kept, apart from the best one"""
    logging_steps: Count = 10
    """steps between entries in the log"""
    report_to: list[Tracker] = Field(default_factory=list)
    """where numbers are also written"""


class ValidationSettings(Settings):
    """What a model is measured by while it is trained."""

    best: str = "loss"
    """number that decides which checkpoint is the best"""


class HeldOutSettings(ValidationSettings):
    """A part of what there is to train on that is measured instead."""

    share: Share = 0.1
    """share of the documents or queries, of every class, that is measured and not trained on; 0 for none"""


class TemperatureSettings(Settings):
    """A loss that compares by softmax."""

    temperature: Temperature = 1.0
    """what similarities are divided by; with cosine 0.02 to 0.5 are usual, with dot 1"""


class ContrastSettings(TemperatureSettings):
    """How vectors are compared by a contrastive loss, and from then on."""

    similarity: VectorSimilarity = "dot"
    """dot is the paper's; the trained model compares by it from then on"""


def _show_defaults(schema: dict[str, Any], kind: type[RunSettings]) -> None:
    for name, default in kind.defaults.items():
        part = schema["properties"][name]
        part["default"] = {**part.get("default", {}), **default} if isinstance(default, Mapping) else default
    schema["required"].remove("output")


class RunSettings(Settings):
    """Everything about a run that every recipe has."""

    model_config = ConfigDict(json_schema_extra=_show_defaults)

    # What to try the model with (``MODEL`` is its folder).
    next_command: ClassVar[str]
    # What documents are cut into for training where the recipe decides it, and not the model.
    unit: ClassVar[Unit | None] = None
    # Settings that have another default in the recipe than elsewhere.
    defaults: ClassVar[Mapping[str, Any]] = {"output": "runs/run"}
    # What can decide which checkpoint is the best.
    metric_names: ClassVar[Sequence[str]] = ()
    # How the passage encoder can be trained, and what is least of a batch.
    tunes: ClassVar[tuple[Tune, ...]] = ("full", "lora", "frozen")
    least_batch: ClassVar[int] = 1

    output: FileName
    """folder of the run; the trained model is its folder model"""
    corpus: CorpusSettings
    """the documents"""
    model: ModelSettings = ModelSettings()
    """what is trained, and where it starts"""
    training: TrainingSettings = TrainingSettings()
    """batch size, epochs, learning rate, checkpoints and more"""
    validation: HeldOutSettings = HeldOutSettings()
    """what is measured during training"""

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        # Without a corpus, it is its source that is missing.
        filled: dict[str, Any] = {"corpus": {}, **values}
        for key, default in cls.defaults.items():
            value = filled.get(key, {} if isinstance(default, Mapping) else default)
            if isinstance(default, Mapping) and isinstance(value, Mapping):
                value = {**default, **value}
            elif isinstance(value, Settings):
                value = value.replace(**{**default, **value.given_values()})
            filled[key] = value
        return filled

    @model_validator(mode="after")
    def _check_run(self) -> Self:
        for key, folder in (("output", self.folder), ("corpus.cache", self.corpus.corpora_folder)):
            if (source := source_reaching(folder, self.corpus.sources, is_folder=True)) is not None:
                value = self.output if key == "output" else self.corpus.cache
                raise SettingsError(
                    f"{key}={shown(value)} lies in corpus.source={source}, where what is written would be read as "
                    f"documents; choose another {key}, or name the documents more closely"
                )
        if self.model.tune not in self.tunes:
            raise SettingsError(
                f"model.tune={self.model.tune!r} is not for this training; set it to {' or '.join(self.tunes)}"
            )
        if self.training.batch_size < self.least_batch:
            raise SettingsError(
                f"training.batch_size={self.training.batch_size} leaves nothing to compare; take {self.least_batch}"
            )
        if self.validation.best not in self.metric_names:
            there = ", ".join(self.metric_names)
            raise SettingsError(f"validation.best={self.validation.best!r} is not measured; there are {there}")
        return self

    @property
    def is_measured(self) -> bool:
        """Whether the model is measured while the run goes on, or may be, where only the documents tell."""
        return self.validation.share > 0

    @property
    def leaves_out_first_sentence(self) -> bool:
        """Whether the first sentence is taken out of all documents, as where it becomes a query."""
        return False

    @property
    def similarity(self) -> VectorSimilarity | None:
        """How vectors are compared by the loss, and from then on; None where the loss does not say."""
        similarity: VectorSimilarity | None = getattr(getattr(self, "loss", None), "similarity", None)
        return similarity

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return output_folder(self.output)
