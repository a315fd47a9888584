"""The document model: passage encoder, projection, graph attention and readout."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv
from torch_geometric.nn import Linear as GraphLinear
from transformers import PreTrainedModel
from transformers import initialization as init

from ..batching import GraphBatch
from ..graph_kinds import NodeKind
from .configuration import DocumentConfig
from .graph_attention import Form, GraphAttentionStack
from .heads import ClassificationHead, checked_labels
from .outputs import DocumentOutput
from .passage_encoder import PassageEncoder
from .readout import Readout, mean_by_group

# Small blocks stay in a processor's cache; accelerators want large ones.
TOKEN_BUDGET = {"cpu": 2048}
TOKEN_BUDGET_ACCELERATOR = 65536
# Standard deviation of a new head's weights, as in BERT and RoBERTa.
HEAD_SPREAD = 0.02


class DocumentModel(PreTrainedModel):
    """Turns a batch of document graphs into document, section and passage vectors (Graph-RoBERTa, section 2.1).

    Args:
        config: what the model is made of.
    """

    config_class = DocumentConfig
    base_model_prefix = "document_model"
    main_input_name = "batch"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _supports_attention_backend = True
    _keep_in_fp32_modules_strict = [r"^projection\.", r"^graph\.", r"^readout\.", r"^head\."]  # noqa: RUF012

    def __init__(self, config: DocumentConfig) -> None:
        super().__init__(config)
        encoder_config = config.encoder_config
        assert encoder_config is not None and not isinstance(encoder_config, dict)
        self.passage_encoder = PassageEncoder(encoder_config, config.pooling)
        self.projection = (
            nn.Linear(encoder_config.hidden_size, config.projection_size) if config.projection_size else None
        )
        self.graph = GraphAttentionStack(
            config.hidden_size, config.graph_layers, config.graph_heads, config.attention_dropout
        )
        self.readout = Readout(config.readout, config.hidden_size)
        self.head = (
            ClassificationHead(config.hidden_size, len(config.labels), config.classifier_dropout)
            if config.labels
            else None
        )
        self.post_init()  # type: ignore[no-untyped-call]

    def _init_weights(self, module: nn.Module) -> None:
        """Initialise a module's own weights; the graph layers as PyG does, so that none stays undefined memory."""
        if isinstance(module, GATConv):
            for weight in (module.att_src, module.att_dst):
                bound = math.sqrt(6.0 / (weight.shape[-2] + weight.shape[-1]))
                init.uniform_(weight, -bound, bound)
            init.zeros_(module.bias)
        elif isinstance(module, GraphLinear):
            init.xavier_uniform_(module.weight)
        elif module is self.projection:
            init.xavier_uniform_(module.weight)
            init.zeros_(module.bias)
        elif self.head is not None and module is self.head.linear:
            init.normal_(module.weight, std=HEAD_SPREAD)
            init.zeros_(module.bias)
        else:
            super()._init_weights(module)  # type: ignore[no-untyped-call]

    def add_head(
        self, labels: Sequence[str], *, multi_label: bool = False, dropout: float | None = None
    ) -> ClassificationHead:
        """Give the model a new head, drawn from torch's random generator, in place of the one it may have.

        Args:
            labels: names of the classes, in the order of the logits.
            multi_label: whether a document can have any number of them, or exactly one.
            dropout: dropout on document vectors in training; None leaves ``classifier_dropout`` as it is.

        Returns:
            The head.

        Raises:
            SettingsError: the names or the dropout cannot be.
        """
        config = self.config
        names = checked_labels(labels, multi_label)
        head = ClassificationHead(
            config.hidden_size, len(names), config.classifier_dropout if dropout is None else dropout
        )
        config.labels, config.multi_label, config.classifier_dropout = names, multi_label, head.dropout.p
        self.head = head.to(self.device)
        self._init_weights(self.head.linear)
        return self.head

    def forward(
        self,
        batch: GraphBatch,
        token_budget: int | None = None,
        output_attention: bool = False,
        form: Form = "auto",
    ) -> DocumentOutput:
        """Encode a batch of documents.

        Args:
            batch: graphs with the token ids of their passages.
            token_budget: most cells of a mini-batch that goes through the transformer.
            output_attention: also return attention weights of all graph layers.
            form: ``dense`` or ``sparse`` to force one form of graph attention.

        Returns:
            Document, passage and node vectors.
        """
        return self.encode_graphs(self.encode_passages(batch, token_budget), batch, output_attention, form)

    def encode_passages(
        self, batch: GraphBatch, token_budget: int | None = None, progress: Callable[[int], Any] | None = None
    ) -> Tensor:
        """Run the transformer over all passages of a batch, packed by token budget.

        Args:
            batch: documents with token ids.
            token_budget: most cells of a mini-batch; by default small on a CPU and large on accelerators.
            progress: called with the number of passages done after every mini-batch.

        Returns:
            Pooled passage vectors in fp32, document after document, ``(passages, encoder hidden)``; those that the
            batch brings along, if it does.
        """
        if batch.passage_vectors is not None:
            return batch.passage_vectors
        device = self.device
        budget = token_budget or token_budget_of(device)
        padding = self.config.encoder_config.pad_token_id or 0
        vectors: list[Tensor] = []
        order: list[Tensor] = []
        for mini_batch in batch.mini_batches(budget, padding):
            moved = mini_batch.to(device)
            vectors.append(self.passage_encoder(moved.input_ids, moved.attention_mask))
            order.append(moved.passage_order)
            if progress is not None:
                progress(len(mini_batch.passage_order))
        positions = torch.cat(order)
        return torch.cat(vectors)[torch.argsort(positions)]

    def encode_graphs(
        self, passage_vectors: Tensor, batch: GraphBatch, output_attention: bool = False, form: Form = "auto"
    ) -> DocumentOutput:
        """Run everything above the transformer, in fp32 also under autocast.

        Args:
            passage_vectors: ``(passages, encoder hidden)``, document after document.
            batch: the graphs.
            output_attention: also return attention weights of all graph layers.
            form: ``dense`` or ``sparse`` to force one form of graph attention.

        Returns:
            Document, passage and node vectors, and logits where there is a head.
        """
        with torch.autocast(passage_vectors.device.type, enabled=False):
            initial = self.initial_nodes(passage_vectors.float(), batch)
            nodes, attention, inputs = self.graph(initial, batch, output_attention, form)
            nodes = torch.where(batch.is_query.unsqueeze(-1), initial, nodes)
            documents, weights = self.readout(nodes, batch)
            logits = None if self.head is None else self.head(documents)
        return DocumentOutput(
            documents=documents,
            passages=nodes[batch.is_passage],
            nodes=nodes,
            readout_weights=weights,
            attention=tuple(attention) if output_attention else None,
            layer_inputs=tuple(inputs) if output_attention else None,
            logits=logits,
        )

    def initial_passages(self, passage_vectors: Tensor) -> Tensor:
        """Initial passage nodes (eq. 1): ``tanh(W x + b)``, or the vectors themselves without a projection.

        Args:
            passage_vectors: ``(passages, encoder hidden)``.

        Returns:
            ``(passages, hidden)``.
        """
        if self.projection is not None:
            passage_vectors = torch.tanh(self.projection(passage_vectors))
        if self.config.normalize_passages:
            passage_vectors = nn.functional.normalize(passage_vectors, dim=-1)
        return passage_vectors

    def initial_nodes(self, passage_vectors: Tensor, batch: GraphBatch) -> Tensor:
        """All initial nodes: passages by eq. 1, document nodes as the mean of their passages (eq. 2).

        Section nodes, where the graph has them, are the mean of their section's passages. A query is both passage and
        document, and its own mean.

        Args:
            passage_vectors: ``(passages, encoder hidden)``.
            batch: the graphs.

        Returns:
            ``(nodes, hidden)``.
        """
        passages = self.initial_passages(passage_vectors)
        nodes = passages.new_zeros(len(batch.node_kind), passages.shape[1])
        nodes = nodes.masked_scatter(batch.is_passage.unsqueeze(-1), passages)
        document_of = batch.document_of[batch.is_passage]
        nodes = nodes.masked_scatter(batch.is_document.unsqueeze(-1), mean_by_group(passages, document_of, len(batch)))
        is_section = batch.node_kind == NodeKind.SECTION
        if bool(is_section.any()):
            stride = int(batch.section_of.max()) + 1
            keys = batch.document_of * stride + batch.section_of
            # Section nodes stand in reading order, which need not be the order of their numbers.
            section_keys, order = torch.sort(keys[is_section])
            passage_keys = keys[batch.is_passage]
            place = torch.searchsorted(section_keys, passage_keys).clamp(max=len(section_keys) - 1)
            # A batch may mix graph kinds: passages of a document without section nodes belong to none.
            belongs = section_keys[place] == passage_keys
            means = mean_by_group(passages[belongs], order[place[belongs]], len(section_keys))
            nodes = nodes.masked_scatter(is_section.unsqueeze(-1), means)
        return nodes


def token_budget_of(device: torch.device) -> int:
    """Most cells of a mini-batch that goes through the transformer, where nothing else is asked for."""
    return TOKEN_BUDGET.get(device.type, TOKEN_BUDGET_ACCELERATOR)
