"""Folders of sentence vectors whose documents are ranked: as an index with sentences does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphdoc import Document, DocumentEncoder, DocumentIndex, Section
from graphdoc.errors import ModelError, OutputError, RetrievalError, SettingsError
from graphdoc.retrieval import sentence_folder
from graphdoc.retrieval.sentence_folder import SentenceFolder


@pytest.fixture
def folder(tmp_path: Path, encoder: DocumentEncoder, documents: list[Document]) -> SentenceFolder:
    """The four documents, in shards of two."""
    encoder.encode_to_disk(documents, tmp_path / "vectors", level="sentence", shard_size=2)
    return SentenceFolder(tmp_path / "vectors", encoder)


@pytest.mark.parametrize("rows", [1, 3, 4_096])
@pytest.mark.parametrize("by", ["sentences", "paragraphs"])
def test_a_folder_ranks_as_an_index(
    folder: SentenceFolder,
    tmp_path: Path,
    encoder: DocumentEncoder,
    documents: list[Document],
    monkeypatch: pytest.MonkeyPatch,
    rows: int,
    by: str,
) -> None:
    index = DocumentIndex.create(tmp_path / "index", encoder, sentences=True)
    index.update(documents)
    monkeypatch.setattr(sentence_folder, "_ROWS", rows)
    assert sorted(folder.ids()) == sorted(document.id for document in documents)
    for normalisation in ("none", "zscore"):
        options = {"by": by, "normalisation": normalisation, "direction": "both"}
        ours, theirs = folder.search(documents[1], **options), index.search(documents[1], **options)  # type: ignore[arg-type, call-overload]
        rounding = 1e-3 if normalisation == "none" else 2e-2
        assert {hit.id: hit.score for hit in ours} == pytest.approx(
            {hit.id: hit.score for hit in theirs}, abs=rounding
        )
        assert len(ours) == 3
        for hit in ours:
            assert hit.alignment is not None
            assert hit.alignment.score == pytest.approx(hit.score, abs=1e-9)
            other = next(one for one in theirs if one.id == hit.id).alignment
            assert other is not None
            for pair in hit.alignment.to_dict()["pairs"]:
                assert pair["candidate_heading"] in ("Opening words", "The rest")
                assert all(one["candidate_text"] is None and one["source_text"] for one in pair["sentences"])


def test_candidates_and_what_needs_an_index(folder: SentenceFolder, documents: list[Document]) -> None:
    found = folder.search(documents[0], by="flat", candidates=["rice", "tides", "nobody"])
    assert [hit.id for hit in found] == ["rice"] and len(found.warnings) == 2
    with pytest.raises(RetrievalError, match="nobody"):
        folder.search(documents[0], by="flat", candidates=["nobody"])
    for name, value in (("words", 0.5), ("where", "year > 1"), ("pool", 3)):
        with pytest.raises(SettingsError, match=f"{name}="):
            folder.search(documents[0], by="flat", **{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "damage",
    [
        {"settings": {}},
        {"settings": {"level": 3, "shard_size": 2}},
        {"settings": {"level": "sentence"}},
        {"model": {}},
        {"model": []},
        {"weights": None},
        {"hidden_size": "8"},
    ],
)
def test_a_damaged_manifest_is_one_line(
    folder: SentenceFolder, encoder: DocumentEncoder, damage: dict[str, Any]
) -> None:
    path = Path(folder.place) / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | damage))
    with pytest.raises(OutputError, match=r"manifest\.json"):
        SentenceFolder(folder.place, encoder)


def test_paragraphs_that_a_folder_does_not_know(
    folder: SentenceFolder, documents: list[Document], encoder: DocumentEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder.model.config, "paragraph", "blank_line")
    with pytest.raises(SettingsError, match="blank_line"):
        folder.search(documents[0], by="sentences")
    assert len(folder.search(documents[0], by="flat")) == 3


def test_folders_of_another_model_or_with_one_id_twice(
    tmp_path: Path, encoder: DocumentEncoder, tiny_encoder: Callable[..., DocumentEncoder], folder: SentenceFolder
) -> None:
    with pytest.raises(ModelError, match="encode the documents"):
        SentenceFolder(folder.place, tiny_encoder("roberta", graph_layers=0, readout="mean"))
    only = Document("one", [Section("Tides rise.")])
    encoder.encode_to_disk([only], tmp_path / "one", level="sentence")
    alone = SentenceFolder(tmp_path / "one", encoder).search(only, by="sentences", normalisation="zscore")
    assert not alone.hits and alone.warnings


def test_titles_in_front_of_sentences_are_part_of_the_model(
    tmp_path: Path, tiny_encoder: Callable[..., DocumentEncoder], documents: list[Document]
) -> None:
    titled, plain = (tiny_encoder("bert", sentence_context=context) for context in ("title", "none"))
    for name, encoder, other in (("titled", titled, plain), ("plain", plain, titled)):
        encoder.encode_to_disk(documents, tmp_path / name, level="sentence")
        found = SentenceFolder(tmp_path / name, encoder).search(documents[0], k=3, by="sentences")
        assert len(found) == 3
        with pytest.raises(ModelError, match="sentence_context was"):
            SentenceFolder(tmp_path / name, other)
