"""Fitting a model to a corpus without training: the mean of its passages, its words, and the scores of its pairs."""

from __future__ import annotations

import heapq
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse

from ..checkpoints.load import vocabulary_hash
from ..errors import ModelError, SettingsError
from ..modeling.lexical import LexicalPart, inverse_frequencies, tf_idf, unit_rows
from ..runtime.arrays import Floats
from ..runtime.processes import Processes
from ..runtime.text import counted
from ..segmentation.spans import SegmentedDocument
from ..segmentation.terms import TermMaker
from ..settings.document import LEARNED_WEIGHT, DocumentSettings, LexicalFit, LexicalSettings
from ..similarity.background import FEWEST_DOCUMENTS, Background, unrelated_passages
from ..similarity.kinds import similarity_matrix, similarity_of
from .pipeline import EncodingPipeline, Level, StreamOptions
from .precision import as_numpy, inference
from .segmenting import AnyDocument, ManyDocuments, cut_windows, documents_of

Counts = dict[Any, int]
logger = logging.getLogger("graphdoc")

# Passages whose mean is nearly of unit length are all alike; nothing is left of them without it.
_ALIKE = 1 - 1e-6
# Singular values that are noise compared with the first.
_NOISE = 1e-6
# Terms that are counted before rare ones are forgotten: some 400 MB.
MOST_COUNTED = 4_000_000
# Documents that are drawn to weigh vectors and words against each other.
MOST_DRAWN = 1_000
# Those of them whose passages are compared.
MOST_WITH_PASSAGES = 200
# Documents that a lexical part is learned from, drawn where there are more.
MOST_DECOMPOSED = 100_000
# Terms of a vocabulary, those of most documents.
MOST_TERMS = 50_000
# Numbers that are as good as drawn, a different one for every place below 2**32 (a bijection by Knuth).
_SPREAD = 2_654_435_761


@dataclass(frozen=True)
class Fit:
    """Summary of a fit.

    Args:
        documents: number of documents.
        passages: number of their passages.
        centre_length: length of the mean passage vector, 1 where all passages are the same; None without centre.
        terms: terms of the lexical part that was learned.
        lexical_size: length of a lexical vector.
        explained_variance: share of the variance of tf-idf vectors that these hold; None for random vectors of terms.
        lexical_weight: length of a lexical vector next to vectors of the length 1; None without a lexical part.
        background: how alike pairs of the documents are; None of fewer than 50 documents.
    """

    documents: int
    passages: int
    centre_length: float | None = None
    terms: int | None = None
    lexical_size: int | None = None
    explained_variance: float | None = None
    lexical_weight: float | None = None
    background: Background | None = None


class FitOptions(StreamOptions, total=False):
    """Options of what is learned of documents, and of encoding these.

    Args:
        centre: learn the mean passage vector, then taken off passages, queries and sentences (the default).
        lexical: also learn a lexical part, which puts the words of a text next to its vector (see
            :mod:`graphdoc.modeling.lexical`); True for the usual settings, or fields of
            :class:`~graphdoc.settings.document.LexicalFit`.
        lexical_weight: length of that part next to vectors of length 1; None makes both tell pairs of the documents
            apart equally (0.85 where there are fewer than 50), and leaves the model's setting for random numbers.
        description: what the documents are, for the model card.
        processes: the processes that share the work, all of which have to call; None for this one alone.
    """

    centre: bool
    lexical: bool | LexicalFit | Mapping[str, Any]
    lexical_weight: float | None
    description: str
    processes: Processes | None


