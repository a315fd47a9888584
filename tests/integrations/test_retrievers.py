"""Retrievers for LangChain and LlamaIndex, each in the real library, over one small index."""

from __future__ import annotations

import asyncio
import json
import sys
from functools import partial
from typing import Any

import pytest
from typed import Encoders, Folders, Patch

pytest.importorskip("lancedb", reason="needs the extra graphdoc[retrieval]")
pytest.importorskip("langchain_core", reason="needs the extra graphdoc[interop]")
pytest.importorskip("llama_index.core", reason="needs the extra graphdoc[interop]")
from langchain_core.runnables import RunnableLambda
from llama_index.core.schema import MetadataMode, TextNode

from graphdoc import Document, DocumentEncoder, DocumentIndex, Section
from graphdoc.errors import GraphdocError
from graphdoc.integrations.langchain import GraphdocRetriever as LangChainRetriever
from graphdoc.integrations.llama_index import GraphdocRetriever as LlamaIndexRetriever

SPRING = Section("Spring tides come at new moon and full moon. They are higher. " * 4, heading="Spring", level=2)
MOON = Section("Tides rise twice a day. The moon pulls the sea.", heading="Moon", level=2)
FIELDS = {"year": 1990, "score": "mine", "tags": ["moon"]}
DOCUMENTS = [
    Document("tides", [Section("", heading="Part", level=1), MOON, SPRING], "About tides", "sea", FIELDS),
    Document("rice", [Section("Rice is washed and steamed.")], metadata={"year": 2005}),
    Document("marsh", [Section("Salt marshes slow the waves. The sea floods them at spring tides.")]),
]
QUERY = "spring tides"


@pytest.fixture(scope="module")
def encoder(tiny_encoder: Encoders, tmp_path_factory: Folders) -> DocumentEncoder:
    folder = tiny_encoder(similarity="cosine").save_pretrained(tmp_path_factory.mktemp("models") / "tiny")
    return DocumentEncoder.from_pretrained(folder, device="cpu")


@pytest.fixture(scope="module")
def index(encoder: DocumentEncoder, tmp_path_factory: Folders) -> DocumentIndex:
    made = DocumentIndex.create(tmp_path_factory.mktemp("indexes") / "index", encoder)
    made.update(DOCUMENTS)
    return made


def test_langchain_gives_the_hits_of_a_search(index: DocumentIndex) -> None:
    hits, retriever = index.search(QUERY, 2, passages=2), LangChainRetriever(index=index, top_k=2, passages=2)
    found = retriever.invoke(QUERY)
    assert [document.id for document in found] == [hit.id for hit in hits]
    for document, hit in zip(found, hits, strict=True):
        in_order = sorted(hit.passages, key=lambda passage: passage.number)
        assert document.page_content == "\n\n".join(passage.text for passage in in_order)
        assert (document.metadata["parts"], document.metadata["score"]) == (hit.to_dict()["parts"], hit.score)
        json.dumps(document.metadata)
    tides = next(document for document in found if document.id == "tides")
    wanted = {"id": "tides", "title": "About tides", "label": "sea", "year": 1990, "score_": "mine", "tags": ["moon"]}
    assert wanted.items() <= tides.metadata.items()
    retriever = LangChainRetriever(index=index, by="words", where="year < 2000", content="document")
    (whole,) = retriever.invoke("tides")
    assert whole.page_content == DOCUMENTS[0].text and list(whole.metadata["parts"]) == ["words"]
    assert [document.id for document in retriever.invoke("rice", where=None, top_k=1)] == ["rice"]
    passages = retriever.invoke("tides", content="passage", passages=2)
    assert len(passages) == 2
    for passage in passages:
        place = passage.metadata
        section = DOCUMENTS[0].sections[place["section"]]
        assert (passage.id, place["heading"]) == (f"tides#{place['number']}", section.heading)
        assert passage.page_content == section.text[place["start"] : place["end"]]


def test_langchain_in_a_chain_and_without_waiting(index: DocumentIndex) -> None:
    retriever, queries = LangChainRetriever(index=index, top_k=1), ["steamed rice", QUERY, "salt marshes"]
    chain = retriever | RunnableLambda(lambda documents: [document.id for document in documents])

    async def several() -> list[Any]:
        return await asyncio.gather(*map(chain.ainvoke, queries))

    assert asyncio.run(several()) == chain.batch(queries)


def test_llama_index_gives_nodes_that_know_their_place(index: DocumentIndex) -> None:
    retriever = LlamaIndexRetriever(index, top_k=2, passages=2)
    nodes, hits = retriever.retrieve(QUERY), index.search(QUERY, 2, passages=2)
    expected = [(hit.id, hit.score) for hit in hits for _ in hit.passages]
    assert [(node.node.ref_doc_id, node.score) for node in nodes] == expected
    texts = {document.id: document.text for document in DOCUMENTS}
    for node in nodes:
        assert node.text == texts[node.node.ref_doc_id][node.node.start_char_idx : node.node.end_char_idx]
        assert TextNode.from_dict(node.node.to_dict()) == node.node
    assert [node.node_id for node in asyncio.run(retriever.aretrieve(QUERY))] == [node.node_id for node in nodes]
    shown = next(node.node for node in nodes if node.node.ref_doc_id == "tides").get_content(MetadataMode.LLM)
    assert "About tides" in shown and "parts" not in shown
    text = DOCUMENTS[0].text
    for content, place in (("document", (0, len(text))), ("passages", (None, None))):
        (node,) = LlamaIndexRetriever(index, where="year < 2000", content=content).retrieve("moon")
        assert (node.node.start_char_idx, node.node.end_char_idx) == place
        assert (node.text == text) == (content == "document")


def test_bad_input(index: DocumentIndex) -> None:
    for settings, named in (({"by": "magic"}, "magic"), ({"content": "pages"}, "pages"), ({"top_k": 0}, "top_k=0")):
        for make in (lambda **own: LangChainRetriever(index=index, **own), partial(LlamaIndexRetriever, index)):
            with pytest.raises(ValueError, match=named):
                make(**settings)
    with pytest.raises(GraphdocError, match="empty"):
        LangChainRetriever(index=index).invoke("  ")
    with pytest.raises(GraphdocError, match="moon"):
        LlamaIndexRetriever(index, where="moon = 1").retrieve(QUERY)


@pytest.mark.parametrize("library", ["langchain_core", "llama_index"])
def test_without_the_library_one_line_says_what_to_install(library: str, monkeypatch: Patch) -> None:
    module = {"langchain_core": "langchain"}.get(library, library)
    for name in [name for name in sys.modules if name == library or name.startswith(f"{library}.")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"graphdoc.integrations.{module}")
    with pytest.raises(GraphdocError, match="interop"):
        __import__(f"graphdoc.integrations.{module}")
