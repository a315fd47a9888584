"""DocumentIndex: what is kept, brought up to date, removed and refused; also in an object store."""

from __future__ import annotations

import copy
import json
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from typed import Documents, Encoders, Patch

from graphdoc import Document, DocumentEncoder, DocumentIndex, Section
from graphdoc.errors import RetrievalError
from graphdoc.retrieval import lance


def rows_by_key(index: DocumentIndex) -> dict[str, dict[str, Any]]:
    """All rows of an index."""
    return {row["key"]: row for batch in index.rows() for row in batch.to_pylist()}


def passages_text(number: int, changed: int = -1) -> Document:
    """A document of so many sections of one passage, of which one says something else."""
    words = [f"Sentence {at} speaks of matter {'zebra' if at == changed else 'plain'}." for at in range(number)]
    return Document("long", [Section(text, heading=f"S{place}") for place, text in enumerate(words)])


def test_an_index_holds_documents_and_passages_with_the_vectors_of_the_encoder(
    read_index: DocumentIndex, documents: Documents, encoder: DocumentEncoder
) -> None:
    rows = list(rows_by_key(read_index).values())
    assert len(read_index) == len(documents)
    for document in documents:
        assert read_index.document(document.id) == document
        whole = encoder.encode_levels(document)
        levels: dict[str, list[dict[str, Any]]] = {"document": [], "passage": []}
        for row in rows:
            if row["id"] == document.id:
                levels[row["level"]].append(row)
                assert (row["field_year"], row["label"]) == (document.metadata["year"], document.label)
                assert tuple(row["field_tags"]) == document.metadata["tags"]
        (row,), passages = levels["document"], levels["passage"]
        assert len(passages) == len(whole.segmented.passages) > 1
        assert json.loads(row["coverage"])["documents"] == 1
        length = np.linalg.norm(whole.vector)
        np.testing.assert_allclose(row["document_vector"], whole.vector / length, atol=1e-6)
        passages.sort(key=lambda row: row["number"])
        assert passages[0]["text"].split("\n")[:3] == [document.title, "Part", "Opening words"]
        for row in passages:
            section = document.sections[row["section"]]
            assert section.text[row["start"] : row["end"]] == row["text"][row["text_start"] :]
            assert row["heading"] == section.heading
        unit = whole.passages / np.linalg.norm(whole.passages, axis=1, keepdims=True)
        np.testing.assert_allclose([row["passage_vector"] for row in passages], unit, atol=1e-6)
        shares = np.array([row["share"] for row in passages], np.float64)
        np.testing.assert_allclose(shares.sum(axis=0), whole.vector / length, atol=2e-3)
        assert np.abs(shares).max() > 0.01


def test_an_index_loads_its_encoder_as_it_was_loaded(tmp_path: Path, encoder: DocumentEncoder) -> None:
    folder = copy.copy(encoder).save_pretrained(tmp_path / "model")
    fitted = DocumentEncoder.from_pretrained(folder, device="cpu")
    fitted.fit(["Rice is steamed.", "Tides rise."], centre=True)
    fitted.save_pretrained(tmp_path / "fitted")
    for number, own in enumerate((DocumentEncoder.from_pretrained(folder, device="cpu", query_prompt="ask: "), fitted)):
        made = DocumentIndex.create(tmp_path / str(number), own)
        made.update([Document.from_text("Rice is steamed.", id="rice")])
        again = DocumentIndex.open(made.path, device="cpu").encoder
        assert again.model.config.describe() == own.model.config.describe() | {"max_passages": 1000}


def test_only_changed_passages_are_encoded(tmp_path: Path, encoder: DocumentEncoder) -> None:
    index = DocumentIndex.create(tmp_path / "index", encoder)
    assert index.update([passages_text(100)]).encoded_passages == 100
    report = index.update([passages_text(100, changed=37)])
    assert (report.replaced, report.added) == (1, 0)
    assert (report.encoded_passages, report.known_passages) == (1, 99)
    fresh = DocumentIndex.create(tmp_path / "fresh", encoder)
    fresh.update([passages_text(100, changed=37)])
    ours, anew = rows_by_key(index), rows_by_key(fresh)
    assert ours.keys() == anew.keys()
    for key, row in anew.items():
        for column in ("document_vector", "passage_vector", "encoder_vector", "share"):
            if row[column] is not None:
                np.testing.assert_allclose(ours[key][column], row[column], atol=2e-6 if column != "share" else 1e-3)
        assert ours[key]["text"] == row["text"]


