"""graphdoc graph: the graph that a document becomes."""

from __future__ import annotations

import argparse
from collections import Counter

from ..graphs.elements import EdgeKind, NodeKind
from ..registry import GRAPH_KINDS, load
from ..runtime.wording import counted
from .arguments import (
    add_model_arguments,
    add_reading_arguments,
    check_image,
    fill_outputs,
    load_encoder,
    positive,
    read_one,
    write_json,
)
from .summaries import MOST_ROWS, console, coverage_line, indented, more_rows, plain, table, written

NAME = "graph"
HELP = "show the graph of passages that a document becomes"
DESCRIPTION = "Show how a document is cut into passages and how these are connected.\n\nGraph kinds:\n" + "\n".join(
    f"  {name:<13} {load(target).description}" for name, target in GRAPH_KINDS.items()
)
EPILOG = """examples:
  graphdoc graph a.md                                 sections, passages and edges by kind
  graphdoc graph a.md --kind section --plot graph.png
  graphdoc graph a.md --kind hierarchical --json graph.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("document", metavar="DOCUMENT", help="a file, - or corpus.jsonl#ID")
    parser.add_argument("--kind", choices=GRAPH_KINDS, help="graph kind (default: the model's)")
    parser.add_argument(
        "--window", type=positive, metavar="N", help="reach of the window kind (default: the model's, 2)"
    )
    output = parser.add_argument_group("output")
    output.add_argument("--json", metavar="FILE", help="write nodes and edges as JSON (- for standard output)")
    output.add_argument("--csv", metavar="FILE", help="write the edges: source, target, edge_kind")
    output.add_argument("--plot", metavar="FILE", help="draw the adjacency matrix (.png, .svg, .pdf)")
    output.add_argument("--output", metavar="FOLDER", help="write graph.json, edges.csv and graph.png there")
    add_model_arguments(parser)
    add_reading_arguments(parser, on_error=False)


def run(options: argparse.Namespace) -> None:
    """Build, print and write."""
    fill_outputs(options, options.document, json="graph.json", csv="edges.csv", plot="graph.png")
    check_image(options.plot)
    document = read_one(options.document, options)
    settings = {"graph_kind": options.kind, "window": options.window}
    encoder = load_encoder(options, **{key: value for key, value in settings.items() if value is not None})
    segmented, graph = encoder.segment(document), encoder.graph(document)
    kind = encoder.model.config.graph_kind
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
    source, target_nodes = graph.edge_index.tolist()
    edges = {
        "source": source,
        "target": target_nodes,
        "edge_kind": [EdgeKind(edge).label for edge in graph.edge_kind.tolist()],
    }
    if options.json:
        content = {"format": "graphdoc.graph/1", "kind": kind, "id": document.id, "title": document.title}
        write_json(options.json, {**content, "nodes": nodes, "edges": edges, "coverage": segmented.coverage.to_dict()})
    if options.csv:
        import pandas as pd

        from ..runtime.files import write_text

        write_text(options.csv, pd.DataFrame(edges).to_csv(index=False, lineterminator="\n"))
    if options.plot:
        from ..analysis.figures.graph import plot_graph

        plot_graph(graph, f"{document.title or document.id} ({kind} graph)", options.plot)
    if options.json == "-":
        return
    target = console()
    target.print(plain(document.title or document.id))
    target.print(f"{kind} graph: {counted(graph.num_nodes, 'node')}, {counted(graph.edge_index.shape[1], 'edge')}\n")
    rows = table(("section", "left"), ("passages", "right"), ("words", "right"), ("tokens", "right"))
    passages: Counter[int] = Counter()
    tokens: Counter[int] = Counter()
    for passage in segmented.passages:
        passages[passage.section] += 1
        tokens[passage.section] += passage.tokens
    for number, section in enumerate(document.sections[:MOST_ROWS]):
        rows.add_row(
            plain(indented(document, number), 70),
            str(passages[number]),
            f"{len(section.text.split()):,}",
            f"{tokens[number]:,}",
        )
    target.print(rows)
    more_rows(target, MOST_ROWS, len(document.sections), "section")
    target.print()
    counts = table(("edge kind", "left"), ("edges", "right"))
    for label, count in Counter(edges["edge_kind"]).most_common():
        counts.add_row(plain(str(label)), f"{count:,}")
    target.print(counts)
    target.print()
    target.print(coverage_line(document.id, segmented.coverage))
    written(target, (options.json, options.csv, options.plot))
