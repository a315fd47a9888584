"""The served index: page, JSON and tools, within limits, and to nobody under a foreign name."""

from __future__ import annotations

import json
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from forked import Forked
from typed import Encoders, Folders, Output

from graphdoc import Document, DocumentEncoder, DocumentIndex, Section
from graphdoc.errors import RetrievalError

pytest.importorskip("fastapi", reason="needs the extra graphdoc[serve]")
pytest.importorskip("lancedb", reason="needs the extra graphdoc[serve]")

from starlette.testclient import TestClient

from graphdoc.serving.application import search_application, serve
from graphdoc.serving.service import REQUEST_LIMITS, SearchService

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'


@pytest.fixture(scope="module")
def encoder(tiny_encoder: Encoders) -> DocumentEncoder:
    return tiny_encoder("roberta", graph_layers=0, readout="mean")


@pytest.fixture(scope="module")
def by_sentences(encoder: DocumentEncoder, tmp_path_factory: Folders) -> DocumentIndex:
    """An index of three documents with their sentences."""
    index = DocumentIndex.create(tmp_path_factory.mktemp("sentences") / "index", encoder, sentences=True)
    texts = {"tides": f"Tides rise. {HOSTILE} They fall.", "rice": "Rice is washed.", "marsh": "Tides flood a marsh."}
    index.update([Document(id, [Section(text)], f"About {id} {HOSTILE}") for id, text in texts.items()])
    return index


def asking(service: SearchService) -> TestClient:
    return TestClient(search_application(service), base_url="http://127.0.0.1:8765")


@pytest.fixture(scope="module")
def service(encoder: DocumentEncoder, tmp_path_factory: Folders) -> SearchService:
    """An index of three documents, one of them hostile."""
    index = DocumentIndex.create(tmp_path_factory.mktemp("served") / "index", encoder)
    texts = {"tides": "Tides rise twice a day.", "rice": "Steamed rice is cooled.", "a/b c": f"Rice and {HOSTILE}."}
    odd = {"depth": float("nan"), "height": float("inf")}
    index.update([Document(id, [Section(text)], f"About {id} {HOSTILE}", None, odd) for id, text in texts.items()])
    return SearchService(index)


@pytest.fixture
def client(service: SearchService) -> Iterator[TestClient]:
    """Asks the application."""
    with asking(service) as made:
        yield made


def test_json_is_what_a_search_gives(client: TestClient, service: SearchService) -> None:
    answer = client.get("/search", params={"q": "steamed rice", "top_k": 2, "explain": True})
    assert answer.status_code == 200
    assert answer.json() == json.loads(json.dumps(service.search("steamed rice", top_k=2).to_dict(explain=True)))
    assert any(hit["explanation"]["words"] for hit in answer.json()["hits"])
    similar = client.get("/search", params={"document": "a/b c"}).json()
    assert "hits" in similar, similar
    assert "a/b c" not in [hit["id"] for hit in similar["hits"]] and len(similar["hits"]) == 2
    document = client.get("/documents/a/b c").json()
    assert document["id"] == "a/b c" and document["metadata"] == {"depth": None, "height": None}
    assert client.get("/index").json()["documents"] == 3
    assert {"/search", "/documents/{id}", "/compare"} <= client.get("/openapi.json").json()["paths"].keys()


def test_the_page_asks_and_answers_and_hostile_words_stay_words(client: TestClient) -> None:
    empty = client.get("/").text
    assert "<form" in empty and "<article" not in empty
    found = client.get("/", params={"q": "steamed rice"}).text
    assert 'value="steamed rice"' in found and "<article" in found
    assert "form-action &#39;self&#39;" in found or "form-action 'self'" in found
    assert "compare?a=a%2Fb+c&amp;b=" in client.get("/", params={"document": "a/b c"}).text
    report = client.get("/compare", params={"a": "a/b c", "b": "rice"})
    assert report.status_code == 200 and "<!doctype html>" in report.text.lower()
    for parameters in ({"q": HOSTILE}, {"q": "rice"}, {"document": "a/b c"}, {"q": "rice", "where": HOSTILE[:40]}):
        page = client.get("/", params=parameters).text
        assert "<script>alert" not in page and "<img src=x" not in page, parameters
        assert "&lt;script&gt;" in page or "&lt;img" in page


