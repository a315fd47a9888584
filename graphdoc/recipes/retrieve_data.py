"""Where the batches of training for retrieval come from: queries, documents that answer them, and negatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..corpus.document import values_hash
from ..encoder import DocumentEncoder
from ..errors import EvaluationError
from ..evaluation import Judgements
from ..graphs.batch import GraphBatch
from ..graphs.packing import Packing
from ..inference.precision import computed_in, inference
from ..inference.vectors import segment_queries
from ..runtime.text import counted
from ..sampling import EpochBatches, NegativeDraws, RowLists
from ..settings.retrieve import RetrievalSettings
from ..settings.training import TrainingSettings
from .base import Start
from .corpus_data import CorpusData
from .corpus_pairs import rows_by_id
from .mined_negatives import ListedCorpus, MinedNegatives
from .query_batch import AnsweredQueries, QueryCollator, QueryTexts
from .query_sets import QuerySets, queries_counted

Rows = npt.NDArray[np.int64]


class RetrievalData(CorpusData):
    """Batches of queries with answers and negatives.

    An epoch passes once over the pairs of a query and a document that answers it.

    Args:
        start: what the recipe begins with.
        sets: the queries of the run.

    Attributes:
        judgements: the queries that are trained on, and the judged documents that there are.
        mined: gives lists of negatives; None where they are not drawn from lists.

    Raises:
        EvaluationError: no judged document is in the corpus, one document answers all queries and there is no other
            that they are separated from, or no query has a judged negative where these are wanted.
        SettingsError: batches are too small for the processes.
    """

    def __init__(self, start: Start[RetrievalSettings], sets: QuerySets) -> None:
        super().__init__(start)
        settings, processes = start.settings, start.processes
        training, self._settings = settings.training, settings
        self.judgements = judged = sets.train.among(self._corpus.ids)
        self._row_of = rows_by_id(
            self._corpus, judged.source, [id for grades in judged.qrels.values() for id in grades]
        )
        self._groups = self._corpus.groups
        positives = [self._rows(judged.positives(query)) for query in judged.queries]
        own = (self._rows(sets.own.get(query, ())) for query in judged.queries)
        answers = RowLists.of(
            np.unique(self._groups[np.concatenate(parts)]) for parts in zip(positives, own, strict=True)
        )
        self._pairs = AnsweredQueries(
            self._corpus, np.repeat(np.arange(len(positives)), list(map(len, positives))), np.concatenate(positives)
        )
        self.documents = len(np.unique(self._pairs.rows))
        self._measured = sets.validation
        self._require_others()
        self._lists_hash: str | None = None
        is_judged = settings.negatives.kind == "judged" and settings.negatives.per_query > 0
        pools = self._judged_negatives() if is_judged else None
        if settings.negatives.kind == "lists":
            pools = RowLists.of([np.empty(0, np.int64)] * len(positives))
        self._negatives = NegativeDraws(settings.negatives.per_query, training.seed, self._groups, answers, pools)
        if is_judged and not self._negatives.pool_sizes.any():  # type: ignore[union-attr]
            raise EvaluationError(
                f"{judged.source}: no query has a judged document that does not answer it; set negatives.kind=random, "
                "or give judgements of grade 0"
            )
        collate = QueryCollator(
            self._pairs,
            query_texts(start.encoder, judged, training, encode=self._vectors is not None),
            answers,
            self._groups,
            self._negatives,
            self._config.vector_graph,
            self._vectors,
        )

        def batches_of() -> EpochBatches:
            return EpochBatches(
                self._pairs.passage_counts, training.batch_size, training.seed, processes.rank, processes.count
            )

        self.mined: MinedNegatives | None = None
        if settings.negatives.kind == "lists":
            listed = ListedCorpus(self._corpus, self._vectors, self._groups, judged, sets.own)
            self.mined = MinedNegatives(start, listed)
        self._load(batches_of, collate, self._pairs, across_epochs=self.mined is None)
        if self.mined is not None:
            self.mined.plan(self.steps, self.loader.epoch_steps or self.steps)
            if self.mined.is_given:
                # They are data of the run, whose mistakes are found before it begins.
                self.begin_epoch(0)

    def begin_epoch(self, epoch: int) -> None:
        """Draw from the lists that an epoch has (see :class:`~graphdoc.training.task.TaskData`)."""
        if self.mined is not None and (lists := self.mined.lists_for(epoch)) is not None:
            self.use_lists(lists.lists)

    def state(self) -> dict[str, Any] | None:
        """Which lists of negatives are in use, for a checkpoint."""
        return None if self.mined is None else self.mined.state()

    def go_on(self, state: Mapping[str, Any]) -> None:
        """Use the lists that a checkpoint was written with."""
        if self.mined is not None:
            self.mined.go_on(state)

    def use_lists(self, lists: Mapping[str, Sequence[str]]) -> None:
        """Draw negatives from these lists from the next epoch on.

        Answers of a query, their copies and unknown documents are passed over.

        Args:
            lists: ids of documents by query id, the best first; a query that is missing has no further negatives.
        """
        names = list(self.judgements.queries)
        self._lists_hash = values_hash((query, *lists.get(query, ())) for query in names)
        self._negatives.use(RowLists.of(self._rows(lists.get(query, ())) for query in names))

    def record(self) -> dict[str, Any]:
        """What a run writes down about its data."""
        queries, measured = self.judgements, self._measured
        return {
            **self._corpus.record(),
            "queries": len(queries),
            "queries_hash": values_hash(queries.queries.items()),
            "pairs": len(self._pairs),
            "pairs_hash": _grades_hash(queries),
            **(
                {}
                if measured is None
                else {
                    "measured_queries_hash": values_hash(measured.queries.items()),
                    "measured_grades_hash": _grades_hash(measured),
                }
            ),
            "train": self.documents,
            "left_out": dict(queries.left_out),
            **({} if self._lists_hash is None else {"negatives_hash": self._lists_hash}),
        }

    def describe(self) -> list[str]:
        """What there is to train on, in a few lines."""
        queries, wanted = self.judgements, self._settings.negatives.per_query
        lines = [
            self.report.summary(),
            f"{counted(len(self._pairs), 'pair')} of {queries_counted(len(queries))} and {self.documents:,} documents "
            "that answer them to train on",
        ]
        if unknown := len(queries.unknown_documents):
            lines.append(f"{counted(unknown, 'judged document')} not in the corpus, or left out of it")
        sizes = self._negatives.pool_sizes
        is_known = self.mined is None or self.mined.is_given
        if wanted and is_known and sizes is not None and (few := int((sizes < wanted).sum())):
            lines.append(f"{queries_counted(few)} with fewer than negatives.per_query={wanted} to draw from")
        return lines

    def negatives_line(self) -> str:
        """What queries are separated from, in a few words."""
        negatives = self._settings.negatives
        further = f" and {negatives.per_query} of each query ({negatives.kind})" if negatives.per_query else ""
        return f"negatives: the documents of a batch{further}"

    def _rows(self, ids: Sequence[str] | frozenset[str]) -> Rows:
        """Rows of the documents that are there."""
        return np.array([self._row_of[id] for id in ids if id in self._row_of], np.int64)

    def _require_others(self) -> None:
        """Refuse pairs that leave nothing to learn: whatever the weights are, the loss would be 0."""
        kind, per_query = self._settings.negatives.kind, self._settings.negatives.per_query
        is_drawn = per_query > 0 and (kind != "random" or len(np.unique(self._groups)) > 1)
        if is_drawn or len(np.unique(self._groups[self._pairs.rows])) > 1:
            return
        way_out = "" if len(np.unique(self._groups)) == 1 else ", or set negatives.per_query=1"
        raise EvaluationError(
            f"{self.judgements.source}: all {queries_counted(len(self.judgements))} to train on are answered by one "
            f"document, {self._corpus.ids[int(self._pairs.rows[0])]!r}, or its copies, and there is no other to "
            f"separate it from; give queries of several documents{way_out}"
        )

    def _judged_negatives(self) -> RowLists:
        """Documents that were judged not to answer a query, for every query."""
        qrels = self.judgements.qrels
        return RowLists.of(
            self._rows([id for id, grade in qrels[query].items() if grade <= 0]) for query in self.judgements.queries
        )


def _grades_hash(judged: Judgements) -> str:
    return values_hash(
        (query, id, grade) for query, grades in judged.qrels.items() for id, grade in sorted(grades.items())
    )


def query_texts(
    encoder: DocumentEncoder, judged: Judgements, training: TrainingSettings, *, encode: bool
) -> QueryTexts:
    """Tokenise queries once, and encode them once where the passage encoder stands still.

    Args:
        encoder: the model and its tokenizer.
        judged: the queries.
        training: how the transformer computes.
        encode: whether to encode them.
    """
    token_ids = tuple(np.asarray(one.token_ids[0]) for one in segment_queries(encoder, judged.queries.values()))
    vectors = None
    if encode:
        model = encoder.model
        packing = Packing.on(model.device, training.token_budget, training.padding)
        precision = None if training.precision == "float32" else training.precision
        with computed_in(precision, model.passage_encoder, "the model"), inference(model):
            vectors = model.encode_passages(GraphBatch.of_passages(token_ids), packing).float().cpu().numpy()
    return QueryTexts(tuple(judged.queries), RowLists.of(token_ids), vectors)
