"""A document model with all that inference needs: documents in, vectors out."""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Literal, Self, TypedDict, Unpack, cast, get_args, overload

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerBase

from ..checkpoints.backbones import segmenter_of
from ..errors import ModelError
from ..graphs.batch import BatchTerms, GraphBatch, Packing
from ..modeling import DocumentConfig, DocumentModel
from ..modeling.lexical import LexicalReader
from ..runtime import progress
from ..runtime.arrays import Vectors
from ..runtime.memory import give_back_memory
from ..runtime.other_names import ENCODING, require_known
from ..runtime.processes import move_to_device, survive_forks
from ..runtime.text import counted, require_one_of, require_whole
from ..segmentation.repeats import RepeatFilter
from ..segmentation.spans import Coverage, SegmentedDocument
from ..similarity.background import Background
from ..similarity.evidence import Reference
from ..similarity.kinds import similarity_of
from .levels import stream_sentences
from .precision import (
    PRECISIONS,
    LoadPrecision,
    Precision,
    computed_in,
    faster_precision,
    inference,
    require_finite,
    require_precision,
)
from .segmenting import AnyDocument, ManyDocuments, Window, as_document, cut_windows, is_single, require_text

logger = logging.getLogger("graphdoc")

Level = Literal["document", "section", "passage", "sentence"]
LEVELS: tuple[str, ...] = get_args(Level)

# Threads that share an encoder measure once.
_SETTLING = threading.Lock()


class EncodingOptions(TypedDict, total=False):
    """Options of encoding documents, as :meth:`EncodingPipeline.windows` describes them."""

    dtype: Precision | None
    token_budget: int | None
    padding: float | None
    show_progress_bar: bool | None
    workers: int | None


class StreamOptions(EncodingOptions, total=False):
    """Options of encoding with what counts a stream of documents (see :meth:`EncodingPipeline.windows`)."""

    totals: Coverage | None
    bar: tqdm[Any] | None


class EncodeOptions(EncodingOptions, total=False):
    """Options of :meth:`EncodingPipeline.encode`."""

    normalize_embeddings: bool
    batch_size: int | None
    convert_to_numpy: bool


SingleDocument = AnyDocument | SegmentedDocument
Whole = Literal["document"]
Parts = Literal["section", "passage", "sentence"]
Numpy = Literal[False]
Torch = Literal[True]


