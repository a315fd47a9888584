"""graphdoc attention: which node of a document attends to which, and the graph that a document becomes."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from ..graphs.kinds import EdgeKind, NodeKind
from ..registry import GRAPH_KINDS
from ..runtime.text import counted
from .options import COUNT, File, Json, MeasuredModel
from .output import Outputs, Table, Terminal, indented, names, write_json
from .sources import OneDocument

if TYPE_CHECKING:
    ShownGraph = str

    from ..analysis.attention import AttentionTable
    from ..documents.document import Document
    from ..encoder import DocumentEncoder
else:
    ShownGraph = Literal[(*GRAPH_KINDS, "model")]


def attention(
    document: str,
    /,
    *,
    graph: ShownGraph | None = None,
    layer: int = -1,
    head: int | None = None,
    top_k: Annotated[int, COUNT] = 5,
    json: Json = None,
    csv: File = None,
    plot: File = None,
    model: MeasuredModel = MeasuredModel(),
    reading: OneDocument = OneDocument(),
) -> None:
    """Show the graph attention of a document: what every node attends to, in every layer and head.

    Prints the weights of the document node by section and the passages with the highest weights. Node 0 is the
    document node, passages follow in reading order; the weights of one target sum to 1 in every layer and head. With
    --graph a graph itself is shown: how the document is cut into passages and how these are connected. For a model
    without a graph, such as mini, the weights are what each passage adds to the document vector.

    Usage examples:
      graphdoc attention a.md --plot attention.png        the figures of the paper for your document
      graphdoc attention a.md --csv attention.csv         layer, head, source, target, edge_kind, weight
      graphdoc attention a.md --graph section --plot graph.png

    Args:
        document: a file, - or corpus.jsonl#ID
        graph: show the graph of this kind, or that of the model, and no attention
        layer: layer to draw, counted from 0; -1 is the last
        head: head to draw, counted from 0 (default: the mean over heads)
        top_k: passages to print
        csv: write the weights, or the edges of the graph, as a table
        plot: draw weights by node and node by node, or the adjacency matrix (.png, .svg, .pdf)
    """
    outputs = Outputs([document], json=json, csv=csv, plot=plot)
    content = reading.document(document)
    encoder = model.load()
    if graph not in (None, "model", (config := encoder.model.config).graph_kind):
        config.graph_kind, config.graph_settings = str(graph), None
    if graph is not None:
        _show_graph(outputs, encoder, content)
        return
    table = encoder.attention(content)
    draw = partial(table.plot, layer=layer, head=head)
    target = outputs.write(json=lambda path: write_json(path, table.to_dict()), csv=table.to_csv, plot=draw)
    _print(target, table, None if layer == -1 else layer, head, top_k)
    if encoder.model.readout.reads_initial_nodes:
        target.print(f"\nthis model's document vector is {table.document_vector}, whatever it looks at")
    target.print()
    target.coverage(content.id, table.segmented.coverage)
    outputs.report(target)


def _print(target: Terminal, attention: AttentionTable, layer: int | None, head: int | None, top_k: int) -> None:
    document = attention.segmented.document
    weights = attention.document_weights(layer, head)
    layer = attention.document_layer(layer, head)
    heads = "mean over heads" if head is None else f"head {head}"
    if attention.has_contributions:
        shown = "what each passage adds to the document vector, as this model has no graph"
    elif layer == attention.readout_layer and attention.is_chunkwise:
        shown = f"chunkwise attention, mean over passages, {heads}"
    elif layer == attention.readout_layer:
        shown = f"the {attention.model['readout']} readout"
    else:
        shown = f"the document node in layer {layer}, {heads}"
    weight_count = counted(len(attention), "weight")
    target.lines([document.title or document.id, f"model {attention.model['name']}, {weight_count}; shown: {shown}"])
    is_passage = attention.node_kind == NodeKind.PASSAGE
    rows = Table([names("section", 70), "passages", "weight"])
    if weights[0] > 0:
        rows.add("(the document node itself)", "", float(weights[0]))
    for number in dict.fromkeys(attention.section_of[is_passage].tolist()):
        members = attention.section_of == number
        rows.add(indented(document, number), int((members & is_passage).sum()), float(weights[members].sum()))
    target.print()
    rows.print(target, "section")
    if not weights[is_passage].any():
        target.print("\nit looks at no passage itself, only at sections, as their nodes stand between in this graph")
        return
    target.print("\n[bold]passages with the highest weights[/bold]")
    for node in [node for node in weights.argsort(kind="stable")[::-1].tolist() if is_passage[node]][:top_k]:
        name = document.section_name(attention.section_of[node])
        target.passage(f"{weights[node]:.3f}  node {node}  {name}: {attention.texts[node]}")


def _show_graph(outputs: Outputs, encoder: DocumentEncoder, document: Document) -> None:
    kind = encoder.model.config.graph_kind
    segmented, graph = encoder.segment(document), encoder.graph(document)
    edge_kinds = [EdgeKind(edge).label for edge in graph.edge_kind.tolist()]
    source, target_node = graph.edge_index.tolist()
    edges = {"source": source, "target": target_node, "edge_kind": edge_kinds}
    title = document.title or document.id
    texts = map(segmented.text, segmented.passages)
    nodes = [
        {
            "node": number,
            "kind": NodeKind(node_kind).name.lower(),
            "heading": document.sections[section].heading if section >= 0 else "",
            "text": next(texts) if node_kind == NodeKind.PASSAGE else "",
        }
        for number, (node_kind, section) in enumerate(
            zip(graph.node_kind.tolist(), graph.section_of.tolist(), strict=True)
        )
    ]
    content = {"format": "graphdoc.graph/1", "kind": kind, "id": document.id, "title": document.title}
    content |= {"nodes": nodes, "edges": edges, "coverage": segmented.coverage.to_dict()}

    def draw(path: str) -> None:
        from ..analysis.figures.attention import plot_graph

        plot_graph(graph, f"{title} ({kind} graph)", path)

    write_csv = Table(list(edges), zip(*edges.values(), strict=True)).write_csv
    target = outputs.write(json=lambda path: write_json(path, content), csv=write_csv, plot=draw)
    target.lines([title, f"{kind} graph: {counted(graph.num_nodes, 'node')}, {counted(len(edge_kinds), 'edge')}"])
    target.print()
    sections = Table([names("section", 70), "passages", "words", "tokens"])
    for number, section in enumerate(document.sections):
        tokens = [passage.tokens for passage in segmented.passages if passage.section == number]
        sections.add(indented(document, number), len(tokens), len(section.text.split()), sum(tokens))
    sections.print(target, "section")
    target.print()
    Table([names("edge kind"), "edges"], Counter(edge_kinds).most_common()).print(target)
    target.print()
    target.coverage(document.id, segmented.coverage)
    outputs.report(target)
