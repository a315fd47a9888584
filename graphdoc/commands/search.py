"""graphdoc search: documents that answer a query or resemble a document."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from ..analysis.search_page.marks import excerpt
from ..errors import DocumentError, SettingsError
from ..runtime.csv import write_csv
from ..runtime.imports import quick_imports
from ..runtime.wording import counted
from .arguments import add_model_arguments, add_reading_arguments, add_scoring_arguments, load_encoder, positive
from .index import open_index
from .outputs import JSON, Outputs, check_apart, write_json, written
from .sources import encodable, is_missing, no_documents, read_many, read_one, skips_unencodable
from .summaries import LINE_WIDTH, MOST_LISTED, print_lines, print_passage, read_and_skipped
from .tables import Table, names, plain

if TYPE_CHECKING:
    from ..documents.document import Document
    from ..retrieval.alignments import HitAlignment
    from ..retrieval.index import DocumentIndex
    from ..retrieval.results import SearchResults
    from ..retrieval.sentence_folder import SentenceFolder
    from ..retrieval.update import OnError

logger = logging.getLogger(__name__)

_BY_PASSAGES = ("hybrid", "words", "vectors")
_BY_SENTENCES = ("sentences", "flat", "paragraphs", "document")
# Characters of a passage that are shown under however long a heading.
_LEAST_EXCERPT = 40

HELP = "search an index, a folder or a corpus by words or with a document"
DESCRIPTION = """Find documents that answer a query, or that resemble a document.

Words (BM25) and vectors each find passages; a document is ranked by its three best, and both rankings are joined. What
each ranking gave a document, and its best passages, stand beside it; --html writes a page that also says why.

With --document and --by sentences, flat, paragraphs or document, documents are ranked by their sentences, and each hit
shows which of its sentences are like which of the document: what pairs add makes up the score. All documents are
ranked, those that a first search finds (--pool), or those of a run (--candidates).

