"""What was left out as repeated, kept in a folder of vectors: files of others of that name, and damaged ones."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from typed import Documents, Encoders

from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import OutputError
from graphdoc.segmentation import Repeats, find_repeats
from graphdoc.vectors.folder import REPEATS_FILE, read_repeats

NOTICE = "Whoever obtains a copy may use, copy, change and sell it, as long as this notice stays with all its copies."
SUBJECTS = ("rice", "tides", "rain", "maps", "bells")
HASHES = np.array([3, 5, 8], np.uint32)


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return [
        Document.from_text(
            " ".join(f"Of {name} there is remark {name} {n}." for n in range(9)) + f"\n\n{NOTICE}", id=name
        )
        for name in SUBJECTS
    ]


@pytest.fixture(scope="module")
def encoder(tiny_encoder: Encoders, documents: Documents) -> DocumentEncoder:
    found = find_repeats(documents)
    assert found
    return tiny_encoder("bert", trained=True).without_repeats(found)


@pytest.mark.parametrize("kind", ["file", "broken link", "pipe"])
def test_files_of_others_stay(encoder: DocumentEncoder, documents: Documents, tmp_path: Path, kind: str) -> None:
    path, outside = tmp_path / "v" / REPEATS_FILE, tmp_path / "outside"
    path.parent.mkdir()
    if kind == "file":
        path.write_text("my own file")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(outside)
    for leaving in (encoder, encoder.without_repeats(None)):
        for overwrite in (False, True):
            with pytest.raises(OutputError, match=REPEATS_FILE):
                leaving.encode_to_disk(documents, path.parent, overwrite=overwrite)
    assert list(path.parent.iterdir()) == [path] and not outside.exists()
    assert path.is_symlink() == ("link" in kind) and (kind != "file" or path.read_text() == "my own file")


def test_what_repeats_elsewhere_is_replaced_only_when_asked(
    encoder: DocumentEncoder, documents: Documents, tmp_path: Path
) -> None:
    path = Repeats(HASHES, 9, 3).save(tmp_path / "v" / REPEATS_FILE)
    before = path.read_bytes()
    with pytest.raises(OutputError, match="overwrite"):
        encoder.encode_to_disk(documents, path.parent)
    assert path.read_bytes() == before
    # A link is replaced, and not what it leads to.
    outside = path.rename(tmp_path / "outside")
    path.symlink_to(outside)
    encoder.encode_to_disk(documents, path.parent, overwrite=True)
    assert outside.read_bytes() == before and not path.is_symlink()
    kept = read_repeats(path.parent)
    assert kept is not None and kept.describe() == encoder.describe()["repeats"]


def test_a_folder_keeps_what_was_left_out_and_is_made_again_with_it(
    encoder: DocumentEncoder, documents: Documents, tmp_path: Path
) -> None:
    plain, path = encoder.without_repeats(None), tmp_path / REPEATS_FILE
    manifest = encoder.encode_to_disk(documents, tmp_path)
    assert manifest.model["repeats"] == encoder.describe()["repeats"]
    assert manifest.coverage.left_out["repeated"] > 500
    with pytest.raises(OutputError, match="repeats"):
        plain.encode_to_disk(documents, tmp_path)
    before = path.read_bytes()
    # A run of before it was kept keeps it when it is started again; one that is interrupted ends with the same.
    for lost in ([REPEATS_FILE], [REPEATS_FILE, ".manifest.json"], [".manifest.json"]):
        for name in lost:
            (tmp_path / name).unlink()
        encoder.encode_to_disk(documents, tmp_path)
        assert path.read_bytes() == before
    for content in (b"nothing", before[:-4] + b"\xff\xff\xff\xff", before[:40], None):
        path.unlink()
        os.mkfifo(path) if content is None else path.write_bytes(content)
        with pytest.raises(OutputError, match=REPEATS_FILE):
            read_repeats(tmp_path)
    path.unlink()
    path.write_bytes(before[:-9])
    with pytest.raises(OutputError, match=REPEATS_FILE):
        encoder.encode_to_disk(documents, tmp_path)
    assert path.read_bytes() == before[:-9]
    # The manifest says that it is of graphdoc.
    encoder.encode_to_disk(documents, tmp_path, overwrite=True)
    assert path.read_bytes() == before
    plain.encode_to_disk(documents, tmp_path, overwrite=True)
    assert not path.exists() and read_repeats(tmp_path) is None
