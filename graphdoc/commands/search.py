"""graphdoc search: documents that answer a query or resemble a document."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console

from ..analysis.search_page.marks import excerpt
from ..errors import SettingsError
from ..runtime.files import write_csv
from ..runtime.memory import quick_imports
from ..runtime.text import counted, one_line
from .arguments import add_model_arguments, add_reading_arguments, add_scoring_arguments, positive
from .outputs import JSON, Outputs, check_apart, write_json, written
from .searched import BY_SENTENCES, document_of, read_query, searched
from .summaries import LINE_WIDTH, print_lines, print_passage
from .tables import Table, names, plain

if TYPE_CHECKING:
    from ..documents.document import Document
    from ..retrieval.alignments import HitAlignment
    from ..retrieval.index import DocumentIndex
    from ..retrieval.results import SearchResults

_BY_PASSAGES = ("hybrid", "words", "vectors")

HELP = "search an index, a folder or a corpus by words or with a document"
DESCRIPTION = """Find documents that answer a query, or that resemble a document.

Words (BM25) and vectors each find passages; a document is ranked by its three best, and both rankings are joined. What
each ranking gave a document, and its best passages, stand beside it; --html writes a page that also says why.

With --document and --by sentences, flat, paragraphs or document, documents are ranked by their sentences, and each hit
shows which of its sentences are like which of the document: what pairs add makes up the score. All documents are
ranked, those that a first search finds (--pool), or those of a run (--candidates).

INDEX is what graphdoc index has written. A file, folder or corpus in its place is indexed for this one search."""
EPILOG = """examples:
  graphdoc search papers.index "attention over passages"
  graphdoc search papers/ "attention over passages" --html hits.html
  graphdoc search papers.index --document draft.md --top 20
  graphdoc search papers.index "tides" --where "year >= 2010 AND label = 'sea'" --by words
  graphdoc search papers.index --document draft.md --by sentences --pool 100
  graphdoc search papers.index "tides" --json - | jq '.hits[].id'
"""

OUTPUTS = Outputs(
    html=(
        "hits.html",
        "write the results as a page; with --document also a folder beside it (hits-comparisons for hits.html) "
        "with a comparison report for each hit",
    ),
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
        "--document",
        metavar="FILE",
        help="search with a document instead (file, -, corpus.jsonl#ID or the id of one in the index)",
    )
    group.add_argument("--top", type=positive, default=10, metavar="K", help="documents to find (default: 10)")
    group.add_argument("--where", metavar="FILTER", help='only documents for which this holds, such as "year >= 2010"')
    group.add_argument(
        "--by",
        choices=(*_BY_PASSAGES, *BY_SENTENCES),
        default="hybrid",
        help="what to search by, sentences to document with --document alone (default: hybrid)",
    )
    group.add_argument(
        "--passages",
        type=int,
        default=1,
        metavar="N",
        help="passages, or pairs of sentences, shown of each document (default: 1; in files 3, or all pairs)",
    )
    group.add_argument(
        "--words-unit",
        choices=("passage", "document", "both"),
        help="what words are searched in: the best three passages count, the whole document, or both added up "
        "(default: passage; by sentences document)",
    )
    group.add_argument(
        "--fusion",
        choices=("reciprocal_rank", "weighted"),
        help="how rankings are joined (default: reciprocal_rank)",
    )
    group.add_argument(
        "--weight",
        type=float,
        metavar="W",
        help="add up scores, this weight for words, 0 to 1 (default: rankings are joined by rank; sentences alone)",
    )
    add_sentence_arguments(parser)
    group.add_argument("--explain", action="store_true", help="say why each document was found")
    OUTPUTS.add_to(parser)
    add_model_arguments(parser)
    parser.set_defaults(model=None)
    add_reading_arguments(parser)


def add_sentence_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a search by sentences."""
    group = parser.add_argument_group("ranking by sentences")
    group.add_argument("--pool", type=positive, metavar="N", help="rank the N documents that a hybrid search finds")
    group.add_argument("--candidates", metavar="RUN", help="rank the documents of a run in the format of TREC")
    add_scoring_arguments(group)


def run(options: argparse.Namespace) -> None:
    """Search, print and write."""
    if (options.query is None) == (options.document is None):
        raise SettingsError("give either a query or --document FILE")
    if options.by in BY_SENTENCES and options.document is None:
        raise SettingsError(f"--by {options.by} ranks by a document; give one with --document FILE")
    sources = [options.index, options.document, options.candidates]
    OUTPUTS.prepare(options, sources)
    reports = _reports(options)
    check_apart(sources, map(str, reports))
    query, unread = read_query(options)
    with searched(options, unread) as index:
        if unread is not None:
            query = document_of(index, options, unread)
        chosen, notes = _chosen(options, query)
        results = index.search(query, options.top, **chosen)
        results = replace(results, warnings=(*notes, *results.warnings))
        asked = "query" if isinstance(query, str) else query.id
        if options.run is not None:
            # Before anything is written.
            from ..evaluation.trec import require_ids

            require_ids([asked, *(hit.id for hit in results)])
        target = OUTPUTS.write(
            options,
            html=lambda path: _write_page(index, results, query, path),
            json=lambda path: write_json(path, results.to_dict(explain=True)),
            csv=lambda path: _write_table(results, path),
            run=lambda path: _write_run(results, asked, path),
        )
        if target is None:
            return
        _print(target, results, options)
    OUTPUTS.report(options, target)
    written(target, [folder for folder in {report.parent for report in reports} if folder.is_dir()])


