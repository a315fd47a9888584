"""A folder of vectors: its manifest, reading it back, and what a run may do in it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
import transformers
from pydantic import BaseModel, Field, model_validator

from ..documents.readers import ReadingReport, Skipped
from ..errors import OtherDocumentsError, OutputError
from ..inference.pipeline import EncodingPipeline
from ..inference.precision import PRECISIONS
from ..modeling.document_model import weights_hash
from ..runtime.files import LOCK_FILE, FolderLock, file_checksum, write_text
from ..runtime.processes import Processes
from ..runtime.text import counted, one_line
from ..segmentation.repeats import RepeatFilter, Repeats
from ..segmentation.spans import Coverage
from ..settings.document import SENTENCE_SETTINGS
from ..version import __version__
from .shards import Provenance, ShardInput, ShardRecord, read_record, read_rows, shard_name

if TYPE_CHECKING:
    from rich.console import Console

# Hidden, so that pandas and datasets read the folder as a table of its shards alone.
MANIFEST_FILE = ".manifest.json"
# Records what was left out of the documents as repeated; written only if something was.
REPEATS_FILE = ".repeats.safetensors"
ANOTHER_FOLDER = "give another folder, or replace what is there with overwrite=True (--overwrite)"
_SHARD_FILE = re.compile(r"shard-(\d{5,})\.parquet")
_PARTIAL_FILE = re.compile(r"\.partial-\d+-(shard-\d{5,}\.parquet|\.manifest\.json|\.repeats\.safetensors)")
# What an encoder's configuration says about where it came from, not about what it computes.
NOT_COMPUTED_WITH = ("_name_or_path", "name_or_path", "transformers_version", "dtype", "torch_dtype", "architectures")


class ShardEntry(BaseModel):
    """A shard as the manifest lists it: its file, documents and vectors in it, and the BLAKE2b hash of the file."""

    model_config = Provenance.model_config

    file: str
    documents: int
    rows: int
    checksum: str


Shard = tuple[ShardEntry, ShardRecord]


class Manifest(Provenance):
    """Content and origin of a folder of vectors; nothing in it depends on when or in how many runs it was made.

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
    """

    folder: Path = Field(exclude=True)
    hidden_size: int
    documents: int
    rows: int
    shards: tuple[ShardEntry, ...]
    coverage: Coverage
    skipped: tuple[Skipped, ...] = ()
    ignored: tuple[Skipped, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> Manifest:
        names = [shard_name(number) for number in range(len(self.shards))]
        totals = [sum(getattr(entry, name) for entry in self.shards) for name in ("documents", "rows")]
        if [entry.file for entry in self.shards] != names or totals != [self.documents, self.rows]:
            raise ValueError("its shards are others")
        if self.coverage.documents != self.documents or not isinstance(self.settings.get("level"), str):
            raise ValueError("its parts contradict each other")
        return self

    @classmethod
    def from_shards(
        cls, folder: Path, origin: Mapping[str, Any], hidden_size: int, shards: Sequence[Shard], report: ReadingReport
    ) -> Manifest:
        """Sum up the shards of a finished run, in order; the report says what was not even read."""
        coverage = sum((record.coverage for _, record in shards), Coverage())
        return cls(
            folder=folder, **origin, hidden_size=hidden_size, documents=coverage.documents,
            rows=sum(entry.rows for entry, _ in shards), shards=tuple(entry for entry, _ in shards), coverage=coverage,
            skipped=tuple(chain(report.skipped, *(record.skipped for _, record in shards))),
            ignored=tuple(report.ignored),
        )  # fmt: skip

    @classmethod
    def read(cls, folder: str | Path) -> Manifest:
        """Read the manifest of a finished folder; OutputError where there is none, or it is not one of graphdoc."""
        path = Path(folder) / MANIFEST_FILE
        if not os.path.lexists(path):
            reason = "is not finished; run the encoding again" if path.parent.is_dir() else "is no folder"
            raise OutputError(f"{folder} {reason}")
        try:
            if not path.is_file():
                raise OSError("not a regular file")
            return cls(folder=Path(folder), **json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise OutputError(
                f"{path} is no manifest that this version of graphdoc wrote, or was changed; move it, or give another "
                "folder"
            ) from error

    def to_dict(self) -> dict[str, Any]:
        """Everything as it stands in the file."""
        return self.model_dump(mode="json")

    def summarize(self, console: Console) -> None:
        """Print what was written, and what was not, for people to read."""
        coverage = self.coverage
        lines = [
            f"{counted(self.documents, 'document')}, {counted(self.rows, 'vector')} of {self.hidden_size} numbers "
            f"({self.settings['level']} level), model {self.model['name']}"
        ]
        if coverage.documents_not_whole:
            reasons = (f"{counted(count, 'character')}: {reason}" for reason, count in coverage.left_out.items())
            documents = counted(coverage.documents_not_whole, "document")
            lines.append(f"not encoded whole: {documents} ({', '.join(reasons)})")
        if coverage.furniture:
            lines.append(f"left out of pages as navigation, headers and the like: {coverage.furniture:,} characters")
        if coverage.kept_repeats:
            lines.append(f"{counted(coverage.kept_repeats, 'document')} mostly boilerplate: it was kept for them")
        unread = ("skipped", "document", self.skipped, 10), ("passed over", "file", self.ignored, 3)
        for what, noun, entries, most in unread:
            if entries:
                lines.append(f"{what}: {counted(len(entries), noun)}")
                lines += ["  " + one_line(f"{entry.source}: {entry.reason}") for entry in entries[:most]]
            if len(entries) > most:
                lines.append(f"  ... all are listed in {self.folder / MANIFEST_FILE}")
        lines.append(f"{counted(len(self.shards), 'shard')} and {MANIFEST_FILE} in {self.folder}")
        for line in lines:
            console.print(line, markup=False, highlight=False, soft_wrap=True)


class VectorFolder:
    """The folder that a run writes to, perhaps begun by another run; one run at a time.

    ``origin`` is what vectors depend on besides the documents (:func:`origin_of`).
    """

    def __init__(self, folder: str | Path, origin: Mapping[str, Any]) -> None:
        self.folder = Path(folder)
        self.origin = origin
        self._lock: FolderLock | None = None
        self._is_new = False
        self._finished: Manifest | None = None

    def path(self, number: int) -> Path:
        """The path of a shard."""
        return self.folder / shard_name(number)

    def prepare(self, overwrite: bool) -> None:
        """Lock the folder, which is made if it does not exist; OutputError where this run may not write to it.

        Nothing is removed but the halves of files that an interrupted run left.
        """
        self._is_new = not os.path.lexists(self.folder)
        lock = FolderLock(self.folder, "an encoding")
        lock.acquire()
        self._lock = lock
        self.open()
        finished = self._finished
        # What the manifest speaks of is our own, even damaged; shards that it lists are looked at in their turn.
        listed = set() if finished is None else {entry.file for entry in finished.shards}
        if finished is not None and not overwrite:
            self._compare(finished, self.folder / MANIFEST_FILE)
        for _, path in _shards_in(self.folder):
            if path.name not in listed:
                record = read_record(path)
                if not overwrite:
                    self._compare(record, path)
        if not (overwrite and finished is not None and finished.model.get("repeats")):
            repeats = self._repeats()
            if not overwrite and repeats not in (None, self.origin["model"].get("repeats", {})):
                raise OutputError(f"{self.folder / REPEATS_FILE} holds repeats of other documents; {ANOTHER_FOLDER}")
        _remove(path for path in self.folder.iterdir() if _PARTIAL_FILE.fullmatch(path.name))

    def open(self) -> None:
        """Take in the manifest of a finished run."""
        self._finished = Manifest.read(self.folder) if os.path.lexists(self.folder / MANIFEST_FILE) else None

    def clear(self, *, shards: bool) -> None:
        """Remove the manifest, without which nothing that is left looks whole, or all that graphdoc wrote."""
        others = [self.folder / REPEATS_FILE, *(path for _, path in _shards_in(self.folder))] if shards else []
        _remove([self.folder / MANIFEST_FILE, *others])

    def check_count(self, number: int, *, is_end: bool) -> None:
        """Check that the input may have a shard of this number, or that none stands there after its end."""
        if is_end and any(there >= number for there, _ in _shards_in(self.folder)):
            raise OtherDocumentsError(
                f"{self.path(number)} was made of documents after the end of the input; {ANOTHER_FOLDER}"
            )
        if not is_end and self._finished is not None and number >= len(self._finished.shards):
            raise OtherDocumentsError(
                f"{self.folder} was made of the input's first {self._finished.documents} documents, and there are "
                f"more now; {ANOTHER_FOLDER}"
            )

    def has(self, number: int) -> bool:
        """Whether a shard is there; OutputError where it was made otherwise than this run does, or was changed."""
        path = self.path(number)
        if not os.path.lexists(path):
            return False
        if self._finished is not None:
            _require_unchanged(path, self._finished.shards[number].checksum)
            return True
        self._compare(read_record(path), path)
        return True

    def shard(self, made_of: ShardInput) -> Shard:
        """A shard that is there; OtherDocumentsError where it was made of other documents of the input."""
        path = self.path(made_of.number)
        record = read_record(path)
        if (record.read, record.input_hash) != (made_of.read, made_of.hash):
            start = made_of.number * int(self.origin["settings"]["shard_size"])
            raise OtherDocumentsError(
                f"{path} was made of other documents than the input's {start + 1} to {start + made_of.read}; "
                f"{ANOTHER_FOLDER}"
            )
        checksum = file_checksum(path)
        entry = ShardEntry(file=path.name, documents=record.coverage.documents, rows=record.rows, checksum=checksum)
        return entry, record

    def finish(self, manifest: Manifest, left_out: RepeatFilter | None) -> None:
        """Write the manifest, and what was left out as repeated, unless they stand there already."""
        if isinstance(left_out, Repeats) and left_out and self._repeats() != left_out.describe():
            left_out.save(self.folder / REPEATS_FILE)
        if self._finished != manifest or not (self.folder / MANIFEST_FILE).exists():
            text = json.dumps(manifest.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
            write_text(self.folder / MANIFEST_FILE, text + "\n")

    def close(self, *, failed: bool = False) -> None:
        """Unlock the folder, and remove it if this run has made it, failed and put nothing in."""
        if self._lock is None:
            return
        with suppress(OSError):
            (self.folder / LOCK_FILE).unlink(missing_ok=True)
        self._lock.release()
        if failed and self._is_new:
            with suppress(OSError):
                self.folder.rmdir()

    def _repeats(self) -> dict[str, Any] | None:
        path = self.folder / REPEATS_FILE
        return Repeats.load(path).describe() if os.path.lexists(path) else None

    def _compare(self, stored: Provenance, path: Path) -> None:
        differences = list(_differences(stored.model_dump(), self.origin))
        if differences:
            # What repeats depends on the documents alone.
            of_documents = all(difference.startswith("repeats was ") for difference in differences)
            kind = OtherDocumentsError if of_documents else OutputError
            raise kind(f"{path} was made otherwise ({'; '.join(differences[:3])}); {ANOTHER_FOLDER}")


def read_vectors(folder: str | Path) -> tuple[list[str], npt.NDArray[np.float32]]:
    """Read all ids (one for every row) and vectors, ``(rows, hidden)``, of a folder that was encoded to the end.

    Raises:
        OutputError: the encoding is not finished, or a shard is missing or was changed.
    """
    manifest = Manifest.read(folder)
    ids: list[str] = []
    vectors = np.empty((manifest.rows, manifest.hidden_size), np.float32)
    for entry in manifest.shards:
        path = manifest.folder / entry.file
        _require_unchanged(path, entry.checksum)
        some_ids, some_vectors = read_rows(path)
        if some_vectors.shape != (entry.rows, manifest.hidden_size):
            raise OutputError(f"{path} holds something else than {MANIFEST_FILE} says; run the encoding again")
        vectors[len(ids) : len(ids) + len(some_ids)] = some_vectors
        ids.extend(some_ids)
    return ids, vectors


def read_repeats(folder: str | Path) -> Repeats | None:
    """Read what was left out of the documents of a finished folder as repeated; None where nothing was, or is kept.

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


