"""graphdoc compare: two documents, one within itself, or several with each other, at every level."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..errors import DocumentError, SettingsError
from .arguments import (
    add_model_arguments,
    add_reading_arguments,
    check_apart,
    check_image,
    check_outputs,
    fill_outputs,
    load_encoder,
    positive,
    read_one,
    write_json,
)
from .mutual_summary import summarise_all
from .summaries import MOST_ROWS, console, coverage_line, headings_above, indented, more_rows, plain, table, written

if TYPE_CHECKING:
    from rich.console import Console

    from ..documents.document import Document
    from ..encoder import DocumentEncoder
    from ..similarity import Comparison, EncodedDocument
    from ..similarity.comparison import Level

MOST_DOCUMENTS = 5  # of a figure
NAME = "compare"
HELP = "compare two or more documents, or the parts of one, at document, section and passage level"
DESCRIPTION = """Compare two documents, or the parts of one, and show where their similarity comes from.

Prints the similarity of the documents, the best counterpart of every section, and the strongest pairs of passages.
A contribution is a section's share of the document score, over all of B; contributions add up to it.
Three documents or more are compared each with each: a table of scores, and with --figure one picture of all levels."""
EPILOG = """examples:
  graphdoc compare a.md b.md                            a summary on the terminal
  graphdoc compare a.md b.md --html report.html         a report to read, click through and pass on
  graphdoc compare a.md                                 the parts of one document with each other
  graphdoc compare a.md b.md c.md --figure levels.png   documents, sections and passages of all three in one picture
  graphdoc compare papers.jsonl.gz#P01 papers.jsonl.gz#P02 --json result.json
  graphdoc compare a.md b.md --sentences --csv pairs.csv --level sentence
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("a", metavar="A", help="first document: a file, - or corpus.jsonl#ID")
    parser.add_argument("b", metavar="B", nargs="?", help="second document; without it A is compared within itself")
    parser.add_argument("more", metavar="C", nargs="*", default=[], help="more documents, each compared with each")
    parser.add_argument("--sentences", action="store_true", help="also compare sentence by sentence")
    parser.add_argument(
        "--top",
        type=positive,
        default=5,
        metavar="N",
        help="pairs of passages, and of sentences, to print (default: 5)",
    )
    output = parser.add_argument_group("output")
    output.add_argument("--html", metavar="FILE", help="write the report, one file that needs no network")
    output.add_argument("--json", metavar="FILE", help="write everything as JSON (- for standard output)")
    output.add_argument("--csv", metavar="FILE", help="write every pair of a level as a table")
    output.add_argument("--plot", metavar="FILE", help="draw the similarity matrix of a level (.png, .svg, .pdf)")
    output.add_argument(
        "--figure",
        metavar="FILE",
        help="draw 2 to 5 documents, their sections and passages, within and across, and what is closest",
    )
    output.add_argument(
        "--output",
        metavar="FOLDER",
        help="write report.html, comparison.json, passages.csv and sections.png there; of three documents or more "
        "levels.png",
    )
    output.add_argument(
        "--level",
        choices=("section", "passage", "sentence"),
        help="level of --csv (default: passage) and of --plot (default: section)",
    )
    add_model_arguments(parser)
    add_reading_arguments(parser, on_error=False)


def run(options: argparse.Namespace) -> None:
    """Compare, print and write."""
    sources = [source for source in (options.a, options.b, *options.more) if source is not None]
    several = len(sources) > 2
    outputs = {"html": "report.html", "json": "comparison.json", "csv": "passages.csv", "plot": "sections.png"}
    if several:
        for name in ("html", "json", "csv", "plot", "level", "sentences"):
            if getattr(options, name):
                raise SettingsError(f"--{name} is for two documents, not {len(sources)}; use --figure, or name two")
        outputs = {"figure": "levels.png"}
    fill_outputs(options, *sources, **outputs)
    if not several:
        check_outputs(options, *outputs, "figure")
        check_apart(sources, options.figure)
    check_image(options.plot)
    check_image(options.figure)
    if options.figure is not None and not 2 <= len(sources) <= MOST_DOCUMENTS:
        fix = "leave some out" if several else "name another, or use --plot"
        raise SettingsError(f"--figure shows 2 to {MOST_DOCUMENTS} documents, not {len(sources)}; {fix}")
    if sources.count("-") > 1:
        raise DocumentError("standard input can be read only once; name a file for the other document")
    from ..analysis.comparisons import DrawnMutualComparison

    documents = [read_one(source, options) for source in sources]
    encoder = load_encoder(options)
    if several:
        _compare_all(encoder, documents, options)
        return
    a, b = documents[0], documents[1] if documents[1:] else None
    sentences = options.sentences or options.level == "sentence"
    comparison = encoder.compare(a, b, sentences=sentences)
    if options.json:
        write_json(options.json, comparison.to_dict())
    if options.html:
        comparison.to_html(options.html)
    if options.csv:
        comparison.to_csv(options.csv, options.level or "passage")
    if options.plot:
        comparison.plot(options.plot, options.level or "section")
    if options.figure:
        pair = (comparison.a, comparison.b)
        DrawnMutualComparison(pair, comparison.model, comparison.similarity).plot(options.figure)
    if options.json != "-":
        target = console()
        _summarise(target, comparison, options.top)
        written(target, (options.html, options.json, options.csv, options.plot, options.figure))


