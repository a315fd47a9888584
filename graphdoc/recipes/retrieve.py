"""Training a model to find documents by queries (Graph-RoBERTa, section 3.3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch

from ..corpus.corpus import TrainingCorpus
from ..corpus.document import TrainingDocument, values_hash
from ..corpus.parts import PassageVectors
from ..errors import EvaluationError
from ..evaluation import Judgements
from ..graphs.batch import GraphBatch, Packing
from ..graphs.kinds import GraphKind, JoinedGraphs
from ..inference.precision import computed_in, inference, training_precision
from ..inference.vectors import segment_queries
from ..losses import InfoNCELoss
from ..runtime.arrays import Rows
from ..runtime.text import counted
from ..sampling.batches import EpochBatches
from ..sampling.negatives import NegativeSampler, RowLists
from ..settings.finetuning import RetrievalSettings
from ..training.objectives import BestPassageObjective, QueryObjective, TrainingBatch
from ..training.run import begin_training
from .base import CorpusRecipe, Examples, LossSettings
from .mined_negatives import MinedNegatives
from .pairs import rows_by_id
from .queries import QueryMeasurement, QuerySets, read_query_sets


@dataclass(frozen=True)
class QueryCollator:
    """Makes batches of queries and documents, in the processes that load ahead.

    Args:
        corpus: the documents.
        queries: ``(pairs,)``, number of the query of every pair.
        rows: ``(pairs,)``, row of its document.
        tokens: token ids of the queries, each of which is one passage.
        answers: groups of all documents that are no negatives of a query, for every query.
        negatives: draws further documents for every pair.
        graph: kind of the graphs; None where vectors depend on no edges.
        passage_vectors: vectors of a frozen passage encoder, which then go along instead of tokens.
        query_vectors: ``(queries, encoder hidden)``, such vectors of the queries.
    """

    corpus: TrainingCorpus
    queries: Rows
    rows: Rows
    tokens: RowLists
    answers: RowLists
    negatives: NegativeSampler
    graph: GraphKind | None
    passage_vectors: PassageVectors | None = None
    query_vectors: npt.NDArray[np.float32] | None = None

    def __call__(self, places: Sequence[tuple[TrainingDocument, int, int]]) -> TrainingBatch:
        """Make a batch with the roles and targets of :class:`~graphdoc.training.objectives.QueryObjective`.

        A query or document that is in several pairs is in it once.
        """
        epoch, pairs = places[0][1], [number for _, _, number in places]
        queries = self.queries[pairs].tolist()
        positives = self.rows[pairs].tolist()
        drawn = [self.negatives.sample(epoch, pair, query).tolist() for pair, query in zip(pairs, queries, strict=True)]
        query_place = {query: number for number, query in enumerate(dict.fromkeys(queries))}
        place = {row: number for number, row in enumerate(dict.fromkeys([*positives, *chain(*drawn)]))}
        loaded = {row: example for row, (example, _, _) in zip(positives, places, strict=True)}
        documents = [loaded.get(row) or self.corpus[row] for row in place]
        sections = JoinedGraphs.from_sections([one.sections for one in documents], self.graph)
        graphs = JoinedGraphs.join([JoinedGraphs.from_queries([0] * len(query_place)), sections])
        if self.passage_vectors is None:
            token_ids = [self.tokens[query].astype(np.int32) for query in query_place]
            batch = GraphBatch.from_graphs(graphs, (*token_ids, *chain(*(one.token_ids for one in documents))))
        else:
            assert self.query_vectors is not None
            vectors = [self.query_vectors[query : query + 1] for query in query_place]
            vectors += [self.passage_vectors.vectors_of(row) for row in place]
            batch = GraphBatch.from_graphs(graphs, (), passage_vectors=vectors)
        return TrainingBatch(
            batch,
            ids=tuple(one.id for one in documents),
            targets={
                "positive": torch.tensor([place[row] for row in positives]),
                "group": torch.from_numpy(self.corpus.groups[list(place)]),
                "answers": torch.from_numpy(self.answers.padded(queries)),
            },
            roles={
                "query": torch.tensor([query_place[query] for query in queries]),
                "candidate": slice(len(query_place), None),
            },
        )


class RetrievalRecipe(CorpusRecipe[RetrievalSettings]):
    """Trains a model to find documents by queries; an epoch passes once over the pairs of a query and an answer.

    Attributes:
        judgements: the queries that are trained on, and the judged documents that there are.
        mined: gives lists of negatives; None where they are not drawn from lists.

    Raises:
        EvaluationError: no judged document is in the corpus, one document answers all queries and there is no other
            that they are separated from, or no query has a judged negative where these are wanted.
        SettingsError: batches are too small for the processes.
    """

    summary = "Retrieval of documents by queries (Graph-RoBERTa, section 3.3)"
    batch_unit = "pairs"
    losses: ClassVar = {
        InfoNCELoss: LossSettings(QueryObjective, ("similarity", "temperature"), fixed={"directions": "one"})
    }

    def begin(self) -> None:
        """Make the objective, mark the weights that are trained, and read the queries."""
        settings, encoder = self.settings, self.run.encoder
        kind = BestPassageObjective if settings.loss.level == "passage" else QueryObjective
        self.objective = self.objective_of(settings.loss, self.run.loss, kind)
        encoder.model.remove_head()
        begin_training(encoder, settings.model)
        encoder.model.config.search_by = settings.loss.level
        self._sets = read_query_sets(settings)

    def divide(self) -> None:
        """Find the answers of all queries and what they are separated from, and plan the batches."""
        corpus, sets = self.corpus, self._sets
        self.judgements = judged = sets.train.among(corpus.ids)
        self._row_of = rows_by_id(corpus, judged.source, [id for grades in judged.qrels.values() for id in grades])
        positives = [self._rows_of(judged.positives(query)) for query in judged.queries]
        made_of = (self._rows_of(sets.source_documents.get(query, ())) for query in judged.queries)
        self._answers = RowLists.from_lists(
            np.unique(corpus.groups[np.concatenate(parts)]) for parts in zip(positives, made_of, strict=True)
        )
        self._queries = np.repeat(np.arange(len(positives)), list(map(len, positives)))
        self._rows = np.concatenate(positives)
        self._lists_hash: str | None = None
        self._negatives, self.mined = self._make_negatives(sets)
        self.plan(EpochBatches, examples=Examples(corpus, self._rows), across_epochs=self.mined is None)
        if self.mined is not None:
            self.mined.plan(self.steps, len(self._batches))
            if self.mined.is_given:
                # They are data of the run, whose mistakes are found before it begins.
                self.begin_epoch(0)
        self._measurement = QueryMeasurement(self.run, sets)
        self.evaluation = self._measurement.evaluation()

    def _make_negatives(self, sets: QuerySets) -> tuple[NegativeSampler, MinedNegatives | None]:
        """Make what draws negatives and what mines lists of them; there has to be something to separate from."""
        wanted, judged, groups = self.settings.negatives, self.judgements, self.corpus.groups
        pools = mined = None
        if wanted.per_query and wanted.kind == "judged":
            pools = RowLists.from_lists(
                self._rows_of(id for id, grade in judged.qrels[query].items() if grade <= 0) for query in judged.queries
            )
        elif wanted.kind not in ("random", "judged"):
            pools = RowLists.from_lists([np.empty(0, np.int64)] * len(judged.queries)) if wanted.per_query else None
            mined = MinedNegatives(self.run, self, judged, sets.source_documents)
        draws = NegativeSampler(wanted.per_query, self.settings.training.seed, groups, self._answers, pools)
        sizes = draws.pool_sizes
        if wanted.kind == "judged" and sizes is not None and not sizes.any():
            raise EvaluationError(
                f"{judged.source}: no query has a judged document that does not answer it; set negatives.kind=random, "
                "or give judgements of grade 0"
            )
        has_others = len(np.unique(groups)) > 1
        is_apart = wanted.per_query and (wanted.kind != "random" or has_others)
        if len(np.unique(groups[self._rows])) < 2 and not is_apart:
            raise EvaluationError(
                f"{judged.source}: all {counted(len(judged), 'query')} to train on are answered by one document, "
                f"{self.corpus.ids[int(self._rows[0])]!r}, or its copies, and there is no other to separate it from; "
                f"give queries of several documents{', or set negatives.per_query=1' * has_others}"
            )
        return draws, mined

    def collator(self) -> QueryCollator:
        """The collator of queries and documents; queries are tokenized and, where possible, encoded once."""
        encoder, training, vectors = self.run.encoder, self.settings.training, None
        texts = segment_queries(encoder, self.judgements.queries.values())
        token_ids = tuple(np.asarray(one.token_ids[0]) for one in texts)
        if self.vectors is not None:
            model = encoder.model
            packing = Packing.on(model.device, training.token_budget, training.padding)
            precision = computed_in(training_precision(model.device), model.passage_encoder, "the model")
            with precision, inference(model):
                vectors = model.encode_passages(GraphBatch.from_passages(token_ids), packing).float().cpu().numpy()
        return QueryCollator(
            self.corpus, self._queries, self._rows, RowLists.from_lists(token_ids), self._answers, self._negatives,
            self.config.vector_graph, self.vectors, vectors,
        )  # fmt: skip

    def begin_epoch(self, epoch: int) -> None:
        """Draw from the lists that an epoch has (see :class:`~graphdoc.training.recipe.Recipe`)."""
        if self.mined is not None and (lists := self.mined.lists_for(epoch)) is not None:
            self.use_lists(lists.lists)

    def state_dict(self) -> dict[str, Any] | None:
        """Which lists of negatives are in use, for a checkpoint."""
        return None if self.mined is None else self.mined.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Use the lists that a checkpoint was written with."""
        assert self.mined is not None, "other runs have no place in the data"
        self.mined.load_state_dict(state)

    def use_lists(self, lists: Mapping[str, Sequence[str]]) -> None:
        """Draw negatives from these lists of ids by query id, the best first, from the next epoch on.

        Answers of a query, their copies and unknown documents are passed over.
        """
        names = list(self.judgements.queries)
        self._lists_hash = values_hash((query, *lists.get(query, ())) for query in names)
        self._negatives.use(RowLists.from_lists(self._rows_of(lists.get(query, ())) for query in names))

    def counts(self) -> dict[str, Any]:
        """Counts of the training, validation and test data."""
        queries, measured, wanted = self.judgements, self._sets.validation, self.settings.negatives.per_query
        values = {
            "queries": len(queries), "queries_hash": values_hash(queries.queries.items()), "pairs": len(self._rows),
            "pairs_hash": _grades_hash(queries), "train": len(np.unique(self._rows)),
            "left_out": dict(queries.left_out), **self._sets.counts(),
        }  # fmt: skip
        if measured is not None:
            values["measured_queries_hash"] = values_hash(measured.queries.items())
            values["measured_grades_hash"] = _grades_hash(measured)
        if self._lists_hash is not None:
            values["negatives_hash"] = self._lists_hash
        sizes = self._negatives.pool_sizes
        if wanted and sizes is not None and (self.mined is None or self.mined.is_given):
            values["queries_with_fewer_negatives_than_negatives.per_query"] = int((sizes < wanted).sum())
        return values

    def finish(self) -> str | None:
        """Rank for the queries of the fold that is tested."""
        return self._measurement.write_test_run()

    def _rows_of(self, ids: Iterable[str]) -> Rows:
        return np.array([self._row_of[id] for id in ids if id in self._row_of], np.int64)


def _grades_hash(judged: Judgements) -> str:
    return values_hash(
        (query, id, grade) for query, grades in judged.qrels.items() for id, grade in sorted(grades.items())
    )
