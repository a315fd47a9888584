"""Documents and queries to vectors, and the similarity of vectors."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Literal, TypeVar, Unpack, overload

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..errors import DocumentError, SettingsError
from ..graphs.batch import GraphBatch
from ..graphs.kinds import JoinedGraphs
from ..runtime.text import counted, described, require_one_of
from ..segmentation.segmenter import SegmentationConfig, Segmenter
from ..segmentation.spans import SegmentedDocument
from ..similarity.encoded_document import Vectors
from ..similarity.kinds import Floats, maxsim, packed, similarity_matrix, similarity_of, similarity_of_tensors
from .pipeline import EncodingOptions, EncodingPipeline, Level
from .precision import Precision
from .segmenting import WINDOW_PASSAGES, AnyDocument, as_document, documents_of, is_single

logger = logging.getLogger("graphdoc")


def encode_queries(
    pipeline: EncodingPipeline, queries: Iterable[AnyDocument], *, dtype: Precision | None = None
) -> Tensor:
    """Encode queries as they are in training: a graph of one node, read before graph attention.

    A query is one passage. What exceeds ``passage_tokens`` is cut off and reported. Source: Graph-RoBERTa, 3.3.

    Args:
        pipeline: the model.
        queries: the queries.
        dtype: compute the transformer in this precision.

    Returns:
        ``(queries, hidden)`` on the CPU.

    Raises:
        DocumentError: a query has no text.
    """
    return encode_segmented_queries(pipeline, segment_queries(pipeline, queries), dtype=dtype)


def encode_segmented_queries(
    pipeline: EncodingPipeline, queries: Iterable[SegmentedDocument], *, dtype: Precision | None = None
) -> Tensor:
    """Encode queries that :func:`segment_queries` cut; see :func:`encode_queries`."""
    segmented, vectors = iter(queries), [torch.zeros(0, pipeline.hidden_size)]
    while window := list(islice(segmented, WINDOW_PASSAGES)):
        batch = GraphBatch.from_graphs(
            JoinedGraphs.of_queries([0] * len(window)), tuple(one.token_ids[0] for one in window)
        )
        documents = pipeline.run(window, batch, dtype=dtype).output.documents
        assert documents is not None
        found = documents.cpu()
        if (lexical := pipeline.lexical) is not None:
            found = lexical.beside(found, lexical.counts(one.texts[0] for one in window))
        vectors.append(found)
    return torch.cat(vectors)


def segment_queries(pipeline: EncodingPipeline, queries: Iterable[AnyDocument]) -> Iterator[SegmentedDocument]:
    """Cut queries to one passage each, and tokenise them; at the end it is said how many were longer.

    Args:
        pipeline: the model.
        queries: the queries.

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
    for one in segmenter.segment_many(map(as_document, queries)):
        if not one.passages:
            raise DocumentError(f"query {one.document.text!r} has no text to encode; leave it out")
        cut += one.coverage.documents_not_whole
        left_out += sum(one.coverage.left_out.values())
        yield one
    if cut:
        logger.warning(
            "%s cut at passage_tokens=%d (%s left out); shorten them, or encode them as documents",
            f"{counted(cut, 'query').replace('querys', 'queries')} {'was' if cut == 1 else 'were'}",
            config.passage_tokens,
            counted(left_out, "character"),
        )


logger = logging.getLogger(__name__)

Parts = Literal["section", "passage", "sentence"]
Matrix = TypeVar("Matrix", Tensor, Floats)
Many = Iterable[AnyDocument | SegmentedDocument]


