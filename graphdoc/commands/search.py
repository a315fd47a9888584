"""graphdoc search: documents that answer a query or resemble a document."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console

from ..errors import SettingsError
from ..runtime.csv import write_csv
from ..runtime.wording import counted
from .arguments import add_model_arguments, add_reading_arguments, load_encoder, positive
from .index import open_index
from .outputs import JSON, Outputs, write_json
from .sources import encodable, no_documents, read_many, read_one
from .summaries import print_lines, print_passage
from .tables import Table, names, plain

if TYPE_CHECKING:
    from ..documents.document import Document
    from ..retrieval.index import DocumentIndex
    from ..retrieval.results import SearchResults

NAME = "search"
HELP = "search an index, a folder or a corpus by words or with a document"
DESCRIPTION = """Find documents that answer a query, or that resemble a document.

Words (BM25) and vectors each find passages; a document is ranked by its three best, and both rankings are joined. What
each ranking gave a document, and its best passages, stand beside it; --html writes a page that also says why.

INDEX is what graphdoc index has written. A file, folder or corpus in its place is indexed for this one search."""
EPILOG = """examples:
  graphdoc search papers.index "attention over passages"
  graphdoc search papers/ "attention over passages" --html hits.html
  graphdoc search papers.index --document draft.md --top 20
  graphdoc search papers.index "tides" --where "year >= 2010 AND label = 'sea'" --by words
  graphdoc search papers.index "tides" --json - | jq '.hits[].id'
"""

OUTPUTS = Outputs(
    html=("hits.html", "write the results as a page; with --document each hit leads to a comparison report"),
    json=("hits.json", f"{JSON}, with explanations"),
    csv=("hits.csv", "write a row for every passage found"),
    run=("hits.run", "write the ranking in the format of TREC"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("index", metavar="INDEX", help="an index, or a file, folder or corpus")
    parser.add_argument("query", metavar="QUERY", nargs="?", help="words or a question")
    group = parser.add_argument_group("search")
    group.add_argument(
        "--document", metavar="FILE", help="search with a document instead (file, - or corpus.jsonl#ID)"
    )
    group.add_argument("--top", type=positive, default=10, metavar="K", help="documents to find (default: 10)")
    group.add_argument("--where", metavar="FILTER", help='only documents for which this holds, such as "year >= 2010"')
    group.add_argument(
        "--by", choices=("hybrid", "words", "vectors"), default="hybrid", help="what to search by (default: hybrid)"
    )
    group.add_argument(
        "--passages", type=int, default=1, metavar="N", help="passages shown of each document (default: 1; 3 in files)"
    )
    group.add_argument(
        "--words-unit",
        choices=("passage", "document", "both"),
        default="passage",
        help="what words are searched in: the best three passages count, the whole document, or both added up "
        "(default: passage)",
    )
    group.add_argument(
        "--fusion",
        choices=("reciprocal_rank", "weighted"),
        default="reciprocal_rank",
        help="how rankings are joined (default: reciprocal_rank)",
    )
    group.add_argument(
        "--weight",
        type=float,
        default=0.5,
        metavar="W",
        help="weight of words with --fusion weighted, 0 to 1 (default: 0.5)",
    )
    group.add_argument("--explain", action="store_true", help="say why each document was found")
    OUTPUTS.add_to(parser)
    add_model_arguments(parser)
    parser.set_defaults(model=None)
    add_reading_arguments(parser)


def run(options: argparse.Namespace) -> None:
    """Search, print and write."""
    if (options.query is None) == (options.document is None):
        raise SettingsError("give either a query or --document FILE")
    OUTPUTS.prepare(options, [options.index, options.document])
    query = options.query if options.document is None else read_one(options.document, options)
    with searched_index(options) as index:
        results = index.search(
            query,
            options.top,
            by=options.by,
            where=options.where,
            passages=max(options.passages, 3) if OUTPUTS.paths(options) else options.passages,
            words_unit=options.words_unit,
            fusion=options.fusion,
            weight=options.weight,
        )
        target = OUTPUTS.write(
            options,
            html=lambda path: _write_page(index, results, query, path),
            json=lambda path: write_json(path, results.to_dict(explain=True)),
            csv=lambda path: _write_table(results, path),
            run=lambda path: _write_run(results, options.document or "query", path),
        )
        if target is None:
            return
        _print(target, results, options)
    OUTPUTS.report(options, target)


@contextmanager
def searched_index(options: argparse.Namespace) -> Iterator[DocumentIndex]:
    """The index that the arguments name, or one in memory of the documents that are named in its place."""
    from ..documents.readers import ReadingReport
    from ..retrieval.index import DocumentIndex
    from ..retrieval.places import place_of

    if place_of(options.index).folder is None or DocumentIndex.exists(options.index):
        yield open_index(options, options.index)
        return
    report = ReadingReport()
    documents = list(read_many([options.index], options, report))
    options.model = options.model or "mini"
    encoder = load_encoder(options) if documents else None
    if encoder is not None and options.on_error == "skip":
        documents = list(encodable(documents, encoder, report))
    if encoder is None or not documents:
        raise no_documents([options.index], report)
    index = DocumentIndex.create("memory://", encoder)
    index.update(documents, maintain=True)
    index.place = options.index
    yield index


def _write_page(index: DocumentIndex, results: SearchResults, query: str | Document, path: str) -> None:
    from ..retrieval.page import write_page_with_comparisons

    if isinstance(query, str):
        results.to_html(path)
    else:
        write_page_with_comparisons(index, results, query, path)


def _write_table(results: SearchResults, path: str) -> None:
    from ..retrieval.results import COLUMNS

    write_csv(path, COLUMNS, ([row[name] for name in COLUMNS] for row in results.rows()))


def _write_run(results: SearchResults, name: str, path: str) -> None:
    from ..evaluation.trec import write_run

    write_run(path, {name: {hit.id: hit.score for hit in results}})


def _print(target: Console, results: SearchResults, options: argparse.Namespace) -> None:
    rows = Table(["", names("document", 60), "score", "words (rank)", "vectors (rank)"])
    for hit in results:
        ranks = (
            f"{part.score:.2f} ({part.rank})" if (part := hit.parts.get(name)) else "-"
            for name in ("words", "vectors")
        )
        rows.add(hit.rank, f"{hit.title} [{hit.id}]" if hit.title else hit.id, hit.score, *ranks)
    if rows.rows:
        rows.print(target)
    for hit in results:
        if hit.passages and options.passages:
            target.print(plain(f"\n{hit.rank}  {hit.title or hit.id}"), style="bold")
        for passage in hit.passages[: options.passages]:
            heading = f"{passage.heading}: " if passage.heading else ""
            print_passage(target, f"   {heading}{passage.text}")
        if options.explain:
            print_lines(target, [f"   {line}" for line in str(hit.explain()).splitlines()[1:]])
    print_lines(target, [f"note: {warning}" for warning in results.warnings])
    target.print()
    about = results.index
    sizes = f"{counted(about['documents'], 'document')}, {counted(about['passages'], 'passage')}"
    print_lines(target, [f"{sizes}, model {about['model']['name']}"])
