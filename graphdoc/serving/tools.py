"""The index as tools for agents, by the Model Context Protocol."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import GraphdocError
from .service import SearchService


def tool_server(service: SearchService) -> Any:
    """A server of tools that search the index and read its documents (of the library ``mcp``).

    Args:
        service: what is served.
    """
    from mcp.server import MCPServer

    from ..version import __version__

    server = MCPServer(
        "graphdoc",
        instructions="Search an index of long documents by words and by meaning, and read what was found.",
        version=__version__,
        log_level="WARNING",
    )

    few = min(10, service.limits.documents)

    @server.tool()
    def search_documents(query: str, k: int = few, by: str = "hybrid", where: str | None = None) -> dict[str, Any]:
        """Find documents for a query; each hit has its best passages, and the parts of its score.

        Args:
            query: words or a question.
            k: how many documents.
            by: hybrid, words (BM25) or vectors (meaning).
            where: a filter by fields of documents, such as: year >= 2010 AND label = 'sea'.
        """
        with _said_to_the_agent():
            return service.search(query, k=k, by=by, where=where).to_dict()

    @server.tool()
    def similar_documents(id: str, k: int = few, where: str | None = None, by: str = "hybrid") -> dict[str, Any]:
        """Find documents that resemble a document of the index.

        Args:
            id: id of the document.
            k: how many documents.
            where: a filter by fields of documents.
            by: hybrid, words, vectors; or sentences, which says which sentences are alike, where the index keeps them.
        """
        with _said_to_the_agent():
            return service.search(document=id, k=k, where=where, by=by).to_dict()

    @server.tool()
    def read_document(id: str) -> dict[str, Any]:
        """Read a document of the index: title, sections with headings and texts, metadata.

        Args:
            id: id of the document.
        """
        with _said_to_the_agent():
            return service.document(id)

    return server


@contextmanager
def _said_to_the_agent() -> Iterator[None]:
    """Pass on mistakes that the agent can mend; the library keeps other errors to itself."""
    from mcp.server.mcpserver.exceptions import ToolError

    try:
        yield
    except GraphdocError as error:
        raise ToolError(str(error)) from error
