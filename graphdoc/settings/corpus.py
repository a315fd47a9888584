"""Settings of a training corpus: where documents come from and how they are made ready."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, ConfigDict, Field, PrivateAttr, model_validator
from pydantic.dataclasses import dataclass

from ..documents.parsing.rows import Columns
from ..documents.readers.reading import LabelFrom, OnError
from .base import FileName, Settings

Passages = Annotated[int, Field(ge=1, le=10**6)]

CACHE_VARIABLE = "GRAPHDOC_CACHE"
# Every one takes memory for itself; no machine has so many cores that more would help.
MOST_PREPARING_PROCESSES = 512


def _as_names(columns: object) -> object:
    return asdict(columns) if isinstance(columns, Columns) else columns


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class ColumnNames(Columns):
    """The names of columns, as a configuration file holds them."""


class CorpusSettings(Settings):
    """Where a training corpus comes from and how it is made ready."""

    # Documents in hand, which are read instead of the source that names them.
    _in_hand: Any = PrivateAttr(default=None)

    source: list[FileName] | FileName | None = None
    """files, folders, glob patterns and corpora, one or a list"""
    dataset: FileName | None = None
    """name or folder of a data set for datasets.load_dataset, instead of source"""
    dataset_config: str | None = None
    """which configuration of the data set"""
    revision: str | None = None
    """branch, tag or commit of the data set; refs/convert/parquet holds the hub's own Parquet files"""
    data_files: dict[str, list[FileName] | FileName] | list[FileName] | FileName | None = None
    """files of the data set that are read, patterns too; split by split where they are not all one"""
    split: str = "train"
    """which split of the data set; slices such as train[:10%] work too, except when streaming"""
    columns: Annotated[ColumnNames, BeforeValidator(_as_names)] = ColumnNames()
    """what the columns of rows are called"""
    label_from: LabelFrom = "column"
    """where labels come from: a column, or the folder that a file lies in, directly below the source"""
    encoding: str = "utf-8"
    """how text files are encoded"""
    text_headings: bool = True
    """look for headings in plain text files"""
    on_error: OnError = "skip_in_folders"
    """skip, count and name what cannot be read: where a folder holds it, everywhere, or stop at it"""
    max_passages: Passages = 50
    """passages of one document that are kept, the first in reading order; the rest is counted"""
    least_passages: Passages = 2
    """documents of fewer passages are skipped and counted; sub-documents need 2"""
    leave_out_splits: list[str] = Field(default_factory=list)
    """documents are left out whose field split is one of these, such as test; capitals do not matter"""
    leave_out_sections: list[str] = Field(default_factory=list)
    """headings of sections that are taken out of all documents, such as Abstract"""
    leave_out_first_sentence: bool = False
    """the first sentence is taken out of all documents, as where it becomes a query"""
    deduplicate: bool = True
    """leave out documents whose text is exactly that of an earlier one"""
    streaming: bool = False
    """read the documents anew in every epoch instead of storing their tokens"""
    preparing_processes: Annotated[int, Field(ge=1, le=MOST_PREPARING_PROCESSES)] | None = None
    """processes that cut and tokenise; null takes one for every core"""
    cache: FileName | None = None
    """folder for prepared corpora; null takes $GRAPHDOC_CACHE, or else ~/.cache/graphdoc"""

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if self.source and self.dataset:
            raise self.refused("source", f"and {{here}}dataset={self.dataset!r} are both given; leave one of them out")
        if not self.source and not self.dataset:
            raise self.refused("source", "is missing, and so is {here}dataset; give one of them")
        if "-" in self.sources:
            raise self.refused("source", "is standard input, which can be read only once; save it as a file")
        fix = "without {here}dataset; leave it out"
        for name in ("dataset_config", "revision", "data_files"):
            self.require_effect(name, self.dataset is not None, fix)
        self.require_effect(
            "split", self.dataset is not None, f"{fix}, or leave documents out by {{here}}leave_out_splits"
        )
        self.require_effect("label_from", self.source is not None, "with {here}dataset; leave it out")
        return self

    @model_validator(mode="after")
    def _check_documents(self) -> Self:
        if self.max_passages < self.least_passages:
            raise self.refused(
                "max_passages", f"is below {{here}}least_passages={self.least_passages}, so that no document would be "
                "kept; raise the one or lower the other"
            )  # fmt: skip
        return self

    @property
    def in_hand(self) -> Any:
        """Documents in hand, which are read instead of ``source``; None where there are none."""
        return self._in_hand

    def holding(self, documents: Any) -> Self:
        """The same settings for documents in hand, which can be read several times."""
        held = self.model_copy()
        held._in_hand = documents
        return held

    def replace(self, **changes: Any) -> Self:
        """The same settings with some others, checked anew, for the same documents."""
        return super().replace(**changes).holding(self._in_hand)

    @property
    def sources(self) -> list[str]:
        """The paths and patterns of ``source`` as a list, empty for a data set."""
        if self.source is None:
            return []
        return [self.source] if isinstance(self.source, str) else list(self.source)

    def with_source(self, source: list[str] | str) -> Self:
        """The same way to read other documents.

        Args:
            source: where they are, instead of the source or data set.
        """
        there = {"dataset", "dataset_config", "revision", "data_files", "split"}
        given = {name: getattr(self, name) for name in self.model_fields_set - there}
        return type(self)(**given | {"source": source})

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
        folder = self.cache or os.environ.get(CACHE_VARIABLE) or "~/.cache/graphdoc"
        return Path(folder).expanduser() / "corpora"

    @property
    def processes(self) -> int:
        """Number of processes that cut and tokenise."""
        if self.preparing_processes is not None:
            return self.preparing_processes
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        # Each process of a job streams for itself, so those of one machine share its cores.
        sharing = int(os.environ.get("LOCAL_WORLD_SIZE", "1")) if self.streaming else 1
        return max(1, cores // sharing)


class LabelledCorpusSettings(CorpusSettings):
    """A training corpus of which every document counts: short ones and copies are kept, unless it says otherwise."""

    least_passages: Passages = 1
    """documents of fewer passages are skipped and counted"""
    deduplicate: bool = False
    """leave out documents whose text is exactly that of an earlier one"""
