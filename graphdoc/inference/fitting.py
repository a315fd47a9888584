"""Fitting a model to a corpus without training: the mean of its passages, its words, and the scores of its pairs."""

from __future__ import annotations

import heapq
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse

from ..checkpoints.load import vocabulary_hash
from ..errors import ModelError, SettingsError
from ..modeling.lexical import LexicalPart, bucket_of, inverse_frequencies, tf_idf, unit_rows
from ..runtime.processes import Processes
from ..runtime.text import counted
from ..segmentation.spans import SegmentedDocument
from ..segmentation.terms import TermMaker
from ..settings.document import LEARNED_WEIGHT, DocumentSettings, LexicalFit, LexicalSettings
from ..similarity.background import FEWEST_DOCUMENTS, Background
from ..similarity.kinds import similarity_matrix, similarity_of
from .pipeline import EncodingPipeline, StreamOptions
from .precision import as_numpy, inference
from .segmenting import AnyDocument, cut_windows, documents_of

Floats = npt.NDArray[np.float64]
logger = logging.getLogger("graphdoc")

# Passages whose mean is nearly of unit length are all alike; nothing is left of them without it.
_ALIKE = 1 - 1e-6
# Singular values that are noise beside the first.
_NOISE = 1e-6
# Terms that are counted before rare ones are forgotten: some 400 MB.
MOST_COUNTED = 4_000_000
# Documents that are drawn to weigh vectors and words against each other.
MOST_DRAWN = 1_000
# What is said of documents that are cut and not encoded.
_READING = ("show_progress", "workers", "totals", "bar")
# Numbers that are as good as drawn, a different one for every place below 2**32 (a bijection by Knuth).
_SPREAD = 2_654_435_761


@dataclass(frozen=True)
class Fit:
    """What a model was fitted to.

    Args:
        documents: number of documents.
        passages: number of their passages.
        centre_length: length of the mean passage vector, 1 where all passages are the same; None without centre.
        terms: terms of the lexical part; None without one.
        numbers: numbers of a lexical vector; None without one.
        explained: share of the variance of tf-idf vectors that these hold; None without a lexical part, or where the
            vectors of terms are random.
        weight: length of a lexical vector beside vectors of the length 1; None without one.
        background: how alike pairs of the documents are; None of fewer than 50 documents.
    """

    documents: int
    passages: int
    centre_length: float | None = None
    terms: int | None = None
    numbers: int | None = None
    explained: float | None = None
    weight: float | None = None
    background: Background | None = None


class FitOptions(StreamOptions, total=False):
    """What is learned of documents, and how these are encoded.

    Args:
        centre: learn the mean passage vector, which is then taken off all passages, queries and sentences; so it is
            unless said otherwise.
        lexical: also learn a lexical part, which puts the words of a text beside its vector (see
            :mod:`graphdoc.modeling.lexical`); True for the usual settings, or fields of
            :class:`~graphdoc.settings.document.LexicalFit`.
        lexical_weight: length of that part beside vectors of length 1; None makes both tell pairs of the documents
            apart equally (0.85 where there are fewer than 50), and leaves the model's setting for random numbers.
        corpus: what the documents are, for the model card.
        processes: the processes that share the work, all of which have to call; None for this one alone.
    """

    centre: bool
    lexical: bool | LexicalFit | Mapping[str, Any]
    lexical_weight: float | None
    corpus: str
    processes: Processes | None


