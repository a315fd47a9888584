"""graphdoc serve: an index over HTTP."""

from __future__ import annotations

import argparse
import sys

from .arguments import add_model_arguments
from .index import open_index
from .summaries import print_lines
from .tables import console

HELP = "serve an index: a page to search with, JSON, and tools for agents"
DESCRIPTION = """Serve an index over HTTP until interrupted.

The page is at http://127.0.0.1:8765/, JSON at /search?q=..., tools for agents (MCP) at /mcp, and a description of all
at /openapi.json. What is served can be read by everybody who reaches the address; without --host that is this machine
alone. The server reads the index and no other file; queries and numbers of hits are limited."""
EPILOG = """examples:
  graphdoc serve papers.index
  graphdoc serve papers.index --port 9000
  curl 'http://127.0.0.1:8765/search?q=tides&k=3'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("index", metavar="INDEX", help="an index that graphdoc index has written")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: 127.0.0.1, this machine)")
    parser.add_argument("--port", type=port, default=8765, metavar="PORT", help="port to listen at (default: 8765)")
    parser.add_argument(
        "--name",
        action="append",
        default=[],
        metavar="HOST",
        help="a name by which browsers reach it; may be repeated",
    )
    add_model_arguments(parser)
    parser.set_defaults(model=None)


def run(options: argparse.Namespace) -> None:
    """Open the index, and serve it."""
    from ..serving.application import LOOPBACK, search_application, serve
    from ..serving.service import SearchService

    index = open_index(options, options.index)
    names = dict.fromkeys((*LOOPBACK, *((options.host,) if options.host != "0.0.0.0" else ()), *options.name))
    application = search_application(SearchService(index), hosts=tuple(names))
    # Loaded before the first request has to wait for it.
    encoder = index.encoder
    state = index.state()

    def announce(address: str) -> None:
        serving = f"serving {state.documents:,} documents of {index.place} with {encoder.name} at {address}"
        print_lines(console(), [f"{serving} (Ctrl-C ends it)"])
        # Whoever started it through a pipe waits for this line.
        sys.stdout.flush()

    serve(application, options.host, options.port, announce)


def port(value: str) -> int:
    """A number of a port."""
    number = int(value) if value.isascii() and value.isdigit() and len(value) < 6 else 0
    if not 1 <= number <= 65_535:
        raise argparse.ArgumentTypeError(f"{value!r} is no port; give a number from 1 to 65535")
    return number
