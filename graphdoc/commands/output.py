"""Files that commands write: places that are refused before the long work, and writing them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from ..documents.readers.folders import source_reaching
from ..errors import OutputError
from ..runtime.files import note_own_file, require_own_files
from .printing import console, plain

_LIES_IN = "{} lies in {}, all of which is read; give a place outside"
IMAGES = (".png", ".svg", ".pdf")
# Options that name images.
_DRAWN = ("plot", "reliability")


class Outputs:
    """The files that a command is asked to write, checked before the long work.

    Args:
        sources: what is read, which no output may replace.
        folders: folders that the command writes to beside these files.
        **files: the files by option; None for those that are not asked for.

    Raises:
        OutputError: a file cannot be written, is read, or is no image where one is drawn.
    """

    def __init__(
        self, sources: Iterable[str | None], *, folders: Iterable[str | Path | None] = (), **files: str | None
    ) -> None:
        self._files = {option: path for option, path in files.items() if path is not None}
        check_files(self._files)
        check_apart(sources, self._files.values(), folders)
        for option, path in self._files.items():
            if option in _DRAWN and Path(path).suffix.lower() not in IMAGES:
                raise OutputError(f"{path} has no image suffix; use .png, .svg or .pdf")

    @property
    def paths(self) -> list[str]:
        """The files that are asked for."""
        return list(self._files.values())

    def write(self, **writers: Callable[[str], object]) -> Console | None:
        """Write the files that are asked for.

        Args:
            **writers: write a file, by option.

        Returns:
            Where the summary goes; None where standard output has the JSON.

        Raises:
            OutputError: a file cannot be written.
        """
        for option, path in self._files.items():
            writers[option](path)
        return None if self._files.get("json") == "-" else console()

    def report(self, target: Console) -> None:
        """Say which files were written."""
        written(target, self.paths)


class Reports:
    """Comparison reports in a folder beside a page, called after it.

    Args:
        page: the page that leads to them.
        most: how many there are at most.
        overwrite: whether files are replaced that graphdoc did not write there.

    Raises:
        OutputError: the folder is a file, or holds files of others.
    """

    def __init__(self, page: str, most: int, *, overwrite: bool) -> None:
        self.folder = beside(page, "reports")
        if self.folder.exists() and not self.folder.is_dir():
            raise OutputError(f"{self.folder} is a file, and reports go to a folder of this name; move it")
        if not overwrite:
            require_own_files(self.folder, map(self._name, range(1, most + 1)))

    def write(self, number: int, write: Callable[[Path], Path]) -> str:
        """Write a report, and give its link as the page has it.

        Args:
            number: the number of the report, from 1.
            write: writes it to a path.
        """
        from urllib.parse import quote

        note_own_file(write(self.folder / self._name(number)))
        return f"{quote(self.folder.name)}/{self._name(number)}"

    @staticmethod
    def _name(number: int) -> str:
        return f"{number:04}.html"


def beside(file: str, what: str) -> Path:
    """A folder beside a file, called after it and what it holds."""
    path = Path(file)
    return path.with_name(f"{path.stem}-{what}")


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


def require_name(path: str) -> None:
    """Refuse a name that no file can have.

    Raises:
        OutputError: it is empty or holds a NUL character.
    """
    if not path or "\0" in path:
        raise OutputError(f"{path!r} is no name for an output; give another one")


def check_files(files: dict[str, str]) -> None:
    """Refuse output files that cannot be written before the long work starts.

    Args:
        files: the files by option.

    Raises:
        OutputError: a place is a folder, its folder cannot be written, or two places are the same.
    """
    taken: set[str] = set()
    for option, path in files.items():
        if path == "-" and option == "json":
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


def check_apart(
    sources: Iterable[str | None], files: Iterable[str], folders: Iterable[str | Path | None] = ()
) -> None:
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
        if folder and (source := source_reaching(str(folder), read, is_folder=True)) is not None:
            raise OutputError(_LIES_IN.format(folder, source))
