"""graphdoc graph: the graph that a document becomes."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any

from ..graphs.kinds import EdgeKind, NodeKind
from ..registry import GRAPH_KINDS, load
from ..runtime.files import write_csv
from ..runtime.text import counted
from .arguments import add_model_arguments, add_reading_arguments, load_encoder, positive
from .outputs import Outputs, write_json
from .sources import read_one
from .summaries import coverage_line, indented, print_lines
from .tables import Table, names

HELP = "show the graph of passages that a document becomes"
DESCRIPTION = "Show how a document is cut into passages and how these are connected.\n\nGraph kinds:\n" + "\n".join(
    f"  {name:<{max(map(len, GRAPH_KINDS)) + 1}} {load(target).description}" for name, target in GRAPH_KINDS.items()
)
EPILOG = """examples:
  graphdoc graph a.md                                 sections, passages and edges by kind
  graphdoc graph a.md --kind section --plot graph.png
  graphdoc graph a.md --kind hierarchical --json graph.json
"""

OUTPUTS = Outputs(
    json=("graph.json", "write nodes and edges as JSON (- for standard output)"),
    csv=("edges.csv", "write the edges: source, target, edge_kind"),
    plot=("graph.png", "draw the adjacency matrix (.png, .svg, .pdf)"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("document", metavar="DOCUMENT", help="a file, - or corpus.jsonl#ID")
    parser.add_argument("--kind", choices=GRAPH_KINDS, help="graph kind (default: the model's)")
    parser.add_argument(
        "--window", type=positive, metavar="N", help="reach of the window kind (default: the model's, 2)"
    )
    OUTPUTS.add_to(parser)
    add_model_arguments(parser)
    add_reading_arguments(parser, labels=False, on_error=False)


def run(options: argparse.Namespace) -> None:
    """Build, print and write."""
    OUTPUTS.prepare(options, [options.document])
    document = read_one(options.document, options)
    settings = {"graph_kind": options.kind, "graph_settings": options.window and {"window": options.window}}
    encoder = load_encoder(options, **{key: value for key, value in settings.items() if value is not None})
    kind = encoder.model.config.graph_kind
    segmented, graph = encoder.segment(document), encoder.graph(document)
    edge_kinds = [EdgeKind(edge).label for edge in graph.edge_kind.tolist()]
    edges = dict(zip(("source", "target"), graph.edge_index.tolist(), strict=True)) | {"edge_kind": edge_kinds}

    def content() -> dict[str, Any]:
        texts = iter(segmented.passages)
        nodes = [
            {
                "node": number,
                "kind": NodeKind(node_kind).name.lower(),
                "heading": document.sections[section].heading if section >= 0 else "",
                "text": segmented.text(next(texts)) if node_kind == NodeKind.PASSAGE else "",
            }
            for number, (node_kind, section) in enumerate(
                zip(graph.node_kind.tolist(), graph.section_of.tolist(), strict=True)
            )
        ]
        about = {"format": "graphdoc.graph/1", "kind": kind, "id": document.id, "title": document.title}
        return {**about, "nodes": nodes, "edges": edges, "coverage": segmented.coverage.to_dict()}

    def plot(path: str) -> None:
        from ..analysis.figures.graph import plot_graph

        plot_graph(graph, f"{document.title or document.id} ({kind} graph)", path)

    target = OUTPUTS.write(
        options,
        json=lambda path: write_json(path, content()),
        csv=lambda path: write_csv(path, list(edges), zip(*edges.values(), strict=True)),
        plot=plot,
    )
    if target is None:
        return
    title = document.title or document.id
    print_lines(
        target, [title, f"{kind} graph: {counted(graph.num_nodes, 'node')}, {counted(len(edge_kinds), 'edge')}"]
    )
    target.print()
    sections = Table([names("section", 70), "passages", "words", "tokens"])
    passages: Counter[int] = Counter()
    tokens: Counter[int] = Counter()
    for passage in segmented.passages:
        passages[passage.section] += 1
        tokens[passage.section] += passage.tokens
    for number, section in enumerate(document.sections):
        sections.add(indented(document, number), passages[number], len(section.text.split()), tokens[number])
    sections.print(target, "section")
    target.print()
    Table([names("edge kind"), "edges"], Counter(edge_kinds).most_common()).print(target)
    target.print()
    target.print(coverage_line(document.id, segmented.coverage))
    OUTPUTS.report(options, target)
