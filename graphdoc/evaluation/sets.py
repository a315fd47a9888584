"""Sets of documents that a file names, everything that can be measured on each, and the rows that are measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field, model_validator
from sklearn.preprocessing import normalize

from ..documents.document import Document
from ..documents.readers import ReadingReport, Skipped, read_documents
from ..documents.readers.pair_files import LabelledPair, Pairs, read_pair_file
from ..documents.readers.streams import LeftOutSections
from ..encoder import DocumentEncoder
from ..errors import EvaluationError
from ..runtime.arrays import Floats
from ..runtime.text import counted
from ..segmentation.spans import Coverage
from ..segmentation.terms import TermMaker
from ..settings.base import Count, FileName, Settings
from ..settings.run import ColumnNames
from ..similarity.evidence import Reference
from .baselines import CENTRED, EVIDENCE, UNTRAINED, TfidfVectors, text_of
from .clustering import ClusteringEvaluator
from .judgements import Judgements, read_judgements
from .labels import LabelledDocuments, ReadyDocument, plain_document, split_of
from .measures import RankedDocuments
from .pair_scores import score_pairs
from .pairs import PairEvaluator, require_both_labels
from .query_ranking import DEPTH, RankingEvaluator
from .ranking import score_run
from .resampling import RESAMPLES, Estimate, mean_estimate
from .trec import Run

SEEDS = 20
PAIR_AUC, RANDOM_AUC = "pair AUC", "random pair AUC"

Names = list[FileName]


class SetSettings(Settings):
    """One set: what it holds says what is measured on it, labels, pairs or judgements."""

    name: Annotated[str, Field(min_length=1, max_length=60)]
    """what the table calls it"""
    documents: Names = Field(default_factory=list)
    """corpora, whose field ``split`` says which documents are for fitting (train) and which for testing (test)"""
    train: Names = Field(default_factory=list)
    """corpora for fitting, where files are split"""
    test: Names = Field(default_factory=list)
    """corpora for testing, where files are split"""
    columns: ColumnNames = ColumnNames()
    """what the columns of rows are called"""
    labels: bool | None = None
    """whether to measure how vectors find labels; null where documents have some"""
    pairs: FileName | None = None
    """file of pairs of documents: id_a, id_b, 0 or 1 by tabs"""
    random_pairs: bool = True
    """also measure the positive pairs against as many random ones"""
    judged: FileName | None = None
    """folder of queries and judgements in BEIR's layout"""
    only: list[str] = Field(default_factory=list)
    """conditions on fields of the queries, such as ``kind=specific``"""
    measures: list[str] = Field(default_factory=lambda: ["nDCG@10", "MAP"])
    """measures of rankings"""
    without: list[Annotated[str, Field(pattern="^(NMI|purity|10-NN)$")]] = Field(default_factory=list)
    """measures of labels that say nothing here, of ``NMI``, ``purity`` and ``10-NN``"""
    leave_out_sections: list[str] = Field(default_factory=list)
    """headings of sections that are left out, such as ``Abstract``"""
    most_documents: Count | None = None
    """documents of each part that are read, drawn where there are more; null for all"""

    @model_validator(mode="after")
    def _check(self) -> SetSettings:
        if bool(self.documents) == bool(self.test) or (self.train and not self.test):
            raise ValueError("needs documents, or else test, with or without train")
        return self


class SetFile(Settings):
    """The sets of a file, with unique names."""

    sets: Annotated[list[SetSettings], Field(min_length=1)]
    """the sets, one after another"""

    @model_validator(mode="after")
    def _check(self) -> SetFile:
        names = [settings.name for settings in self.sets]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"sets has several sets of the name {min(twice)!r}")
        return self


