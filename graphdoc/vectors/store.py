"""A folder of vectors that is finished: its manifest, and reading it back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..documents.readers import Skipped
from ..errors import OutputError
from ..runtime.files import file_checksum, write_text
from ..runtime.text import counted, one_line
from ..segmentation.repeats import LeavesOut, Repeats
from ..segmentation.spans import Coverage
from .shards import FORMAT, FORMAT_VERSION, Shard, read_rows, shard_name

if TYPE_CHECKING:
    from rich.console import Console

MANIFEST_FILE = "manifest.json"
# What of the documents was left out as repeated; only where something was.
REPEATS_FILE = "repeats.safetensors"
ANOTHER_FOLDER = "give another folder, or replace what is there with overwrite=True (--overwrite)"
_MOST_PASSED_OVER = 3


@dataclass(frozen=True, slots=True)
class ShardEntry:
    """A shard as the manifest lists it.

    Args:
        file: its name in the folder.
        documents: documents encoded in it.
        rows: vectors in it.
        checksum: BLAKE2b hash of the file, 32 bytes in hexadecimal digits.
    """

    file: str
    documents: int
    rows: int
    checksum: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a folder of vectors holds and how it was made; nothing in it depends on when or in how many runs.

    Args:
        folder: where it lies; not written to the file.
        model: description of the model (:meth:`~graphdoc.DocumentEncoder.describe`).
        weights: hash of the model's weights, configuration and tokenizer.
        settings: how it was run.
        versions: of graphdoc and the libraries that compute.
        hidden_size: length of a vector.
        documents: documents encoded.
        rows: vectors written.
        shards: the files.
        coverage: what of the documents was encoded.
        skipped: what was found and not encoded, with reasons.
        ignored: files passed over in folders, with reasons.
        precision: the precision that ``auto`` took, and what was measured; None where it was named.
    """

    folder: Path
    model: Mapping[str, Any]
    weights: str
    settings: Mapping[str, Any]
    versions: Mapping[str, str]
    hidden_size: int
    documents: int
    rows: int
    shards: tuple[ShardEntry, ...]
    coverage: Coverage
    skipped: tuple[Skipped, ...] = ()
    ignored: tuple[Skipped, ...] = ()
    precision: Mapping[str, Any] | None = None

    @classmethod
    def of(
        cls,
        folder: Path,
        origin: Mapping[str, Any],
        precision: Mapping[str, Any] | None,
        hidden_size: int,
        shards: Iterable[Shard],
        skipped: Iterable[Skipped],
        ignored: Iterable[Skipped],
    ) -> Manifest:
        """Sum up the shards of a finished run.

        Args:
            folder: where they lie.
            origin: model, weights, settings and versions.
            precision: how the precision was chosen.
            hidden_size: length of a vector.
            shards: all shards in order.
            skipped: what was not even read.
            ignored: files passed over.
        """
        entries, coverage, all_skipped = [], Coverage(), list(skipped)
        for shard in shards:
            entries.append(ShardEntry(shard.file, shard.coverage.documents, shard.rows, shard.checksum))
            coverage += shard.coverage
            all_skipped.extend(shard.skipped)
        return cls(
            folder=folder,
            **origin,
            hidden_size=hidden_size,
            documents=coverage.documents,
            rows=sum(entry.rows for entry in entries),
            shards=tuple(entries),
            coverage=coverage,
            skipped=tuple(all_skipped),
            ignored=tuple(ignored),
            precision=json.loads(json.dumps(precision)),
        )

    @classmethod
    def read(cls, folder: str | Path) -> Manifest:
        """Read the manifest of a finished folder.

        Raises:
            OutputError: there is none, or it is not one of graphdoc.
        """
        path = Path(folder) / MANIFEST_FILE
        if not path.parent.is_dir():
            raise OutputError(f"{folder} is no folder; give one that graphdoc encode --output has written")
        if not path.exists():
            raise OutputError(f"{folder} has no {MANIFEST_FILE}, so its encoding is not finished; run it again")
        try:
            if not path.is_file():
                raise OSError("not a regular file")
            values = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise OutputError(f"{path} cannot be read as JSON; move it, or give another folder") from error
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise OutputError(f"{path} was not written by graphdoc; move it, or give another folder")
        if values.get("format_version") != FORMAT_VERSION:
            raise OutputError(
                f"{path} is of format version {values.get('format_version')}, this graphdoc reads {FORMAT_VERSION}; "
                "encode into another folder"
            )
        try:
            manifest = cls(
                folder=Path(folder),
                **{key: values[key] for key in ("model", "weights", "settings", "versions", "hidden_size")},
                documents=values["documents"],
                rows=values["rows"],
                shards=tuple(ShardEntry(**entry) for entry in values["shards"]),
                coverage=Coverage.from_dict(values["coverage"]),
                skipped=tuple(Skipped(**entry) for entry in values["skipped"]["documents"]),
                ignored=tuple(Skipped(**entry) for entry in values["ignored"]["files"]),
                precision=values.get("precision"),
            )
            consistent = manifest._is_consistent()
        except (KeyError, TypeError, ValueError):
            consistent = False
        if not consistent:
            raise OutputError(f"{path} was changed since graphdoc wrote it; remove it and run the encoding again")
        return manifest

    def _is_consistent(self) -> bool:
        """Whether the parts are of their types and agree with each other."""
        return (
            all(isinstance(part, dict) for part in (self.model, self.settings, self.versions))
            and all(isinstance(one, str) for one in (self.weights, self.model["name"], self.settings["level"]))
            and isinstance(self.settings["shard_size"], int)
            and isinstance(self.hidden_size, int)
            and isinstance(self.precision, dict | None)
            and self.rows == sum(entry.rows for entry in self.shards)
            and self.documents == sum(entry.documents for entry in self.shards) == self.coverage.documents
            and [entry.file for entry in self.shards] == [shard_name(number) for number in range(len(self.shards))]
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything as it stands in the file."""
        return {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "model": dict(self.model),
            "weights": self.weights,
            "settings": dict(self.settings),
            "versions": dict(self.versions),
            **({} if self.precision is None else {"precision": dict(self.precision)}),
            "hidden_size": self.hidden_size,
            "documents": self.documents,
            "rows": self.rows,
            "shards": [asdict(entry) for entry in self.shards],
            "coverage": self.coverage.to_dict(),
            "skipped": {"count": len(self.skipped), "documents": [asdict(entry) for entry in self.skipped]},
            "ignored": {"count": len(self.ignored), "files": [asdict(entry) for entry in self.ignored]},
        }

    def write(self) -> Path:
        """Write the manifest into its folder, atomically.

        Raises:
            OutputError: it cannot be written.
        """
        text = json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
        return write_text(self.folder / MANIFEST_FILE, text + "\n")

    def summarise(self, console: Console, *, most_shown: int = 10) -> None:
        """Print what was written, and what was not, for people to read.

        Args:
            console: where to.
            most_shown: skipped documents that are named.
        """
        lines = [
            f"{counted(self.documents, 'document')}, {counted(self.rows, 'vector')} of {self.hidden_size} numbers "
            f"({self.settings['level']} level), model {self.model['name']}"
        ]
        coverage = self.coverage
        if coverage.documents_not_whole:
            reasons = ", ".join(
                f"{counted(count, 'character')}: {reason}" for reason, count in coverage.left_out.items()
            )
            lines.append(f"not encoded whole: {counted(coverage.documents_not_whole, 'document')} ({reasons})")
        if coverage.furniture:
            lines.append(f"left out of pages as navigation, headers and the like: {coverage.furniture:,} characters")
        if coverage.kept_repeats:
            lines.append(f"of little but repeated passages, and encoded with them: {coverage.kept_repeats:,}")
        if self.skipped:
            lines.append(f"skipped: {counted(len(self.skipped), 'document')}")
            lines += ["  " + one_line(f"{entry.source}: {entry.reason}") for entry in self.skipped[:most_shown]]
            if len(self.skipped) > most_shown:
                lines.append(f"  ... all are listed in {self.folder / MANIFEST_FILE}")
        if self.ignored:
            lines.append(f"passed over: {counted(len(self.ignored), 'file')}")
            lines += ["  " + one_line(f"{entry.source}: {entry.reason}") for entry in self.ignored[:_MOST_PASSED_OVER]]
            if len(self.ignored) > _MOST_PASSED_OVER:
                lines.append(f"  ... all are listed in {self.folder / MANIFEST_FILE}")
        lines.append(f"{counted(len(self.shards), 'shard')} and {MANIFEST_FILE} in {self.folder}")
        for line in lines:
            console.print(line, markup=False, highlight=False, soft_wrap=True)


def read_vectors(folder: str | Path) -> tuple[list[str], npt.NDArray[np.float32]]:
    """Read all vectors of a folder that was encoded to the end.

    Args:
        folder: the folder.

    Returns:
        Ids (one for every row) and vectors ``(rows, hidden)``.

    Raises:
        OutputError: the encoding is not finished, or a shard is missing or was changed.
    """
    manifest = Manifest.read(folder)
    ids: list[str] = []
    vectors = np.empty((manifest.rows, manifest.hidden_size), np.float32)
    for entry, path in zip(manifest.shards, checked_shards(manifest), strict=True):
        some_ids, some_vectors = read_rows(path)
        if some_vectors.shape != (entry.rows, manifest.hidden_size):
            raise OutputError(f"{path} holds something else than {MANIFEST_FILE} says; run the encoding again")
        vectors[len(ids) : len(ids) + len(some_ids)] = some_vectors
        ids.extend(some_ids)
    return ids, vectors


def keep_repeats(folder: Path, left_out: LeavesOut | None) -> None:
    """Keep beside vectors what was left out of their documents as repeated, unless it lies there already.

    Raises:
        OutputError: it cannot be written, or something else lies there.
    """
    if not isinstance(left_out, Repeats) or not left_out:
        return
    if not holds_repeats(folder, left_out.describe()):
        left_out.save(folder / REPEATS_FILE)


def holds_repeats(folder: Path, wanted: Mapping[str, Any] | None) -> bool:
    """Whether what was left out as repeated is kept in a folder.

    Args:
        folder: the folder.
        wanted: what it has to be (:meth:`~graphdoc.segmentation.repeats.Repeats.describe`); None for whatever it is.

    Raises:
        OutputError: a file of that name is there and holds something else.
    """
    path = folder / REPEATS_FILE
    if not path.exists() and not path.is_symlink():
        return False
    try:
        kept = Repeats.load(path).describe()
    except OutputError as error:
        raise OutputError(f"{error}, or give another folder") from error
    if wanted is not None and kept != wanted:
        raise OutputError(f"{path} holds what repeats in other documents; {ANOTHER_FOLDER}")
    return True


def read_repeats(folder: str | Path) -> Repeats | None:
    """Read what was left out of the documents of a finished folder as repeated.

    Args:
        folder: the folder.

    Returns:
        What repeats; None where nothing does, or the folder was written before it was kept.

    Raises:
        OutputError: the encoding is not finished, or the file was changed.
    """
    recorded, path = Manifest.read(folder).model.get("repeats"), Path(folder) / REPEATS_FILE
    if not recorded or not path.exists():
        return None
    repeats = Repeats.load(path)
    if repeats.describe() != recorded:
        raise OutputError(f"{path} was changed since it was written; remove it, or run the encoding again")
    return repeats


def checked_shards(manifest: Manifest) -> list[Path]:
    """The files of a finished folder, as its manifest lists them.

    Raises:
        OutputError: one is missing or was changed.
    """
    paths = [manifest.folder / entry.file for entry in manifest.shards]
    for path, entry in zip(paths, manifest.shards, strict=True):
        if not path.is_file():
            raise OutputError(f"{path} is missing; run the encoding again to make it anew")
        if file_checksum(path) != entry.checksum:
            raise OutputError(f"{path} was changed since it was written; remove it and run the encoding again")
    return paths