@pytest.mark.parametrize(
    ("path", "parameters", "status", "key"),
    [
        ("/search", {"q": "x" * (REQUEST_LIMITS["query"] + 1)}, 422, "query=10001"),
        ("/search", {"q": "x", "top_k": 101}, 422, "top_k=101"),
        ("/search", {"q": "x", "where": "yaer > 3"}, 422, "yaer"),
        ("/search", {"q": "x", "where": "repeat(id,10000000) = 'b'"}, 422, "repeat"),
        ("/search", {"q": " "}, 422, "empty"),
        ("/search", {"q": "x", "document": "rice"}, 422, "either"),
        ("/search", {"document": "nowhere"}, 404, "nowhere"),
        ("/documents/../../etc/passwd", {}, 404, ""),
        ("/documents/nowhere", {}, 404, "nowhere"),
        ("/compare", {"a": "rice", "b": "nowhere"}, 404, "nowhere"),
    ],
)
def test_refused_requests(client: TestClient, path: str, parameters: dict[str, Any], status: int, key: str) -> None:
    answer = client.get(path, params=parameters)
    assert answer.status_code == status, answer.text
    assert key in answer.text and "Traceback" not in answer.text


def test_no_page_loads_scripts_of_other_hosts_and_none_is_served_under_a_foreign_name(client: TestClient) -> None:
    for path in ("/docs", "/redoc", "/", "/?q=rice", "/compare?a=rice&b=tides"):
        assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", client.get(path).text), path
    assert client.get("/index", headers={"host": "evil.example"}).status_code == 400
    assert client.get("/index", headers={"host": "localhost:8765"}).status_code == 200
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    heads = {"accept": "application/json, text/event-stream", "origin": "http://evil.example"}
    assert client.post("/mcp", json=call, headers=heads).status_code == 403


def asked_of_tools(service: SearchService, ask: Callable[[Any], Any]) -> Any:
    """What an agent gets from the tools."""
    import anyio
    import mcp

    from graphdoc.serving.service import tool_server

    async def answer() -> Any:
        async with mcp.Client(tool_server(service)) as agent:
            return await ask(agent)

    return anyio.run(answer)


def call_tool(service: SearchService, name: str, **arguments: Any) -> Any:
    return asked_of_tools(service, lambda agent: agent.call_tool(name, arguments))


def test_agents_have_tools(service: SearchService) -> None:
    names = asked_of_tools(service, lambda agent: agent.list_tools()).tools
    found = call_tool(service, "search_documents", query="steamed rice", top_k=1)
    missing = call_tool(service, "read_document", id="nowhere")
    json.loads(call_tool(service, "read_document", id="rice").content[0].text, parse_constant=pytest.fail)
    assert [tool.name for tool in names] == ["search_documents", "similar_documents", "read_document"]
    hits = json.loads(found.content[0].text)["hits"]
    assert [hit["id"] for hit in hits] == [service.search("steamed rice", top_k=1)[0].id]
    assert missing.is_error and "nowhere" in missing.content[0].text


def test_what_another_process_deleted_is_not_served(encoder: DocumentEncoder, tmp_path: Path) -> None:
    writer = DocumentIndex.create(tmp_path / "index", encoder)
    writer.update([Document(id, [Section(f"Tides rise at {id}.")]) for id in ("a", "b")])
    service = SearchService(DocumentIndex.open(writer.path, encoder))
    with asking(service) as asked:
        assert asked.get("/documents/a").status_code == 200
        writer.delete("a")
        assert "a" in asked.get("/documents/a").json()["error"]
        assert asked.get("/compare", params={"a": "b", "b": "a"}).status_code == 404
        assert asked.get("/", params={"document": "a"}).status_code == 422
    assert call_tool(service, "read_document", id="a").is_error


def test_the_command_checks_before_it_serves(tmp_path: Path, capsys: Output) -> None:
    from graphdoc.cli import main

    assert main(["serve", str(tmp_path / "missing")]) == 2
    assert "missing" in capsys.readouterr().err
    assert main(["serve", str(tmp_path), "--port", "99999"]) == 2
    assert "99999" in capsys.readouterr().err


