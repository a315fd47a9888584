"""DocumentEncoder: documents in, vectors, comparisons and attention out."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerBase

from .checkpoints.hub import upload
from .checkpoints.loading import backbone_config, load_backbone, load_checkpoint, name_of, save_checkpoint
from .documents.document import Document
from .errors import ModelError, SettingsError
from .graphs.document_graph import DocumentGraph, build_graph
from .inference.precision import PRECISIONS, Precision, computed_in
from .inference.stream import (
    LEVELS,
    AnyDocument,
    Level,
    as_document,
    as_output,
    encode_at_all_levels,
    encode_sentences,
    require_text,
    rows_of,
    run_model,
    stream_windows,
    vectors_at,
)
from .modeling import DocumentModel
from .runtime.devices import place
from .segmentation.coverage import Coverage
from .segmentation.segmenter import SegmentationConfig, Segmenter
from .segmentation.spans import SegmentedDocument
from .similarity import EncodedDocument

if TYPE_CHECKING:
    from .analysis.attention import AttentionTable
    from .analysis.comparisons import DrawnComparison, DrawnMutualComparison
    from .prediction import Predictions
    from .vectors.writer import Manifest

logger = logging.getLogger(__name__)


class DocumentEncoder:
    """Encodes, compares and explains documents with a document model.

    Args:
        model: the model.
        tokenizer: tokenizer of its passage encoder.
        name: what to call it in records.
        device: where it runs; None takes an accelerator when there is one.
        dtype: precision of the transformer's weights; graph and readout stay in fp32.
    """

    def __init__(
        self,
        model: DocumentModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        name: str = "unnamed",
        device: str | torch.device | None = None,
        dtype: Precision = "float32",
    ) -> None:
        if dtype not in PRECISIONS:
            raise ModelError(f"dtype {dtype!r} is unknown; use one of {', '.join(PRECISIONS)}")
        self.model = model
        self.model.train(False)
        self.tokenizer = tokenizer
        self.name = name
        config = model.config
        try:
            self.segmenter = Segmenter(
                tokenizer,  # type: ignore[arg-type]
                SegmentationConfig(
                    config.passage_words, config.passage_tokens, config.max_passages, config.language, config.unit
                ),
            )
        except ValueError as error:
            raise ModelError(f"{name}: {str(error).replace('max_tokens', 'passage_tokens')}") from error
        self.model.passage_encoder.to(PRECISIONS[dtype])
        place(self.model, device)

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path = "mini",
        *,
        device: str | torch.device | None = None,
        dtype: Precision = "float32",
        revision: str | None = None,
        **settings: Any,
    ) -> DocumentEncoder:
        """Load a trained encoder.

        Args:
            name: ``mini``, a folder written by :meth:`save_pretrained`, or a hub id of such a folder.
            device: where it runs; None takes an accelerator when there is one.
            dtype: ``float32``, ``bfloat16`` or ``float16`` for the transformer's weights.
            revision: branch, tag or commit on the hub.
            **settings: fields of :class:`~graphdoc.modeling.DocumentConfig` to set otherwise, such as
                ``max_passages=None`` to encode all passages.

        Raises:
            ModelError: no such model, an incomplete one, or an unknown setting.
        """
        model, tokenizer = load_checkpoint(name, revision=revision, **settings)
        return cls(model, tokenizer, name=name_of(name), device=device, dtype=dtype)

    @classmethod
    def from_backbone(
        cls,
        backbone: str | Path,
        *,
        seed: int = 0,
        device: str | torch.device | None = None,
        dtype: Precision = "float32",
        **settings: Any,
    ) -> DocumentEncoder:
        """Put an untrained graph on a pretrained passage encoder, to be trained.

        Args:
            backbone: name or folder of any transformers encoder, such as ``roberta-base``.
            seed: seed of the initial weights above the encoder.
            device: where it runs; None takes an accelerator when there is one.
            dtype: precision of the transformer's weights.
            **settings: fields of :class:`~graphdoc.modeling.DocumentConfig`; its defaults are the paper's.

        Raises:
            ModelError: no such backbone, or an unknown setting.
        """
        config = backbone_config(str(backbone), **settings)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model, tokenizer = load_backbone(config)
        return cls(model, tokenizer, name=f"{Path(backbone).name} (untrained graph)", device=device, dtype=dtype)

    def __repr__(self) -> str:
        return f"DocumentEncoder({self.name!r}, vectors of {self.hidden_size})"

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        return self.model.device

    @property
    def hidden_size(self) -> int:
        """Length of a document vector."""
        return int(self.model.config.hidden_size)

    def vector_size(self, level: Level = "document") -> int:
        """Length of a vector of a level; that of passages may differ."""
        config = self.model.config
        return int(config.node_size if level == "passage" else config.hidden_size)

    def describe(self) -> dict[str, Any]:
        """What the vectors are made with, as plain values for records and reports."""
        dtype = str(next(self.model.passage_encoder.parameters()).dtype).removeprefix("torch.")
        return {"name": self.name, **self.model.config.describe(), "dtype": dtype}

    def save_pretrained(self, folder: str | Path) -> Path:
        """Write the encoder as one folder that :meth:`from_pretrained` reads (safetensors, atomic).

        Raises:
            OutputError: the folder cannot be written.
        """
        return save_checkpoint(self.model, self.tokenizer, folder, name=self.name)

    def push_to_hub(self, repository: str, *, private: bool = False, message: str = "Upload document encoder") -> str:
        """Upload the encoder to the hub.

        Args:
            repository: ``owner/name``; made if it is missing.
            private: whether a new repository is private.
            message: commit message.

        Returns:
            The address of the commit.
        """
        return upload(self.save_pretrained, repository, private, message)

    def segment(self, document: AnyDocument) -> SegmentedDocument:
        """Cut a document into the passages that would be encoded, with its coverage."""
        return self.segmenter.segment(as_document(document))

    def graph(self, document: AnyDocument) -> DocumentGraph:
        """Build the graph that the model would see.

        Raises:
            DocumentError: the document has no text.
        """
        return build_graph(self._segment_one(document), self.model.config.graph)

    def encode(
        self,
        documents: AnyDocument | Iterable[AnyDocument],
        *,
        level: Level = "document",
        normalize: bool = False,
        dtype: Precision | None = None,
        output: Literal["numpy", "torch"] = "numpy",
        token_budget: int | None = None,
        show_progress: bool | None = None,
    ) -> Any:
        """Encode documents.

        Args:
            documents: one document or many; a string is a document without structure, a mapping a row.
            level: ``document`` for one vector each, ``section`` for one per section that has text, ``passage``.
            normalize: bring vectors to unit length.
            dtype: compute the transformer in this precision; vectors are fp32 all the same.
            output: ``numpy`` or ``torch``.
            token_budget: most tokens (with padding) that go through the transformer at once.
            show_progress: show a bar; None shows it on a terminal when the work is long.

        Returns:
            ``(documents, hidden)``; for the other levels a list with ``(sections, hidden)`` or ``(passages, hidden)``
            per document. For a single document, without the first axis.

        Raises:
            DocumentError: a document has no text, or something is no document.
            SettingsError: the level or another choice is unknown.
        """
        if output not in ("numpy", "torch"):
            raise SettingsError(f"output {output!r} is unknown; use numpy or torch")
        single = isinstance(documents, Document | str | Mapping)
        many: Iterable[AnyDocument] = [documents] if single else documents  # type: ignore[list-item, assignment]
        stream = self.stream(many, level=level, dtype=dtype, token_budget=token_budget, show_progress=show_progress)
        parts = [vectors for _, vectors in stream]
        if normalize:
            parts = [torch.nn.functional.normalize(part, dim=-1) for part in parts]
        if level == "document" and not single:
            return as_output(torch.cat(parts) if parts else torch.zeros(0, self.hidden_size), output)
        if single:
            return as_output(parts[0][0] if level == "document" else parts[0], output)
        return [as_output(part, output) for part in parts]

    def stream(
        self,
        documents: Iterable[AnyDocument | SegmentedDocument],
        *,
        level: Level = "document",
        dtype: Precision | None = None,
        token_budget: int | None = None,
        show_progress: bool | None = None,
        totals: Coverage | None = None,
        bar: tqdm[Any] | None = None,
    ) -> Iterator[tuple[SegmentedDocument, Tensor]]:
        """Encode documents one window after another, in constant memory.

        Args:
            documents: any number of documents, also such as :meth:`segment` gave.
            level: ``document``, ``section`` or ``passage``.
            dtype: compute the transformer in this precision.
            token_budget: most tokens (with padding) that go through the transformer at once.
            show_progress: show a bar; None shows it on a terminal when the work is long.
            totals: where coverage is added up; the caller then says what was left out, otherwise it is logged here.
            bar: a bar to advance by documents instead of one of this call's own.

        Yields:
            Every document with its vectors on the CPU, ``(1, hidden)``, ``(sections, hidden)`` or
            ``(passages, hidden)``, in the order given.

        Raises:
            DocumentError: a document has no text, or something is no document.
            SettingsError: the level or another choice is unknown.
        """
        if level not in LEVELS:
            raise SettingsError(f"level {level!r} is unknown; use one of {', '.join(LEVELS)}")
        windows = stream_windows(
            self.model,
            self.segmenter,
            documents,
            partial(self._precision, dtype),
            split=level == "section" and self.model.config.readout == "sections",
            token_budget=token_budget,
            show_progress=show_progress,
            totals=totals,
            bar=bar,
        )
        for window, _, output in windows:
            for position, (segmented, rows) in enumerate(zip(window, rows_of(window), strict=True)):
                yield segmented, vectors_at(level, segmented, output, position, rows)

    def with_passage_vectors(
        self, documents: Iterable[AnyDocument | SegmentedDocument], **options: Any
    ) -> Iterator[SegmentedDocument]:
        """Run the passage encoder alone, once for all models above it, such as those trained on a frozen one.

        See :func:`graphdoc.inference.encoded_passages.with_passage_vectors` for the options.
        """
        from .inference.encoded_passages import with_passage_vectors

        return with_passage_vectors(self, documents, **options)

    def predict(self, documents: Any, **options: Any) -> Predictions:
        """Tell which classes documents belong to, how likely each is, and which passages speak for them.

        See :func:`graphdoc.prediction.predict` for the options.

        Raises:
            ModelError: the model has no classification head.
        """
        from .prediction import predict

        return predict(self, documents, **options)

    def compare(
        self,
        a: AnyDocument | EncodedDocument,
        b: AnyDocument | EncodedDocument | None = None,
        *,
        sentences: bool = False,
        dtype: Precision | None = None,
    ) -> DrawnComparison:
        """Compare two documents at every level, or the parts of one document.

        Args:
            a: first document, encoded before (:meth:`encode_levels`) or not.
            b: second document; None compares the first with itself.
            sentences: also compare sentence by sentence.
            dtype: compute the transformer in this precision.

        Returns:
            Scores, best matches and contributions of documents, sections and passages.

        Raises:
            DocumentError: a document has no text.
            ModelError: a document was encoded by another model.
        """
        from .analysis.comparisons import DrawnComparison

        self._warn_if_untrained("scores")
        first = self._encoded(a, sentences, dtype)
        second = first if b is None else self._encoded(b, sentences, dtype)
        return DrawnComparison(first, second, self.describe(), self.model.config.similarity, within=b is None)

    def compare_all(
        self, documents: Iterable[AnyDocument | EncodedDocument], *, dtype: Precision | None = None
    ) -> DrawnMutualComparison:
        """Compare several documents, each with each and within itself, at every level.

        Args:
            documents: the documents, encoded before (:meth:`encode_levels`) or not.
            dtype: compute the transformer in this precision.

        Raises:
            DocumentError: a document has no text.
            ModelError: a document was encoded by another model.
        """
        from .analysis.comparisons import DrawnMutualComparison

        self._warn_if_untrained("scores")
        encoded = [self._encoded(document, False, dtype) for document in documents]
        return DrawnMutualComparison(encoded, self.describe(), self.model.config.similarity)

    def attention(self, document: AnyDocument) -> AttentionTable:
        """Tell which node attends to which, for every layer and head.

        Args:
            document: the document.

        Returns:
            A table of layer, head, source, target, edge kind and weight; weights of one target sum to 1. With the
            readout ``sections`` the document is split into its sections.

        Raises:
            DocumentError: the document has no text.
            SettingsError: the model has no attention.
        """
        from .analysis.attention import AttentionTable

        config = self.model.config
        split = config.readout == "sections"
        if split and not config.graph_layers and not config.chunk_attention_heads:
            raise SettingsError(f"{self.name} has no attention to show: graph_layers and chunk_attention_heads are 0")
        self._warn_if_untrained("weights")
        segmented = self._segment_one(document)
        batch, _, output = run_model(self.model, [segmented], self._precision(None), attention=True, split=split)
        return AttentionTable.of(segmented, batch, output, self.describe())

    def encode_levels(
        self, document: AnyDocument, *, sentences: bool = False, dtype: Precision | None = None
    ) -> EncodedDocument:
        """Encode one document at all levels, with everything that comparisons need.

        A document that is compared with many others is encoded once: ``compare`` takes what this returns.

        Raises:
            DocumentError: the document has no text.
        """
        segmented = self._segment_one(document)
        encoded = encode_at_all_levels(self.model, segmented, partial(self._precision, dtype))
        encoded = replace(encoded, model=self.describe())
        totals = Coverage()
        totals += segmented.coverage
        totals.warn(segmented.document.id)
        return self._with_sentences(encoded, dtype) if sentences else encoded

    def encode_to_disk(self, documents: Any, folder: str | Path, **options: Any) -> Manifest:
        """Encode a corpus into a folder of Parquet shards, resumable and in constant memory.

        See :func:`graphdoc.vectors.writer.encode_to_disk` for the options.
        """
        from .vectors.writer import encode_to_disk

        return encode_to_disk(self, documents, folder, **options)

    def _encoded(
        self, document: AnyDocument | EncodedDocument, sentences: bool, dtype: Precision | None
    ) -> EncodedDocument:
        """A document at all levels, encoded here unless it is already."""
        if not isinstance(document, EncodedDocument):
            return self.encode_levels(document, sentences=sentences, dtype=dtype)
        differences = [name for name, value in self.describe().items() if document.model.get(name) != value]
        if differences:
            raise ModelError(
                f"document {document.segmented.document.id!r} was encoded by {document.model.get('name')!r}, which "
                f"differs from {self.name!r} in {', '.join(differences[:3])}; encode it again"
            )
        needs_sentences = sentences and document.sentence_vectors is None
        return self._with_sentences(document, dtype) if needs_sentences else document

    def _with_sentences(self, encoded: EncodedDocument, dtype: Precision | None) -> EncodedDocument:
        spans, vectors = encode_sentences(self.model, self.segmenter, encoded.segmented, self._precision(dtype))
        return replace(encoded, sentences=spans, sentence_vectors=vectors)

    def _warn_if_untrained(self, numbers: str) -> None:
        if not self.model.config.trained:
            message = "%s was not trained to compare documents: its %s mean little; use mini, or train it"
            logger.warning(message, self.name, numbers)

    def _segment_one(self, document: AnyDocument) -> SegmentedDocument:
        segmented = self.segment(as_document(document))
        require_text(segmented)
        return segmented

    def _precision(self, dtype: Precision | None) -> AbstractContextManager[Any]:
        return computed_in(dtype, self.model.passage_encoder, self.name)
