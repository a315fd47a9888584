"""graphdoc serve: an index over HTTP."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from .options import IndexModel
from .printing import console, print_lines


def serve(
    index: str,
    /,
    *,
    host: str = "127.0.0.1",
    port: Annotated[int, Parameter(validator=Number(gte=1, lte=65_535))] = 8765,
    name: tuple[str, ...] = (),
    model: IndexModel = IndexModel(),
) -> None:
    """Serve an index over HTTP until interrupted.

    The page is at http://127.0.0.1:8765/, JSON at /search?q=..., tools for agents (MCP) at /mcp, and a description of
    all at /openapi.json. What is served can be read by everybody who reaches the address; without --host that is this
    machine alone. The server reads the index and no other file; queries and numbers of hits are limited.

    Usage examples:
      graphdoc serve papers.index
      graphdoc serve papers.index --port 9000
      curl 'http://127.0.0.1:8765/search?q=tides&k=3'

    Args:
        index: an index that graphdoc index has written
        host: address to listen at; 127.0.0.1 is this machine
        port: port to listen at
        name: a name by which browsers reach it; may be repeated
    """
    from ..serving.application import LOOPBACK, search_application
    from ..serving.application import serve as run_server
    from ..serving.service import SearchService

    opened = model.open_index(index)
    hosts = dict.fromkeys((*LOOPBACK, *((host,) if host != "0.0.0.0" else ()), *name))
    application = search_application(SearchService(opened), hosts=tuple(hosts))
    # Loaded before the first request has to wait for it.
    encoder = opened.encoder
    state = opened.state()

    def announce(address: str) -> None:
        serving = f"serving {state.documents:,} documents of {opened.place} with {encoder.name} at {address}"
        print_lines(console(), [f"{serving} (Ctrl-C ends it)"])
        # Whoever started it through a pipe waits for this line.
        sys.stdout.flush()

    run_server(application, host, port, announce)
