from __future__ import annotations

import hashlib
import json
import logging
import os
import random
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from forked import run
from rich.console import Console
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast
from two_processes import launch

from graphdoc.documents.document import Document
from graphdoc.documents.readers import ReadingReport, read_documents
from graphdoc.documents.section import Section
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import DocumentError, ModelError, OtherDocumentsError, OutputError, SettingsError
from graphdoc.vectors.folder import Manifest, read_vectors
from graphdoc.vectors.shards import METADATA_KEY
from graphdoc.vectors.writer import encode_to_disk

JOB = Path(__file__).parents[1] / "support" / "bulk_encoding_job.py"
WORDS = [f"{first}{vowel}{last}" for first in "bdfgklm" for vowel in "aeiou" for last in "nrst"]


@pytest.fixture(scope="module")
def make_encoder(tiny_encoder_config: Callable[..., Any]) -> Callable[..., DocumentEncoder]:
    """Makes a tiny random encoder that reads the words of ``WORDS``."""
    from graphdoc.modeling import DocumentConfig, DocumentModel

    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", ".", *WORDS]
    backend = Tokenizer(models.WordPiece({word: row for row, word in enumerate(vocabulary)}, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=64,
    )

    def make(*, seed: int = 0, **settings: Any) -> DocumentEncoder:
        config = DocumentConfig(
            encoder_config=tiny_encoder_config("bert", vocab_size=len(vocabulary)),
            **{"projection_size": 16, "graph_layers": 1, "passage_words": 20, "passage_tokens": 64, **settings},
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return DocumentEncoder(DocumentModel(config), tokenizer, name="tiny", device="cpu")

    return make


@pytest.fixture(scope="module")
def encoder(make_encoder: Callable[..., DocumentEncoder]) -> DocumentEncoder:
    return make_encoder()


@pytest.fixture(scope="module")
def checkpoint(encoder: DocumentEncoder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return encoder.save_pretrained(tmp_path_factory.mktemp("checkpoint"))


def made_up(count: int, seed: int = 0) -> list[Document]:
    """Documents of two or three sections, the second one empty."""
    draw = random.Random(seed)
    documents = []
    for number in range(count):
        texts = [". ".join(" ".join(draw.choices(WORDS, k=draw.randint(3, 25))) for _ in range(3)) for _ in range(2)]
        sections = (Section(texts[0], "Bar"), Section("", "Dis"), Section(texts[1], "Fur"))
        documents.append(Document(f"document {number}", sections[: draw.randint(1, 3)]))
    return documents


def corpus_file(path: Path, documents: Iterable[Document]) -> Path:
    path.write_text("".join(json.dumps(document.to_dict()) + "\n" for document in documents), encoding="utf-8")
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def visible(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def interrupt(folder: Path) -> None:
    """Bring a finished folder into the state in which a run leaves it that is killed after its last shard."""
    (folder / "manifest.json").unlink()


def count_encoded(encoder: DocumentEncoder, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ids of the documents that go through the model from now on."""
    seen: list[str] = []
    stream = encoder.stream

    def counted(*arguments: Any, **options: Any) -> Iterator[Any]:
        for segmented, vectors in stream(*arguments, **options):
            seen.append(segmented.document.id)
            yield segmented, vectors

    monkeypatch.setattr(encoder, "stream", counted)
    return seen


class TestOutput:
    def test_document_vectors_are_those_of_encode(self, encoder: DocumentEncoder, tmp_path: Path) -> None:
        documents = made_up(20)
        manifest = encoder.encode_to_disk(documents, tmp_path / "out", shard_size=8)
        ids, vectors = read_vectors(tmp_path / "out")
        assert ids == [document.id for document in documents]
        assert vectors.dtype == np.float32
        np.testing.assert_allclose(vectors, encoder.encode(documents), atol=1e-5)
        assert [path.name for path in sorted((tmp_path / "out").iterdir())] == [
            "manifest.json",
            "shard-00000.parquet",
            "shard-00001.parquet",
            "shard-00002.parquet",
        ]
        schema = pq.read_schema(tmp_path / "out" / "shard-00000.parquet")
        assert schema.names == ["id", "vector"]
        assert schema.field("id").type == pa.string()
        assert schema.field("vector").type == pa.list_(pa.float32(), 16)
        assert [entry.documents for entry in manifest.shards] == [8, 8, 4]
        encode_to_disk(encoder, documents, tmp_path / "unit", normalize=True)
        np.testing.assert_allclose(np.linalg.norm(read_vectors(tmp_path / "unit")[1], axis=1), 1, atol=1e-6)

    @pytest.mark.parametrize("level", ["section", "passage"])
    def test_parts_of_documents_say_where_they_lie(self, encoder: DocumentEncoder, tmp_path: Path, level: Any) -> None:
        documents = made_up(10)
        manifest = encode_to_disk(encoder, documents, tmp_path, level=level, shard_size=4)
        rows = pa.concat_tables(pq.read_table(tmp_path / entry.file) for entry in manifest.shards).to_pylist()
        names = ["id", "section", "passage", "heading", "start", "end", "vector"]
        assert list(rows[0]) == [name for name in names if level == "passage" or name != "passage"]
        expected = encoder.encode(documents, level=level)
        row = 0
        for document, vectors in zip(documents, expected, strict=True):
            segmented = encoder.segment(document)
            for number, vector in enumerate(vectors):
                found = rows[row]
                np.testing.assert_allclose(found["vector"], vector, atol=1e-5)
                assert found["id"] == document.id
                assert found["heading"] == document.sections[found["section"]].heading
                if level == "passage":
                    span = segmented.passages[number]
                    assert found["passage"] == number
                    assert (found["section"], found["start"], found["end"]) == (span.section, span.start, span.end)
                else:
                    text = document.sections[found["section"]].text
                    assert text[found["start"] : found["end"]] == text
                row += 1
        assert row == len(rows) == manifest.rows > len(documents)

    def test_the_manifest_tells_how_it_was_made(
        self, make_encoder: Callable[..., DocumentEncoder], tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        encoder = make_encoder(max_passages=2)
        documents = made_up(12)
        with caplog.at_level(logging.WARNING):
            manifest = encode_to_disk(encoder, documents, tmp_path, shard_size=5)
        values = json.loads((tmp_path / "manifest.json").read_text())
        assert values == json.loads(json.dumps(manifest.to_dict()))
        assert Manifest.read(tmp_path) == manifest
        assert values["format"] == "graphdoc vectors"
        assert values["model"] == encoder.describe()
        assert (values["settings"]["level"], values["settings"]["shard_size"]) == ("document", 5)
        assert set(values["versions"]) == {"graphdoc", "torch", "transformers"}
        assert (values["documents"], values["rows"], values["hidden_size"]) == (12, 12, 16)
        for entry in values["shards"]:
            checksum = hashlib.blake2b((tmp_path / entry["file"]).read_bytes(), digest_size=32).hexdigest()
            assert entry["checksum"] == checksum
        coverages = [encoder.segment(document).coverage for document in documents]
        totals = values["coverage"]
        assert totals["documents_not_whole"] == sum(bool(coverage.left_out) for coverage in coverages) > 0
        for name in ("characters", "encoded_characters", "passages", "encoded_tokens", "empty_sections"):
            assert totals[name] == sum(getattr(coverage, name) for coverage in coverages)
        lost = sum(coverage.left_out.get("passage limit", 0) for coverage in coverages)
        assert totals["left_out"] == {"passage limit": lost}
        # Said once, not once for every shard.
        assert sum("not encoded whole" in record.getMessage() for record in caplog.records) == 1
        console = Console(record=True, width=200)
        manifest.summarise(console)
        assert f"{lost:,} characters: passage limit" in console.export_text()

    def test_strings_rows_and_a_single_document(self, encoder: DocumentEncoder, tmp_path: Path) -> None:
        encode_to_disk(encoder, iter(["bar ben.", {"id": "row", "text": "dis dot."}, *made_up(1)]), tmp_path / "many")
        ids, vectors = read_vectors(tmp_path / "many")
        assert ids[1:] == ["row", "document 0"]
        np.testing.assert_allclose(vectors[0], encoder.encode("bar ben."), atol=1e-6)
        encode_to_disk(encoder, "bar ben.", tmp_path / "one")  # type: ignore[arg-type]
        np.testing.assert_allclose(read_vectors(tmp_path / "one")[1], vectors[:1], atol=1e-6)

    def test_lone_surrogates_do_not_stop_the_run(self, encoder: DocumentEncoder, tmp_path: Path) -> None:
        document = Document("a\ud800", (Section("bar\udfff ben", "dis\ud800"),))
        encode_to_disk(encoder, [document], tmp_path, level="passage")
        row = pq.read_table(tmp_path / "shard-00000.parquet").to_pylist()[0]
        assert (row["id"], row["heading"]) == ("a\ufffd", "dis\ufffd")

    @pytest.mark.parametrize("level", ["document", "section", "sentence"])
    def test_titles_and_texts_are_those_of_their_rows(
        self, encoder: DocumentEncoder, tmp_path: Path, level: Any
    ) -> None:
        documents = [replace(document, title=f"dis {document.id}") for document in made_up(5)]
        manifest = encode_to_disk(encoder, documents, tmp_path / "v", level=level, columns=["text", "title"])
        rows = pq.read_table(tmp_path / "v" / "shard-00000.parquet").to_pylist()
        by_id = {document.id: document for document in documents}
        assert len(rows) == manifest.rows
        for row in rows:
            document = by_id[row["id"]]
            text = document.text if level == "document" else document.sections[row["section"]].text
            assert row["title"] == document.title
            assert row["text"].strip() and row["text"] == text[row.get("start", 0) : row.get("end")]
        # The vectors are the same, and are read as from any other folder.
        encode_to_disk(encoder, documents, tmp_path / "plain", level=level)
        with_texts, without = read_vectors(tmp_path / "v"), read_vectors(tmp_path / "plain")
        assert with_texts[0] == without[0] and (with_texts[1] == without[1]).all()
        assert manifest.settings["columns"] == ["title", "text"]
        with pytest.raises(OutputError, match="columns"):
            encode_to_disk(encoder, documents, tmp_path / "v", level=level)


class TestContinuing:
    def test_a_finished_folder_is_left_as_it_is(
        self, encoder: DocumentEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = encode_to_disk(encoder, made_up(20), tmp_path, shard_size=8)
        times = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
        encoded = count_encoded(encoder, monkeypatch)
        assert encode_to_disk(encoder, made_up(20), tmp_path, shard_size=8) == first
        assert not encoded
        assert times == {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}

    @pytest.mark.parametrize("missing", [(2,), (0, 1)])
    def test_only_missing_shards_are_encoded(
        self, encoder: DocumentEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: tuple[int, ...]
    ) -> None:
        documents = made_up(20)
        encode_to_disk(encoder, documents, tmp_path, shard_size=8)
        before = contents(tmp_path)
        for number in missing:
            (tmp_path / f"shard-{number:05d}.parquet").unlink()
        encoded = count_encoded(encoder, monkeypatch)
        encode_to_disk(encoder, documents, tmp_path, shard_size=8)
        assert encoded == [document.id for row, document in enumerate(documents) if row // 8 in missing]
        assert contents(tmp_path) == before

    def test_a_folder_does_not_look_whole_while_a_shard_is_made(
        self, encoder: DocumentEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        encode_to_disk(encoder, made_up(20), tmp_path, shard_size=8)
        (tmp_path / "shard-00001.parquet").unlink()

        def broken(*_: Any, **__: Any) -> Iterator[Any]:
            raise KeyboardInterrupt
            yield

        monkeypatch.setattr(encoder, "stream", broken)
        with pytest.raises(KeyboardInterrupt):
            encode_to_disk(encoder, made_up(20), tmp_path, shard_size=8)
        assert visible(tmp_path) == ["shard-00000.parquet", "shard-00002.parquet"]
        with pytest.raises(OutputError, match="not finished"):
            read_vectors(tmp_path)

    def test_leftovers_go_and_other_files_stay(self, encoder: DocumentEncoder, tmp_path: Path) -> None:
        for name in (".partial-12-shard-00001.parquet", ".partial-7-manifest.json", "notes.txt", "table.parquet"):
            (tmp_path / name).write_bytes(b"x")
        encode_to_disk(encoder, made_up(3), tmp_path)
        assert visible(tmp_path) == ["manifest.json", "notes.txt", "shard-00000.parquet", "table.parquet"]
        assert len(read_vectors(tmp_path)[0]) == 3

    @pytest.mark.parametrize("finished", [True, False])
    def test_what_was_made_otherwise(
        self,
        make_encoder: Callable[..., DocumentEncoder],
        encoder: DocumentEncoder,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        finished: bool,
    ) -> None:
        encode_to_disk(encoder, made_up(9), tmp_path, shard_size=8)
        if not finished:
            interrupt(tmp_path)
        before = contents(tmp_path)
        cases: list[tuple[DocumentEncoder, dict[str, Any], str]] = [
            (encoder, {"level": "passage"}, "level"),
            (encoder, {"normalize": True}, "normalize"),
            (encoder, {"dtype": "bfloat16"}, "dtype"),
            (make_encoder(seed=1), {}, "weights"),
            (make_encoder(max_passages=7), {}, "max_passages"),
        ]
        for other, change, named in cases:
            with pytest.raises(OutputError, match=named):
                encode_to_disk(other, made_up(9), tmp_path, **{"shard_size": 8, **change})
        with monkeypatch.context() as patch, pytest.raises(OutputError, match=r"99\.0"):
            patch.setattr("graphdoc.vectors.folder.__version__", "99.0")
            encode_to_disk(encoder, made_up(9), tmp_path, shard_size=8)
        assert contents(tmp_path) == before
        encode_to_disk(make_encoder(), made_up(9), tmp_path, shard_size=8)

    @pytest.mark.parametrize(
        ("documents", "named", "finished"),
        [
            ([*made_up(12), Document("x", made_up(1)[0].sections), *made_up(16)[13:]], "shard-00001.parquet", False),
            (made_up(15), "shard-00001.parquet", False),
            (made_up(8), "shard-00001.parquet", True),
            (made_up(16)[::-1], "shard-00000.parquet", True),
        ],
    )
    def test_another_input(
        self, encoder: DocumentEncoder, tmp_path: Path, documents: list[Document], named: str, finished: bool
    ) -> None:
        encode_to_disk(encoder, made_up(16), tmp_path, shard_size=8)
        if not finished:
            interrupt(tmp_path)
        before = contents(tmp_path)
        with pytest.raises(OtherDocumentsError, match=named):
            encode_to_disk(encoder, documents, tmp_path, shard_size=8)
        assert contents(tmp_path) == before

    def test_a_longer_input(self, encoder: DocumentEncoder, tmp_path: Path) -> None:
        encode_to_disk(encoder, made_up(16), tmp_path, shard_size=8)
        before = contents(tmp_path)
        with pytest.raises(OutputError, match="16 documents"):
            encode_to_disk(encoder, made_up(17), tmp_path, shard_size=8)
        assert contents(tmp_path) == before
        # Without a manifest nobody can tell that the input was not always that long.
        (tmp_path / "manifest.json").unlink()
        assert encode_to_disk(encoder, made_up(17), tmp_path, shard_size=8).documents == 17

    def test_a_changed_word_heading_or_title_is_seen(
        self, make_encoder: Callable[..., DocumentEncoder], encoder: DocumentEncoder, tmp_path: Path
    ) -> None:
        encode_to_disk(encoder, [Document("a", (Section("bar ben", "dis"),))], tmp_path / "a")
        for changed in (Section("bar bes", "dis"), Section("bar ben", "dot"), Section("ben", "disbar ")):
            with pytest.raises(OtherDocumentsError):
                encode_to_disk(encoder, [Document("a", (changed,))], tmp_path / "a")
        encoder = make_encoder(context="both", sentence_document=0.5)
        documents = [Document(f"{number}", (Section("bar ben"),), title="dis dot") for number in range(4)]
        renamed = [replace(document, title="fur fer") for document in documents]
        folder = tmp_path / "titles"
        encode_to_disk(encoder, documents, folder, level="sentence", shard_size=2)
        (folder / "shard-00001.parquet").unlink()
        before = contents(folder)
        with pytest.raises(OtherDocumentsError):
            encode_to_disk(encoder, renamed, folder, level="sentence", shard_size=2)
        assert contents(folder) == before
        encode_to_disk(encoder, renamed, folder, level="sentence", shard_size=2, overwrite=True)
        vectors = np.vstack(list(encoder.encode(renamed, level="sentence")))
        np.testing.assert_allclose(read_vectors(folder)[1], vectors, atol=1e-6)

    def test_overwrite_replaces_everything(self, encoder: DocumentEncoder, tmp_path: Path) -> None:
        encode_to_disk(encoder, made_up(20), tmp_path / "a", shard_size=4)
        encode_to_disk(encoder, made_up(9, seed=1), tmp_path / "a", shard_size=8, overwrite=True)
        encode_to_disk(encoder, made_up(9, seed=1), tmp_path / "b", shard_size=8)
        assert contents(tmp_path / "a") == contents(tmp_path / "b")

    def test_a_document_of_many_row_groups(self, make_encoder: Callable[..., DocumentEncoder], tmp_path: Path) -> None:
        document = Document("long", tuple(Section(WORDS[row % 100]) for row in range(9_000)))
        encoder = make_encoder(max_passages=None, graph_kind="window")
        encode_to_disk(encoder, [document, *made_up(2)], tmp_path, level="passage")
        assert pq.read_metadata(tmp_path / "shard-00000.parquet").num_row_groups > 2
        rows = pq.read_table(tmp_path / "shard-00000.parquet", columns=["passage"]).column(0).to_pylist()
        assert rows[:9_000] == list(range(9_000))


class TestDamage:
    def test_a_changed_shard(self, encoder: DocumentEncoder, tmp_path: Path) -> None:
        encode_to_disk(encoder, made_up(9), tmp_path, shard_size=8)
        path = tmp_path / "shard-00000.parquet"
        undamaged = contents(tmp_path)
        changed = bytearray(path.read_bytes())
        changed[40] ^= 1
        path.write_bytes(changed)
        with pytest.raises(OutputError, match=r"shard-00000.parquet"):
            read_vectors(tmp_path)
        with pytest.raises(OutputError, match=r"shard-00000.parquet"):
            encode_to_disk(encoder, made_up(9), tmp_path, shard_size=8)
        path.unlink()
        with pytest.raises(OutputError, match=r"shard-00000.parquet"):
            read_vectors(tmp_path)
        encode_to_disk(encoder, made_up(9), tmp_path, shard_size=8)
        assert contents(tmp_path) == undamaged

    @pytest.mark.parametrize("content", [b"PAR1 no Parquet", None])
    def test_a_shard_of_someone_else(self, encoder: DocumentEncoder, tmp_path: Path, content: bytes | None) -> None:
        path = tmp_path / "shard-00000.parquet"
        if content is None:
            pq.write_table(pa.table({"id": ["a"]}), path)
        else:
            path.write_bytes(content)
        before = path.read_bytes()
        with pytest.raises(OutputError, match=r"shard-00000.parquet"):
            encode_to_disk(encoder, made_up(3), tmp_path)
        assert path.read_bytes() == before

    def test_a_manifest_of_someone_else(self, encoder: DocumentEncoder, tmp_path: Path) -> None:
        for content in ("", '{"format": "graphdoc vectors"}'):
            (tmp_path / "manifest.json").write_text(content)
            for overwrite in (False, True):
                with pytest.raises(OutputError, match=r"manifest.json"):
                    encode_to_disk(encoder, made_up(3), tmp_path, overwrite=overwrite)
            assert (tmp_path / "manifest.json").read_text() == content

    @pytest.mark.parametrize("change", [{"rows": -1}, {"skipped": [5]}], ids=str)
    def test_a_record_that_was_changed(self, encoder: DocumentEncoder, tmp_path: Path, change: dict[str, Any]) -> None:
        encode_to_disk(encoder, made_up(3), tmp_path)
        interrupt(tmp_path)
        path = tmp_path / "shard-00000.parquet"
        table, metadata = pq.read_table(path), pq.read_metadata(path).metadata
        record = {**json.loads(metadata[METADATA_KEY]), **change}
        pq.write_table(table.replace_schema_metadata({METADATA_KEY: json.dumps(record)}), path)
        with pytest.raises(OutputError, match=r"shard-00000.parquet"):
            encode_to_disk(encoder, made_up(3), tmp_path)
        assert not (tmp_path / "manifest.json").exists()

    @pytest.mark.parametrize(
        ("change", "named"),
        [
            ({"rows": 4}, "manifest.json"),
            ({"shards": [{"file": "../secret", "documents": 3, "rows": 3, "checksum": ""}]}, "manifest.json"),
            ({"hidden_size": 15}, "shard-00000.parquet"),
        ],
        ids=str,
    )
    def test_a_manifest_that_was_changed(
        self, encoder: DocumentEncoder, tmp_path: Path, change: dict[str, Any], named: str
    ) -> None:
        encode_to_disk(encoder, made_up(3), tmp_path)
        path = tmp_path / "manifest.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
        with pytest.raises(OutputError, match=named):
            read_vectors(tmp_path)
        if named == path.name:
            with pytest.raises(OutputError, match=named):
                encode_to_disk(encoder, made_up(3), tmp_path)

    @pytest.mark.parametrize("name", ["shard-00000.parquet", "manifest.json"])
    def test_pipes_are_not_waited_for(self, encoder: DocumentEncoder, tmp_path: Path, name: str) -> None:
        os.mkfifo(tmp_path / name)
        with pytest.raises(OutputError, match=name):
            encode_to_disk(encoder, made_up(3), tmp_path)


class TestNothingIsLost:
    """Runs that are refused, or that replace what is there, leave alone what is not theirs."""

    @pytest.mark.parametrize("is_finished", [True, False])
    def test_overwriting_with_input_that_cannot_be_read(
        self, encoder: DocumentEncoder, tmp_path: Path, is_finished: bool
    ) -> None:
        encode_to_disk(encoder, made_up(20), tmp_path / "out", shard_size=8)
        if not is_finished:
            interrupt(tmp_path / "out")
        before = contents(tmp_path / "out")
        for documents in (read_documents(tmp_path / "typo.jsonl"), [], [5]):
            with pytest.raises(DocumentError):
                encode_to_disk(encoder, documents, tmp_path / "out", overwrite=True)  # type: ignore[arg-type]
            if documents != [5]:
                assert contents(tmp_path / "out") == before

    @pytest.mark.parametrize("overwrite", [True, False])
    def test_shards_of_someone_else(self, encoder: DocumentEncoder, tmp_path: Path, overwrite: bool) -> None:
        encode_to_disk(encoder, made_up(9), tmp_path, shard_size=8)
        pq.write_table(pa.table({"id": ["a"]}), tmp_path / "shard-00007.parquet")
        before = contents(tmp_path)
        with pytest.raises(OutputError) as error:
            encode_to_disk(encoder, made_up(9), tmp_path, shard_size=4, overwrite=overwrite)
        assert overwrite == ("shard-00007.parquet" in str(error.value))
        assert contents(tmp_path) == before

    def test_a_damaged_shard_of_ones_own_can_be_replaced(self, encoder: DocumentEncoder, tmp_path: Path) -> None:
        encode_to_disk(encoder, made_up(9), tmp_path, shard_size=8)
        (tmp_path / "shard-00000.parquet").write_bytes(b"half")
        encode_to_disk(encoder, made_up(3), tmp_path, overwrite=True)
        assert visible(tmp_path) == ["manifest.json", "shard-00000.parquet"]

    @pytest.mark.parametrize("options", [{}, {"overwrite": True}])
    def test_a_second_run_is_refused_while_one_is_under_way(
        self, encoder: DocumentEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
    ) -> None:
        monkeypatch.setattr("graphdoc.runtime.files.LONGEST_WAIT_SECONDS", 0.2)
        seen: list[str] = []

        def documents() -> Iterator[Document]:
            for number, document in enumerate(made_up(150)):
                if number == 140:
                    (tmp_path / ".partial-1-shard-00099.parquet").touch()
                    before = contents(tmp_path)
                    with pytest.raises(OutputError) as error:
                        encode_to_disk(encoder, made_up(3), tmp_path, **options)
                    assert contents(tmp_path) == before
                    seen.append(str(error.value))
                yield document

        encode_to_disk(encoder, documents(), tmp_path, shard_size=8)
        assert len(seen) == 1 and "under way" in seen[0] and str(tmp_path) in seen[0]
        assert len(read_vectors(tmp_path)[0]) == 150
        assert ".lock" not in contents(tmp_path)
        encode_to_disk(encoder, made_up(3), tmp_path, overwrite=True)

    def test_a_shard_that_was_damaged_in_an_unfinished_folder_is_not_read(
        self, encoder: DocumentEncoder, tmp_path: Path
    ) -> None:
        documents = made_up(20)
        encode_to_disk(encoder, documents, tmp_path, shard_size=8)
        undamaged = contents(tmp_path)
        path = tmp_path / "shard-00001.parquet"
        whole = path.read_bytes()
        for place in (40, len(whole) // 8, len(whole) // 4):
            interrupt(tmp_path)
            changed = bytearray(whole)
            changed[place] ^= 1
            path.write_bytes(changed)
            encode_to_disk(encoder, documents, tmp_path, shard_size=8)
            with pytest.raises(OutputError, match=path.name):
                read_vectors(tmp_path)
        interrupt(tmp_path)
        path.write_bytes(whole[:-9])
        # Nothing says any more whose file it is.
        with pytest.raises(OutputError, match=path.name):
            encode_to_disk(encoder, documents, tmp_path, shard_size=8)
        path.unlink()
        encode_to_disk(encoder, documents, tmp_path, shard_size=8)
        assert contents(tmp_path) == undamaged


class TestBadInput:
    @pytest.mark.parametrize(
        ("documents", "options", "kind", "named"),
        [
            ([], {}, DocumentError, "no documents"),
            ([3], {}, DocumentError, "3"),
            (Path("corpus.jsonl"), {}, DocumentError, "read_documents"),
            (["bar"], {"level": "word"}, SettingsError, "word"),
            (["bar"], {"on_error": "ignore"}, SettingsError, "ignore"),
            (["bar"], {"shard_size": 0}, SettingsError, "0"),
            (["bar"], {"columns": ("body",)}, SettingsError, "body"),
            (["bar"], {"dtype": "float8"}, ModelError, "float8"),
        ],
    )
    def test_refused_before_work(
        self, encoder: DocumentEncoder, tmp_path: Path, documents: Any, options: Any, kind: Any, named: str
    ) -> None:
        with pytest.raises(kind, match=named):
            encode_to_disk(encoder, documents, tmp_path / "out", **options)
        assert not (tmp_path / "out").exists()

    def test_nothing_but_skipped_documents(self, encoder: DocumentEncoder, tmp_path: Path) -> None:
        documents = [Document("a", (Section(" "),)), Document("b", ())]
        with pytest.raises(DocumentError, match="2 were skipped"):
            encode_to_disk(encoder, documents, tmp_path / "out", on_error="skip")
        assert not (tmp_path / "out" / "manifest.json").exists()

    def test_a_document_without_text(self, encoder: DocumentEncoder, tmp_path: Path) -> None:
        documents = [*made_up(11), Document("bare", (Section("\u200b\u200b"),)), *made_up(20)[12:]]
        with pytest.raises(DocumentError, match="'bare' has no text"):
            encode_to_disk(encoder, documents, tmp_path / "stop", shard_size=8)
        assert visible(tmp_path / "stop") == ["shard-00000.parquet"]
        # The run can go on with the document skipped.
        for folder in ("stop", "skip"):
            manifest = encode_to_disk(encoder, documents, tmp_path / folder, shard_size=8, on_error="skip")
        assert contents(tmp_path / "stop") == contents(tmp_path / "skip")
        assert manifest.documents == 19
        assert [(entry.source, entry.reason) for entry in manifest.skipped] == [
            ("document 'bare'", "it has no text to encode")
        ]
        # It is known of the shard when its documents are not looked at again.
        (tmp_path / "skip" / "manifest.json").unlink()
        (tmp_path / "skip" / "shard-00002.parquet").unlink()
        assert encode_to_disk(encoder, documents, tmp_path / "skip", shard_size=8, on_error="skip") == manifest
        with pytest.raises(DocumentError, match="'bare'"):
            encode_to_disk(encoder, documents, tmp_path / "skip", shard_size=8)

    def test_duplicate_ids(self, encoder: DocumentEncoder, tmp_path: Path) -> None:
        documents = [*made_up(10), made_up(3)[2], *made_up(20)[10:]]
        with pytest.raises(DocumentError, match="'document 2'"):
            encode_to_disk(encoder, documents, tmp_path / "stop")
        assert not (tmp_path / "stop" / "manifest.json").exists()
        manifest = encode_to_disk(encoder, documents, tmp_path / "skip", on_error="skip")
        assert manifest.documents == 20
        assert [entry.source for entry in manifest.skipped] == ["document 11"]

    def test_what_the_reader_skips_is_listed(self, encoder: DocumentEncoder, tmp_path: Path) -> None:
        source = corpus_file(tmp_path / "corpus.jsonl", made_up(12))
        lines = source.read_text().splitlines()
        nothing = json.dumps({"id": "nothing", "text": "\u200e"})
        source.write_text("\n".join([*lines[:4], "{broken", *lines[4:9], lines[3], *lines[9:], nothing]))

        def encode(folder: str) -> Manifest:
            report = ReadingReport()
            documents = read_documents(source, on_error="skip", report=report)
            manifest = encode_to_disk(
                encoder, documents, tmp_path / folder, shard_size=5, on_error="skip", report=report
            )
            assert manifest.documents == report.documents == 12
            assert manifest.skipped == tuple(report.skipped)
            return manifest

        skipped = [entry.source for entry in encode("a").skipped]
        assert skipped == [f"{source}:5", f"{source}:11", "document 'nothing'"]
        before = contents(tmp_path / "a")
        (tmp_path / "a" / "manifest.json").unlink()
        encode("a")
        assert contents(tmp_path / "a") == before

    def test_input_that_breaks_off_is_not_reported_as_output_that_cannot_be_written(
        self, encoder: DocumentEncoder, tmp_path: Path
    ) -> None:
        def broken() -> Iterator[Document]:
            yield from made_up(10)
            raise OSError(5, "Input/output error")

        with pytest.raises(DocumentError, match="documents cannot be read on"):
            encode_to_disk(encoder, broken(), tmp_path, shard_size=8)
        assert visible(tmp_path) == ["shard-00000.parquet"]


class TestUnwritable:
    def test_no_folder_can_be_made(self, encoder: DocumentEncoder, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        for place in (tmp_path / "file", tmp_path / "file" / "out"):
            with pytest.raises(OutputError, match="file"):
                encode_to_disk(encoder, made_up(2), place)

    def test_the_disk_is_full_half_way(self, encoder: DocumentEncoder, tmp_path: Path) -> None:
        """A limit on the size of a file makes writes fail as a full disk does."""
        documents = [*made_up(2), *made_up(40)[2:]]
        encode_to_disk(encoder, documents[:2], tmp_path / "small", level="passage", shard_size=2)
        size = (tmp_path / "small" / "shard-00000.parquet").stat().st_size
        wide = [documents[0], documents[1], *(_wide(document) for document in documents[2:])]
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 3_000, before[1]))
        try:
            with pytest.raises(OutputError, match=r"shard-00001.parquet cannot be written: .*space") as raised:
                encode_to_disk(encoder, wide, tmp_path / "full", level="passage", shard_size=2)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert "\n" not in str(raised.value)
        assert visible(tmp_path / "full") == ["shard-00000.parquet"]
        with pytest.raises(OutputError, match="not finished"):
            read_vectors(tmp_path / "full")
        encode_to_disk(encoder, wide, tmp_path / "full", level="passage", shard_size=2)
        encode_to_disk(encoder, wide, tmp_path / "undisturbed", level="passage", shard_size=2)
        assert contents(tmp_path / "full") == contents(tmp_path / "undisturbed")


def _wide(document: Document) -> Document:
    return Document(document.id, document.sections * 30)


class TestProcesses:
    @pytest.mark.parametrize(
        ("model", "documents", "kills"), [("tiny", 200, 4), pytest.param("mini", 200, 10, marks=pytest.mark.slow)]
    )
    def test_killed_runs_end_with_the_bytes_of_an_undisturbed_one(
        self, checkpoint: Path, tmp_path: Path, model: str, documents: int, kills: int
    ) -> None:
        source = corpus_file(tmp_path / "corpus.jsonl", made_up(documents))
        seed = time.time_ns() % 10_000
        result = run(
            JOB, "kill_at_random", checkpoint if model == "tiny" else model, source, tmp_path / "out", seed, kills
        )
        print(f"seed {seed}\n{result.stdout}")
        assert "killed" in result.stdout
        assert contents(tmp_path / "out") == contents(tmp_path / "out-undisturbed")
        assert len(read_vectors(tmp_path / "out")[0]) == documents

    @pytest.mark.parametrize(("documents", "limit"), [(4_000, 25), pytest.param(20_000, 50, marks=pytest.mark.slow)])
    @pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
    def test_memory_does_not_grow_with_the_documents(
        self, checkpoint: Path, tmp_path: Path, documents: int, limit: int
    ) -> None:
        """Every document carries 20 kB with it; held, they would take 80 MB and 400 MB."""
        result = run(JOB, "memory", checkpoint, tmp_path / "out", documents)
        assert int(result.stdout) < limit

    @pytest.mark.distributed
    def test_two_processes_give_what_one_gives(
        self, encoder: DocumentEncoder, checkpoint: Path, tmp_path: Path
    ) -> None:
        documents = made_up(50)
        source = corpus_file(tmp_path / "corpus.jsonl", documents)
        arguments = ("-m", "graphdoc", "encode", source, "--model", checkpoint, "--shard-size", 8, "--device", "cpu")
        arguments += ("--dtype", "float32")
        launch(*arguments, "--output", tmp_path / "two")
        run(*arguments, "--output", tmp_path / "one")
        assert contents(tmp_path / "two") == contents(tmp_path / "one")
        ids, vectors = read_vectors(tmp_path / "two")
        assert ids == [document.id for document in documents]
        np.testing.assert_allclose(vectors, encoder.encode(documents), atol=1e-6)

    @pytest.mark.slow
    @pytest.mark.distributed
    def test_an_error_in_one_process_ends_both(self, checkpoint: Path, tmp_path: Path) -> None:
        documents = [*made_up(12), Document("bare", (Section("\u200b"),)), *made_up(50)[13:]]
        source = corpus_file(tmp_path / "corpus.jsonl", documents)
        arguments = ("encode", source, "--model", checkpoint, "--shard-size", 8, "--output", tmp_path / "out")
        results = launch("-m", "graphdoc", *arguments, "--device", "cpu", check=False)
        assert all(result.returncode for result in results)
        assert any("graphdoc encode: document 'bare' has no text to encode" in result.stderr for result in results)
        assert not (tmp_path / "out" / "manifest.json").exists()

    @pytest.mark.distributed
    def test_failures_are_raised_in_all_and_nobody_waits(self) -> None:
        results = launch(JOB, "fail_in_turn")
        stopped, *others = sorted(line for result in results for line in result.stdout.splitlines())[-4:]
        assert stopped.startswith("rank 0: ")
        assert "process 1 has stopped" in stopped or "another process has stopped" in stopped
        assert others == ["rank 0: the first one fails", "rank 1: the first one fails", "rank 1: the second one fails"]
