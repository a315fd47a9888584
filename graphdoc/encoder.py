"""DocumentEncoder: documents in, vectors, comparisons and attention out."""

from __future__ import annotations

import logging
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

import torch

from .analysis.attention import AttentionTable
from .checkpoints.backbones import backbone_config, load_backbone
from .checkpoints.folders import name_of
from .checkpoints.load import load_checkpoint
from .checkpoints.save import save_checkpoint
from .errors import DocumentError, ModelError, SettingsError
from .inference.fitting import Fit, FitOptions, fit
from .inference.levels import encode_all_levels, with_sentences
from .inference.precision import LoadPrecision, Precision
from .inference.segmenting import AnyDocument, ManyDocuments, documents_of
from .inference.vectors import VectorPipeline
from .prediction import Predictions, predict
from .prediction.predicting import PredictionOptions
from .runtime.other_names import ENCODER, ENCODING, FITTING, no_attribute, require_known
from .runtime.text import require_path, require_seed
from .segmentation.spans import SegmentedDocument
from .similarity.background import FEWEST_DOCUMENTS
from .similarity.comparison import Comparison
from .similarity.encoded_document import CLUSTER_SIZE, EncodedDocument, pair_subtopics
from .similarity.kinds import similarity_of
from .similarity.mutual_comparison import MutualComparison

if TYPE_CHECKING:
    from .graphs.document_graph import DocumentGraph
    from .matching import MatchOptions, PairMatch
    from .vectors.folder import Manifest
    from .vectors.writer import FolderOptions

logger = logging.getLogger(__name__)

_RNG_LOCK = threading.Lock()


