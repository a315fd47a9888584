"""Arguments that several commands share, and what is made of them."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..documents.document import Document
from ..documents.parsing.formats import is_corpus, split_suffix
from ..documents.parsing.rows import Columns
from ..errors import DocumentError, OutputError

if TYPE_CHECKING:
    from ..documents.readers import ReadingReport
    from ..encoder import DocumentEncoder

_MOST_DIGITS = 18
PRECISION_CHOICES = ("float32", "bfloat16", "float16")


def add_model_arguments(parser: argparse.ArgumentParser, *, several: bool = False, classifier: bool = False) -> None:
    """Add the choice of a model, of several, or of one that was fine-tuned on labels, and of how it runs."""
    group = parser.add_argument_group("model")
    choices = "'mini' (default), a folder written by save_pretrained, or a hub id"
    if several:
        group.add_argument("--model", action="append", help=f"{choices}; may be given several times")
    elif classifier:
        group.add_argument("--model", required=True, help="folder or hub id of a model that was fine-tuned on labels")
    else:
        group.add_argument("--model", default="mini", help=choices)
    group.add_argument("--device", help="cpu, cuda, cuda:1, mps (default: an accelerator if there is one)")
    group.add_argument(
        "--dtype", choices=PRECISION_CHOICES, default="float32", help="precision of the transformer (default: float32)"
    )
    group.add_argument(
        "--max-passages",
        type=passage_limit,
        default=argparse.SUPPRESS,
        metavar="N",
        help="passages encoded of one document, 'all' for every one (default: the model's, 100 for mini)",
    )


def add_reading_arguments(parser: argparse.ArgumentParser, *, on_error: bool = True) -> None:
    """Add how documents are read."""
    group = parser.add_argument_group("reading")
    group.add_argument("--encoding", default="utf-8", help="encoding of text files (default: utf-8)")
    for name in ("text", "sections", "title", "id", "label"):
        group.add_argument(
            f"--{name}-column", default=name, metavar="NAME", help=f"column that holds the {name} (default: {name})"
        )
    if on_error:
        group.add_argument(
            "--on-error",
            choices=("stop", "skip"),
            default="stop",
            help="stop at a document that cannot be read, or skip, count and list it (default: stop)",
        )


def passage_limit(value: str) -> int | None:
    """A number of passages, or None for ``all``."""
    if value == "all":
        return None
    try:
        number = int(value)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{value!r} is neither a number of at least 1 nor 'all'")
    return number


def positive(value: str) -> int:
    """A whole number of at least 1, within what a computer counts to."""
    return _whole(value, 1)


def whole(value: str) -> int:
    """A whole number of at least 0, within what a computer counts to."""
    return _whole(value, 0)


def _whole(value: str, least: int) -> int:
    if value.isdecimal() and len(value) > _MOST_DIGITS:
        raise argparse.ArgumentTypeError(f"{value!r} is too large; give a number of up to {_MOST_DIGITS} digits")
    if not value.isdecimal() or int(value) < least:
        raise argparse.ArgumentTypeError(f"{value!r} is not a whole number of at least {least}")
    return int(value)


def probability(value: str) -> float:
    """A number between 0 and 1."""
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number < 1:
        raise argparse.ArgumentTypeError(f"{value!r} is not a number above 0 and below 1")
    return number


def load_encoder(options: argparse.Namespace, name: str | None = None, **settings: Any) -> DocumentEncoder:
    """Load the model that the arguments name, or another one in the way they say."""
    from ..encoder import DocumentEncoder

    if hasattr(options, "max_passages"):
        settings["max_passages"] = options.max_passages
    model = options.model if name is None else name
    return DocumentEncoder.from_pretrained(model, device=options.device, dtype=options.dtype, **settings)


def columns_of(options: argparse.Namespace) -> Columns:
    """The column names that the arguments give."""
    return Columns(
        text=options.text_column,
        sections=options.sections_column,
        title=options.title_column,
        id=options.id_column,
        label=options.label_column,
    )


def read_many(
    sources: list[str], options: argparse.Namespace, report: ReadingReport | None = None
) -> Iterator[Document]:
    """Read documents as the arguments say."""
    from ..documents.readers import read_documents

    if not all(sources):
        raise DocumentError("the name of a document is empty; name a file, a folder or a corpus")
    if sources.count("-") > 1:
        raise DocumentError("standard input can be read only once; name a file for the other document")
    documents = read_documents(
        sources,
        columns=columns_of(options),
        on_error=getattr(options, "on_error", "stop"),
        report=report,
        encoding=options.encoding,
    )
    return _telling_to_skip(documents, sources) if _could_skip(sources, options) else documents


def _could_skip(sources: list[str], options: argparse.Namespace) -> bool:
    """Whether there may be more documents than one that cannot be read, and the command could go on without it."""
    if getattr(options, "on_error", None) != "stop":
        return False
    try:
        is_file = Path(sources[0]).is_file()
    except (OSError, ValueError):
        # No name that the system takes; reading tells it.
        return False
    return len(sources) > 1 or not is_file or is_corpus(split_suffix(Path(sources[0]))[1])


def _telling_to_skip(documents: Iterator[Document], sources: list[str]) -> Iterator[Document]:
    try:
        yield from documents
    except DocumentError as error:
        if len(sources) == 1 and str(error).startswith(f"{sources[0]}: "):
            # It is the source itself that cannot be read, and there is nothing else.
            raise
        raise DocumentError(f"{error} (--on-error skip goes on without it)") from error.__cause__


def encodable(documents: Iterable[Document], encoder: DocumentEncoder, report: ReadingReport) -> Iterator[Document]:
    """Leave out and list documents of nothing but invisible characters, which give no passages."""
    from ..documents.readers import Skipped

    for document in documents:
        # A letter or digit always makes a token, so that few documents are cut twice.
        if not any(map(str.isalnum, document.text)) and not encoder.segment(document).passages:
            report.skipped.append(Skipped(document.id, "it has no text to encode; leave it out"))
        else:
            yield document


def no_documents(sources: Iterable[str], report: ReadingReport) -> DocumentError:
    """The error that nothing was read, with the first reason if there is one."""
    reasons = "".join(f"; {skipped.source}: {skipped.reason}" for skipped in report.skipped[:1])
    return DocumentError(f"there are no documents in {' '.join(sources)}{reasons}")


def read_one(source: str, options: argparse.Namespace) -> Document:
    """Read the one document that a source holds.

    Raises:
        DocumentError: there is none, or more than one.
    """
    from ..documents.readers.folders import FoundFile, find_files

    found = list(islice(read_many([source], options), 2))
    if len(found) == 1:
        return found[0]
    if Path(source).is_dir():
        first = next(file.path for file in find_files(source) if isinstance(file, FoundFile))
        raise DocumentError(f"{source} is a folder of several documents; name one file in it, such as {first}")
    fix = f"name one document of it as {source}#ID" if Path(source).is_file() else "name one of them"
    raise DocumentError(f"{source} holds {'several documents' if found else 'no document'}; {fix}")


def write_json(path: str, content: Any) -> None:
    """Write JSON to a file, or to standard output for ``-``.

    Raises:
        OutputError: the file cannot be written.
    """
    from ..runtime.files import write_text

    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    if path == "-":
        print(text)
    else:
        write_text(path, text + "\n")


def fill_outputs(options: argparse.Namespace, *sources: str | None, **files: str) -> None:
    """Set the outputs that ``--output FOLDER`` stands for, where they are not given one by one, and check them all.

    Args:
        options: the arguments.
        *sources: what is read.
        **files: name of the file in the folder, by option.

    Raises:
        OutputError: a place cannot be written.
    """
    if options.output == "":
        raise OutputError("the name of the output folder is empty")
    if options.output:
        for name, file in files.items():
            if getattr(options, name) is None:
                setattr(options, name, str(Path(options.output) / file))
    check_outputs(options, *files)
    check_apart(sources, *(getattr(options, name) for name in files))


def check_outputs(options: argparse.Namespace, *names: str) -> None:
    """Refuse output places that cannot be written before the long work starts.

    Args:
        options: the arguments.
        *names: the options that name output files.

    Raises:
        OutputError: a place is a folder, its folder cannot be written, or two places are the same.
    """
    places: set[str] = set()
    for name in names:
        path = getattr(options, name)
        if path is None or (path == "-" and name == "json"):
            continue
        if path == "-":
            raise OutputError(f"--{name} cannot go to standard output, only --json can; give the name of a file")
        if not path or "\0" in path:
            raise OutputError(f"{path!r} is no name for an output file; give another one")
        if os.path.realpath(path) in places:
            raise OutputError(f"{path} is given for two outputs; give each its own file")
        places.add(os.path.realpath(path))
        try:
            _check_place(Path(path))
        except OSError as error:
            raise OutputError(f"{path} cannot be written: {error.strerror}; choose another place") from error


def _check_place(path: Path) -> None:
    if path.is_dir():
        raise OutputError(f"{path} is a folder; give the name of a file")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir():
        raise OutputError(f"{path} cannot be written: {folder} is not a folder; choose another place")
    if not os.access(folder, os.W_OK):
        raise OutputError(f"{path} cannot be written: no permission in {folder}; choose another place")


def check_apart(sources: Iterable[str | None], *files: str | None, folder: str | None = None) -> None:
    """Refuse outputs that would replace what is read, or be read themselves when the run goes on.

    Args:
        sources: what is read.
        *files: files that are written.
        folder: a folder of shards that is written.

    Raises:
        OutputError: a file is one of those that are read, or the folder lies in one that is read.
    """
    for source in sources:
        if not source or source == "-" or "\0" in source:
            continue
        place = Path(os.path.realpath(source if os.path.lexists(source) else source.partition("#")[0]))
        for file in files:
            target = Path(os.path.realpath(file)) if file and file != "-" else None
            if target and (
                target == place or (place in target.parents and target.exists() and split_suffix(target)[1])
            ):
                raise OutputError(f"{file} is read, and would be replaced; give another place")
        if folder and place.is_dir() and place in (inner := Path(os.path.realpath(folder)), *inner.parents):
            raise OutputError(f"{folder} lies in {source}, all of which is read; give a place outside")


def check_image(path: str | None) -> None:
    """Refuse an unknown image suffix before the long work starts.

    Raises:
        OutputError: the suffix is unknown.
    """
    if path is not None and Path(path).suffix.lower() not in (".png", ".svg", ".pdf"):
        raise OutputError(f"{path} has no image suffix; use .png, .svg or .pdf")
