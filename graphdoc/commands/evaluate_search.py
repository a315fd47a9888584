"""graphdoc evaluate search: which way to search finds the documents that answer queries?"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import EvaluationError, SettingsError
from ..runtime.memory import quick_imports
from ..runtime.text import counted, left_out_line
from .arguments import (
    MEASURED_PRECISION,
    add_model_arguments,
    add_query_arguments,
    add_reading_arguments,
    positive,
    whole,
)
from .evaluate import show
from .index import folder_of, open_index, update_index, update_lines
from .outputs import JSON, Outputs, check_apart, require_name, written
from .tables import Column, Table, console, half_interval, names, signed_interval

if TYPE_CHECKING:
    from ..documents.readers import ReadingReport
    from ..evaluation import RankingTable
    from ..evaluation.rankers import Rankings
    from ..evaluation.trec import Qrels, Run
    from ..retrieval.index import DocumentIndex
    from ..retrieval.updating import UpdateReport

HELP = "rankings of documents by words, by vectors and by both, on queries with judgements"
DESCRIPTION = """Search for queries whose answers are known, and measure in which way they are found best: by the words
of passages or of whole documents (BM25), by the vectors of either, or by words and vectors together. A way is better
than the one that --against names where the whole interval of the difference is above 0.

FOLDER is in the layout of BEIR: corpus.jsonl, queries.jsonl, and qrels.tsv or qrels/test.tsv. With --index the corpus
is indexed once; the next time only what has changed is encoded."""
EPILOG = """rows:
  words               BM25 of passages, the best three added up
  words-documents     BM25 of whole documents
  words-both          both of them added up
  vectors             vectors of passages, the best three added up
  vectors-documents   vectors of documents
  hybrid              words and vectors of passages, by reciprocal rank
  hybrid-weighted     the same by a weighted sum, the weight from cross-validation

examples:
  graphdoc evaluate search --data qmsum --index qmsum.index --split test --only kind=specific
  graphdoc evaluate search --data judged --corpus papers/ --against words-documents --output scores
  graphdoc evaluate search --data wikir --index wiki.index --query-column title --own-grade 2
  graphdoc evaluate search --data judged --run bm25.run --measure ndcg@20 --measure map