def fit(
    pipeline: EncodingPipeline,
    documents: Iterable[AnyDocument | SegmentedDocument] | AnyDocument,
    *,
    centre: bool = True,
    lexical: bool | LexicalFit | Mapping[str, Any] = False,
    lexical_weight: float | None = None,
    corpus: str = "",
    processes: Processes | None = None,
    **options: Unpack[StreamOptions],
) -> Fit:
    """Fit a model to documents, in one pass and bounded memory; it is changed once all is learned.

    What it was fitted to before is forgotten, but for its lexical part where none is learned. From 50 documents on the
    lexical part is weighed so that the cosines of vectors and of words deviate alike over pairs of documents, which
    adds up their z-scores. The scores of these pairs are kept (:class:`~graphdoc.similarity.background.Background`),
    so that a score can be read as the share of unrelated pairs that are less alike. See :class:`FitOptions`.

    Returns:
        What was learned.

    Raises:
        ModelError: there are fewer than two documents, all are alike, or no word occurs in enough of them.
        DocumentError: a document has no text.
        SettingsError: a setting is out of range, or nothing is learned.
    """
    how = LexicalFit() if lexical is True else lexical or None
    changes: dict[str, Any] = {} if lexical_weight is None else {"lexical_weight": lexical_weight}
    DocumentSettings(**changes)
    if how is not None and not isinstance(how, LexicalFit):
        how = LexicalFit(**how)
    if how is not None and how.projection == "decomposition":
        changes.setdefault("lexical_weight", LEARNED_WEIGHT)
    if not centre and how is None:
        raise SettingsError("centre=False without lexical leaves nothing to fit; set one of them")
    head, centred = pipeline.model.head, pipeline.model.centre is not None
    learned, drawn = _Passages(pipeline), _Drawn()
    words = None if how is None else _Words(how, str(pipeline.model.config.language))
    rank, count = (0, 1) if processes is None else (processes.rank, processes.count)
    share: Iterable[Any] = documents_of(documents)
    if count > 1:
        share = (document for number, document in enumerate(share) if number % count == rank)
    place = rank
    for some, vectors in _windows(pipeline, share, centre, options):
        learned.add(some, vectors)
        for one, pooled in zip(some, [None] * len(some) if vectors is None else vectors, strict=True):
            if words is not None:
                words.add(place, one.texts)
            if centre:
                drawn.add(place, replace(one, passage_vectors=pooled))
            place += count
    if processes is not None:
        learned.merge(processes.gather(learned.state))
        if words is not None:
            words.merge(processes.gather(words.state))
    if learned.documents < 2:
        raise ModelError(
            f"{pipeline.name} cannot be fitted to {counted(learned.documents, 'document')}; give at least two, and "
            "better hundreds that are like those to be encoded"
        )
    size = f"{counted(learned.documents, 'document')}, {counted(learned.passages, 'passage')}"
    name = f"{corpus} ({size})" if corpus else size
    found = Fit(learned.documents, learned.passages)
    mean = part = None
    if centre:
        mean = learned.mean()
        found = replace(found, centre_length=float(np.linalg.norm(mean)))
    if words is not None:
        part, explained = words.part(learned.documents, name)
        settings = part.settings
        found = replace(found, terms=settings.terms, numbers=settings.numbers, explained=explained)
    pipeline.model.set_centre(None if mean is None else torch.from_numpy(mean.astype(np.float32)), [name])
    if words is not None:
        pipeline.model.set_lexical(part)
    if head is not None and (centre or centred or head.words is not None):
        logger.warning("%s: its head read vectors as they were before this fit, and is taken away", pipeline.name)
        pipeline.model.remove_head(subtopics=False)
    config = pipeline.model.config
    for setting, value in changes.items():
        setattr(config, setting, value)
    config.background = None
    if centre and (compared := drawn.vectors(pipeline, processes)) is not None:
        numbers = 0 if pipeline.model.lexical is None else pipeline.model.lexical.settings.numbers
        if words is not None and how is not None and how.projection == "decomposition" and lexical_weight is None:
            weight = balanced_weight(compared[:, :-numbers], compared[:, -numbers:])
            compared[:, -numbers:] *= weight / config.lexical_weight
            config.lexical_weight = weight
        similarity = similarity_of(config.similarity)
        # Of passages there are no vectors here.
        if not similarity.reads_passages:
            scores = similarity_matrix(compared, compared, similarity.vectors)
            background = Background.of(scores[np.triu_indices(len(scores), 1)], len(scores))
            config.background = background.to_dict()
            found = replace(found, background=background)
    return found if pipeline.model.lexical is None else replace(found, weight=float(config.lexical_weight))


