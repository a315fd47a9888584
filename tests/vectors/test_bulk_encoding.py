from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from forked import run
from rich.console import Console
from two_processes import launch
from typed import Documents, Encoders, Folders, Log, Patch

from graphdoc.documents.document import Document
from graphdoc.documents.readers import ReadingReport, read_documents
from graphdoc.documents.section import Section
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import DocumentError, ModelError, OtherDocumentsError, OutputError, SettingsError
from graphdoc.segmentation.spans import Coverage
from graphdoc.vectors.folder import Manifest, read_vectors
from graphdoc.vectors.writer import encode_to_disk

JOB = Path(__file__).parents[1] / "support" / "bulk_encoding_job.py"
WORDS = [f"{first}{vowel}{last}" for first in "bdfgklm" for vowel in "aeiou" for last in "nrst"]


@pytest.fixture(scope="module")
def make_encoder(tiny_encoder: Encoders) -> Encoders:
    """Makes a tiny random encoder that is not told to be untrained: ``make_encoder(seed=1)``."""
    return partial(tiny_encoder, "bert", graph_layers=1, trained=True)


@pytest.fixture(scope="module")
def encoder(make_encoder: Encoders) -> DocumentEncoder:
    return make_encoder()


@pytest.fixture(scope="module")
def checkpoint(encoder: DocumentEncoder, tmp_path_factory: Folders) -> Path:
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
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


def count_encoded(encoder: DocumentEncoder, monkeypatch: Patch) -> list[str]:
    """Ids of the documents that go through the model from now on."""
    seen: list[str] = []
    stream = encoder.stream

    def counted(*arguments: Any, **options: Any) -> Iterator[Any]:
        for segmented, vectors in stream(*arguments, **options):
            seen.append(segmented.document.id)
            yield segmented, vectors

    monkeypatch.setattr(encoder, "stream", counted)
    return seen


Encode = Callable[..., Manifest]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def encode(encoder: DocumentEncoder, out: Path) -> Encode:
    """Encodes into one folder, eight documents a shard: ``encode(made_up(20), by=another_encoder)``."""
    return lambda documents, *, by=encoder, **more: encode_to_disk(by, documents, out, **{"shard_size": 8, **more})


def shard(number: int) -> str:
    return f"shard-{number:05d}.parquet"


def interrupt(folder: Path) -> dict[str, bytes]:
    """Bring a finished folder into the state in which a run leaves it that is killed after its last shard."""
    (folder / ".manifest.json").unlink(missing_ok=True)
    return contents(folder)


def test_document_vectors_are_those_of_encode(encoder: DocumentEncoder, tmp_path: Path) -> None:
    documents = made_up(20)
    manifest = encoder.encode_to_disk(documents, tmp_path / "out", shard_size=8)
    ids, vectors = read_vectors(tmp_path / "out")
    assert ids == [document.id for document in documents] and vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, encoder.encode(documents), atol=1e-5)
    assert visible(tmp_path / "out") == [".manifest.json", *(f"shard-0000{number}.parquet" for number in range(3))]
    schema = pq.read_schema(tmp_path / "out" / "shard-00000.parquet")
    assert schema.names == ["id", "vector"]
    assert (schema.field("id").type, schema.field("vector").type) == (pa.string(), pa.list_(pa.float32(), 16))
    assert [entry.documents for entry in manifest.shards] == [8, 8, 4]
    # The folder is a table to other libraries: they pass over the manifest.
    assert pd.read_parquet(tmp_path / "out")["id"].tolist() == ids
    table = datasets.load_dataset("parquet", data_dir=str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))
    assert table["train"]["id"][:] == ids
    # Strings, rows, iterators and a single document, of unit length.
    given = iter(["bar ben.", {"id": "row", "text": "dis dot."}, *documents])
    encode_to_disk(encoder, given, tmp_path / "unit", normalize_embeddings=True)
    ids, unit = read_vectors(tmp_path / "unit")
    assert ids[1:3] == ["row", "document 0"]
    np.testing.assert_allclose(unit[2:], vectors / np.linalg.norm(vectors, axis=1, keepdims=True), atol=1e-6)
    encode_to_disk(encoder, "bar ben.", tmp_path / "one")  # type: ignore[arg-type]
    np.testing.assert_allclose(read_vectors(tmp_path / "one")[1][0], encoder.encode("bar ben."), atol=1e-6)


