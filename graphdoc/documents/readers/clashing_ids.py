"""Ids that several of the sources that are listed would give to different files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from ...errors import DocumentError
from ..parsing.formats import is_corpus, split_suffix
from .folders import FoundFile, find_files, is_folder_or_pattern, split_pattern
from .identities import Places


@dataclass(frozen=True)
class ClashingIds:
    """Ids that need more to be told apart: files their path as given, what a folder holds the folder's name.

    Args:
        ids: ids that more than one file would get.
        prefixes: what is put in front of them, by the folder or pattern as it was given: the folder's name, or its
            path where two folders have the same name.
    """

    ids: frozenset[str] = frozenset()
    prefixes: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, sources: Sequence[Any]) -> ClashingIds:
        """Look through sources that are listed one by one; only names are read."""
        paths = [str(source) for source in sources if isinstance(source, str | PathLike)]
        places = Places()
        # A file that several sources give is one, by whatever name.
        found = Counter(id for id, _ in {(id, places.of(file)) for path in paths for id, file in _files_of(path)})
        ids = frozenset(id for id, count in found.items() if count > 1)
        roots = {path: split_pattern(path)[0] for path in paths if ids and is_folder_or_pattern(path)}
        names = {root: root.resolve() for root in roots.values()}
        common = Counter(root.name for root in set(names.values()))
        return cls(
            ids,
            {
                path: names[root].name if common[names[root].name] == 1 and names[root].name else root.as_posix()
                for path, root in roots.items()
            },
        )

    def of_file(self, path: Path) -> str:
        """The id of a file that is named itself."""
        stem = split_suffix(path)[0]
        return path.as_posix() if stem in self.ids else stem

    def of_found(self, source: str, file: FoundFile) -> str:
        """The id of a file that a folder or pattern holds."""
        return f"{self.prefixes[source]}/{file.id}" if file.id in self.ids and source in self.prefixes else file.id


def _files_of(source: str) -> Iterator[tuple[str, Path]]:
    """The files of a source with the ids that they would have by themselves; no corpora, whose rows have ids."""
    if not is_folder_or_pattern(source):
        stem, kind = split_suffix(Path(source))
        if kind and not is_corpus(kind):
            yield stem, Path(source)
        return
    try:
        for file in find_files(source):
            if isinstance(file, FoundFile) and not is_corpus(split_suffix(file.path)[1]):
                yield file.id, file.path
    except DocumentError:
        # Said where it is read.
        return