def balanced_weight(vectors: npt.NDArray[Any], words: npt.NDArray[Any]) -> float:
    """The length of lexical vectors, beside 1, with which both tell pairs of documents apart equally.

    Their products then deviate alike over all pairs, so that the sum of both orders pairs as the sum of z-scores does.

    Args:
        vectors: ``(documents, hidden)``.
        words: ``(documents, numbers)``.
    """
    pairs = np.triu_indices(len(vectors), 1)
    deviations = [float(similarity_matrix(some, some)[pairs].std()) for some in (vectors, words)]
    return round(float(np.sqrt(deviations[0] / max(deviations[1], 1e-6))), 4)


class _Drawn:
    """Some of the documents, with the vectors of their passages: those of the smallest drawn numbers."""

    def __init__(self) -> None:
        self._kept: list[tuple[int, int, SegmentedDocument]] = []

    def add(self, place: int, document: SegmentedDocument) -> None:
        entry = -drawn_number(place, 0), place, document
        (heapq.heappush if len(self._kept) < MOST_DRAWN else heapq.heappushpop)(self._kept, entry)

    def vectors(self, pipeline: EncodingPipeline, processes: Processes | None) -> Floats | None:
        """Their vectors by the model as it is now, ``(documents, hidden)``; None where there are too few."""
        numbers = sorted((-number, place) for number, place, _ in self._kept)
        if processes is not None:
            numbers = sorted(entry for some in processes.gather(numbers) for entry in some)
        chosen = {place for _, place in numbers[:MOST_DRAWN]}
        if len(chosen) < FEWEST_DOCUMENTS:
            return None
        own = {place: one for _, place, one in self._kept if place in chosen}
        encoded = pipeline.stream(list(own.values()), show_progress=False, workers=0)
        rows = {place: as_numpy(vector[0]) for place, (_, vector) in zip(own, encoded, strict=True)}
        if processes is not None:
            rows = {place: row for some in processes.gather(rows) for place, row in some.items()}
        return np.stack([rows[place] for place in sorted(rows)]).astype(np.float64)


def drawn_number(place: int, seed: int) -> int:
    """A number that is as good as drawn, another one for every place in a corpus."""
    return ((place + seed + 1) * _SPREAD) % 2**32


def _windows(
    pipeline: EncodingPipeline, documents: Iterable[Any], encode: bool, options: StreamOptions
) -> Iterator[tuple[Sequence[SegmentedDocument], Sequence[npt.NDArray[np.float32]] | None]]:
    """Documents with the pooled vectors of their passages; without these, where words alone are learned."""
    if encode:
        yield from ((window.documents, list(window.pooled())) for window in pipeline.windows(documents, **options))
        return
    read: Any = {name: options[name] for name in _READING if name in options}  # type: ignore[literal-required]
    for some, shown in cut_windows(documents, pipeline.segmenter, pipeline.device, **read):
        yield some, None
        shown.update(len(some))


