"""Attention as a table: which node attends to which, in which layer and head, and how much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from ..errors import GraphdocError
from ..graphs.batch import GraphBatch
from ..graphs.kinds import EdgeKind, NodeKind
from ..modeling import DocumentOutput
from ..registry import READOUTS, load
from ..runtime.arrays import Rows
from ..runtime.files import write_atomically
from ..segmentation.spans import SegmentedDocument
from ..similarity.encoded_document import EncodedDocument

if TYPE_CHECKING:
    import pandas as pd

CSV_COLUMNS = ["layer", "head", "source", "target", "edge_kind", "weight", "source_kind", "target_kind"]


@dataclass(frozen=True)
class AttentionTable:
    """Attention weights of one document, one row per layer, head and edge.

    Node 0 is the document node, the passages follow in reading order, then section nodes if the graph has them. One
    more layer has the weights of the readout: of edge kind ``readout``, with the document node as target, or
    ``chunkwise``, whose targets look at passages of the next section. A model without any attention has one layer of
    edge kind ``contribution``: what each passage adds to the document vector. The weights of one target sum to 1.

    ``node_kind`` (:class:`~graphdoc.graphs.kinds.NodeKind`) and ``section_of`` (-1 for the document node) are of
    nodes. All other columns are of rows: in each ``source`` is attended to, and ``target`` attends. ``model`` is what
    the weights come from, for the record.
    """

    segmented: SegmentedDocument
    node_kind: Rows
    section_of: Rows
    layer: Rows
    head: Rows
    source: Rows
    target: Rows
    edge_kind: Rows
    weight: npt.NDArray[np.float32]
    model: Mapping[str, Any]

    @classmethod
    def from_output(
        cls,
        segmented: SegmentedDocument,
        batch: GraphBatch,
        output: DocumentOutput,
        model: Mapping[str, Any],
        *,
        with_readout: bool = True,
    ) -> AttentionTable:
        """Lay out the attention of a model's output for a batch of one document, with or without its readout."""
        assert output.attention is not None
        node_kind = batch.node_kind.cpu().numpy()
        last, passages = len(output.attention), np.flatnonzero(node_kind == NodeKind.PASSAGE)

        def rows_of(layer: int, source: Rows, target: Rows, kind: Any, weights: Tensor) -> tuple[Any, ...]:
            """Layer, head, source, target, edge kind and weight of every edge and head."""
            shares = weights.float().cpu().numpy().reshape(len(source), -1)
            edges, heads = shares.shape
            ends = (np.tile(values, heads) for values in (source, target, np.broadcast_to(kind, edges)))
            return np.full(edges * heads, layer), np.repeat(np.arange(heads), edges), *ends, shares.T.ravel()

        (source, target), kinds = batch.edge_index.cpu().numpy(), batch.edge_kind.cpu().numpy()
        blocks = [rows_of(number, source, target, kinds, weights) for number, weights in enumerate(output.attention)]
        if output.chunk_pairs is not None and output.chunk_attention is not None:
            source, target = passages[output.chunk_pairs.cpu().numpy()]
            blocks.append(rows_of(last, source, target, np.int64(EdgeKind.CHUNKWISE), output.chunk_attention))
        elif output.readout_weights is not None and with_readout:
            zeros = np.zeros_like(passages)
            blocks.append(rows_of(last, passages, zeros, np.int64(EdgeKind.READOUT), output.readout_weights))
        layer, head, source, target, kinds, weight = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        section_of = batch.section_of.cpu().numpy()
        return cls(segmented, node_kind, section_of, layer, head, source, target, kinds, weight, model)

    @classmethod
    def from_contributions(cls, encoded: EncodedDocument) -> AttentionTable:
        """Lay out what each passage adds to the vector of a document, for a model without attention.

        The part of passage i is ``t_i · d / (d · d)``, where the terms ``t_i`` add up to the document vector ``d``.
        """
        count = len(encoded.segmented.passages)
        node_kind = np.array([NodeKind.DOCUMENT] + [NodeKind.PASSAGE] * count, np.int64)
        section_of = np.array([-1, *(passage.section for passage in encoded.segmented.passages)], np.int64)
        vector = encoded.vector.astype(np.float64)
        parts = (encoded.passage_attributions @ vector / (float(vector @ vector) or 1.0)).astype(np.float32)
        zeros, kinds = np.zeros(count, np.int64), np.full(count, EdgeKind.CONTRIBUTION, np.int64)
        passages = np.arange(1, count + 1)
        return cls(encoded.segmented, node_kind, section_of, zeros, zeros, passages, zeros, kinds, parts, encoded.model)

    def __repr__(self) -> str:
        return f"AttentionTable({self.segmented.document.id!r}: {len(self)} weights, layers {self.layers})"

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.weight)

    @property
    def layers(self) -> list[int]:
        """The layers there are, the readout's included."""
        return sorted(set(self.layer.tolist()))

    @property
    def graph_layers(self) -> list[int]:
        """The graph attention layers there are."""
        return [number for number in self.layers if number != self.readout_layer]

    @property
    def document_vector(self) -> str:
        """Description of the document vector, by the readout."""
        return str(load(READOUTS[self.model["readout"]]).description)

    @property
    def readout_layer(self) -> int | None:
        """The layer that stands for the readout, if there is one: weights of passages, or chunkwise attention."""
        rows = np.isin(self.edge_kind, (EdgeKind.READOUT, EdgeKind.CHUNKWISE, EdgeKind.CONTRIBUTION))
        return int(self.layer[rows][0]) if rows.any() else None

    @cached_property
    def texts(self) -> list[str]:
        """Text of every node: the passage, the heading of a section node, the title of the document node."""
        passages = map(self.segmented.text, self.segmented.passages)
        others = [self.segmented.document.title, *self.headings[1:]]
        return [
            next(passages) if kind == NodeKind.PASSAGE else other
            for kind, other in zip(self.node_kind.tolist(), others, strict=True)
        ]

    @cached_property
    def headings(self) -> list[str]:
        """Heading of every node's section, empty for the document node."""
        sections = self.segmented.document.sections
        return [sections[number].heading if number >= 0 else "" for number in self.section_of.tolist()]

    def matrix(self, layer: int = -1, head: int | None = None) -> npt.NDArray[np.float64]:
        """Attention of one layer, ``(targets, sources)``; nodes that are not connected have 0.

        Args:
            layer: number of the layer; -1 for the last graph layer (or the readout where there are no layers).
            head: number of the head; None for the mean over heads.
        """
        rows = self._rows(layer, head)
        heads = len(set(self.head[rows].tolist()))
        result = np.zeros((len(self.node_kind), len(self.node_kind)))
        np.add.at(result, (self.target[rows], self.source[rows]), self.weight[rows] / heads)
        return result

    @property
    def is_chunkwise(self) -> bool:
        """Whether the layer of the readout is chunkwise attention."""
        return bool((self.edge_kind == EdgeKind.CHUNKWISE).any())

    @property
    def has_contributions(self) -> bool:
        """Whether the weights are what passages add to the document vector, as the model has no attention."""
        return bool((self.edge_kind == EdgeKind.CONTRIBUTION).any())

    def layer_number(self, layer: int) -> int:
        """Number of a layer that may be counted from the end; where there are no graph layers, -1 is the readout."""
        numbers = self.graph_layers or self.layers
        return numbers[layer] if -len(numbers) <= layer < 0 else layer

    def document_layer(self, layer: int | None = None, head: int | None = None) -> int:
        """Number of the layer that :meth:`document_weights` takes."""
        if layer is None and head is None and self.readout_layer is not None:
            return self.readout_layer
        return self.layer_number(-1 if layer is None else layer)

    def _rows(self, layer: int, head: int | None) -> npt.NDArray[np.bool_]:
        number = self.layer_number(layer)
        rows = self.layer == number
        heads = sorted(set(self.head[rows].tolist()))
        if not heads:
            raise GraphdocError(f"there is no layer {layer}; this model has the layers {self.layers}")
        if head is not None and head not in heads:
            raise GraphdocError(f"layer {number} has no head {head}; it has the heads {heads}")
        return np.asarray(rows if head is None else rows & (self.head == head))

    def document_weights(self, layer: int | None = None, head: int | None = None) -> npt.NDArray[np.float64]:
        """Attention of the document node by node, ``(nodes,)``, summing to 1 (Graph-RoBERTa, figure 6).

        Args:
            layer: number of the layer; None for the readout, where there is one and no head is named, else for the
                last graph layer. Of chunkwise attention it is the mean over the passages.
            head: number of the head; None for the mean over heads.
        """
        number = self.document_layer(layer, head)
        matrix = self.matrix(number, head)
        if self.is_chunkwise and number == self.readout_layer:
            return np.asarray(matrix[self.node_kind == NodeKind.PASSAGE].mean(axis=0))
        return np.asarray(matrix[0])

    def to_frame(self) -> pd.DataFrame:
        """The table with kinds, headings and texts of source and target; texts are categories and take no room."""
        import pandas as pd

        named = {"kind": self._kinds, "heading": self.headings, "text": self.texts}
        of_nodes = {name: pd.Categorical(values) for name, values in named.items()}
        ends = {"source": self.source, "target": self.target}
        columns: dict[str, Any] = {"layer": self.layer, "head": self.head, **ends}
        columns |= {"edge_kind": pd.Categorical(self._edge_labels), "weight": self.weight}
        columns |= {f"{end}_{name}": values[rows] for name, values in of_nodes.items() for end, rows in ends.items()}
        return pd.DataFrame(columns)

    @property
    def _kinds(self) -> list[str]:
        return [NodeKind(kind).name.lower() for kind in self.node_kind.tolist()]

    @property
    def _edge_labels(self) -> list[str]:
        return [EdgeKind(kind).label for kind in self.edge_kind.tolist()]

    def to_csv(self, path: str | Path) -> Path:
        """Write the table without headings and texts as CSV, atomically."""
        frame = self.to_frame()[CSV_COLUMNS]
        return write_atomically(path, lambda temporary: frame.to_csv(temporary, index=False, lineterminator="\n"))

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values: model, nodes (kind, section, heading, text) and rows as columns."""
        return {
            "format": "graphdoc.attention/1",
            "model": dict(self.model),
            "document": {"id": self.segmented.document.id, "title": self.segmented.document.title},
            "coverage": self.segmented.coverage.to_dict(),
            "nodes": [
                {"node": number, "kind": kind, "heading": heading, "text": text}
                for number, (kind, heading, text) in enumerate(zip(self._kinds, self.headings, self.texts, strict=True))
            ],
            "attention": {
                **{name: getattr(self, name).tolist() for name in ("layer", "head", "source", "target")},
                "edge_kind": self._edge_labels,
                "weight": [round(value, 7) for value in self.weight.tolist()],
            },
        }

    def plot(self, path: str | Path | None = None, *, layer: int = -1, head: int | None = None) -> Any:
        """Draw the document node's weights and the node-by-node matrix (Graph-RoBERTa, figures 6 and 7).

        Args:
            path: image file to write (PNG, SVG or PDF by its suffix); None only returns the figure of matplotlib.
            layer: layer of the matrix; -1 for the last graph layer.
            head: head to draw; None for the mean over heads.
        """
        from .figures.attention import plot_attention

        return plot_attention(self, path, layer, head)
