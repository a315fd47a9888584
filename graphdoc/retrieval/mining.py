"""Mining negatives: candidates by words and by vectors, without what may answer the query after all."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import CountVectorizer
from torch.nn.functional import normalize

from ..documents.parsing.formats import numbered_lines
from ..errors import DocumentError, RetrievalError, SettingsError
from ..runtime.arrays import Rows, Vectors
from ..runtime.files import write_atomically
from ..runtime.progress import progress_bar
from ..runtime.text import counted, described, one_line, require_one_of, require_whole
from ..segmentation.spans import SegmentedDocument
from ..segmentation.terms import TermMaker
from ..settings.finetuning import LIST_MAKERS, MinedBy
from .fusion import Ranking, Scores, fused_scores
from .index import DocumentIndex
from .lance import DOCUMENT, RankedRows
from .search import SearchOptions
from .table import DOCUMENT_COLUMNS, document_of, headings_above, text_hash, vectors_of

# Gives the scores of documents for the query of an id, those of its positives among them.
WordScores = Callable[[str, Sequence[str]], Scores]

_LISTS_FORMAT, _LISTS_VERSION = "graphdoc negatives", 1
# Why a document that ranks high is no negative; the first that holds counts.
JUDGED, CLOSE, SIMILAR = "judged_positive", "score_close_to_positive", "near_duplicate_of_positive"
REASONS = {
    JUDGED: "are judged positives",
    CLOSE: "have scores too close to that of the best positive, or above it",
    SIMILAR: "are copies or near-duplicates of a positive",
}
# Documents that are compared with some queries at once, queries at most, and scores that are held, 4 bytes each.
_BLOCK, _QUERIES, _MOST_SCORES = 16_384, 256, 2**26
# Documents wanted of a word search for one negative, since some of those found are none.
_FOUND_PER_NEGATIVE = 2
# Passages that a search takes at least, as an index does.
_FEWEST_PASSAGES = 1_000
# k1 and b of BM25, those of Lucene.
K1, B = 1.2, 0.75


@dataclass(frozen=True, eq=False)
class MinedDocuments:
    """The documents among which negatives are looked for; ``groups`` are equal numbers for equal texts.

    ``vectors`` are ``(documents, hidden)``, compared by the ``similarity`` of the model, ``cosine`` or ``dot``.
    """

    ids: Sequence[str]
    groups: Rows
    vectors: Vectors | None = None
    similarity: str = "cosine"

    @cached_property
    def rows(self) -> dict[str, int]:
        """Places of the documents by id."""
        return {id: row for row, id in enumerate(self.ids)}

    def rows_of(self, ids: Collection[str]) -> Rows:
        """Places of those documents that are there, each once."""
        return np.array(sorted({self.rows[id] for id in ids if id in self.rows}), np.int64)

    @cached_property
    def order(self) -> Rows:
        """The place of every document among the ids in order, by which ties are broken, ``(documents,)``."""
        return np.argsort(sorted(range(len(self.ids)), key=self.ids.__getitem__))

    def similarities(self, queries: Vectors, device: torch.device | str = "cpu") -> Vectors:
        """Similarities of all documents to queries, ``(queries, documents)``, computed in blocks of documents."""
        assert self.vectors is not None
        scores = np.empty((len(queries), len(self.ids)), np.float32)

        def compared(vectors: Vectors) -> torch.Tensor:
            rows = torch.from_numpy(np.array(vectors, np.float32))
            return (normalize(rows, dim=-1) if self.similarity == "cosine" else rows).to(device)

        query = compared(queries)
        for start in range(0, len(self.ids), _BLOCK):
            block = compared(self.vectors[start : start + _BLOCK])
            scores[:, start : start + _BLOCK] = (query @ block.T).cpu().numpy()
        return scores

    def is_similar(self, rows: Rows, positives: Rows, bound: float | None) -> npt.NDArray[np.bool_]:
        """Which documents are copies or near-duplicates of a positive, ``(rows,)``."""
        similar = np.isin(self.groups[rows], self.groups[positives])
        if bound is not None and self.vectors is not None and len(rows):
            units, others = (normalize(torch.from_numpy(np.array(self.vectors[some]))) for some in (rows, positives))
            similar |= (units @ others.T).amax(dim=1).numpy() > bound
        return similar


@dataclass(frozen=True, slots=True)
class MiningSettings:
    """How negatives are mined: the best ``depth`` candidates by words (BM25), by vectors, or both by reciprocal rank.

    Args:
        margin: candidates whose score is above that of the best positive less this share of it are no negatives,
            since they may answer the query too (NV-Retriever's percentage margin); None takes all.
        mask_similar: cosine of document vectors above which a candidate is a near-duplicate of a positive and no
            negative; None takes all but exact copies.

    Raises:
        SettingsError: a value is unknown or out of range.
    """

    by: MinedBy = "both"
    depth: int = 100
    margin: float | None = 0.05
    mask_similar: float | None = 0.98

    def __post_init__(self) -> None:
        require_one_of("by", self.by, LIST_MAKERS)
        require_whole("depth", self.depth, may_be_none=False)
        for name, value in (("margin", self.margin), ("mask_similar", self.mask_similar)):
            if value is not None and not 0 <= value <= 1:
                raise SettingsError(f"{name} is {described(value)}; give a number from 0 to 1, or None")

    @property
    def rankings(self) -> tuple[str, ...]:
        """The rankings that candidates come from."""
        return ("words", "vectors") if self.by == "both" else (self.by,)

    def limit(self, best: float) -> float:
        """The score above which a candidate is too close to the best positive."""
        return np.inf if self.margin is None else best - self.margin * abs(best)


def mine(
    documents: MinedDocuments,
    positives: Mapping[str, Collection[str]],
    settings: MiningSettings,
    *,
    words: WordScores | None = None,
    vectors: Vectors | None = None,
    excluded: Mapping[str, Collection[str]] | None = None,
    record: Mapping[str, Any] | None = None,
    device: torch.device | str = "cpu",
    show_progress_bar: bool | None = None,
) -> NegativeLists:
    """Mine negatives: of every query the best candidates that are no answers, nor copies of one, nor as close.

    Args:
        documents: the documents that are candidates.
        positives: ids of the documents that answer a query, by query id; queries without one among them are left out.
        settings: how.
        words: gives the scores of word search (see :func:`word_scores`); needed by ``words`` and ``both``.
        vectors: ``(queries, hidden)``, vectors of the queries in their order; needed by ``vectors`` and ``both``.
        excluded: ids of further documents that are no negatives by query id, such as those that queries were made of.
        record: what else is written down about the lists, such as the model.
        device: where vectors are compared.
        show_progress_bar: show a bar; None shows it on a terminal when the work is long.

    Raises:
        RetrievalError: no query has a positive among the documents.
    """
    answers = {query: documents.rows_of(ids) for query, ids in positives.items()}
    queries = [(place, query) for place, query in enumerate(positives) if len(answers[query])]
    if positives and not queries:
        raise RetrievalError(
            f"none of {len(positives):,} queries has a positive among the {len(documents.ids):,} documents; give the "
            "documents that the judgements are of"
        )
    rejected: Counter[str] = Counter(dict.fromkeys(REASONS, 0))
    lists: dict[str, tuple[str, ...]] = {}
    together = min(_QUERIES, max(1, _MOST_SCORES // max(1, len(documents.ids))))
    with progress_bar(show_progress_bar, len(queries), "Mining negatives", "queries") as bar:
        for start in range(0, len(queries), together):
            some = queries[start : start + together]
            scores: dict[str, Any] = {}
            if "words" in settings.rankings:
                assert words is not None
                answering = ((query, [documents.ids[row] for row in answers[query]]) for _, query in some)
                scores["words"] = [_word_row(documents, words(*asked)) for asked in answering]
            if "vectors" in settings.rankings:
                assert vectors is not None
                scores["vectors"] = documents.similarities(vectors[[place for place, _ in some]], device)
            for row, (_, query) in enumerate(some):
                others = documents.rows_of((excluded or {}).get(query, ()))
                of_query = {name: rows[row] for name, rows in scores.items()}
                lists[query], counts = _negatives(documents, answers[query], others, of_query, settings)
                rejected.update(counts)
                bar.update(1)
    return NegativeLists({**asdict(settings), **(record or {}), "rejected": dict(rejected)}, lists)


def _word_row(documents: MinedDocuments, scores: Scores) -> npt.NDArray[np.float64]:
    """Scores of all documents, minus infinity for those that were not found."""
    row = np.full(len(documents.ids), -np.inf)
    for id, score in scores.items():
        if score > 0 and id in documents.rows:
            row[documents.rows[id]] = score
    return row


def _negatives(
    documents: MinedDocuments,
    positives: Rows,
    excluded: Rows,
    scores: Mapping[str, npt.NDArray[Any]],
    settings: MiningSettings,
) -> tuple[tuple[str, ...], dict[str, int]]:
    """The negatives of a query by the scores of all documents in each ranking, and how many were passed over."""
    is_close = np.zeros(len(documents.ids), np.bool_)
    for row in scores.values():
        best = float(row[positives].max())
        # A positive that has no word of the query has the score 0.
        is_close |= row > settings.limit(best if best > -np.inf else 0.0)
    is_close[positives] = is_close[excluded] = False
    kept: dict[str, dict[str, float]] = {}
    judged, similar = set[int](), set[int]()
    for name, row in scores.items():
        free = np.where(is_close, -np.inf, row)
        free[positives] = free[excluded] = -np.inf
        rows, passed, last = _walk(documents, free, positives, settings)
        kept[name] = {documents.ids[place]: -float(rank) for rank, place in enumerate(rows)}
        similar |= passed
        judged.update(place for place in positives.tolist() if (-row[place], documents.order[place]) < last)
    counts = {JUDGED: len(judged), CLOSE: int(is_close.sum()), SIMILAR: len(similar)}
    return tuple(fused_scores(kept, "reciprocal_rank"))[: settings.depth], counts


def _walk(
    documents: MinedDocuments, scores: npt.NDArray[Any], positives: Rows, settings: MiningSettings
) -> tuple[list[int], set[int], tuple[float, float]]:
    """Go down a ranking: places of negatives, those of near-duplicates passed over, and where it was left."""
    most, candidates = 2 * settings.depth, np.flatnonzero(scores > -np.inf)
    while True:
        rows = candidates
        if len(rows) > most:
            # All that tie with the last of the best are among them.
            rows = rows[scores[rows] >= np.partition(scores[rows], -most)[-most]]
        rows = rows[np.lexsort((documents.order[rows], -scores[rows]))]
        is_similar = documents.is_similar(rows, positives, settings.mask_similar)
        places = np.flatnonzero(~is_similar)[: settings.depth]
        if len(places) == settings.depth:
            end = places[-1]
            last = (-scores[rows[end]], documents.order[rows[end]])
        elif len(rows) == len(candidates):
            end, last = len(rows), (np.inf, -1)
        else:
            most *= 4
            continue
        return rows[places].tolist(), set(rows[:end][is_similar[:end]].tolist()), last


def merged(parts: Iterable[NegativeLists], order: Iterable[str]) -> NegativeLists:
    """Lists that several processes have mined, each for some of the queries, in the order of all of them."""
    every = list(parts)
    lists = {query: ids for part in every for query, ids in part.lists.items()}
    rejected = {reason: sum(part.rejected[reason] for part in every) for reason in REASONS}
    record = {**every[0].record, "rejected": rejected}
    return NegativeLists(record, {query: lists[query] for query in order if query in lists})


def documents_of_index(index: DocumentIndex) -> MinedDocuments:
    """The documents of an index, to mine negatives among them."""
    ids: list[str] = []
    texts: list[str] = []
    parts: list[Vectors] = []
    for batch in index.rows([*DOCUMENT_COLUMNS, "document_vector"], level=DOCUMENT):
        ids += batch.column("id").to_pylist()
        texts += [text_hash(document_of(row).text) for row in batch.select(DOCUMENT_COLUMNS).to_pylist()]
        parts.append(vectors_of(batch, "document_vector"))
    groups = np.unique(texts, return_inverse=True)[1].astype(np.int64)
    return MinedDocuments(ids, groups, np.concatenate(parts) if parts else None, index.record["similarity"])


def word_scores(index: DocumentIndex, queries: Mapping[str, str], depth: int) -> WordScores:
    """The word search of an index as :func:`mine` asks it; positives that it does not find are looked for by id."""

    def scores(query: str, positives: Sequence[str]) -> Scores:
        rows = 20 * (_FOUND_PER_NEGATIVE * depth + len(positives))
        options: SearchOptions = {"by": "words", "words_level": "passage", "depth": max(_FEWEST_PASSAGES, rows)}
        found = index.scores(queries[query], **options)["words"]
        if missing := [id for id in positives if id not in found]:
            found |= index.scores(queries[query], ids=missing, **options)["words"]
        return found

    return scores


class PassageWords:
    """Word search in this process, which data loaders may fork, as LanceDB's threads may not be.

    Scores are those of an index, but for constants and stop words; ``language`` is a two-letter code.
    """

    def __init__(self, documents: Iterable[SegmentedDocument], language: str) -> None:
        self._terms = TermMaker(language)
        ids, owners, numbers = list[str](), list[int](), list[int]()

        def texts() -> Iterator[str]:
            for segmented in documents:
                owners.extend([len(ids)] * len(segmented.passages))
                numbers.extend(range(len(segmented.passages)))
                for span, headings in zip(segmented.passages, headings_above(segmented), strict=True):
                    yield headings + segmented.text(span)
                ids.append(segmented.document.id)

        counter = CountVectorizer(analyzer=self._terms.occurrences, dtype=np.float32)
        self._weights = bm25_weights(counter.fit_transform(texts())).T.tocsr()
        self._numbers: Mapping[str, int] = counter.vocabulary_
        self._ids, self._owners, self._passages = ids, np.array(owners), np.array(numbers)
        self._counts, self._places = np.bincount(self._owners), {id: place for place, id in enumerate(ids)}

    def scores(self, query: str, positives: Sequence[str], depth: int) -> Scores:
        """Scores of documents for a query (see :func:`word_scores`)."""
        terms = [self._numbers[term] for term in self._terms.occurrences(query) if term in self._numbers]
        scores = np.asarray(self._weights[terms].sum(axis=0), np.float64).ravel()
        most = max(_FEWEST_PASSAGES, 20 * (_FOUND_PER_NEGATIVE * depth + len(positives)))
        found = np.flatnonzero(scores > 0)
        wanted = [self._places[id] for id in positives if id in self._places]
        # Of those that tie with the last of the best the first ones.
        best = found[scores[found] >= np.partition(scores[found], -most)[-most]] if len(found) > most else found
        best = best[np.argsort(-scores[best], kind="stable")[:most]]
        rows = np.union1d(best, found[np.isin(self._owners[found], wanted)])
        owners = self._owners[rows]
        ids, counts = [self._ids[owner] for owner in owners], self._counts[owners].tolist()
        return Ranking.from_rows(RankedRows(ids, scores[rows], True, self._passages[rows].tolist(), counts)).scores


def bm25_weights(counts: csr_matrix) -> csr_matrix:
    """What every term adds to the BM25 score of every text, of the counts of terms ``(texts, terms)``."""
    texts = counts.shape[0]
    lengths = np.asarray(counts.sum(axis=1)).ravel()
    having = np.bincount(counts.indices, minlength=counts.shape[1])
    idf = np.log1p((texts - having + 0.5) / (having + 0.5))
    norms = K1 * (1 - B + B * lengths / max(lengths.mean() if texts else 0.0, 1e-12))
    saturated = counts.data / (counts.data + np.repeat(norms, np.diff(counts.indptr)))
    return csr_matrix(
        ((idf[counts.indices] * saturated).astype(counts.dtype), counts.indices, counts.indptr), counts.shape
    )


@dataclass(frozen=True)
class NegativeLists:
    """Negatives of queries, ids by query id and best first, and a record of what they were mined with.

    In it are the settings, the model with the hash of its weights, and ``rejected``, candidates by reason.
    """

    record: Mapping[str, Any]
    lists: Mapping[str, tuple[str, ...]]

    def __len__(self) -> int:
        """Number of queries."""
        return len(self.lists)

    @property
    def rejected(self) -> dict[str, int]:
        """Candidates that are no negatives, by reason."""
        return dict(self.record.get("rejected", {}))

    @property
    def content(self) -> str:
        """Hash of the lists, by which they are known again."""
        return hashlib.blake2b(self._lines(), digest_size=16).hexdigest()

    def describe(self) -> list[str]:
        """What there is, and what was left out, in a few lines."""
        total, mean = sum(map(len, self.lists.values())), 0.0
        if self.lists:
            mean = total / len(self.lists)
        by, without = self.record.get("by", "unknown means"), sum(not ids for ids in self.lists.values())
        lines = [f"{counted(total, 'mined negative')} of {counted(len(self), 'query')}, {mean:.1f} each, by {by}"]
        counts = {reason: self.rejected.get(name, 0) for name, reason in REASONS.items()}
        lines += [f"no negatives: {count:,} candidates that {reason}" for reason, count in counts.items() if count]
        return [*lines, f"{counted(without, 'query')} without any"] if without else lines

    def write(self, path: str | Path) -> Path:
        """Write the lists with their record as JSON Lines, atomically; a name that ends in ``.gz`` is compressed.

        Raises:
            OutputError: the file cannot be written.
        """
        about = {"format": _LISTS_FORMAT, "format_version": _LISTS_VERSION}
        header = {**about, "queries": len(self), "record": self.record}
        content = json.dumps(header).encode() + b"\n" + self._lines()
        # Without name and time, so that the same lists are the same file.
        content = gzip.compress(content, mtime=0) if str(path).endswith(".gz") else content
        return write_atomically(path, lambda temporary: temporary.write_bytes(content))

    def _lines(self) -> bytes:
        lines = ({"query": query, "negatives": list(ids)} for query, ids in self.lists.items())
        return "".join(json.dumps(line) + "\n" for line in lines).encode()

    @classmethod
    def read(cls, path: str | Path) -> NegativeLists:
        """Read lists that :meth:`write` wrote.

        Raises:
            RetrievalError: the file is missing, damaged or of another version.
        """
        lists: dict[str, tuple[str, ...]] = {}
        header: dict[str, Any] = {"format": _LISTS_FORMAT, "format_version": _LISTS_VERSION}
        number = 1
        try:
            for number, text in numbered_lines(path):
                line = json.loads(text)
                if number == 1:
                    is_right, header = header.items() <= line.items() and "record" in line, line
                else:
                    query, ids = line["query"], line["negatives"]
                    are_texts = isinstance(ids, list) and all(isinstance(id, str) for id in (query, *ids))
                    is_right = are_texts and query not in lists and len(set(ids)) == len(ids)
                    lists[query] = tuple(ids)
                if not is_right:
                    raise ValueError(one_line(text, 60))
            if len(lists) != header.get("queries"):
                raise ValueError(f"damaged, {counted(len(lists), 'query')} of {header.get('queries')!r}")
        except DocumentError as error:
            raise RetrievalError(str(error)) from error.__cause__
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise RetrievalError(
                f"{path}:{number} is no line of a file of negatives of version {_LISTS_VERSION}: {error}; mine the "
                "negatives again with: graphdoc mine"
            ) from error
        return cls(header["record"], lists)