def test_a_processor_writes_what_it_encodes_in_half_a_minute(
    index: DocumentIndex, documents: Documents, monkeypatch: Patch
) -> None:
    monkeypatch.setattr("graphdoc.retrieval.updating.WINDOW_PASSAGES", 4)
    written, write = list[list[str]](), index._store.write
    monkeypatch.setattr(index._store, "write", lambda rows, ids: (written.append(ids), write(rows, ids)))
    index.update([replace(one, title="Changed") for one in documents])
    assert written == [[one.id] for one in documents]


def test_a_replaced_document_leaves_no_rows_behind(index: DocumentIndex, documents: Documents) -> None:
    short = replace(documents[0], sections=(Section("Nothing but quartz."),))
    # Longer, and shorter again.
    index.update([replace(short, sections=short.sections * 5)])
    assert index.update([short]).replaced == 1
    own = [row for row in rows_by_key(index).values() if row["id"] == short.id]
    assert sorted(row["level"] for row in own) == ["document", "passage"]
    assert index.document(short.id) == short and index.search("quartz", by="words")[0].id == short.id
    assert index.delete([short.id, "nowhere"]) == 1 and index.delete([]) == 0
    before = index.state().version
    assert index.update(documents[1:], maintain=False).unchanged == 3 and index.state().version == before
    # Changed metadata alone replace a document, and nothing is encoded.
    report = index.update([replace(documents[1], metadata={"year": 2024})])
    assert (report.replaced, report.encoded_passages) == (1, 0)
    assert [hit.id for hit in index.search("tides", where="year = 2024")] == [documents[1].id]
    assert short.id not in index and short.id not in [hit.id for hit in index.search("quartz moon")]
    assert all(row["id"] != short.id for row in rows_by_key(index).values()) and len(index) == len(documents) - 1


def test_maintaining_an_index_changes_no_score(tmp_path: Path, encoder: DocumentEncoder, documents: Documents) -> None:
    grown = DocumentIndex.create(tmp_path / "grown", encoder)
    grown.update(documents[:2], maintain=True)
    grown.update([replace(documents[1], title="Another"), *documents[2:]], maintain=False)
    grown.delete(documents[0].id, maintain=False)
    grown.update([documents[0], documents[1]], maintain=True)
    fresh = DocumentIndex.create(tmp_path / "fresh", encoder)
    fresh.update(documents, maintain=True)
    for query in ("spring tides", "steamed rice", "the wood of the sea"):
        ours, anew = grown.search(query), fresh.search(query)
        assert [hit.id for hit in ours] == [hit.id for hit in anew]
        for one, other in zip(ours, anew, strict=True):
            assert one.parts.keys() == other.parts.keys()
            for name, part in one.parts.items():
                assert part.score == pytest.approx(other.parts[name].score, abs=1e-3)


def test_rows_have_search_structures_before_maintenance_is_due(index: DocumentIndex, monkeypatch: Patch) -> None:
    monkeypatch.setattr(lance, "_DUE", 2)
    reached = index._store.recorded("random_score")
    index.update([passages_text(20)])
    assert (index.state().waiting, index.state().unindexed) == (21, 0)
    assert index._store.recorded("random_score") == reached is not None
    index.maintain()
    assert index.state().waiting == 0


