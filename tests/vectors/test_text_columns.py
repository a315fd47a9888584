"""Titles and texts that stand beside vectors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pyarrow.parquet as pq
import pytest

from graphdoc.documents.document import Document
from graphdoc.documents.section import Section
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import OutputError
from graphdoc.vectors.folder import read_vectors
from graphdoc.vectors.shards import TEXT_COLUMNS, shard_name
from graphdoc.vectors.writer import encode_to_disk

DOCUMENTS = [
    Document(
        "rice",
        (
            Section("Rice", "Rice is steamed. It rests."),
            Section("Washing", "Rice is washed until the water is clear."),
        ),
        title="Of rice",
    ),
    Document.from_text("Tea is brewed.\n\nIt is poured.", id="tea"),
]


@pytest.fixture(scope="module")
def encoder(tiny_encoder: Callable[..., DocumentEncoder]) -> DocumentEncoder:
    return tiny_encoder("bert", passage_words=5)


@pytest.mark.parametrize("level", ["document", "section", "sentence"])
def test_texts_are_those_of_their_rows(encoder: DocumentEncoder, tmp_path: Path, level: str) -> None:
    manifest = encode_to_disk(encoder, DOCUMENTS, tmp_path / "v", level=level, columns=["text", "title"])  # type: ignore[arg-type]
    rows = pq.read_table(tmp_path / "v" / shard_name(0)).to_pylist()
    assert len(rows) == manifest.rows
    of_id = {document.id: document for document in DOCUMENTS}
    for row in rows:
        document = of_id[row["id"]]
        assert row["title"] == document.title
        if level == "document":
            assert row["text"] == document.text
        else:
            assert row["text"] == document.sections[row["section"]].text[row["start"] : row["end"]]
        assert row["text"].strip()
    # The vectors are the same, and are read as from any other folder.
    encode_to_disk(encoder, DOCUMENTS, tmp_path / "plain", level=level)  # type: ignore[arg-type]
    with_texts, without = read_vectors(tmp_path / "v"), read_vectors(tmp_path / "plain")
    assert with_texts[0] == without[0]
    assert (with_texts[1] == without[1]).all()
    assert manifest.settings["columns"] == ["title", "text"]
    assert not {"title", "text"} & set(pq.read_schema(tmp_path / "plain" / shard_name(0)).names)


def test_columns_are_part_of_what_a_folder_is(encoder: DocumentEncoder, tmp_path: Path) -> None:
    encode_to_disk(encoder, DOCUMENTS, tmp_path / "v", columns=("title",))
    assert encode_to_disk(encoder, DOCUMENTS, tmp_path / "v", columns=("title",)).settings["columns"] == ["title"]
    with pytest.raises(OutputError, match="columns"):
        encode_to_disk(encoder, DOCUMENTS, tmp_path / "v")
    renamed = [Document.from_text(one.text, id=one.id, title="Other") for one in DOCUMENTS[1:]]
    with pytest.raises(OutputError, match="other documents"):
        encode_to_disk(encoder, [DOCUMENTS[0], *renamed], tmp_path / "v", columns=("title",))


def test_the_command_knows_the_same_columns() -> None:
    from graphdoc.commands import encode

    assert get_args(encode.TextColumn) == TEXT_COLUMNS
