"""Folders of vectors that a real Ray cluster on this machine encodes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from mortal_encoder import Mortal
from typed import Encoders, Patch

from graphdoc.documents.document import Document
from graphdoc.errors import DocumentError
from graphdoc.vectors import writer
from graphdoc.vectors.folder import MANIFEST_FILE

DOCUMENTS = [
    Document.from_text(f"Tides rise {number} times. " * (number % 7 + 1), id=f"tide-{number}") for number in range(40)
]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.slow
def test_cluster_gives_same_bytes_also_after_death(tiny_encoder: Encoders, tmp_path: Path, monkeypatch: Patch) -> None:
    ray = pytest.importorskip("ray", reason="needs the extra graphdoc[scale]")
    encoder = tiny_encoder()
    encoder.encode_to_disk(DOCUMENTS, tmp_path / "here", shard_size=8)
    expected = files(tmp_path / "here")
    encoder.encode_to_disk(DOCUMENTS, tmp_path / "there", shard_size=8, ray="local")
    assert not ray.is_initialized()
    assert files(tmp_path / "there") == expected

    # Processes of the cluster find the worker of this test as this one does.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    Mortal.mark = tmp_path / "was-killed"
    monkeypatch.setattr(writer, "ShardEncoder", Mortal)
    # The connection that is there is used by all that follow.
    with ray.init(address="local", include_dashboard=False, log_to_driver=False):
        manifest = encoder.encode_to_disk(DOCUMENTS, tmp_path / "killed", shard_size=8, ray="auto")
        assert Mortal.mark.exists()
        assert files(tmp_path / "killed") == expected
        # What is there is kept, and only what is missing made.
        (tmp_path / "killed" / MANIFEST_FILE).unlink()
        (tmp_path / "killed" / manifest.shards[3].file).unlink()
        encoder.encode_to_disk(DOCUMENTS, tmp_path / "killed", shard_size=8, ray="auto")
        assert files(tmp_path / "killed") == expected

        broken = [*DOCUMENTS, Document("nothing", ()), Document("tide-0", DOCUMENTS[0].sections)]
        with pytest.raises(DocumentError) as error:
            encoder.encode_to_disk(broken, tmp_path / "broken", shard_size=8, ray="auto")
        assert "'tide-0'" in str(error.value) or "'nothing'" in str(error.value)
        for name, address in (("skipped-here", None), ("skipped-there", "auto")):
            encoder.encode_to_disk(broken, tmp_path / name, shard_size=8, on_error="skip", ray=address)
        assert files(tmp_path / "skipped-here") == files(tmp_path / "skipped-there")
