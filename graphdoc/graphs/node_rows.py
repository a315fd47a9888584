"""Where passages, documents and sections stand among the nodes of a batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .elements import NodeKind
from .kinds.kind import Integers


@dataclass(frozen=True, slots=True)
class NodeRows:
    """Rows of a batch's nodes, so that no device has to look for them.

    Args:
        passages: ``(passages,)``, the node of every passage, queries among them.
        documents: ``(documents,)``, the node that stands for every document.
        document_of: ``(passages,)``, document of every passage.
        counts: ``(documents,)``, passages of every document.
        sections: ``(section nodes,)``, the section nodes.
        members: ``(members,)``, passages that belong to a section node.
        section_of: ``(members,)``, which of the section nodes each belongs to.
        section_counts: ``(section nodes,)``, passages of every section node.
    """

    passages: Tensor
    documents: Tensor
    document_of: Tensor
    counts: Tensor
    sections: Tensor
    members: Tensor
    section_of: Tensor
    section_counts: Tensor

    @classmethod
    def of(cls, node_kind: Integers, section_of: Integers, document_of: Integers, documents: int) -> NodeRows:
        """Find the rows.

        Args:
            node_kind: ``(nodes,)``, values of :class:`~graphdoc.graphs.elements.NodeKind`.
            section_of: ``(nodes,)``, section of a node within its document, -1 for document nodes.
            document_of: ``(nodes,)``, document of every node.
            documents: number of documents.
        """
        is_query = node_kind == NodeKind.QUERY
        passages = np.flatnonzero((node_kind == NodeKind.PASSAGE) | is_query)
        sections = np.flatnonzero(node_kind == NodeKind.SECTION)
        # A batch may mix graph kinds: passages of a document without section nodes belong to none.
        stride = int(section_of.max(initial=0)) + 2
        keys = document_of * stride + section_of
        order = np.argsort(keys[sections], kind="stable")
        place = np.searchsorted(keys[sections], keys[passages], sorter=order)
        rank = order[place[place < len(order)]] if len(order) else order
        inside = np.flatnonzero(place < len(order))
        belongs = keys[sections][rank] == keys[passages][inside]
        members, own = inside[belongs], rank[belongs]
        arrays = (
            passages,
            np.flatnonzero((node_kind == NodeKind.DOCUMENT) | is_query),
            document_of[passages],
            np.bincount(document_of[passages], minlength=documents),
            sections,
            members,
            own,
            np.bincount(own, minlength=len(sections)),
        )
        return cls(*(torch.from_numpy(np.ascontiguousarray(array, np.int64)) for array in arrays))
