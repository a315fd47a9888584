"""Sets of documents that a file names, and everything that can be measured on each: labels, pairs and rankings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
from pydantic import Field, model_validator
from sklearn.preprocessing import normalize

from ..documents.document import Document
from ..documents.readers import ReadingReport, Skipped, read_documents
from ..documents.readers.pair_files import LabelledPair, Pairs, read_pair_file
from ..documents.readers.streams import LeftOutSections
from ..encoder import DocumentEncoder
from ..errors import EvaluationError
from ..runtime.text import counted
from ..settings.base import Count, FileName, Settings
from .baselines import TfidfVectors
from .clustering import ClusteringEvaluator, LabelledVectors
from .judgements import Judgements, read_judgements
from .labels import LabelledDocuments, ReadyDocument, plain_document
from .pair_scores import score_pairs
from .pairs import PairEvaluator, require_both_labels
from .query_ranking import DEPTH, RankingEvaluator
from .ranking import score_run
from .resampling import RESAMPLES, Estimate, Floats, mean_estimate
from .trec import Run, own_documents

SEEDS = 20
PAIR_AUC, RANDOM_AUC = "pair AUC", "random pair AUC"

Names = list[FileName]


class SetSettings(Settings):
    """One set: what it holds says what is measured on it, labels, pairs or judgements."""

    name: Annotated[str, Field(min_length=1, max_length=60)]
    """what the table calls it"""
    documents: Names = Field(default_factory=list)
    """corpora, whose field ``split`` says which documents are for fitting and which for testing"""
    train: Names = Field(default_factory=list)
    """corpora for fitting, where files are split"""
    test: Names = Field(default_factory=list)
    """corpora for testing, where files are split"""
    test_split: str = "test"
    """value of the field ``split`` of documents for testing"""
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
    query_column: str = "text"
    """field that holds the text of a query"""
    own_grade: int | None = None
    """grade of the document that a query was written from, which is left out of its ranking"""
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
            raise ValueError("needs documents, or else test, which train may stand beside")
        return self


class SetFile(Settings):
    """The sets of a file."""

    sets: Annotated[list[SetSettings], Field(min_length=1)]
    """the sets, one after another"""

    @model_validator(mode="after")
    def _check(self) -> SetFile:
        name, times = Counter(settings.name for settings in self.sets).most_common(1)[0]
        if times > 1:
            raise ValueError(f"sets has {times} sets of the name {name!r}")
        return self


@dataclass(frozen=True)
class MeasuredSet:
    """A set of documents with labels, pairs or judgements.

    Args:
        settings: what the set is.
        train: documents for fitting.
        test: documents for testing.
        others: documents that only occur in pairs, or are ranked.
        labels: whether vectors are measured by the labels of train and test.
        pairs: pairs of documents.
        judgements: queries and what answers them; every document is ranked.
        notes: what was left out, one line each.

    Raises:
        EvaluationError: nothing can be measured on it.
    """

    settings: SetSettings
    train: Sequence[ReadyDocument]
    test: Sequence[ReadyDocument]
    others: Sequence[ReadyDocument] = ()
    labels: bool = False
    pairs: Pairs = field(default_factory=lambda: Pairs(()))
    judgements: Judgements | None = None
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not (self.labels or self.pairs or self.judgements):
            raise EvaluationError(
                f"set {self.settings.name!r} has neither labels nor pairs nor judgements; name pairs or judged"
            )
        if self.pairs:
            require_both_labels(self.pairs)

    @property
    def documents(self) -> list[ReadyDocument]:
        """All documents, each once; an id in both parts means the test document."""
        return list({plain_document(document).id: document for document in self._all}.values())

    @property
    def _all(self) -> tuple[ReadyDocument, ...]:
        return (*self.others, *self.train, *self.test)

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
        ready = {encoded.document.id: encoded for encoded in encoder.with_passage_vectors(plain)}

        def encoded(part: Sequence[ReadyDocument]) -> list[ReadyDocument]:
            # An id that is in several parts stands for one of these documents alone.
            found = [(ready[plain_document(document).id], document) for document in part]
            return [own if own.document is plain_document(document) else document for own, document in found]

        return replace(self, train=encoded(self.train), test=encoded(self.test), others=encoded(self.others))

    def all_pairs(self, seed: int) -> list[LabelledPair]:
        """The pairs, and behind them as many random ones as are positive.

        A random pair is the first document of a positive pair with the second one of another, which it is in no
        positive pair with.

        Args:
            seed: draws them.
        """
        drawn: list[LabelledPair] = []
        positive = [pair for pair in self.pairs if pair.label] if self.settings.random_pairs else []
        known = {pair.documents for pair in positive}
        draw = np.random.default_rng(seed)
        for pair in positive:
            for place in draw.permutation(len(positive)):
                other = LabelledPair(pair.a, positive[place].b, 0)
                if other.a != other.b and other.documents not in known:
                    drawn.append(other)
                    break
        return [*self.pairs, *drawn]

    def measure(
        self, encoder: DocumentEncoder, *, seeds: int = SEEDS, resamples: int = RESAMPLES, seed: int = 0
    ) -> dict[str, Estimate]:
        """Measure an encoder.

        Args:
            encoder: the encoder.
            seeds: seeds of k-means, of one start each.
            resamples: number of bootstrap resamples of documents, pairs and queries.
            seed: draws resamples and random pairs.

        Returns:
            ``NMI``, ``purity`` and ``10-NN`` (accuracy) with labels, ``pair AUC`` and ``random pair AUC`` with pairs,
            and measures of rankings with judgements.
        """
        vectors = similarities = run = None
        if self.labels:
            vectors = self._clustering(seeds).vectors(encoder, show_progress=False)
        if self.pairs:
            pairs = PairEvaluator(self.documents, self.all_pairs(seed), lengths=(), resamples=0)
            similarities = pairs.similarities(encoder, show_progress=False).test
        if self.judgements is not None:
            judged = self.judgements
            run = RankingEvaluator(self.documents, judged.queries, judged.qrels, own=self._own).rank(encoder)
        return self._estimates(vectors, similarities, run, seeds, resamples, seed)

    def measure_words(self, *, seeds: int = SEEDS, resamples: int = RESAMPLES, seed: int = 0) -> dict[str, Estimate]:
        """Measure TF-IDF of whole texts, whose document frequencies are those of the set (see :meth:`measure`)."""
        documents = [plain_document(document) for document in self.documents]
        words = TfidfVectors([document.text for document in documents])
        row_of = {document.id: row for row, document in enumerate(documents)}
        vectors = similarities = run = None
        if self.labels:
            parts = [LabelledDocuments.of(part).documents for part in (self.train, self.test)]
            rows = [[row_of[plain_document(document).id] for document in part] for part in parts]
            train, test = (normalize(words.matrix[chosen]) for chosen in rows)
            vectors = LabelledVectors(train, test, np.empty(0))
        if self.pairs:
            places = [(row_of[pair.a], row_of[pair.b]) for pair in self.all_pairs(seed)]
            similarities = words.similarities(np.array(places, np.int64))
        if self.judgements is not None:
            run = {}
            for query, text in self.judgements.queries.items():
                scores = words.scores(words.of([text]))
                best = np.argsort(-scores, kind="stable")[:DEPTH].tolist()
                hits = {documents[place].id: float(scores[place]) for place in best if scores[place] > 0}
                run[query] = {id: score for id, score in hits.items() if id not in self._own.get(query, ())}
        return self._estimates(vectors, similarities, run, seeds, resamples, seed)

    @property
    def _own(self) -> Mapping[str, frozenset[str]]:
        grade = self.settings.own_grade
        return {} if grade is None or self.judgements is None else own_documents(self.judgements.qrels, grade)

    def _clustering(self, seeds: int) -> ClusteringEvaluator:
        return ClusteringEvaluator(self.train, self.test, seeds=range(seeds), starts=1, normalize=True)

    def _estimates(
        self,
        vectors: LabelledVectors | None,
        similarities: Floats | None,
        run: Run | None,
        seeds: int,
        resamples: int,
        seed: int,
    ) -> dict[str, Estimate]:
        found: dict[str, Estimate] = {}
        how: Any = {"resamples": resamples, "seed": seed}
        if vectors is not None:
            found |= self._clustering(seeds).estimates(vectors, without=self.settings.without, **how)
        if similarities is not None:
            labels, given = np.array([pair.label for pair in self.all_pairs(seed)]), len(self.pairs)
            rows = {PAIR_AUC: np.arange(given)}
            if given < len(labels):
                rows[RANDOM_AUC] = np.append(np.flatnonzero(labels[:given]), np.arange(given, len(labels)))
            for name, chosen in rows.items():
                auc = score_pairs(labels[chosen].tolist(), similarities[chosen], 0.0, **how).estimate("auc")
                assert auc is not None
                found[name] = auc
        if run is not None and self.judgements is not None:
            scores = score_run(run, self.judgements.qrels, self.settings.measures, own=self._own)
            found |= {name: mean_estimate(scores.of(name), **how) for name in scores.measures}
        return found


def read_set(settings: SetSettings, encoder: DocumentEncoder, report: ReadingReport | None = None) -> MeasuredSet:
    """Read a set.

    Args:
        settings: what it is.
        encoder: a model; documents that give it no passages are left out and listed.
        report: is filled while documents are read.

    Raises:
        EvaluationError: nothing can be measured on it.
        DocumentError: documents or pairs cannot be read.
    """
    report = ReadingReport() if report is None else report
    parts: dict[str, list[Document]] = {"train": [], "test": [], "others": []}
    if settings.test:
        parts["train"], parts["test"] = (_read(part, settings, report) for part in (settings.train, settings.test))
    else:
        for document in _read(settings.documents, settings, report):
            split = str(document.metadata.get("split"))
            parts["test" if split == settings.test_split else split if split == "train" else "others"].append(document)
    train, test, others = (
        [document for document in _drawn(part, settings.most_documents) if _is_encodable(document, encoder, report)]
        for part in parts.values()
    )
    ids = {document.id for document in (*others, *train, *test)}
    different = [{name for (name,) in LabelledDocuments.of(part).labels} for part in (train, test)]
    labels = all(len(names) > 1 for names in different) if settings.labels is None else settings.labels
    notes = []
    pairs = Pairs(())
    if settings.pairs is not None:
        given = read_pair_file(settings.pairs)
        given.require_agreement()
        there = given.among(ids, "leave_out")
        pairs = there.chosen([number for number, pair in enumerate(there) if pair.a != pair.b])
        if left := len(given) - len(pairs):
            notes.append(f"{counted(left, 'pair')} left out, of documents that are not there or of one with itself")
    judgements = None
    if settings.judged is not None:
        read = read_judgements(settings.judged, only=settings.only, text_column=settings.query_column)
        judgements = read.among(ids)
        notes += [f"{count:,} {reason}" for reason, count in judgements.left_out.items()]
    return MeasuredSet(settings, train, test, others, labels, pairs, judgements, notes)


def _is_encodable(document: Document, encoder: DocumentEncoder, report: ReadingReport) -> bool:
    # A letter or digit always makes a token, so that few documents are segmented twice.
    if any(map(str.isalnum, document.text)) or encoder.segment(document).passages:
        return True
    report.leave_out([Skipped(document.id, "it has no text to encode")])
    return False


def _read(sources: Sequence[str], settings: SetSettings, report: ReadingReport) -> list[Document]:
    sections = LeftOutSections(tuple(dict.fromkeys(settings.leave_out_sections)))
    documents = list(sections.without(read_documents(list(sources), report=report))) if sources else []
    if unused := [heading for heading, count in sections.counts.items() if sources and not count]:
        raise EvaluationError(f"set {settings.name!r}: no document has a section {unused[0]!r} (leave_out_sections)")
    return documents


def _drawn(documents: list[Document], most: int | None) -> list[Document]:
    """So many documents in their order, drawn from all of them by a fixed seed."""
    if most is None or len(documents) <= most:
        return documents
    rows = np.random.default_rng(0).permutation(len(documents))[:most]
    return [documents[row] for row in sorted(rows.tolist())]