@pytest.mark.parametrize("level", ["section", "passage"])
def test_parts_of_documents_say_where_they_lie(encoder: DocumentEncoder, tmp_path: Path, level: Any) -> None:
    documents = made_up(10)
    manifest = encode_to_disk(encoder, documents, tmp_path, level=level, shard_size=4)
    rows = pa.concat_tables(pq.read_table(tmp_path / entry.file) for entry in manifest.shards).to_pylist()
    names = ["id", "section", "passage", "heading", "start", "end", "vector"]
    assert list(rows[0]) == [name for name in names if level == "passage" or name != "passage"]
    found = iter(rows)
    for document, vectors in zip(documents, encoder.encode(documents, level=level), strict=True):
        segmented = encoder.segment(document)
        for number, vector in enumerate(vectors):
            row = next(found)
            np.testing.assert_allclose(row["vector"], vector, atol=1e-5)
            section = document.sections[row["section"]]
            assert (row["id"], row["heading"]) == (document.id, section.heading)
            if level == "passage":
                span = segmented.passages[number]
                place = (number, span.section, span.start, span.end)
                assert (row["passage"], row["section"], row["start"], row["end"]) == place
            else:
                assert section.text[row["start"] : row["end"]] == section.text
    assert next(found, None) is None and len(rows) == manifest.rows > len(documents)


def test_the_manifest_tells_how_it_was_made(make_encoder: Encoders, tmp_path: Path, caplog: Log) -> None:
    encoder, documents = make_encoder(max_passages=2), made_up(12)
    manifest = encode_to_disk(encoder, documents, tmp_path, shard_size=5)
    values = json.loads((tmp_path / ".manifest.json").read_text())
    assert values == json.loads(json.dumps(manifest.to_dict())) and Manifest.read(tmp_path) == manifest
    assert (values["format"], values["model"]) == ("graphdoc vectors", encoder.describe())
    assert (values["settings"]["level"], values["settings"]["shard_size"]) == ("document", 5)
    assert set(values["versions"]) == {"graphdoc", "torch", "transformers"}
    assert (values["documents"], values["rows"], values["hidden_size"]) == (12, 12, 16)
    for entry in values["shards"]:
        checksum = hashlib.blake2b((tmp_path / entry["file"]).read_bytes(), digest_size=32).hexdigest()
        assert entry["checksum"] == checksum
    expected = sum((encoder.segment(document).coverage for document in documents), Coverage())
    assert manifest.coverage == expected and expected.left_out.keys() == {"passage limit"}
    # Said once, not once for every shard.
    assert sum("not encoded whole" in record.getMessage() for record in caplog.records) == 1
    console = Console(record=True, width=200)
    manifest.summarize(console)
    assert f"{expected.left_out['passage limit']:,} characters" in console.export_text()


@pytest.mark.parametrize("level", ["document", "section", "sentence"])
def test_titles_and_texts_are_those_of_their_rows(encoder: DocumentEncoder, tmp_path: Path, level: Any) -> None:
    documents = {one.id: replace(one, title=f"dis {one.id}") for one in made_up(5)}
    manifest = encode_to_disk(encoder, documents.values(), tmp_path / "v", level=level, columns=["text", "title"])
    rows = pq.read_table(tmp_path / "v" / shard(0)).to_pylist()
    assert len(rows) == manifest.rows and manifest.settings["columns"] == ["title", "text"]
    for row in rows:
        document = documents[row["id"]]
        text = document.text if level == "document" else document.sections[row["section"]].text
        assert row["title"] == document.title
        assert row["text"].strip() and row["text"] == text[row.get("start", 0) : row.get("end")]
    # The vectors are the same, and are read as from any other folder.
    encode_to_disk(encoder, documents.values(), tmp_path / "plain", level=level)
    with_texts, without = read_vectors(tmp_path / "v"), read_vectors(tmp_path / "plain")
    assert with_texts[0] == without[0] and (with_texts[1] == without[1]).all()
    with pytest.raises(OutputError, match="columns"):
        encode_to_disk(encoder, documents.values(), tmp_path / "v", level=level)


