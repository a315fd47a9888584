"""graphdoc evaluate search and related: which way to rank documents finds those that answer a query or a document?"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from ..documents.readers import ReadingReport
from ..errors import EvaluationError, SettingsError
from ..runtime.imports import quick_imports
from ..runtime.text import counted, left_out_line
from .evaluate import show
from .index import update_index, update_lines
from .options import COUNT, OUTPUT, File, Json, MeasuredModel
from .output import Outputs, Table, TableColumn, Terminal, check_apart, half_interval, names, signed_interval
from .sources import CorpusReading

if TYPE_CHECKING:
    from ..documents.document import Document
    from ..evaluation import Judgements, RankingTable
    from ..evaluation.rankers import Rankings
    from ..evaluation.trec import Qrels, Run
    from ..retrieval.index import DocumentIndex
    from ..retrieval.updating import UpdateReport

# Documents of a ranking.
RANKED = 1000
_RELATED_ROWS = ("tf-idf", "vectors", "flat", "sentences")
_RELATED_MEASURES = ("nDCG@10", "MAP", "MPR", "MRR", "HR@10", "HR@100")
# Folds of the cross-validation of weights; a query each where there are fewer queries.
FOLDS = 5
_PUBLISHED = ("MPR-published", "MRR-published", "HR-published@10", "HR-published@100")


@Parameter(name="*", group=Group("Measures", sort_key=2))
@dataclass(frozen=True, kw_only=True)
class RankingOptions:
    """Options of measuring and writing rankings."""

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

    def outputs(self, sources: Sequence[str], folder: Path | None = None) -> Outputs:
        """The files that are asked for; ``folder`` is written to as well."""
        return Outputs([*sources, *self.run], folders=[self.run_folder, folder], json=self.json, csv=self.csv)

    def measures(self, default: Sequence[str]) -> list[str]:
        """The measures, each once."""
        from ..evaluation.measures import require_measures

        return [str(measure) for measure in require_measures(self.measure or default)]


def _other_runs(
    ranking: RankingOptions, judged: str, taken: Collection[str], queries: Collection[str]
) -> tuple[dict[str, Run], list[str]]:
    """Rankings of other systems, by the names of their files, and a line for every one that lacks queries."""
    from ..evaluation import read_run

    runs: dict[str, Run] = {}
    notes = []
    for path in ranking.run:
        name = Path(path).name.partition(".")[0]
        if name in taken or name in runs or name.split() != [name]:
            raise EvaluationError(f"{path}: a row is called by the file, and {name!r} is taken; rename the file")
        runs[name] = read_run(path)
        missing = [query for query in queries if not runs[name].get(query)]
        if len(missing) == len(queries):
            raise EvaluationError(f"--run {path}: it has none of the queries, such as {missing[0]!r}")
        if missing:
            notes.append(f"{name} has no hits for {len(missing):,} queries, such as {missing[0]!r}")
    rows = [*taken, *runs]
    if ranking.against not in (None, *rows):
        raise SettingsError(f"--against {ranking.against!r} is no row; use one of {', '.join(rows)}")
    if ranking.run_folder is not None:
        files = ("qrels.tsv", *(f"{row}.run" for row in rows))
        check_apart([judged, *ranking.run], (str(Path(ranking.run_folder) / file) for file in files))
    return runs, notes


def _show(
    ranking: RankingOptions,
    outputs: Outputs,
    rankings: Rankings,
    runs: Mapping[str, Run],
    qrels: Qrels,
    table: RankingTable,
    about: Mapping[str, Any],
    lines: Sequence[str],
    report: ReadingReport | None,
) -> None:
    from ..evaluation import write_run
    from ..evaluation.trec import write_qrels

    content = {
        "format": "graphdoc.search/1",
        **about,
        "milliseconds": dict(rankings.milliseconds),
        "weights": {name: weight.to_dict() for name, weight in rankings.weights.items()},
        **table.to_dict(),
    }
    notes = [*lines, "±, [ ]: middle 95 % of 1,000 bootstrap resamples of the queries, differences paired; ms: a query"]
    for name, weight in rankings.weights.items():
        chosen = ", ".join(f"{fold:g}" for fold in weight.fold_weights)
        notes.append(f"weight of words in {name}: {weight.weight:g}; by fold, without its queries: {chosen}")
    first = table.measures[0]
    ahead = TableColumn(f"against {table.against}", signed_interval)
    best = Table([names("ranked by"), TableColumn(first, half_interval), ahead, "ms"])
    means = Table([names("ranked by"), *table.measures])
    for name, scores in table.scores.items():
        best.add(name, table.estimate(name, first), table.difference(name, first), rankings.milliseconds.get(name))
        means.add(name, *scores.means.values())
    frame = table.to_frame()
    cells = frame.astype(object).where(frame.notna(), None).itertuples(index=False)
    show(outputs, content, [best, means], notes, report, csv=Table(list(frame.columns), cells).write_csv)
    if ranking.run_folder is not None:
        folder = Path(ranking.run_folder)
        files = [write_run(folder / f"{name}.run", scores, name) for name, scores in runs.items()]
        files.append(write_qrels(folder / "qrels.tsv", qrels))
        if ranking.json != "-":
            Terminal().written(files)


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

    The rows are: words, BM25 of passages, of which the best three count; vectors, those of passages; hybrid, what
    graphdoc search does by default; and those of tables 3 to 5 of Graph-RoBERTa, whatever the model is: bm25, of
    whole documents; graph-roberta, vectors of documents; graph-roberta+bm25, their weighted sum, the weight from
    cross-validation. A row is better than that of --against where the whole interval of the difference is above 0.
    With --index the corpus is indexed once; the next time only what has changed is encoded.

    Usage examples:
      graphdoc evaluate search --queries qmsum --index qmsum.index --split test --only kind=specific
      graphdoc evaluate search --queries judged --corpus papers/ --against bm25 --csv scores.csv
      graphdoc evaluate search --queries wikir --index wiki.index --query-column title --source-grade 2
      graphdoc evaluate search --queries judged --run splade.run --measure ndcg@20 --measure map

    Args:
        queries: a folder in BEIR's layout: queries.jsonl, qrels.tsv or qrels/test.tsv, and corpus.jsonl
        split: queries of this split alone, such as test
        only: queries that have FIELD=VALUE; may be repeated
        query_column: field that holds the text of a query
        source_grade: ignore documents judged so: the query was written from them
        corpus: documents (default: those of --queries); may be repeated
        index: keep the index there, or take what is there (default: in memory)
    """
    with quick_imports():
        from ..retrieval.lance import folder_of
    outputs = ranking.outputs([queries, *corpus], None if index is None else folder_of(index))

    with quick_imports():
        from ..evaluation import RankingTable, read_judgements
        from ..evaluation.judgements import UNKNOWN_DOCUMENTS
        from ..evaluation.measures import DEFAULT_MEASURES, RANK_MEASURES
        from ..evaluation.rankers import SEARCHES, WEIGHTED, rank_queries
        from ..evaluation.trec import leave_out

    measures = ranking.measures(DEFAULT_MEASURES)
    if of_ranks := [measure for measure in measures if measure.partition("@")[0] in RANK_MEASURES]:
        raise SettingsError(f"--measure {of_ranks[0]} needs rankings of all documents, which evaluate related makes")
    # What nothing can be measured on is refused before a model is loaded.
    judgements = read_judgements(queries, split=split, only=list(only), text_column=query_column)
    others, notes = _other_runs(ranking, queries, [*SEARCHES, *WEIGHTED], judgements.queries)
    excluded = judgements.sources(source_grade)
    opened, update, report = _index(queries, corpus, index, model, reading)
    ids = {id for batch in opened.rows(["id"], level="document") for id in batch.column("id").to_pylist()}
    unknown = judgements.among(ids).left_out.get(UNKNOWN_DOCUMENTS, 0)
    rankings = rank_queries(
        opened, judgements.queries, judgements.qrels, top_k=RANKED, folds=max(2, min(FOLDS, len(judgements))),
        measure=measures[0], excluded=excluded,
    )  # fmt: skip
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
    if excluded:
        lines.append(f"taken out of rankings and judgements: {sum(map(len, excluded.values())):,} (--source-grade)")
    data = {"documents": len(ids), "left_out": judgements.left_out, "judged_documents_not_indexed": unknown}
    data["source_grade"] = source_grade
    runs = {name: leave_out(scores, excluded) for name, scores in {**rankings.runs, **others}.items()}
    qrels = leave_out(judgements.qrels, excluded)
    table = RankingTable.from_runs(runs, qrels, measures, against=ranking.against or "words")
    _show(ranking, outputs, rankings, runs, qrels, table, {"data": data, "index": about, "top": RANKED}, lines, report)


