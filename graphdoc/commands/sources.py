"""The documents that commands read: how they are named and read, what repeats in them, and their language."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from cyclopts import Parameter

from ..documents.document import Document
from ..documents.parsing.rows import Columns
from ..documents.readers import ReadingReport, Skipped, read_documents
from ..documents.readers.folders import is_folder_or_pattern, is_pattern, number_of_files
from ..documents.readers.reading import OnError, OnUnencodable
from ..errors import DocumentError, SettingsError
from ..runtime.progress import Passing, number_of, progress_bar
from ..runtime.text import counted
from .options import READING, ModelOptions

if TYPE_CHECKING:
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
_MOST_NAMED = 5


@Parameter(name="*", group=READING)
@dataclass(frozen=True, kw_only=True)
class OneDocument:
    """Options of reading a document."""

    column: tuple[str, ...] = ()
    """title=headline: which column of a corpus holds the text, sections, title, id or label; may be repeated"""

    @property
    def columns(self) -> Columns:
        """The names of columns."""
        named = dict(value.partition("=")[::2] for value in self.column)
        for name, column in named.items():
            if name not in COLUMNS or not column:
                raise SettingsError(f"--column {name!r} should be NAME=COLUMN, of {', '.join(COLUMNS)}")
        return Columns(**named)

    def documents(self, sources: Sequence[str], report: ReadingReport | None = None) -> Iterator[Document]:
        """Read documents; what is missing is found before a model is loaded, which takes longer."""
        if not sources or not all(sources):
            raise DocumentError("no document is named; name a file, a folder or a corpus")
        if list(sources).count("-") > 1:
            raise DocumentError("standard input can be read only once; name a file for the other document")
        options = {name: value for name, value in vars(self).items() if name != "column"}
        missing = [source for source in sources if options.get("on_error") != "skip" and is_missing_source(source)]
        chosen = {"on_error": "stop"} | options
        documents = read_documents(missing[:1] or list(sources), columns=self.columns, report=report, **chosen)
        return iter(list(documents)) if missing else Passing(documents, partial(number_of_files, list(sources)))

    def document(self, source: str, report: ReadingReport | None = None) -> Document:
        """Read the one document that a source holds."""
        report = ReadingReport() if report is None else report
        before = len(report.skipped)
        documents = list(islice(self.documents([source], report), 2))
        if len(documents) == 1:
            return documents[0]
        if not documents and (skipped := report.skipped[before:]):
            raise DocumentError(f"{skipped[0].source}: {skipped[0].reason}")
        fix = f"name one document of it as {source}#ID" if Path(source).is_file() else "name one file"
        raise DocumentError(f"{source} holds {'several documents' if documents else 'no document'}; {fix}")


@Parameter(name="*", group=READING)
@dataclass(frozen=True, kw_only=True)
class CorpusReading(OneDocument):
    """Options of reading documents."""

    on_error: OnError = "skip_in_folders"
    """what cannot be read: skip it in folders and patterns but stop at a file named itself, skip all, or stop"""

    def on_unencodable(self, sources: Iterable[str]) -> OnUnencodable:
        """Whether a document without passages is skipped or an error; in folders it is skipped by default."""
        if self.on_error == "skip_in_folders":
            return "skip" if all(map(is_folder_or_pattern, sources)) else "stop"
        return self.on_error

    def encodable(
        self, documents: Iterable[Document], encoder: DocumentEncoder, sources: Iterable[str], report: ReadingReport
    ) -> Iterator[Document]:
        """Documents as they come; where those without passages are skipped, they are left out and listed."""
        skips = self.on_unencodable(sources) == "skip"
        for document in documents:
            if skips and not encoder.segmenter.finds_passages(document):
                report.leave_out([Skipped(document.id, "it has no text to encode; leave it out")])
            else:
                yield document

    def all_with_model(
        self, sources: Sequence[str], model: ModelOptions, report: ReadingReport
    ) -> tuple[list[Document], DocumentEncoder]:
        """All documents that can be encoded, one at least, and the model, which is loaded when they are read."""
        documents = list(not_empty(self.documents(sources, report), sources, report))
        encoder = model.load()
        return list(not_empty(self.encodable(documents, encoder, sources, report), sources, report)), encoder


@Parameter(name="*", group=READING)
@dataclass(frozen=True, kw_only=True)
class Reading(CorpusReading):
    """Options of reading documents, among them text files of any encoding."""

    encoding: str = "utf-8"
    """encoding of text files"""


@Parameter(name="*", group=READING)
@dataclass(frozen=True, kw_only=True)
class LabelledReading(CorpusReading):
    """Options of reading documents with labels."""

    label_from: Literal["column", "folder"] = "column"
    """labels are in the label column, or are the names of folders directly below the source"""


def is_missing_source(source: str) -> bool:
    """Whether a source is neither standard input nor a file, a folder, a pattern, or a document of a file."""
    if source == "-" or is_pattern(source):
        return False
    ends = [position for position, character in enumerate(source) if character == "#"]
    try:
        return not any(Path(source[:end]).exists() for end in (*ends, len(source)))
    except PermissionError:
        return False
    except (OSError, ValueError):
        return True


def not_empty(documents: Iterable[T], sources: Iterable[str], report: ReadingReport) -> Iterator[T]:
    """Pass on documents, or what is made of them; DocumentError if there are none."""
    rest = iter(documents)
    for first in rest:
        return Passing(chain([first], rest), partial(number_of, documents))
    raise DocumentError(f"there are no documents in {' '.join(sources)}{first_reason(report)}")


def first_reason(report: ReadingReport) -> str:
    """Why the first document was skipped, to end a sentence with."""
    return "".join(f"; {skipped.source}: {skipped.reason}" for skipped in report.skipped[:1])


def without_repeats(
    encoder: DocumentEncoder, documents: Iterable[Document], repeats: str
) -> tuple[DocumentEncoder, Iterable[Document]]:
    """An encoder that leaves out what repeats in a corpus, unless it is kept; and the corpus, to be read again."""
    if repeats == KEEP:
        return encoder, documents
    from ..documents.readers.streams import KeptDocuments
    from ..segmentation.repeats import RepeatCounter

    counter, is_held = RepeatCounter(), isinstance(documents, list)
    with progress_bar(None, partial(number_of, documents), "Reading") as bar:

        def counting() -> Iterator[Document]:
            for document in documents:
                counter.add(document)
                bar.update(1)
                yield document

        kept = list(counting()) if is_held else KeptDocuments(counting())
    return encoder.without_repeats(counter.result() or None), kept


def noting_languages(encoder: DocumentEncoder, documents: Iterable[Document]) -> Passing[Document]:
    """Documents as they come; after the last one, those in another language than the model's are named in a warning.

    A model knows the language that its configuration names, and one whose tokenizer has more than 100,000 tokens all;
    but that one, too, reads words and sentences by the rules of the language that is named.
    """
    return Passing(_noting_languages(encoder, documents), partial(number_of, documents))


def _noting_languages(encoder: DocumentEncoder, documents: Iterable[Document]) -> Iterator[Document]:
    from ..documents.language import language_of

    known, total, foreign = encoder.model.config.language, 0, list[str]()
    # One of several processes speaks for all.
    is_asked = os.environ.get("RANK", "0") == "0"
    cost = "their vectors mean little"
    if len(encoder.tokenizer) > _MANY_TOKENS:
        cost = (
            "their stop words, stems and sentences follow its rules; save the model with from_pretrained(..., "
            "language=...) for them"
        )
    for document in documents:
        total += 1
        if is_asked and (language := language_of(document.text)) not in (None, known):
            foreign.append(f"{document.id} ({language})")
        yield document
    if foreign:
        logger.warning(
            "%s of %s not in the language of %s (%s); %s: %s%s",
            f"{len(foreign):,}",
            counted(total, "document") + (" is" if len(foreign) == 1 else " are"),
            encoder.name,
            known,
            cost,
            ", ".join(foreign[:_MOST_NAMED]),
            f" and {len(foreign) - _MOST_NAMED:,} more" if len(foreign) > _MOST_NAMED else "",
        )
