"""graphdoc evaluate related: which way to rank documents by one of them finds the relevant ones?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from ..documents.readers import ReadingReport
from ..errors import EvaluationError
from ..runtime.memory import quick_imports
from ..runtime.text import counted, left_out_line
from .evaluate_search import RankingOptions, folds_of, show_rankings
from .options import MeasuredModel
from .sources import CorpusReading, encodable, no_documents

if TYPE_CHECKING:
    from ..documents.document import Document
    from ..evaluation import Judgements

_ROWS = ("tf-idf", "vectors", "flat", "sentences")
_MEASURES = ("nDCG@10", "MAP", "MPR", "MRR", "HR@10", "HR@100")
_PUBLISHED = ("MPR-published", "MRR-published", "HR-published@10", "HR-published@100")


def evaluate_related(
    *corpus: str,
    relevant: str,
    mutual: bool = False,
    by: tuple[str, ...] = (),
    normalisation: Literal["none", "zscore"] = "none",
    direction: Literal["source", "both"] = "both",
    as_published: bool = False,
    ranking: RankingOptions = RankingOptions(),
    model: MeasuredModel = MeasuredModel(),
    reading: CorpusReading = CorpusReading(),
) -> None:
    """Rank the documents of a corpus by each of those whose relevant ones are known.

    The rows (--by) are: tf-idf and bm25, by the words of whole texts; words-documents, BM25 for the keywords that a
    search takes of a document; vectors, the model's document vectors; document, the mean of the vectors of all
    sentences; paragraphs, the best ones; flat, the best sentences of the whole document; sentences, the best
    paragraphs by their best sentences (SDR). Two are joined by a +, as in tf-idf+sentences: a weighted sum whose
    weight comes from cross-validation.

    Usage examples:
      graphdoc evaluate related articles.jsonl --relevant links.tsv --mutual
      graphdoc evaluate related proposals.jsonl --relevant links.tsv --by tf-idf --by tf-idf+sentences

    Args:
        corpus: files, folders, globs or corpora
        relevant: which documents are relevant to which: links (two ids in a line), judgements of TREC, or a JSON
            object of lists of ids
        mutual: only documents that are relevant to each other count
        by: a row; may be repeated (default: tf-idf, vectors, flat, sentences)
        normalisation: z-score each paragraph's similarities over all documents (SDR)
        direction: one-way, from the query document, or symmetric similarity
        as_published: also the measures as SDR's published code counts: ranks from 0, missing documents in HR
    """
    outputs = ranking.outputs([relevant, *corpus])

    with quick_imports():
        from ..evaluation import Candidates
        from ..evaluation.measures import require_measures
        from ..evaluation.rankers import JOINED, RANKERS, RankedCorpus, rank_documents, require_rankers
        from ..evaluation.trec import require_ids

    rows = list(dict.fromkeys(by or _ROWS))
    require_rankers(rows)
    asked = [*(ranking.measure or _MEASURES), *(_PUBLISHED if as_published else ())]
    measures = [str(measure) for measure in require_measures(asked)]
    needs_model = any(RANKERS[part].needs_model for name in rows for part in name.split(JOINED))
    encoder = model.load() if needs_model else None
    report = ReadingReport()
    documents = list(reading.many(corpus, report))
    if encoder is not None and reading.skips_unencodable(corpus):
        documents = list(encodable(documents, encoder, report))
    if not documents:
        raise no_documents(corpus, report)
    judgements, absent = _judgements(relevant, documents, mutual=mutual)
    sources = list(judgements.queries)
    others, notes = ranking.other_runs(RANKERS, sources)
    against = ranking.row_against([*rows, *others], rows[0])
    known = {document.id for document in documents}
    others = {
        name: {query: {id: hits[id] for id in hits if id in known and id != query} for query, hits in run.items()}
        for name, run in others.items()
    }
    if ranking.run_folder is not None:
        require_ids(known)

    ranked = RankedCorpus(
        documents,
        lambda: encoder or model.load(),
        normalisation=normalisation,
        direction=direction,
    )
    rankings = rank_documents(
        ranked, sources, judgements.qrels, rows, measure=measures[0], folds=folds_of(len(sources))
    )
    pairs = sum(sum(grade > 0 for grade in grades.values()) for grades in judgements.qrels.values())
    lines = [
        f"{counted(len(sources), 'document')} as queries, {counted(pairs, 'relevant document')} of them; "
        f"{counted(len(documents), 'document')}" + ("" if encoder is None else f"; model {encoder.name}"),
        *(left_out_line(count, reason) for reason, count in judgements.left_out.items()),
        *notes,
    ]
    data = {
        "documents": len(documents),
        "relevant": pairs,
        "left_out": judgements.left_out,
        "absent": sum(absent.values()),
        "mutual": mutual,
    }
    about = {
        "data": data,
        "model": encoder and encoder.describe(),
        "normalisation": ranked.normalisation,
        "direction": ranked.direction,
    }
    show_rankings(
        ranking,
        outputs,
        rankings,
        {**rankings.runs, **others},
        judgements.qrels,
        measures,
        against,
        about,
        lines,
        report,
        candidates=Candidates(len(documents) - 1, absent),
    )


def _judgements(relevant: str, documents: Sequence[Document], *, mutual: bool) -> tuple[Judgements, dict[str, int]]:
    """What is relevant among the documents, and how many relevant ones each has besides."""
    from ..evaluation import Judgements, read_relevant

    qrels = read_relevant(relevant, mutual=mutual)
    # A document is no answer to itself.
    qrels = {id: {other: grade for other, grade in grades.items() if other != id} for id, grades in qrels.items()}
    texts = {document.id: document.title or document.id for document in documents if document.id in qrels}
    if not texts:
        raise EvaluationError(f"none of the documents with relevant ones, such as {next(iter(qrels))!r}, is there")
    everything = Judgements.of(texts, qrels, source=relevant)
    judgements = everything.among({document.id for document in documents})
    absent = {
        id: sum(grade > 0 and other not in judgements.qrels[id] for other, grade in everything.qrels[id].items())
        for id in judgements.queries
    }
    return judgements, absent
