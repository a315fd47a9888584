"""What was left out as repeated, kept in a folder of vectors: files of others of that name, and damaged ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import OutputError
from graphdoc.segmentation import Repeats, find_repeats
from graphdoc.vectors.folder import REPEATS_FILE, read_repeats

NOTICE = (
    "Whoever obtains a copy may use, copy, change and sell it, as long as this notice stays with all of its copies."
)
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
def encoder(tiny_encoder: Callable[..., DocumentEncoder], documents: list[Document]) -> DocumentEncoder:
    found = find_repeats(documents)
    assert found
    return tiny_encoder("bert", trained=True).leaving_out(found)


def put(path: Path, kind: str) -> Path | None:
    """Put something of others in the place of a file; the file that it leads to, if it does."""
    path.parent.mkdir(exist_ok=True)
    outside = path.parent.parent / "outside"
    if kind == "file":
        path.write_text("my own file")
        return path
    if kind == "pipe":
        os.mkfifo(path)
        return None
    path.symlink_to(outside)
    return outside


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("kind", ["file", "broken link", "pipe"])
def test_files_of_others_stay(
    encoder: DocumentEncoder, documents: list[Document], tmp_path: Path, kind: str, overwrite: bool
) -> None:
    folder = tmp_path / "v"
    path = folder / REPEATS_FILE
    own = put(path, kind)
    for leaving in (encoder, encoder.leaving_out(None)):
        with pytest.raises(OutputError, match=REPEATS_FILE):
            leaving.encode_to_disk(documents, folder, overwrite=overwrite)
    assert list(folder.iterdir()) == [path]
    assert path.is_symlink() == ("link" in kind)
    assert own is None or own.exists() == (kind == "file")
    assert kind != "file" or path.read_text() == "my own file"


def test_what_repeats_elsewhere_is_replaced_only_when_asked(
    encoder: DocumentEncoder, documents: list[Document], tmp_path: Path
) -> None:
    path = Repeats(HASHES, 9, 3).save(tmp_path / "v" / REPEATS_FILE)
    before = path.read_bytes()
    with pytest.raises(OutputError, match="overwrite"):
        encoder.encode_to_disk(documents, path.parent)
    assert path.read_bytes() == before
    encoder.encode_to_disk(documents, path.parent, overwrite=True)
    kept = read_repeats(path.parent)
    assert kept is not None and kept.describe() == encoder.describe()["repeats"]


def test_a_link_is_replaced_and_not_what_it_leads_to(
    encoder: DocumentEncoder, documents: list[Document], tmp_path: Path
) -> None:
    outside = Repeats(HASHES, 9, 3).save(tmp_path / "outside")
    before = outside.read_bytes()
    path = tmp_path / "v" / REPEATS_FILE
    path.parent.mkdir()
    path.symlink_to(outside)
    encoder.encode_to_disk(documents, path.parent, overwrite=True)
    assert outside.read_bytes() == before and not path.is_symlink() and read_repeats(path.parent) is not None


def test_a_damaged_file_of_a_finished_folder(
    encoder: DocumentEncoder, documents: list[Document], tmp_path: Path
) -> None:
    encoder.encode_to_disk(documents, tmp_path)
    path = tmp_path / REPEATS_FILE
    before = path.read_bytes()
    path.write_bytes(before[:-9])
    with pytest.raises(OutputError, match=REPEATS_FILE):
        encoder.encode_to_disk(documents, tmp_path)
    assert path.read_bytes() == before[:-9]
    # The manifest says that it is of graphdoc.
    encoder.encode_to_disk(documents, tmp_path, overwrite=True)
    assert path.read_bytes() == before


@pytest.mark.parametrize("counts", [np.array([9, 3, 1]), np.array(9), None])
def test_other_counts_are_refused(tmp_path: Path, counts: Any) -> None:
    tensors = {"hashes": HASHES} | ({} if counts is None else {"counts": counts})
    (tmp_path / "r").write_bytes(safetensors.numpy.save(tensors))
    with pytest.raises(OutputError):
        Repeats.load(tmp_path / "r")


def test_a_pipe_is_not_waited_for(encoder: DocumentEncoder, documents: list[Document], tmp_path: Path) -> None:
    encoder.encode_to_disk(documents, tmp_path)
    (tmp_path / REPEATS_FILE).unlink()
    os.mkfifo(tmp_path / REPEATS_FILE)
    with pytest.raises(OutputError, match=REPEATS_FILE):
        read_repeats(tmp_path)