def fit(
    pipeline: EncodingPipeline,
    documents: ManyDocuments | AnyDocument,
    *,
    centre: bool = True,
    lexical: bool | LexicalFit | Mapping[str, Any] = False,
    lexical_weight: float | None = None,
    description: str = "",
    processes: Processes | None = None,
    **options: Unpack[StreamOptions],
) -> Fit:
    """Fit a model to documents, in one pass and bounded memory; it is changed once all is learned.

    What it was fitted to before is forgotten, but for its lexical part where none is learned. From 50 documents on the
    lexical part is weighed so that the cosines of vectors and of words deviate alike over pairs of documents, which
    adds up their z-scores. The scores of these pairs are kept (:class:`~graphdoc.similarity.background.Background`), so
    that a score can be read as the share of unrelated pairs that are less alike. See :class:`FitOptions`.

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
    is_learned = how is not None and how.projection == "decomposition"
    if is_learned:
        changes.setdefault("lexical_weight", LEARNED_WEIGHT)
    if not centre and how is None:
        raise SettingsError("centre=False without lexical leaves nothing to fit; set one of them")
    model = pipeline.model
    config, had_centre = model.config, model.centre is not None
    words = None if how is None else _Words(how, str(config.language))
    sample = _Sample(MOST_DRAWN)
    rank, count = (0, 1) if processes is None else (processes.rank, processes.count)
    place, totals = rank, (0, 0, np.zeros(1))
    share = islice(iter(documents_of(documents)), rank, None, count) if count > 1 else documents_of(documents)
    for window, vectors in _windows(pipeline, share, centre, options):
        sums = np.zeros(1) if vectors is None else _sum_of_units(pipeline, vectors)
        totals = totals[0] + len(window), totals[1] + sum(len(one.passages) for one in window), totals[2] + sums
        for number, one in enumerate(window):
            if words is not None:
                words.add(place, one.texts)
            if vectors is not None:
                sample.add(place, replace(one, passage_vectors=vectors[number]))
            place += count
    if processes is not None:
        first, second, third = zip(*processes.gather(totals), strict=True)
        totals = sum(first), sum(second), sum(third, np.zeros(1))
        if words is not None:
            words.merge(processes.gather((words.frequencies, words.sample.entries, words.forgotten)))
    number_of_documents, number_of_passages, total = totals
    if number_of_documents < 2:
        raise ModelError(
            f"{pipeline.name} cannot be fitted to {counted(number_of_documents, 'document')}; give at least two, and "
            "better hundreds that are like those to be encoded"
        )
    size = f"{counted(number_of_documents, 'document')}, {counted(number_of_passages, 'passage')}"
    name = f"{description} ({size})" if description else size
    centre_length = mean = part = explained = background = None
    if centre:
        mean = total / number_of_passages
        centre_length = float(np.linalg.norm(mean))
        if centre_length > _ALIKE:
            raise ModelError(
                f"all {number_of_passages:,} passages are alike, so that nothing is left of them without their mean; "
                f"fit {pipeline.name} to documents that differ"
            )
    if words is not None:
        part, explained = words.part(number_of_documents, name)
    head = model.head
    model.set_centre(None if mean is None else torch.from_numpy(mean.astype(np.float32)), [name])
    if part is not None:
        model.set_lexical(part)
    if head is not None and (centre or had_centre or head.words is not None):
        logger.warning("%s: its head read vectors as they were before this fit, and is taken away", pipeline.name)
        model.remove_head(subtopics=False)
    for setting, value in changes.items():
        setattr(config, setting, value)
    config.background = None
    if (similarity := similarity_of(config.similarity)).reads_reference:
        # The vectors now have what such a similarity adds to those of an unfitted model.
        config.similarity = similarity.vector_similarity
    if centre and (found := _encoded(sample, pipeline, processes)) is not None:
        rows, own = found
        if is_learned and lexical_weight is None:
            size = rows.shape[1] - int(config.hidden_size)
            weight = balanced_weight(rows[:, :-size], rows[:, -size:])
            for each in (rows, *own):
                each[:, -size:] *= weight / config.lexical_weight
            config.lexical_weight = weight
        similarity = similarity_of(config.similarity)
        # There are no passage vectors here.
        if not similarity.reads_passages:
            scores = similarity_matrix(rows, rows, similarity.vector_similarity)
            pairs = scores[np.triu_indices(len(scores), 1)]
            background = Background.from_scores(pairs, len(scores), unrelated_passages(own))
            config.background = background.to_dict()
    return Fit(
        number_of_documents,
        number_of_passages,
        centre_length,
        None if part is None else part.settings.terms,
        None if part is None else part.settings.size,
        explained,
        None if model.lexical is None else float(config.lexical_weight),
        background,
    )


def balanced_weight(vectors: npt.NDArray[Any], words: npt.NDArray[Any]) -> float:
    """The length of lexical vectors, next to 1, with which both tell pairs of documents apart equally.

    Their products then deviate alike over all pairs, so that the sum of both orders pairs as the sum of z-scores does.
    ``vectors`` are ``(documents, hidden)``, ``words`` ``(documents, size)``.
    """
    pairs = np.triu_indices(len(vectors), 1)
    deviations = [float(similarity_matrix(some, some)[pairs].std()) for some in (vectors, words)]
    return round(float(np.sqrt(deviations[0] / max(deviations[1], 1e-6))), 4)


def _windows(
    pipeline: EncodingPipeline, documents: Iterable[Any], encode: bool, options: StreamOptions
) -> Iterator[tuple[Sequence[SegmentedDocument], list[npt.NDArray[np.float32]] | None]]:
    """Documents with the pooled vectors of their passages; without these, where words alone are learned."""
    if encode:
        yield from ((window.documents, list(window.pooled())) for window in pipeline.windows(documents, **options))
        return
    read: Any = {name: value for name, value in options.items() if name not in ("dtype", "token_budget", "padding")}
    for window, bar in cut_windows(documents, pipeline.segmenter, pipeline.device, **read):
        yield window, None
        if bar is not None:
            bar.update(len(window))


def _sum_of_units(pipeline: EncodingPipeline, vectors: Sequence[npt.NDArray[np.float32]]) -> Floats:
    """The sum of passage vectors of unit length, ``(hidden,)``."""
    with inference(pipeline.model):
        nodes = pipeline.model.uncentred_passages(torch.from_numpy(np.concatenate(vectors)).to(pipeline.device))
        total: Floats = torch.nn.functional.normalize(nodes, dim=-1).double().sum(dim=0).cpu().numpy()
    return total


class _Sample:
    """Values of some documents: those whose places in the corpus have the smallest drawn numbers."""

    def __init__(self, most: int) -> None:
        self._most = most
        # A heap of (-drawn number, place, value).
        self.entries: list[tuple[int, int, Any]] = []

    def add(self, place: int, value: Any) -> None:
        self.keep((-(((place + 1) * _SPREAD) % 2**32), place, value))

    def keep(self, entry: tuple[int, int, Any]) -> None:
        """Keep an entry, also of another sample, if its number is small enough."""
        (heapq.heappush if len(self.entries) < self._most else heapq.heappushpop)(self.entries, entry)


def _encoded(
    sample: _Sample, pipeline: EncodingPipeline, processes: Processes | None
) -> tuple[Floats, list[Floats]] | None:
    """Vectors of drawn documents by the model as it is now, ``(documents, hidden)``; None where there are too few.

    With them those of passages, ``(passages, node size)``, of the first documents.
    """
    numbers = sorted((-number, place) for number, place, _ in sample.entries)
    if processes is not None:
        numbers = sorted(chain.from_iterable(processes.gather(numbers)))
    chosen = {place for _, place in numbers[:MOST_DRAWN]}
    if len(chosen) < FEWEST_DOCUMENTS:
        return None
    drawn = {place: one for _, place, one in sample.entries if place in chosen}
    few = sorted(chosen)[:MOST_WITH_PASSAGES]
    found: list[dict[int, Floats]] = []
    levels: tuple[tuple[Level, list[int]], ...]
    levels = ("document", list(drawn)), ("passage", [place for place in few if place in drawn])
    for level, places in levels:
        encoded = pipeline.stream([drawn[place] for place in places], level=level, show_progress_bar=False, workers=0)
        vectors = {place: as_numpy(own).astype(np.float64) for place, (_, own) in zip(places, encoded, strict=True)}
        if processes is not None:
            vectors = {place: own for some in processes.gather(vectors) for place, own in some.items()}
        found.append(vectors)
    return np.concatenate([found[0][place] for place in sorted(found[0])]), [found[1][place] for place in few]


class _Words:
    """In how many documents every term occurs, and the counts of a sample of documents."""

    def __init__(self, settings: LexicalFit, language: str) -> None:
        self._settings, self._language = settings, language
        self._maker = TermMaker(language)
        self.frequencies: Counter[Any] = Counter()
        self.sample = _Sample(MOST_DECOMPOSED)
        self.forgotten = 0

    def add(self, place: int, texts: Iterable[str]) -> None:
        counts = dict(Counter(chain.from_iterable(map(self._maker.occurrences, texts))))
        self.frequencies.update(counts.keys())
        if counts:
            self.sample.add(place, counts)
        if len(self.frequencies) > MOST_COUNTED:
            # The rarest terms go until there is room for a quarter more.
            before, rarest = len(self.frequencies), 1
            while len(self.frequencies) > MOST_COUNTED * 3 // 4:
                self.frequencies = Counter({term: n for term, n in self.frequencies.items() if n > rarest})
                rarest += 1
            self.forgotten += before - len(self.frequencies)

    def merge(self, states: Iterable[tuple[Counter[Any], list[tuple[int, int, Counts]], int]]) -> None:
        """Replace the counts of this process with those of all."""
        self.frequencies, self.forgotten, self.sample.entries = Counter(), 0, []
        for frequencies, entries, forgotten in states:
            self.frequencies.update(frequencies)
            self.forgotten += forgotten
            for entry in entries:
                self.sample.keep(entry)

    def part(self, documents: int, name: str) -> tuple[LexicalPart, float | None]:
        """The lexical part of all that was counted, and the share of variance that it holds; None where random."""
        settings, least = self._settings, self._settings.least_documents
        enough = [(term, count) for term, count in self.frequencies.items() if count >= least]
        if not enough:
            raise ModelError(
                f"no word but stop words occurs in {counted(least, 'document')} of {documents:,} (language "
                f"{self._language!r}); lower least_documents, give more documents, or leave the lexical part out"
            )
        if self.forgotten:
            forgotten = counted(self.forgotten, "term")
            logger.warning("%s of few documents were forgotten to bound memory, and may be counted too low", forgotten)
        best = sorted(enough, key=lambda pair: (-pair[1], pair[0]))[:MOST_TERMS]
        terms, counts = zip(*sorted(best), strict=True)
        idf = inverse_frequencies(documents, np.array(counts, np.int64))
        components = mean = explained = None
        size = settings.target_size
        if settings.projection == "decomposition":
            weights = self._weights({term: row for row, term in enumerate(terms)}, idf)
            components, explained = self._decomposed(weights)
            size = components.shape[1]
            vectors = weights @ components
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            mean = (vectors / np.where(lengths > 0, lengths, 1)).mean(axis=0).astype(np.float32)
        part = LexicalPart(
            LexicalSettings(
                terms=len(terms),
                size=size,
                projection=settings.projection,
                language=self._language,
                vocabulary=vocabulary_hash(terms),
                corpora=[name],
            )
        )
        part.idf = torch.from_numpy(idf)
        if components is not None and mean is not None:
            part.components, part.mean = torch.from_numpy(components), torch.from_numpy(mean)
        part.vocabulary = terms
        return part, explained

    def _decomposed(self, weights: Any) -> tuple[npt.NDArray[np.float32], float]:
        """The vectors of terms, ``(terms, size)``, and the share of variance that they hold."""
        from sklearn.decomposition import TruncatedSVD

        documents, terms = weights.shape
        if min(documents, terms) < 2:
            raise ModelError(
                f"{counted(documents, 'document')} with {counted(terms, 'term')} are too few to learn words of; give "
                "more, or leave the lexical part out"
            )
        svd = TruncatedSVD(min(self._settings.target_size, documents, terms), algorithm="randomized", random_state=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            # Documents that are all the same have no variance; they are refused below.
            svd.fit(weights)
        kept = int((svd.singular_values_ > _NOISE * svd.singular_values_[0]).sum())
        if kept < 2:
            raise ModelError(
                f"all {documents:,} documents have the same words, so that nothing tells them apart; fit to documents "
                "that differ, or leave the lexical part out"
            )
        if kept < self._settings.target_size:
            logger.warning(
                "lexical vectors have a size of %d and not %d: give more documents", kept, self._settings.target_size
            )
        components = np.ascontiguousarray(svd.components_[:kept].T, np.float32)
        return components, float(svd.explained_variance_ratio_[:kept].sum())

    def _weights(self, row_of: dict[Any, int], idf: npt.NDArray[np.float32]) -> Any:
        """Tf-idf vectors of the sample, of unit length, sparse ``(documents, terms)``, in the order of the corpus."""
        # In the order of rows, so that sums have one order in every process.
        documents = [
            sorted((row_of[term], count) for term, count in counts.items() if term in row_of)
            for _, _, counts in sorted(self.sample.entries, key=lambda entry: entry[1])
        ]
        columns, counts = zip(*chain.from_iterable(documents), strict=True) if any(documents) else ((), ())
        ends = np.cumsum([0, *map(len, documents)])
        shape = len(documents), len(idf)
        return unit_rows(tf_idf(sparse.csr_matrix((np.array(counts, np.float32), columns, ends), shape), idf))
