"""What a run trains, and where it starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from .base import FileName, Given, Settings, Share
from .document import DocumentSettings, Readout
from .mistakes import Refused

Tune = Literal["full", "lora", "frozen"]
ModelValues = dict[str, Any]

SET_BY_THE_RUN = {
    "labels": "the labels of the documents",
    "multi_label": "labels.multi_label",
    "classifier_dropout": "labels.dropout",
    "classifier_words": "graphdoc fit --classes",
    "trained": "training itself",
    "centre": "the model that it starts from (graphdoc fit)",
    "lexical": "the model that it starts from (graphdoc fit)",
    "views": "views, in graphdoc finetune views",
    "subtopics": "subtopics, in graphdoc finetune subtopics",
}


class LoraSettings(Settings):
    """Low-rank updates of the passage encoder (Hu et al. 2021)."""

    rank: Annotated[int, Field(ge=1, le=65_536)] = 8
    """rank of the updates"""
    alpha: Annotated[float, Field(gt=0)] = 16.0
    """updates are scaled by alpha / rank"""
    dropout: Share = 0.0
    """dropout on what goes into an update"""
    targets: list[str] = Field(default_factory=list)
    """how the names of the linear layers end that get an update; [] means attention and feed-forward layers"""


class ModelSettings(Settings):
    """What is trained and where it starts."""

    start: FileName = "roberta-base"
    """name or folder of a pretrained encoder, on which everything above starts untrained; or of a graphdoc checkpoint,
    which is trained on, with its settings unless others are given"""
    settings: Annotated[ModelValues, Given(DocumentSettings, frozenset(SET_BY_THE_RUN))] = Field(default_factory=dict)
    """settings of the model itself, such as graph_kind, pooling or projection_size"""
    tune: Tune = "full"
    """how the passage encoder is trained; what lies above it is always trained"""
    lora: LoraSettings = LoraSettings()
    """the low-rank updates, for tune: lora"""
    compile: bool = False
    """compile the transformer, which pays off in runs of hours"""
    store: Literal["whole", "updates"] = "whole"
    """store whole checkpoints, or only what was trained on top of the backbone, which is then loaded by its name"""
    begin: Literal["random", "mean"] = "random"
    """how untrained layers begin; mean makes document vectors nearly the mean of the passage vectors"""
    result_readout: Readout | None = None
    """readout of the trained model, where it is another than that of training; for pretraining alone"""

    @model_validator(mode="before")
    @classmethod
    def _refuse_what_the_run_sets(cls, values: Any) -> Any:
        given = values.get("settings") if isinstance(values, Mapping) else None
        for name, value in given.items() if isinstance(given, Mapping) else ():
            if name in SET_BY_THE_RUN:
                raise Refused(f"settings.{name}", value, f"is given by {SET_BY_THE_RUN[name]}; leave it out")
        return values

    @model_validator(mode="after")
    def _check_tuning(self) -> Self:
        if self.store == "updates" and self.tune == "full":
            raise self.refused(
                "store", "needs a passage encoder that is not trained whole; set {here}tune=lora or frozen, or "
                "{here}store=whole"
            )  # fmt: skip
        if self.tune != "lora" and self.lora != LoraSettings():
            name = next(name for name, value in LoraSettings() if getattr(self.lora, name) != value)
            raise self.refused(
                f"lora.{name}", f"has no effect with {{here}}tune={self.tune}; set {{here}}tune=lora, or leave it out"
            )
        return self