def test_a_server_answers_once_it_says_so(encoder: DocumentEncoder, tmp_path: Path) -> None:
    model = encoder.save_pretrained(tmp_path / "model")
    index = DocumentIndex.create(tmp_path / "index", DocumentEncoder.from_pretrained(model, device="cpu"))
    index.update([Document("tides", [Section("Tides rise.")])])
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    script = tmp_path / "server.py"
    script.write_text(f"from graphdoc.cli import main; main({['serve', index.path, '--port', str(port)]!r})")
    server = Forked(script)
    try:
        while f"http://127.0.0.1:{port}/" not in server.said():
            assert server.poll() is None
            time.sleep(0.05)
        with urlopen(f"http://127.0.0.1:{port}/index", timeout=30) as answer:
            assert json.load(answer)["documents"] == 1
        with pytest.raises(RetrievalError, match=str(port)):
            serve(None, "127.0.0.1", port, print)
    finally:
        server.send_signal(signal.SIGKILL)


@contextmanager
def served(service: SearchService) -> Iterator[str]:
    """A server on this machine, and its address."""
    import threading

    import uvicorn

    server = uvicorn.Server(uvicorn.Config(search_application(service), port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        thread.join(0.05)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def test_documents_are_ranked_by_sentences(by_sentences: DocumentIndex, client: TestClient) -> None:
    with asking(SearchService(by_sentences)) as asked:
        by = {"document": "tides", "by": "sentences"}
        found = asked.get("/search", params={**by, "weight": 0.5, "explain": True}).json()
        assert {hit["id"] for hit in found["hits"]} == {"rice", "marsh"} and found["by"] == "sentences"
        assert all(hit["alignment"]["pairs"] and "words" in hit["parts"] for hit in found["hits"])
        assert len(asked.get("/search", params={**by, "pool": 1}).json()["hits"]) == 1
        assert "pool=1001" in asked.get("/search", params={**by, "pool": 1001}).json()["error"]
        assert "Document" in asked.get("/search", params={"q": "tides", "by": "flat"}).json()["error"]
        page, report = asked.get("/", params=by), asked.get("/compare", params={"a": "tides", "b": "rice"})
        assert page.status_code == report.status_code == 200
        pairs = sum(len(pair["sentences"]) for hit in found["hits"] for pair in hit["alignment"]["pairs"])
        assert page.text.count('class="sentence-pair"') == pairs > 2
        assert 'href="compare?a=tides&amp;b=rice#alignment"' in page.text and 'id="panel-alignment"' in report.text
        assert not any(attack in one.text for one in (page, report) for attack in ("<script>alert", "<img src=x"))
        assert "<option>flat" in page.text
    assert "<option>flat" not in client.get("/", params={"document": "rice"}).text
    refused = client.get("/search", params={"document": "tides", "by": "sentences"})
    assert refused.status_code == 422 and "keeps no sentences" in refused.json()["error"]


@pytest.mark.browser
def test_people_search_with_and_without_scripts_and_by_sentences(by_sentences: DocumentIndex, browser: Any) -> None:
    with served(SearchService(by_sentences)) as address:
        for scripts in (True, False):
            page = browser.new_page(java_script_enabled=scripts)
            problems: list[str] = []
            page.on("console", lambda message, problems=problems: problems.append(message.text))
            page.on("dialog", lambda dialog, problems=problems: problems.append(dialog.message))
            page.goto(address)
            page.get_by_label("Query").fill(HOSTILE + " tides")
            page.get_by_role("button", name="Search").click()
            page.wait_for_selector("article")
            assert page.get_by_label("Query").input_value() == HOSTILE + " tides"
            page.get_by_role("link", name="Documents like this").first.click()
            page.wait_for_selector("#like-by")
            assert "by=sentences" in page.url and page.locator("details.pair").count()
            page.get_by_label("ranked by").select_option("paragraphs")
            page.get_by_role("button", name="Rank").click()
            page.wait_for_url("**by=paragraphs**")
            page.locator("h2 a").first.click()
            page.wait_for_url("**/compare?**")
            assert not problems
            page.close()
