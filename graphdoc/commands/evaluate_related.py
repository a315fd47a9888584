"""graphdoc evaluate related: which way to rank documents by one of them finds the relevant ones?"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import EvaluationError
from ..runtime.memory import quick_imports
from ..runtime.text import counted, left_out_line
from .arguments import add_model_arguments, add_reading_arguments, add_scoring_arguments, load_encoder
from .evaluate_search import add_ranking_arguments, other_runs, prepare, row_against, show_rankings
from .sources import encodable, no_documents, read_many, skips_unencodable

if TYPE_CHECKING:
    from ..documents.document import Document
    from ..evaluation import Judgements

HELP = "rankings of documents by one of them, by words, by one vector or by sentences"
DESCRIPTION = """Rank the documents of a corpus by each of those whose relevant ones are known, and measure in which
way these are found best: by words, by one vector, or by sentences (SDR)."""
EPILOG = """rows (--by); two are joined by a +, the first of which goes by words:
  tf-idf, bm25        words of whole texts: cosine of TF-IDF vectors, BM25
  words-documents     BM25 of whole documents, for the keywords that a search takes of a document
  vectors             the model's document vectors
  document            mean of the vectors of all sentences
  paragraphs, flat    best paragraphs; best sentences of the whole document
  sentences           best paragraphs by their best sentences (SDR)
  tf-idf+sentences    words and another row by a weighted sum, the weight from cross-validation

examples:
  graphdoc evaluate related --corpus articles.jsonl --relevant links.tsv --mutual
  graphdoc evaluate related --corpus proposals.jsonl --relevant-field references --by tf-idf --by tf-idf+sentences
"""

_ROWS = ("tf-idf", "vectors", "flat", "sentences")
_MEASURES = ("nDCG@10", "MAP", "MPR", "MRR", "HR@10", "HR@100")
_PUBLISHED = ("MPR-published", "MRR-published", "HR-published@10", "HR-published@100")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    data = parser.add_argument_group("data")
    data.add_argument("--corpus", metavar="SOURCE", action="append", required=True, help="the documents")
    relevant = data.add_mutually_exclusive_group(required=True)
    relevant.add_argument(
        "--relevant",
        metavar="FILE",
        help="which documents are relevant to which: links (two ids in a line), judgements of TREC, or a JSON object "
        "of lists of ids",
    )
    relevant.add_argument(
        "--relevant-field", metavar="NAME", help="a field of the documents that says so, such as links"
    )
    data.add_argument("--mutual", action="store_true", help="only documents that are relevant to each other count")
    data.add_argument(
        "--only", metavar="FIELD=VALUE", action="append", default=[], help="documents that have this; may be repeated"
    )
    measures = add_ranking_arguments(parser, ", ".join(_MEASURES).lower(), "the first row")
    measures.add_argument(
        "--by", metavar="ROW", action="append", help=f"a row; may be repeated (default: {', '.join(_ROWS)})"
    )
    add_scoring_arguments(measures)
    measures.add_argument(
        "--as-published",
        action="store_true",
        help="also the measures as SDR's published code counts: ranks from 0, missing documents in HR",
    )
    add_model_arguments(parser, measures=True)
    add_reading_arguments(parser)


def run(options: argparse.Namespace) -> None:
    """Read, rank, measure, print and write."""
    prepare(options, [options.relevant, *options.corpus, *options.run])

    with quick_imports():
        from ..documents.readers import ReadingReport
        from ..evaluation import Candidates
        from ..evaluation.judgements import fitting_documents
        from ..evaluation.measures import require_measures
        from ..evaluation.rankers import JOINED, RANKERS, RankedCorpus, rank_documents, require_rankers
        from ..evaluation.trec import require_ids
        from ..retrieval.sentence_search import DIRECTION

    rows = list(dict.fromkeys(options.by or _ROWS))
    require_rankers(rows)
    asked = [*(options.measure or _MEASURES), *(_PUBLISHED if options.as_published else ())]
    measures = [str(measure) for measure in require_measures(asked)]
    needs_model = any(RANKERS[part].needs_model for name in rows for part in name.split(JOINED))
    encoder = load_encoder(options) if needs_model else None
    report = ReadingReport()
    documents = list(read_many(options.corpus, options, report))
    if options.only:
        documents = fitting_documents(documents, options.only)
    if encoder is not None and skips_unencodable(options, options.corpus):
        documents = list(encodable(documents, encoder, report))
    if not documents:
        raise no_documents(options.corpus, report)
    judgements, absent = _judgements(options, documents)
    sources = list(judgements.queries)
    others, notes = other_runs(options, RANKERS, sources)
    against = row_against(options, [*rows, *others], rows[0])
    known = {document.id for document in documents}
    others = {
        name: {query: {id: hits[id] for id in hits if id in known and id != query} for query, hits in run.items()}
        for name, run in others.items()
    }
    if options.run_folder is not None:
        require_ids(known)

    corpus = RankedCorpus(
        documents,
        lambda: encoder or load_encoder(options),
        normalisation=options.normalisation or "none",
        direction=options.direction or DIRECTION,
    )
    rankings = rank_documents(
        corpus, sources, judgements.qrels, rows, measure=measures[0], folds=options.folds, seed=options.seed
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
        "mutual": options.mutual,
    }
    about = {
        "data": data,
        "model": encoder and encoder.describe(),
        "normalisation": corpus.normalisation,
        "direction": corpus.direction,
    }
    show_rankings(
        options,
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


def _judgements(options: argparse.Namespace, documents: Sequence[Document]) -> tuple[Judgements, dict[str, int]]:
    """What is relevant among the documents, and how many relevant ones each has besides."""
    from ..evaluation import Judgements, read_relevant, relevant_by_field

    if options.relevant is not None:
        qrels = read_relevant(options.relevant, mutual=options.mutual)
    else:
        qrels = relevant_by_field(documents, options.relevant_field, mutual=options.mutual)
    # A document is no answer to itself.
    qrels = {id: {other: grade for other, grade in grades.items() if other != id} for id, grades in qrels.items()}
    texts = {document.id: document.title or document.id for document in documents if document.id in qrels}
    if not texts:
        raise EvaluationError(f"none of the documents with relevant ones, such as {next(iter(qrels))!r}, is there")
    everything = Judgements.of(texts, qrels, source=options.relevant or f"the field {options.relevant_field!r}")
    judgements = everything.among({document.id for document in documents})
    absent = {
        id: sum(grade > 0 and other not in judgements.qrels[id] for other, grade in everything.qrels[id].items())
        for id in judgements.queries
    }
    return judgements, absent
