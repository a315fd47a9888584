"""The command line: finds the command, runs it, and reports mistakes in one line."""

from __future__ import annotations

import argparse
import difflib
import errno
import importlib
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from .errors import GraphdocError
from .registry import training_commands
from .runtime.text import one_line
from .version import __version__

DESCRIPTION = "Vectors, comparison and explanation for long documents."
EPILOG = """examples:
  graphdoc compare a.md b.html --html report.html
  graphdoc overview papers/ --html overview.html
  graphdoc encode papers/ --output vectors/
  graphdoc search papers/ "attention over passages"
  graphdoc attention a.md --plot attention.png
  graphdoc prepare --config configs/pretrain/quickstart.yaml
  graphdoc pretrain --config configs/pretrain/quickstart.yaml
  graphdoc finetune classify --config configs/finetune/own_labels.yaml corpus.source=letters.csv
  graphdoc predict letters/ --model runs/topics/model
  graphdoc evaluate cluster --data corpus.jsonl --plot tsne.png
  graphdoc COMMAND --help   says more about each

Documents are files (.txt .md .html .xml .pdf .docx .tex ...), folders, globs, - for standard input, or corpora
(.jsonl .jsonl.gz .csv .parquet); one document of a corpus is corpus.jsonl#ID.
"""


# Modules of graphdoc.commands, without those that train, in the order in which help shows them.
_FIRST_COMMANDS = (
    *("compare", "overview", "encode", "fit", "index", "search", "serve", "match", "attention", "graph"),
    *("prepare", "repeats", "mine"),
)
_LAST_COMMANDS = ("predict", "settings")
_EVALUATIONS = tuple(f"evaluate {task}" for task in ("all", "cluster", "classify", "compare", "search", "related"))
_LONGEST_MESSAGE = 1000
# Options that the first line of a help text names.
_MOST_IN_USAGE = 3
# What argparse says of a command that it does not know.
_WRONG_COMMAND = re.compile(
    r"argument (?P<kind>COMMAND|TASK): invalid choice: '(?P<given>.*)' \(choose from (?P<known>.*)\)"
)
# Stands before an argument that is no option, whatever it begins with; no system passes such a character.
_NO_OPTION = "\0"
# What torch and oneDNN say when they cannot allocate, and the dynamic linker when a library does not fit.
_SIGNS_OF_NO_MEMORY = (
    "can't allocate memory",
    "annot allocate memory",
    "std::bad_alloc",
    "could not create a primitive",
    "could not create a memory object",
    "failed to map segment from shared object",
)


class Parser(argparse.ArgumentParser):
    """An argument parser that says what is wrong in one line and names the nearest option."""

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with status 2."""
        if message.startswith("unrecognized arguments: "):
            wrong = message.removeprefix("unrecognized arguments: ").partition(" ")[0]
            near = difflib.get_close_matches(wrong.partition("=")[0], list(self._option_string_actions), n=1)
            message = f"option {wrong} is unknown" + (f"; did you mean {near[0]}?" if near else "")
            if not wrong.startswith("-") or wrong == "-":
                message = f"{wrong.removeprefix(_NO_OPTION)!r} is one argument too many"
        elif choice := _WRONG_COMMAND.fullmatch(message):
            near = difflib.get_close_matches(choice["given"], re.findall(r"'(\S+)'", choice["known"]), n=1)
            if near:
                message = f"{choice['kind'].lower()} {choice['given']} is unknown; did you mean {near[0]}?"
        self.exit(2, _shortened(f"{self.prog}: {message} (see {self.prog} --help)") + "\n")


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Shows in the first line what a command needs, where its options alone would fill a screen."""

    def add_usage(
        self, usage: str | None, actions: Iterable[argparse.Action], groups: Any, prefix: str | None = None
    ) -> None:
        """Name what has to be given, and that there are options, which are listed below."""
        every = list(actions)
        needed = [action for action in every if action.required or not action.option_strings]
        if len(every) - len(needed) > _MOST_IN_USAGE:
            others = argparse.Action([], "options", metavar="[options]")
            every, groups = [*needed, others], ()
        super().add_usage(usage, every, groups, prefix)


def command_words() -> list[str]:
    """The words of every command, one or two, in the order in which help shows them.

    >>> command_words()[0], command_words()[-1]
    ('compare', 'evaluate related')
    """
    single = [words for words in training_commands() if " " not in words]
    grouped = [words for words in training_commands() if " " in words]
    return [*_FIRST_COMMANDS, *single, *_LAST_COMMANDS, *grouped, *_EVALUATIONS]


def _command(words: str) -> Any:
    """The command of some words; others are not imported, so that it begins sooner."""
    if words not in training_commands():
        return importlib.import_module(f".commands.{words.replace(' ', '_')}", __package__)
    from .commands.training_run import TrainingCommand

    return TrainingCommand(words)


