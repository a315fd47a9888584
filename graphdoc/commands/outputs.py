"""Files that commands write: their options, the places that are refused before the long work, and writing them."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from ..documents.readers.folders import source_reaching
from ..errors import OutputError
from ..runtime.files import note_own_file, require_own_files
from .tables import console, plain

_LIES_IN = "{} lies in {}, all of which is read; give a place outside"
IMAGES = (".png", ".svg", ".pdf")
# Options that name images.
_DRAWN = ("plot", "figure", "reliability", "maps")
# What several commands say of the same option.
JSON = "write everything as JSON (- for standard output)"


class Outputs:
    """The files that a command can write.

    Args:
        folder: whether ``--output FOLDER`` stands for all files that have a name in it.
        **files: by option, the name in that folder (None for none) and what the option does.
    """

    def __init__(self, *, folder: bool = True, **files: tuple[str | None, str]) -> None:
        self._files, self._folder = files, folder
        self._named = {option: name for option, (name, _) in files.items() if name is not None}

    def add_to(self, parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
        """Add the options to a parser; the group can take more."""
        group = parser.add_argument_group("output")
        for option, (_, help) in self._files.items():
            group.add_argument(f"--{option}", metavar="FILE", help=help)
        if self._folder:
            *first, last = self._named.values()
            listed = f"{', '.join(first)} and {last}" if first else last
            group.add_argument("--output", metavar="FOLDER", help=f"write {listed} there")
            group.add_argument(
                "--overwrite", action="store_true", help="replace what is there, also what graphdoc did not write"
            )
        return group

    def prepare(
        self, options: argparse.Namespace, sources: Iterable[str | None], folders: Iterable[str | None] = ()
    ) -> None:
        """Fill in the files that ``--output`` stands for, and refuse places that cannot be written.

        Args:
            options: the arguments.
            sources: what is read.
            folders: folders that the command writes to beside these files.

        Raises:
            OutputError: a file cannot be written, is read, or is no image where one is drawn.
        """
        if self._folder and options.output is not None:
            require_name(options.output)
            for option, name in self._named.items():
                if getattr(options, option) is None:
                    setattr(options, option, str(Path(options.output) / name))
            if not options.overwrite:
                # Nobody chose these names, so that what has one by chance stays.
                require_own_files(Path(options.output), (path.name for path in self._in_folder(options)))
        check_files({option: getattr(options, option) for option in self._files})
        check_apart(sources, self.paths(options), folders)
        for option in self._files:
            path = getattr(options, option)
            if path is not None and option in _DRAWN and Path(path).suffix.lower() not in IMAGES:
                raise OutputError(f"{path} has no image suffix; use .png, .svg or .pdf")

    def paths(self, options: argparse.Namespace) -> list[str]:
        """The files that are asked for."""
        return [path for option in self._files if (path := getattr(options, option)) is not None]

    def _in_folder(self, options: argparse.Namespace) -> list[Path]:
        """The files that have their name of graphdoc, in the folder that is given for all."""
        if not self._folder or options.output is None:
            return []
        paths = ((getattr(options, option), Path(options.output) / name) for option, name in self._named.items())
        return [path for given, path in paths if given == str(path)]

    def write(self, options: argparse.Namespace, **writers: Callable[[str], object]) -> Console | None:
        """Write the files that are asked for.

        Args:
            options: the arguments.
            **writers: write a file, by option.

        Returns:
            Where the summary goes; None where standard output has the JSON.

        Raises:
            OutputError: a file cannot be written.
        """
        for option in self._files:
            if (path := getattr(options, option)) is not None:
                writers[option](path)
        for file in self._in_folder(options):
            note_own_file(file)
        return None if options.json == "-" else console()

    def report(self, options: argparse.Namespace, target: Console) -> None:
        """Say which files were written."""
        written(target, self.paths(options))


def written(target: Console, paths: Sequence[str | Path | None]) -> None:
    """Say which files were written."""
    for path in paths:
        if path is not None and str(path) != "-":
            target.print(plain(f"wrote {path}"), soft_wrap=True)


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


def report_name(number: int) -> str:
    """File name of the report on a pair, in a folder of such."""
    return f"{number:04}.html"


def require_name(path: str) -> None:
    """Refuse a name that no file can have.

    Raises:
        OutputError: it is empty or holds a NUL character.
    """
    if not path or "\0" in path:
        raise OutputError(f"{path!r} is no name for an output; give another one")


def check_files(places: dict[str, str | None]) -> None:
    """Refuse output files that cannot be written before the long work starts.

    Args:
        places: the files by option.

    Raises:
        OutputError: a place is a folder, its folder cannot be written, or two places are the same.
    """
    taken: set[str] = set()
    for option, path in places.items():
        if path is None or (path == "-" and option == "json"):
            continue
        if path == "-":
            raise OutputError(f"--{option} cannot go to standard output, only --json can; give the name of a file")
        require_name(path)
        if os.path.realpath(path) in taken:
            raise OutputError(f"{path} is given for two outputs; give each its own file")
        taken.add(os.path.realpath(path))
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


def check_apart(sources: Iterable[str | None], files: Iterable[str], folders: Iterable[str | None] = ()) -> None:
    """Refuse outputs that would replace what is read, or be read themselves by the next run.

    Args:
        sources: what is read.
        files: files that are written.
        folders: folders that files are written to.

    Raises:
        OutputError: a file is one of those that are read, or a file or folder lies in a folder that is read.
    """
    read = [source for source in sources if source and source != "-" and "\0" not in source]
    for file in files:
        if file != "-" and (source := source_reaching(file, read, is_folder=False)) is not None:
            if os.path.lexists(file):
                raise OutputError(f"{file} is read, and would be replaced; give another place")
            raise OutputError(_LIES_IN.format(file, source))
    for folder in folders:
        if folder and (source := source_reaching(folder, read, is_folder=True)) is not None:
            raise OutputError(_LIES_IN.format(folder, source))