@dataclass(frozen=True)
class MeasuredSet:
    """A set of documents with labels, pairs or judgements; ``others`` only occur in pairs, or are ranked."""

    settings: SetSettings
    train: Sequence[ReadyDocument]
    test: Sequence[ReadyDocument]
    others: Sequence[ReadyDocument] = ()
    labels: bool = False
    pairs: Pairs = field(default_factory=lambda: Pairs(()))
    judgements: Judgements | None = None
    notes: Sequence[str] = ()

    @property
    def documents(self) -> list[ReadyDocument]:
        """All documents, each once; an id in both parts means the test document."""
        return list({plain_document(one).id: one for one in (*self.others, *self.train, *self.test)}.values())

    @property
    def sizes(self) -> str:
        """How large it is, in words."""
        sizes = [counted(len(self.documents), "document")]
        if self.labels:
            sizes.append(f"{len(self.train):,} for fitting and {len(self.test):,} for testing")
        if self.pairs:
            sizes.append(counted(len(self.pairs), "pair"))
        if self.judgements is not None:
            sizes.append(f"{len(self.judgements):,} queries")
        return "; ".join([", ".join(sizes), *self.notes])

    def with_passages_of(self, encoder: DocumentEncoder) -> MeasuredSet:
        """The same set with its passages encoded, for encoders with the same passage encoder."""
        plain = [plain_document(document) for document in self.documents]
        ready = {id(encoded.document): encoded for encoded in encoder.with_passage_vectors(plain)}
        # A document whose id a test document has as well stays as it is.
        train, test, others = (
            [ready.get(id(plain_document(document)), document) for document in part]
            for part in (self.train, self.test, self.others)
        )
        return replace(self, train=train, test=test, others=others)

    def clustering(self, seeds: int = SEEDS) -> ClusteringEvaluator:
        """The evaluator of vectors by labels."""
        return ClusteringEvaluator(self.train, self.test, seeds=range(seeds), starts=1, normalize=True)

    def random_pairs(self, seed: int) -> list[LabelledPair]:
        """As many random pairs as pairs are positive, where the settings ask for them.

        Each is the first document of a positive pair with the second of another, where both are in no positive pair.
        """
        drawn: list[LabelledPair] = []
        positive = [pair for pair in self.pairs if pair.label] if self.settings.random_pairs else []
        known = {pair.documents for pair in positive}
        draw = np.random.default_rng(seed)
        for pair in positive:
            others = (LabelledPair(pair.a, positive[place].b, 0) for place in draw.permutation(len(positive)))
            chosen = next((other for other in others if other.a != other.b and other.documents not in known), None)
            drawn += [] if chosen is None else [chosen]
        return drawn

    def measure(
        self, row: Representation, *, seeds: int = SEEDS, resamples: int = RESAMPLES, seed: int = 0
    ) -> dict[str, Estimate]:
        """Measure a way to represent documents, with bootstrap resamples of documents, pairs and queries.

        Returns:
            ``NMI``, ``purity`` (over seeds of k-means, of one start each) and ``10-NN`` (accuracy) with labels,
            ``pair AUC`` and ``random pair AUC`` with pairs, and measures of rankings with judgements.
        """
        estimates: dict[str, Estimate] = {}
        draws: Any = {"resamples": resamples, "seed": seed}
        if self.labels:
            estimates |= self.clustering(seeds).estimates(*row.vectors(), without=self.settings.without, **draws)
        if self.pairs:
            random = self.random_pairs(seed)
            similarities = row.similarities([*self.pairs, *random])
            labels, count = np.array([pair.label for pair in self.pairs]), len(self.pairs)
            estimates[PAIR_AUC] = score_pairs(labels, similarities[:count], 0.0, **draws).estimates["auc"]
            if random:
                apart = np.append(similarities[:count][labels == 1], similarities[count:])
                truth = np.arange(len(apart)) < labels.sum()
                estimates[RANDOM_AUC] = score_pairs(truth, apart, 0.0, **draws).estimates["auc"]
        if self.judgements is not None:
            ranked, candidates = row.rank(self.judgements), RankedDocuments(len(self.documents))
            scores = score_run(ranked, self.judgements.qrels, self.settings.measures, candidates=candidates)
            estimates |= {name: mean_estimate(scores.of(name), **draws) for name in scores.measures}
        return estimates


