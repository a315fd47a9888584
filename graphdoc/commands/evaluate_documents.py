"""graphdoc evaluate search --relevant: which way to rank documents by one of them finds the relevant ones?"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import EvaluationError, SettingsError
from ..runtime.memory import quick_imports
from ..runtime.text import counted, left_out_line
from .arguments import add_scoring_arguments, load_encoder
from .outputs import Outputs, check_apart, write_json, written
from .sources import encodable, no_documents, read_many, skips_unencodable
from .summaries import list_left_out, print_lines
from .tables import Column, Table, half_interval, names, signed_interval

if TYPE_CHECKING:
    import pandas as pd

    from ..documents.document import Document
    from ..documents.readers import ReadingReport
    from ..encoder import DocumentEncoder
    from ..evaluation import Judgements, RankingTable
    from ..evaluation.document_ranking.rows import DocumentRankings
    from ..evaluation.trec import Run

_ROWS = ("tf-idf", "vectors", "flat", "sentences")
_MEASURES = ("nDCG@10", "MAP", "MPR", "MRR", "HR@10", "HR@100")
# Measures that stand beside each other on a terminal.
_TOGETHER = 6
_PUBLISHED = ("MPR-published", "MRR-published", "HR-published@10", "HR-published@100")
# What means nothing where documents are asked with, and what means nothing where queries are.
_OF_QUERIES = ("data", "split", "query_column", "own_grade", "index", "top", "depth")
_OF_DOCUMENTS = ("by", "mutual", "as_published", "vectors", "paragraph", "normalisation", "direction")


def add_relevant_arguments(group: argparse._ArgumentGroup) -> None:
    """Add which documents are relevant to which."""
    group.add_argument(
        "--relevant",
        metavar="FILE",
        help="which documents of --corpus are relevant to which others: links (two ids in a line), judgements of "
        "TREC, or a JSON object of lists of ids; these documents are then the queries",
    )
    group.add_argument("--relevant-field", metavar="NAME", help="a field of the documents that says so, such as links")
    group.add_argument("--mutual", action="store_true", help="only documents that are relevant to each other count")


def add_ranking_arguments(parser: argparse.ArgumentParser) -> None:
    """Add how documents are ranked by one of them."""
    group = parser.add_argument_group("documents as queries (with --relevant)")
    group.add_argument(
        "--by",
        metavar="ROW",
        action="append",
        help=f"a row; may be repeated (default: {', '.join(_ROWS)})",
    )
    group.add_argument(
        "--vectors", metavar="FOLDER", help="keep the vectors of sentences there, or take those that are there"
    )
    group.add_argument(
        "--paragraph",
        choices=("section", "blank_line", "passage"),
        help="which sentences belong together (default: what the model says)",
    )
    add_scoring_arguments(group)
    group.add_argument(
        "--as-published",
        action="store_true",
        help="also the measures as SDR's published code counts: ranks from 0, missing documents in HR",
    )


def is_asked_for(options: argparse.Namespace) -> bool:
    """Whether documents are the queries."""
    return options.relevant is not None or options.relevant_field is not None


def refuse(options: argparse.Namespace) -> None:
    """Refuse options that need documents as queries, where there are none.

    Raises:
        SettingsError: there is one, or nothing says what the queries are.
    """
    for name in _OF_DOCUMENTS:
        if getattr(options, name):
            raise SettingsError(f"--{name.replace('_', '-')} ranks by documents; add --relevant FILE, or leave it out")
    if options.data is None:
        raise SettingsError("nothing says what the queries are; give --data FOLDER, or --relevant FILE with --corpus")


def run(options: argparse.Namespace, outputs: Outputs) -> None:
    """Read, rank, measure, print and write."""
    _check(options)

    with quick_imports():
        from ..evaluation import Candidates, RankingTable
        from ..evaluation.document_ranking.corpus import RankedCorpus
        from ..evaluation.document_ranking.rows import ROWS, rank_documents, require_rows
        from ..evaluation.ranking import require_measures
        from ..evaluation.trec import require_ids
        from ..retrieval.sentence_settings import DIRECTION

    rows = list(dict.fromkeys(options.by or _ROWS))
    require_rows(rows)
    asked = [*(options.measure or _MEASURES), *(_PUBLISHED if options.as_published else ())]
    measures = [str(one) for one in require_measures(asked)]
    others = other_runs(options.run, ROWS)
    check_apart([options.relevant, *options.run], run_files(options, [*rows, *others]))
    against = options.against or rows[0]
    if against not in (*rows, *others):
        raise SettingsError(f"--against {against!r} is no row; use one of {', '.join([*rows, *others])}")
    encoder = None
    if any(ROWS[part].needs_model for name in rows for part in name.split("+")):
        encoder = load_encoder(options, options.model or "mini")
    documents, reading = _documents(options, encoder)
    judgements, absent, own_links = _judgements(options, documents)
    sources = list(judgements.queries)
    # What cannot be measured or written is refused before the long work.
    notes = queries_of_runs(others, sources)
    others, unknown = _of_documents(others, {document.id for document in documents})
    notes += unknown
    if options.run_folder is not None:
        require_ids(document.id for document in documents)

    def the_encoder() -> DocumentEncoder:
        assert encoder is not None
        return encoder

    corpus = RankedCorpus(
        documents,
        the_encoder,
        folder=options.vectors,
        paragraph=options.paragraph,
        normalisation=options.normalisation or "none",
        direction=options.direction or DIRECTION,
        seed=options.seed,
    )
    found = rank_documents(
        corpus, sources, judgements.qrels, rows, measure=measures[0], folds=options.folds, seed=options.seed
    )
    runs = {**found.runs, **others}
    candidates = Candidates(len(documents) - 1, absent)
    own = {source: {source} for source in sources}
    table = RankingTable.of(
        runs, judgements.qrels, measures, against=against, own=own, candidates=candidates, seed=options.seed
    )

    left_out = {**judgements.left_out, **({"documents relevant to themselves": own_links} if own_links else {})}

    def content() -> dict[str, Any]:
        return {
            "format": "graphdoc.search/1",
            "data": {
                "queries": len(table.queries),
                "documents": len(documents),
                "relevant": sum(len(grades) for grades in judgements.qrels.values()),
                "left_out": left_out,
                "absent": sum(absent.values()),
                "mutual": options.mutual,
            },
            "model": None if encoder is None else encoder.describe(),
            "paragraph": options.paragraph,
            "normalisation": corpus.normalisation,
            "direction": corpus.direction,
            "milliseconds": dict(found.milliseconds),
            "weights": {name: weight.to_dict() for name, weight in found.weights.items()},
            **table.to_dict(),
        }

    target = outputs.write(
        options,
        json=lambda path: write_json(path, content()),
        csv=lambda path: _as_table(table.to_frame()).write_csv(path),
        queries=lambda path: _as_table(table.per_query()).write_csv(path),
    )
    files = [] if options.run_folder is None else _write_runs(Path(options.run_folder), runs, judgements)
    if target is None:
        return
    for shown in _tables(table, found):
        shown.print(target)
        target.print()
    print_lines(target, [*_notes(options, table, found, judgements, left_out, len(documents), encoder), *notes])
    list_left_out(target, reading)
    outputs.report(options, target)
    written(target, files)


def other_runs(paths: Sequence[str], taken: Collection[str]) -> dict[str, Run]:
    """Rankings of other systems, by the names of their files.

    Args:
        paths: the files.
        taken: names of rows that there are already.

    Raises:
        EvaluationError: a name is taken, or a file is no run.
    """
    from ..evaluation import read_run

    runs: dict[str, Run] = {}
    for path in paths:
        name = Path(path).name.partition(".")[0]
        if name in taken or name in runs or name.split() != [name]:
            raise EvaluationError(f"{path}: a row is called by the file, and {name!r} is taken; rename the file")
        runs[name] = read_run(path)
    return runs


def run_files(options: argparse.Namespace, names: Iterable[str]) -> list[str]:
    """The files that ``--run-folder`` stands for.

    Args:
        options: the arguments.
        names: the rows.
    """
    if options.run_folder is None:
        return []
    return [str(Path(options.run_folder) / name) for name in ("qrels.tsv", *(f"{name}.run" for name in names))]


def queries_of_runs(runs: Mapping[str, Run], queries: Collection[str]) -> list[str]:
    """How many queries runs of other systems have no hits for.

    Args:
        runs: rankings by name.
        queries: ids of the queries that are measured.

    Raises:
        EvaluationError: a run has none of the queries, so that nothing in it can be measured.
    """
    notes = []
    for name, run in runs.items():
        missing = [query for query in queries if not run.get(query)]
        if len(missing) == len(queries):
            raise EvaluationError(
                f"--run {name}: none of its {counted(len(run), 'query id')}, such as {next(iter(run))!r}, is that of "
                f"a query, such as {next(iter(queries))!r}; give a run of these queries"
            )
        if missing:
            notes.append(
                f"{name} has no hits for {len(missing):,} of {len(queries):,} queries, such as {missing[0]!r}; "
                "there it counts as one that found nothing"
            )
    return notes


def _of_documents(runs: Mapping[str, Run], known: Collection[str]) -> tuple[dict[str, Run], list[str]]:
    """Rankings without documents that are not in the corpus, and how many those are."""
    result: dict[str, Run] = {}
    notes = []
    for name, run in runs.items():
        result[name] = {query: {id: one for id, one in scores.items() if id in known} for query, scores in run.items()}
        missing = {id for scores in run.values() for id in scores if id not in known}
        if not any(result[name].values()):
            raise EvaluationError(
                f"--run {name}: none of its {counted(len(missing), 'document')}, such as {min(missing)!r}, is in the "
                "corpus; give a run of these documents"
            )
        if missing:
            count = counted(len(missing), "document")
            notes.append(f"left out of {name}: {count}, such as {min(missing)!r}, not in the corpus")
    return result, notes


def _check(options: argparse.Namespace) -> None:
    """Refuse what contradicts documents as queries."""
    for name in _OF_QUERIES:
        if getattr(options, name) is not None:
            option = f"--{name.replace('_', '-')}"
            raise SettingsError(f"{option} does not go with --relevant, whose queries are documents; leave it out")
    if options.relevant is not None and options.relevant_field is not None:
        raise SettingsError("--relevant and --relevant-field both say what is relevant; give one of them")
    if not options.corpus:
        raise SettingsError("nothing says which documents are ranked; name them with --corpus")


def _documents(options: argparse.Namespace, encoder: DocumentEncoder | None) -> tuple[list[Document], ReadingReport]:
    """The documents that are ranked: of the corpus those that fit the conditions."""
    from ..documents.readers import ReadingReport
    from ..evaluation.query_files import fitting_documents

    report = ReadingReport()
    documents = list(read_many(options.corpus, options, report))
    if options.only:
        documents = fitting_documents(documents, options.only)
    if encoder is not None and skips_unencodable(options, options.corpus):
        documents = list(encodable(documents, encoder, report))
    if not documents:
        raise no_documents(options.corpus, report)
    return documents, report


def _judgements(options: argparse.Namespace, documents: Sequence[Document]) -> tuple[Judgements, dict[str, int], int]:
    """What is relevant among the documents, how many relevant ones each has besides, and how many it is to itself."""
    from ..evaluation import Judgements, read_relevant, relevant_by_field

    if options.relevant is not None:
        qrels = read_relevant(options.relevant, mutual=options.mutual)
    else:
        qrels = relevant_by_field(documents, options.relevant_field, mutual=options.mutual)
    # A document is no answer to itself.
    own_links = sum(grades.get(id, 0) > 0 for id, grades in qrels.items())
    qrels = {id: {other: grade for other, grade in grades.items() if other != id} for id, grades in qrels.items()}
    texts = {document.id: document.title or document.id for document in documents if document.id in qrels}
    if not texts:
        raise EvaluationError(
            f"none of the {counted(len(qrels), 'document')} with relevant ones, such as {next(iter(qrels))!r}, is in "
            f"{' '.join(options.corpus)}; give the documents that the ids are of"
        )
    place = options.relevant or f"the field {options.relevant_field!r}"
    everything = Judgements.of(texts, qrels, source=place)
    judgements = everything.among({document.id for document in documents})
    absent = {
        id: sum(grade > 0 and other not in judgements.qrels[id] for other, grade in everything.qrels[id].items())
        for id in judgements.queries
    }
    return judgements, absent, own_links


def _write_runs(folder: Path, runs: Mapping[str, Any], judgements: Judgements) -> list[Path]:
    from ..evaluation.trec import write_qrels, write_run

    files = [write_run(folder / f"{name}.run", run, name) for name, run in runs.items()]
    return [*files, write_qrels(folder / "qrels.tsv", judgements.qrels)]


def _as_table(frame: pd.DataFrame) -> Table:
    rows = frame.astype(object).where(frame.notna(), None)
    return Table(list(frame.columns), rows.itertuples(index=False))


def _tables(table: RankingTable, found: DocumentRankings) -> list[Table]:
    """The first measure with its interval, the difference with its own and the time of a source; then all measures."""
    first = table.measures[0]
    result = Table(
        [
            names("ranked by"),
            Column(first, half_interval),
            Column(f"against {table.against}", signed_interval),
            f"p {first}",
            "ms",
        ]
    )
    for name in table.scores:
        against = None if name == table.against else table.estimate(name, first, table.against)
        p_value = table.p_values.get(name, {}).get(first)
        result.add(name, table.estimate(name, first), against, p_value, found.milliseconds.get(name))
    tables = [result]
    for start in range(0, len(table.measures), _TOGETHER):
        some = table.measures[start : start + _TOGETHER]
        rows = ([name, *(scores.means[one] for one in some)] for name, scores in table.scores.items())
        tables.append(Table([names("ranked by"), *some], rows))
    return tables


def _notes(
    options: argparse.Namespace,
    table: RankingTable,
    found: DocumentRankings,
    judgements: Judgements,
    left_out: Mapping[str, int],
    documents: int,
    encoder: DocumentEncoder | None,
) -> list[str]:
    pairs = sum(sum(grade > 0 for grade in grades.values()) for grades in judgements.qrels.values())
    model = "" if encoder is None else f"; model {encoder.name}"
    lines = [
        f"{counted(len(table.queries), 'document')} as queries, {counted(pairs, 'relevant document')} of them; "
        f"{counted(documents, 'document')}{model}",
        "±, [ ]: middle 95 % of 1,000 bootstrap resamples of the queries, differences paired; ms: mean of a query",
    ]
    for name, weight in found.weights.items():
        chosen = ", ".join(f"{one:g}" for one in weight.fold_weights)
        lines.append(
            f"weight of words in {name}: {weight.weight:g}; by fold of {options.folds}, without its queries: {chosen}"
        )
    return [*lines, *(left_out_line(count, reason) for reason, count in left_out.items())]