INDEX is what graphdoc index has written. A file, folder or corpus in its place is indexed for this one search. To rank
by sentences it can also be a folder that graphdoc encode --level sentence has written."""
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
        choices=(*_BY_PASSAGES, *_BY_SENTENCES),
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
        help="weight of words with --fusion weighted, 0 to 1 (default: 0.5)",
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
    group.add_argument(
        "--words", type=float, metavar="W", help="weight of word search in the score, 0 to 1 (default: 0, without it)"
    )
    group.add_argument("--pool", type=positive, metavar="N", help="rank the N documents that a hybrid search finds")
    group.add_argument("--candidates", metavar="RUN", help="rank the documents of a run in the format of TREC")
    add_scoring_arguments(group)


def run(options: argparse.Namespace) -> None:
    """Search, print and write."""
    if (options.query is None) == (options.document is None):
        raise SettingsError("give either a query or --document FILE")
    if options.by in _BY_SENTENCES and options.document is None:
        raise SettingsError(f"--by {options.by} ranks by a document; give one with --document FILE")
    sources = [options.index, options.document, options.candidates]
    OUTPUTS.prepare(options, sources)
    reports = _reports(options)
    check_apart(sources, map(str, reports))
    query = _query(options)
    with _searched(options) as index:
        if query is None:
            query = _document_of(index, options)
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


def _query(options: argparse.Namespace) -> Any:
    """What is asked with, words or a document; None where it can only be the id of a document of what is searched.

    Raises:
        DocumentError: a file cannot be read, or holds something else than one document.
    """
    if options.document is None:
        return str(options.query)
    return None if is_missing(options.document) else read_one(options.document, options)


def _document_of(index: DocumentIndex | SentenceFolder, options: argparse.Namespace) -> Document:
    """The document of an index that has the id that is given.

    Raises:
        DocumentError: there is none.
    """
    from ..retrieval.index import DocumentIndex

    if not isinstance(index, DocumentIndex) or options.document not in index:
        raise _no_such_document(options)
    return index.document(options.document)


def _no_such_document(options: argparse.Namespace) -> DocumentError:
    return DocumentError(
        f"--document {options.document} is no file, and no document of {options.index} has that id; name a file, or "
        "an id as a search shows it in brackets"
    )


def _reports(options: argparse.Namespace) -> list[Path]:
    """The comparison reports that may be written beside the page."""
    if options.html is None or options.document is None:
        return []
    with quick_imports():
        from ..retrieval.page import comparison_name, comparisons_of
    return [comparisons_of(options.html) / comparison_name(rank) for rank in range(1, options.top + 1)]


def _chosen(options: argparse.Namespace, query: str | Document) -> tuple[dict[str, Any], list[str]]:
    """How to search, and what the reader should know; a search refuses what does not go with its way."""
    names = ("where", "words_unit", "fusion", "weight", "words", "pool", "normalisation", "direction")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    chosen: dict[str, Any] = {"by": options.by, **given}
    if options.by not in _BY_SENTENCES:
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


@contextmanager
def _searched(options: argparse.Namespace) -> Iterator[DocumentIndex | SentenceFolder]:
    """What the arguments name to search: an index, documents, or a folder of sentence vectors."""
    from ..retrieval.places import place_of

    with quick_imports():
        from ..retrieval.sentence_folder import SentenceFolder
    if place_of(options.index).folder is None or not SentenceFolder.is_one(options.index):
        with searched_index(options) as index:
            yield index
        return
    if options.by not in _BY_SENTENCES:
        raise SettingsError(
            f"{options.index} is a folder of vectors, which --document FILE --by sentences searches; to search by "
            f"{options.by}, give an index or the documents"
        )
    from ..vectors.store import Manifest

    Manifest.read(options.index)
    options.model = options.model or "mini"
    yield SentenceFolder(options.index, load_encoder(options))


@contextmanager
def searched_index(options: argparse.Namespace) -> Iterator[DocumentIndex]:
    """The index that the arguments name, or one in memory of the documents that are named in its place."""
    from ..documents.readers import ReadingReport

    with quick_imports():
        from ..retrieval.index import DocumentIndex
    from ..retrieval.places import DEFAULT_ENGINE, place_of, store_in

    place = place_of(options.index)
    if place.folder is None or place.engine != DEFAULT_ENGINE or store_in(place.folder) is not None:
        yield open_index(options, options.index)
        return
    report = ReadingReport()
    documents = list(read_many([options.index], options, report))
    asked = getattr(options, "document", None)
    if asked is not None and is_missing(asked) and asked not in {document.id for document in documents}:
        # Before anything is encoded.
        raise _no_such_document(options)
    options.model = options.model or "mini"
    encoder = load_encoder(options) if documents else None
    if encoder is not None and skips_unencodable(options, [options.index]):
        documents = list(encodable(documents, encoder, report))
    if encoder is None or not documents:
        raise no_documents([options.index], report)
    index = DocumentIndex.create("memory://", encoder, sentences=_needs_sentences(options))
    on_error: OnError = "skip" if skips_unencodable(options, [options.index]) else "stop"
    # Such as one whose metadata have another type than those of the first.
    report.leave_out(index.update(documents, maintain=True, on_error=on_error).skipped)
    for skipped in report.skipped[:MOST_LISTED]:
        logger.warning("skipped %s: %s", skipped.source, skipped.reason)
    if report.skipped:
        logger.warning("%s", read_and_skipped(report))
    index.place = options.index
    yield index


def _needs_sentences(options: argparse.Namespace) -> bool:
    """Whether the sentences of all documents are needed; those of a few are encoded when it is known which."""
    if getattr(options, "by", None) not in _BY_SENTENCES:
        return False
    return options.normalisation == "zscore" or (options.pool is None and options.candidates is None)


def _write_page(
    index: DocumentIndex | SentenceFolder, results: SearchResults, query: str | Document, path: str
) -> None:
    from ..retrieval.index import DocumentIndex
    from ..retrieval.page import write_page_with_comparisons

    if isinstance(query, str) or not isinstance(index, DocumentIndex):
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
    columns = ["words", results.by if results.by in _BY_SENTENCES else "vectors"] if results.fusion else []
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
            heading = f"   {passage.heading}: " if passage.heading else "   "
            room = max(_LEAST_EXCERPT, min(LINE_WIDTH, target.width) - len(heading) - 4)
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
    """Pairs that add most to a score, one below the other: of the document that was asked with, and of the hit."""
    parts = "documents" if alignment.whole else "paragraphs"
    for pair, one in alignment.best(most):
        sentences = "" if one is None else f"; their best sentences {one.cosine:.2f}"
        lines = []
        for side in ("source", "candidate"):
            heading = alignment.heading(side, getattr(pair, side))
            # A paragraph that was compared as a whole is known by its first sentence.
            sentence = alignment.first_sentence(side, getattr(pair, side)) if one is None else getattr(one, side)
            text = alignment.text(side, sentence)
            number = f"paragraph {getattr(pair, side) + 1}" if one is None else f"sentence {sentence + 1}"
            lines.append(": ".join(filter(None, (heading, number if text is None else text))))
        print_lines(target, [f"   {parts} add {pair.contribution:.4f}, cosine {pair.score:.2f}{sentences}"])
        for line in lines:
            print_passage(target, f"     {line}")
