"""What is served: searches, documents and comparisons, within limits, also as tools for agents (MCP)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..analysis.report.page import render_report
from ..errors import GraphdocError, SettingsError
from ..retrieval.index import DocumentIndex
from ..retrieval.results import SearchResults
from ..version import __version__

# The most that a request may ask for: characters of query and filter, hits, their passages, documents of a pool.
REQUEST_LIMITS = {"query": 10_000, "where": 1_000, "top_k": 100, "passages": 10, "pool": 1_000}


class SearchService:
    """Searches an index for others; it reads the index and nothing else."""

    def __init__(self, index: DocumentIndex) -> None:
        self.index = index

    def search(
        self,
        query: str | None = None,
        *,
        document: str | None = None,
        top_k: int = 10,
        by: str = "hybrid",
        where: str | None = None,
        passages: int = 3,
        weight: float | None = None,
        pool: int | None = None,
    ) -> SearchResults:
        """Find documents by a text, or by the id of a document of the index (:meth:`DocumentIndex.search`).

        Raises:
            SettingsError: both or neither are given, or one exceeds what may be asked for.
            RetrievalError: the index does not have the document.
        """
        if (query is None) == (document is None):
            raise SettingsError("give either a query or the id of a document")
        sizes = len(query or ""), len(where or ""), top_k, passages, pool or 0
        for (name, most), size in zip(REQUEST_LIMITS.items(), sizes, strict=True):
            if size > most:
                raise SettingsError(f"{name}={size} is too much; at most {most:,} are served")
        source = self.index.document(document) if document is not None else query or ""
        options: dict[str, Any] = {"by": by, "where": where or None, "weight": weight}
        return self.index.search(source, top_k, **options, passages=passages, pool=pool)

    def document(self, id: str) -> dict[str, Any]:
        """A document of the index as JSON has it; NaN and infinity are null there."""
        content = json.dumps(self.index.document(id).to_dict(), default=str)
        return dict(json.loads(content, parse_constant=lambda _: None))

    def comparison(self, a: str, b: str) -> str:
        """The page that compares two documents of the index; RetrievalError if it does not have one of them."""
        first, second = (self.index.encoded(id, sentences=self.index.paragraph is not None) for id in (a, b))
        return render_report(self.index.encoder.compare(first, second).to_dict())


def tool_server(service: SearchService) -> Any:
    """A server of tools that search the index and read its documents (of the library ``mcp``)."""
    from mcp.server import MCPServer

    about = "Search an index of long documents by words and by meaning, and read what was found."
    server = MCPServer("graphdoc", instructions=about, version=__version__, log_level="WARNING")

    @server.tool()
    def search_documents(query: str, top_k: int = 10, by: str = "hybrid", where: str | None = None) -> dict[str, Any]:
        """Find documents for a query; each hit has its best passages, and the parts of its score.

        Args:
            query: words or a question.
            top_k: how many documents.
            by: hybrid, words (BM25) or vectors (meaning).
            where: a filter by fields of documents, such as: year >= 2010 AND label = 'sea'.
        """
        with _mistakes_for_the_agent():
            return service.search(query, top_k=top_k, by=by, where=where).to_dict()

    @server.tool()
    def similar_documents(id: str, top_k: int = 10, where: str | None = None, by: str = "hybrid") -> dict[str, Any]:
        """Find documents that resemble a document of the index.

        Args:
            id: id of the document.
            top_k: how many documents.
            where: a filter by fields of documents.
            by: hybrid, words, vectors; or sentences, which says which sentences are alike, where the index keeps them.
        """
        with _mistakes_for_the_agent():
            return service.search(document=id, top_k=top_k, where=where, by=by).to_dict()

    @server.tool()
    def read_document(id: str) -> dict[str, Any]:
        """Read a document of the index: title, sections with headings and texts, metadata.

        Args:
            id: id of the document.
        """
        with _mistakes_for_the_agent():
            return service.document(id)

    return server


@contextmanager
def _mistakes_for_the_agent() -> Iterator[None]:
    """Pass on mistakes that the agent can mend; the library keeps other errors to itself."""
    from mcp.server.mcpserver.exceptions import ToolError

    try:
        yield
    except GraphdocError as error:
        raise ToolError(str(error)) from error