def test_an_index_of_a_model_whose_documents_and_passages_differ_in_size(
    tiny_encoder: Encoders, tmp_path: Path, documents: Documents
) -> None:
    encoder = tiny_encoder(structural_embeddings=True, readout="sections", graph_layers=0, sentence_document=0.4)
    index = DocumentIndex.create(tmp_path / "index", encoder, sentences=True)
    index.update(documents, maintain=True)
    assert index.update([replace(documents[0], title="Changed")], maintain=True).replaced == 1
    assert index.search(documents[1], by="sentences").hits and index.record["search_by"] == "document"
    for query in ("spring tides", documents[1]):
        for by in ("words", "vectors", "hybrid"):
            hits = index.search(query, by=by).hits
            assert hits and [hit.explain().id for hit in hits] == [hit.id for hit in hits]
    assert index.scores("tides", ids=[]) == {"words": {}, "vectors": {}}


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_a_copy_of_the_query_document_is_found_first(
    tiny_encoder: Encoders, tmp_path: Path, documents: Documents, similarity: str
) -> None:
    encoder = tiny_encoder("roberta", graph_layers=2, readout="document_node", similarity=similarity)
    index = DocumentIndex.create(tmp_path / "index", encoder)
    index.update(documents, maintain=True)
    for document in documents:
        copy = replace(document, id="copy")
        for by in ("vectors", "hybrid"):
            assert index.search(copy, by=by)[0].id == document.id


def drawn_rows(index: DocumentIndex, count: int, *columns: str) -> list[dict[str, Any]]:
    """Rows of unit vectors, written to an index: for every document one in each column."""
    draw, schema, rows = np.random.default_rng(0), index._store.schema.remove_metadata(), []
    for column in columns:
        vectors = draw.standard_normal((count, schema.field(column).type.list_size)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        level = column.removesuffix("_vector")
        shared = {"level": level, "number": 0, "text": "salt" if level == "passage" else None}
        rows += [
            {**shared, "key": f"{number} {level}", "id": f"d{number}", column: vector}
            for number, vector in enumerate(vectors)
        ]
    index._store.write(pyarrow.Table.from_pylist(rows, schema), [f"d{number}" for number in range(count)])
    return rows


def test_maintenance_makes_search_structures_of_both_kinds_of_vectors(
    tmp_path: Path, encoder: DocumentEncoder, monkeypatch: Patch
) -> None:
    index = DocumentIndex.create(tmp_path / "index", encoder, repeats=True)
    columns = ("document_vector", "passage_vector")
    rows = drawn_rows(index, 1_100, *columns)
    store, schema = index._store, index._store.schema.remove_metadata()
    index.maintain()
    # Few documents of many passages have a structure too: without one, vectors of all rows would be read.
    monkeypatch.setattr(lance, "ROWS_FOR_VECTOR_INDEX", 2_000)
    index.maintain()
    for column in columns:
        vectors = np.array([row[column] for row in rows if column in row])
        # The clusters are drawn anew each time, so that a single search may miss a few.
        found = 0
        for query in vectors[:20]:
            best = {f"d{number}" for number in np.argsort(-(vectors @ query))[:10]}
            found += len(best & set(store.find(store.by_vector(query, column, 10))[0].ids))
        assert found >= 180
    # Each maintenance leaves one part more to search, until there are too many.
    monkeypatch.setattr(lance, "_MOST_PARTS", 2)
    for turn, parts in enumerate((2, 1, 2)):
        more = [row | {"key": f"{turn} {row['key']}"} for row in rows[1_080:1_120]]
        store.write(pyarrow.Table.from_pylist(more, schema), ["new"])
        index.maintain()
        names = {one.columns[0]: one.name for one in store._do(lambda: store._table.list_indices())}
        for column in columns:
            stated = store._do(lambda name=names[column]: store._table.index_stats(name))
            assert (stated.num_indices, stated.num_unindexed_rows) == (parts, 0)


def test_a_search_without_a_filter_looks_into_few_partitions_unless_it_lacks_rows(
    tmp_path: Path, encoder: DocumentEncoder, monkeypatch: Patch
) -> None:
    index, count = DocumentIndex.create(tmp_path / "index", encoder), 1_500
    vector, store = drawn_rows(index, count, "passage_vector")[0]["passage_vector"], index._store
    monkeypatch.setattr(lance, "ROWS_FOR_VECTOR_INDEX", 1_000)
    monkeypatch.setattr(lance, "_PARTITION", 20)
    index.maintain()
    # Rows that were removed made every search look everywhere.
    store._do(lambda: store._table.delete("id IN ('d1', 'd2', 'd3')"))
    store.refresh()
    monkeypatch.setattr(lance, "_PROBES", 8)

    def partitions(is_bounded: bool) -> int:
        plan = str(store._do(store._nearest(vector, "passage_vector", 10, is_bounded=is_bounded).analyze_plan))
        return max(int(found) for found in re.findall(r"partitions_searched=(\d+)", plan))

    assert partitions(True) == 8 < partitions(False)
    assert store.find(store.by_vector(vector, "passage_vector", 10))[0].ids[0] == "d0"
    # Eight partitions hold some 160.
    assert len(set(store.find(store.by_vector(vector, "passage_vector", count - 3))[0].ids)) == count - 3


KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}


