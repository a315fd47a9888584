"""Fixtures of an index of a few documents, for the tests of retrieval and of what stands above it."""

from __future__ import annotations

from pathlib import Path

import pytest
from typed import Documents, Encoders, Folders

from graphdoc import Document, DocumentEncoder, DocumentIndex, Section

pytest.importorskip("lancedb", reason="needs the extra graphdoc[retrieval]")

TEXTS = {
    "tides": "Tides rise twice a day. The moon pulls the sea. Spring tides come at new moon and full moon.",
    "rice": "Rice is washed and steamed. Steamed rice is cooled before koji is sown on it.",
    "marsh": "Salt marshes slow the waves. The sea floods them at spring tides, and mud settles between the plants.",
    "lathe": "A lathe turns wood. The tool is held still while the wood turns.",
}


@pytest.fixture(scope="session")
def documents() -> list[Document]:
    """Four documents with sections and metadata."""
    years = {"tides": 1990, "rice": 2005, "marsh": 2015, "lathe": 2020}
    return [
        Document(
            id,
            [
                Section("", heading="Part", level=1),
                Section(text, heading="Opening words", level=2),
                Section(f"More on {id}. " + text[::-1].replace(".", ", ") + ".", heading="The rest", level=2),
            ],
            title=f"About {id}",
            label="sea" if id in ("tides", "marsh") else "land",
            metadata={"year": years[id], "tags": [id, "all"], "deep": {"a": 1}},
        )
        for id, text in TEXTS.items()
    ]


@pytest.fixture(scope="session")
def encoder(tiny_encoder: Encoders) -> DocumentEncoder:
    """A tiny encoder whose graph is computed, so that shares and nodes are not trivial; with titles, as ``mini``."""
    made = tiny_encoder(
        "roberta", graph_layers=2, readout="document_node", similarity="cosine", sentence_context="title"
    )
    made.source = None
    return made


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A place for an index."""
    return str(tmp_path / "index")


@pytest.fixture
def index(place: str, encoder: DocumentEncoder, documents: Documents) -> DocumentIndex:
    """An index of the four documents, to be changed."""
    made = DocumentIndex.create(place, encoder)
    made.update(documents)
    return made


@pytest.fixture(scope="session")
def read_index(tmp_path_factory: Folders, encoder: DocumentEncoder, documents: Documents) -> DocumentIndex:
    """The same, after maintenance, to be read alone."""
    made = DocumentIndex.create(tmp_path_factory.mktemp("indexes") / "index", encoder)
    made.update(documents, maintain=True)
    return made
