"""graphdoc attention: which node of a document attends to which."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from rich.console import Console

from ..errors import OutputError
from ..graphs.kinds import NodeKind
from ..runtime.text import counted
from .arguments import add_model_arguments, add_reading_arguments, load_encoder, positive
from .outputs import Outputs, write_json
from .sources import read_one
from .summaries import coverage_line, indented, print_lines, print_passage
from .tables import MOST_ROWS, Table, more_rows, names

if TYPE_CHECKING:
    from ..analysis.attention import AttentionTable

HELP = "show which passages the graph of a document looks at"
DESCRIPTION = """Show the graph attention of a document: what every node attends to, in every layer and head.

Prints the weights of the document node by section and the passages with the highest weights. Node 0 is the document
node, passages follow in reading order; the weights of one target sum to 1 in every layer and head."""
EPILOG = """examples:
  graphdoc attention a.md --plot attention.png        the figures of the paper for your document
  graphdoc attention a.md --csv attention.csv         layer, head, source, target, edge_kind, weight
  graphdoc attention a.md --model my-model --layer 0 --head 1 --plot head.svg
"""

OUTPUTS = Outputs(
    csv=("attention.csv", "write the table: layer, head, source, target, edge_kind, weight"),
    json=("attention.json", "write nodes and weights as JSON (- for standard output)"),
    plot=("attention.png", "draw weights by node and node by node (.png, .svg, .pdf)"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("document", metavar="DOCUMENT", help="a file, - or corpus.jsonl#ID")
    parser.add_argument("--layer", type=int, default=-1, help="layer to draw, counted from 0 (default: the last)")
    parser.add_argument("--head", type=int, help="head to draw, counted from 0 (default: the mean over heads)")
    parser.add_argument("--top", type=positive, default=5, metavar="N", help="passages to print (default: 5)")
    output = OUTPUTS.add_to(parser)
    output.add_argument("--texts", action="store_true", help="with --csv: also headings and texts of both nodes")
    add_model_arguments(parser)
    add_reading_arguments(parser, labels=False, on_error=False)


def run(options: argparse.Namespace) -> None:
    """Compute, print and write."""
    OUTPUTS.prepare(options, [options.document])
    if options.texts and not options.csv:
        raise OutputError("--texts adds columns to --csv FILE, which is not given")
    document = read_one(options.document, options)
    encoder = load_encoder(options)
    attention = encoder.attention(document)
    weights = attention.document_weights(None if options.layer == -1 else options.layer, options.head)
    target = OUTPUTS.write(
        options,
        csv=lambda path: attention.to_csv(path, texts=options.texts),
        json=lambda path: write_json(path, attention.to_dict()),
        plot=lambda path: attention.plot(path, layer=options.layer, head=options.head),
    )
    if target is not None:
        _print(target, attention, weights, options, forms_vector=not encoder.model.readout.reads_initial_nodes)
        OUTPUTS.report(options, target)


def _print(
    target: Console,
    attention: AttentionTable,
    weights: npt.NDArray[np.float64],
    options: argparse.Namespace,
    *,
    forms_vector: bool,
) -> None:
    document = attention.segmented.document
    layer = attention.document_layer(None if options.layer == -1 else options.layer, options.head)
    heads = "mean over heads" if options.head is None else f"head {options.head}"
    if layer == attention.readout_layer and attention.is_chunkwise:
        shown = f"chunkwise attention, mean over passages, {heads}"
    elif layer == attention.readout_layer:
        shown = f"the {attention.model['readout']} readout"
    else:
        shown = f"the document node in layer {layer}, {heads}"
    count = counted(len(attention), "weight")
    print_lines(
        target, [document.title or document.id, f"model {attention.model['name']}, {count}; below those of {shown}"]
    )
    is_passage = attention.node_kind == NodeKind.PASSAGE
    numbers = list(dict.fromkeys(attention.section_of[is_passage].tolist()))
    rows = Table([names("section", 70), "passages", "weight"])
    for number in numbers[:MOST_ROWS]:
        members = attention.section_of == number
        rows.add(indented(document, number), int((members & is_passage).sum()), float(weights[members].sum()))
    if weights[0] > 0:
        rows.add("(the document node itself)", "", float(weights[0]))
    target.print()
    rows.print(target)
    more_rows(target, len(numbers), "section")
    passages = [node for node in weights.argsort(kind="stable")[::-1].tolist() if is_passage[node]]
    is_even = is_passage.sum() > 1 and float(np.ptp(weights[is_passage])) < 1e-7
    if layer == attention.readout_layer and not attention.is_chunkwise and is_even:
        target.print(f"\nevery passage has the same weight: the document vector is {attention.document_vector}")
    elif not weights[is_passage].any():
        target.print("\nit looks at no passage itself, only at sections, as their nodes stand between in this graph")
    else:
        target.print("\n[bold]passages with the highest weights[/bold]")
        for node in passages[: options.top]:
            name = document.section_name(attention.section_of[node])
            print_passage(target, f"{weights[node]:.3f}  node {node}  {name}: {attention.texts[node]}")
    if not forms_vector:
        target.print(f"\nthis model's document vector is {attention.document_vector}, whatever it looks at")
    target.print()
    target.print(coverage_line(document.id, attention.segmented.coverage))
