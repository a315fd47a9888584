"""graphdoc compare: two documents, one within itself, or several with each other, at every level."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import TYPE_CHECKING, Literal

from rich.console import Console

from ..errors import DocumentError, SettingsError
from ..registry import SUBTOPICS
from ..runtime.text import counted
from .arguments import add_model_arguments, add_reading_arguments, load_encoder, positive
from .compare_many import compare_many, holds_many
from .languages import noting_languages
from .outputs import Outputs, write_json
from .repeated import add_repeats_argument
from .sources import read_one
from .summaries import coverage_line, headings_above, indented, list_left_out, print_lines, print_passage
from .tables import MOST_ROWS, Column, Table, more_rows, names, plain, signed

if TYPE_CHECKING:
    from ..documents.document import Document
    from ..encoder import DocumentEncoder
    from ..segmentation.repeats import Repeats
    from ..similarity import Comparison, EncodedDocument
    from ..subtopics.table import SubtopicTable

MOST_WORDS, SHOWN_SUBTOPICS = 5, 30
HELP = "compare two or more documents, or the parts of one, at document, section and passage level"
DESCRIPTION = """Compare two documents, or the parts of one, and show where their similarity comes from.

Prints the similarity of the documents, the best counterpart of every section, and the strongest pairs of passages.
A contribution is a section's share of the document score, over all of B; contributions add up to it.
With --subtopics sentences of both documents are put into groups of one subject: what both speak of, and what only one.
A folder, a corpus, or three documents and more are compared each with each: the closest pairs, and all scores as a
table (--csv), a picture (--plot), JSON and a page (--html) that leads to reports on the closest pairs (--reports).
Of three and more, passages that several of them share, such as licences, are left out; of two documents nothing is. So
the score of a pair among many can differ from that of the two alone; --repeats keep leaves nothing out, and
--repeats-of leaves out of two documents what a whole collection does."""
EPILOG = """examples:
  graphdoc compare a.md b.md                            a summary on the terminal
  graphdoc compare a.md b.md --html report.html         a report to read, click through and pass on
  graphdoc compare a.md                                 the parts of one document with each other
  graphdoc compare a.md b.md c.md --figure levels.png   documents, sections and passages of all three in one picture
  graphdoc compare papers/ --html all.html --reports 20  scores of all in a folder, with reports on the closest pairs
  graphdoc compare papers.jsonl.gz#P01 papers.jsonl.gz#P02 --json result.json
  graphdoc compare a.md b.md --sentences --csv pairs.csv --level sentence
  graphdoc compare a.md b.md --subtopics --html report.html
