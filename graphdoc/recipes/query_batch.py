"""Batches of queries, each with a document that answers it and negatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import numpy.typing as npt
import torch

from ..corpus.passage_vectors import PassageVectors
from ..corpus.prepare import TrainingCorpus
from ..graphs.batch import TokenIds
from ..graphs.joined_graphs import JoinedGraphs
from ..graphs.kinds import GraphKind
from ..sampling import NegativeDraws, RowLists
from ..training.batch import TrainingBatch, TrainingExample
from .parts_batch import batch_of_parts

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class QueryExample:
    """A query as training sees it: one passage.

    Args:
        id: its id.
        token_ids: the token ids of the passage, special tokens included.
    """

    id: str
    token_ids: Sequence[TokenIds]
    group: int = -1
    sections: Rows = field(default_factory=lambda: np.zeros(1, np.int64))


@dataclass(frozen=True)
class QueryTexts:
    """Tokenised queries, as few large arrays.

    Args:
        ids: their ids.
        tokens: token ids of all of them, one after the other.
        vectors: ``(queries, encoder hidden)``, their pooled vectors, where the passage encoder stands still.
    """

    ids: Sequence[str]
    tokens: RowLists
    vectors: npt.NDArray[np.float32] | None = None

    def __getitem__(self, number: int) -> QueryExample:
        """One query."""
        return QueryExample(self.ids[number], (self.tokens[number].astype(np.int32),))


class AnsweredQueries:
    """The documents of pairs of query and answer, counted by pair.

    Args:
        corpus: the documents.
        queries: ``(pairs,)``, number of the query of every pair.
        rows: ``(pairs,)``, row of its document.
    """

    def __init__(self, corpus: TrainingCorpus, queries: Rows, rows: Rows) -> None:
        self.corpus, self.queries, self.rows = corpus, queries, rows

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.rows)

    def __getitem__(self, number: int) -> TrainingExample:
        """The document of a pair."""
        return self.corpus[int(self.rows[number])]

    @property
    def passage_counts(self) -> Rows:
        """Passages of the document of every pair, ``(pairs,)``."""
        counts: Rows = self.corpus.passage_counts[self.rows]
        return counts


@dataclass(frozen=True)
class QueryCollator:
    """Makes batches of queries and documents, in the processes that load ahead.

    Args:
        pairs: which document answers which query.
        texts: the queries.
        answers: groups of all documents that are no negatives of a query, for every query.
        groups: ``(documents,)``, equal numbers for copies of one text.
        negatives: draws further documents for every pair.
        graph: kind of the graphs; None where vectors depend on no edges.
        passage_vectors: vectors of a frozen passage encoder, which then go along instead of tokens.
    """

    pairs: AnsweredQueries
    texts: QueryTexts
    answers: RowLists
    groups: Rows
    negatives: NegativeDraws
    graph: GraphKind | None
    passage_vectors: PassageVectors | None = None

    def __call__(self, places: Sequence[tuple[TrainingExample, int, int]]) -> TrainingBatch:
        """Make a batch; a query or document that is in several pairs is in the batch once.

        Returns:
            The batch, with the roles ``query`` (of every pair) and ``candidate``, and the targets of
            :class:`~graphdoc.training.objectives.QueryContrast`.
        """
        epoch, pairs = places[0][1], [number for _, _, number in places]
        queries = self.pairs.queries[pairs].tolist()
        positives = self.pairs.rows[pairs].tolist()
        drawn = [self.negatives.draw(epoch, pair, query).tolist() for pair, query in zip(pairs, queries, strict=True)]
        query_place = {query: number for number, query in enumerate(dict.fromkeys(queries))}
        place = {row: number for number, row in enumerate(dict.fromkeys([*positives, *chain(*drawn)]))}
        given = {row: example for row, (example, _, _) in zip(positives, places, strict=True)}
        documents = [given.get(row) or self.pairs.corpus[row] for row in place]
        examples: list[TrainingExample] = [*(self.texts[query] for query in query_place), *documents]
        answers = [self.answers[query] for query in queries]
        padded = np.full((len(answers), max(map(len, answers))), -1, np.int64)
        for row, groups in zip(padded, answers, strict=True):
            row[: len(groups)] = groups
        vectors = None
        if self.passage_vectors is not None:
            assert self.texts.vectors is not None
            vectors = [
                *(self.texts.vectors[query : query + 1] for query in query_place),
                *(self.passage_vectors.vectors_of(row) for row in place),
            ]
        graphs = JoinedGraphs.join(
            [
                JoinedGraphs.of_queries([0] * len(query_place)),
                JoinedGraphs.of_sections([one.sections for one in documents], self.graph),
            ]
        )
        parts = [(number, np.arange(len(one.sections))) for number, one in enumerate(examples)]
        return TrainingBatch(
            graphs=batch_of_parts(examples, parts, graphs, vectors),
            ids=tuple(one.id for one in documents),
            targets={
                "positive": torch.tensor([place[row] for row in positives]),
                "group": torch.from_numpy(self.groups[list(place)]),
                "answers": torch.from_numpy(padded),
            },
            roles={
                "query": torch.tensor([query_place[query] for query in queries]),
                "candidate": slice(len(query_place), None),
            },
        )