def test_a_document_of_many_row_groups(make_encoder: Callable[..., Any], encode: Encode, out: Path) -> None:
    document = Document("long", tuple(Section(WORDS[row % 100]) for row in range(9_000)))
    encode([document, *made_up(2)], by=make_encoder(max_passages=None, graph_kind="window"), level="passage")
    assert pq.read_metadata(out / shard(0)).num_row_groups > 2
    assert pq.read_table(out / shard(0), columns=["passage"]).column(0).to_pylist()[:9_000] == list(range(9_000))


@pytest.mark.parametrize("missing", [(), (2,), (0, 1)])
def test_only_what_is_missing_is_encoded(
    encoder: DocumentEncoder, encode: Encode, out: Path, monkeypatch: Patch, missing: tuple[int, ...]
) -> None:
    for name in (f".partial-12-{shard(1)}", ".partial-7-.manifest.json", "notes.txt", "table.parquet"):
        out.mkdir(exist_ok=True)
        (out / name).write_bytes(b"x")
    first = encode(made_up(20))
    # Leftovers go, and other files stay.
    assert visible(out) == [".manifest.json", "notes.txt", shard(0), shard(1), shard(2), "table.parquet"]
    before, times = contents(out), {path.name: path.stat().st_mtime_ns for path in out.iterdir()}
    for number in missing:
        (out / shard(number)).unlink()
    encoded = count_encoded(encoder, monkeypatch)
    assert encode(made_up(20)) == first
    assert encoded == [document.id for row, document in enumerate(made_up(20)) if row // 8 in missing]
    assert contents(out) == before
    if not missing:
        assert times == {path.name: path.stat().st_mtime_ns for path in out.iterdir()}


def test_a_folder_does_not_look_whole_while_a_shard_is_made(
    encoder: DocumentEncoder, encode: Encode, out: Path, monkeypatch: Patch
) -> None:
    encode(made_up(20))
    (out / shard(1)).unlink()
    monkeypatch.setattr(encoder, "stream", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        encode(made_up(20))
    assert visible(out) == [shard(0), shard(2)]
    with pytest.raises(OutputError, match="not finished"):
        read_vectors(out)


@pytest.mark.parametrize("finished", [True, False])
def test_what_was_made_otherwise(
    make_encoder: Encoders, encode: Encode, out: Path, monkeypatch: Any, finished: bool
) -> None:
    encode(made_up(9))
    before = contents(out) if finished else interrupt(out)
    for named, options in {
        "level": {"level": "passage"},
        "normalize_embeddings": {"normalize_embeddings": True},
        "dtype": {"dtype": "bfloat16"},
        "weights": {"by": make_encoder(seed=1)},
        "max_passages": {"by": make_encoder(max_passages=7)},
    }.items():
        with pytest.raises(OutputError, match=named):
            encode(made_up(9), **options)
    with monkeypatch.context() as patch, pytest.raises(OutputError, match=r"99\.0"):
        patch.setattr("graphdoc.vectors.folder.__version__", "99.0")
        encode(made_up(9))
    assert contents(out) == before
    encode(made_up(9), by=make_encoder())


@pytest.mark.parametrize(
    ("documents", "named", "finished"),
    [
        ([*made_up(12), Document("x", made_up(1)[0].sections), *made_up(16)[13:]], shard(1), False),
        (made_up(15), shard(1), False),
        (made_up(8), shard(1), True),
        (made_up(16)[::-1], shard(0), True),
        (made_up(17), "16 documents", True),
    ],
)
def test_another_input(encode: Encode, out: Path, documents: Documents, named: str, finished: bool) -> None:
    encode(made_up(16))
    before = contents(out) if finished else interrupt(out)
    with pytest.raises(OtherDocumentsError, match=named):
        encode(documents)
    assert contents(out) == before
    # Without a manifest nobody can tell that the input was not always that long.
    interrupt(out)
    assert encode(made_up(17)).documents == 17


def test_a_changed_word_heading_or_title_is_seen(make_encoder: Encoders, encode: Encode, out: Path) -> None:
    encode([Document("a", (Section("bar ben", "dis"),))])
    for changed in (Section("bar bes", "dis"), Section("bar ben", "dot"), Section("ben", "disbar ")):
        with pytest.raises(OtherDocumentsError):
            encode([Document("a", (changed,))])
    encoder = make_encoder(context="both", sentence_document=0.5)
    documents = [Document(f"{number}", (Section("bar ben"),), title="dis dot") for number in range(4)]
    renamed, options = [replace(one, title="fur fer") for one in documents], {"by": encoder, "level": "sentence"}
    encode(documents, shard_size=2, overwrite=True, **options)
    (out / shard(1)).unlink()
    before = contents(out)
    with pytest.raises(OtherDocumentsError):
        encode(renamed, shard_size=2, **options)
    assert contents(out) == before
    encode(renamed, shard_size=2, overwrite=True, **options)
    vectors = np.vstack(list(encoder.encode(renamed, level="sentence")))
    np.testing.assert_allclose(read_vectors(out)[1], vectors, atol=1e-6)


def test_overwrite_replaces_everything(encoder: DocumentEncoder, encode: Encode, out: Path, tmp_path: Path) -> None:
    encode(made_up(20), shard_size=4)
    (out / shard(0)).write_bytes(b"half")
    encode(made_up(9, seed=1), overwrite=True)
    encode_to_disk(encoder, made_up(9, seed=1), tmp_path / "b", shard_size=8)
    assert contents(out) == contents(tmp_path / "b")


def test_a_changed_shard_is_refused_when_it_is_read(encode: Encode, out: Path) -> None:
    encode(made_up(20))
    undamaged, path = contents(out), out / shard(1)
    whole = path.read_bytes()

    def change(place: int) -> None:
        changed = bytearray(whole)
        changed[place] ^= 1
        path.write_bytes(changed)

    change(40)
    for read in (lambda: read_vectors(out), lambda: encode(made_up(20))):
        with pytest.raises(OutputError, match=path.name):
            read()
    path.unlink()
    with pytest.raises(OutputError, match=path.name):
        read_vectors(out)
    encode(made_up(20))
    assert contents(out) == undamaged
    for place in (40, len(whole) // 8, len(whole) // 4):
        interrupt(out)
        change(place)
        encode(made_up(20))
        with pytest.raises(OutputError, match=path.name):
            read_vectors(out)
    interrupt(out)
    path.write_bytes(whole[:-9])
    # Nothing says any more whose file it is.
    with pytest.raises(OutputError, match=path.name):
        encode(made_up(20))
    path.unlink()
    encode(made_up(20))
    assert contents(out) == undamaged


@pytest.mark.parametrize("name", [shard(0), ".manifest.json"])
@pytest.mark.parametrize("content", ["", "no Parquet", '{"format": "graphdoc vectors"}', "table", "pipe"])
def test_files_of_someone_else_stay(encode: Encode, out: Path, name: str, content: str) -> None:
    out.mkdir()
    if content == "pipe":
        os.mkfifo(out / name)
    elif content == "table":
        pq.write_table(pa.table({"id": ["a"]}), out / name)
    else:
        (out / name).write_text(content)
    before = {} if content == "pipe" else contents(out)
    for overwrite in (False, True):
        with pytest.raises(OutputError, match=name):
            encode(made_up(3), overwrite=overwrite)
    assert content == "pipe" or contents(out) == before


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"rows": 4}, ".manifest.json"),
        ({"shards": [{"file": "../secret", "documents": 3, "rows": 3, "checksum": ""}]}, ".manifest.json"),
        ({"hidden_size": 15}, shard(0)),
    ],
    ids=str,
)
def test_manifests_that_were_changed(encode: Encode, out: Path, change: Any, named: str) -> None:
    encode(made_up(3))
    path = out / ".manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(OutputError, match=named):
        read_vectors(out)
    if named == path.name:
        with pytest.raises(OutputError, match=named):
            encode(made_up(3))


