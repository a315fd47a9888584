"""The document model: passage encoder, graph attention and readout."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers import initialization as init

from ..errors import SettingsError
from ..graphs.batch import GraphBatch, MiniBatch, Packing
from ..settings.document import ClusteringSettings, checked_labels
from .configuration import DocumentConfig
from .graph_attention import GraphAttention, GraphAttentionStack, GraphWeights, init_graph_weights
from .heads import SPREAD, ClassificationHead, SubtopicHead
from .lexical import LexicalPart
from .passage_encoder import PassageEncoder, StructuralEmbeddings
from .readouts import DocumentOutput, Readout, mean_by_group, refuse_start_at_mean


def weights_hash(weights: Mapping[str, Tensor], made_of: bytes = b"") -> str:
    """Hash of names, types, shapes and values of weights in any order, and of ``made_of``, such as a configuration."""
    digest = hashlib.blake2b(made_of, digest_size=16)
    for name, tensor in sorted(weights.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


# What a graph layer adds to its nodes at the start, as a share of what it would add with weights of the usual size.
MESSAGE_SHARE = 0.1


@torch.no_grad()
def start_at_mean(model: DocumentModel) -> None:
    """Set all layers above the passage encoder so that document vectors are, nearly, the mean of passage vectors.

    A backbone that was trained by contrast already, such as MiniLM, then loses nothing at the start: the projection
    and the skip connection of the graph layer are the identity, what a node takes from others is scaled down, and the
    readout starts as its :meth:`~graphdoc.modeling.readouts.Readout.start_at_mean` says.

    Raises:
        SettingsError: a layer changes the width, there is a second graph layer, or the readout cannot start there.
    """
    config = model.config
    reasons = []
    if config.projection_size not in (None, config.passage_size):
        reasons.append(f"projection_size={config.projection_size} (set it to null)")
    if config.graph_layers > 1:
        reasons.append(f"graph_layers={config.graph_layers} (set it to 1 or 0)")
    refuse_start_at_mean(*reasons)
    model.readout.start_at_mean()
    if model.projection is not None:
        # The tanh of numbers as small as those of unit vectors is nearly these numbers.
        nn.init.eye_(model.projection.weight)
        nn.init.zeros_(model.projection.bias)
    for layer in model.graph.layers:
        conv = cast(GraphAttention, layer).conv
        if conv.res is not None:
            nn.init.eye_(conv.res.weight)
        conv.lin.weight.mul_(MESSAGE_SHARE)
        nn.init.zeros_(conv.bias)


# What the names of weights begin with that training alone uses.
TRAINING_PARTS = "training_parts."


class DocumentModel(PreTrainedModel):
    """Turns a batch of document graphs into document, section and passage vectors (Graph-RoBERTa, section 2.1).

    Attributes:
        training_parts: what a run trains along with the model and leaves behind, such as a language-model head, by
            name: part of the run's checkpoints, but not of the model that comes of it.
        subtopic_folder: folder of the model by which a model for pairs finds subtopics, which goes along where it is
            saved; None where it needs none, or finds it by its name.
    """

    config_class = DocumentConfig
    subtopic_folder: Path | None = None
    base_model_prefix = "document_model"
    main_input_name = "batch"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _keep_in_fp32_modules_strict = [  # noqa: RUF012
        *(r"^structural_embeddings\.", r"^projection\.", r"^graph\.", r"^readout\.", r"^head\.", r"^subtopic_head\."),
        *(r"^centre$", r"^lexical\."),
    ]
    # A model may be loaded without what it was fitted to.
    _keys_to_ignore_on_load_unexpected = [r"^centre$", r"^lexical\."]  # noqa: RUF012

    def __init__(self, config: DocumentConfig) -> None:
        super().__init__(config)
        encoder_config = config.encoder_config
        assert encoder_config is not None and not isinstance(encoder_config, dict)
        self.passage_encoder = PassageEncoder(encoder_config, config.pooling)
        self.structural_embeddings = (
            StructuralEmbeddings(
                config.structural_sections, config.structural_chunks, self.passage_encoder.embedding_size
            )
            if config.structural_embeddings
            else None
        )
        self.projection = nn.Linear(config.passage_size, config.projection_size) if config.projection_size else None
        self.centre: Tensor | None
        self.register_buffer("centre", None if config.centre is None else torch.zeros(config.node_size))
        self.graph = GraphAttentionStack(config.node_size, config.graph_layers, config.graph_heads, config.skip)
        self.readout: Readout = config.readout_class(config)
        sizes = (config.hidden_size, len(config.labels or ()), config.classifier_dropout, config.classifier_terms)
        self.head = ClassificationHead(*sizes) if config.labels else None
        clustering = config.clustering
        self.subtopic_head = None if clustering is None else SubtopicHead(config.node_size, clustering.columns)
        self.lexical = None if config.words is None else LexicalPart(config.words)
        # Behind the passage encoder, whose names then are those of weights that both share.
        self.training_parts = nn.ModuleDict()
        self.post_init()  # type: ignore[no-untyped-call]

    def _init_weights(self, module: nn.Module) -> None:
        """Initialize the layers above the passage encoder, which transformers does not know."""
        is_of_graph = isinstance(module, nn.Linear) and any(module is part for part in self.graph.modules())
        if isinstance(module, GraphWeights) or is_of_graph:
            init_graph_weights(cast(GraphWeights, module))
        elif self.projection is not None and module is self.projection:
            init.xavier_uniform_(module.weight)
            init.zeros_(module.bias)
        elif self.readout.init_weights(module):
            pass
        elif self.head is not None and module in (self.head.linear, self.head.words):
            init.normal_(module.weight, std=SPREAD)
            if isinstance(module, nn.Linear):
                init.zeros_(module.bias)
        elif self.subtopic_head is not None and module is self.subtopic_head.linear:
            # As in DMoN, so that no two columns begin as the same.
            init.orthogonal_(module.weight)
            init.zeros_(module.bias)
        elif isinstance(module, StructuralEmbeddings):
            init.zeros_(module.sections)
            init.zeros_(module.chunks)
        else:
            super()._init_weights(module)  # type: ignore[no-untyped-call]

    def add_head(
        self, labels: Sequence[str], *, multi_label: bool = False, dropout: float | None = None, words: bool = False
    ) -> ClassificationHead:
        """Give the model a new head, drawn from torch's random generator, in place of the one it may have.

        Args:
            labels: names of the classes, in the order of the logits.
            multi_label: whether a document can have any number of them, or exactly one.
            dropout: dropout on document vectors in training; None leaves ``classifier_dropout`` as it is.
            words: whether it reads the lexical part of the model too.

        Raises:
            SettingsError: the names or the dropout cannot be, or the model has no lexical part to read.
        """
        config = self.config
        names = checked_labels(labels, multi_label)
        if words and self.lexical is None:
            raise SettingsError("words=True needs a lexical part; fit one first (graphdoc fit, or encoder.fit)")
        terms = self.lexical.settings.terms if words and self.lexical is not None else 0
        dropout = config.classifier_dropout if dropout is None else dropout
        head = ClassificationHead(config.hidden_size, len(names), dropout, terms)
        config.labels, config.multi_label, config.classifier_dropout = names, multi_label, head.dropout.p
        config.classifier_words = words
        self.head = head.to(self.device).apply(self._init_weights)
        return head

    def add_subtopic_head(self, settings: ClusteringSettings) -> SubtopicHead:
        """Give the model a new head for subtopics, drawn from torch's random generator."""
        self.config.subtopics = settings.as_values()
        self.subtopic_head = SubtopicHead(self.config.node_size, settings.columns).to(self.device)
        self._init_weights(self.subtopic_head.linear)
        return self.subtopic_head

    def remove_head(self, *, subtopics: bool = True) -> None:
        """Take the head away, before the vectors that it reads change, and by default that for subtopics too."""
        self.head = None
        self.config.labels, self.config.multi_label, self.config.classifier_words = None, False, False
        if subtopics:
            self.subtopic_head, self.config.subtopics = None, None

    def forward(
        self, batch: GraphBatch, packing: Packing | None = None, output_attentions: bool = False
    ) -> DocumentOutput:
        """Encode a batch of documents (see :meth:`encode_passages` and :meth:`encode_graphs`)."""
        return self.encode_graphs(self.encode_passages(batch, packing), batch, output_attentions)

    def encode_passages(
        self, batch: GraphBatch, packing: Packing | None = None, progress: Callable[[int], Any] | None = None
    ) -> Tensor:
        """Run the transformer over all passages of a batch, in mini-batches.

        Args:
            batch: documents with token ids; passage vectors that it brings along are returned as they are.
            packing: how passages are packed into mini-batches; None for the rule of the device.
            progress: called with the number of passages done after every mini-batch.

        Returns:
            Pooled passage vectors in fp32, document after document, ``(passages, passage size)``.
        """
        if batch.passage_vectors is not None:
            return batch.passage_vectors
        vectors, order = [], []
        for mini_batch in self.mini_batches(batch, packing):
            vectors.append(self.encode_mini_batch(mini_batch))
            order.append(mini_batch.passage_order)
            if progress is not None:
                progress(len(mini_batch.passage_order))
        return torch.cat(vectors).index_select(0, torch.argsort(torch.cat(order)).to(self.device, non_blocking=True))

    def mini_batches(self, batch: GraphBatch, packing: Packing | None = None) -> Iterator[MiniBatch]:
        """Pack the passages of a batch as :meth:`encode_mini_batch` takes them."""
        pad_token_id = self.config.encoder_config.pad_token_id or 0
        packing = packing or Packing.on(self.device)
        return batch.mini_batches(packing, pad_token_id, with_structure=self.structural_embeddings is not None)

    def encode_mini_batch(self, mini_batch: MiniBatch) -> Tensor:
        """Pooled vectors of the passages of a mini-batch, wherever it is, ``(passages, passage size)``."""
        return self.encode_tokens(mini_batch)[0]

    def encode_tokens(self, mini_batch: MiniBatch) -> tuple[Tensor, Tensor]:
        """Pooled vectors of a mini-batch, and the vectors of all tokens, ``(passages, tokens, encoder hidden)``."""
        moved = mini_batch.to(self.device)
        added = None
        if self.structural_embeddings is not None:
            assert moved.structure is not None
            added = self.structural_embeddings(moved.structure)
        tokens = self.passage_encoder.tokens(moved.input_ids, moved.attention_mask, added, moved.token_types)
        return self.passage_encoder.pool(tokens, moved.attention_mask), tokens

    @property
    def trains_passage_vectors(self) -> bool:
        """Whether anything that is trained lies below the passage vectors."""
        below = (self.passage_encoder, self.structural_embeddings)
        return any(parameter.requires_grad for part in below if part for parameter in part.parameters())

    def encode_graphs(
        self, passage_vectors: Tensor, batch: GraphBatch, output_attentions: bool = False
    ) -> DocumentOutput:
        """Run everything above the transformer, in fp32 also under autocast.

        Args:
            passage_vectors: ``(passages, passage size)``, document after document.
            batch: the graphs.
            output_attentions: also return attention weights and inputs of all graph layers.
        """
        with torch.autocast(passage_vectors.device.type, enabled=False):
            initial = self.initial_nodes(passage_vectors.float(), batch)
            nodes, attention, inputs = initial, [], []
            # Where no vector reads the graph, a batch may come without its edges.
            reads_edges = batch.plan is not None and (output_attentions or self.subtopic_head is not None)
            subtopics = None
            if not self.reads_initial_nodes or reads_edges:
                if self.graph.layers:
                    nodes, attention, inputs = self.graph(initial, batch, output_attentions)
                    nodes = torch.where(batch.is_query.unsqueeze(-1), initial, nodes)
                if self.subtopic_head is not None:
                    subtopics = self.subtopic_head(nodes.index_select(0, batch.rows.passages), batch.rows)
            if self.reads_initial_nodes:
                nodes = initial
            passages = nodes.index_select(0, batch.rows.passages)
            read: DocumentOutput = self.readout(nodes, passages, batch, output_attentions)
            logits = None if self.head is None else self.head(read.documents, batch.words)
        return DocumentOutput(
            **read,
            passages=passages,
            nodes=nodes,
            attention=tuple(attention) if output_attentions else None,
            layer_inputs=tuple(inputs) if output_attentions else None,
            logits=logits,
            subtopics=subtopics,
        )

    @property
    def reads_initial_nodes(self) -> bool:
        """Whether vectors are those of nodes before the graph, which then only shows its attention."""
        return self.readout.reads_initial_nodes

    def uncentred_passages(self, passage_vectors: Tensor) -> Tensor:
        """Passage nodes before a centre is taken off, ``(passages, hidden)``: ``tanh(W x + b)`` (eq. 1), or x."""
        if self.projection is not None:
            passage_vectors = torch.tanh(self.projection(passage_vectors))
        if self.config.normalize_passages:
            passage_vectors = nn.functional.normalize(passage_vectors, dim=-1)
        return passage_vectors

    def initial_passages(self, passage_vectors: Tensor) -> Tensor:
        r"""Initial passage nodes, ``(passages, hidden)``, with the centre c of a corpus taken off where there is one.

        .. math:: x' = x / \lVert x \rVert - c, \quad x'' = x' / \lVert x' \rVert

        where x is :meth:`uncentred_passages`.
        """
        passages = self.uncentred_passages(passage_vectors)
        if self.centre is None:
            return passages
        return nn.functional.normalize(nn.functional.normalize(passages, dim=-1) - self.centre, dim=-1)

    def set_centre(self, centre: Tensor | None, corpora: Sequence[str] = ()) -> None:
        """Give the model a centre, the mean of :meth:`uncentred_passages` of unit length, or take it away.

        Args:
            centre: ``(hidden,)``; None for none.
            corpora: what it was learned of, as free text.
        """
        self.centre = None if centre is None else centre.detach().to(self.device, torch.float32).clone()
        self.config.centre = None if centre is None else list(corpora)

    def set_lexical(self, part: LexicalPart | None) -> None:
        """Give the model a lexical part, or take it away; with it goes a head that read the one before."""
        if self.head is not None and self.head.words is not None:
            self.remove_head(subtopics=False)
        self.lexical = None if part is None else part.to(self.device)
        self.config.lexical = None if part is None else part.settings.as_values()

    def initial_nodes(self, passage_vectors: Tensor, batch: GraphBatch) -> Tensor:
        """All initial nodes, ``(nodes, hidden)``: passages by eq. 1, document nodes as their mean (eq. 2).

        Section nodes, where the graph has them, are the mean of their section's passages. A query is both passage and
        document, and its own mean.
        """
        rows = batch.rows
        passages = self.initial_passages(passage_vectors)
        nodes = passages.new_zeros(len(batch.node_kind), passages.shape[1])
        means = mean_by_group(passages, rows.document_of, rows.counts)
        nodes = nodes.index_copy(0, rows.passages, passages).index_copy(0, rows.documents, means)
        if len(rows.sections):
            means = mean_by_group(passages.index_select(0, rows.members), rows.section_of, rows.section_counts)
            nodes = nodes.index_copy(0, rows.sections, means)
        return nodes
