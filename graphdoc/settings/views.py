"""How a model reads pairs of documents, view by view (SST)."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ..registry import SUBTOPICS, VIEW_READERS, VIEW_SAMPLINGS
from .base import Count, FileName, Settings, known_name

# Whose vectors of sentences subtopics are found by where nothing is said.
DEFAULT_SUBTOPIC_MODEL = "mini"

Aggregation = Literal["max", "mean"]
Subtopics = Annotated[str, known_name(SUBTOPICS), Field(json_schema_extra={"enum": list(SUBTOPICS)})]
Reader = Annotated[str, known_name(VIEW_READERS), Field(json_schema_extra={"enum": list(VIEW_READERS)})]
Sampling = Annotated[str, known_name(VIEW_SAMPLINGS), Field(json_schema_extra={"enum": list(VIEW_SAMPLINGS)})]


class ViewSettings(Settings):
    """How the views of a pair of documents are made and read; the defaults are the SST paper's for pairs of news."""

    encoder: Reader = "cross"
    """cross reads both views in one passage, dual each in a passage of its own and compares their vectors"""
    subtopics: Subtopics = "words"
    """what makes sentences alike, by which subtopics are found: the words that they share, their vectors, or what a
    model has learned of it (adaptive)"""
    subtopic_model: FileName | None = None
    """model of these vectors, which is not trained: mini, a folder or a hub id, null being mini; for adaptive the
    model of graphdoc finetune subtopics; it goes into the checkpoint"""
    cluster_size: Annotated[int, Field(ge=1, le=10_000)] = 6
    """sentences of a subtopic, about"""
    receptive_field: Count | None = 40
    """sentences of a document that views are drawn from, its first ones; the rest is counted; null for all"""
    fields: list[Count] = Field(default_factory=list)
    """first sentences of a document that the views of a pair are drawn from in turn, each a number of its own, within
    the receptive field: with 20 and 100 every other view is of the first 20; empty for all of the receptive field"""
    sampling: Sampling = "soft"
    """how the sentences of a view are chosen: soft, hard or uniform by subtopics (eq. 7-9); random is a run of
    sentences, negative takes the smaller subtopics alone, truncated the first sentences and pagerank the most central
    ones"""
    view_tokens: Annotated[int, Field(ge=8, le=65_536)] = 256
    """tokens of a view of one document, its share of the special tokens included"""
    views: Annotated[int, Field(ge=1, le=1000)] = 3
    """views of a pair that are read where it is matched"""
    aggregation: Aggregation | None = None
    """how the scores of its views become that of a pair: max or mean; null is max for cross and mean for dual"""
    together: bool = False
    """read all views of a pair at once, in one graph whose readout pools them, and not one by one"""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    """seed of subtopics and views"""

    @model_validator(mode="after")
    def _check_subtopics(self) -> Self:
        self.require_effect(
            "subtopic_model",
            self.subtopics != "words",
            "with {here}subtopics=words; leave it out, or set it to vectors",
        )
        return self

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        if self.receptive_field is not None and self.receptive_field < max(self.fields, default=0):
            raise self.refused(
                "fields", f"goes beyond the first {self.receptive_field} sentences; raise {{here}}receptive_field, or "
                "leave such a number out"
            )  # fmt: skip
        return self

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        self.require_effect(
            "aggregation", not self.together, "with {here}together=true, where a pair has one score; leave it out"
        )
        if self.together and self.views == 1:
            raise self.refused("together", "needs several views; raise {here}views, or set it to false")
        return self