"""

OUTPUTS = Outputs(
    json=("scores.json", JSON),
    csv=("scores.csv", "write the table as CSV"),
    queries=("queries.csv", "write the measures of every query"),
)
# Measures that stand beside each other on a terminal.
_TOGETHER = 6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    data = parser.add_argument_group("data")
    add_query_arguments(data)
    data.add_argument(
        "--corpus", metavar="SOURCE", action="append", default=[], help="documents (default: the corpus of FOLDER)"
    )
    data.add_argument(
        "--index", metavar="INDEX", help="keep the index there, or take what is there (default: in memory)"
    )
    measures = add_ranking_arguments(parser, "ndcg@10, map, mrr@10, p@5, recall@100, success@1", "words")
    measures.add_argument("--top", type=positive, default=1000, metavar="K", help="documents ranked (default: 1000)")
    add_model_arguments(parser, measures=True)
    # Of an index that is there, the model and its precision are known.
    parser.set_defaults(model=None, dtype=None)
    add_reading_arguments(parser)


def add_ranking_arguments(parser: argparse.ArgumentParser, measures: str, against: str) -> argparse._ArgumentGroup:
    """Add how rankings are measured and written; gives the group of measures.

    Args:
        parser: the parser.
        measures: what is measured by default.
        against: which row the others are compared with by default.
    """
    group = parser.add_argument_group("measures")
    group.add_argument(
        "--measure",
        metavar="NAME",
        action="append",
        default=[],
        help=f"such as ndcg@10, map or p@5; may be repeated (default: {measures}); the first one chooses weights",
    )
    group.add_argument("--against", metavar="ROW", help=f"row that the others are compared with (default: {against})")
    group.add_argument(
        "--run", metavar="FILE", action="append", default=[], help="a ranking of another system (TREC), as a row"
    )
    group.add_argument(
        "--folds", type=positive, default=5, metavar="N", help="folds of the cross-validation of weights (default: 5)"
    )
    group.add_argument("--seed", type=whole, default=0, metavar="N", help="draws folds and resamples (default: 0)")
    OUTPUTS.add_to(parser).add_argument(
        "--run-folder", metavar="FOLDER", help="write every ranking and the judgements in the format of TREC"
    )
    return group


def run(options: argparse.Namespace) -> None:
    """Read, index, search, measure, print and write."""
    kept = None if options.index is None else folder_of(options.index)
    prepare(options, [options.data, *options.corpus, *options.run], [kept])

    with quick_imports():
        from ..evaluation import own_documents, read_judgements
        from ..evaluation.judgements import TEXT_COLUMN
        from ..evaluation.measures import DEFAULT_MEASURES, require_measures
        from ..evaluation.rankers import EXPLAINED, rank_queries
        from ..evaluation.trec import leave_out, require_ids

    measures = [str(measure) for measure in require_measures(options.measure or DEFAULT_MEASURES)]
    # What nothing can be measured on is refused before a model is loaded.
    judgements = read_judgements(
        options.data, split=options.split, only=options.only, text_column=options.query_column or TEXT_COLUMN
    )
    others, notes = other_runs(options, EXPLAINED, judgements.queries)
    against = row_against(options, [*EXPLAINED, *others], "words")
    own = {} if options.own_grade is None else own_documents(judgements.qrels, options.own_grade)
    if options.own_grade is not None and not own:
        raise EvaluationError(f"{options.data}: no judgement has the grade {options.own_grade} (--own-grade)")
    index, update, report = _index(options)
    ids = {id for batch in index.rows(["id"], level="document") for id in batch.column("id").to_pylist()}
    unknown = len(judgements.among(ids).unknown_documents)
    if options.run_folder is not None:
        # Before the long work.
        require_ids([*ids, *judgements.queries])
    rankings = rank_queries(
        index,
        judgements.queries,
        judgements.qrels,
        k=options.top,
        measure=measures[0],
        folds=options.folds,
        seed=options.seed,
        own=own,
    )
    about = index.describe()
    lines = [
        *(update_lines(update) if update else []),
        f"{len(judgements):,} queries; {counted(about['documents'], 'document')}, "
        f"{counted(about['passages'], 'passage')}; model {about['model']['name']}",
        *(left_out_line(count, reason) for reason, count in judgements.left_out.items()),
        *notes,
    ]
    if unknown:
        lines.append(f"{counted(unknown, 'judged document')} not in the index; as answers they count as not found")
    if own:
        lines.append(f"taken out of rankings and judgements: {sum(map(len, own.values())):,} (--own-grade)")
    data = {
        "documents": len(ids),
        "left_out": judgements.left_out,
        "judged_documents_not_indexed": unknown,
        "own_grade": options.own_grade,
    }
    show_rankings(
        options,
        rankings,
        {name: leave_out(scores, own) for name, scores in {**rankings.runs, **others}.items()},
        leave_out(judgements.qrels, own),
        measures,
        against,
        {"data": data, "index": about, "top": options.top},
        lines,
        report,
    )


def prepare(options: argparse.Namespace, sources: Sequence[str | None], folders: Sequence[str | None] = ()) -> None:
    """Refuse places that cannot be written, or that lie in what is read."""
    if options.run_folder is not None:
        require_name(options.run_folder)
    OUTPUTS.prepare(options, sources, [options.run_folder, *folders])


def row_against(options: argparse.Namespace, rows: Sequence[str], default: str) -> str:
    """The row that the others are compared with.

    Raises:
        SettingsError: there is no row of the name.
        OutputError: a ranking that is read would be replaced.
    """
    against = options.against or default
    if against not in rows:
        raise SettingsError(f"--against {against!r} is no row; use one of {', '.join(rows)}")
    if options.run_folder is not None:
        files = (str(Path(options.run_folder) / name) for name in ("qrels.tsv", *(f"{row}.run" for row in rows)))
        check_apart(options.run, files)
    return str(against)


def other_runs(
    options: argparse.Namespace, taken: Collection[str], queries: Collection[str]
) -> tuple[dict[str, Run], list[str]]:
    """Rankings of other systems, by the names of their files, and a line for every one that lacks queries.

    Args:
        options: the arguments.
        taken: names of rows that there are already.
        queries: ids of the queries that are measured.

    Raises:
        EvaluationError: a name is taken, a file is no run, or a run has none of the queries.
    """
    from ..evaluation import read_run

    runs: dict[str, Run] = {}
    notes = []
    for path in options.run:
        name = Path(path).name.partition(".")[0]
        if name in taken or name in runs or name.split() != [name]:
            raise EvaluationError(f"{path}: a row is called by the file, and {name!r} is taken; rename the file")
        runs[name] = read_run(path)
        missing = [query for query in queries if not runs[name].get(query)]
        if len(missing) == len(queries):
            raise EvaluationError(f"--run {path}: it has none of the queries, such as {missing[0]!r}")
        if missing:
            notes.append(
                f"{name} has no hits for {len(missing):,} of {len(queries):,} queries, such as {missing[0]!r}"
            )
    return runs, notes


def show_rankings(
    options: argparse.Namespace,
    rankings: Rankings,
    runs: Mapping[str, Run],
    qrels: Qrels,
    measures: Sequence[str],
    against: str,
    about: Mapping[str, Any],
    lines: Sequence[str],
    report: ReadingReport | None,
    **settings: Any,
) -> None:
    """Measure rankings, print and write.

    Args:
        options: the arguments.
        rankings: with the times and weights of rows.
        runs: all rows.
        qrels: the judgements.
        measures: what is measured.
        against: the row that the others are compared with.
        about: what JSON says besides.
        lines: what has to be known, one line each.
        report: how documents were read.
        **settings: of :meth:`graphdoc.evaluation.RankingTable.of`.
    """
    from ..evaluation import RankingTable, write_qrels, write_run

    table = RankingTable.of(runs, qrels, measures, against=against, seed=options.seed, **settings)
    content = {
        "format": "graphdoc.search/1",
        **about,
        "milliseconds": dict(rankings.milliseconds),
        "weights": {name: weight.to_dict() for name, weight in rankings.weights.items()},
        **table.to_dict(),
    }
    notes = [
        *lines,
        "±, [ ]: middle 95 % of 1,000 bootstrap resamples of the queries, differences paired; ms: a query",
    ]
    for name, weight in rankings.weights.items():
        chosen = ", ".join(f"{one:g}" for one in weight.fold_weights)
        notes.append(f"weight of words in {name}: {weight.weight:g}; by fold, without its queries: {chosen}")
    show(
        options,
        OUTPUTS,
        content,
        _tables(table, rankings.milliseconds),
        notes,
        report,
        csv=lambda path: _as_table(table.to_frame()).write_csv(path),
        queries=lambda path: _as_table(table.per_query()).write_csv(path),
    )
    if options.run_folder is not None:
        folder = Path(options.run_folder)
        files = [write_run(folder / f"{name}.run", scores, name) for name, scores in runs.items()]
        files.append(write_qrels(folder / "qrels.tsv", qrels))
        if options.json != "-":
            written(console(), files)


def _as_table(frame: Any) -> Table:
    rows = frame.astype(object).where(frame.notna(), None)
    return Table(list(frame.columns), rows.itertuples(index=False))


def _tables(table: RankingTable, milliseconds: Mapping[str, float]) -> list[Table]:
    """The first measure with its interval, the difference and the time of a query; then all measures."""
    first = table.measures[0]
    result = Table(
        [names("ranked by"), Column(first, half_interval), Column(f"against {table.against}", signed_interval), "ms"]
    )
    for name in table.scores:
        result.add(name, table.estimate(name, first), table.difference(name, first), milliseconds.get(name))
    tables = [result]
    for start in range(0, len(table.measures), _TOGETHER):
        some = table.measures[start : start + _TOGETHER]
        rows = ([name, *(scores.means[measure] for measure in some)] for name, scores in table.scores.items())
        tables.append(Table([names("ranked by"), *some], rows))
    return tables


def _index(options: argparse.Namespace) -> tuple[DocumentIndex, UpdateReport | None, ReadingReport | None]:
    """The index, brought up to date with the corpus; without one that is named, one in memory."""
    from ..evaluation.judgements import find_corpus
    from ..retrieval.index import DocumentIndex

    sources = list(options.corpus)
    if not sources and Path(options.data).is_dir() and (corpus := find_corpus(options.data)) is not None:
        sources = [str(corpus)]
    is_there = options.index is not None and DocumentIndex.exists(options.index)
    if not sources and not is_there:
        raise EvaluationError(f"{options.data}: there is no corpus in it; name documents with --corpus or --index")
    index = open_index(options, options.index) if is_there else None
    options.dtype = options.dtype or MEASURED_PRECISION
    if index is not None and not sources:
        return index, None, None
    return update_index(options, index, sources, options.index or "memory://")
