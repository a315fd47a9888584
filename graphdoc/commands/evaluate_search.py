"""graphdoc evaluate search: which way to search finds the documents that answer queries?"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import EvaluationError
from ..runtime.memory import quick_imports
from ..runtime.text import counted, left_out_line
from . import evaluate_documents
from .arguments import (
    MEASURED_PRECISION,
    add_model_arguments,
    add_query_arguments,
    add_reading_arguments,
    positive,
    whole,
)
from .index import folder_of, open_index, update_index, update_lines
from .outputs import JSON, Outputs, check_apart, require_name, write_json, written
from .summaries import list_left_out, print_lines
from .tables import Column, Table, names

if TYPE_CHECKING:
    from ..documents.readers import ReadingReport
    from ..evaluation import BestWeight, Judgements, RankingTable
    from ..evaluation.rankings import Rankings
    from ..retrieval.index import DocumentIndex
    from ..retrieval.update import UpdateReport

HELP = "rankings of documents by words, by vectors and by both, on queries with judgements"
DESCRIPTION = """Search for queries whose answers are known, and measure in which way they are found best: by the words
of passages or of whole documents (BM25), by the vectors of either, or by words and vectors together.

FOLDER is in the layout of BEIR: corpus.jsonl, queries.jsonl, and qrels.tsv or qrels/test.tsv. With --index the corpus
is indexed once; the next time only what has changed is encoded.

With --relevant the queries are documents of the corpus, and the ways are those to rank documents by one of them: by
words, by one vector, or by sentences. --by chooses; two are joined by a +.

p is that of a paired permutation test against the row that --against names: how often chance alone would make as great
a difference."""
EPILOG = """rows:
  words               BM25 of passages, the best three added up
  words-documents     BM25 of whole documents
  words-both          both of them added up
  vectors             vectors of passages, the best three added up
  vectors-documents   vectors of documents
  hybrid              words and vectors of passages, by reciprocal rank
  hybrid-weighted     the same by a weighted sum, the weight from cross-validation

rows with --relevant:
  tf-idf, bm25, lda   words of whole texts: cosine of TF-IDF vectors, BM25, cosine of topics
  words-documents     BM25 of whole documents, asked with the words that search takes of a document
  cls, first, all     the transformer alone: first token or mean of the first chunk, mean of all chunks
  vectors             the model's document vectors
  document            mean of the vectors of all sentences
  paragraphs, flat    best paragraphs; best sentences of the whole document
  sentences           best paragraphs by their best sentences (SDR)
  tf-idf+sentences    words and another row by a weighted sum, the weight from cross-validation

examples:
  graphdoc evaluate search --data qmsum --index qmsum.index --split test --only kind=specific
  graphdoc evaluate search --data judged --corpus papers/ --against words-documents --output scores
  graphdoc evaluate search --data wikir --index wiki.index --query-column title --own-grade 2
  graphdoc evaluate search --data judged --run bm25.run --measure ndcg@20 --measure map
  graphdoc evaluate search --relevant links.tsv --mutual --corpus articles.jsonl --vectors articles.sentences
  graphdoc evaluate search --relevant-field references --corpus proposals.jsonl --by tf-idf --by tf-idf+sentences
