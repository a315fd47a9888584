r"""Do scores of passages explain what a model says? Deletion and insertion curves of documents.

Deletion takes the passages of a document out one after the other, until one is left; insertion begins with the first
of them and puts the others in (Petsiuk et al. 2018, for parts of a picture). If the order is that of what matters, a
similarity or probability falls early in deletion and rises early in insertion. The axis is k / (n - 1) where k of n
passages are gone or have come, and the area under a curve is the mean of its number. Passages keep their vectors and
their places in the whole document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import compress, groupby
from typing import Literal, NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse

from ..documents.readers.pair_files import LabelledPair
from ..encoder import DocumentEncoder
from ..errors import EvaluationError, ModelError
from ..graphs.batch import GraphBatch, TermWeights
from ..graphs.kinds import NodeKind
from ..inference.levels import encoded_document
from ..inference.precision import Precision, as_numpy, inference
from ..modeling import DocumentModel, DocumentOutput
from ..modeling.attribution import logit_contributions
from ..modeling.lexical import LexicalReader
from ..prediction.predicting import classes_of, probabilities_of, word_contributions
from ..runtime.progress import progress_bar
from ..segmentation.spans import Coverage, SegmentedDocument
from ..similarity.encoded_document import EncodedDocument
from ..similarity.kinds import Compared, Similarity, similarity_of
from .baselines import TfidfVectors
from .labels import ReadyDocument, plain_document
from .resampling import RESAMPLES, Estimate, Floats, resampled_means

Integers = npt.NDArray[np.int64]
# ``(passages,)``, which passages of a document are left.
Kept = npt.NDArray[np.bool_]
Kind = Literal["deletion", "insertion"]
KINDS: tuple[Kind, ...] = ("deletion", "insertion")

METHODS = ("contribution", "attention", "words", "random")
RANDOM = "random"
STEPS, ORDERS = 10, 5
# Weights that differ by less of their mean are all the same, but for rounding.
_UNIFORM = 1e-5
# Pairs of passages, as many as edges of the full graph, of all shortened documents that are encoded together.
_MOST_PAIRS = 2**18


def kept_passages(order: Integers, kind: Kind, steps: int) -> list[Kept]:
    """Which passages are there at every point of a curve, ``(passages,)`` each; never without a passage.

    Those that go out or come in first are first in ``order``; a document with few passages has a step for each.
    """
    place = np.argsort(order)
    counts = _counts(len(order), steps).tolist()
    return [place >= count if kind == "deletion" else place <= count for count in counts]


def curve_of(order: Integers, kind: Kind, steps: int, values: Mapping[bytes, float]) -> Floats:
    """The curve of one order, ``(steps + 1,)``, of the numbers with some passages by the bytes of :data:`Kept`."""
    points = [values[kept.tobytes()] for kept in kept_passages(order, kind, steps)]
    return np.interp(np.linspace(0, 1, steps + 1), _counts(len(order), steps) / (len(order) - 1), points)


def _counts(passages: int, steps: int) -> Integers:
    """How many passages are gone, or have come, at every point of a curve."""
    return np.unique(np.floor(np.linspace(0, 1, steps + 1) * (passages - 1) + 0.5).astype(np.int64))


def areas(curves: Floats) -> Floats:
    """The areas under curves, ``(..., points)`` on an axis from 0 to 1: ``(...)``."""
    return np.asarray(np.trapezoid(curves, dx=1 / (curves.shape[-1] - 1), axis=-1))


class Shortened(NamedTuple):
    """What a model gives for a document that is shortened, every time; no logits without a head."""

    vectors: Floats  # (times, hidden)
    passages: list[Floats]  # (passages, node size) each, those that are left
    logits: Floats | None  # (times, classes)


def encode_shortened(
    model: DocumentModel, document: SegmentedDocument, kept: Sequence[Kept], lexical: LexicalReader | None = None
) -> Shortened:
    """Encode a document again and again, each time with some of its passages: new graphs, the same passage vectors.

    Args:
        model: the model.
        document: the document, with the vectors of its passages.
        kept: ``(passages,)`` each, which passages are left; at least one.
        lexical: reads the words of passages, where the model has a lexical part.
    """
    assert document.passage_vectors is not None
    outputs = []
    words = None if lexical is None else lexical.counts(document.texts)
    together = max(1, _MOST_PAIRS // len(document.passages) ** 2)
    for start in range(0, len(kept), together):
        some = kept[start : start + together]
        parts = [
            replace(
                document,
                passages=tuple(compress(document.passages, left.tolist())),
                token_ids=(),
                passage_vectors=document.passage_vectors[left],
            )
            for left in some
        ]
        batch = GraphBatch.from_documents(parts, model.config.vector_graph)
        rows = None if words is None else (sparse.csr_matrix(np.stack(some).astype(np.float32)) @ words).tocsr()
        if lexical is not None and rows is not None and model.head is not None and model.head.words is not None:
            batch = replace(batch, words=TermWeights.of(lexical.unit_weights(rows)))
        batch = batch.to(model.device)
        assert batch.passage_vectors is not None
        with inference(model):
            output = model.encode_graphs(batch.passage_vectors, batch)
        assert output.documents is not None and output.passages is not None
        documents, nodes = output.documents, output.passages
        if lexical is not None and words is not None and rows is not None:
            documents = lexical.beside(documents, rows)
            nodes = lexical.beside(nodes, words[np.concatenate([np.flatnonzero(left) for left in some])])
        outputs.append((documents, nodes, output.logits))
    vectors, nodes_of, logits = (
        None if parts[0] is None else np.concatenate([as_numpy(part) for part in parts]).astype(np.float64)
        for parts in zip(*outputs, strict=True)
    )
    assert vectors is not None and nodes_of is not None
    return Shortened(vectors, np.split(nodes_of, np.cumsum([left.sum() for left in kept])[:-1]), logits)


def passage_attention(model: DocumentModel, batch: GraphBatch, output: DocumentOutput) -> Floats:
    """How much attention every passage of a document gets where its vector is formed.

    Where the readout has weights or chunkwise attention of its own, it is these. Else it is the attention of the
    document node in the last graph layer (Graph-RoBERTa, figure 6); in graphs with section nodes, through which it
    sees passages, the weight of a section node is shared out as the section node looks at its passages. The batch is
    the document alone, with the graph that the model's attention runs on, and the output has attention.

    Returns:
        ``(passages,)``, not negative; all the same for a model without attention.
    """
    passages = batch.rows.passages.cpu().numpy()
    count = len(passages)
    if output.chunk_pairs is not None and output.chunk_attention is not None:
        weights = as_numpy(output.chunk_attention).mean(axis=1, dtype=np.float64)
        return np.bincount(output.chunk_pairs[0].cpu().numpy(), weights, count) / count
    if model.readout.own_attention is not None and output.readout_weights is not None:
        return as_numpy(output.readout_weights).astype(np.float64)
    if not output.attention:
        return np.full(count, 1 / count)
    source, target = batch.edge_index.cpu().numpy()
    weights = as_numpy(output.attention[-1]).mean(axis=1, dtype=np.float64)
    kinds, nodes = batch.node_kind.cpu().numpy(), len(batch.node_kind)
    from_document = kinds[target] == NodeKind.DOCUMENT
    of_document = np.bincount(source[from_document], weights[from_document], nodes)
    from_section = kinds[target] == NodeKind.SECTION
    through = weights[from_section] * of_document[target[from_section]]
    return np.asarray((of_document + np.bincount(source[from_section], through, nodes))[passages])


class _Explained(NamedTuple):
    """A document with what its passages are ranked by, and its vectors or its likeliest class."""

    segmented: SegmentedDocument
    attention: Floats
    encoded: EncodedDocument | None = None
    likeliest: int = -1
    contributions: Floats | None = None


class _Case(NamedTuple):
    """A number that is watched while a document is shortened.

    Args:
        document: the document.
        name: id of the document that it is compared with, or its likeliest class.
        scores: what passages are ranked by, ``(passages,)`` by method.
        values: the number of every shortened document, ``(times,)``.
    """

    document: SegmentedDocument
    name: str
    scores: Mapping[str, Floats]
    values: Callable[[Shortened], Floats]


def _explained(encoder: DocumentEncoder, segmented: SegmentedDocument, *, classes: bool) -> _Explained:
    model = encoder.model
    # Attention needs the whole graph also where vectors do not.
    batch = encoder.add_words(GraphBatch.from_documents([segmented], model.config.graph), [segmented])
    batch = batch.to(model.device)
    vectors = batch.passage_vectors
    assert vectors is not None
    with inference(model):
        output = model.encode_graphs(vectors, batch, output_attention=True)
        attention = passage_attention(model, batch, output)
        if not classes:
            return _Explained(segmented, attention, encoded_document(encoder, segmented, vectors, batch, output))
        assert output.logits is not None
        likeliest = int(output.logits[0].argmax())
        parts = as_numpy(logit_contributions(model, vectors, batch, output, [likeliest]))
    contributions = (parts + word_contributions(encoder, segmented, [likeliest])[0])[:, 0]
    return _Explained(segmented, attention, likeliest=likeliest, contributions=contributions)


@dataclass(frozen=True)
class FaithfulnessScores:
    """Deletion and insertion curves of one model.

    Curves are averaged over the cases of a document first, then over documents. Resamples are drawn by documents, with
    replacement, and are the same for all methods.

    Args:
        methods: what passages are ranked by; ``random`` is the last.
        cases: id of the shortened document, and of the document that it is compared with, or its class.
        curves: ``(cases, methods, 2, steps + 1)``, deletion before insertion.
        resamples: number of bootstrap resamples.
        seed: draws them.
    """

    methods: tuple[str, ...]
    cases: tuple[tuple[str, str], ...]
    curves: Floats = field(repr=False)
    resamples: int = RESAMPLES
    seed: int = 0

    @cached_property
    def by_document(self) -> Floats:
        """The curves of every document, ``(documents, methods, 2, steps + 1)``."""
        ids = np.array([document for document, _ in self.cases])
        return np.array([self.curves[ids == id].mean(axis=0) for id in dict.fromkeys(ids.tolist())])

    @cached_property
    def _samples(self) -> Floats | None:
        """Mean curves of all resamples, ``(resamples, methods, 2, steps + 1)``; None where there is no spread."""
        if not self.resamples or len(self.by_document) < 2:
            return None
        return resampled_means(self.by_document, self.resamples, self.seed)

    def area(self, method: str, kind: Kind) -> Estimate:
        """The area under the mean curve."""
        place = self.methods.index(method), KINDS.index(kind)
        samples = None if self._samples is None else areas(self._samples[:, *place])
        return Estimate(float(areas(self.by_document.mean(axis=0)[place])), samples)

    def ahead(self, method: str, kind: Kind, of: str = RANDOM) -> Estimate:
        """By how much a method explains better than another: less area in deletion, more in insertion."""
        area, other = self.area(method, kind), self.area(of, kind)
        return other - area if kind == "deletion" else area - other


def measure_faithfulness(
    encoder: DocumentEncoder,
    documents: Iterable[ReadyDocument],
    pairs: Sequence[LabelledPair] | None = None,
    *,
    steps: int = STEPS,
    orders: int = ORDERS,
    resamples: int = RESAMPLES,
    seed: int = 0,
    dtype: Precision | None = None,
    show_progress: bool | None = None,
) -> FaithfulnessScores:
    """Shorten documents passage by passage, always in the same way, to see what a model goes by.

    With pairs, the similarity of two documents is watched while one of them is shortened: each of them in turn, with
    the other whole. Without pairs it is the probability of the class that a document most likely belongs to, and the
    model needs a head. Passages are taken out, or put in, by contribution, by attention, by the words they share with
    the other document or the class, and at random.

    Args:
        encoder: the model.
        documents: the documents, segmented or not, each with an id of its own; those that occur in no pair are passed
            over.
        pairs: pairs of two documents, each once, whatever their labels; None to watch classes.
        steps: most steps of a curve.
        orders: number of random orders, whose curves are averaged.
        resamples: number of bootstrap resamples of documents, for intervals; 0 for none.
        seed: draws orders and resamples.
        dtype: precision that the transformer computes in; None is that of its weights.
        show_progress: show bars; None shows them on a terminal when the work is long.

    Raises:
        ModelError: there are no pairs, and the model has no head.
        EvaluationError: no document has two passages.
        DocumentError: a document has no text to encode.
    """
    if pairs is None and encoder.model.head is None:
        raise ModelError(f"{encoder.name} has no classification head, and there are no pairs of documents")
    measured = list(documents)
    if pairs is not None:
        known = {plain_document(document).id: document for document in measured}
        measured = [known[id] for id in dict.fromkeys(id for a, b, _ in pairs for id in (a, b))]
    explained = []
    for window in encoder.windows(measured, dtype=dtype, totals=Coverage(), show_progress=show_progress):
        vectors = as_numpy(window.passage_vectors)
        for segmented, place in zip(window.documents, window.rows, strict=True):
            ready = replace(segmented, token_ids=(), passage_vectors=vectors[place])
            explained.append(_explained(encoder, ready, classes=pairs is None))
    cases = [case for case in _cases(encoder, explained, pairs) if len(case.document.passages) > 1]
    if not cases:
        raise EvaluationError(f"no document has two passages for {encoder.name}")
    uniform = [name for name in ("attention", "words") if all(_is_uniform(case.scores[name]) for case in cases)]
    methods = tuple(name for name in METHODS if name not in uniform)
    curves: list[Floats] = []
    with progress_bar(show_progress, len(explained), "Removing passages") as bar:
        for _, group in groupby(cases, key=lambda case: id(case.document)):
            some = list(group)
            # Random orders depend on the seed and the document's id, not on what else is measured.
            name = some[0].document.document.id.encode("utf-8", "replace")
            draw = np.random.default_rng([seed, crc32(name)])
            chance = [draw.permutation(len(some[0].document.passages)) for _ in range(orders)]
            curves += _curves(encoder, some, methods, chance, steps)
            bar.update()
    names = tuple((case.document.document.id, case.name) for case in cases)
    return FaithfulnessScores(methods, names, np.array(curves), resamples, seed)


def _cases(
    encoder: DocumentEncoder, explained: list[_Explained], pairs: Sequence[LabelledPair] | None
) -> Iterator[_Case]:
    """All cases, those of one document one after the other."""
    words = TfidfVectors([document.segmented.document.text for document in explained])
    passages = [words.of(document.segmented.texts) for document in explained]
    if pairs is None:
        likeliest = np.array([document.likeliest for document in explained])
        for row, document in enumerate(explained):
            # Rocchio's classifier, to which the document itself is unknown: mean of the class less mean of the others.
            weights = np.zeros(len(explained))
            for sign, chosen in ((1.0, likeliest == likeliest[row]), (-1.0, likeliest != likeliest[row])):
                chosen[row] = False
                weights[chosen] = sign / max(int(chosen.sum()), 1)
            shared = np.asarray(passages[row] @ (words.matrix.T @ weights), np.float64).ravel()
            assert document.contributions is not None
            scores = {"contribution": document.contributions, "attention": document.attention, "words": shared}
            probability = partial(
                _probability, column=document.likeliest, multi_label=encoder.model.config.multi_label
            )
            yield _Case(document.segmented, classes_of(encoder)[document.likeliest], scores, probability)
        return
    similarity = similarity_of(encoder.model.config.similarity)
    row_of = {document.segmented.document.id: row for row, document in enumerate(explained)}
    both = [(row_of[x], row_of[y]) for a, b, _ in pairs for x, y in ((a, b), (b, a))]
    for row, column in sorted(both, key=lambda rows: rows[0]):
        document, a, b = explained[row], explained[row].encoded, explained[column].encoded
        assert a is not None and b is not None
        attention = document.attention
        if a.attention is not None and b.attention is not None:
            # Chunkwise attention is that of the other document's passages to these.
            attention = b.attention.to(a.attention).mean(axis=(0, 1))
        shared = (passages[row] @ words.matrix[column].T).toarray().ravel()
        contributions = similarity.contributions(a, b).sum(axis=1)
        scores = {"contribution": contributions, "attention": attention, "words": shared}
        compare = partial(_similarity, similarity=similarity, other=b)
        yield _Case(document.segmented, explained[column].segmented.document.id, scores, compare)


def _probability(shortened: Shortened, column: int, multi_label: bool | None) -> Floats:
    assert shortened.logits is not None
    probabilities = probabilities_of(torch.from_numpy(shortened.logits), bool(multi_label))
    return probabilities[:, column].astype(np.float64)


def _similarity(shortened: Shortened, similarity: Similarity, other: EncodedDocument) -> Floats:
    times = [Compared(*time) for time in zip(shortened.vectors, shortened.passages, strict=True)]
    return similarity.scores(times, [other])[:, 0]


def _curves(
    encoder: DocumentEncoder, cases: Sequence[_Case], methods: Sequence[str], chance: list[Integers], steps: int
) -> list[Floats]:
    """The curves of all cases of one document, ``(methods, 2, steps + 1)`` each."""
    orders = [
        [chance if method == RANDOM else [order_by(case.scores[method], chance[0])] for method in methods]
        for case in cases
    ]
    # Orders have passages in common, if only at their ends; cases have attention and chance.
    wanted = {
        kept.tobytes(): kept
        for of_case in orders
        for of_method in of_case
        for order in of_method
        for kind in KINDS
        for kept in kept_passages(order, kind, steps)
    }
    shortened = encode_shortened(encoder.model, cases[0].document, list(wanted.values()), encoder.lexical)
    curves = []
    for case, of_case in zip(cases, orders, strict=True):
        values = dict(zip(wanted, case.values(shortened).tolist(), strict=True))
        parts = [
            [np.mean([curve_of(order, kind, steps, values) for order in of_method], 0) for kind in KINDS]
            for of_method in of_case
        ]
        curves.append(np.array(parts))
    return curves


def order_by(scores: npt.ArrayLike, ties: Integers) -> Integers:
    """Passages by falling score, equal ones in the order of ``ties``: that of the text would favour its beginning."""
    return np.lexsort((np.argsort(ties), -np.asarray(scores, np.float64)))


def _is_uniform(scores: Floats) -> bool:
    return bool(np.ptp(scores) <= _UNIFORM * max(float(np.abs(scores).mean()), 1e-12))