def agree_on_precision(encoder: EncodingPipeline, folder: Path, processes: Processes, overwrite: bool) -> None:
    """Take for the precision ``auto`` the one that the folder was begun in, else what the first process measures."""

    def settle() -> str | None:
        begun = None if overwrite else _precision_of(folder)
        encoder.settle_precision(begun if isinstance(begun, str) and begun in PRECISIONS else None)
        return encoder.precision

    if any(processes.gather(encoder.is_precision_open)):
        encoder.settle_precision(processes.from_first(settle))


def _precision_of(folder: Path) -> str | None:
    """The precision that a folder was begun in; None where nothing says so."""
    with suppress(OSError, OutputError, StopIteration):
        if (folder / MANIFEST_FILE).exists():
            return Manifest.read(folder).model.get("dtype")
        return next(read_record(path) for _, path in _shards_in(folder)).model.get("dtype")
    return None


def origin_of(encoder: EncodingPipeline, settings: Mapping[str, Any], *, has_sentences: bool = True) -> dict[str, Any]:
    """All that affects vectors besides the documents: model, weights, settings and versions, as plain values."""
    model = encoder.describe()
    if not has_sentences:
        for name in SENTENCE_SETTINGS:
            model.pop(name, None)
    config = encoder.model.config.encoder_config.to_dict()
    tokenizer = json.loads(encoder.tokenizer.backend_tokenizer.to_str())
    more = b""
    for parts, unwanted in ((config, NOT_COMPUTED_WITH), (tokenizer, ("truncation", "padding"))):
        wanted = {key: value for key, value in parts.items() if key not in unwanted}
        more += json.dumps(wanted, sort_keys=True, default=str).encode()
    weights = weights_hash(encoder.model.state_dict(), more)
    return {"model": model, "weights": weights, "settings": dict(settings), "versions": library_versions()}


