"""The command line: finds the command, runs it, and reports mistakes in one line."""

from __future__ import annotations

import difflib
import errno
import inspect
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from cyclopts import App, CycloptsError, Parameter, UnusedCliTokensError
from cyclopts.help import DescriptionRenderer, PlainFormatter
from cyclopts.help.specs import DefaultStyled
from rich.table import Table
from rich.text import Text

from .commands.options import MeasuredModels, ModelOptions
from .errors import GraphdocError, SettingsError
from .runtime.text import one_line
from .version import __version__

# The module of each command, imported when the command is run, and a summary. The function has the command's name.
COMMANDS = {
    "compare": ("compare", "compare two or more documents, or the parts of one, down to their passages"),
    "overview": ("overview", "see a whole collection: a map, groups with names, closest pairs, copies and outliers"),
    "encode": ("encode", "write vectors of documents, sections, passages or sentences"),
    "fit": ("fit", "fit a model to a corpus without training, and to its labels if asked for"),
    "index": ("index", "index documents to search them, and bring an index up to date"),
    "search": ("search", "search an index, a folder or a corpus by words or with a document"),
    "serve": ("index", "serve an index: a page to search with, JSON, and tools for agents"),
    "match": ("match", "score how well pairs of documents match, or rerank the hits of a first stage"),
    "attention": ("attention", "show which passages the graph of a document looks at, and the graph itself"),
    "mine": ("search", "mine hard negatives: documents that look like answers to queries but are not"),
    "pretrain": ("training", "train a document model without labels"),
    "finetune": ("training", "train a model to classify, compare, retrieve, match or find subtopics"),
    "predict": ("predict", "predict the classes of documents"),
    "evaluate cluster": ("evaluate_labels", "k-means clusters and linear probes on labels, next to untrained models"),
    "evaluate classify": ("evaluate_labels", "accuracy, F1 and calibration of a classifier, next to words alone"),
    "evaluate compare": ("evaluate_pairs", "pairs that are similar or not: AUC, average precision, F1, accuracy"),
    "evaluate search": ("evaluate_rankings", "rankings by words, by vectors and by both, on queries with judgements"),
    "evaluate related": ("evaluate_rankings", "rankings of documents by one of them: by words, vectors or sentences"),
    "evaluate all": ("evaluate", "labels, pairs and rankings of many sets in one table, with verdicts on models"),
}
_HELP = """Vectors, comparison and explanation for long documents.

Commands:
{commands}
  evaluate   measure models on labels, pairs, queries or whole sets

graphdoc COMMAND --help says more about each.

Usage examples:
  graphdoc compare a.md b.html --html report.html
  graphdoc overview papers/ --html overview.html
  graphdoc encode papers/ --output vectors/
  graphdoc search papers/ "attention over passages"
  graphdoc attention a.md --plot attention.png
  graphdoc pretrain --config quickstart
  graphdoc finetune classify --config own_labels corpus.source=letters.csv
  graphdoc predict letters/ --model runs/topics/model
  graphdoc evaluate cluster corpus.jsonl --plot tsne.png

Documents are files (.txt .md .html .xml .pdf .docx .tex ...), folders, globs, - for standard input, or corpora
(.jsonl .jsonl.gz .csv .parquet); one document of a corpus is corpus.jsonl#ID."""

_LONGEST_MESSAGE = 1000
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
# Stands for "-", standard input or output, which no option is called.
_STDIO_PLACEHOLDER = "\0-"
# What torch and oneDNN say when they cannot allocate, and the dynamic linker when a library does not fit.
_NO_MEMORY = re.compile(
    "can't allocate memory|annot allocate memory|std::bad_alloc|could not create a (primitive|memory object)"
    "|failed to map segment from shared object"
)


@cache
def build_app() -> App:
    """The command line as an app of cyclopts."""
    lines = {words: f"  {words.split()[-1]:<11}{summary}" for words, (_, summary) in COMMANDS.items()}
    commands = "\n".join(line for words, line in lines.items() if " " not in words)
    tasks = "\n".join(line for words, line in lines.items() if " " in words)
    app = App(
        name="graphdoc",
        version=f"graphdoc {__version__}",
        usage="Usage: graphdoc COMMAND [OPTIONS]",
        help=_HELP.format(commands=commands),
        help_format="plaintext",
        help_formatter=_PlainHelp(),
        default_parameter=Parameter(negative=(), show_default=_shown),
    )
    summary = f"Measure models on labels, pairs, queries or whole sets.\n\nTasks:\n{tasks}"
    evaluate = App(name="evaluate", help=summary, usage="Usage: graphdoc evaluate TASK [OPTIONS]", show=False)
    for words, (module, _) in COMMANDS.items():
        group = evaluate if " " in words else app
        function = f"graphdoc.commands.{module}:{words.replace(' ', '_')}"
        group.command(function, name=words.rpartition(" ")[2], show=False)
    app.command(evaluate)
    return app


