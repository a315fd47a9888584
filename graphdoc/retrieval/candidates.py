"""Where mined negatives come from: the documents of an index and its word search, or an index of words alone."""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from ..documents.document import Document
from ..segmentation.spans import SegmentedDocument
from ..similarity.encoded_document import EncodedDocument
from ..subtopics.terms import TermMaker
from .filters import Fields
from .fusion import Scores, group_passages, scores_of
from .index import DocumentIndex
from .lance import Candidates, LanceStore, word_settings
from .mining import MinedDocuments, WordScores
from .table import DOCUMENT, FORMAT, FORMAT_VERSION, Sizes, document_of, headings_above, rows_of, schema_of, table_of

# Documents wanted of a word search for one negative, since some of those found are none.
_FOUND_PER_NEGATIVE = 2
# Passages that a search takes at least, as an index does; k1 and b of BM25 are Lucene's.
_FEWEST_PASSAGES, K1, B = 1_000, 1.2, 0.75
# Positives whose scores are asked for at once.
_POSITIVES = 500
# Documents that are written to an index of words at once.
_WRITTEN = 2_000
# Of rows without vectors.
_SCHEMA = schema_of(Sizes(1, 1, 1))

Row = dict[str, Any]


def documents_of_index(index: DocumentIndex, *, vectors: bool = True) -> MinedDocuments:
    """The documents of an index, to mine negatives among them.

    Args:
        index: the index.
        vectors: whether their vectors are read, ``documents x hidden x 4`` bytes.
    """
    columns = ["id", "title", "document_text", "structure", *(["document_vector"] if vectors else [])]
    ids: list[str] = []
    texts: list[bytes] = []
    parts: list[Any] = []
    for batch in index.rows(columns, level=DOCUMENT):
        ids += batch.column("id").to_pylist()
        texts += [_text_digest(document_of(row)) for row in batch.select(columns[:4]).to_pylist()]
        if vectors and len(batch):
            flat = batch.column("document_vector").flatten().to_numpy(zero_copy_only=False)
            parts.append(np.array(flat, np.float32).reshape(len(batch), -1))
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    return MinedDocuments(
        ids,
        np.array([numbers[text] for text in texts], np.int64),
        np.concatenate(parts) if parts else None,
        index.record["similarity"],
    )


