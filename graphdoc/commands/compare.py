"""graphdoc compare: two documents, one within itself, or several with each other, at every level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np

from ..documents.document import Document
from ..documents.parsing.formats import is_corpus, split_suffix
from ..documents.readers import ReadingReport
from ..documents.readers.folders import is_folder_or_pattern
from ..errors import DocumentError, SettingsError
from ..registry import SUBTOPICS
from ..runtime.text import counted
from .options import COUNT, OUTPUT, EncodingModel, File, Json, Overwrite
from .output import MOST_ROWS, Outputs, Reports, Table, TableColumn, indented, names, plain, signed, titled, write_json
from .sources import LEAVE_OUT, Reading, RepeatsOption, first_reason, noting_languages, without_repeats

if TYPE_CHECKING:
    from ..encoder import DocumentEncoder
    from ..similarity import Comparison, MutualComparison
    from ..subtopics.table import SubtopicTable
    from .output import Terminal

MOST_WORDS, SHOWN_SUBTOPICS = 5, 30
# Documents that one picture of all levels holds.
MOST_DRAWN = 5
# What of many is printed.
SHOWN_PAIRS, SHOWN_DOCUMENTS = 20, 20


def compare(
    *sources: str,
    subtopics: str | None = None,
    repeats: RepeatsOption = LEAVE_OUT,
    top_k: Annotated[int, COUNT] = 5,
    html: File = None,
    json: Json = None,
    csv: File = None,
    plot: File = None,
    level: Annotated[Literal["section", "passage", "paragraph", "sentence", "all"] | None, OUTPUT] = None,
    reports: Annotated[int | None, OUTPUT, COUNT] = None,
    overwrite: Overwrite = False,
    model: EncodingModel = EncodingModel(),
    reading: Reading = Reading(),
) -> None:
    """Compare documents, or the parts of one, and show where their similarity comes from.

    Prints the similarity of two documents, the best counterpart of every section, and the strongest pairs of passages.
    Beside every section stands what it adds to the score, over all of B.
    A folder, a corpus, or three documents and more are compared each with each: the closest pairs, and all scores as a
    table (--csv), a picture (--plot), JSON and a page (--html) that leads to reports on the closest pairs (--reports).
    Of three and more, passages that several of them share, such as licences, are left out; of two nothing is.

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
        repeats: leave out passages that several of many documents share, or keep them
        top_k: pairs of passages, paragraphs and sentences to print
        html: write the report, one file that needs no network
        csv: write every pair of a level, or all scores of many documents, as a table
        plot: draw the similarity matrix of a level (.png, .svg, .pdf)
        level: level of --csv (default: passage) and of --plot (default: section); paragraph and sentence also compare
            sentence by sentence; all draws up to 5 documents, their sections and passages in one picture
        reports: of many: number of closest pairs that get a report, in a folder next to --html
        overwrite: replace files in that folder that graphdoc did not write
    """
    outputs = Outputs(sources, html=html, json=json, csv=csv, plot=plot)
    report = ReadingReport()
    if len(sources) > 2 or any(_holds_many(source, reading) for source in sources):
        if subtopics or level not in (None, "all"):
            raise SettingsError("--subtopics and --level are for two documents, and there are more")
        if reports is not None and html is None:
            raise SettingsError(f"--reports {reports} needs --html, the page that leads to them")
        folder = None if reports is None or html is None else Reports(html, reports, overwrite=overwrite)
        documents, encoder = reading.all_with_model(sources, model, report)
        if len(documents) < 2:
            one = f"{' '.join(sources)} holds {counted(len(documents), 'document')}; name two"
            raise DocumentError(one + first_reason(report))
        encoder, _ = without_repeats(encoder, documents, repeats)
        _compare_many(outputs, documents, encoder, folder, report, all_levels=level == "all")
        return
    if reports is not None:
        raise SettingsError("--reports is for more than two documents")
    if not sources:
        raise DocumentError("no document is named; name one or two files, or a folder")
    documents = [reading.document(source, report) for source in sources]
    if len(documents) == 1 and report.skipped:
        raise DocumentError(f"{sources[0]} holds 1 document that can be read; name two{first_reason(report)}")
    encoder = model.load()
    options: dict[str, Any] = {"subtopics": subtopics}
    if subtopics is not None and subtopics not in SUBTOPICS:
        options = {"subtopics": "adaptive", "subtopic_model": subtopics}
    sentences = level in ("paragraph", "sentence")
    comparison = encoder.compare(*noting_languages(encoder, documents), sentences=sentences, **options)
    target = outputs.write(
        html=comparison.to_html,
        json=lambda path: write_json(path, comparison.to_dict()),
        csv=lambda path: comparison.to_csv(path, "passage" if level is None or level == "all" else level),
        plot=lambda path: (
            _plot_levels(comparison, path) if level == "all" else comparison.plot(path, level or "section")
        ),
    )
    _print_two(target, comparison, top_k, sentences=sentences)
    outputs.report(target, report)


def _holds_many(source: str, reading: Reading) -> bool:
    """Whether a source holds more than one document that can be read, as folders, patterns and corpora do."""
    path = Path(source)
    try:
        may_hold = is_folder_or_pattern(source) or (path.is_file() and is_corpus(split_suffix(path)[1]))
    except (OSError, ValueError):
        return False
    return may_hold and len(list(islice(replace(reading, on_error="skip").documents([source]), 2))) > 1


def _plot_levels(comparison: Comparison, path: str) -> None:
    """Draw both documents, their sections and passages in one picture."""
    from ..similarity.mutual_comparison import MutualComparison

    both = (comparison.a, comparison.b)
    MutualComparison(both, comparison.model, comparison.similarity, evidence=comparison.evidence).plot(path)


def _print_two(target: Terminal, comparison: Comparison, top_k: int, *, sentences: bool) -> None:
    from ..similarity.background import NO_BACKGROUND, UNKNOWN_WORDS, describe_share

    model = plain(f"{comparison.similarity}, model {comparison.model['name']}").markup
    target.lines([f"A  {titled(comparison.a.segmented.document)}"])
    if comparison.is_within:
        target.print(f"B  the same document\n\nparts of one document with each other ({model})\n")
    else:
        target.lines([f"B  {titled(comparison.b.segmented.document)}"])
        share, background = comparison.share, comparison.background
        target.print(f"\ndocument similarity [bold]{comparison.document:.3f}[/bold] ({model})")
        unknown = NO_BACKGROUND if comparison.parts is None else UNKNOWN_WORDS
        target.lines([describe_share(share, background.pairs) if share is not None and background else unknown])
        target.print()
    due, parts = "", comparison.parts
    if comparison.lexical is not None:
        words = ", ".join(f"{word.word} {signed(word.contribution)}" for word in comparison.shared_words(MOST_WORDS))
        due = f"{signed(comparison.lexical)} of it is due to words{words and ': '}{words}"
        if parts is not None:
            due = f"evidence {signed(parts['sum'])} deviations, shown as {comparison.document:.3f} (6 as 0.5): vectors "
            due += f"{signed(parts['vectors'])}, words {signed(comparison.lexical)}{words and f' ({words})'}"
    elif parts is not None:
        due = f"evidence {signed(parts['sum'])}: of vectors alone"
    if due:
        target.print(plain(due, target.width), end="\n\n")
    _print_sections(target, comparison)
    for level in ("passage", "paragraph", "sentence") if sentences else ("passage",):
        _print_matches(target, comparison, level, top_k)
    if comparison.subtopics is not None:
        _print_subtopics(target, comparison.subtopics)
    target.print()
    for letter, side in zip("A" if comparison.is_within else "AB", (comparison.a, comparison.b), strict=False):
        target.coverage(letter, side.segmented.coverage)


def _print_sections(target: Terminal, comparison: Comparison) -> None:
    scores, contributions = comparison.sections.copy(), comparison.section_contributions
    documents = [side.segmented.document for side in (comparison.a, comparison.b)]
    if comparison.is_within:
        if len(scores) == 1:
            target.print("one section only: there is nothing to compare it with")
            return
        np.fill_diagonal(scores, -np.inf)
    rows = Table([names("section of A", 44), names("closest in B", 44), "similarity", TableColumn("adds", signed)])
    number = -1
    for row, best in enumerate(scores[:MOST_ROWS].argmax(axis=1).tolist()):
        before, number = number, comparison.a.section_numbers[row]
        path = documents[0].sections[number].path
        # Headings without text between this section and the one before it.
        for heading in range(before + 1, number):
            above = documents[0].sections[heading].path
            if path[: len(above)] == above:
                rows.add(indented(documents[0], heading), "", "", "")
        match = indented(documents[1], comparison.b.section_numbers[best])
        rows.add(indented(documents[0], number), match, float(scores[row, best]), float(contributions[row].sum()))
    rows.add("", "all sections", "", float(contributions.sum()))
    rows.print(target)
    target.more(len(scores), "section")
    whole = "similarity of the documents" if comparison.parts is None else "evidence"
    target.lines([f"adds: what the section, with all of B, adds to the {whole}; similarity: of the two sections alone"])


def _print_matches(target: Terminal, comparison: Comparison, level: Any, top_k: int) -> None:
    matches = comparison.matches(level, top_k)
    if matches:
        target.print(f"\n[bold]closest {level}s[/bold], with their similarity")
    for match in matches:
        target.print(f"{match.score:.3f}")
        for side, encoded, row in (("A", comparison.a, match.a), ("B", comparison.b, match.b)):
            segmented, span = encoded.segmented, encoded.spans(level)[row]
            target.passage(f"  {side}  {segmented.document.section_name(span.section)}: {segmented.text(span)}")


def _print_subtopics(target: Terminal, subtopics: SubtopicTable) -> None:
    target.print(f"\n[bold]subtopics[/bold] ({subtopics.by})")
    holders = {"both": "A and B", "a": "A", "b": "B"}
    if subtopics.is_within:
        rows = Table([names("leading words", 70), "sentences", "similarity"])
    else:
        counts = Counter(row.holder for row in subtopics.rows)
        apart = f"{counts['a']:,} only A has, {counts['b']:,} only B"
        target.print(f"{counted(counts['both'], 'subtopic')} of both documents, {apart}; A, B: sentences\n")
        rows = Table([names("leading words", 60), names("in"), "A", "B", "similarity"])
    for row in subtopics.rows[:SHOWN_SUBTOPICS]:
        sizes = [len(row.a)] if subtopics.is_within else [holders[row.holder], len(row.a), len(row.b)]
        rows.add(", ".join(row.words) or "(no words)", *sizes, "" if row.similarity is None else row.similarity)
    rows.print(target)
    target.more(len(subtopics.rows), "subtopic", SHOWN_SUBTOPICS)
    for side, beyond in zip("AB", subtopics.beyond, strict=True):
        if beyond:
            target.lines([f"{side}: {counted(beyond, 'sentence')} beyond the receptive field are in no subtopic"])


def _compare_many(
    outputs: Outputs,
    documents: Sequence[Document],
    encoder: DocumentEncoder,
    folder: Reports | None,
    report: ReadingReport,
    *,
    all_levels: bool,
) -> None:
    from ..runtime.progress import progress_bar

    with progress_bar(None, len(documents)) as bar:
        encoded = []
        for document in noting_languages(encoder, documents):
            encoded.append(encoder.encode_levels(document))
            bar.update(1)
    comparison = encoder.compare_all(encoded)
    links = {} if folder is None else folder.write(comparison.pairs(folder.most), comparison.compare)
    drawn = replace(comparison, documents=encoded[:MOST_DRAWN])
    target = outputs.write(
        html=lambda path: comparison.to_html(path, links=links),
        json=lambda path: write_json(path, comparison.to_dict()),
        csv=comparison.to_csv,
        plot=lambda path: drawn.plot(path) if all_levels else comparison.plot_documents(path),
    )
    _print_many(target, comparison)
    if all_levels and len(encoded) > MOST_DRAWN:
        target.lines([f"the picture shows the first {MOST_DRAWN} documents; without --level it shows all"])
    outputs.report(target, report, *([folder.folder] if links and folder is not None else []))


def _print_many(target: Terminal, comparison: MutualComparison) -> None:
    from ..similarity.background import NO_BACKGROUND, UNKNOWN_WORDS, percent_closer

    encoded = comparison.documents
    # Of few documents all pairs are shown in the order of the documents, of many the closest.
    pairs = list(combinations(range(len(encoded)), 2))
    total = len(pairs)
    if total > SHOWN_PAIRS:
        pairs = [(a, b) for a, b, _ in comparison.pairs(SHOWN_PAIRS)]
    # The first ones, and those whose numbers are in the table.
    shown = sorted({*range(min(SHOWN_DOCUMENTS, len(encoded))), *(place for pair in pairs for place in pair)})
    target.lines([f"D{place + 1}  {titled(encoded[place].segmented.document)}" for place in shown])
    if len(encoded) > len(shown):
        target.lines([f"... and {counted(len(encoded) - len(shown), 'more document')}"])
    target.print(f"\n{comparison.similarity}, model {plain(str(comparison.model['name'])).markup}\n")
    shares = [comparison.share(a, b) for a, b in pairs]
    is_known = comparison.background is not None
    told = [TableColumn("closer than", lambda share: "?" if share is None else percent_closer(share))][:is_known]
    rows = Table([names("documents"), "score", *told, names("closest sections", 36), names("", 36), "score"])
    for (a, b), share in zip(pairs, shares, strict=True):
        score, block = float(comparison.document_scores[a, b]), comparison.sections_of(a, b)
        best = np.unravel_index(block.argmax(), block.shape)
        closest = [
            encoded[place].segmented.document.section_name(encoded[place].section_numbers[row])
            for place, row in zip((a, b), best, strict=True)
        ]
        rows.add(f"D{a + 1} D{b + 1}", score, *[share][:is_known], *closest, float(block.max()))
    rows.print(target)
    found = dict.fromkeys(background.pairs for a, b in pairs if (background := comparison.background_of(a, b)))
    which = " or ".join(found) if comparison.background is comparison.model_background else "pairs here"
    target.lines([f"closer than: the share of {which} that are less alike" if is_known else NO_BACKGROUND])
    if is_known and None in shares:
        target.lines([f"?: {UNKNOWN_WORDS}"])
    if total > len(pairs):
        target.lines([f"the closest of {total:,} pairs; --json and --csv have all"])
    target.print()
    for place in shown:
        target.coverage(f"D{place + 1}", encoded[place].segmented.coverage)
