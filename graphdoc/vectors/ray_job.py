"""Encoding a corpus into a folder on a Ray cluster: this process reads and writes, the others encode."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import OutputError
from ..inference.fastest import Choice
from ..inference.pipeline import EncodingPipeline
from ..inference.segmenting import Workers, segment_in_order
from ..runtime.processes import place
from ..runtime.progress import progress_bar
from ..runtime.ray import RayCluster
from .folder import library_versions
from .job import FolderJob
from .making import MadeShard, ShardTask, make_shard
from .source import DocumentSource


class EncoderOnRay:
    """An encoder that is copied to the processes of a cluster.

    Args:
        encoder: the encoder.
    """

    def __init__(self, encoder: EncodingPipeline) -> None:
        self.encoder = encoder

    def __getstate__(self) -> dict[str, Any]:
        device = self.encoder.device
        # Processes may have another device, or none.
        place(self.encoder.model, "cpu")
        try:
            return {"encoder": pickle.dumps(self.encoder)}
        finally:
            place(self.encoder.model, device)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.encoder = pickle.loads(state["encoder"])

    def begin(self) -> None:
        """Move to the device of this process."""
        place(self.encoder.model, None)

    def require_versions(self, wanted: Mapping[str, str]) -> None:
        """Refuse to encode with other libraries than those of the process that writes.

        Raises:
            OutputError: this process has others.
        """
        own = library_versions()
        if own != wanted:
            raise OutputError(
                f"a machine of the Ray cluster has the versions {own}, and this one {dict(wanted)}; install the same"
            )

    def settle_precision(self, _: None) -> Choice:
        """Measure which precision is fast here."""
        return self.encoder.settle_precision()


class ShardEncoder(EncoderOnRay):
    """Makes shards of vectors in a process of a cluster."""

    def make(self, task: ShardTask) -> MadeShard:
        """Make a shard.

        Raises:
            DocumentError: a document has no text.
            OutputError: this process has other versions of the libraries.
        """
        self.require_versions(task.origin["versions"])
        self.encoder.settle_precision(task.precision)
        cut = segment_in_order(task.documents, self.encoder.segmenter, Workers(0))
        with tempfile.TemporaryDirectory() as folder, progress_bar(False, None) as bar:
            path = Path(folder) / task.file
            record, checksum = make_shard(
                self.encoder, path, cut, task.settings, task.origin, lambda: task.read, task.on_error, bar
            )
            return MadeShard(task.number, len(task.documents), path.read_bytes(), record, checksum)


def encode_on_ray(job: FolderJob, cluster: RayCluster, source: DocumentSource) -> None:
    """Let a cluster make the shards of a run that do not exist."""
    for made in cluster.map("make", job.to_make(source)):
        job.keep(made)
