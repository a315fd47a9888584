"""Sets of documents that models are measured on, as a file names them."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from pydantic import Field, model_validator

from .base import Count, FileName, Settings

Names = list[FileName]


class MeasuredSet(Settings):
    """One set: what it holds says what is measured on it, labels, pairs or judgements."""

    name: Annotated[str, Field(min_length=1, max_length=60)]
    """what the table calls it"""
    documents: Names = Field(default_factory=list)
    """corpora, whose field ``split`` says which documents are for fitting and which for testing"""
    train: Names = Field(default_factory=list)
    """corpora for fitting, where files are split"""
    test: Names = Field(default_factory=list)
    """corpora for testing, where files are split"""
    test_split: str = "test"
    """value of the field ``split`` of documents for testing"""
    labels: bool | None = None
    """whether to measure how vectors find labels; null where documents have some"""
    pairs: FileName | None = None
    """file of pairs of documents: id_a, id_b, 0 or 1 by tabs"""
    random_pairs: bool = True
    """also measure the positive pairs against as many random ones"""
    judged: FileName | None = None
    """folder of queries and judgements in BEIR's layout"""
    only: list[str] = Field(default_factory=list)
    """conditions on fields of the queries, such as ``kind=specific``"""
    query_column: str = "text"
    """field that holds the text of a query"""
    own_grade: int | None = None
    """grade of the document that a query was made of, which is left out of its ranking"""
    measures: list[str] = Field(default_factory=lambda: ["nDCG@10", "MAP"])
    """measures of rankings"""
    without: list[Annotated[str, Field(pattern="^(NMI|purity|10-NN)$")]] = Field(default_factory=list)
    """measures of labels that say nothing here, of ``NMI``, ``purity`` and ``10-NN``"""
    leave_out_sections: list[str] = Field(default_factory=list)
    """headings of sections that are left out, such as ``Abstract``"""
    most_documents: Count | None = None
    """documents of each part that are read, drawn where there are more; null for all"""

    @model_validator(mode="after")
    def _check(self) -> MeasuredSet:
        if bool(self.documents) == bool(self.test):
            key, other = ("test", "documents") if self.test else ("documents", "test")
            raise self.refused(key, f"needs one of documents and test, not both or none; change {other}")
        if self.train and not self.test:
            raise self.refused("train", "needs test beside it; name the documents for testing, or use documents")
        return self


class MeasuredSets(Settings):
    """The sets of a file."""

    sets: Annotated[list[MeasuredSet], Field(min_length=1)]
    """the sets, one after another"""

    @model_validator(mode="after")
    def _check(self) -> MeasuredSets:
        for name, times in Counter(one.name for one in self.sets).items():
            if times > 1:
                raise self.refused("sets", f"has {times} sets of the name {name!r}; give every set its own")
        return self