def _compare_all(encoder: DocumentEncoder, documents: list[Document], options: argparse.Namespace) -> None:
    comparison = encoder.compare_all(documents)
    if options.figure:
        comparison.plot(options.figure)
    target = console()
    summarise_all(target, comparison)
    written(target, [options.figure])


def _summarise(target: Console, comparison: Comparison, top: int) -> None:
    a, b = comparison.a, comparison.b
    target.print(plain(f"A  {_name(a)}"))
    target.print(plain("B  the same document" if comparison.within else f"B  {_name(b)}"))
    what = f"document similarity [bold]{comparison.document:.3f}[/bold]"
    if comparison.within:
        what = "parts of one document with each other"
    target.print(f"\n{what} ({comparison.similarity}, model {plain(str(comparison.model['name'])).markup})\n")
    _print_sections(target, comparison)
    _print_matches(target, comparison, "passage", top)
    if comparison.sentences is not None:
        _print_matches(target, comparison, "sentence", top)
    target.print()
    target.print(coverage_line("A", a.segmented.coverage))
    if not comparison.within:
        target.print(coverage_line("B", b.segmented.coverage))


def _print_sections(target: Console, comparison: Comparison) -> None:
    scores, contributions = comparison.sections, comparison.section_contributions
    rows = table(("section of A", "left"), ("best match in B", "left"), ("score", "right"), ("contribution", "right"))
    for row in range(min(MOST_ROWS, scores.shape[0])):
        others = [column for column in range(scores.shape[1]) if not (comparison.within and column == row)]
        if not others:
            continue
        best = max(others, key=lambda column: scores[row, column])
        for heading in headings_above(comparison.a.segmented.document, comparison.a.section_numbers, row):
            rows.add_row(plain(heading, 44))
        rows.add_row(
            plain(_heading(comparison.a, row), 44),
            plain(_heading(comparison.b, best), 44),
            f"{scores[row, best]:.3f}",
            f"{contributions[row].sum():+.3f}",
        )
    if not rows.row_count:
        target.print("one section only: there is nothing to compare it with")
        return
    total = "" if comparison.within and scores.shape[0] == 1 else f"{contributions.sum():+.3f}"
    rows.add_row("", plain("all sections"), "", total, style="dim")
    target.print(rows)
    more_rows(target, MOST_ROWS, scores.shape[0], "section")


def _print_matches(target: Console, comparison: Comparison, level: Level, top: int) -> None:
    matches = comparison.matches(level, top)
    if matches:
        target.print(f"\n[bold]strongest {level}s[/bold]")
    for match in matches:
        target.print(f"{match.score:.3f}")
        for side, encoded, row in (("A", comparison.a, match.a), ("B", comparison.b, match.b)):
            segmented = encoded.segmented
            span = segmented.passages[row] if level == "passage" else (encoded.sentences or ())[row]
            line = f"  {side}  {segmented.document.section_name(span.section)}: {segmented.text(span)}"
            target.print(plain(line, 118), no_wrap=True, overflow="ellipsis")


def _heading(encoded: EncodedDocument, row: int) -> str:
    return indented(encoded.segmented.document, encoded.section_numbers[row])


def _name(encoded: EncodedDocument) -> str:
    document = encoded.segmented.document
    return f"{document.title} [{document.id}]" if document.title else document.id