@pytest.mark.parametrize("is_finished", [True, False])
def test_overwriting_with_unreadable_input(encode: Encode, out: Path, tmp_path: Path, is_finished: bool) -> None:
    encode(made_up(20))
    before = contents(out) if is_finished else interrupt(out)
    for documents in (read_documents(tmp_path / "typo.jsonl"), [], [5]):
        with pytest.raises(DocumentError):
            encode(documents, overwrite=True)
        if documents != [5]:
            assert contents(out) == before


@pytest.mark.parametrize("options", [{}, {"overwrite": True}])
def test_a_second_run_is_refused_while_one_is_under_way(
    encode: Encode, out: Path, monkeypatch: Patch, options: dict[str, Any]
) -> None:
    monkeypatch.setattr("graphdoc.runtime.files.LONGEST_WAIT_SECONDS", 0.2)
    seen: list[str] = []

    def documents() -> Iterator[Document]:
        for number, document in enumerate(made_up(150)):
            if number == 140:
                (out / f".partial-1-{shard(99)}").touch()
                before = contents(out)
                with pytest.raises(OutputError) as error:
                    encode(made_up(3), **options)
                assert contents(out) == before
                seen.append(str(error.value))
            yield document

    encode(documents())
    assert len(seen) == 1 and str(out) in seen[0]
    assert len(read_vectors(out)[0]) == 150 and ".lock" not in contents(out)
    encode(made_up(3), overwrite=True)


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
def test_refused_before_work(encode: Encode, out: Path, documents: Any, options: Any, kind: Any, named: str) -> None:
    with pytest.raises(kind, match=named):
        encode(documents, **options)
    assert not out.exists()


