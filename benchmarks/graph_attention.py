"""When is masked dense graph attention faster than the sparse form, that of PyG's ``GATConv``?

Two layers of graph attention, 512 wide with 2 heads, on batches of documents of one size; dense and sparse take turns
and medians are compared (on a CPU those of the processor time of one thread, which other programs disturb least). The
share of empty cells decides: the dense form computes every cell of a document's adjacency, the sparse one only its
edges. The crossover in cells per edge is where ``DENSE_CELLS_PER_EDGE`` comes from.

    python benchmarks/graph_attention.py [--repeats 9] [--device cpu]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from reporting import alternate, describe_machine, write_result

from graphdoc.graphs.batch import GraphBatch
from graphdoc.graphs.joined_graphs import graph_of_sections
from graphdoc.graphs.layout import DENSE_CELLS_PER_EDGE, Form
from graphdoc.modeling.graph_attention import GraphAttentionStack

HIDDEN, LAYERS, HEADS, WINDOW = 512, 2, 2, 2
PASSAGES_OF_A_SECTION = 5
# Batches have about this many nodes, as in encoding and training.
NODES_OF_A_BATCH = 1000
CASES = [
    *(("full", passages) for passages in (10, 25, 50, 100)),
    *(("section", passages) for passages in (10, 25, 50, 100, 300)),
    *(("window", passages) for passages in (50, 100, 150, 200, 300, 400, 500, 700, 1000, 1500, 3000)),
]
PASSES = ("forward", "forward and backward")


@dataclass(frozen=True)
class Measurement:
    """Medians in seconds of both forms on one kind of batch, by pass."""

    kind: str
    passages: int
    documents: int
    cells_per_edge: float
    dense: dict[str, float]
    sparse: dict[str, float]

    def ratio(self, kind_of_pass: str) -> float:
        """How many times as long the sparse form takes."""
        return self.sparse[kind_of_pass] / self.dense[kind_of_pass]


def measure(kind: str, passages: int, stack: GraphAttentionStack, device: str, repeats: int) -> Measurement:
    """Time both forms on a batch of equal documents."""
    sections = [passage // PASSAGES_OF_A_SECTION for passage in range(passages)]
    graph = graph_of_sections(sections, kind, window=WINDOW)
    documents = max(1, round(NODES_OF_A_BATCH / graph.num_nodes))
    whole = GraphBatch.from_graphs([graph] * documents)
    batches: dict[Form, GraphBatch] = {form: whole.with_plan(form).to(device) for form in ("dense", "sparse")}
    nodes = torch.randn(len(whole.node_kind), HIDDEN, device=device)

    def forward(form: Form) -> Callable[[], object]:
        def run() -> None:
            with torch.no_grad():
                stack(nodes, batches[form])

        return run

    def backward(form: Form) -> Callable[[], object]:
        def run() -> None:
            inputs = nodes.clone().requires_grad_()
            stack(inputs, batches[form])[0].sum().backward()
            stack.zero_grad()

        return run

    seconds = alternate(
        {
            "dense forward": forward("dense"),
            "sparse forward": forward("sparse"),
            "dense forward and backward": backward("dense"),
            "sparse forward and backward": backward("sparse"),
        },
        repeats,
        clock=time.process_time if device == "cpu" else time.perf_counter,
    )
    medians = {name: float(np.median(values)) for name, values in seconds.items()}
    return Measurement(
        kind,
        passages,
        documents,
        graph.num_nodes**2 / graph.edge_index.shape[1],
        {name: medians[f"dense {name}"] for name in PASSES},
        {name: medians[f"sparse {name}"] for name in PASSES},
    )


def crossover(measurements: list[Measurement], kind_of_pass: str) -> float:
    """Cells per edge at which both forms cost the same, from a line through the logarithms of the sparser graphs."""
    points = [(m.cells_per_edge, m.ratio(kind_of_pass)) for m in measurements if m.cells_per_edge > 10]
    slope, offset = np.polyfit(np.log([cells for cells, _ in points]), np.log([ratio for _, ratio in points]), 1)
    return float(np.exp(-offset / slope))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    stack = GraphAttentionStack(HIDDEN, LAYERS, HEADS).to(options.device)
    measurements = [measure(kind, passages, stack, options.device, options.repeats) for kind, passages in CASES]
    crossovers = {name: crossover(measurements, name) for name in PASSES}
    lines = [
        "# Dense against sparse graph attention",
        "",
        f"`python benchmarks/graph_attention.py --repeats {options.repeats} --device {options.device}`",
        "",
        describe_machine(),
        "",
        f"{LAYERS} layers, {HIDDEN} wide, {HEADS} heads; sections of {PASSAGES_OF_A_SECTION} passages, window "
        f"{WINDOW}; batches of about {NODES_OF_A_BATCH:,} nodes. Milliseconds are medians of {options.repeats} runs "
        "in turn (on a CPU of the processor time of one thread); the ratio is sparse to dense, above 1 where dense is "
        "faster.",
        "",
        "| graph | passages | documents | cells per edge | dense forward | sparse forward | ratio "
        "| dense with backward | sparse with backward | ratio |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for m in measurements:
        figures = " | ".join(
            f"{1e3 * m.dense[name]:.1f} | {1e3 * m.sparse[name]:.1f} | {m.ratio(name):.2f}" for name in PASSES
        )
        lines.append(f"| {m.kind} | {m.passages} | {m.documents} | {m.cells_per_edge:.1f} | {figures} |")
    lines += [
        "",
        "Both forms cost the same at "
        + " and ".join(f"{value:.0f} cells per edge ({name})" for name, value in crossovers.items())
        + f"; `DENSE_CELLS_PER_EDGE` is {DENSE_CELLS_PER_EDGE}.",
        "",
    ]
    print("\n".join(lines))
    kind = torch.device(options.device).type
    write_result("graph_attention" if kind == "cpu" else f"graph_attention_{kind}", "\n".join(lines))


if __name__ == "__main__":
    main()