class Representation(NamedTuple):
    """A way to represent the documents of a set, so that they can be measured by labels, pairs and rankings."""

    vectors: Callable[[], tuple[Any, Any]]
    """gives L2-normalized vectors of the labelled documents, ``(documents, hidden)`` for fitting and for testing"""
    similarities: Callable[[Sequence[LabelledPair]], Floats]
    """gives the similarities of pairs of documents, ``(pairs,)``"""
    rank: Callable[[Judgements], Run]
    """gives scores of documents for queries"""


def encoder_vectors(data: MeasuredSet, encoder: DocumentEncoder) -> Representation:
    """Vectors of an encoder for the documents of a set."""

    def similarities(pairs: Sequence[LabelledPair]) -> Floats:
        return PairEvaluator(data.documents, pairs).similarities(encoder, by_vectors=True, show_progress_bar=False)

    def rank(judgements: Judgements) -> Run:
        return RankingEvaluator(data.documents, judgements.queries, judgements.qrels).rank(encoder)

    return Representation(lambda: data.clustering().vectors(encoder, show_progress_bar=False), similarities, rank)


def centred_mean(data: MeasuredSet, encoder: DocumentEncoder) -> Representation:
    """The untrained mean, less the mean of the documents for fitting."""
    fitted = deepcopy(encoder)
    fitted.fit(data.train or data.documents, show_progress_bar=False)
    return encoder_vectors(data, fitted)


def words(data: MeasuredSet, _: DocumentEncoder) -> Representation:
    """TF-IDF of whole texts, whose document frequencies are those of the set."""
    texts = {document.id: document.text for document in map(plain_document, data.documents)}
    ids, tfidf = list(texts), TfidfVectors(list(texts.values()))
    row_of = {id: row for row, id in enumerate(ids)}

    def vectors(part: Sequence[ReadyDocument]) -> Any:
        rows = [row_of[plain_document(document).id] for document in LabelledDocuments.from_documents(part).documents]
        return normalize(tfidf.matrix[rows])

    def similarities(pairs: Sequence[LabelledPair]) -> Floats:
        return tfidf.similarities(np.array([(row_of[pair.a], row_of[pair.b]) for pair in pairs]))

    def rank(judgements: Judgements) -> Run:
        found = {query: _best(ids, tfidf.scores(tfidf.of([text]))) for query, text in judgements.queries.items()}
        return {query: {id: score for id, score in scores.items() if score > 0} for query, scores in found.items()}

    return Representation(lambda: (vectors(data.train), vectors(data.test)), similarities, rank)


def evidence(data: MeasuredSet, encoder: DocumentEncoder) -> Representation:
    """Words and vectors together, measured by the pairs of the set (see :mod:`graphdoc.similarity.evidence`)."""
    plain = [plain_document(document) for document in data.documents]
    row_of = {document.id: row for row, document in enumerate(plain)}
    maker = TermMaker(encoder.model.config.language)
    terms = [Counter(maker.occurrences(text_of(document))) for document in plain]
    encoded = encoder.stream(data.documents, totals=Coverage(), show_progress_bar=False)
    vectors = np.concatenate([rows.numpy() for _, rows in encoded])
    reference = Reference.from_vectors(vectors, terms)
    rows = reference.rows(vectors, terms)

    def of_part(part: Sequence[ReadyDocument]) -> Any:
        labelled = LabelledDocuments.from_documents(part).documents
        return normalize(rows[[row_of[plain_document(one).id] for one in labelled]])

    def similarities(pairs: Sequence[LabelledPair]) -> Floats:
        a, b = (rows[[row_of[id] for id in ids]] for ids in zip(*((pair.a, pair.b) for pair in pairs), strict=True))
        return np.asarray(a.multiply(b).sum(axis=1)).ravel()

    def rank(judgements: Judgements) -> Run:
        texts = list(judgements.queries.values())
        asked = [Counter(maker.occurrences(text)) for text in texts]
        found = reference.rows(encoder.encode_query(texts), asked) @ rows.T
        return {query: _best([*row_of], row) for query, row in zip(judgements.queries, found.toarray(), strict=True)}

    return Representation(lambda: (of_part(data.train), of_part(data.test)), similarities, rank)


