"""The index over HTTP: a page to search with, JSON for programs, tools for agents."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from ..analysis.pages.search import search_page
from ..errors import GraphdocError, MissingExtraError, RetrievalError
from ..retrieval.results import SearchResults
from ..version import __version__
from .service import SearchService, tool_server

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def search_application(service: SearchService, *, hosts: Sequence[str] = LOOPBACK) -> Any:
    """An application that serves an index (of the library FastAPI).

    ``/`` is the page, ``/search`` gives JSON, ``/documents/ID`` a document, ``/compare`` the report of two documents,
    ``/mcp`` the tools, ``/openapi.json`` describes all of it. Requests that name another host than those given are
    refused, so that no web page can reach a server on this machine under a name of its own.
    """
    try:
        from fastapi import FastAPI, Query, Request
        from fastapi.middleware.trustedhost import TrustedHostMiddleware
        from fastapi.responses import HTMLResponse, JSONResponse, Response
        from mcp.server.transport_security import TransportSecuritySettings
    except ImportError as error:
        raise MissingExtraError(error.name or "fastapi", "serve", "serve an index") from error

    # It logs a traceback for every client that goes away.
    logging.getLogger("mcp.server.streamable_http").setLevel(logging.CRITICAL)
    tools = tool_server(service)
    ports = [f"{host}:*" for host in hosts]
    agents = tools.streamable_http_app(
        json_response=True,
        stateless_http=True,
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=[*hosts, *ports],
            allowed_origins=[f"http://{host}" for host in (*hosts, *ports)],
        ),
    )

    application = FastAPI(
        title="graphdoc",
        version=__version__,
        description="Search an index of long documents by words, by vectors, or with a document of the index.",
        lifespan=lambda _: tools.session_manager.run(),
        # Their pages load scripts of another host.
        docs_url=None,
        redoc_url=None,
    )
    application.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))

    @application.exception_handler(GraphdocError)
    async def refuse(_: Request, error: GraphdocError) -> JSONResponse:
        status = 404 if isinstance(error, RetrievalError) else 422
        return JSONResponse({"error": str(error)}, status_code=status)

    @application.get("/", response_class=HTMLResponse, response_model=None, include_in_schema=False)
    def page(
        q: str | None = None,
        document: str | None = None,
        by: str = "hybrid",
        where: str | None = None,
        top_k: int = Query(10, ge=1),
    ) -> HTMLResponse:
        text, status, index = (q or "").strip(), 200, service.index.describe()
        results = SearchResults((), {"text": text, "document": document, "title": ""}, by, None, where, top_k, index)
        if text or document is not None:
            try:
                results = service.search(text or None, document=document, by=by, where=where, top_k=top_k)
            except GraphdocError as error:
                results, status = replace(results, warnings=(str(error),)), 422
        # What the form offers depends on what the index keeps.
        content = replace(results, index=index).to_dict(explain=True, excerpt=True)
        if document is not None:
            for hit in content["hits"]:
                hit["comparison"] = f"compare?{urlencode({'a': document, 'b': hit['id']})}"
        return HTMLResponse(search_page(content, form=True), status)

    @application.get("/search")
    def search(
        q: str | None = None,
        document: str | None = None,
        by: str = "hybrid",
        where: str | None = None,
        top_k: int = Query(10, ge=1),
        passages: int = Query(3, ge=0),
        explain: bool = False,
        weight: float | None = None,
        pool: int | None = Query(None, ge=1),
    ) -> dict[str, Any]:
        """Find documents by a text ``q``, or by a ``document`` of the index, also by its sentences."""
        options: dict[str, Any] = {"top_k": top_k, "by": by, "where": where, "weight": weight, "pool": pool}
        return service.search(q, document=document, passages=passages, **options).to_dict(explain=explain)

    @application.get("/documents/{id:path}")
    def document(id: str) -> dict[str, Any]:
        """Give a document of the index."""
        return service.document(id)

    @application.get("/compare", response_class=HTMLResponse, response_model=None)
    def compare(a: str, b: str) -> HTMLResponse:
        """Give the report that compares two documents of the index."""
        return HTMLResponse(service.comparison(a, b))

    application.get("/index")(service.index.describe)
    # Streams to agents would stay open for ever, and nothing is sent in them.
    application.get("/mcp", include_in_schema=False)(lambda: Response(status_code=405, headers={"Allow": "POST"}))
    application.mount("/", agents)
    return application


def serve(application: Any, host: str, port: int, announce: Callable[[str], object]) -> None:
    """Serve an application until interrupted; ``announce`` is called with its address once it answers.

    Raises:
        RetrievalError: the address cannot be listened at.
    """
    try:
        import uvicorn
    except ImportError as error:
        raise MissingExtraError("uvicorn", "serve", "serve an index") from error

    class Server(uvicorn.Server):
        """Says so once it answers."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            announce(f"http://{host}:{listener.getsockname()[1]}/")

    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host.strip("[]"), port), family=family, backlog=2048)
    except (OSError, UnicodeError) as error:
        raise RetrievalError(f"http://{host}:{port} cannot be served ({error}); change --port or --host") from error
    with listener:
        Server(uvicorn.Config(application, log_level="warning", ws="none", timeout_graceful_shutdown=5)).run([listener])
