"""The documents that commands read: how they are named and read, what repeats in them, and their language."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from cyclopts import Parameter

from ..documents.document import Document
from ..documents.parsing.rows import Columns
from ..errors import DocumentError, SettingsError
from ..runtime.text import counted
from .options import READING, ModelOptions

if TYPE_CHECKING:
    from ..documents.readers import ReadingReport
    from ..encoder import DocumentEncoder

logger = logging.getLogger("graphdoc")

T = TypeVar("T")

COLUMNS = ("text", "sections", "title", "id", "label")
RepeatsOption = Literal["leave-out", "keep"]
KEEP: RepeatsOption = "keep"
LEAVE_OUT: RepeatsOption = "leave-out"

# A tokenizer with more tokens was made for many languages (bert-base-multilingual has 119,547, XLM-R 250,002); those
# of one language have 30,000 to 50,000.
_MANY_TOKENS = 100_000
_MOST_NAMED, _MOST_WAITING = 5, 256


@Parameter(name="*", group=READING)
@dataclass(frozen=True, kw_only=True)
class OneDocument:
    """How a document is read."""

    column: tuple[str, ...] = ()
    """title=headline: which column of a corpus holds the text, sections, title, id or label; may be repeated"""

    @property
    def columns(self) -> Columns:
        """What the columns of rows are called.

        Raises:
            SettingsError: what is given names no column.
        """
        named: dict[str, str] = {}
        for value in self.column:
            name, separator, column = value.partition("=")
            if name not in COLUMNS or not separator or not column:
                raise SettingsError(f"--column {value!r} should be NAME=COLUMN, of {', '.join(COLUMNS)}")
            named[name] = column
        return Columns(**named)

    def many(self, sources: Sequence[str], report: ReadingReport | None = None) -> Iterator[Document]:
        """Read documents.

        Args:
            sources: files, folders, patterns, corpora or ``-``.
            report: lists what is left out.

        Raises:
            DocumentError: a source has no name, or a document cannot be read and the options do not say to skip it.
        """
        from ..documents.readers import read_documents

        if not sources or not all(sources):
            raise DocumentError("no document is named; name a file, a folder or a corpus")
        if list(sources).count("-") > 1:
            raise DocumentError("standard input can be read only once; name a file for the other document")
        on_error = getattr(self, "on_error", None)
        # Before a model is loaded, which takes longer than finding a mistake.
        missing = next((source for source in sources if is_missing(source)), None) if on_error != "skip" else None
        documents = read_documents(
            list(sources) if missing is None else [missing],
            columns=self.columns,
            on_error=on_error or "stop",
            report=report,
            encoding=getattr(self, "encoding", "utf-8"),
            label_from=getattr(self, "label_from", "column"),
        )
        named = documents if on_error in (None, "skip") else _naming_the_option(documents, sources)
        return named if missing is None else iter(list(named))

    def one(self, source: str, report: ReadingReport | None = None) -> Document:
        """Read the one document that a source holds.

        Args:
            source: what is named.
            report: lists what else is there and cannot be read.

        Raises:
            DocumentError: there is none, or more than one.
        """
        from ..documents.readers import ReadingReport

        report = ReadingReport() if report is None else report
        before = len(report.skipped)
        documents = list(islice(self.many([source], report), 2))
        if len(documents) == 1:
            return documents[0]
        if not documents and (skipped := report.skipped[before:]):
            raise DocumentError(f"{skipped[0].source}: {skipped[0].reason}")
        fix = f"name one document of it as {source}#ID" if Path(source).is_file() else "name one file"
        raise DocumentError(f"{source} holds {'several documents' if documents else 'no document'}; {fix}")


@Parameter(name="*", group=READING)
@dataclass(frozen=True, kw_only=True)
class CorpusReading(OneDocument):
    """How documents are read."""

    on_error: Literal["skip_in_folders", "skip", "stop"] = "skip_in_folders"
    """what cannot be read: skip, count and list it in folders and patterns and stop at what is named itself, skip all
    of it, or stop at the first"""

    def on_unencodable(self, sources: Iterable[str]) -> Literal["skip", "stop"]:
        """What is done with a document that was read, but gives no passages: in folders it is skipped by default.

        Args:
            sources: where documents are read.
        """
        from ..documents.readers.folders import is_folder_or_pattern

        if self.on_error == "skip_in_folders":
            return "skip" if all(map(is_folder_or_pattern, sources)) else "stop"
        return self.on_error

    def encodable(
        self, documents: Iterable[Document], encoder: DocumentEncoder, sources: Iterable[str], report: ReadingReport
    ) -> Iterable[Document]:
        """Documents as they come, where those are left out and listed that give no passages, if these are skipped.

        Args:
            documents: the documents.
            encoder: the model.
            sources: where they are read.
            report: lists what is left out.
        """
        if self.on_unencodable(sources) == "stop":
            return documents
        return _encodable(documents, encoder, report)

    def all_with_model(
        self, sources: Sequence[str], model: ModelOptions, report: ReadingReport
    ) -> tuple[list[Document], DocumentEncoder]:
        """All documents that can be encoded, and the model, which is loaded when they are read.

        Args:
            sources: where they are read.
            model: the model.
            report: lists what is left out.

        Raises:
            DocumentError: there are none.
        """
        documents = list(not_empty(self.many(sources, report), sources, report))
        encoder = model.load()
        return list(not_empty(self.encodable(documents, encoder, sources, report), sources, report)), encoder


@Parameter(name="*", group=READING)
@dataclass(frozen=True, kw_only=True)
class Reading(CorpusReading):
    """How documents are read that may be text files of any encoding."""

    encoding: str = "utf-8"
    """encoding of text files"""


@Parameter(name="*", group=READING)
@dataclass(frozen=True, kw_only=True)
class LabelledReading(CorpusReading):
    """How documents with labels are read."""

    label_from: Literal["column", "folder"] = "column"
    """labels are in the label column, or are the names of folders directly below the source"""


def is_missing(source: str) -> bool:
    """Whether a source is neither standard input nor a file, a folder, a pattern, or a document of a file."""
    from ..documents.readers.folders import is_pattern

    if source == "-" or is_pattern(source):
        return False
    ends = [position for position, character in enumerate(source) if character == "#"]
    try:
        return not any(Path(source[:end]).exists() for end in (*ends, len(source)))
    except PermissionError:
        return False
    except (OSError, ValueError):
        return True


def _naming_the_option(documents: Iterator[Document], sources: Sequence[str]) -> Iterator[Document]:
    """Add to the error of one document that the others can be read without it."""
    try:
        yield from documents
    except DocumentError as error:
        # Without the only source there is nothing else to read.
        if len(sources) == 1 and str(error).startswith(f"{sources[0].partition('#')[0]}: "):
            raise
        raise DocumentError(f"{error} (--on-error skip goes on without it)") from error.__cause__


def _encodable(documents: Iterable[Document], encoder: DocumentEncoder, report: ReadingReport) -> Iterator[Document]:
    from ..documents.readers import Skipped

    for document in documents:
        # A letter or digit always makes a token, so that few documents are cut twice.
        if not any(map(str.isalnum, document.text)) and not encoder.segment(document).passages:
            report.leave_out([Skipped(document.id, "it has no text to encode; leave it out")])
        else:
            yield document


def not_empty(documents: Iterable[T], sources: Iterable[str], report: ReadingReport) -> Iterator[T]:
    """Documents as they come, or what is made of them, where there is one at least.

    Raises:
        DocumentError: there is none; it says the first reason.
    """
    rest = iter(documents)
    for first in rest:
        return chain([first], rest)
    reasons = "".join(f"; {skipped.source}: {skipped.reason}" for skipped in report.skipped[:1])
    raise DocumentError(f"there are no documents in {' '.join(sources)}{reasons}")


def without_repeats(
    encoder: DocumentEncoder, documents: Iterable[Document], repeats: str
) -> tuple[DocumentEncoder, Iterable[Document]]:
    """An encoder that leaves out what repeats in a corpus, and the corpus, which may be one that is read only once.

    Args:
        encoder: the encoder.
        documents: the corpus.
        repeats: ``keep`` for the encoder as it is.
    """
    if repeats == KEEP:
        return encoder, documents
    from ..documents.readers.streams import KeptDocuments
    from ..runtime.progress import progress_bar
    from ..segmentation.repeats import RepeatCounter

    documents = documents if isinstance(documents, list) else KeptDocuments(documents)
    counter = RepeatCounter()
    with progress_bar(None, None, "Reading") as bar:
        for document in documents:
            counter.add(document)
            bar.update(1)
    return encoder.leaving_out(counter.found() or None), documents


@contextmanager
def noting_languages(encoder: DocumentEncoder) -> Iterator[Callable[[Iterable[Document]], Iterable[Document]]]:
    """Gives a function that documents pass through; at the end those in a language unknown to the model are named.

    A model knows the language that its configuration names, and one whose tokenizer has more than 100,000 tokens all.
    Languages are told behind the documents, some hundreds at a time: loading what tells them takes half a second, for
    which no work shall wait.

    Args:
        encoder: the model.
    """
    # One of several processes speaks for all.
    if len(encoder.tokenizer) > _MANY_TOKENS or os.environ.get("RANK", "0") != "0":
        yield lambda documents: documents
        return
    watch = _ForeignDocuments(encoder.model.config.language)
    yield watch.among
    watch.warn(encoder.name)


class _ForeignDocuments:
    """Documents in another language than one.

    Args:
        language: the one, a two-letter code.
    """

    def __init__(self, language: str) -> None:
        self._language = language
        self._total, self._foreign, self._named = 0, 0, list[str]()
        self._waiting: list[tuple[str, str]] = []

    def among(self, documents: Iterable[Document]) -> Iterator[Document]:
        """Documents as they come, whose language will be told."""
        from ..documents.language import sample

        for document in documents:
            self._total += 1
            part = sample(document.text)
            if part is not None:
                self._waiting.append((document.id, part))
            if len(self._waiting) == _MOST_WAITING:
                self._tell()
            yield document

    def _tell(self) -> None:
        from ..documents.language import language_of

        for id, part in self._waiting:
            language = language_of(part)
            if language not in (None, self._language):
                self._foreign += 1
                if len(self._named) < _MOST_NAMED:
                    self._named.append(f"{id} ({language})")
        self._waiting.clear()

    def warn(self, model: str) -> None:
        """Name them in a warning, if there are any.

        Args:
            model: name of the model that does not know their language.
        """
        if self._waiting:
            self._tell()
        if not self._foreign:
            return
        more = f" and {self._foreign - len(self._named):,} more" if self._foreign > len(self._named) else ""
        logger.warning(
            "%s of %s not in the language that %s knows (%s); their vectors mean little: %s%s",
            f"{self._foreign:,}",
            counted(self._total, "document") + (" is" if self._foreign == 1 else " are"),
            model,
            self._language,
            ", ".join(self._named),
            more,
        )
