"""A folder of vectors while it is filled: what is in it, whether it may be continued, and how it is finished."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers

from ..errors import OutputError
from ..modeling.weights_hash import weights_hash
from ..version import __version__
from .manifest import MANIFEST_FILE, Manifest
from .shards import Shard, read_account, read_shard, shard_name

if TYPE_CHECKING:
    from ..inference.pipeline import EncodingPipeline

ANOTHER_FOLDER = "give another folder, or replace what is there with overwrite=True (--overwrite)"

_SHARD_FILE = re.compile(r"shard-(\d{5,})\.parquet")
_PARTIAL_FILE = re.compile(r"\.partial-\d+-(shard-\d{5,}\.parquet|manifest\.json)")
# What an encoder's configuration says about where it came from, not about what it computes.
_NOT_COMPUTED_WITH = ("_name_or_path", "name_or_path", "transformers_version", "dtype", "torch_dtype", "architectures")


class VectorFolder:
    """The folder that a run writes to, perhaps begun by another run.

    Args:
        folder: where it is.
        made_with: model, weights, settings and versions of this run.
    """

    def __init__(self, folder: Path, made_with: Mapping[str, Any]) -> None:
        self.folder = folder
        self.made_with = made_with
        self._made_here = False
        self._before: Manifest | None = None

    def path(self, number: int) -> Path:
        """Where a shard lies."""
        return self.folder / shard_name(number)

    def prepare(self, overwrite: bool) -> None:
        """Make the folder, clear away what an interrupted run left, and check that it may be continued.

        Args:
            overwrite: remove the shards and the manifest that are there.

        Raises:
            OutputError: the folder cannot be written, or holds something else.
        """
        if "\0" in str(self.folder):
            raise OutputError(f"{str(self.folder)!r} is no name for a folder; give another one")
        try:
            if self.folder.exists() and not self.folder.is_dir():
                raise OutputError(f"{self.folder} is a file; give a folder")
            self._made_here = not self.folder.exists()
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.folder, prefix=".partial-"):
                pass
            for path in self.folder.iterdir():
                if _PARTIAL_FILE.fullmatch(path.name):
                    path.unlink()
            manifest = self._read_manifest()
            if overwrite:
                # The manifest first: without it nothing that is left looks whole.
                self.reopen()
                for _, path in self._shards():
                    path.unlink()
                return
        except OSError as error:
            raise OutputError(
                f"{self.folder} cannot be written: {error.strerror or error}; choose another place"
            ) from error
        if manifest is not None:
            values = manifest.to_dict()
            self._check_made_with({key: values[key] for key in self.made_with}, self.folder / MANIFEST_FILE)
        for number, path in self._shards():
            del number
            self._check_made_with(read_account(path), path)

    def open(self) -> None:
        """Take in the manifest of a finished run, if there is one.

        Raises:
            OutputError: there is one that graphdoc did not write.
        """
        self._before = self._read_manifest()

    def reopen(self) -> None:
        """Remove the manifest, so that the folder does not look whole while a shard is made.

        Raises:
            OutputError: it cannot be removed.
        """
        try:
            (self.folder / MANIFEST_FILE).unlink(missing_ok=True)
        except OSError as error:
            raise OutputError(f"{self.folder / MANIFEST_FILE} cannot be removed: {error.strerror}") from error

    def expect(self, number: int) -> None:
        """Check that the input may have a shard of this number.

        Raises:
            OutputError: a finished run had fewer.
        """
        if self._before is not None and number >= len(self._before.shards):
            raise OutputError(
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
                raise OutputError(f"{path} was made of documents after the end of the input; {ANOTHER_FOLDER}")

    def account(self, number: int) -> dict[str, Any] | None:
        """The account inside a shard, None if there is no such shard.

        Raises:
            OutputError: it was made otherwise than this run does, or is no shard.
        """
        path = self.path(number)
        if not path.exists() and not path.is_symlink():
            return None
        account = read_account(path)
        self._check_made_with(account, path)
        return account

    def read_shard(self, number: int, account: Mapping[str, Any]) -> Shard:
        """The record of a shard; its file is as the manifest has it, if there is one.

        Raises:
            OutputError: the file was changed, or cannot be read.
        """
        shard = read_shard(self.path(number), account)
        if self._before is not None and shard.checksum != self._before.shards[number].checksum:
            raise OutputError(
                f"{self.path(number)} was changed since {MANIFEST_FILE} was written; remove it and run again"
            )
        return shard

    def finish(self, manifest: Manifest) -> None:
        """Write the manifest, unless it stands there already.

        Raises:
            OutputError: it cannot be written.
        """
        if self._before != manifest or not (self.folder / MANIFEST_FILE).exists():
            manifest.write()

    def leave_if_empty(self) -> None:
        """Remove the folder if this run has made it and put nothing in."""
        if self._made_here:
            with suppress(OSError):
                self.folder.rmdir()

    def _read_manifest(self) -> Manifest | None:
        return Manifest.read(self.folder) if (self.folder / MANIFEST_FILE).exists() else None

    def _shards(self) -> list[tuple[int, Path]]:
        found = [(_SHARD_FILE.fullmatch(path.name), path) for path in self.folder.iterdir()]
        return sorted((int(match[1]), path) for match, path in found if match)

    def _check_made_with(self, values: Mapping[str, Any], path: Path) -> None:
        differences = list(_differences(values, self.made_with))
        if differences:
            raise OutputError(f"{path} was made otherwise ({'; '.join(differences[:3])}); {ANOTHER_FOLDER}")


def made_with(encoder: EncodingPipeline, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What vectors depend on besides the documents: model, weights, settings and versions, as plain values.

    Args:
        encoder: the encoder.
        settings: how it is run.
    """
    versions = {"graphdoc": __version__, "torch": torch.__version__, "transformers": transformers.__version__}
    return {
        "model": encoder.describe(),
        "weights": _hash_model(encoder),
        "settings": dict(settings),
        "versions": {name: str(version) for name, version in versions.items()},
    }


def _hash_model(encoder: EncodingPipeline) -> str:
    """Hash of weights, tokenizer and the encoder's configuration."""
    config = encoder.model.config.encoder_config.to_dict()
    tokenizer = json.loads(encoder.tokenizer.backend_tokenizer.to_str())
    made_of = b""
    for parts, unwanted in ((config, _NOT_COMPUTED_WITH), (tokenizer, ("truncation", "padding"))):
        wanted = {key: value for key, value in parts.items() if key not in unwanted}
        made_of += json.dumps(wanted, sort_keys=True, default=str).encode()
    return weights_hash(encoder.model.state_dict(), made_of)


def _differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[str]:
    for part in ("settings", "model", "versions"):
        for name in dict.fromkeys((*here[part], *there.get(part, {}))):
            before, now = there.get(part, {}).get(name), here[part].get(name)
            if before != now:
                yield f"{name} was {before!r}, now {now!r}"
    if there.get("weights") != here["weights"]:
        yield "the model has other weights"
