"""Running a document model over documents: windows of passages in, vectors on the CPU out."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm

from ..documents.document import Document
from ..documents.parsing.formats import split_suffix
from ..errors import DocumentError, ModelError, SettingsError
from ..graphs.batch import GraphBatch, section_ids
from ..graphs.packing import Packing
from ..modeling import DocumentModel, DocumentOutput
from ..modeling.attribution import passage_terms
from ..modeling.readouts.sections import SectionReadout
from ..runtime.memory import give_back_memory
from ..segmentation.coverage import Coverage
from ..segmentation.segmenter import Segmenter
from ..segmentation.spans import SegmentedDocument, Span
from ..similarity.chunk_attention import ChunkwiseAttention
from ..similarity.encoded_document import EncodedDocument, Vectors, section_vectors
from .precision import inference

Level = Literal["document", "section", "passage"]
LEVELS = ("document", "section", "passage")
AnyDocument = Document | str | Mapping[str, Any]

# Passages are gathered to this number before the transformer runs: enough to sort by length, little to hold.
WINDOW_PASSAGES = 4096
# Documents that are made ready together, so that their passages are tokenised in one call.
BLOCK_DOCUMENTS = 64
# Longer strings are texts; the systems that this runs on have no longer names.
_LONGEST_NAME = 1024


def windows_of(
    documents: Iterable[AnyDocument | SegmentedDocument], segmenter: Segmenter
) -> Iterator[list[SegmentedDocument]]:
    """Gather documents until their passages fill a window; a window does not depend on what follows it.

    Documents that are segmented already are taken as they are.

    Raises:
        DocumentError: a document has no text, or something is no document.
    """
    source = iter(documents)
    window: list[SegmentedDocument] = []
    passages = 0
    while block := list(islice(source, BLOCK_DOCUMENTS)):
        ready = [one if isinstance(one, SegmentedDocument) else as_document(one) for one in block]
        fresh = segmenter.segment_many([one for one in ready if isinstance(one, Document)])
        for segmented in (one if isinstance(one, SegmentedDocument) else next(fresh) for one in ready):
            require_text(segmented)
            window.append(segmented)
            passages += len(segmented.passages)
            if passages >= WINDOW_PASSAGES:
                yield window
                window, passages = [], 0
    if window:
        yield window


def stream_windows(
    model: DocumentModel,
    segmenter: Segmenter,
    documents: Iterable[AnyDocument | SegmentedDocument],
    precision: Callable[[], AbstractContextManager[Any]],
    *,
    split: bool = False,
    token_budget: int | None = None,
    show_progress: bool | None = None,
    totals: Coverage | None = None,
    bar: tqdm[Any] | None = None,
) -> Iterator[tuple[list[SegmentedDocument], Tensor, DocumentOutput]]:
    """Run a model over any number of documents, one window after another, in constant memory.

    Args:
        model: the model.
        segmenter: cuts documents that are not cut yet.
        documents: the documents; a single one will do.
        precision: makes contexts that the transformer computes in.
        split: whether documents are split into their sections, for the readout ``sections``.
        token_budget: most tokens (with padding) that go through the transformer at once.
        show_progress: show a bar; None shows it on a terminal when the work is long.
        totals: where coverage is added up; the caller then says what was left out, otherwise it is logged here.
        bar: a bar to advance by documents instead of one of this call's own.

    Yields:
        The documents of a window; pooled passage vectors ``(passages, encoder hidden)``; the output.

    Raises:
        DocumentError: a document has no text, or something is no document.
        SettingsError: the token budget is not positive.
    """
    if token_budget is not None and token_budget < 1:
        raise SettingsError(f"token_budget={token_budget} must be at least 1")
    if isinstance(documents, Document | str | Mapping) or not isinstance(documents, Iterable):
        documents = [documents]
    total = len(documents) if isinstance(documents, Sequence) else None
    counted = Coverage() if totals is None else totals
    with progress_bar(show_progress, total) if bar is None else nullcontext(bar) as shown:
        for window in windows_of(documents, segmenter):
            for segmented in window:
                counted += segmented.coverage
            _, vectors, output = run_model(model, window, precision(), token_budget, split=split, bar=shown)
            yield window, vectors, output
            give_back_memory()
    if totals is None:
        counted.warn()


def rows_of(window: Sequence[SegmentedDocument]) -> list[slice]:
    """Where the passages of every document stand among those of a window."""
    starts = np.cumsum([0, *(len(segmented.passages) for segmented in window)]).tolist()
    return [slice(start, end) for start, end in pairwise(starts)]


def run_model(
    model: DocumentModel,
    window: Sequence[SegmentedDocument],
    precision: AbstractContextManager[Any],
    token_budget: int | None = None,
    *,
    attention: bool = False,
    split: bool = False,
    bar: tqdm[Any] | None = None,
) -> tuple[GraphBatch, Tensor, DocumentOutput]:
    """Run a model over documents, in eval mode and without gradients.

    Args:
        model: the model.
        window: the documents.
        precision: context that the transformer computes in.
        token_budget: most tokens (with padding) that go through the transformer at once.
        attention: whether the output holds attention weights.
        split: whether documents are split into their sections, for the readout ``sections``.
        bar: a bar to advance by documents while their passages are encoded.

    Returns:
        The batch; pooled passage vectors ``(passages, encoder hidden)``; the output.

    Raises:
        ModelError: a number in the output is infinite or none, or passage vectors are those of another encoder.
    """
    config = model.config
    graph = config.graph if attention and config.graph_layers else config.vector_graph
    batch = GraphBatch.from_documents(window, graph, split=split).to(model.device)
    if batch.passage_vectors is not None:
        _require_own_vectors(model, batch.passage_vectors)
        if bar is not None:
            bar.update(len(window))
    total, done, shown = len(batch.token_ids), 0, 0

    def advance(passages: int) -> None:
        nonlocal done, shown
        done += passages
        if bar is not None:
            bar.update(len(window) * done // total - shown)
            shown = len(window) * done // total

    with inference(model):
        with precision:
            vectors = model.encode_passages(batch, Packing.on(model.device, token_budget), advance)
        output = model.encode_graphs(vectors, batch, attention)
    for result in (output.documents, output.passages, output.logits):
        if result is not None and not torch.isfinite(result).all():
            raise ModelError(
                "the model gives vectors that are no numbers: its weights hold such (fetch or train it again), or "
                "float16 is too narrow (use bfloat16 or float32)"
            )
    return batch, vectors, output


def _require_own_vectors(model: DocumentModel, vectors: Tensor) -> None:
    """Refuse passage vectors that this model's passage encoder cannot have made.

    Raises:
        ModelError: it cannot.
    """
    width = model.config.encoder_config.hidden_size
    reason = None
    if vectors.shape[1] != width:
        reason = f"their vectors have {vectors.shape[1]} numbers, this one's {width}"
    elif model.structural_embeddings is not None:
        reason = "this one has structural embeddings, so that vectors of passages depend on how documents are split"
    if reason is not None:
        raise ModelError(f"these passages were encoded for another model ({reason}); segment them anew")


def encode_sentences(
    model: DocumentModel, segmenter: Segmenter, segmented: SegmentedDocument, precision: AbstractContextManager[Any]
) -> tuple[tuple[Span, ...], Vectors]:
    """Sentences of the encoded passages and their vectors; a sentence is seen by itself, without the graph."""
    whole = segmenter.sentences(segmented.document)
    ends = {passage.section: passage.end for passage in segmented.passages}
    kept = [row for row, span in enumerate(whole.passages) if span.end <= ends.get(span.section, 0)]
    spans = tuple(whole.passages[row] for row in kept)
    chosen = SegmentedDocument(whole.document, spans, tuple(whole.token_ids[row] for row in kept), whole.coverage)
    # Where the model is told places, a sentence has that of its passage.
    starts = [(passage.section, passage.start) for passage in segmented.passages]
    places = [bisect_right(starts, (span.section, span.start)) - 1 for span in spans]
    batch = replace(GraphBatch.from_documents([chosen], None), chunk_ids=torch.tensor(places, dtype=torch.int64))
    with inference(model):
        with precision:
            vectors = model.encode_passages(batch)
        return spans, as_numpy(model.initial_passages(vectors))


def encode_at_all_levels(
    model: DocumentModel, segmented: SegmentedDocument, precision: Callable[[], AbstractContextManager[Any]]
) -> EncodedDocument:
    """Encode one document with everything that comparisons need, but sentences.

    For the readout ``sections`` the document vector, the passages and their terms are those of the document in one
    piece; section vectors and the attention between sections are those of the document split into its own sections.

    Args:
        model: the model.
        segmented: the document.
        precision: makes the context that the transformer computes in.
    """
    batch, vectors, output = run_model(model, [segmented], precision(), attention=True)
    with inference(model):
        terms = passage_terms(model, vectors, batch, output)
    assert output.documents is not None and output.passages is not None
    weights, count = output.readout_weights, len(segmented.passages)
    encoded = EncodedDocument(
        segmented,
        as_numpy(output.documents[0]),
        as_numpy(output.passages),
        as_numpy(terms),
        np.full(count, 1 / count, np.float32) if weights is None else as_numpy(weights),
    )
    if not isinstance(model.readout, SectionReadout):
        return encoded
    own = torch.from_numpy(section_ids([passage.section for passage in segmented.passages])).to(model.device)
    split = replace(batch, section_ids=own)
    with inference(model):
        if model.structural_embeddings is not None:
            with precision():
                vectors = model.encode_passages(split)
        read = model.encode_graphs(vectors, split, output_attention=True)
        assert read.sections is not None
        encoded = replace(encoded, own_sections=as_numpy(read.sections))
        if model.readout.attention is None or read.chunk_pairs is None or read.chunk_attention is None:
            return encoded
        queries, keys = (as_numpy(part) for part in model.readout.attention.queries_and_keys(output.passages))
    pairs, looks = read.chunk_pairs.cpu().numpy(), as_numpy(read.chunk_attention)
    return replace(encoded, attention=ChunkwiseAttention(pairs, looks, queries, keys))


def vectors_at(
    level: Level, segmented: SegmentedDocument, output: DocumentOutput, position: int, rows: slice
) -> Tensor:
    """Vectors of one document of a batch, on the CPU.

    Args:
        level: ``document``, ``section`` or ``passage``.
        segmented: the document.
        output: the output of its batch; for ``section`` and the readout ``sections`` that of documents that are split.
        position: place of the document in the batch.
        rows: its passages among those of the batch.

    Returns:
        ``(1, hidden)``, ``(sections, hidden)`` or ``(passages, node size)``.
    """
    assert output.documents is not None and output.passages is not None
    if level == "document":
        return output.documents[position : position + 1].cpu()
    if level == "section" and output.sections is not None and output.document_of_section is not None:
        return output.sections[output.document_of_section == position].cpu()
    passages = output.passages[rows].cpu()
    if level == "passage":
        return passages
    sections = np.array([passage.section for passage in segmented.passages])
    _, inverse = np.unique(sections, return_inverse=True)
    readout = output.readout_weights
    weights = np.ones(len(sections), np.float32) if readout is None else as_numpy(readout[rows])
    return torch.from_numpy(section_vectors(as_numpy(passages), weights, inverse, int(inverse.max()) + 1))


def as_output(tensor: Tensor, output: str) -> Any:
    """The tensor itself, or the array it holds for ``numpy``."""
    return tensor.numpy() if output == "numpy" else tensor


def as_numpy(tensor: Tensor) -> Vectors:
    """The numbers of a tensor in fp32 as an array."""
    return tensor.float().cpu().numpy()


def as_document(value: object) -> Document:
    """Take a document, a string without structure, or a row as a document.

    Raises:
        DocumentError: it is something else, a row without text, or a string that names a file.
    """
    if isinstance(value, Document):
        return value
    if isinstance(value, str):
        if _names_a_file(value):
            raise DocumentError(
                f"{value!r} is the name of a file and was given as a text; read it with Document.from_file "
                "(or give Document.from_text(...) to take these words as the document)"
            )
        return Document.from_text(value)
    if isinstance(value, Mapping):
        return Document.from_mapping(value)
    hint = "; read it with Document.from_file" if isinstance(value, Path) else ""
    raise DocumentError(
        f"{type(value).__name__} is no document{hint or '; give a Document, a string or a mapping with text'}"
    )


def _names_a_file(text: str) -> bool:
    """Whether a string is the name of a file: one that is there, or a word with the suffix of a known type."""
    if len(text) > _LONGEST_NAME or "\n" in text:
        return False
    if not any(map(str.isspace, text)) and split_suffix(Path(text))[1]:
        return True
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        return False


def require_text(segmented: SegmentedDocument) -> None:
    """Refuse a document that has no passage.

    Raises:
        DocumentError: there is nothing to encode.
    """
    if not segmented.passages:
        raise DocumentError(f"document {segmented.document.id!r} has no text to encode; leave it out")


def progress_bar(show: bool | None, total: int | None) -> tqdm[Any]:
    """A bar that counts documents; None shows it on a terminal when the work is long."""
    hidden = not (sys.stderr.isatty() if show is None else show)
    return tqdm(total=total, desc="Encoding", unit=" documents", disable=hidden, delay=0.5 if show is None else 0)