class VectorPipeline(EncodingPipeline):
    """A pipeline that gives vectors in memory, of documents at every level and of queries."""

    @overload
    def encode(  # type: ignore[overload-overlap]
        self,
        documents: AnyDocument | SegmentedDocument,
        *,
        level: Level = "document",
        normalize: bool = False,
        output: Literal["numpy"] = "numpy",
        **options: Unpack[EncodingOptions],
    ) -> Vectors: ...
    @overload
    def encode(  # type: ignore[overload-overlap]
        self,
        documents: AnyDocument | SegmentedDocument,
        *,
        level: Level = "document",
        normalize: bool = False,
        output: Literal["torch"],
        **options: Unpack[EncodingOptions],
    ) -> Tensor: ...
    @overload
    def encode(
        self,
        documents: Many,
        *,
        level: Literal["document"] = "document",
        normalize: bool = False,
        output: Literal["numpy"] = "numpy",
        **options: Unpack[EncodingOptions],
    ) -> Vectors: ...
    @overload
    def encode(
        self,
        documents: Many,
        *,
        level: Literal["document"] = "document",
        normalize: bool = False,
        output: Literal["torch"],
        **options: Unpack[EncodingOptions],
    ) -> Tensor: ...
    @overload
    def encode(
        self,
        documents: Many,
        *,
        level: Parts,
        normalize: bool = False,
        output: Literal["numpy"] = "numpy",
        **options: Unpack[EncodingOptions],
    ) -> list[Vectors]: ...
    @overload
    def encode(
        self,
        documents: Many,
        *,
        level: Parts,
        normalize: bool = False,
        output: Literal["torch"],
        **options: Unpack[EncodingOptions],
    ) -> list[Tensor]: ...
    def encode(
        self,
        documents: AnyDocument | SegmentedDocument | Many,
        *,
        level: Level = "document",
        normalize: bool = False,
        output: Literal["numpy", "torch"] = "numpy",
        **options: Unpack[EncodingOptions],
    ) -> Vectors | Tensor | list[Vectors] | list[Tensor]:
        """Encode documents.

        Args:
            documents: one document or many; a string is a document without structure, a mapping a row. A pandas table
                gives its rows.
            level: ``document`` for one vector each, ``section`` for one per section that has text, ``passage``, or
                ``sentence`` for all sentences, without the graph (see ``sentence_document`` of the settings).
            normalize: bring vectors to unit length.
            output: ``numpy`` or ``torch``.
            **options: ``dtype``, ``token_budget``, ``padding``, ``show_progress`` and ``workers``; see
                :meth:`windows`.

        Returns:
            ``(documents, hidden)`` in fp32; for the other levels a list with ``(sections, hidden)``,
            ``(passages, node size)`` or ``(sentences, node size)`` per document. For a single document, without the
            first axis.

        Raises:
            DocumentError: a document has no text, or something is no document.
            SettingsError: the level or another choice is unknown.

        >>> from graphdoc import DocumentEncoder
        >>> encoder = DocumentEncoder.from_pretrained("mini", device="cpu")
        >>> encoder.encode(["Rice is steamed.", "Tides rise."]).shape
        (2, 896)
        """
        require_one_of("output", output, ("numpy", "torch"))
        parts = [vectors for _, vectors in self.stream(documents, level=level, **options)]
        if normalize:
            parts = [torch.nn.functional.normalize(part, dim=-1) for part in parts]
        if is_single(documents):
            found = parts[0][0] if level == "document" else parts[0]
        elif level == "document":
            found = torch.cat(parts) if parts else torch.zeros(0, self.hidden_size)
        elif output == "torch":
            return parts
        else:
            return [part.numpy() for part in parts]
        return found if output == "torch" else found.numpy()

    @overload
    def encode_query(
        self,
        queries: AnyDocument | Iterable[AnyDocument],
        *,
        normalize: bool = False,
        dtype: Precision | None = None,
        output: Literal["numpy"] = "numpy",
    ) -> Vectors: ...
    @overload
    def encode_query(
        self,
        queries: AnyDocument | Iterable[AnyDocument],
        *,
        normalize: bool = False,
        dtype: Precision | None = None,
        output: Literal["torch"],
    ) -> Tensor: ...
    def encode_query(
        self,
        queries: AnyDocument | Iterable[AnyDocument],
        *,
        normalize: bool = False,
        dtype: Precision | None = None,
        output: Literal["numpy", "torch"] = "numpy",
    ) -> Vectors | Tensor:
        """Encode queries, to be compared with documents.

        A query is one passage, and its vector is the one it has before graph attention, as in training (Graph-RoBERTa,
        section 3.3).

        Args:
            queries: one query or many.
            normalize: bring vectors to unit length.
            dtype: compute the transformer in this precision.
            output: ``numpy`` or ``torch``.

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
        require_one_of("output", output, ("numpy", "torch"))
        found = encode_queries(self, documents_of(queries), dtype=dtype)
        if normalize:
            found = torch.nn.functional.normalize(found, dim=-1)
        found = found[0] if is_single(queries) else found
        return found if output == "torch" else found.numpy()

    @overload
    def similarity(self, a: Tensor | list[Tensor], b: Tensor | list[Tensor]) -> Tensor: ...
    @overload
    def similarity(self, a: npt.ArrayLike, b: npt.ArrayLike) -> Floats: ...
    def similarity(
        self, a: Tensor | list[Tensor] | npt.ArrayLike, b: Tensor | list[Tensor] | npt.ArrayLike
    ) -> Tensor | Floats:
        """Compare vectors by the similarity of the model: cosine, dot product or, passage by passage, MaxSim.

        Args:
            a: ``(rows of a, hidden)``, arrays or tensors; a single vector is one row. For a model that compares
                passages a list with those of every document, as ``encode(level="passage")`` gives them.
            b: ``(rows of b, hidden)``, or a list too.

        Returns:
            ``(rows of a, rows of b)``, a tensor for tensors.

        Raises:
            SettingsError: they are no vectors of one length.

        >>> from graphdoc import DocumentEncoder
        >>> encoder = DocumentEncoder.from_pretrained("mini", device="cpu")
        >>> encoder.similarity([3.0, 4.0], [[3.0, 4.0], [4.0, -3.0]])
        array([[1., 0.]])
        """
        how = similarity_of(self.model.config.similarity)
        if how.reads_passages:
            return _passage_similarity(self.name, a, b)
        kind = how.vectors
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            return similarity_of_tensors(*_rows(a, b), kind)
        try:
            left, right = (np.asarray(value, np.float64) for value in (a, b))
        except (TypeError, ValueError) as error:
            raise SettingsError(
                f"{described(a)} and {described(b)} are not both vectors; give what encode or encode_query returns"
            ) from error
        return similarity_matrix(*_rows(left, right), kind)


def _passage_similarity(name: str, a: Any, b: Any) -> Tensor | Floats:
    """MaxSim of documents given as lists of passage vectors.

    Raises:
        SettingsError: they are no such lists.
    """
    sides = []
    for value in (a, b):
        is_list = isinstance(value, list | tuple) and all(getattr(one, "ndim", 0) == 2 and len(one) for one in value)
        if not is_list or not value:
            raise SettingsError(
                f"{name} compares passages, and {described(value)} is no list of the passage vectors of documents; "
                "give what encode([...], level='passage') returns"
            )
        sides.append([one if isinstance(one, Tensor) else torch.from_numpy(np.asarray(one)) for one in value])
    if len({one.shape[1] for side in sides for one in side}) > 1:
        raise SettingsError("passage vectors of different lengths cannot be compared; give those of one model")
    found = maxsim(*packed(sides[0]), *packed(sides[1]))
    is_torch = isinstance(a[0], Tensor) and isinstance(b[0], Tensor)
    return found if is_torch else found.cpu().numpy().astype(np.float64)


def _rows(a: Matrix, b: Matrix) -> tuple[Matrix, Matrix]:
    """Two matrices whose rows can be compared, each made of a single row where it was one.

    Raises:
        SettingsError: they are no matrices of one width.
    """
    left, right = (value[None] if value.ndim == 1 else value for value in (a, b))
    if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[1]:
        raise SettingsError(
            f"vectors of shapes {tuple(a.shape)} and {tuple(b.shape)} cannot be compared; give (rows, hidden) twice"
        )
    return left, right
