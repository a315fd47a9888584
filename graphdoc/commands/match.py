"""graphdoc match: how well pairs of documents match, by a model that reads them view by view."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rich.console import Console

from ..errors import DocumentError, SettingsError
from ..runtime.text import counted
from .arguments import add_model_arguments, add_reading_arguments, load_encoder, positive, weight
from .matched_rows import MatchedRow, matched_rows
from .outputs import Outputs, write_json
from .sources import no_documents, read_many, read_one
from .summaries import list_left_out, print_lines, print_passage
from .tables import Table, names

if TYPE_CHECKING:
    from ..documents.document import Document
    from ..encoder import DocumentEncoder
    from ..matching import PairMatch

HELP = "say how well pairs of documents match, or rank the hits of a first stage again"
DESCRIPTION = """Say how well documents match, by a model that was trained to (graphdoc finetune views).

The model reads views of a pair: some sentences of either document, chosen by the subtopics that both share. The score
of a pair is the highest of its views (cross encoders, whose scores are log-odds) or their mean (dual encoders, whose
scores are cosines).

A and B are two documents. --pairs names many: a file of two ids in a line, of the documents in --data. --candidates
names the hits of a first stage, a run in the format of TREC, for --queries in --corpus; they are ranked again. Many
pairs can be matched by their words too (--words): rare words that both texts have tell much that no view shows."""
EPILOG = """examples:
  graphdoc match a.md b.md --model runs/views/model
  graphdoc match --pairs pairs.tsv --data papers/ --model runs/views/model --words 0.5 --csv scores.csv
  graphdoc match --queries queries.jsonl --corpus cases.jsonl.gz --candidates bm25.run --run matched.run \\
    --model runs/views/model