"""

OUTPUTS = Outputs(
    html=("report.html", "write the report, one file that needs no network"),
    json=("comparison.json", "write everything as JSON (- for standard output)"),
    csv=("passages.csv", "write every pair of a level as a table"),
    plot=("sections.png", "draw the similarity matrix of a level (.png, .svg, .pdf)"),
    figure=(None, "draw up to 5 documents, their sections and passages, within and across, and what is closest"),
    maps=(None, "draw how alike sentences are before and after a model put them into subtopics"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("a", metavar="A", help="first document: a file, - or corpus.jsonl#ID; or a folder of several")
    parser.add_argument("b", metavar="B", nargs="?", help="second document; without it A is compared within itself")
    parser.add_argument("more", metavar="C", nargs="*", default=[], help="more documents, each compared with each")
    parser.add_argument(
        "--sentences", action="store_true", help="also compare sentence by sentence, and paragraphs by their sentences"
    )
    group = parser.add_argument_group("subtopics")
    group.add_argument(
        "--subtopics",
        nargs="?",
        const="vectors",
        choices=tuple(SUBTOPICS),
        help="also say which subtopics both documents have, and which only one: sentences are alike by the words they "
        "share, by their vectors, or as a model has learned (adaptive); behind both documents and without a name: "
        "by vectors",
    )
    group.add_argument(
        "--subtopic-model",
        metavar="FOLDER",
        help="the model that has learned it, for --subtopics adaptive; graphdoc finetune subtopics trains one",
    )
    group.add_argument(
        "--cluster-size", type=positive, metavar="N", help="sentences of a subtopic, about (default: 6)"
    )
    group.add_argument(
        "--receptive-field",
        type=positive,
        metavar="N",
        help="sentences of a document that are looked at, its first ones (default: all)",
    )
    parser.add_argument(
        "--top",
        type=positive,
        default=5,
        metavar="N",
        help="pairs of passages, and of paragraphs and sentences, to print (default: 5)",
    )
    output = OUTPUTS.add_to(parser)
    output.add_argument(
        "--reports", type=positive, metavar="N", help="of more than two: reports on the N closest pairs, beside --html"
    )
    output.add_argument(
        "--level",
        choices=("section", "passage", "paragraph", "sentence"),
        help="level of --csv (default: passage) and of --plot (default: section)",
    )
    add_model_arguments(parser)
    reading = add_reading_arguments(parser, labels=False)
    add_repeats_argument(reading)
    reading.add_argument(
        "--repeats-of",
        metavar="FOLDER",
        help="of two: leave out what a folder of vectors leaves out as repeated in its documents",
    )


def run(options: argparse.Namespace) -> None:
    """Compare, print and write."""
    sources = [source for source in (options.a, options.b, *options.more) if source is not None]
    if len(sources) > 2 or any(holds_many(source, options) for source in sources):
        compare_many(sources, options)
        return
    if options.reports is not None:
        raise SettingsError(f"--reports {options.reports} is for more documents; --html writes the report of two")
    for name in ("cluster_size", "receptive_field", "subtopic_model"):
        if getattr(options, name) is not None and options.subtopics is None:
            shown = name.replace("_", "-")
            raise SettingsError(f"--{shown} has no effect without --subtopics; give it too, or leave --{shown} out")
    if options.maps is not None and (options.subtopic_model is None or options.b is None):
        raise SettingsError("--maps shows the subtopics of two documents by a model; name both, and --subtopic-model")
    OUTPUTS.prepare(options, sources)
    if options.figure is not None and len(sources) < 2:
        raise SettingsError("--figure shows 2 documents and more, not 1; name another, or use --plot")
    if sources.count("-") > 1:
        raise DocumentError("standard input can be read only once; name a file for the other document")
    from ..documents.readers import ReadingReport

    left_out = None if options.repeats_of is None else _left_out(options.repeats_of)
    report = ReadingReport()
    documents = [read_one(source, options, report) for source in sources]
    encoder = load_encoder(options).leaving_out(left_out)
    with noting_languages(encoder) as noted:
        target = _compare_two(encoder, list(noted(documents)), options)
    if target is not None:
        list_left_out(target, report)
        OUTPUTS.report(options, target)


def _left_out(folder: str) -> Repeats:
    """What a folder of vectors left out as repeated."""
    from ..vectors.folder import Manifest, read_repeats

    if not folder:
        raise SettingsError("--repeats-of '' is no folder; name the folder of vectors")
    found = read_repeats(folder)
    if found is not None:
        return found
    if Manifest.read(folder).model.get("repeats"):
        raise SettingsError(f"--repeats-of {folder}: the file of what repeats is missing; run its encoding again")
    raise SettingsError(f"--repeats-of {folder} has no effect, since nothing was left out there; leave it out")


def _compare_two(encoder: DocumentEncoder, documents: list[Document], options: argparse.Namespace) -> Console | None:
    from ..analysis.comparisons import DrawnMutualComparison

    sentences = options.sentences or options.level in ("paragraph", "sentence")
    names_given = ("cluster_size", "receptive_field", "subtopic_model")
    given = {name: getattr(options, name) for name in names_given if getattr(options, name) is not None}
    comparison = encoder.compare(*documents, sentences=sentences, subtopics=options.subtopics, **given)
    both = (comparison.a, comparison.b)
    target = OUTPUTS.write(
        options,
        html=comparison.to_html,
        json=lambda path: write_json(path, comparison.to_dict()),
        csv=lambda path: comparison.to_csv(path, options.level or "passage"),
        plot=lambda path: comparison.plot(path, options.level or "section"),
        figure=lambda path: DrawnMutualComparison(both, comparison.model, comparison.similarity).plot(path),
        maps=lambda path: _draw_maps(documents, options, path),
    )
    if target is None:
        return None
    sides = dict(zip("AB", both, strict=True))
    lines = [f"{side}  {_name(encoded)}" for side, encoded in sides.items()]
    print_lines(target, [lines[0], "B  the same document"] if comparison.within else lines)
    what = f"document similarity [bold]{comparison.document:.3f}[/bold]"
    if comparison.within:
        what = "parts of one document with each other"
    target.print(f"\n{what} ({comparison.similarity}, model {plain(str(comparison.model['name'])).markup})\n")
    if comparison.lexical is not None:
        words = ", ".join(f"{word.word} {signed(word.contribution)}" for word in comparison.shared_words(MOST_WORDS))
        due = f"{signed(comparison.lexical)} of it is due to words{words and ': '}{words}"
        target.print(plain(due, target.width))
        target.print()
    _print_sections(target, comparison)
    _print_matches(target, comparison, "passage", options.top)
    if sentences:
        _print_matches(target, comparison, "paragraph", options.top)
        _print_matches(target, comparison, "sentence", options.top)
    if comparison.subtopics is not None:
        _print_subtopics(target, comparison.subtopics)
    target.print()
    for side in "A" if comparison.within else "AB":
        target.print(coverage_line(side, sides[side].segmented.coverage))
    return target


def _draw_maps(documents: list[Document], options: argparse.Namespace, path: str) -> None:
    from ..analysis.figures.subtopics import plot_adaptive_subtopics
    from ..inference.learned_subtopics import AdaptiveSubtopics

    finder = AdaptiveSubtopics.make("", options.subtopic_model)
    first, second = documents
    plot_adaptive_subtopics(
        finder, first, second, path, cluster_size=options.cluster_size, receptive_field=options.receptive_field
    )


def _print_sections(target: Console, comparison: Comparison) -> None:
    scores, contributions = comparison.sections, comparison.section_contributions
    contribution = Column("contribution", signed)
    rows = Table([names("section of A", 44), names("best match in B", 44), "score", contribution])
    for row in range(min(MOST_ROWS, scores.shape[0])):
        others = [column for column in range(scores.shape[1]) if not (comparison.within and column == row)]
        if not others:
            continue
        best = max(others, key=lambda column: scores[row, column])
        for heading in headings_above(comparison.a.segmented.document, comparison.a.section_numbers, row):
            rows.add(heading, "", "", "")
        sections = _heading(comparison.a, row), _heading(comparison.b, best)
        rows.add(*sections, float(scores[row, best]), float(contributions[row].sum()))
    if not rows.rows:
        target.print("one section only: there is nothing to compare it with")
        return
    is_all = not (comparison.within and scores.shape[0] == 1)
    rows.add("", "all sections", "", float(contributions.sum()) if is_all else "")
    rows.print(target)
    more_rows(target, scores.shape[0], "section")


def _print_matches(
    target: Console, comparison: Comparison, level: Literal["passage", "paragraph", "sentence"], top: int
) -> None:
    matches = comparison.matches(level, top)
    if matches:
        target.print(f"\n[bold]strongest {level}s[/bold]")
    for match in matches:
        target.print(f"{match.score:.3f}")
        for side, encoded, row in (("A", comparison.a, match.a), ("B", comparison.b, match.b)):
            segmented = encoded.segmented
            span = encoded.spans(level)[row]
            line = f"  {side}  {segmented.document.section_name(span.section)}: {segmented.text(span)}"
            print_passage(target, line)


def _print_subtopics(target: Console, subtopics: SubtopicTable) -> None:
    counts = Counter(row.holder for row in subtopics.rows)
    target.print(f"\n[bold]subtopics[/bold] ({subtopics.by})")
    if not subtopics.within:
        apart = f"{counts['a']:,} only A has, {counts['b']:,} only B"
        target.print(f"{counted(counts['both'], 'subtopic')} of both documents, {apart}\n")
    holders = {"both": "A and B", "a": "A", "b": "B"}
    columns: list[Column | str] = [names("leading words", 60), names("in"), "A", "B", "similarity"]
    if subtopics.within:
        columns = [names("leading words", 70), "sentences", "similarity"]
    rows = Table(columns)
    for row in subtopics.rows[:SHOWN_SUBTOPICS]:
        similarity = "" if row.similarity is None else row.similarity
        words = ", ".join(row.words) or "(no words)"
        if subtopics.within:
            rows.add(words, len(row.a), similarity)
        else:
            rows.add(words, holders[row.holder], len(row.a), len(row.b), similarity)
    rows.print(target)
    if len(subtopics.rows) > SHOWN_SUBTOPICS:
        more = counted(len(subtopics.rows) - SHOWN_SUBTOPICS, "more subtopic")
        print_lines(target, [f"... and {more}; --json FILE and --html FILE have all"])
    for side, beyond in zip("AB", subtopics.beyond, strict=True):
        if beyond:
            line = f"{side}: {counted(beyond, 'sentence')} beyond --receptive-field are in no subtopic"
            print_lines(target, [line])


def _heading(encoded: EncodedDocument, row: int) -> str:
    return indented(encoded.segmented.document, encoded.section_numbers[row])


def _name(encoded: EncodedDocument) -> str:
    document = encoded.segmented.document
    return f"{document.title} [{document.id}]" if document.title else document.id
