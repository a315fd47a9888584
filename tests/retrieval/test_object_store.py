"""An index in an object store, tried with a local S3 server."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typed import Documents, Patch

from graphdoc import DocumentEncoder, DocumentIndex
from graphdoc.errors import RetrievalError
from graphdoc.retrieval import lance

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
    again = DocumentIndex.open("s3://bucket/index", encoder)
    again.update(documents)
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
