"""graphdoc evaluate search: which way to search finds the documents that answer queries?"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from ..documents.readers import ReadingReport
from ..errors import EvaluationError, SettingsError
from ..runtime.memory import quick_imports
from ..runtime.text import counted, left_out_line
from .evaluate import show
from .index import folder_of, update_index, update_lines
from .options import COUNT, OUTPUT, File, Json, MeasuredModel, ModelOptions
from .output import Outputs, check_apart, require_name, written
from .printing import Column, Table, console, half_interval, names, signed_interval
from .sources import CorpusReading

if TYPE_CHECKING:
    from ..evaluation import RankingTable
    from ..evaluation.rankers import Rankings
    from ..evaluation.trec import Qrels, Run
    from ..retrieval.index import DocumentIndex
    from ..retrieval.updating import UpdateReport

# Measures that stand beside each other on a terminal.
_TOGETHER = 6
# Documents of a ranking.
RANKED = 1000


@Parameter(name="*", group=Group("Measures", sort_key=2))
@dataclass(frozen=True, kw_only=True)
class RankingOptions:
    """How rankings are measured and written."""

    measure: tuple[str, ...] = ()
    """such as ndcg@10, map or p@5; may be repeated; the first one chooses weights"""
    against: str | None = None
    """row that the others are compared with (default: words, or the first row)"""
    run: tuple[str, ...] = ()
    """a ranking of another system (TREC), as a row; may be repeated"""
    json: Json = None
    csv: File = None
    """write the table as CSV"""
    run_folder: Annotated[str | None, OUTPUT] = None
    """write every ranking and the judgements in the format of TREC to this folder"""

    def outputs(self, sources: Sequence[str | None], folders: Sequence[str | None] = ()) -> Outputs:
        """The files that are asked for; places that cannot be written, or lie in what is read, are refused."""
        if self.run_folder is not None:
            require_name(self.run_folder)
        files = {"json": self.json, "csv": self.csv}
        return Outputs([*sources, *self.run], folders=[self.run_folder, *folders], **files)

    def row_against(self, rows: Sequence[str], default: str) -> str:
        """The row that the others are compared with.

        Raises:
            SettingsError: there is no row of the name.
            OutputError: a ranking that is read would be replaced.
        """
        against = self.against or default
        if against not in rows:
            raise SettingsError(f"--against {against!r} is no row; use one of {', '.join(rows)}")
        if self.run_folder is not None:
            files = (str(Path(self.run_folder) / name) for name in ("qrels.tsv", *(f"{row}.run" for row in rows)))
            check_apart(self.run, files)
        return against

    def other_runs(self, taken: Collection[str], queries: Collection[str]) -> tuple[dict[str, Run], list[str]]:
        """Rankings of other systems, by the names of their files, and a line for every one that lacks queries.

        Args:
            taken: names of rows that there are already.
            queries: ids of the queries that are measured.

        Raises:
            EvaluationError: a name is taken, a file is no run, or a run has none of the queries.
        """
        from ..evaluation import read_run

        runs: dict[str, Run] = {}
        notes = []
        for path in self.run:
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


def evaluate_search(
    *,
    queries: str,
    split: str | None = None,
    only: tuple[str, ...] = (),
    query_column: str = "text",
    source_grade: Annotated[int | None, COUNT] = None,
    corpus: tuple[str, ...] = (),
    index: str | None = None,
    ranking: RankingOptions = RankingOptions(),
    model: MeasuredModel = MeasuredModel(),
    reading: CorpusReading = CorpusReading(),
) -> None:
    """Search for queries whose answers are known, and measure in which way they are found best.

    The rows are: words, BM25 of passages, the best three added up; words-documents, BM25 of whole documents;
    words-both, both of them added up; vectors, those of passages, the best three added up; vectors-documents; hybrid,
    words and vectors of passages by reciprocal rank; hybrid-weighted, the same by a weighted sum, the weight from
    cross-validation. A row is better than the one that --against names where the whole interval of the difference is
    above 0. With --index the corpus is indexed once; the next time only what has changed is encoded.

    Usage examples:
      graphdoc evaluate search --queries qmsum --index qmsum.index --split test --only kind=specific
      graphdoc evaluate search --queries judged --corpus papers/ --against words-documents --csv scores.csv
      graphdoc evaluate search --queries wikir --index wiki.index --query-column title --source-grade 2
      graphdoc evaluate search --queries judged --run bm25.run --measure ndcg@20 --measure map

    Args:
        queries: a folder in BEIR's layout: queries.jsonl, qrels.tsv or qrels/test.tsv, and corpus.jsonl
        split: queries of this split alone, such as test
        only: queries that have FIELD=VALUE; may be repeated
        query_column: field that holds the text of a query
        source_grade: ignore documents judged so: the query was written from them
        corpus: documents (default: those of --queries); may be repeated
        index: keep the index there, or take what is there (default: in memory)
    """
    kept = None if index is None else folder_of(index)
    outputs = ranking.outputs([queries, *corpus], [kept])

    with quick_imports():
        from ..evaluation import own_documents, read_judgements
        from ..evaluation.measures import DEFAULT_MEASURES, require_measures
        from ..evaluation.rankers import EXPLAINED, rank_queries
        from ..evaluation.trec import leave_out, require_ids

    measures = [str(measure) for measure in require_measures(ranking.measure or DEFAULT_MEASURES)]
    # What nothing can be measured on is refused before a model is loaded.
    judgements = read_judgements(queries, split=split, only=list(only), text_column=query_column)
    others, notes = ranking.other_runs(EXPLAINED, judgements.queries)
    against = ranking.row_against([*EXPLAINED, *others], "words")
    own = {} if source_grade is None else own_documents(judgements.qrels, source_grade)
    if source_grade is not None and not own:
        raise EvaluationError(f"{queries}: no judgement has the grade {source_grade} (--source-grade)")
    opened, update, report = _index(queries, corpus, index, model, reading)
    ids = {id for batch in opened.rows(["id"], level="document") for id in batch.column("id").to_pylist()}
    unknown = len(judgements.among(ids).unknown_documents)
    if ranking.run_folder is not None:
        # Before the long work.
        require_ids([*ids, *judgements.queries])
    rankings = rank_queries(
        opened,
        judgements.queries,
        judgements.qrels,
        k=RANKED,
        folds=folds_of(len(judgements)),
        measure=measures[0],
        own=own,
    )
    about = opened.describe()
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
        lines.append(f"taken out of rankings and judgements: {sum(map(len, own.values())):,} (--source-grade)")
    data = {
        "documents": len(ids),
        "left_out": judgements.left_out,
        "judged_documents_not_indexed": unknown,
        "source_grade": source_grade,
    }
    show_rankings(
        ranking,
        outputs,
        rankings,
        {name: leave_out(scores, own) for name, scores in {**rankings.runs, **others}.items()},
        leave_out(judgements.qrels, own),
        measures,
        against,
        {"data": data, "index": about, "top": RANKED},
        lines,
        report,
    )


def folds_of(queries: int) -> int:
    """Folds of the cross-validation of weights: five, or a query each where there are fewer."""
    return max(2, min(5, queries))


def show_rankings(
    options: RankingOptions,
    outputs: Outputs,
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
        options: how they are measured and written.
        outputs: the files that are asked for.
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

    table = RankingTable.of(runs, qrels, measures, against=against, **settings)
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
        outputs,
        content,
        _tables(table, rankings.milliseconds),
        notes,
        report,
        csv=lambda path: _as_table(table.to_frame()).write_csv(path),
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


def _index(
    queries: str, corpus: Sequence[str], place: str | None, model: ModelOptions, reading: CorpusReading
) -> tuple[DocumentIndex, UpdateReport | None, ReadingReport | None]:
    """The index, brought up to date with the corpus; without one that is named, one in memory."""
    from ..evaluation.judgements import find_corpus
    from ..retrieval.index import DocumentIndex

    sources = tuple(corpus)
    if not sources and Path(queries).is_dir() and (found := find_corpus(queries)) is not None:
        sources = (str(found),)
    is_there = place is not None and DocumentIndex.exists(place)
    if not sources and not is_there:
        raise EvaluationError(f"{queries}: there is no corpus in it; name documents with --corpus or --index")
    opened = model.open_index(place) if is_there and place is not None else None
    if opened is not None and not sources:
        return opened, None, None
    report = ReadingReport()
    opened, update = update_index(opened, place or "memory://", sources, model, reading, report)
    return opened, update, report
