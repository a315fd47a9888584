"""A folder of vectors while it is written: whether it may be, what is done already, and how it is finished."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import transformers

from ..errors import OtherDocumentsError, OutputError
from ..inference.fastest import Choice
from ..inference.pipeline import EncodingPipeline
from ..inference.precision import LOAD_PRECISIONS
from ..modeling.document_model import weights_hash
from ..runtime.files import LOCK_FILE, FolderLock, file_checksum, writing_error
from ..runtime.processes import Processes
from ..settings.document import SENTENCE_SETTINGS
from ..version import __version__
from .shards import read_record, shard_name
from .store import ANOTHER_FOLDER, MANIFEST_FILE, REPEATS_FILE, Manifest, holds_repeats

logger = logging.getLogger("graphdoc")

_SHARD_FILE = re.compile(r"shard-(\d{5,})\.parquet")
_PARTIAL_FILE = re.compile(r"\.partial-\d+-(shard-\d{5,}\.parquet|manifest\.json|repeats\.safetensors)")
# Lines of file and checksum, one for every shard that a process has finished; they go when the manifest is written.
_PROGRESS_FILE = re.compile(r"\.progress-\d+\.jsonl")
# What an encoder's configuration says about where it came from, not about what it computes.
_NOT_COMPUTED_WITH = ("_name_or_path", "name_or_path", "transformers_version", "dtype", "torch_dtype", "architectures")


class VectorFolder:
    """The folder that a run writes to, perhaps begun by another run; one run at a time.

    Args:
        folder: where it is.
        origin: model, weights, settings and versions of this run.
        precision: how the precision of this run was chosen.
        rank: number of this process among those that write.
    """

    def __init__(
        self, folder: str | Path, origin: Mapping[str, Any], precision: Choice | None = None, rank: int = 0
    ) -> None:
        self.folder = Path(folder)
        self.origin = origin
        self.precision = asdict(precision) if precision is not None and precision.measured else None
        self._progress = self.folder / f".progress-{rank}.jsonl"
        self._lock: FolderLock | None = None
        self._made_here = False
        self._before: Manifest | None = None
        self._checksums: dict[str, str] = {}

    def path(self, number: int) -> Path:
        """Where a shard lies."""
        return self.folder / shard_name(number)

    def prepare(self, overwrite: bool) -> None:
        """Lock the folder, which is made if it does not exist, and check that this run may write to it.

        Nothing is removed but the halves of files that an interrupted run left.

        Args:
            overwrite: whether what another run wrote is to be replaced.

        Raises:
            OutputError: another run is under way, the folder cannot be written, or holds something else.
        """
        try:
            if self.folder.exists() and not self.folder.is_dir():
                raise OutputError(f"{self.folder} is a file; give a folder")
            is_new = not self.folder.exists()
        except (OSError, ValueError):  # what is wrong with the name shows when the folder is made
            is_new = False
        lock = FolderLock(self.folder, "an encoding")
        lock.acquire()
        self._lock, self._made_here = lock, is_new
        self.open()
        if self._before is not None and not overwrite:
            self._compare(self._before.to_dict(), self.folder / MANIFEST_FILE)
        for _, path in self._shards():
            # What was recorded is our own, and looked at when its turn comes.
            if path.name not in self._checksums:
                record = read_record(path)
                if not overwrite:
                    self._compare(record, path)
        # Where the manifest speaks of it, it is our own, even damaged.
        if not (overwrite and self._before is not None and self._before.model.get("repeats")):
            holds_repeats(self.folder, None if overwrite else self.origin["model"].get("repeats", {}))
        self._remove(path for path in self.folder.iterdir() if _PARTIAL_FILE.fullmatch(path.name))

    def open(self) -> None:
        """Take in what finished and interrupted runs recorded.

        Raises:
            OutputError: there is a manifest that graphdoc did not write.
        """
        self._before = Manifest.read(self.folder) if (self.folder / MANIFEST_FILE).exists() else None
        self._checksums = dict(self._recorded())
        if self._before is not None:
            self._checksums |= {entry.file: entry.checksum for entry in self._before.shards}

    def clear(self) -> None:
        """Remove what graphdoc wrote, the manifest first: without it nothing that is left looks whole.

        Raises:
            OutputError: it cannot be removed.
        """
        shards = [path for _, path in self._shards()]
        self._remove([self.folder / MANIFEST_FILE, self.folder / REPEATS_FILE, *_progress_in(self.folder), *shards])

    def expect(self, number: int) -> None:
        """Check that the input may have a shard of this number.

        Raises:
            OutputError: a finished run had fewer.
        """
        if self._before is not None and number >= len(self._before.shards):
            raise OtherDocumentsError(
                f"{self.folder} was made of the input's first {self._before.documents} documents, "
                f"and there are more now; {ANOTHER_FOLDER}"
            )

    def expect_no_more(self, number: int) -> None:
        """Check that no shards stand after the last one of the input.

        Raises:
            OutputError: there are some.
        """
        for found, path in self._shards():
            if found >= number:
                raise OtherDocumentsError(f"{path} was made of documents after the end of the input; {ANOTHER_FOLDER}")

    def find(self, number: int) -> tuple[dict[str, Any] | None, str | None]:
        """The record inside a shard that is there, and its checksum if it is as it was written.

        In a finished folder a shard that was changed is an error; in an unfinished one it is made again.

        Raises:
            OutputError: it was made otherwise than this run does, is no shard, or was changed.
        """
        path = self.path(number)
        if not path.exists() and not path.is_symlink():
            return None, None
        recorded = self._checksums.get(path.name)
        if recorded is not None and (not path.is_file() or file_checksum(path) != recorded):
            if self._before is not None:
                raise OutputError(f"{path} was changed since {MANIFEST_FILE} was written; remove it and run again")
            logger.warning("%s is not as it was written; it is made again", path)
            return None, None
        record = read_record(path)
        self._compare(record, path)
        return record, recorded

    def begin_shard(self) -> None:
        """Let the folder look unfinished while a shard is made, with what is finished noted.

        Raises:
            OutputError: the folder cannot be written.
        """
        if (self.folder / MANIFEST_FILE).exists():
            for file, checksum in self._checksums.items():
                self.note(file, checksum)
            self._remove([self.folder / MANIFEST_FILE])

    def note(self, file: str, checksum: str) -> None:
        """Note that a shard is finished.

        Raises:
            OutputError: it cannot be noted.
        """
        # A link would be written through, and a pipe waited for.
        if self._progress.is_symlink() or (self._progress.exists() and not self._progress.is_file()):
            raise OutputError(f"{self._progress} is no regular file; remove it, or give another folder")
        try:
            with self._progress.open("a", encoding="utf-8") as lines:
                how = {} if self.precision is None else {"precision": self.precision}
                lines.write(json.dumps({"file": file, "checksum": checksum, **how}) + "\n")
        except OSError as error:
            raise writing_error(self._progress, error) from error

    def finish(self, manifest: Manifest) -> None:
        """Write the manifest, unless it stands there already.

        Raises:
            OutputError: it cannot be written.
        """
        if self._before != manifest or not (self.folder / MANIFEST_FILE).exists():
            manifest.write()
        self._remove(_progress_in(self.folder))

    def close(self, *, failed: bool = False) -> None:
        """Unlock the folder, and remove it if this run has made it, failed and put nothing in."""
        if self._lock is None:
            return
        with suppress(OSError):
            (self.folder / LOCK_FILE).unlink(missing_ok=True)
        self._lock.release()
        if failed and self._made_here:
            with suppress(OSError):
                self.folder.rmdir()

    def _recorded(self) -> Iterator[tuple[str, str]]:
        for path in _progress_in(self.folder):
            for entry in _lines_of(path):
                with suppress(KeyError):
                    yield str(entry["file"]), str(entry["checksum"])

    def _shards(self) -> list[tuple[int, Path]]:
        return _shards_in(self.folder)

    def _compare(self, there: Mapping[str, Any], path: Path) -> None:
        differences = list(_differences(there, self.origin))
        if differences:
            # What repeats depends on the documents alone.
            of_documents = all(difference.startswith("repeats was ") for difference in differences)
            kind = OtherDocumentsError if of_documents else OutputError
            raise kind(f"{path} was made otherwise ({'; '.join(differences[:3])}); {ANOTHER_FOLDER}")

    def _remove(self, paths: Iterable[Path]) -> None:
        for path in list(paths):
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise OutputError(
                    f"{path} cannot be removed: {error.strerror or error}; remove it, or choose another place"
                ) from error


def agree_on_precision(
    encoder: EncodingPipeline,
    folder: Path,
    processes: Processes,
    overwrite: bool,
    measured: Callable[[], Choice] | None = None,
) -> None:
    """Take for the precision ``auto`` the one that the folder was begun in, else what the first process measures.

    Args:
        encoder: the encoder.
        folder: where its vectors go.
        processes: the processes that share the work, all of which call.
        overwrite: whether what the folder holds will be replaced.
        measured: what is measured where it is encoded, if not here.
    """
    if any(processes.gather(encoder.is_precision_open)):
        if processes.is_first:
            begun = None if overwrite else _precision_of(folder)
            encoder.settle_precision(measured() if begun is None and measured is not None else begun)
        choices = processes.gather(encoder.precision if processes.is_first else None)
        encoder.settle_precision(choices[0])


def _lines_of(progress: Path) -> Iterator[dict[str, Any]]:
    if not progress.is_file():
        return
    for line in progress.read_text(encoding="utf-8", errors="replace").splitlines():
        # The last line of a run that was killed may be half of one.
        with suppress(ValueError):
            entry = json.loads(line)
            if isinstance(entry, dict):
                yield entry


def _progress_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if _PROGRESS_FILE.fullmatch(path.name))


def _shards_in(folder: Path) -> list[tuple[int, Path]]:
    found = [(_SHARD_FILE.fullmatch(path.name), path) for path in folder.iterdir()]
    return sorted((int(match[1]), path) for match, path in found if match)


def settings_of(folder: str | Path) -> Mapping[str, Any] | None:
    """The settings that a folder of vectors was begun with; None where there is none, or nothing says so."""
    with suppress(OSError, KeyError, OutputError):
        if (Path(folder) / MANIFEST_FILE).exists():
            return Manifest.read(folder).settings
        for _, path in _shards_in(Path(folder)):
            settings = read_record(path)["settings"]
            return settings if isinstance(settings, dict) else None
    return None


def _precision_of(folder: Path) -> Choice | None:
    """The precision that a folder was begun in; None where nothing says so."""
    with suppress(OSError, ValueError, KeyError, TypeError, OutputError):
        if (folder / MANIFEST_FILE).exists():
            manifest = Manifest.read(folder)
            return _choice(manifest.model, manifest.precision)
        for _, path in _shards_in(folder):
            lines = (line for progress in _progress_in(folder) for line in _lines_of(progress))
            return _choice(read_record(path)["model"], next((line.get("precision") for line in lines), None))
    return None


def _choice(model: Mapping[str, Any], recorded: Mapping[str, Any] | None) -> Choice | None:
    dtype = model.get("dtype")
    if dtype not in LOAD_PRECISIONS or dtype == "auto":
        return None
    with suppress(KeyError, TypeError, ValueError):
        if recorded is not None and recorded["dtype"] == dtype:
            return Choice.from_dict(recorded)
    return Choice(dtype)


def origin_of(encoder: EncodingPipeline, settings: Mapping[str, Any], *, has_sentences: bool = True) -> dict[str, Any]:
    """What vectors depend on besides the documents: model, weights, settings and versions, as plain values.

    Args:
        encoder: the encoder.
        settings: how it is run.
        has_sentences: whether vectors of sentences are among them.
    """
    model = encoder.describe()
    if not has_sentences:
        for name in SENTENCE_SETTINGS:
            model.pop(name, None)
    return {
        "model": model,
        "weights": _hash_model(encoder),
        "settings": dict(settings),
        "versions": library_versions(),
    }


def library_versions() -> dict[str, str]:
    """Versions of graphdoc and of the libraries that compute."""
    versions = {"graphdoc": __version__, "torch": torch.__version__, "transformers": transformers.__version__}
    return {name: str(version) for name, version in versions.items()}


def _hash_model(encoder: EncodingPipeline) -> str:
    """Hash of weights, tokenizer and the encoder's configuration."""
    config = encoder.model.config.encoder_config.to_dict()
    tokenizer = json.loads(encoder.tokenizer.backend_tokenizer.to_str())
    beside = b""
    for parts, unwanted in ((config, _NOT_COMPUTED_WITH), (tokenizer, ("truncation", "padding"))):
        wanted = {key: value for key, value in parts.items() if key not in unwanted}
        beside += json.dumps(wanted, sort_keys=True, default=str).encode()
    return weights_hash(encoder.model.state_dict(), beside)


def _differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[str]:
    # Weights that were brought to another precision are other numbers of the same model.
    is_rounded_alike = there.get("model", {}).get("dtype") == here["model"].get("dtype")
    for part in ("settings", "model", "versions"):
        for name in dict.fromkeys((*here[part], *there.get(part, {}))):
            before, now = there.get(part, {}).get(name), here[part].get(name)
            if before != now:
                yield f"{name} was {before!r}, now {now!r}"
    if is_rounded_alike and there.get("weights") != here["weights"]:
        yield "the model has other weights"