def _reports(options: argparse.Namespace) -> list[Path]:
    """The comparison reports that may be written beside the page."""
    if options.html is None or options.document is None:
        return []
    with quick_imports():
        from ..retrieval.hit_report import comparison_name, comparisons_of
    return [comparisons_of(options.html) / comparison_name(rank) for rank in range(1, options.top + 1)]


def _chosen(options: argparse.Namespace, query: str | Document) -> tuple[dict[str, Any], list[str]]:
    """How to search, and what the reader should know; a search refuses what does not go with its way."""
    names = ("where", "words_unit", "fusion", "weight", "pool", "normalisation", "direction")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    chosen: dict[str, Any] = {"by": options.by, **given}
    if options.by not in BY_SENTENCES:
        chosen["passages"] = max(options.passages, 3) if OUTPUTS.paths(options) else options.passages
    elif options.passages < 0:
        raise SettingsError(f"passages={options.passages} must be a whole number of at least 0")
    notes: list[str] = []
    if options.candidates is not None:
        chosen["candidates"] = _candidates(options.candidates, query, options.document, notes)
    return chosen, notes


def _candidates(path: str, query: str | Document, source: str | None, notes: list[str]) -> list[str]:
    """Ids of the documents that a run has for the document that is asked with, or for its only query."""
    from ..evaluation.trec import ranked, read_run

    run = read_run(path)
    id = query if isinstance(query, str) else query.id
    for name in (id, source):
        if name in run:
            return ranked(run[name])
    if len(run) > 1:
        raise SettingsError(
            f"--candidates {path} has {len(run):,} queries and none is {id!r}; give the document the id of one, such "
            f"as {next(iter(run))!r}, or a run of one query"
        )
    ((only, scores),) = run.items()
    notes.append(f"candidates are those of {only!r}, the only query of {path}; {id!r} is not in it")
    return ranked(scores)


def _write_page(index: DocumentIndex, results: SearchResults, query: str | Document, path: str) -> None:
    from ..retrieval.hit_report import write_page_with_comparisons

    if isinstance(query, str):
        results.to_html(path)
    else:
        write_page_with_comparisons(index, results, query, path)


def _write_table(results: SearchResults, path: str) -> None:
    write_csv(path, results.columns, ([row[name] for name in results.columns] for row in results.rows()))


def _write_run(results: SearchResults, name: str, path: str) -> None:
    from ..evaluation.trec import write_run

    write_run(path, {name: {hit.id: hit.score for hit in results}})


def _print(target: Console, results: SearchResults, options: argparse.Namespace) -> None:
    # The score of a single ranking is that of the document.
    columns = ["words", results.by if results.by in BY_SENTENCES else "vectors"] if results.fusion else []
    rows = Table(["", names("document", 60), "score", *(f"{name} (rank)" for name in columns)])
    for hit in results:
        ranks = (f"{part.score:.2f} ({part.rank})" if (part := hit.parts.get(name)) else "-" for name in columns)
        rows.add(hit.rank, f"{hit.title} [{hit.id}]" if hit.title else hit.id, hit.score, *ranks)
    if rows.rows:
        rows.print(target)
    for hit in results:
        if options.passages and (hit.passages or hit.alignment):
            target.print(plain(f"\n{hit.rank}  {hit.title or hit.id}"), style="bold")
        for passage in hit.passages[: options.passages]:
            width = min(LINE_WIDTH, target.width)
            heading = f"   {one_line(passage.heading, width // 2)}: " if passage.heading else "   "
            # Characters of some scripts take two cells.
            cells = cell_len(passage.text) / max(1, len(passage.text))
            room = int((width - cell_len(heading) - 4) / max(1.0, cells))
            print_passage(target, heading + excerpt(passage.text, passage.matches, room))
        if hit.alignment is not None:
            _print_pairs(target, hit.alignment, options.passages)
        if options.explain:
            print_lines(target, [f"   {line}" for line in str(hit.explain()).splitlines()[1:]])
    print_lines(target, [f"note: {warning}" for warning in results.warnings])
    target.print()
    about = results.index
    sizes = [counted(about[f"{name}s"], name) for name in ("document", "passage") if about[f"{name}s"] is not None]
    print_lines(target, [f"{', '.join(sizes)}, model {about['model']['name']}"])


def _print_pairs(target: Console, alignment: HitAlignment, most: int) -> None:
    """The strongest pairs of a score, one below the other: of the document that was asked with, and of the hit."""
    from ..retrieval.results import FROM_THE_HIT

    parts = "documents" if alignment.whole else "paragraphs"
    for pair, one in alignment.best(most):
        sentences = "" if one is None else f"; their best sentences {one.cosine:.2f}"
        lines = []
        for side in ("source", "candidate"):
            heading = alignment.heading(side, getattr(pair, side))
            # A paragraph that was compared as a whole is known by its first sentence.
            sentence = alignment.first_sentence(side, getattr(pair, side)) if one is None else getattr(one, side)
            text = alignment.text(side, sentence)
            lines.append(": ".join(filter(None, (heading, text))))
        found = f", {FROM_THE_HIT}" if pair.direction == "candidate" else ""
        cosine = "cosine" if one is None else "mean cosine"
        print_lines(target, [f"   {parts} add {pair.contribution:.4f}, {cosine} {pair.score:.2f}{found}{sentences}"])
        for line in lines:
            print_passage(target, f"     {line}")