def _best(ids: Sequence[str], scores: Floats) -> dict[str, float]:
    return {ids[place]: float(scores[place]) for place in np.argsort(-scores, kind="stable")[:DEPTH].tolist()}


class SetRow(NamedTuple):
    """A row that is shown next to the models."""

    make: Callable[[MeasuredSet, DocumentEncoder], Representation]
    of_backbone: bool = True
    """whether there is one for every backbone, whose untrained mean ``make`` gets; otherwise it gets any encoder"""


ROWS: dict[str, SetRow] = {
    "TF-IDF": SetRow(words, of_backbone=False),
    UNTRAINED: SetRow(encoder_vectors),
    CENTRED: SetRow(centred_mean),
    EVIDENCE: SetRow(evidence),
}


def read_set(settings: SetSettings, encoder: DocumentEncoder, report: ReadingReport | None = None) -> MeasuredSet:
    """Read a set; documents that give an encoder no passages are left out and listed in the report."""
    report = ReadingReport() if report is None else report
    parts: dict[str, list[Document]] = {"train": [], "test": [], "others": []}
    if settings.test:
        parts["train"], parts["test"] = (_read(part, settings, report) for part in (settings.train, settings.test))
    else:
        for document in _read(settings.documents, settings, report):
            parts.get(split_of(document) or "", parts["others"]).append(document)
    train, test, others = (_encodable(part, settings.most_documents, encoder, report) for part in parts.values())
    ids = {document.id for document in (*others, *train, *test)}
    labels = settings.labels
    if labels is None:
        labels = all(len(LabelledDocuments.from_documents(part).classes) > 1 for part in (train, test))
    notes, pairs = [], Pairs(())
    if settings.pairs is not None:
        read_pairs = read_pair_file(settings.pairs)
        there = read_pairs.among(ids, "leave_out")
        pairs = there.select([number for number, pair in enumerate(there) if pair.a != pair.b])
        if pairs:
            require_both_labels(pairs, len(read_pairs))
        if left := len(read_pairs) - len(pairs):
            notes.append(f"{counted(left, 'pair')} left out, of documents that are not there or of one with itself")
    judgements = None
    if settings.judged is not None:
        judgements = read_judgements(settings.judged, only=settings.only).among(ids)
        notes += [f"{count:,} {reason}" for reason, count in judgements.left_out.items()]
    if not (labels or pairs or judgements):
        raise EvaluationError(f"set {settings.name!r} has no labels, pairs or judgements; name pairs or judged")
    return MeasuredSet(settings, train, test, others, labels, pairs, judgements, notes)


def _read(sources: Sequence[str], settings: SetSettings, report: ReadingReport) -> list[Document]:
    sections = LeftOutSections(tuple(dict.fromkeys(settings.leave_out_sections)))
    read = read_documents(sources, columns=settings.columns, report=report)
    documents = list(sections.without(read)) if sources else []
    if unused := [heading for heading, count in sections.counts.items() if sources and not count]:
        raise EvaluationError(f"set {settings.name!r}: no document has a section {unused[0]!r} (leave_out_sections)")
    return documents


def _encodable(
    documents: list[Document], most: int | None, encoder: DocumentEncoder, report: ReadingReport
) -> list[Document]:
    """The documents that have passages, of ``most`` that are drawn, always the same ones and in their order."""
    if most is not None and len(documents) > most:
        rows = np.random.default_rng(0).permutation(len(documents))[:most]
        documents = [documents[row] for row in sorted(rows.tolist())]
    found = [(document, encoder.segmenter.finds_passages(document)) for document in documents]
    report.leave_out(Skipped(document.id, "it has no text to encode") for document, has_text in found if not has_text)
    return [document for document, has_text in found if has_text]
