"""graphdoc compare: two documents, one within itself, or several with each other, at every level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from rich.console import Console

from ..documents.parsing.formats import is_corpus, split_suffix
from ..documents.readers import ReadingReport
from ..documents.readers.folders import is_folder_or_pattern
from ..errors import DocumentError, SettingsError
from ..runtime.text import counted, percent_closer
from .options import COUNT, OUTPUT, Csv, EncodingModel, File, Json, Overwrite
from .output import (
    MOST_ROWS,
    Column,
    Outputs,
    Reports,
    Table,
    coverage_line,
    headings_above,
    indented,
    list_left_out,
    more_rows,
    names,
    plain,
    print_lines,
    print_passage,
    signed,
    write_json,
    written,
)
from .sources import KEEP, LEAVE_OUT, Reading, noting_languages, without_repeats

if TYPE_CHECKING:
    from ..segmentation.repeats import Repeats
    from ..similarity import Comparison, EncodedDocument, MutualComparison
    from ..subtopics.table import SubtopicTable

MOST_WORDS, SHOWN_SUBTOPICS = 5, 30
# Documents that one picture of all levels holds, and what of many is printed.
MOST_DRAWN, SHOWN_PAIRS, SHOWN_DOCUMENTS = 5, 20, 20


def compare(
    *sources: str,
    subtopics: str | None = None,
    repeats: str = LEAVE_OUT,
    top: Annotated[int, COUNT] = 5,
    html: File = None,
    json: Json = None,
    csv: Csv = None,
    plot: File = None,
    level: Annotated[Literal["section", "passage", "paragraph", "sentence", "all"] | None, OUTPUT] = None,
    reports: Annotated[int | None, OUTPUT, COUNT] = None,
    overwrite: Overwrite = False,
    model: EncodingModel = EncodingModel(),
    reading: Reading = Reading(),
) -> None:
    """Compare documents, or the parts of one, and show where their similarity comes from.

    Prints the similarity of two documents, the best counterpart of every section, and the strongest pairs of passages.
    A contribution is a section's share of the document score, over all of B; contributions add up to it.
    A folder, a corpus, or three documents and more are compared each with each: the closest pairs, and all scores as a
    table (--csv), a picture (--plot), JSON and a page (--html) that leads to reports on the closest pairs (--reports).
    Of three and more, passages that several of them share, such as licences, are left out; of two nothing is, unless
    --repeats names a folder of vectors, which leaves out of them what it does.

    Usage examples:
      graphdoc compare a.md b.md                             a summary on the terminal
      graphdoc compare a.md b.md --html report.html          a report to read, click through and pass on
      graphdoc compare a.md                                  the parts of one document with each other
      graphdoc compare a.md b.md c.md --plot levels.png --level all
      graphdoc compare papers/ --html all.html --reports 20  all in a folder, with reports on the closest pairs
      graphdoc compare papers.jsonl.gz#P01 papers.jsonl.gz#P02 --json result.json
      graphdoc compare a.md b.md --subtopics vectors --html report.html

    Args:
        sources: documents (a file, - or corpus.jsonl#ID), or folders and corpora of many
        subtopics: of two: group sentences into shared and unique subtopics: by words, by vectors, or as a model has
            learned, a folder or hub id (graphdoc finetune subtopics trains one)
        repeats: leave-out or keep passages that several of many documents share; or a folder of vectors
        top: pairs of passages, paragraphs and sentences to print
        html: write the report, one file that needs no network
        csv: write every pair of a level, or all scores of many documents, as a table
        plot: draw the similarity matrix of a level (.png, .svg, .pdf)
        level: level of --csv (default: passage) and of --plot (default: section); paragraph and sentence also compare
            sentence by sentence; all draws up to 5 documents, their sections and passages in one picture
        reports: of many: write reports on so many closest pairs, in a folder beside --html
        overwrite: replace files in that folder that graphdoc did not write
    """
    outputs = Outputs(sources, html=html, json=json, csv=csv, plot=plot)
    if len(sources) > 2 or any(_holds_many(source, reading) for source in sources):
        if subtopics or level not in (None, "all"):
            raise SettingsError("--subtopics and --level are for two documents, and there are more")
        if reports is not None and html is None:
            raise SettingsError(f"--reports {reports} needs --html, the page that leads to them")
        folder = None if reports is None or html is None else Reports(html, reports, overwrite=overwrite)
        _compare_many(outputs, sources, repeats, reports or 0, folder, model, reading, all_levels=level == "all")
        return
    report = ReadingReport()
    left_out = None if repeats in (KEEP, LEAVE_OUT) else _left_out(repeats)
    documents = [reading.one(source, report) for source in sources]
    if not documents:
        raise DocumentError("no document is named; name one or two files, or a folder")
    encoder = model.load().leaving_out(left_out)
    by_model = subtopics not in (None, "words", "vectors")
    options: dict[str, Any] = {"subtopics": "adaptive" if by_model else subtopics}
    options |= {"subtopic_model": subtopics} if by_model else {}
    sentences = level in ("paragraph", "sentence")
    with noting_languages(encoder) as noted:
        a, *others = noted(documents)
        comparison = encoder.compare(a, *others, sentences=sentences, **options)
        target = outputs.write(
            html=comparison.to_html,
            json=lambda path: write_json(path, comparison.to_dict()),
            csv=lambda path: comparison.to_csv(path, "passage" if level is None or level == "all" else level),
            plot=lambda path: (
                _plot_levels((comparison.a, comparison.b), comparison, path)
                if level == "all"
                else comparison.plot(path, level or "section")
            ),
        )
    if target is None:
        return
    _print_two(target, comparison, top, sentences=sentences)
    list_left_out(target, report)
    outputs.report(target)


def _left_out(folder: str) -> Repeats | None:
    """What a folder of vectors left out as repeated."""
    from ..vectors.folder import Manifest, read_repeats

    manifest = Manifest.read(folder)
    repeats = read_repeats(folder)
    if repeats is None and manifest.model.get("repeats"):
        raise SettingsError(f"--repeats {folder}: the file of what repeats is missing; run its encoding again")
    return repeats


def _plot_levels(documents: Sequence[EncodedDocument], comparison: Comparison | MutualComparison, path: str) -> None:
    """Draw documents, their sections and passages in one picture."""
    from ..similarity.mutual_comparison import MutualComparison

    MutualComparison(documents, comparison.model, comparison.similarity).plot(path)


def _print_two(target: Console, comparison: Comparison, top: int, *, sentences: bool) -> None:
    sides = {"A": comparison.a, "B": comparison.b}
    lines = [f"{side}  {_name(encoded)}" for side, encoded in sides.items()]
    print_lines(target, [lines[0], "B  the same document"] if comparison.within else lines)
    what = f"document similarity [bold]{comparison.document:.3f}[/bold]"
    if comparison.within:
        what = "parts of one document with each other"
    share = "" if comparison.share is None else f", closer than {percent_closer(comparison.share)} of unrelated pairs"
    if comparison.background is None and not comparison.within:
        share = "; compare it with other scores of this model alone"
    target.print(f"\n{what} ({comparison.similarity}, model {plain(str(comparison.model['name'])).markup}){share}\n")
    if comparison.lexical is not None:
        words = ", ".join(f"{word.word} {signed(word.contribution)}" for word in comparison.shared_words(MOST_WORDS))
        due = f"{signed(comparison.lexical)} of it is due to words{words and ': '}{words}"
        target.print(plain(due, target.width))
        target.print()
    _print_sections(target, comparison)
    for part in ("passage", "paragraph", "sentence") if sentences else ("passage",):
        _print_matches(target, comparison, part, top)
    if comparison.subtopics is not None:
        _print_subtopics(target, comparison.subtopics)
    target.print()
    for side in "A" if comparison.within else "AB":
        target.print(coverage_line(side, sides[side].segmented.coverage))


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


def _print_matches(target: Console, comparison: Comparison, level: Any, top: int) -> None:
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
            line = f"{side}: {counted(beyond, 'sentence')} beyond the receptive field are in no subtopic"
            print_lines(target, [line])


def _heading(encoded: EncodedDocument, row: int) -> str:
    return indented(encoded.segmented.document, encoded.section_numbers[row])


def _name(encoded: EncodedDocument) -> str:
    document = encoded.segmented.document
    return f"{document.title} [{document.id}]" if document.title else document.id


def _holds_many(source: str, reading: Reading) -> bool:
    """Whether a source holds more than one document that can be read, as folders, patterns and corpora do."""
    path = Path(source)
    try:
        may_hold = is_folder_or_pattern(source) or (path.is_file() and is_corpus(split_suffix(path)[1]))
    except (OSError, ValueError):
        return False
    lenient = Reading(column=reading.column, encoding=reading.encoding, on_error="skip")
    return may_hold and len(list(islice(lenient.many([source]), 2))) > 1


def _compare_many(
    outputs: Outputs,
    sources: tuple[str, ...],
    repeats: str,
    most: int,
    folder: Reports | None,
    model: EncodingModel,
    reading: Reading,
    *,
    all_levels: bool,
) -> None:
    from ..runtime.progress import progress_bar

    report = ReadingReport()
    documents, encoder = reading.all_with_model(sources, model, report)
    if len(documents) < 2:
        reason = f"; {report.skipped[0].source}: {report.skipped[0].reason}" if report.skipped else ""
        raise DocumentError(f"{' '.join(sources)} holds {counted(len(documents), 'document')}; name two{reason}")
    encoder, _ = without_repeats(encoder, documents, repeats)
    with noting_languages(encoder) as noted, progress_bar(None, len(documents)) as bar:
        encoded = []
        for document in noted(documents):
            encoded.append(encoder.encode_levels(document))
            bar.update(1)
    comparison = encoder.compare_all(encoded)
    links: dict[tuple[int, int], str] = {}
    pairs = comparison.pairs(most) if folder is not None else []
    with progress_bar(None, len(pairs), "Comparing", "pairs") as bar:
        for number, (a, b, _) in enumerate(pairs, start=1):
            pair = encoder.compare(comparison.documents[a], comparison.documents[b])
            links[a, b] = folder.write(number, pair.to_html) if folder is not None else ""
            bar.update(1)
    target = outputs.write(
        html=lambda path: comparison.to_html(path, links=links),
        json=lambda path: write_json(path, comparison.to_dict()),
        csv=comparison.to_csv,
        plot=lambda path: (
            _plot_levels(comparison.documents[:MOST_DRAWN], comparison, path)
            if all_levels
            else comparison.plot_documents(path)
        ),
    )
    if target is None:
        return
    _print_many(target, comparison)
    if all_levels and len(comparison.documents) > MOST_DRAWN:
        print_lines(target, [f"the picture shows the first {MOST_DRAWN} documents; without --level it shows all"])
    list_left_out(target, report)
    outputs.report(target)
    if links and folder is not None:
        written(target, [folder.folder])


def _print_many(target: Console, comparison: MutualComparison) -> None:
    encoded = comparison.documents
    # Of few documents all pairs are shown in the order of the documents, of many the closest.
    all_pairs = list(combinations(range(len(encoded)), 2))
    scores = comparison.document_scores
    are_all = len(all_pairs) <= SHOWN_PAIRS
    pairs = all_pairs if are_all else [(a, b) for a, b, _ in comparison.pairs(SHOWN_PAIRS)]
    # Beside the first ones, those whose numbers the table has.
    shown = sorted({*range(min(SHOWN_DOCUMENTS, len(encoded))), *(place for pair in pairs for place in pair)})
    print_lines(target, [f"D{place + 1}  {_name(encoded[place])}" for place in shown])
    if len(encoded) > len(shown):
        print_lines(target, [f"... and {counted(len(encoded) - len(shown), 'more document')}"])
    target.print(f"\n{comparison.similarity}, model {plain(str(comparison.model['name'])).markup}\n")
    background = comparison.background
    closer = [] if background is None else [Column("closer than", percent_closer)]
    rows = Table([names("documents"), "score", *closer, names("closest sections", 36), names("", 36), "score"])
    for i, j in pairs:
        block = comparison.sections_of(i, j)
        best = [int(place) for place in np.unravel_index(block.argmax(), block.shape)]
        closest = [
            encoded[k].segmented.document.section_name(encoded[k].section_numbers[row])
            for k, row in zip((i, j), best, strict=True)
        ]
        shares = [] if background is None else [background.share(float(scores[i, j]))]
        rows.add(f"D{i + 1} D{j + 1}", float(scores[i, j]), *shares, *closest, float(block.max()))
    rows.print(target)
    if background is not None:
        print_lines(target, ["closer than: the share of unrelated pairs that are less alike"])
    if not are_all:
        print_lines(target, [f"the closest of {len(all_pairs):,} pairs; --json and --csv have all"])
    target.print()
    for place in shown:
        target.print(coverage_line(f"D{place + 1}", encoded[place].segmented.coverage))