class _Passages:
    """The sum of passage vectors of unit length."""

    def __init__(self, pipeline: EncodingPipeline) -> None:
        self._pipeline = pipeline
        self.documents = self.passages = 0
        self._sum: Floats | float = 0.0

    def add(self, documents: Sequence[SegmentedDocument], vectors: Sequence[npt.NDArray[np.float32]] | None) -> None:
        self.documents += len(documents)
        self.passages += sum(len(one.passages) for one in documents)
        if vectors is None:
            return
        with inference(self._pipeline.model):
            pooled = torch.from_numpy(np.concatenate(vectors)).to(self._pipeline.device)
            nodes = self._pipeline.model.uncentred_passages(pooled)
            unit = torch.nn.functional.normalize(nodes, dim=-1).double()
        self._sum = self._sum + unit.sum(dim=0).cpu().numpy()

    @property
    def state(self) -> tuple[int, int, Any]:
        return self.documents, self.passages, self._sum

    def merge(self, states: list[tuple[int, int, Any]]) -> None:
        documents, passages, sums = zip(*states, strict=True)
        self.documents, self.passages = sum(documents), sum(passages)
        self._sum = sum(sums, 0.0)

    def mean(self) -> Floats:
        """The mean, ``(hidden,)``.

        Raises:
            ModelError: all passages are alike.
        """
        mean = np.asarray(self._sum / self.passages, np.float64)
        if np.linalg.norm(mean) > _ALIKE:
            raise ModelError(
                f"all {self.passages:,} passages are alike, so that nothing is left of them without their mean; fit "
                f"{self._pipeline.name} to documents that differ"
            )
        return mean


