"""The command line: finds the command, runs it, and reports mistakes in one line."""

from __future__ import annotations

import difflib
import errno
import logging
import os
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from cyclopts import App, CycloptsError, Parameter

from .errors import GraphdocError, SettingsError
from .runtime.text import one_line
from .version import __version__

_EVALUATE = "measure models on labels, pairs, queries or whole sets"
# Of every command its module, which is imported when it is asked for, and what it does. The function in the module is
# called as the command.
COMMANDS = {
    "compare": (
        "compare",
        "compare two or more documents, or the parts of one, at document, section and passage level",
    ),
    "overview": ("overview", "see a whole collection: a map, groups with names, closest pairs, copies and outliers"),
    "encode": ("encode", "write vectors of documents, sections, passages or sentences"),
    "fit": ("fit", "fit a model to a corpus without training, and to its labels if asked for"),
    "index": ("index", "index documents to search them, and bring an index up to date"),
    "search": ("search", "search an index, a folder or a corpus by words or with a document"),
    "serve": ("index", "serve an index: a page to search with, JSON, and tools for agents"),
    "match": ("match", "score how well pairs of documents match"),
    "attention": ("attention", "show which passages the graph of a document looks at, and the graph itself"),
    "mine": ("search", "mine hard negatives: documents that look like answers to queries but are not"),
    "pretrain": ("training", "train a document model without labels"),
    "finetune": ("training", "train a model to classify, compare, retrieve, match or find subtopics"),
    "predict": ("predict", "predict the classes of documents"),
    "evaluate cluster": (
        "evaluate_labels",
        "k-means clustering and linear probes on labels, next to untrained models",
    ),
    "evaluate classify": ("evaluate_labels", "accuracy, F1 and calibration of a classifier, next to words alone"),
    "evaluate compare": ("evaluate_pairs", "pairs that are similar or not: AUC, average precision, F1, accuracy"),
    "evaluate search": ("evaluate_rankings", "rankings by words, by vectors and by both, on queries with judgements"),
    "evaluate related": (
        "evaluate_rankings",
        "rankings of documents by one of them, by words, by one vector or by sentences",
    ),
    "evaluate all": (
        "evaluate",
        "labels, pairs and rankings of many sets in one table, with a verdict for each model",
    ),
}
_EXAMPLES = """Usage examples:
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
_STANDARD = "\0-"
# What torch and oneDNN say when they cannot allocate, and the dynamic linker when a library does not fit.
_SIGNS_OF_NO_MEMORY = (
    "can't allocate memory",
    "annot allocate memory",
    "std::bad_alloc",
    "could not create a primitive",
    "could not create a memory object",
    "failed to map segment from shared object",
)


@cache
def build_app() -> App:
    """The command line as an app of cyclopts."""
    parts = {words: summary for words, (_, summary) in COMMANDS.items()}
    lines = [f"  {words:<11}{summary}" for words, summary in parts.items() if " " not in words]
    commands = "\n".join(
        [*lines, f"  {'evaluate':<11}{_EVALUATE}", "", "graphdoc COMMAND --help says more about each."]
    )
    app = App(
        name="graphdoc",
        version=f"graphdoc {__version__}",
        help=f"Vectors, comparison and explanation for long documents.\n\nCommands:\n{commands}\n\n{_EXAMPLES}",
        help_format="plaintext",
        help_formatter=_PlainHelp(),
        default_parameter=Parameter(negative=()),
    )
    tasks = [f"  {words.partition(' ')[2]:<11}{summary}" for words, summary in parts.items() if " " in words]
    evaluate = App(name="evaluate", help="\n".join([f"{_EVALUATE.capitalize()}.", "", "Tasks:", *tasks]), show=False)
    for words, (module, _) in COMMANDS.items():
        group = evaluate if " " in words else app
        function = f"graphdoc.commands.{module}:{words.replace(' ', '_')}"
        group.command(function, name=words.rpartition(" ")[2], show=False)
    app.command(evaluate)
    return app


class _PlainHelp:
    """Prints help as lines of text, descriptions as they were written."""

    _COLUMN = 26

    def __call__(self, console: Any, options: Any, panel: Any) -> None:
        """Print a group of options."""
        entries = [entry for entry in panel.entries if entry.display_labels]
        if not entries or panel.format != "parameter":
            return
        width = max(60, min(console.width, 110)) - self._COLUMN
        lines = [f"{panel.title}:"]
        for entry in entries:
            label = "  " + ", ".join(entry.display_labels_with_metavar).replace("...", "")
            text = " ".join(self._text(entry.description).split())
            text += f" ({', '.join(entry.choices)})" if entry.choices else ""
            if entry.default not in (None, "None", "False", "()"):
                text += f" (default: {entry.default})"
            first, *others = textwrap.wrap(text, width, break_on_hyphens=False) or [""]
            lines += [f"{label:{self._COLUMN - 1}} {first}"] if len(label) < self._COLUMN else [label]
            others = others if len(label) < self._COLUMN else [first, *others]
            lines += [f"{'':{self._COLUMN}}{line}" for line in others]
        self._print(console, "\n".join([*lines, ""]))

    def render_usage(self, console: Any, options: Any, usage: Any) -> None:
        """Print what a command needs."""
        self._print(console, f"{self._text(usage)}\n")

    def render_description(self, console: Any, options: Any, description: Any) -> None:
        """Print what a command does."""
        self._print(console, f"{self._text(description)}\n")

    @staticmethod
    def _text(content: Any) -> str:
        from rich.console import Console

        wide = Console(width=10_000, markup=False, highlight=False, color_system=None)
        with wide.capture() as captured:
            wide.print(content or "", end="")
        return captured.get().strip()

    @staticmethod
    def _print(console: Any, text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)


def _words_of(arguments: Sequence[str]) -> list[str]:
    return next((list(arguments[:n]) for n in (2, 1) if " ".join(arguments[:n]) in COMMANDS), [])


def parse(arguments: Sequence[str]) -> Callable[..., Any]:
    """Parse the arguments: the call that runs the command.

    Raises:
        SettingsError: there is no such command or option, or a value does not fit.
    """
    tokens = [_STANDARD if argument == "-" else argument for argument in arguments]
    try:
        call, bound, _ = build_app().parse_args(tokens, print_error=False, exit_on_error=False)
    except CycloptsError as error:
        words = _words_of(arguments)
        near = [] if words else difflib.get_close_matches(" ".join(arguments[:2]), COMMANDS, n=1, cutoff=0.5)
        hint = f" Did you mean {near[0]}?" if near else ""
        see = " ".join(["graphdoc", *words])
        raise SettingsError(f"{str(error).replace(_STANDARD, '-')}{hint} (see {see} --help)") from error
    values = {name: _standard(value) for name, value in bound.kwargs.items()}
    return partial(call, *map(_standard, bound.args), **values)


def _standard(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_standard, value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: _standard(getattr(value, field.name)) for field in fields(value)})
    return "-" if isinstance(value, str) and value == _STANDARD else value


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
        with _messages_on_one_line():
            status: int | None = call() if train is None else call(train=train)
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
        print(_shortened(f"{name}: {message}"), file=sys.stderr)
        if isinstance(error, OSError) and error.errno in _DISK:
            _close_output()
    return status or 0


def _explained(error: Exception) -> tuple[str, int]:
    """What is said of an error, and the exit status: 2 for what users can mend."""
    if isinstance(error, GraphdocError):
        return str(error), 2
    if _is_out_of_memory(error):
        advice = "fewer of their passages (max_passages), a lower token_budget, or a smaller model"
        return f"there is too little memory; give smaller documents or {advice}", 2
    if isinstance(error, OSError) and error.errno in _DISK:
        return f"{error.strerror or error}; free some space and try again", 2
    return f"{type(error).__name__}: {error} (--debug shows where)", 1


def _is_out_of_memory(error: Exception) -> bool:
    """Whether Python, the system or a library ran out of memory; not every library has a class of its own for it."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    if isinstance(error, ImportError | RuntimeError):
        return type(error).__name__ == "OutOfMemoryError" or any(part in str(error) for part in _SIGNS_OF_NO_MEMORY)
    return isinstance(error, MemoryError)


def _shortened(message: str) -> str:
    """A message on one line; of a very long one, which some name or id makes, the middle is left out."""
    line = one_line(message)
    return line if len(line) <= _LONGEST_MESSAGE else f"{line[:600]} ... {line[-300:]}"


def _close_output() -> None:
    """Give up standard output; Python would complain once more while closing it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _messages_on_one_line() -> Iterator[None]:
    """Print the package's warnings, and which precision was chosen, on standard error, one line each."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine("graphdoc: %(message)s"))
    logger = logging.getLogger("graphdoc")
    propagate, logger.propagate = logger.propagate, False
    precision = logging.getLogger("graphdoc.precision")
    level = precision.level
    precision.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate
        precision.setLevel(level)


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return one_line(super().format(record))


if __name__ == "__main__":
    sys.exit(main())