def _group(name: str, tasks: Sequence[Any]) -> Any:
    """What is said of commands whose words begin alike."""
    if name == "evaluate":
        return importlib.import_module(".commands.evaluate", __package__)
    from .commands.training_run import TrainingGroup

    return TrainingGroup(name, tasks)


def _texts(command: Any) -> dict[str, Any]:
    return {"description": command.DESCRIPTION, "epilog": command.EPILOG, "formatter_class": _Formatter}


def build_parser() -> Parser:
    """The parser that knows all commands, for help and for words that are none."""
    parser = Parser(prog="graphdoc", description=DESCRIPTION, epilog=EPILOG, formatter_class=_Formatter)
    parser.add_argument("--version", action="version", version=f"graphdoc {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, dest="command")
    found = {words: _command(words) for words in command_words()}
    for first in dict.fromkeys(words.partition(" ")[0] for words in found):
        if first in found:
            commands.add_parser(first, help=found[first].HELP, **_texts(found[first]))
            continue
        tasks = {words: command for words, command in found.items() if words.startswith(f"{first} ")}
        group = _group(first, list(tasks.values()))
        within = commands.add_parser(first, help=group.HELP, **_texts(group))
        choices = within.add_subparsers(title="tasks", metavar="TASK", required=True, dest="task")
        for words, command in tasks.items():
            choices.add_parser(words.partition(" ")[2], help=command.HELP, **_texts(command))
    return parser


def build_command_parser(words: str) -> Parser:
    """The parser of one command.

    Args:
        words: the words of the command.
    """
    command = _command(words)
    parser = Parser(prog=f"graphdoc {words}", allow_abbrev=False, **_texts(command))
    command.add_arguments(parser)
    parser.set_defaults(call=command.run, command=words)
    return parser


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line; options may stand before, between and after the documents, and none after ``--``."""
    known = command_words()
    for words in (list(arguments[:length]) for length in (2, 1)):
        if words and " ".join(words) in known:
            parser = build_command_parser(" ".join(words))
            before, after = _at_double_dash(arguments[len(words) :])
            # argparse loses what follows "--" where options may stand anywhere.
            marked = [f"{_NO_OPTION}{value}" for value in after]
            found = parser.parse_intermixed_args([*before, *marked])
            _require_values(parser, found)
            for name, value in vars(found).items():
                if isinstance(value, list):
                    setattr(found, name, [_unmarked(one) for one in value])
                else:
                    setattr(found, name, _unmarked(value))
            return found
    parser = build_parser()
    if not arguments:
        parser.print_help()
    return parser.parse_args(arguments)


def _require_values(parser: Parser, found: argparse.Namespace) -> None:
    """Refuse ``--option=--``, of which argparse makes a list of nothing."""
    for action in parser._actions:
        is_single = isinstance(action, argparse._StoreAction) and action.nargs is None
        if is_single and getattr(found, action.dest, None) == []:
            parser.error(f"argument {'/'.join(action.option_strings)}: expected one argument")


def _at_double_dash(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """What stands before ``--``, and after it."""
    place = list(arguments).index("--") if "--" in arguments else len(arguments)
    return list(arguments[:place]), list(arguments[place + 1 :])


def _unmarked(value: Any) -> Any:
    return value.removeprefix(_NO_OPTION) if isinstance(value, str) else value


def main(arguments: Sequence[str] | None = None, *, train: Callable[..., Path] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: what follows the program's name; None takes it from the system.
        train: trains by the settings, in the place of the recipe of a command that trains, for scripts.

    Returns:
        The exit status: 0, 2 after a mistake that the user can mend, which is reported in one line, or another that
        the command gives.
    """
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character of a document shall not end the run.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    name = "graphdoc"
    try:
        options = parse(sys.argv[1:] if arguments is None else arguments)
        name = f"graphdoc {options.command}"
        with _messages_on_one_line():
            status = options.call(options) if train is None else options.call(options, train)
        sys.stdout.flush()
    except GraphdocError as error:
        print(_shortened(f"{name}: {error}"), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        _close_output()
        return 141
    except Exception as error:
        if _is_out_of_memory(error):
            advice = "fewer of their passages (max_passages), a lower token_budget, or a smaller model"
            print(f"{name}: there is too little memory; give smaller documents or {advice}", file=sys.stderr)
            return 2
        if not isinstance(error, OSError) or error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        print(f"{name}: {error.strerror or error}; free some space and try again", file=sys.stderr)
        _close_output()
        return 2
    return status or 0


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
    """Formats a record without line breaks and control characters."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        return one_line(super().format(record))


if __name__ == "__main__":
    sys.exit(main())
