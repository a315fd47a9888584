"""Queries to vectors, and the similarity of vectors."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any, TypedDict, Unpack, overload

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..documents.document import Document
from ..errors import DocumentError, SettingsError
from ..graphs.batch import GraphBatch, Packing
from ..graphs.kinds import JoinedGraphs
from ..runtime.arrays import Floats, Vectors
from ..runtime.other_names import ENCODING, require_known
from ..runtime.progress import number_of, progress_bar
from ..runtime.text import counted, described
from ..segmentation.segmenter import SegmentationConfig, Segmenter
from ..segmentation.spans import SegmentedDocument
from ..similarity.kinds import maxsim, packed, similarity_matrix, similarity_of, similarity_of_tensors
from .pipeline import EncodingPipeline, Numpy, Torch
from .precision import Precision
from .segmenting import WINDOW_PASSAGES, AnyDocument, as_document, documents_of, is_single

logger = logging.getLogger("graphdoc")

QueryInput = AnyDocument | Iterable[AnyDocument]


class QueryOptions(TypedDict, total=False):
    """Options of :meth:`VectorPipeline.encode_query`, as those of ``encode``."""

    normalize_embeddings: bool
    dtype: Precision | None
    show_progress_bar: bool | None
    batch_size: int | None
    convert_to_numpy: bool


def segment_queries(pipeline: EncodingPipeline, queries: Iterable[AnyDocument]) -> Iterator[SegmentedDocument]:
    """Cut queries to one passage each, and tokenize them; at the end it is logged how many were longer.

    Raises:
        DocumentError: a query has no text.
    """
    config = pipeline.model.config
    segmenter = Segmenter(
        pipeline.segmenter.tokenizer,
        SegmentationConfig(
            max_tokens=config.passage_tokens,
            max_passages=1,
            language=config.language,
            unit="chunk",
            prompt=config.query_prompt,
        ),
    )
    cut = left_out = 0
    # A text that could name a file is no file here: people search for OpenOffice.org.
    documents = (Document.from_text(query) if isinstance(query, str) else as_document(query) for query in queries)
    for one in segmenter.segment_many(documents):
        if not one.passages:
            raise DocumentError(f"query {one.document.text!r} has no text to encode; leave it out")
        cut += one.coverage.documents_not_whole
        left_out += sum(one.coverage.left_out.values())
        yield one
    if cut:
        logger.warning(
            "%s cut at passage_tokens=%d (%s left out); shorten them, or encode them as documents",
            "1 query was" if cut == 1 else f"{cut:,} queries were",
            config.passage_tokens,
            counted(left_out, "character"),
        )


def encode_queries(pipeline: EncodingPipeline, queries: Iterable[SegmentedDocument], **options: Any) -> Tensor:
    """Encode queries as :func:`segment_queries` cut them, ``(queries, hidden)`` on the CPU; options are those of run.

    As in training a query is a graph of one node, read before graph attention (Graph-RoBERTa, section 3.3).
    """
    segmented, vectors = iter(queries), list[Tensor]()
    while window := list(islice(segmented, WINDOW_PASSAGES)):
        graphs = JoinedGraphs.from_queries([0] * len(window))
        batch = GraphBatch.from_graphs(graphs, tuple(one.token_ids[0] for one in window))
        documents = pipeline.run(window, batch, **options).output.documents
        assert documents is not None
        documents = documents.cpu()
        if (lexical := pipeline.lexical) is not None:
            documents = lexical.append_to(documents, lexical.counts(one.texts[0] for one in window))
        vectors.append(documents)
    return torch.cat(vectors) if vectors else torch.zeros(0, pipeline.hidden_size)


class VectorPipeline(EncodingPipeline):
    """A pipeline that also encodes queries, and compares vectors."""

    encode_document = EncodingPipeline.encode

    @overload
    def encode_query(
        self, queries: QueryInput, *, convert_to_tensor: Numpy = ..., **options: Unpack[QueryOptions]
    ) -> Vectors: ...
    @overload
    def encode_query(
        self, queries: QueryInput, *, convert_to_tensor: Torch, **options: Unpack[QueryOptions]
    ) -> Tensor: ...
    def encode_query(
        self,
        queries: QueryInput,
        *,
        normalize_embeddings: bool = False,
        dtype: Precision | None = None,
        show_progress_bar: bool | None = None,
        batch_size: int | None = None,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        **unknown: Any,
    ) -> Vectors | Tensor:
        """Encode queries, to be compared with documents.

        A query is one passage, and its vector is the one it has before graph attention, as in training (Graph-RoBERTa,
        section 3.3). What exceeds ``passage_tokens`` is cut off and reported.

        Returns:
            ``(queries, hidden)`` in fp32; for a single query without the first axis.

        Raises:
            DocumentError: a query has no text.

        >>> from graphdoc import DocumentEncoder
        >>> encoder = DocumentEncoder.from_pretrained("mini", device="cpu")
        >>> query = encoder.encode_query("steamed rice")
        >>> encoder.similarity(query, encoder.encode(["Rice is steamed.", "Tides rise."])).argmax(axis=1)
        array([0])
        """
        if unknown:
            require_known(unknown, (*QueryOptions.__annotations__, "convert_to_tensor"), ENCODING)
        packing = None if batch_size is None else Packing.on(self.device, self._budget_of(batch_size))
        documents = documents_of(queries)
        with progress_bar(show_progress_bar, partial(number_of, documents), unit="queries") as bar:
            cut = ((bar.update(1), query) for query in segment_queries(self, documents))
            vectors = encode_queries(self, (query for _, query in cut), dtype=dtype, packing=packing)
        if normalize_embeddings:
            vectors = torch.nn.functional.normalize(vectors, dim=-1)
        if is_single(queries):
            vectors = vectors[0]
        return vectors if convert_to_tensor or not convert_to_numpy else vectors.numpy()

    @overload
    def similarity(self, embeddings1: Tensor | list[Tensor], embeddings2: Tensor | list[Tensor]) -> Tensor: ...
    @overload
    def similarity(self, embeddings1: npt.ArrayLike, embeddings2: npt.ArrayLike) -> Floats: ...
    def similarity(self, embeddings1: Any, embeddings2: Any) -> Tensor | Floats:
        """Compare vectors by the similarity of the model: cosine, dot product or, passage by passage, MaxSim.

        A model whose similarity is ``evidence``, such as ``mini``, compares vectors by cosine here.

        Args:
            embeddings1: ``(rows, hidden)``, arrays or tensors; a single vector is one row. For a model that compares
                passages a list with those of every document, as ``encode(level="passage")`` gives them.
            embeddings2: ``(columns, hidden)``, or a list too.

        Returns:
            ``(rows, columns)``, a tensor for tensors.

        >>> from graphdoc import DocumentEncoder
        >>> encoder = DocumentEncoder.from_pretrained("mini", device="cpu")
        >>> encoder.similarity([3.0, 4.0], [[3.0, 4.0], [4.0, -3.0]])
        array([[1., 0.]])
        """
        a, b = embeddings1, embeddings2
        kind = similarity_of(self.model.config.similarity)
        try:
            if kind.reads_passages:
                sides = [[torch.as_tensor(one) for one in value] for value in (a, b)]
                if any(one.ndim != 2 or not len(one) for side in sides for one in side):
                    raise ValueError("not lists of the passage vectors of documents")
                scores = maxsim(*packed(sides[0]), *packed(sides[1]))
                is_torch = isinstance(a[0], Tensor) and isinstance(b[0], Tensor)
                return scores if is_torch else scores.cpu().numpy().astype(np.float64)
            is_torch = isinstance(a, Tensor) and isinstance(b, Tensor)
            rows: list[Any] = [value if is_torch else np.asarray(value, np.float64) for value in (a, b)]
            left, right = (value[None] if value.ndim == 1 else value for value in rows)
            if left.ndim != 2 or right.ndim != 2:
                raise ValueError(f"shapes {tuple(left.shape)} and {tuple(right.shape)}")
            if is_torch:
                return similarity_of_tensors(left, right, kind.vector_similarity)
            return similarity_matrix(left, right, kind.vector_similarity)
        except (TypeError, ValueError, IndexError, RuntimeError) as error:
            needed = "encode([...], level='passage')" if kind.reads_passages else "encode or encode_query"
            raise SettingsError(
                f"{described(a)} and {described(b)} cannot be compared ({error}); give what {needed} returns"
            ) from error

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Tensor | Floats:
        """Compare every vector with the one of the same row (see :meth:`similarity`), ``(rows,)``."""
        a, b = (value[None] if isinstance(value, Tensor) else [value] for value in (embeddings1, embeddings2))
        if not len(embeddings1) or np.ndim(embeddings1[0]):
            a, b = embeddings1, embeddings2
        if len(a) != len(b):
            raise SettingsError(f"{len(a):,} and {len(b):,} rows are no pairs; give as many of both")
        if not len(a):
            return a.new_zeros(0) if isinstance(a, Tensor) else np.zeros(0)
        rows = [slice(start, start + 64) for start in range(0, len(a), 64)]
        scores: list[Any] = [self.similarity(a[some], b[some]).diagonal() for some in rows]
        return torch.cat(scores) if isinstance(scores[0], Tensor) else np.concatenate(scores)