def _index(
    queries: str, corpus: Sequence[str], path: str | None, model: MeasuredModel, reading: CorpusReading
) -> tuple[DocumentIndex, UpdateReport | None, ReadingReport | None]:
    """The index, brought up to date with the corpus; without one that is named, one in memory."""
    from ..evaluation.judgements import find_rows
    from ..retrieval.index import DocumentIndex

    sources = tuple(corpus)
    if not sources and Path(queries).is_dir() and (found := find_rows(queries, "corpus")) is not None:
        sources = (str(found),)
    opened = model.open_index(path) if path is not None and DocumentIndex.exists(path) else None
    if not sources:
        if opened is None:
            raise EvaluationError(f"{queries}: there is no corpus in it; name documents with --corpus or --index")
        return opened, None, None
    report = ReadingReport()
    opened, update = update_index(opened, path or "memory://", sources, model, reading, report)
    return opened, update, report


def evaluate_related(
    *corpus: str,
    relevant: str,
    mutual: bool = False,
    by: tuple[str, ...] = (),
    normalization: Literal["none", "zscore"] = "none",
    direction: Literal["source", "both"] = "both",
    as_published: bool = False,
    ranking: RankingOptions = RankingOptions(),
    model: MeasuredModel = MeasuredModel(),
    reading: CorpusReading = CorpusReading(),
) -> None:
    """Rank the documents of a corpus by each of those whose relevant ones are known.

    The rows (--by) are: tf-idf and bm25, by the words of whole texts; bm25-keywords, BM25 for the keywords that a
    search takes of a document; vectors, the model's document vectors; document, the mean of the vectors of all
    sentences; paragraphs, the best ones; flat, the best sentences of the whole document; sentences, the best
    paragraphs by their best sentences (SDR). Two are joined by a +, as in tf-idf+sentences: a weighted sum whose
    weight comes from cross-validation.

    Usage examples:
      graphdoc evaluate related articles.jsonl --relevant links.tsv --mutual

    Args:
        corpus: files, folders, globs or corpora
        relevant: which documents are relevant to which: links (two ids in a line), judgements of TREC, or a JSON
            object of lists of ids
        mutual: only documents that are relevant to each other count
        by: a row; may be repeated (default: tf-idf, vectors, flat, sentences)
        normalization: z-score each paragraph's similarities over all documents (SDR)
        direction: one-way, from the query document, or symmetric similarity
        as_published: also the measures as SDR's published code counts: ranks from 0, missing documents in HR
    """
    outputs = ranking.outputs([relevant, *corpus])

    with quick_imports():
        from ..evaluation import RankedDocuments, RankingTable
        from ..evaluation.rankers import WITHOUT_MODEL, RankedCorpus, parts_of, rank_documents

    rows = list(dict.fromkeys(by or _RELATED_ROWS))
    needs_model = any(part not in WITHOUT_MODEL for part in parts_of(rows))
    measures = ranking.measures(_RELATED_MEASURES)
    if as_published:
        measures += [name for name in _PUBLISHED if name not in measures]
    report = ReadingReport()
    if needs_model:
        documents, encoder = reading.all_with_model(corpus, model, report)
    else:
        documents, encoder = list(reading.documents(corpus, report)), None
    judgements, absent = _judgements(relevant, documents, mutual=mutual)
    sources = list(judgements.queries)
    known = {document.id for document in documents}
    others, notes = _other_runs(ranking, relevant, rows, sources)
    others = {
        name: {query: {id: hits[id] for id in hits if id in known and id != query} for query, hits in run.items()}
        for name, run in others.items()
    }
    ranked = RankedCorpus(documents, lambda: encoder or model.load(), normalization=normalization, direction=direction)
    rankings = rank_documents(
        ranked, sources, judgements.qrels, rows, measure=measures[0], folds=max(2, min(FOLDS, len(sources)))
    )
    pairs = sum(sum(grade > 0 for grade in grades.values()) for grades in judgements.qrels.values())
    lines = [
        f"{counted(len(sources), 'document')} as queries, {counted(pairs, 'relevant document')} of them; "
        f"{counted(len(documents), 'document')}" + ("" if encoder is None else f"; model {encoder.name}"),
        *(left_out_line(count, reason) for reason, count in judgements.left_out.items()),
        *notes,
    ]
    data = {"documents": len(documents), "relevant": pairs, "left_out": judgements.left_out}
    data |= {"absent": sum(absent.values()), "mutual": mutual}
    about: dict[str, Any] = {"data": data, "model": encoder and encoder.describe()}
    about |= {"normalization": normalization, "direction": direction}
    runs, candidates = {**rankings.runs, **others}, RankedDocuments(len(documents) - 1, absent)
    table = RankingTable.from_runs(
        runs, judgements.qrels, measures, against=ranking.against or rows[0], candidates=candidates
    )
    _show(ranking, outputs, rankings, runs, judgements.qrels, table, about, lines, report)


def _judgements(relevant: str, documents: Sequence[Document], *, mutual: bool) -> tuple[Judgements, dict[str, int]]:
    """Judgements among the documents, and the number of relevant documents that are missing, by query."""
    from ..evaluation import Judgements, read_relevant

    # A document is no answer to itself.
    qrels = {
        id: {other: grade for other, grade in grades.items() if other != id}
        for id, grades in read_relevant(relevant, mutual=mutual).items()
    }
    texts = {document.id: document.title or document.id for document in documents if document.id in qrels}
    if not texts:
        raise EvaluationError(f"none of the documents with relevant ones, such as {next(iter(qrels))!r}, is there")
    everything = Judgements.from_qrels(texts, qrels, source=relevant)
    judgements = everything.among({document.id for document in documents})
    absent = {
        id: sum(grade > 0 and other not in judgements.qrels[id] for other, grade in everything.qrels[id].items())
        for id in judgements.queries
    }
    return judgements, absent