def _text_digest(document: Document) -> bytes:
    return hashlib.blake2b(document.text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def word_scores(index: DocumentIndex, queries: Mapping[str, str], depth: int) -> WordScores:
    """The word search of an index, as :func:`~graphdoc.retrieval.mining.mine` asks it.

    A document's score is the sum of its three best passages. Positives that are not among those found are searched
    for by themselves.

    Args:
        index: the index.
        queries: texts by query id.
        depth: negatives that are wanted of a query.
    """

    def scores(query: str, positives: Sequence[str]) -> Scores:
        wanted = _FOUND_PER_NEGATIVE * depth + len(positives)
        found = index.scores(queries[query], wanted, by="words")["words"]
        missing = [id for id in positives if id not in found]
        for start in range(0, len(missing), _POSITIVES):
            some = missing[start : start + _POSITIVES]
            found |= index.scores(queries[query], len(some), ids=some, by="words")["words"]
        return found

    return scores


class PassageWords:
    """BM25 of passages in this process, which data loaders may fork: LanceDB's threads do not go together with forks.

    Terms are stems without stop words (:class:`~graphdoc.subtopics.terms.TermMaker`), the formula is Lucene's, as in
    an index, and a document's score is the sum of its three best passages.

    Args:
        documents: the documents, held as counts of their terms.
        language: their language, as a two-letter code.
    """

    def __init__(self, documents: Iterable[SegmentedDocument], language: str) -> None:
        self._terms, self._numbers = TermMaker(language), dict[str, int]()
        ids, owners, numbers = list[str](), array("q"), array("q")
        columns, counts, ends = array("i"), array("f"), array("q", [0])
        for segmented in documents:
            for number, (span, above) in enumerate(zip(segmented.passages, headings_above(segmented), strict=True)):
                counted = Counter(self._terms.occurrences(above + segmented.text(span)))
                columns.extend(self._numbers.setdefault(term, len(self._numbers)) for term in counted)
                counts.extend(counted.values())
                ends.append(len(columns))
                owners.append(len(ids))
                numbers.append(number)
            ids.append(segmented.document.id)
        self._ids, self._owners, self._passages = ids, np.array(owners), np.array(numbers)
        shape = (len(owners), len(self._numbers))
        matrix = csr_matrix((np.array(counts), np.array(columns), np.array(ends)), shape, dtype=np.float32)
        self._weights = _bm25_weights(matrix).T.tocsr()

    def scores(self, query: str, positives: Sequence[str], depth: int) -> Scores:
        """Scores of documents for a query (see :func:`word_scores`)."""
        terms = [self._numbers[term] for term in self._terms.occurrences(query) if term in self._numbers]
        scores = np.asarray(self._weights[terms].sum(axis=0), np.float64).ravel()
        most = min(len(scores), max(_FEWEST_PASSAGES, 20 * (_FOUND_PER_NEGATIVE * depth + len(positives))))
        wanted = [place for place, id in enumerate(self._ids) if id in frozenset(positives)]
        rows = np.union1d(np.argsort(-scores, kind="stable")[:most], np.flatnonzero(np.isin(self._owners, wanted)))
        rows = rows[scores[rows] > 0]
        ids = tuple(self._ids[owner] for owner in self._owners[rows])
        return scores_of(group_passages(Candidates(ids, tuple(self._passages[rows].tolist()), scores[rows])))


def _bm25_weights(counts: csr_matrix) -> csr_matrix:
    """What every term adds to the score of every passage, ``(passages, terms)``."""
    passages = counts.shape[0]
    lengths = np.asarray(counts.sum(axis=1)).ravel()
    having = np.bincount(counts.indices, minlength=counts.shape[1])
    idf = np.log1p((passages - having + 0.5) / (having + 0.5))
    norms = K1 * (1 - B + B * lengths / max(lengths.mean() if passages else 0.0, 1e-12))
    saturated = counts.data / (counts.data + np.repeat(norms, np.diff(counts.indptr)))
    return csr_matrix(
        ((idf[counts.indices] * saturated).astype(np.float32), counts.indices, counts.indptr), counts.shape
    )


def index_words(documents: Iterable[Sequence[Row]], language: str, place: str = "memory://") -> DocumentIndex:
    """Index the words of documents without vectors, to search by words alone; it takes a fraction of the time.

    Args:
        documents: the rows of every document (see :func:`word_rows`).
        language: their language, as a two-letter code.
        place: where the index is made.

    Raises:
        MissingExtraError: the store is not installed.
        RetrievalError: the place holds something, or cannot be written.
    """
    record = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "similarity": "cosine",
        "words": word_settings(language),
        "source": None,
        "model": {"name": "none: words alone"},
        "weights": None,
    }
    store = LanceStore.create(place, _SCHEMA, record)
    waiting = iter(documents)
    while window := list(islice(waiting, _WRITTEN)):
        rows = [row for own in window for row in own]
        store.write(table_of(rows, _SCHEMA), [own[0]["id"] for own in window if own])
    store.maintain()
    return DocumentIndex(store)


def word_rows(segmented: SegmentedDocument) -> list[Row]:
    """The rows of a document that word search reads: its text, and those of its sections and passages."""
    count = len(segmented.passages)
    nothing = np.zeros((count, 1), np.float32)
    encoded = EncodedDocument(segmented, np.zeros(1, np.float32), nothing, nothing, np.ones(count, np.float32))
    rows = rows_of(encoded, None, Fields(_SCHEMA), unit_length=False)
    return [{name: value for name, value in row.items() if not isinstance(value, np.ndarray)} for row in rows]
