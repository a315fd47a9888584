"""Measuring an encoder by ranking documents for queries, while it is trained."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Self

import numpy as np
import torch

from ..encoder import DocumentEncoder
from ..inference.precision import Precision
from ..inference.segmenting import ManyDocuments
from ..inference.vectors import encode_queries, segment_queries
from ..runtime.arrays import Floats, Vectors
from ..runtime.processes import Processes
from ..segmentation.spans import SegmentedDocument
from ..similarity.kinds import best_passages, similarity_matrix, similarity_of
from .evaluator import Evaluator, measured_once
from .judgements import Judgements
from .labels import plain_document, ready_documents
from .measures import metric_name, require_measures
from .ranking import score_run
from .trec import Qrels, Run

# Rankings are far shorter than a corpus; what lies below says nothing of the usual measures.
DEPTH = 1000
MEASURES = ("ndcg@10", "map", "mrr@10", "recall@100")
# Similarities that are held at once, and documents whose passages are compared at once.
_BLOCK, _TOGETHER = 2**24, 256


class RankingEvaluator(Evaluator):
    """Ranks documents for queries by their vectors, and measures the rankings.

    Args:
        documents: the documents that are ranked.
        queries: texts by query id.
        qrels: grades by query id and document id.
        excluded: documents by query id that are taken out (see :func:`~graphdoc.evaluation.trec.source_documents`).
        primary_metric: the measure by which models are ranked.
        level: rank by the vectors of documents, or by those of their three best passages.
        depth: documents of a ranking that are kept.
        dtype: precision that the transformer computes in; None is that of its weights.

    Attributes:
        left_out: how many queries, judged or not, were left out, by reason (see :class:`Judgements`).

    Raises:
        EvaluationError: no judgement is of a query, no judged document is there, or no query has a positive.
    """

    def __init__(
        self,
        documents: ManyDocuments,
        queries: Mapping[str, str],
        qrels: Qrels,
        *,
        excluded: Mapping[str, Collection[str]] | None = None,
        primary_metric: str = MEASURES[0],
        level: Literal["document", "passage"] = "document",
        depth: int = DEPTH,
        dtype: Precision | None = None,
    ) -> None:
        self.measures = [str(measure) for measure in require_measures([primary_metric, *MEASURES])]
        self.primary_metric = metric_name(primary_metric)
        judgements, self.documents = Judgements.from_qrels(queries, qrels), list(ready_documents(documents))
        judgements.among({plain_document(document).id for document in self.documents})
        self.queries, self.qrels, self.left_out = judgements.queries, judgements.qrels, judgements.left_out
        self.excluded, self.depth, self.dtype, self.level = excluded or {}, depth, dtype, level
        self._segmented: Sequence[SegmentedDocument] | None = None

    def __call__(self, encoder: DocumentEncoder, processes: Processes | None = None) -> dict[str, float]:
        """Measure an encoder (see :meth:`Evaluator.__call__`): ``ndcg_at_10``, ``map`` and so on."""
        run = self.rank(encoder, processes)
        return measured_once(
            processes, lambda: score_run(run, self.qrels, self.measures, excluded=self.excluded).metrics()
        )

    def rank(self, encoder: DocumentEncoder, processes: Processes | None = None) -> Run:
        """Rank the documents for every query, without its own documents; of equal scores the first are kept."""
        kind = similarity_of(encoder.model.config.similarity).vector_similarity
        vectors = self.encode(encoder, processes, level=self.level, show_progress_bar=False)
        compare: Callable[[Vectors], Floats]
        if self.level == "document":
            compare = partial(similarity_matrix, b=np.concatenate(vectors), kind=kind)
        else:
            compare = partial(_by_best_passages, documents=vectors, kind=kind)
        segmented = self._segmented or segment_queries(encoder, self.queries.values())
        asked = encode_queries(encoder, segmented, dtype=self.dtype).numpy()
        ids = [plain_document(document).id for document in self.documents]
        step = max(1, _BLOCK // max(1, sum(map(len, vectors))))
        run: dict[str, dict[str, float]] = {}
        names = list(self.queries)
        for start in range(0, len(names), step):
            for query, row in zip(names[start : start + step], compare(asked[start : start + step]), strict=True):
                excluded = self.excluded.get(query, ())
                best = np.argsort(-row, kind="stable")[: self.depth + len(excluded)].tolist()
                others = [place for place in best if ids[place] not in excluded][: self.depth]
                run[query] = {ids[place]: float(row[place]) for place in others}
        return run

    def prepared(self, encoder: DocumentEncoder, *arguments: Any, **options: Any) -> Self:
        """The same evaluator with documents and queries cut and tokenized once (see :meth:`Evaluator.prepared`)."""
        result = super().prepared(encoder, *arguments, **options)
        result._segmented = list(segment_queries(encoder, self.queries.values()))
        return result


def _by_best_passages(asked: Vectors, documents: Sequence[Vectors], kind: str) -> Floats:
    """Similarity of queries and documents by their best passages, ``(queries, documents)``."""
    scores = np.empty((len(asked), len(documents)))
    # Long and short documents apart, since what is compared at once is as wide as the longest.
    order = np.argsort([len(passages) for passages in documents], kind="stable")
    for places in np.array_split(order, -(-len(order) // _TOGETHER)):
        chosen = [documents[place] for place in places.tolist()]
        similarity = torch.from_numpy(similarity_matrix(asked, np.concatenate(chosen), kind))
        scores[:, places] = best_passages(similarity, torch.tensor([len(part) for part in chosen])).numpy()
    return scores