@dataclass
class _Words:
    """In how many documents every term occurs, and the counts of a sample of documents."""

    settings: LexicalFit
    language: str
    frequencies: Counter[Any] = field(default_factory=Counter)
    # (-drawn, place, counts): the documents with the smallest numbers stay.
    sample: list[tuple[int, int, dict[Any, int]]] = field(default_factory=list)
    forgotten: int = 0

    def __post_init__(self) -> None:
        self._maker = TermMaker(self.language)

    def add(self, place: int, texts: Iterable[str]) -> None:
        terms: Iterator[Any] = chain.from_iterable(map(self._maker.occurrences, texts))
        if self.settings.hashed:
            terms = (bucket_of(term, self.settings.most_terms) for term in terms)
        counts = dict(Counter(terms))
        self.frequencies.update(counts.keys())
        if len(self.frequencies) > MOST_COUNTED:
            self._forget()
        if counts:
            self._keep((-drawn_number(place, self.settings.seed), place, counts))

    def _keep(self, entry: tuple[int, int, dict[Any, int]]) -> None:
        if len(self.sample) < self.settings.most_documents:
            heapq.heappush(self.sample, entry)
        else:
            heapq.heappushpop(self.sample, entry)

    def _forget(self) -> None:
        """Forget the rarest terms, where there are too many to count, until there is room for a quarter more."""
        before, rarest = len(self.frequencies), 1
        while len(self.frequencies) > MOST_COUNTED * 3 // 4:
            self.frequencies = Counter({term: count for term, count in self.frequencies.items() if count > rarest})
            rarest += 1
        self.forgotten += before - len(self.frequencies)

    @property
    def state(self) -> tuple[Counter[Any], list[tuple[int, int, dict[Any, int]]], int]:
        return self.frequencies, self.sample, self.forgotten

    def merge(self, states: list[tuple[Counter[Any], list[tuple[int, int, dict[Any, int]]], int]]) -> None:
        self.frequencies, self.sample, self.forgotten = Counter(), [], 0
        for frequencies, sample, forgotten in states:
            self.frequencies.update(frequencies)
            self.forgotten += forgotten
            for entry in sample:
                self._keep(entry)

    def part(self, documents: int, name: str) -> tuple[LexicalPart, float | None]:
        """The lexical part of all that was counted, and the share of variance that it holds; None where random.

        Raises:
            ModelError: no term occurs in enough documents, or all documents have the same words.
        """
        least, most = self.settings.least_documents, self.settings.most_terms
        enough = [(term, count) for term, count in self.frequencies.items() if count >= least]
        if not enough:
            raise ModelError(
                f"no word but stop words occurs in {counted(least, 'document')} of {documents:,} (language "
                f"{self.language!r}); lower least_documents, give more documents, or leave the lexical part out"
            )
        if self.forgotten:
            logger.warning(
                "%s of few documents were forgotten to bound memory, and may be counted too low; hash terms (hashed) "
                "to count all",
                counted(self.forgotten, "term"),
            )
        if self.settings.hashed:
            terms: list[Any] = list(range(most))
            frequencies = np.zeros(most, np.int64)
            frequencies[[term for term, _ in enough]] = [count for _, count in enough]
        else:
            best = sorted(enough, key=lambda pair: (-pair[1], pair[0]))[:most]
            terms = sorted(term for term, _ in best)
            frequencies = np.array([self.frequencies[term] for term in terms], np.int64)
        idf = inverse_frequencies(documents, frequencies)
        components, explained = None, None
        row_of = {term: row for row, term in enumerate(terms) if frequencies[row] > 0}
        if self.settings.projection == "decomposition":
            components, explained = self._decomposed(row_of, idf)
        part = LexicalPart(
            LexicalSettings(
                terms=len(terms),
                numbers=self.settings.size if components is None else components.shape[1],
                projection=self.settings.projection,
                language=self.language,
                hashed=self.settings.hashed,
                vocabulary="" if self.settings.hashed else vocabulary_hash(terms),
                corpora=[name],
            )
        )
        part.idf = torch.from_numpy(idf)
        if components is not None:
            part.components = torch.from_numpy(components)
            unit = self._weights(row_of, idf) @ components
            lengths = np.linalg.norm(unit, axis=1, keepdims=True)
            part.mean = torch.from_numpy((unit / np.where(lengths > 0, lengths, 1)).mean(axis=0).astype(np.float32))
        if not self.settings.hashed:
            part.vocabulary = terms
        return part, explained

    def _decomposed(
        self, row_of: dict[Any, int], idf: npt.NDArray[np.float32]
    ) -> tuple[npt.NDArray[np.float32], float]:
        """The vectors of terms, ``(terms, numbers)``, and the share of variance that they hold."""
        from sklearn.decomposition import TruncatedSVD

        weights = self._weights(row_of, idf)
        if min(weights.shape) < 2:
            raise ModelError(
                f"{counted(weights.shape[0], 'document')} with {counted(weights.shape[1], 'term')} are too few "
                "to learn words of; give more, or leave the lexical part out"
            )
        numbers = min(self.settings.size, *weights.shape)
        svd = TruncatedSVD(numbers, algorithm="randomized", random_state=self.settings.seed)
        with np.errstate(divide="ignore", invalid="ignore"):
            # Documents that are all the same have no variance, which is said below.
            svd.fit(weights)
        lengths = svd.singular_values_
        kept = int((lengths > _NOISE * lengths[0]).sum())
        if kept < 2:
            raise ModelError(
                f"all {weights.shape[0]:,} documents have the same words, so that nothing tells them apart; fit to "
                "documents that differ, or leave the lexical part out"
            )
        if kept < self.settings.size:
            logger.warning(
                "lexical vectors have %d numbers and not %d: the documents have no more; give more of them",
                kept,
                self.settings.size,
            )
        components = np.ascontiguousarray(svd.components_[:kept].T, np.float32)
        return components, float(svd.explained_variance_ratio_[:kept].sum())

    def _weights(self, row_of: dict[Any, int], idf: npt.NDArray[np.float32]) -> Any:
        """Tf-idf vectors of the sample, of unit length, sparse ``(documents, terms)``, in the order of the corpus."""
        columns: list[int] = []
        counts: list[int] = []
        ends = [0]
        for _, _, own in sorted(self.sample, key=lambda entry: entry[1]):
            # In the order of rows, so that sums have one order in every process.
            known = sorted((row, count) for term, count in own.items() if (row := row_of.get(term)) is not None)
            columns += [row for row, _ in known]
            counts += [count for _, count in known]
            ends.append(len(columns))
        shape = len(ends) - 1, len(idf)
        return unit_rows(tf_idf(sparse.csr_matrix((np.array(counts, np.float32), columns, ends), shape), idf))