def _shown(default: Any) -> Any:
    return None if default is False or default in (None, (), "") else default


class _PlainHelp(PlainFormatter):
    """Prints help as lines of text, descriptions as they were written."""

    def __call__(self, console: Any, options: Any, panel: Any) -> None:
        """Print a group of options: a column of names, and one of what each is for."""
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True)
        for entry in panel.entries if panel.format == "parameter" else ():
            if entry.display_labels:
                label = "  " + ", ".join(entry.display_labels_with_metavar).replace("...", "")
                table.add_row(Text(label), DefaultStyled(DescriptionRenderer()(entry)))
        if table.rows:
            console.print(f"{panel.title}:", table, "", sep="\n", width=min(console.width, 110))

    def render_description(self, console: Any, options: Any, description: Any) -> None:
        """Print what a command does."""
        console.print(description, markup=False, highlight=False, soft_wrap=True)


def _words_of(arguments: Sequence[str]) -> list[str]:
    return next((list(arguments[:n]) for n in (2, 1) if " ".join(arguments[:n]) in COMMANDS), [])


def parse(arguments: Sequence[str]) -> partial[Any]:
    """The call that runs the command that is asked for."""
    tokens = [_STDIO_PLACEHOLDER if argument == "-" else argument for argument in arguments]
    try:
        call, bound, _ = build_app().parse_args(tokens, print_error=False, exit_on_error=False)
    except CycloptsError as error:
        words = _words_of(arguments)
        *before, typed = arguments[: 1 + any(name.startswith(f"{arguments[0]} ") for name in COMMANDS)]
        known = (name.split() for name in COMMANDS if not words)
        names = {name[len(before)] for name in known if name[: len(before)] == before}
        hint = "".join(f" Did you mean {name}?" for name in difflib.get_close_matches(typed, names, 1, 0.5))
        see = " ".join(["graphdoc", *words, "--help"])
        if isinstance(error, UnusedCliTokensError):
            hint = " A query of several words needs quotes." if words == ["search"] else " Give fewer."
        raise SettingsError(f"{str(error).replace(_STDIO_PLACEHOLDER, '-')}{hint} (see {see})") from error
    values = {name: _standard(value) for name, value in bound.kwargs.items()}
    return partial(call, *map(_standard, bound.args), **values)


def _standard(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_standard, value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: _standard(getattr(value, field.name)) for field in fields(value)})
    return "-" if isinstance(value, str) and value == _STDIO_PLACEHOLDER else value


def main(arguments: Sequence[str] | None = None, *, train: Callable[..., Path] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: what follows the program's name; None takes it from the system.
        train: trains by the settings, in the place of the recipe of a command that trains, for scripts.

    Returns:
        The exit status: 0; 2 after a mistake that the user can mend, which is reported in one line; 1 after any other
        error; or another that the command gives.
    """
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character of a document shall not end the run.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    name = " ".join(["graphdoc", *_words_of(arguments)])
    try:
        call = parse(arguments)
        for value in call.keywords.values():
            if isinstance(value, ModelOptions | MeasuredModels):
                value.require()
        with _messages_on_one_line():
            # Help is no command that trains.
            trains = train is not None and "train" in inspect.signature(call).parameters
            status: int | None = call(train=train) if trains else call()
        sys.stdout.flush()
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        _close_output()
        return 141
    except Exception as error:
        if debug:
            raise
        message, status = _explained(error)
        line = one_line(f"{name}: {message}")
        # Of a very long one, which some name or id makes, the middle is left out.
        print(line if len(line) <= _LONGEST_MESSAGE else f"{line[:600]} ... {line[-300:]}", file=sys.stderr)
        if isinstance(error, OSError) and error.errno in _DISK:
            _close_output()
    return status or 0


def _explained(error: Exception) -> tuple[str, int]:
    """The message for an error, and the exit status: 2 if users can fix it."""
    if isinstance(error, GraphdocError):
        return str(error), 2
    if _is_out_of_memory(error):
        advice = "fewer of their passages (max_passages), a lower token_budget, or a smaller model"
        return f"there is too little memory; give smaller documents or {advice}", 2
    if isinstance(error, OSError) and error.errno in _DISK:
        return f"{error.strerror or error}; free some space and try again", 2
    return f"{type(error).__name__}: {error} (--debug shows where)", 1


def _is_out_of_memory(error: Exception) -> bool:
    """Whether Python, the system or a library ran out of memory; not every library has an error class for it."""
    if isinstance(error, ImportError | RuntimeError):
        return type(error).__name__ == "OutOfMemoryError" or _NO_MEMORY.search(str(error)) is not None
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM)


def _close_output() -> None:
    """Give up standard output; Python would complain once more while closing it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _messages_on_one_line() -> Iterator[None]:
    """Print the package's warnings on standard error, one line each."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine("graphdoc: %(message)s"))
    logger = logging.getLogger("graphdoc")
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return one_line(super().format(record))


if __name__ == "__main__":
    sys.exit(main())