class DocumentEncoder(VectorPipeline):
    """Encodes, compares and explains documents with a document model.

    Args:
        model: the model.
        tokenizer: tokenizer of its passage encoder.
        name: what to call it in records.
        device: where it runs; None takes an accelerator when there is one.
        dtype: precision of the transformer's weights; graph and readout stay in fp32.
    """

    # Arguments of from_pretrained that load it again.
    source: dict[str, Any] | None = None

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path = "mini",
        *,
        device: str | torch.device | None = None,
        dtype: LoadPrecision = "float32",
        revision: str | None = None,
        **settings: Any,
    ) -> Self:
        """Load a trained encoder.

        Args:
            name: ``mini``, a folder written by :meth:`save_pretrained`, an embedding model of sentence-transformers,
                or a hub id of either, of the latter also the bare name. An embedding model encodes passages; a document
                is the mean of its passages.
            device: where it runs; None takes an accelerator when there is one.
            dtype: ``float32``, ``bfloat16`` or ``float16`` for the transformer's weights; ``auto`` for bfloat16 where
                it is clearly faster on this machine.
            revision: branch, tag or commit on the hub.
            **settings: fields of :class:`~graphdoc.modeling.DocumentConfig` to set otherwise, such as
                ``max_passages=None`` to encode all passages.

        Raises:
            ModelError: no such model, an incomplete one, or an unknown setting.
        """
        require_path("model", name)
        model, tokenizer = load_checkpoint(name, revision=revision, **settings)
        encoder = cls(model, tokenizer, name=name_of(name), device=device, dtype=dtype)
        source = str(Path(name).resolve()) if Path(name).is_dir() else str(name)
        encoder.source = {"name": source, **{key: getattr(model.config, key) for key in settings}}
        encoder.source |= {} if revision is None else {"revision": revision}
        return encoder

    @classmethod
    def from_backbone(
        cls,
        backbone: str | Path,
        *,
        seed: int = 0,
        device: str | torch.device | None = None,
        dtype: LoadPrecision = "float32",
        **settings: Any,
    ) -> Self:
        """Put an untrained graph on a pretrained passage encoder, to be trained.

        Args:
            backbone: name or folder of any transformers encoder, such as ``roberta-base``.
            seed: seed of the initial weights above the encoder.
            device: where it runs; None takes an accelerator when there is one.
            dtype: precision of the transformer's weights, as for :meth:`from_pretrained`.
            **settings: fields of :class:`~graphdoc.modeling.DocumentConfig`; its defaults are the paper's.

        Raises:
            ModelError: no such backbone, or an unknown setting.
        """
        require_path("backbone", backbone)
        require_seed(seed)
        config = backbone_config(str(backbone), **settings)
        # Torch has one generator for all threads.
        with _RNG_LOCK, torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model, tokenizer = load_backbone(config)
        return cls(model, tokenizer, name=f"{Path(backbone).name} (untrained graph)", device=device, dtype=dtype)

    def __new__(cls, *arguments: Any, **_: Any) -> Self:
        """Make an encoder of a model, and not of its name."""
        if arguments and isinstance(arguments[0], str | Path):
            raise ModelError(f"a name is no model; use {cls.__name__}.from_pretrained({str(arguments[0])!r})")
        return super().__new__(cls)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(type(self).__name__, name, ENCODER)

    def get_embedding_dimension(self) -> int:
        """Length of a document vector, :attr:`hidden_size`, by its name in sentence-transformers."""
        return self.hidden_size

    get_sentence_embedding_dimension = get_embedding_dimension

    def __repr__(self) -> str:
        return f"DocumentEncoder({self.name!r}, vectors of {self.hidden_size})"

    def fit(self, documents: ManyDocuments | AnyDocument, **options: Unpack[FitOptions]) -> Fit:
        """Fit the encoder to a corpus without training, in one pass and bounded memory.

        No labels are read, and evidence gives way to the cosine. Options: ``centre``, ``lexical``, ``lexical_weight``,
        ``corpus`` and ``processes`` of :class:`~graphdoc.inference.fitting.FitOptions`, and those of :meth:`encode`.

        Returns:
            What was learned. The encoder has it from then on, and :meth:`save_pretrained` keeps it.

        Raises:
            ModelError: there are fewer than two documents, all are alike, or no word occurs in enough of them.

        >>> encoder = DocumentEncoder.from_pretrained("mini", device="cpu")
        >>> texts = ["Rice is steamed.", "Tides rise.", "Steam rises from rice.", "The tide is out."]
        >>> encoder.fit(texts, lexical=True).lexical_size, encoder.encode("Rice rises.").shape
        (3, (387,))
        """
        require_known(options, FitOptions.__annotations__, FITTING)
        found, self.source = fit(self, documents, **options), None
        return found

    def save_pretrained(self, folder: str | Path) -> Path:
        """Write the encoder as one folder that :meth:`from_pretrained` reads (safetensors, atomic)."""
        require_path("folder", folder)
        saved = save_checkpoint(self.model, self.tokenizer, folder, name=self.name)
        self.source = self.source or {"name": str(saved.resolve())}
        return saved

    def push_to_hub(
        self,
        repo_id: str,
        token: str | None = None,
        *,
        private: bool = False,
        revision: str | None = None,
        commit_message: str = "Upload document encoder",
    ) -> str:
        """Upload the encoder to ``owner/name`` on the hub, made if it is missing; gives the address of the commit.

        ``token`` is by default the one of this machine; ``revision`` names a branch that is there.
        """
        from huggingface_hub import HfApi

        api = HfApi(token=token)
        api.create_repo(repo_id, private=private, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            card = save_checkpoint(self.model, self.tokenizer, folder, name=self.name) / "README.md"
            card.write_text(card.read_text("utf-8").replace("path/to/this/folder", repo_id), "utf-8")
            where: dict[str, Any] = {"repo_id": repo_id, "folder_path": folder, "revision": revision}
            return str(api.upload_folder(**where, commit_message=commit_message))

    def graph(self, document: AnyDocument) -> DocumentGraph:
        """Build the graph that the model would see.

        >>> encoder = DocumentEncoder.from_pretrained("mini", device="cpu")
        >>> encoder.graph("Rice is steamed.").num_passages
        1
        """
        from .graphs.document_graph import build_graph

        return build_graph(self.segment_with_text(document), self.model.config.graph)

    def predict(self, documents: ManyDocuments | AnyDocument, **options: Unpack[PredictionOptions]) -> Predictions:
        """Predict which classes documents belong to, how likely each is, and which passages speak for them.

        Options: ``threshold`` and ``explain`` of :func:`graphdoc.prediction.predict`, and those of :meth:`encode`.
        """
        return predict(self, documents, **options)

    def compare(
        self,
        a: AnyDocument | EncodedDocument,
        b: AnyDocument | EncodedDocument | None = None,
        *,
        sentences: bool = False,
        subtopics: str | None = None,
        subtopic_model: str | Path | None = None,
        cluster_size: int = CLUSTER_SIZE,
        receptive_field: int | None = None,
        dtype: Precision | None = None,
    ) -> Comparison:
        """Compare two documents at every level, or the parts of one document.

        Args:
            a: first document, encoded before (:meth:`encode_levels`) or not.
            b: second document; None compares the first with itself.
            sentences: also compare sentence by sentence.
            subtopics: also find the subtopics of their sentences, by ``words`` or ``vectors``, or as a model has
                learned to (``adaptive``); None for none.
            subtopic_model: name or folder of the model of ``adaptive``, which ``graphdoc finetune subtopics`` trains.
            cluster_size: sentences of a subtopic, about.
            receptive_field: sentences of a document that subtopics are made of, its first ones; None for all.
            dtype: compute the transformer in this precision.

        Raises:
            DocumentError: a document has no text.
            ModelError: a document was encoded by another model.

        >>> encoder = DocumentEncoder.from_pretrained("mini", device="cpu")
        >>> comparison = encoder.compare("Rice is steamed.", "Steam the rice for twenty minutes.")
        >>> comparison.document > 0.5, len(comparison.matches("passage"))
        (True, 1)
        """
        self._warn_if_untrained("scores")
        wanted = {"sentences": sentences or subtopics is not None, "context_free": subtopics is not None}
        first = self._encoded(a, dtype, **wanted)
        second = first if b is None else self._encoded(b, dtype, **wanted)
        table = None
        if subtopics is not None:
            from .inference.learned_subtopics import subtopic_finder

            language = self.model.config.language
            table = pair_subtopics(
                first,
                None if b is None else second,
                language,
                subtopic_finder(subtopics, language, subtopic_model),
                by=subtopics,
                cluster_size=cluster_size,
                receptive_field=receptive_field,
                least=None if self.background is None else self.background.subtopics,
            )
        similarity = self._compared_by(2)
        model = {**self.describe(), "similarity": similarity}
        background, evidence = self.background, self.evidence
        if background is not None and evidence is not None:
            background = background.of(evidence.units([first, second]))
        return Comparison(first, second, model, similarity, b is None, table, background, evidence)

    def _compared_by(self, documents: int) -> str:
        """The similarity for a number of documents; evidence without a reference is the cosine."""
        similarity = str(self.model.config.similarity)
        is_known = documents >= FEWEST_DOCUMENTS or self.evidence is not None
        kind = similarity_of(similarity)
        return kind.vector_similarity if kind.reads_reference and not is_known else similarity

    def match(
        self, a: AnyDocument | SegmentedDocument, b: AnyDocument | SegmentedDocument, **options: Unpack[MatchOptions]
    ) -> PairMatch:
        """Say how well two documents match, with a model that was trained on views of pairs (SST), and why.

        Options: ``views``, ``aggregation`` and ``dtype``, as :class:`~graphdoc.matching.MatchOptions` describes them.
        """
        from .matching import match_pairs

        (result,) = match_pairs(self, [(a, b)], **options)
        return result

    def compare_all(
        self, documents: Iterable[AnyDocument | EncodedDocument], *, dtype: Precision | None = None
    ) -> MutualComparison:
        """Compare two or more documents, which may be encoded (:meth:`encode_levels`), each with each at every level.

        Raises:
            DocumentError: there are fewer than two; :meth:`compare` compares the parts of one.

        >>> encoder = DocumentEncoder.from_pretrained("mini", device="cpu")
        >>> encoder.compare_all(["Rice is steamed.", "Steam rice.", "Tides rise."]).document_scores.shape
        (3, 3)
        """
        self._warn_if_untrained("scores")
        encoded = [self._encoded(document, dtype) for document in documents_of(documents)]
        if len(encoded) < 2:
            raise DocumentError(f"compare_all needs two documents or more, not {len(encoded)}; compare takes one")
        similarity = self._compared_by(len(encoded))
        model = {**self.describe(), "similarity": similarity}
        return MutualComparison(encoded, model, similarity, self.background, self.evidence)

    def attention(self, document: AnyDocument) -> AttentionTable:
        """Attention by layer and head or, in a model without any, what each passage adds to the vector.

        Returns:
            A table of layer, head, source, target, edge kind and weight; weights of one target sum to 1. With the
            readout ``sections`` the document is split into its sections. A model without graph layers and learned
            readout weights has one layer instead: what each passage adds to the document vector.

        Raises:
            SettingsError: the model has no attention.

        >>> encoder = DocumentEncoder.from_pretrained("mini", device="cpu")
        >>> encoder.attention("Rice is steamed.").to_frame().columns.tolist()[:6]
        ['layer', 'head', 'source', 'target', 'edge_kind', 'weight']
        """
        config, readout = self.model.config, self.model.readout
        has_attention = bool(config.graph_layers) or readout.own_attention is not None
        if readout.has_sections and not has_attention:
            raise SettingsError(f"{self.name} has no attention to show: graph_layers and chunk_attention_heads are 0")
        if config.clustering is not None:
            raise SettingsError(
                f"the graph of {self.name} is one of pairs of documents, whose subtopics it has learned; use graphdoc "
                "compare A B --subtopics MODEL, or another model"
            )
        segmented = self.segment_with_text(document)
        if not has_attention:
            return AttentionTable.from_contributions(encode_all_levels(self, segmented))
        self._warn_if_untrained("weights")
        window = self.run([segmented], output_attentions=True, split=readout.has_sections)
        return AttentionTable.from_output(
            segmented, window.batch, window.output, self.describe(), with_readout=not readout.reads_initial_nodes
        )

    def encode_levels(
        self, document: AnyDocument, *, sentences: bool = False, dtype: Precision | None = None
    ) -> EncodedDocument:
        """Encode one document at all levels, with everything that comparisons need.

        A document that is compared with many others is encoded once: :meth:`compare` takes what this returns.

        >>> encoder = DocumentEncoder.from_pretrained("mini", device="cpu")
        >>> rice = encoder.encode_levels("Rice is steamed.")
        >>> [encoder.compare(rice, other).document > 0.5 for other in ("Steam the rice.", "Tides rise.")]
        [True, False]
        """
        segmented = self.segment_with_text(document)
        encoded = encode_all_levels(self, segmented, dtype)
        segmented.coverage.warn(segmented.document.id)
        return with_sentences(self, encoded, dtype) if sentences else encoded

    def encode_to_disk(
        self, documents: Iterable[AnyDocument] | AnyDocument, folder: str | Path, **options: Unpack[FolderOptions]
    ) -> Manifest:
        """Encode a corpus into a folder of Parquet shards, resumable and in constant memory.

        See :func:`graphdoc.vectors.writer.encode_to_disk` for the options.
        """
        from .vectors.writer import FolderOptions, encode_to_disk

        require_known(options, FolderOptions.__annotations__, ENCODING)
        return encode_to_disk(self, documents, folder, **options)

    def _encoded(
        self,
        document: AnyDocument | EncodedDocument,
        dtype: Precision | None,
        *,
        sentences: bool = False,
        context_free: bool = False,
    ) -> EncodedDocument:
        if not isinstance(document, EncodedDocument):
            document = self.encode_levels(document, dtype=dtype)
        if differences := document.differences(self.describe()):
            raise ModelError(
                f"document {document.segmented.document.id!r} was encoded by {document.model.get('name')!r}, which "
                f"differs from {self.name!r} in {', '.join(differences[:3])}; encode it again"
            )
        lacks = (sentences and document.sentence_vectors is None) or (
            context_free and document.context_free_sentence_vectors is None
        )
        return with_sentences(self, document, dtype, context_free=context_free) if lacks else document

    def _warn_if_untrained(self, numbers: str) -> None:
        if not self.model.config.trained:
            message = "%s was not trained to compare documents: its %s mean little; use mini, or train it"
            logger.warning(message, self.name, numbers)
