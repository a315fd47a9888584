"""Settings of a training corpus: where documents come from and how they are made ready."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from ..documents.parsing.rows import Columns

OnError = Literal["stop", "skip"]
LabelFrom = Literal["column", "folder"]

CACHE_VARIABLE = "GRAPHDOC_CACHE"
MOST_BUFFERED = sys.maxsize
# Every one takes memory for itself; no machine has so many cores that more would help.
MOST_PREPARING_PROCESSES = 512


@dataclass(frozen=True)
class CorpusSettings:
    """Where a training corpus comes from and how it is made ready.

    Args:
        source: files, folders, glob patterns and corpora, as :func:`~graphdoc.read_documents` takes them.
        dataset: name or folder of a data set for ``datasets.load_dataset``, instead of ``source``.
        dataset_config: which configuration of the data set.
        split: which split of the data set; slices such as ``train[:10%]`` work too, except when streaming.
        columns: what the columns of rows are called.
        label_from: where labels come from: a ``column``, or the ``folder`` that a file lies in, directly below the
            folder that is the source.
        encoding: how text files are encoded.
        on_error: whether what cannot be read stops the preparation, or is skipped, counted and named.
        max_passages: passages of one document that are kept, the first in reading order; the rest is counted.
        least_passages: documents of fewer passages are skipped and counted; sub-documents need 2.
        leave_out_splits: documents are left out whose field ``split`` is one of these, such as ``test``; capitals
            do not matter.
        leave_out_sections: headings of sections that are taken out of all documents, such as ``Abstract``.
        deduplicate: leave out documents whose text is exactly that of an earlier one.
        streaming: read the documents anew in every epoch instead of storing their tokens.
        shuffle_buffer: documents among which the next one is drawn when streaming; 1 keeps the order.
        preparing_processes: processes that cut and tokenise, at most 512; None takes one for every core.
        cache: folder for prepared corpora; None takes ``$GRAPHDOC_CACHE``, or else ``~/.cache/graphdoc``.

    Raises:
        ValueError: a value is out of range, or there is not exactly one of source and dataset.
    """

    source: list[str] | str | None = None
    dataset: str | None = None
    dataset_config: str | None = None
    split: str = "train"
    columns: Columns = Columns()  # noqa: RUF009 (it is frozen)
    label_from: LabelFrom = "column"
    encoding: str = "utf-8"
    on_error: OnError = "stop"
    max_passages: int = 50
    least_passages: int = 2
    leave_out_splits: list[str] = field(default_factory=list)
    leave_out_sections: list[str] = field(default_factory=list)
    deduplicate: bool = True
    streaming: bool = False
    shuffle_buffer: int = 10_000
    preparing_processes: int | None = None
    cache: str | None = None

    def __post_init__(self) -> None:
        if self.source and self.dataset:
            raise ValueError(
                f"both source ({self.sources[0]!r}) and dataset ({self.dataset!r}) are given; leave one of them out"
            )
        if not self.source and not self.dataset:
            raise ValueError(
                "corpus.source is missing, and so is corpus.dataset; give source (paths) or dataset (a name)"
            )
        if self.source and self.dataset_config is not None:
            raise ValueError(
                f"corpus.dataset_config={self.dataset_config!r} is for corpus.dataset; leave it out with source"
            )
        if self.source and self.split != "train":
            raise ValueError(
                f"corpus.split={self.split!r} is for corpus.dataset; with source, leave out documents by their field "
                "split (corpus.leave_out_splits)"
            )
        if not all(source.strip() for source in self.sources):
            raise ValueError("corpus.source has an empty name, which would mean this folder; write . for that")
        if "-" in self.sources:
            raise ValueError(
                "source is '-', but standard input can be read only once; save it as a file and name that"
            )
        if self.label_from not in get_args(LabelFrom):
            raise ValueError(f"label_from is {self.label_from!r}; set it to 'column' or 'folder'")
        if self.on_error not in ("stop", "skip"):
            raise ValueError(f"on_error is {self.on_error!r}; set it to 'stop' or 'skip'")
        for name, least in (("least_passages", 1), ("max_passages", 1), ("shuffle_buffer", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; set it to {least} or more")
        if self.shuffle_buffer > MOST_BUFFERED:
            raise ValueError(f"shuffle_buffer is {self.shuffle_buffer}; set it to {MOST_BUFFERED:,} or less")
        if self.max_passages < self.least_passages:
            raise ValueError(
                f"max_passages is {self.max_passages}, below least_passages ({self.least_passages}), so that no "
                "document would be kept; raise max_passages or lower least_passages"
            )
        if self.preparing_processes is not None and self.preparing_processes < 1:
            raise ValueError(
                f"preparing_processes is {self.preparing_processes}; set it to 1 or more, or leave it out"
            )
        if self.preparing_processes is not None and self.preparing_processes > MOST_PREPARING_PROCESSES:
            raise ValueError(
                f"preparing_processes is {self.preparing_processes}; set it to {MOST_PREPARING_PROCESSES} or less, or "
                "leave it out for one on every core"
            )

    @property
    def sources(self) -> list[str]:
        """The paths and patterns of ``source`` as a list, empty for a data set."""
        if self.source is None:
            return []
        return [self.source] if isinstance(self.source, str) else list(self.source)

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


@dataclass(frozen=True)
class LabelledCorpusSettings(CorpusSettings):
    """A training corpus of which every document counts: short ones and copies are kept, unless it says otherwise."""

    least_passages: int = 1
    deduplicate: bool = False
