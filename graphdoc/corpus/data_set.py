"""A data set of the hub or of a folder, as ``datasets.load_dataset`` finds it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..documents.readers import Skipped
from ..errors import DocumentError
from ..runtime.text import one_line
from ..settings.corpus import CorpusSettings
from .source_files import file_identities

_LONGEST_REASON = 300


class DataSet:
    """One split of a data set, read row by row.

    Files of this machine are read where they lie. ``datasets`` would copy them to its cache, and take that copy
    again for files that were changed and have kept their time.

    Args:
        settings: which one, and how.

    Raises:
        DocumentError: there is no such data set, configuration or split.
    """

    def __init__(self, settings: CorpusSettings) -> None:
        import datasets  # type: ignore[import-untyped, unused-ignore]

        self._settings = settings
        self._options = {"revision": settings.revision, "data_files": settings.data_files}
        self._builder: Any = self._named(
            lambda: datasets.load_dataset_builder(str(settings.dataset), settings.dataset_config, **self._options)
        )
        found = self._builder.config.data_files or {}
        self._files = [str(file) for files in found.values() for file in files]
        self._is_local = bool(self._files) and not any("://" in file for file in self._files)
        self._is_read_in_place = settings.streaming or (self._is_local and "[" not in settings.split)
        if self._is_read_in_place:
            self._rows = self._named(lambda: self._builder.as_streaming_dataset(split=settings.split))

    def identity(self, records: Path) -> dict[str, Any]:
        """What differs when its rows may have changed.

        Args:
            records: folder that keeps what is known of files.
        """
        settings = self._settings
        named = {"dataset": settings.dataset, "configuration": self._builder.config.name, "split": settings.split}
        if self._is_local:
            return {**named, "files": file_identities(map(Path, self._files), records)}
        # The last part is a hash of the revision, or of addresses with their times.
        return {**named, "version": Path(self._builder.cache_dir).parts[-4:]}

    def rows(self, rank: int = 0, count: int = 1) -> Iterator[Any]:
        """Read the rows.

        Args:
            rank: which share is read: whole files where their number is a multiple of ``count``, else every
                ``count``-th row.
            count: number of shares.

        Raises:
            BrokenRows: they cannot be read on.
            DocumentError: the data set cannot be loaded.
        """
        import datasets

        settings = self._settings
        if self._is_read_in_place:
            from datasets.distributed import split_dataset_by_node  # type: ignore[import-untyped, unused-ignore]

            yield from self._watched(split_dataset_by_node(self._rows, rank, count) if count > 1 else self._rows)
            return
        with tempfile.TemporaryDirectory() as folder:
            options = {**self._options, "cache_dir": folder if self._is_local else None}
            yield from self._watched(
                self._named(
                    lambda: datasets.load_dataset(
                        str(settings.dataset), settings.dataset_config, split=settings.split, **options
                    )
                )
            )

    def _named(self, load: Any) -> Any:
        try:
            return load()
        # Builders raise whatever their format raises: a name, split or file that is wrong, or the network.
        except Exception as error:
            settings = self._settings
            given = {"configuration": settings.dataset_config, "split": settings.split, **self._options}
            raise DocumentError(
                f"data set {settings.dataset!r} cannot be loaded "
                f"({', '.join(f'{name} {value!r}' for name, value in given.items() if value is not None)}): "
                f"{_reason(error.__cause__ or error)}; check its name, configuration and split"
            ) from error

    def _watched(self, rows: Any) -> Iterator[Any]:
        """Pass rows on, and say in one line where a data set breaks, whatever its format raises."""
        number = 0
        iterator = iter(rows)
        while True:
            try:
                row = next(iterator)
            except StopIteration:
                return
            except Exception as error:
                raise BrokenRows(self._settings.name, number, error) from error
            number += 1
            yield row


class BrokenRows(DocumentError):
    """A data set that cannot be read any further."""

    def __init__(self, name: str, number: int, error: Exception) -> None:
        reason = f"it cannot be read after row {number} ({_reason(error)}), and the rest is not read; load it again"
        super().__init__(f"{name}: {reason}")
        self.skipped = Skipped(name, reason)


def _reason(error: BaseException) -> str:
    return one_line(str(error), _LONGEST_REASON) or type(error).__name__