"""

OUTPUTS = Outputs(
    json=("scores.json", JSON),
    csv=("scores.csv", "write the table as CSV"),
    queries=("queries.csv", "write the measures of every query"),
)


@dataclass(frozen=True)
class _Data:
    """What is measured on."""

    judgements: Judgements
    own: Mapping[str, frozenset[str]] | None
    others: Mapping[str, Mapping[str, Mapping[str, float]]]
    notes: Sequence[str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    data = parser.add_argument_group("data")
    add_query_arguments(data, required=False)
    evaluate_documents.add_relevant_arguments(data)
    data.add_argument(
        "--corpus", metavar="SOURCE", action="append", default=[], help="documents (default: the corpus of FOLDER)"
    )
    data.add_argument(
        "--index", metavar="INDEX", help="keep the index there, or take what is there (default: in memory)"
    )
    evaluate_documents.add_ranking_arguments(parser)
    measures = parser.add_argument_group("measures")
    measures.add_argument(
        "--measure",
        metavar="NAME",
        action="append",
        default=[],
        help="such as ndcg@10, map or p@5; may be repeated (default: ndcg@10, map, mrr@10, p@5, recall@100, "
        "success@1; with --relevant ndcg@10, map, mpr, mrr, hr@10, hr@100); the first one chooses the weight",
    )
    measures.add_argument(
        "--against", metavar="ROW", help="row to test against (default: words; with --relevant the first row)"
    )
    measures.add_argument("--top", type=positive, metavar="K", help="documents ranked (default: 1000)")
    measures.add_argument("--depth", type=positive, metavar="N", help="rows that a search fetches (default: 5 * K)")
    measures.add_argument(
        "--run", metavar="FILE", action="append", default=[], help="a ranking of another system (TREC), as a row"
    )
    measures.add_argument(
        "--folds", type=positive, default=5, metavar="N", help="folds of the cross-validation (default: 5)"
    )
    measures.add_argument("--seed", type=whole, default=0, metavar="N", help="draws folds and resamples (default: 0)")
    group = OUTPUTS.add_to(parser)
    group.add_argument(
        "--run-folder", metavar="FOLDER", help="write every ranking and the judgements in the format of TREC"
    )
    add_model_arguments(parser, measures=True)
    # Of an index that is there, the model and its precision are known.
    parser.set_defaults(model=None, dtype=None)
    add_reading_arguments(parser)


def run(options: argparse.Namespace) -> None:
    """Read, index, search, measure, print and write."""
    sources = [options.data, options.relevant, *options.corpus, *options.run]
    for place in (options.run_folder, options.vectors):
        if place is not None:
            require_name(place)
    kept = None if options.index is None else folder_of(options.index)
    OUTPUTS.prepare(options, sources, [options.run_folder, options.vectors, kept])
    if evaluate_documents.is_asked_for(options):
        options.dtype = options.dtype or MEASURED_PRECISION
        evaluate_documents.run(options, OUTPUTS)
        return
    evaluate_documents.refuse(options)
    options.top, options.against = options.top or 1000, options.against or "words"

    with quick_imports():
        from ..evaluation.ranking import DEFAULT_MEASURES, require_measures
        from ..evaluation.ranking_table import RankingTable
        from ..evaluation.rankings import rank_queries
        from ..evaluation.trec import require_ids

    measures = [str(one) for one in require_measures(options.measure or DEFAULT_MEASURES)]
    # What nothing can be measured on is refused before a model is loaded.
    data = _read(options)
    index, update, reading = _index(options)
    ids = {id for batch in index.rows(["id"], level="document") for id in batch.column("id").to_pylist()}
    unknown = len(data.judgements.among(ids).unknown_documents)
    if options.run_folder is not None:
        # Before the long work.
        require_ids([*ids, *data.judgements.queries])
    found = rank_queries(
        index,
        data.judgements.queries,
        data.judgements.qrels,
        k=options.top,
        depth=options.depth,
        measure=measures[0],
        folds=options.folds,
        seed=options.seed,
        own=data.own,
    )
    runs = {**found.runs, **data.others}
    table = RankingTable.of(
        runs, data.judgements.qrels, measures, against=options.against, own=data.own, seed=options.seed
    )

    def content() -> dict[str, Any]:
        return {
            "format": "graphdoc.search/1",
            "data": {
                "queries": len(table.queries),
                "documents": len(ids),
                "left_out": data.judgements.left_out,
                "judged_documents_not_indexed": unknown,
                "own_grade": options.own_grade,
            },
            "index": index.describe(),
            "top": options.top,
            "depth": options.depth or 5 * options.top,
            "milliseconds": found.latency,
            "weight": None if found.weight is None else found.weight.to_dict(),
            **table.to_dict(),
        }

    target = OUTPUTS.write(
        options,
        json=lambda path: write_json(path, content()),
        csv=lambda path: _full_table(table, found).write_csv(path),
        queries=lambda path: _write_queries(table, path),
    )
    files = [] if options.run_folder is None else _write_runs(Path(options.run_folder), runs, data)
    if target is None:
        return
    _table(table, found).print(target)
    target.print()
    print_lines(
        target, [*(update_lines(update) if update else []), *_notes(options, index, data, table, found, unknown)]
    )
    if reading is not None:
        list_left_out(target, reading)
    OUTPUTS.report(options, target)
    written(target, files)


def _read(options: argparse.Namespace) -> _Data:
    """The queries and judgements, and rankings of other systems."""
    from ..errors import SettingsError
    from ..evaluation import own_documents, read_judgements
    from ..evaluation.query_files import TEXT_COLUMN
    from ..evaluation.rankings import WAYS

    judgements = read_judgements(
        options.data, split=options.split, only=options.only, text_column=options.query_column or TEXT_COLUMN
    )
    others = evaluate_documents.other_runs(options.run, WAYS)
    rows = [*WAYS, *others]
    check_apart([options.data, *options.run], evaluate_documents.run_files(options, rows))
    if options.against not in rows:
        raise SettingsError(f"--against {options.against!r} is no row; use one of {', '.join(rows)}")
    own = None if options.own_grade is None else own_documents(judgements.qrels, options.own_grade)
    if own is not None and not own:
        raise EvaluationError(f"{options.data}: no judgement has the grade {options.own_grade}; leave --own-grade out")
    return _Data(judgements, own, others, evaluate_documents.queries_of_runs(others, judgements.queries))


def _index(options: argparse.Namespace) -> tuple[DocumentIndex, UpdateReport | None, ReadingReport | None]:
    """The index, brought up to date with the corpus; without one that is named, one in memory."""
    from ..evaluation.judgements import find_corpus
    from ..retrieval.index import DocumentIndex

    sources = list(options.corpus)
    if not sources and Path(options.data).is_dir() and (corpus := find_corpus(options.data)) is not None:
        sources = [str(corpus)]
    is_there = options.index is not None and DocumentIndex.exists(options.index)
    if not sources and not is_there:
        raise EvaluationError(
            f"{options.data}: there is no corpus in it; name the documents with --corpus, or an index that holds them "
            "with --index"
        )
    index = open_index(options, options.index) if is_there else None
    options.dtype = options.dtype or MEASURED_PRECISION
    if index is not None and not sources:
        return index, None, None
    return update_index(options, index, sources, options.index or "memory://")


def _write_queries(table: RankingTable, path: str) -> None:
    frame = table.per_query()
    Table(list(frame.columns), frame.itertuples(index=False)).write_csv(path)


def _write_runs(folder: Path, runs: Mapping[str, Any], data: _Data) -> list[Path]:
    """Write the rankings, and the judgements as they were counted, so that other tools find the same numbers."""
    from ..evaluation.trec import leave_out, write_qrels, write_run

    own = data.own or {}
    files = [write_run(folder / f"{name}.run", leave_out(run, own), name) for name, run in runs.items()]
    return [*files, write_qrels(folder / "qrels.tsv", leave_out(data.judgements.qrels, own))]


def _table(table: RankingTable, found: Rankings) -> Table:
    """Means, the test of the first measure, and the time of a query."""
    first = table.measures[0]
    result = Table([names("ranked by"), *table.measures, Column(f"p {first}", _p), Column("ms", _milliseconds)])
    for name, scores in table.scores.items():
        p_value = table.p_values.get(name, {}).get(first)
        result.add(name, *scores.means.values(), p_value, found.latency.get(name))
    return result


def _full_table(table: RankingTable, found: Rankings) -> Table:
    """Means, tests of all measures and times, as values."""
    frame = table.to_frame()
    frame["milliseconds"] = [found.latency.get(name, math.nan) for name in frame["system"]]
    rows = frame.astype(object).where(frame.notna(), None)
    return Table(list(frame.columns), rows.itertuples(index=False))


def _p(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if value >= 0.001 else "<.001"


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _notes(
    options: argparse.Namespace,
    index: DocumentIndex,
    data: _Data,
    table: RankingTable,
    found: Rankings,
    unknown: int,
) -> Sequence[str]:
    about = index.describe()
    lines = [
        f"{_queries(len(table.queries))}; {counted(about['documents'], 'document')}, "
        f"{counted(about['passages'], 'passage')}; model {about['model']['name']}",
        f"p: paired permutation test against {options.against}; ms: median time of a query",
    ]
    lines.append(_weight_line(found.weight, options.folds))
    lines += [left_out_line(count, reason) for reason, count in data.judgements.left_out.items()]
    lines += data.notes
    if unknown:
        lines.append(f"{counted(unknown, 'judged document')} not in the index; as answers they count as not found")
    if data.own is not None:
        count = sum(map(len, data.own.values()))
        lines.append(f"taken out of rankings and judgements: {count:,} of grade {options.own_grade}")
    if index.is_maintenance_due:
        lines.append(f"maintenance of the index is due: graphdoc index --output {index.place} --maintain")
    return lines


def _queries(count: int) -> str:
    return f"{count:,} {'query' if count == 1 else 'queries'}"


def _weight_line(weight: BestWeight | None, folds: int) -> str:
    if weight is None:
        return f"hybrid-weighted needs at least as many queries as folds, {folds}"
    chosen = ", ".join(f"{one:g}" for one in weight.fold_weights)
    return f"weight of words in hybrid-weighted: {weight.weight:g}; by fold, without its queries: {chosen}"