class EncodingPipeline:
    """A document model with its tokenizer, on a device and in a precision.

    Args:
        model: the model.
        tokenizer: tokenizer of its passage encoder.
        name: what to call it in records.
        device: where it runs; None takes an accelerator when there is one.
        dtype: precision of the transformer's weights; graph and readout stay in fp32. ``auto`` takes bfloat16 where a
            matrix product in it is at least 1.3 times as fast on this machine.
    """

    def __init__(
        self,
        model: DocumentModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        name: str = "unnamed",
        device: str | torch.device | None = None,
        dtype: LoadPrecision = "float32",
    ) -> None:
        require_precision(dtype, may_be_auto=True)
        self.model: DocumentModel = model.train(False)
        self.tokenizer = tokenizer
        self.name = name
        self.segmenter = segmenter_of(cast(DocumentConfig, model.config), tokenizer, name)
        move_to_device(self.model, device)
        # A list, which encoders that share the weights share too; empty until ``auto`` is settled by the first use.
        self._precision: list[str] = []
        self._reader: LexicalReader | None = None
        if dtype != "auto":
            self.settle_precision(dtype)

    @property
    def device(self) -> torch.device:
        """The device that the model runs on."""
        return self.model.device

    @property
    def hidden_size(self) -> int:
        """Length of a document vector."""
        return self.vector_size()

    def vector_size(self, level: Level = "document") -> int:
        """Length of a vector of a level; that of passages and sentences may differ."""
        config, lexical = self.model.config, self.model.lexical
        size = config.node_size if level in ("passage", "sentence") else config.hidden_size
        return int(size) + (0 if lexical is None else lexical.settings.size)

    @property
    def lexical(self) -> LexicalReader | None:
        """The reader of the words of texts; None for a model without a lexical part."""
        part, weight = self.model.lexical, float(self.model.config.lexical_weight)
        if part is None:
            return None
        if self._reader is None or self._reader.part is not part or self._reader.weight != weight:
            self._reader = LexicalReader(part, weight)
        return self._reader

    @property
    def background(self) -> Background | None:
        """How alike unrelated documents are; None for a model that was not fitted to documents."""
        values = self.model.config.background
        return None if values is None else Background.from_values(values)

    @property
    def evidence(self) -> Reference | None:
        """The model's own reference, by which ``similarity=evidence`` measures few documents; None if it has none."""
        values, lexical = (self.model.config.background or {}).get("evidence"), self.model.lexical
        if values is None or lexical is None or not similarity_of(self.model.config.similarity).reads_reference:
            return None
        return Reference.from_values(values, dict(zip(lexical.vocabulary, lexical.idf.tolist(), strict=True)))

    def describe(self) -> dict[str, Any]:
        """The model and its settings as plain values, for records and reports, with what it leaves out as repeated."""
        repeats = None if self.segmenter.repeats is None else self.segmenter.repeats.describe()
        more = {"max_passages": self.segmenter.config.max_passages, **({"repeats": repeats} if repeats else {})}
        return {"name": self.name, **self.model.config.describe(), "dtype": self.precision, **more}

    def with_max_passages(self, most: int | None) -> Self:
        """The same encoder, its weights shared, that encodes so many passages of a document, or all."""
        result = copy.copy(self)
        result.segmenter = self.segmenter.with_settings(max_passages=most)
        return result

    def without_repeats(self, repeats: RepeatFilter | None) -> Self:
        """The same encoder, its weights shared, that leaves out of documents what repeats in their corpus.

        Args:
            repeats: what :func:`~graphdoc.segmentation.find_repeats` found in the corpus; None leaves nothing out.
        """
        result = copy.copy(self)
        result.segmenter = copy.copy(self.segmenter)
        result.segmenter.repeats = repeats
        return result

    @property
    def precision(self) -> str:
        """The precision of the transformer's weights; measures if it is still open."""
        return self.settle_precision()

    @property
    def is_precision_open(self) -> bool:
        """Whether the precision is ``auto`` and not chosen yet, which the first use does."""
        return not self._precision

    def settle_precision(self, dtype: str | None = None) -> str:
        """Choose the precision if it is open, without measuring where it is given, and bring the weights to it."""
        with _SETTLING:
            if not self._precision:
                encoder = self.model.passage_encoder
                if dtype is None:
                    dtype = faster_precision(encoder, int(encoder.transformer.config.hidden_size))
                encoder.to(PRECISIONS[dtype])
                self._precision.append(dtype)
            return self._precision[0]

    def segment(self, document: AnyDocument) -> SegmentedDocument:
        """Cut a document into the passages that would be encoded, with its coverage."""
        return self.segmenter.segment(as_document(document))

    def segment_with_text(self, document: AnyDocument) -> SegmentedDocument:
        """Cut a document into passages; a DocumentError says that it has none."""
        segmented = self.segment(document)
        require_text(segmented)
        return segmented

    @overload
    def encode(  # type: ignore[overload-overlap]
        self, documents: SingleDocument, *, level: Level = ...,
        convert_to_tensor: Numpy = ..., **options: Unpack[EncodeOptions],
    ) -> Vectors: ...  # fmt: skip
    @overload
    def encode(  # type: ignore[overload-overlap]
        self, documents: SingleDocument, *, level: Level = ...,
        convert_to_tensor: Torch, **options: Unpack[EncodeOptions],
    ) -> Tensor: ...  # fmt: skip
    @overload
    def encode(
        self, documents: ManyDocuments, *, level: Whole = ...,
        convert_to_tensor: Numpy = ..., **options: Unpack[EncodeOptions],
    ) -> Vectors: ...  # fmt: skip
    @overload
    def encode(
        self, documents: ManyDocuments, *, level: Whole = ...,
        convert_to_tensor: Torch, **options: Unpack[EncodeOptions],
    ) -> Tensor: ...  # fmt: skip
    @overload
    def encode(
        self, documents: ManyDocuments, *, level: Parts,
        convert_to_tensor: Numpy = ..., **options: Unpack[EncodeOptions],
    ) -> list[Vectors]: ...  # fmt: skip
    @overload
    def encode(
        self, documents: ManyDocuments, *, level: Parts,
        convert_to_tensor: Torch, **options: Unpack[EncodeOptions],
    ) -> list[Tensor]: ...  # fmt: skip
    def encode(
        self,
        documents: SingleDocument | ManyDocuments,
        *,
        level: Level = "document",
        normalize_embeddings: bool = False,
        batch_size: int | None = None,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        **options: Any,
    ) -> Vectors | Tensor | list[Vectors] | list[Tensor]:
        """Encode documents.

        Args:
            documents: one document or many; a string is a document without structure, a mapping or a pandas row a row.
            level: ``document`` for one vector each, ``section`` for one per section that has text, ``passage``, or
                ``sentence`` for all sentences, without the graph (see ``sentence_document`` of the settings).
            normalize_embeddings: L2-normalize the vectors.
            batch_size: how many of the longest passages go through the transformer at once, at most.
            convert_to_numpy: return arrays; False for tensors.
            convert_to_tensor: return tensors in any case.
            **options: ``dtype``, ``token_budget``, ``padding``, ``show_progress_bar`` and ``workers``; see
                :meth:`windows`.

        Returns:
            ``(documents, hidden)`` in fp32; for the other levels a list with ``(sections, hidden)``,
            ``(passages, node size)`` or ``(sentences, node size)`` per document; of one alone, its array.

        Raises:
            DocumentError: a document has no text, or something is no document.
            SettingsError: the level or another choice is unknown.

        >>> from graphdoc import DocumentEncoder
        >>> encoder = DocumentEncoder.from_pretrained("mini", device="cpu")
        >>> encoder.encode(["Rice is steamed.", "Tides rise."]).shape
        (2, 896)
        """
        if options.keys() - EncodingOptions.__annotations__:
            require_known(options, ("level", "convert_to_tensor", *EncodeOptions.__annotations__), ENCODING)
        options.setdefault("token_budget", self._budget_of(batch_size))
        as_tensor = convert_to_tensor or not convert_to_numpy
        parts = [vectors for _, vectors in self.stream(documents, level=level, **options)]
        if normalize_embeddings:
            parts = [torch.nn.functional.normalize(part, dim=-1) for part in parts]
        if not is_single(documents) and level != "document":
            return parts if as_tensor else [part.numpy() for part in parts]
        if is_single(documents):
            found = parts[0][0] if level == "document" else parts[0]
        else:
            found = torch.cat(parts) if parts else torch.zeros(0, self.hidden_size)
        return found if as_tensor else found.numpy()

    def _budget_of(self, batch_size: int | None) -> int | None:
        """Most tokens of a mini-batch that holds a number of passages, if all are of full length."""
        require_whole("batch_size", batch_size, least=1)
        return batch_size and batch_size * self.model.config.passage_tokens

    def windows(
        self,
        documents: SingleDocument | ManyDocuments,
        *,
        split: bool = False,
        dtype: Precision | None = None,
        token_budget: int | None = None,
        padding: float | None = None,
        show_progress_bar: bool | None = None,
        workers: int | None = None,
        totals: Coverage | None = None,
        bar: tqdm[Any] | None = None,
    ) -> Iterator[Window]:
        """Run the model over any number of documents, one window after another, in constant memory.

        Args:
            documents: one document or many, also such as :meth:`segment` gave.
            split: whether documents are split into their sections, for readouts that read them so.
            dtype: compute the transformer in this precision; None for that of its weights.
            token_budget: most tokens (with padding) that go through the transformer at once.
            padding: largest share of padding in a well-filled mini-batch, 0 to 1; None for the usual one.
            show_progress_bar: show a bar; None shows it on a terminal when the work is long.
            workers: processes that cut and tokenize ahead; None for as many as suit the machine once there are many
                documents, 0 for none. The vectors are the same.
            totals: where coverage is added up; the caller then says what was left out, otherwise it is logged here.
            bar: a bar to advance by documents instead of one of this call's own.

        Raises:
            DocumentError: a document has no text, or something is no document.
            SettingsError: an option is out of range.
        """
        packing = Packing.on(self.device, token_budget, padding)
        cut = cut_windows(documents, self.segmenter, self.device, show_progress_bar, workers, totals, bar)
        for window, shown in cut:
            yield self.run(window, split=split, dtype=dtype, packing=packing, bar=shown)
            give_back_memory()

    def stream(
        self, documents: SingleDocument | ManyDocuments, *, level: Level = "document", **options: Unpack[StreamOptions]
    ) -> Iterator[tuple[SegmentedDocument, Tensor]]:
        """Encode documents one window after another, in constant memory.

        Args:
            documents: one document or many, also such as :meth:`segment` gave.
            level: ``document``, ``section``, ``passage`` or ``sentence``.
            **options: see :meth:`windows`.

        Yields:
            Every document with its vectors on the CPU, ``(1, hidden)``, ``(sections, hidden)``,
            ``(passages, node size)`` or ``(sentences, node size)``, in the order given.
        """
        require_one_of("level", level, LEVELS)
        if level == "sentence":
            yield from stream_sentences(self, documents, **options)
            return
        split = level == "section" and self.model.readout.has_sections
        lexical, counts = self.lexical, None
        read = unknown = 0
        for window in self.windows(documents, split=split, **options):
            if lexical is not None:
                counts = lexical.counts(text for one in window.documents for text in one.texts)
                known = np.add.reduceat(np.diff(counts.indptr), [rows.start for rows in window.rows])
                read, unknown = read + len(known), unknown + int((known == 0).sum())
            yield from zip(window.documents, window.vectors(level, lexical, counts), strict=True)
        if unknown:
            logger.warning(
                "%d of %s: no word that the lexical part of %s knows (language %r), and so no lexical vector; fit the "
                "model to such documents (graphdoc fit, or encoder.fit)",
                unknown,
                counted(read, "document"),
                self.name,
                self.model.config.language,
            )

    def with_passage_vectors(
        self, documents: ManyDocuments, **options: Unpack[StreamOptions]
    ) -> Iterator[SegmentedDocument]:
        """Run the passage encoder alone, once for all models above it, such as those trained on a frozen one.

        Returns:
            Every document, cut, tokenized and with the vectors of its passages, in the order given. It can be encoded,
            predicted and measured by encoders with the same passage encoder, whose transformer does not run again.

        Raises:
            ModelError: the model has structural embeddings, with which these vectors depend on the split.
        """
        if self.model.structural_embeddings is not None:
            raise ModelError(
                f"{self.name} has structural embeddings, with which the vectors of passages depend on how documents "
                "are split; encode the documents themselves"
            )
        return (
            replace(segmented, passage_vectors=vectors)
            for window in self.windows(documents, **options)
            for segmented, vectors in zip(window.documents, window.pooled(), strict=True)
        )

    def run(
        self,
        documents: Sequence[SegmentedDocument],
        batch: GraphBatch | None = None,
        *,
        split: bool = False,
        output_attentions: bool = False,
        dtype: Precision | None = None,
        packing: Packing | None = None,
        bar: tqdm[Any] | None = None,
    ) -> Window:
        """Run the model over documents together, in eval mode and without gradients.

        Args:
            documents: the documents.
            batch: their graphs; None builds those that the vectors depend on.
            split: whether documents are split into their sections.
            output_attentions: whether the output holds attention weights.
            dtype: compute the transformer in this precision.
            packing: how passages are packed into mini-batches; None for the rule of the device.
            bar: a bar to advance by documents while their passages are encoded.

        Raises:
            ModelError: a number in the output is infinite or NaN, or passage vectors are those of another encoder.
        """
        self.require_vectors()
        if batch is None:
            config = self.model.config
            reads_graph = bool(config.graph_layers) and (output_attentions or not self.model.reads_initial_nodes)
            batch = GraphBatch.from_documents(documents, config.graph if reads_graph else None, split=split)
            if batch.passage_vectors is not None:
                self.require_own_vectors(batch.passage_vectors)
                if bar is not None:
                    bar.update(len(documents))
        if (head := self.model.head) is not None and head.words is not None and self.lexical is not None and documents:
            batch = replace(batch, words=BatchTerms.from_matrix(self.lexical.of_documents(documents)))
        batch = batch.to(self.device)
        advance = None if bar is None else progress.PartProgress(bar, len(documents), len(batch.token_ids), "passages")
        survive_forks()
        with inference(self.model):
            with self.computing_in(dtype):
                vectors = self.model.encode_passages(batch, packing, advance)
            output = self.model.encode_graphs(vectors, batch, output_attentions)
        require_finite(output.documents, output.passages, output.logits)
        return Window(documents, batch, vectors, output)

    def computing_in(self, dtype: Precision | None) -> AbstractContextManager[Any]:
        """A context in which the transformer computes in a precision; None for that of its weights."""
        self.settle_precision()
        return computed_in(dtype, self.model.passage_encoder, self.name)

    def require_vectors(self) -> None:
        """Refuse to encode single documents with a model that reads two together."""
        config = self.model.config
        if config.views is not None and config.matching.encoder == "cross":
            raise ModelError(
                f"{self.name} reads two documents together and has no vectors of single ones; use graphdoc match or "
                "encoder.match, or another model"
            )

    def require_own_vectors(self, vectors: Tensor) -> None:
        """Refuse passage vectors ``(passages, width)`` that this model's passage encoder cannot have made."""
        width, reason = self.model.config.passage_size, None
        if vectors.shape[1] != width:
            reason = f"their vectors have {vectors.shape[1]} numbers, this one's {width}"
        elif self.model.structural_embeddings is not None:
            reason = "this one has structural embeddings, with which they depend on how documents are split"
        if reason is not None:
            raise ModelError(f"these passages were encoded for another model ({reason}); segment them again")