def library_versions() -> dict[str, str]:
    """Versions of graphdoc and of the libraries that compute."""
    versions = {"graphdoc": __version__, "torch": torch.__version__, "transformers": transformers.__version__}
    return {name: str(version) for name, version in versions.items()}


def _shards_in(folder: Path) -> list[tuple[int, Path]]:
    matches = [(_SHARD_FILE.fullmatch(path.name), path) for path in folder.iterdir()]
    return sorted((int(match[1]), path) for match, path in matches if match)


def _require_unchanged(path: Path, checksum: str) -> None:
    if not path.is_file():
        raise OutputError(f"{path} is missing; run the encoding again")
    if file_checksum(path) != checksum:
        raise OutputError(f"{path} was changed since {MANIFEST_FILE} was written; remove it and run again")


def _remove(paths: Iterable[Path]) -> None:
    for path in list(paths):
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise OutputError(f"{path} cannot be removed: {error.strerror or error}") from error


def _differences(stored: Mapping[str, Any], current: Mapping[str, Any]) -> Iterator[str]:
    for part in ("settings", "model", "versions"):
        for name in dict.fromkeys((*current[part], *stored[part])):
            before, now = stored[part].get(name), current[part].get(name)
            if before != now:
                yield f"{name} was {before!r}, now {now!r}"
    # Weights that were brought to another precision are other numbers of the same model.
    if stored["model"].get("dtype") == current["model"].get("dtype") and stored["weights"] != current["weights"]:
        yield "the model has other weights"