def test_documents_without_text_or_with_an_id_that_is_taken(encode: Encode, out: Path, tmp_path: Path) -> None:
    bare = Document("bare", (Section("\u200b\u200b"),))
    for wrong, named, count in (
        ([*made_up(11), bare, *made_up(20)[12:]], "'bare' has no text", 19),
        ([*made_up(10), made_up(3)[2], *made_up(20)[10:]], "'document 2'", 20),
    ):
        with pytest.raises(DocumentError, match=named):
            encode(wrong)
        assert visible(out) == [shard(0)]
        # The run can go on with the document skipped.
        manifest = encode(wrong, on_error="skip")
        assert manifest.documents == count and len(manifest.skipped) == 1
        whole = contents(out)
        # It is known of the shard when its documents are not looked at again.
        (out / ".manifest.json").unlink()
        (out / shard(2)).unlink()
        assert encode(wrong, on_error="skip") == manifest and contents(out) == whole
        with pytest.raises(DocumentError):
            encode(wrong)
        shutil.rmtree(out)
    with pytest.raises(DocumentError, match="2 were skipped"):
        encode([bare, Document("b", ())], on_error="skip")
    assert not (out / ".manifest.json").exists()


def test_what_the_reader_skips_is_listed(encode: Encode, out: Path, tmp_path: Path) -> None:
    source = corpus_file(tmp_path / "corpus.jsonl", made_up(12))
    lines = source.read_text().splitlines()
    nothing = json.dumps({"id": "nothing", "text": "\u202d"})
    source.write_text("\n".join([*lines[:4], "{broken", *lines[4:9], lines[3], *lines[9:], nothing]))

    def read() -> Manifest:
        report = ReadingReport()
        documents = read_documents(source, on_error="skip", report=report)
        manifest = encode(documents, shard_size=5, on_error="skip", report=report)
        assert manifest.documents == report.documents == 12 and manifest.skipped == tuple(report.skipped)
        return manifest

    skipped = [entry.source for entry in read().skipped]
    assert skipped == [f"{source}:5", f"{source}:11", "document 'nothing'"]
    before = contents(out)
    (out / ".manifest.json").unlink()
    read()
    assert contents(out) == before