"""

OUTPUTS = Outputs(
    json=("matches.json", "write scores, views and sentences as JSON (- for standard output)"),
    csv=("matches.csv", "write a row for every pair; of two documents a row for every sentence of a view"),
    run=("matches.run", "write the ranking in the format of TREC, with --candidates"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("a", metavar="A", nargs="?", help="first document: a file, - or corpus.jsonl#ID")
    parser.add_argument("b", metavar="B", nargs="?", help="second document")
    group = parser.add_argument_group("many pairs")
    group.add_argument("--pairs", metavar="FILE", help="two ids in a line, with a tab between; a label may follow")
    group.add_argument("--data", metavar="SOURCE", nargs="+", help="where the documents of --pairs are")
    group.add_argument("--candidates", metavar="RUN", help="hits of a first stage, in the format of TREC")
    group.add_argument("--queries", metavar="SOURCE", nargs="+", help="where the documents are that were asked with")
    group.add_argument("--corpus", metavar="SOURCE", nargs="+", help="where the documents are that were found")
    group.add_argument(
        "--top", type=positive, default=40, metavar="N", help="hits of a query that are ranked again (default: 40)"
    )
    group.add_argument(
        "--words",
        type=weight,
        default=0.0,
        metavar="W",
        help="weight of the words of whole texts in the score, 0 to 1 (default: 0, without them): their TF-IDF cosine "
        "and the score of the model, each brought to mean 0 and deviation 1 over all pairs that are given; for some "
        "hundreds of documents or more",
    )
    views = parser.add_argument_group("views")
    views.add_argument("--views", type=positive, metavar="N", help="views of a pair (default: as trained)")
    views.add_argument("--aggregation", choices=("max", "mean"), help="how their scores are joined")
    views.add_argument("--seed", type=int, metavar="N", help="seed of subtopics and views (default: as trained)")
    OUTPUTS.add_to(parser)
    add_model_arguments(parser, matcher=True)
    add_reading_arguments(parser)


def run(options: argparse.Namespace) -> None:
    """Match, print and write."""
    form = _form_of(options)
    sources = [options.a, options.b, options.pairs, options.candidates]
    OUTPUTS.prepare(options, [*sources, *(options.data or ()), *(options.queries or ()), *(options.corpus or ())])
    if form == "documents":
        _match_two(options)
    elif form == "pairs":
        _match_pairs(options)
    else:
        _match_run(options)


def _form_of(options: argparse.Namespace) -> str:
    """Whether two documents, pairs or the hits of a run are matched.

    Raises:
        SettingsError: what is given does not say.
    """
    forms = {"documents": options.a, "pairs": options.pairs, "run": options.candidates}
    given = [name for name, value in forms.items() if value is not None]
    if len(given) != 1:
        raise SettingsError("give two documents A B, or --pairs with --data, or --candidates with --queries, --corpus")
    needed = {"documents": ("b",), "pairs": ("data",), "run": ("queries", "corpus")}
    for form, wanted in needed.items():
        for name in wanted:
            is_given = getattr(options, name) is not None
            shown = name.upper() if name == "b" else f"--{name}"
            if form == given[0] and not is_given:
                raise SettingsError(f"{shown} is missing; see graphdoc match --help")
            if form != given[0] and is_given:
                raise SettingsError(f"{shown} has no place here; see graphdoc match --help")
    if given[0] == "documents" and options.words:
        raise SettingsError("--words compares a pair with others; leave it out, or give --pairs or --candidates")
    if given[0] != "run" and options.run is not None:
        raise SettingsError("--run is a ranking, which --candidates give; leave it out, or use --csv")
    return given[0]


def _options(options: argparse.Namespace) -> dict[str, Any]:
    names = ("views", "aggregation", "seed")
    return {name: getattr(options, name) for name in names if getattr(options, name) is not None}


def _match_two(options: argparse.Namespace) -> None:
    documents = [read_one(source, options) for source in (options.a, options.b)]
    encoder = load_encoder(options)
    match = encoder.match(documents[0], documents[1], **_options(options))
    target = OUTPUTS.write(options, json=lambda path: write_json(path, match.to_dict()), csv=match.to_csv)
    if target is None:
        return
    for side, document in zip("AB", documents, strict=True):
        title = f"{document.title} [{document.id}]" if document.title else document.id
        print_lines(target, [f"{side}  {title}"])
    target.print(f"\n[bold]{_score_in_words(match)}[/bold] ({len(match.views)} views, model {encoder.name})")
    for number, view in enumerate(match.views, start=1):
        score = "" if view.score is None else f", {view.score:.3f}"
        target.print(f"\n[bold]view {number}[/bold]{score}")
        for side, one, sentences in (("A", match.a, view.a), ("B", match.b, view.b)):
            for sentence in sentences:
                span = one.passages[sentence]
                line = f"  {side}  {one.document.section_name(span.section)}: {one.text(span)}"
                print_passage(target, line)
    target.print()
    for side, beyond in zip("AB", match.beyond, strict=True):
        if beyond:
            print_lines(target, [f"{side}: {counted(beyond, 'sentence')} beyond the receptive field are in no view"])
    OUTPUTS.report(options, target)


def _score_in_words(match: PairMatch) -> str:
    if match.probability is None:
        return f"cosine {match.score:.3f}"
    return f"probability that they match {match.probability:.3f} (log-odds {match.score:+.3f})"


def _match_pairs(options: argparse.Namespace) -> None:
    from ..documents.readers.pair_files import read_any_pairs

    pairs = read_any_pairs(options.pairs)
    wanted = {id for pair in pairs for id in (pair.a, pair.b)}
    encoder, documents, left_out = _load(options, options.data, wanted)
    known = pairs.among(documents, "leave_out" if options.on_error == "skip" else "stop", setting="--on-error skip")
    matches = _in_order(encoder, [(documents[pair.a], documents[pair.b]) for pair in known], options)
    rows = matched_rows(((pair.a, pair.b) for pair in known), matches, options.words)
    target = _write_many(options, rows, encoder)
    if target is not None:
        table = Table([names("A", 36), names("B", 36), "score"])
        for row in sorted(rows, key=lambda row: -row.score):
            table.add(row.a, row.b, row.score)
        table.print(target, "pair")
        _print_end(options, target, left_out, len(pairs) - len(known), "pair")


def _match_run(options: argparse.Namespace) -> None:
    from ..evaluation.trec import ranked, read_run, write_run

    run = {query: ranked(hits)[: options.top] for query, hits in read_run(options.candidates).items()}
    encoder, queries, left_out = _load(options, options.queries, set(run))
    documents = _read(options, options.corpus, {id for hits in run.values() for id in hits}, left_out)
    pairs = [(query, id) for query, hits in run.items() for id in hits]
    missing = [pair for pair in pairs if pair[0] not in queries or pair[1] not in documents]
    if missing and options.on_error != "skip":
        query, id = missing[0]
        unknown = f"query {query!r} in --queries" if query not in queries else f"document {id!r} in --corpus"
        raise DocumentError(
            f"{options.candidates}: there is no {unknown}, and so it is with {len(missing):,} of {len(pairs):,} hits; "
            "give the files that the run was made of, or leave such hits out (--on-error skip)"
        )
    gone = set(missing)
    known = [pair for pair in pairs if pair not in gone]
    if not known:
        raise DocumentError(f"{options.candidates}: no hit is of a query and a document that are there")
    matches = _in_order(encoder, [(queries[query], documents[id]) for query, id in known], options)
    rows = matched_rows(known, matches, options.words)
    scores: dict[str, dict[str, float]] = {}
    for row in rows:
        scores.setdefault(row.a, {})[row.b] = row.score
    target = _write_many(options, rows, encoder, run=lambda path: write_run(path, scores))
    if target is not None:
        table = Table([names("query", 30), names("best match", 40), "score", "hits"])
        for query, hits in scores.items():
            best = ranked(hits)[0]
            table.add(query, best, hits[best], len(hits))
        table.print(target, "query")
        _print_end(options, target, left_out, len(missing), "hit")


def _load(
    options: argparse.Namespace, sources: list[str], wanted: set[str]
) -> tuple[DocumentEncoder, dict[str, Document], Any]:
    """The model, and the documents that are wanted; these are read first, which takes less time."""
    from ..documents.readers import ReadingReport

    report = ReadingReport()
    documents = _read(options, sources, wanted, report)
    return load_encoder(options), documents, report


def _read(options: argparse.Namespace, sources: list[str], wanted: set[str], report: Any) -> dict[str, Document]:
    found: dict[str, Document] = {}
    is_empty = True
    for document in read_many(sources, options, report):
        is_empty = False
        if document.id not in wanted:
            continue
        if document.id in found:
            raise DocumentError(f"several documents have the id {document.id!r}; give every document an id of its own")
        found[document.id] = document
    if is_empty:
        raise no_documents(sources, report)
    return found


def _in_order(
    encoder: DocumentEncoder, pairs: Iterable[tuple[Document, Document]], options: argparse.Namespace
) -> list[PairMatch]:
    from ..matching import match_pairs
    from ..runtime.progress import progress_bar

    given, found = list(pairs), []
    with progress_bar(None, len(given), doing="Matching", unit="pairs") as bar:
        for match in match_pairs(encoder, given, **_options(options)):
            bar.update(1)
            found.append(match)
    return found


def _write_many(
    options: argparse.Namespace, rows: list[MatchedRow], encoder: DocumentEncoder, **writers: Any
) -> Console | None:
    from ..runtime.files import write_csv

    table = [row.to_dict() for row in rows]
    content = {
        "model": encoder.describe(),
        **({"weight_of_words": options.words} if options.words else {}),
        "pairs": [own | {"views": row.match.to_dict()["views"]} for own, row in zip(table, rows, strict=True)],
    }
    columns = list(table[0]) if table else ["a", "b", "score", "probability"]
    return OUTPUTS.write(
        options,
        json=lambda path: write_json(path, content),
        csv=lambda path: write_csv(path, columns, [list(own.values()) for own in table]),
        **writers,
    )


def _print_end(options: argparse.Namespace, target: Console, report: Any, missing: int, noun: str) -> None:
    if missing:
        print_lines(target, [f"left out: {counted(missing, noun)} of unknown documents"])
    list_left_out(target, report)
    OUTPUTS.report(options, target)