@pytest.fixture
def store(monkeypatch: Patch) -> Iterator[str]:
    """A server with an empty bucket; gives its address, which the environment names."""
    server_module = pytest.importorskip("moto.server", reason="needs moto[s3], flask and flask-cors")
    import boto3

    server = server_module.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    for name, value in {**KEYS, "AWS_ENDPOINT": address, "AWS_ALLOW_HTTP": "true"}.items():
        monkeypatch.setenv(name, value)
    boto3.client("s3", endpoint_url=address, region_name="us-east-1").create_bucket(Bucket="bucket")
    yield address
    server.stop()


@pytest.fixture
def impatient(monkeypatch: Patch) -> None:
    quick = {"timeout": "1s", "connect_timeout": "1s", "client_max_retries": "1", "client_retry_timeout": "1"}
    assert quick.keys() == lance.STORE_OPTIONS.keys()
    monkeypatch.setattr(lance, "STORE_OPTIONS", quick)
    for name, value in {**KEYS, "AWS_ALLOW_HTTP": "true"}.items():
        monkeypatch.setenv(name, value)


def rows_of(index: DocumentIndex) -> dict[str, Any]:
    return {row["key"]: row for batch in index.rows() for row in batch.to_pylist()}


def test_an_index_in_a_store_holds_the_same_rows_as_a_folder(
    store: str, tmp_path: Path, encoder: DocumentEncoder, documents: Documents
) -> None:
    assert not DocumentIndex.exists("s3://bucket/index")
    indexes = [DocumentIndex.create(place, encoder) for place in (tmp_path / "index", "s3://bucket/index")]
    for index in indexes:
        index.update(documents)
        assert index.update([replace(documents[0], title="Changed")]).replaced == 1
        assert index.delete("rice") == 1
        index.maintain()
    here, there = indexes
    assert rows_of(here) == rows_of(there) and len(there) == 3
    for query in ("spring tides", documents[2]):
        ours, theirs = here.search(query), there.search(query)
        assert ours.hits and ours.to_dict()["hits"] == theirs.to_dict()["hits"]
    DocumentIndex.open("s3://bucket/index", encoder).update(documents)
    assert len(there) == 4 and there.document("rice") == documents[1]


class Refusing(BaseHTTPRequestHandler):
    """A store that lets nobody in."""

    def do_GET(self) -> None:
        self.send_response(403)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_PUT = do_POST = do_GET

    def log_message(self, *arguments: object) -> None:
        pass


def test_stores_without_the_bucket_that_refuse_or_do_not_answer(
    store: str, impatient: None, encoder: DocumentEncoder, monkeypatch: Patch
) -> None:
    with pytest.raises(RetrievalError, match=r"s3://missing/x.*no such bucket"):
        DocumentIndex.create("s3://missing/x", encoder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("AWS_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    with pytest.raises(RetrievalError, match="AWS_ACCESS_KEY_ID"):
        DocumentIndex.open("s3://bucket/refused")
    server.shutdown()
    server.server_close()
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(RetrievalError, match="AWS_ENDPOINT"):
            DocumentIndex.open("s3://bucket/silent")