def test_input_that_breaks_off_and_folders_that_cannot_be_made(
    encoder: DocumentEncoder, encode: Encode, out: Path, tmp_path: Path
) -> None:
    def broken() -> Iterator[Document]:
        yield from made_up(10)
        raise OSError(5, "Input/output error")

    # It is not reported as output that cannot be written.
    with pytest.raises(DocumentError, match="documents cannot be read on"):
        encode(broken())
    assert visible(out) == [shard(0)]
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "file", tmp_path / "file" / "out"):
        with pytest.raises(OutputError, match="file"):
            encode_to_disk(encoder, made_up(2), place)


def test_the_disk_is_full_half_way(encoder: DocumentEncoder, tmp_path: Path) -> None:
    """A limit on the size of a file makes writes fail as a full disk does."""
    small, large = made_up(10)[:2], [Document(one.id, one.sections * 30) for one in made_up(10)[2:]]

    def write(name: str, documents: list[Document] = [*small, *large]) -> None:  # noqa: B006
        encode_to_disk(encoder, documents, tmp_path / name, level="passage", shard_size=2)

    write("small", small)
    size = (tmp_path / "small" / shard(0)).stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 3_000, before[1]))
    try:
        with pytest.raises(OutputError, match=shard(1)):
            write("full")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert visible(tmp_path / "full") == [shard(0)]
    with pytest.raises(OutputError, match="not finished"):
        read_vectors(tmp_path / "full")
    write("full")
    write("undisturbed")
    assert contents(tmp_path / "full") == contents(tmp_path / "undisturbed")


@pytest.mark.parametrize(
    ("model", "documents", "kills"), [("tiny", 60, 2), pytest.param("mini", 200, 10, marks=pytest.mark.slow)]
)
def test_killed_runs_end_with_the_bytes_of_an_undisturbed_one(
    checkpoint: Path, tmp_path: Path, model: str, documents: int, kills: int
) -> None:
    source = corpus_file(tmp_path / "corpus.jsonl", made_up(documents))
    seed, target = time.time_ns() % 10_000, tmp_path / "out"
    result = run(JOB, "kill_at_random", checkpoint if model == "tiny" else model, source, target, seed, kills)
    print(f"seed {seed}\n{result.stdout}")
    assert "killed" in result.stdout
    assert contents(target) == contents(tmp_path / "out-undisturbed")
    assert len(read_vectors(target)[0]) == documents


@pytest.mark.parametrize(("documents", "limit"), [(3_000, 25), pytest.param(20_000, 50, marks=pytest.mark.slow)])
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_does_not_grow_with_the_documents(checkpoint: Path, tmp_path: Path, documents: int, limit: int) -> None:
    """Every document carries 20 kB with it; held, they would take 60 MB and 400 MB."""
    assert int(run(JOB, "memory", checkpoint, tmp_path / "out", documents).stdout) < limit


@pytest.mark.distributed
def test_two_processes_give_what_one_gives(encoder: DocumentEncoder, checkpoint: Path, tmp_path: Path) -> None:
    documents = made_up(50)
    source = corpus_file(tmp_path / "corpus.jsonl", documents)
    arguments = ("-m", "graphdoc", "encode", source, "--model", checkpoint, "--shard-size", 8, "--device", "cpu")
    arguments += ("--dtype", "float32")
    launch(*arguments, "--output", tmp_path / "two")
    run(*arguments, "--output", tmp_path / "one")
    assert contents(tmp_path / "two") == contents(tmp_path / "one")
    ids, vectors = read_vectors(tmp_path / "two")
    assert ids == [document.id for document in documents]
    np.testing.assert_allclose(vectors, encoder.encode(documents), atol=1e-5)


@pytest.mark.distributed
def test_failures_are_raised_in_all_and_nobody_waits() -> None:
    results = launch(JOB, "fail_in_turn")
    stopped, *others = sorted(line for result in results for line in result.stdout.splitlines())[-4:]
    assert stopped.startswith("rank 0: ")
    assert "process 1 has stopped" in stopped or "another process has stopped" in stopped
    assert others == ["rank 0: the first one fails", "rank 1: the first one fails", "rank 1: the second one fails"]
