"""graphdoc compare with a folder, a corpus, or three documents and more: each with each."""

from __future__ import annotations

import argparse
from itertools import combinations, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
from rich.console import Console

from ..documents.parsing.formats import is_corpus, split_suffix
from ..documents.readers.folders import is_folder_or_pattern
from ..errors import DocumentError, OutputError, SettingsError
from ..runtime.files import note_own_file, require_own_files
from ..runtime.text import counted
from .arguments import load_encoder
from .languages import noting_languages
from .outputs import Outputs, report_name, write_json, written
from .repeated import without_repeats
from .sources import encodable, no_documents, read_many, skips_unencodable
from .summaries import coverage_line, list_left_out, print_lines
from .tables import Table, names, plain

if TYPE_CHECKING:
    from ..analysis.comparisons import DrawnMutualComparison
    from ..encoder import DocumentEncoder
    from ..similarity import EncodedDocument

# Documents whose sections and passages one picture can show.
MOST_DOCUMENTS = 5
SHOWN_DOCUMENTS, SHOWN_PAIRS = 20, 20
OUTPUTS = Outputs(
    html=("comparison.html", ""),
    json=("comparison.json", ""),
    csv=("scores.csv", ""),
    plot=("scores.png", ""),
    figure=(None, ""),
)


def holds_many(source: str, options: argparse.Namespace) -> bool:
    """Whether a source holds more than one document that can be read, as folders, patterns and corpora do."""
    if not _may_hold_many(source):
        return False
    lenient = argparse.Namespace(**{**vars(options), "on_error": "skip"})
    return len(list(islice(read_many([source], lenient), 2))) > 1


def _may_hold_many(source: str) -> bool:
    return is_folder_or_pattern(source) or _is_corpus(source)


def _is_corpus(source: str) -> bool:
    path = Path(source)
    try:
        return path.is_file() and is_corpus(split_suffix(path)[1])
    except (OSError, ValueError):
        return False


def compare_many(sources: list[str], options: argparse.Namespace) -> None:
    """Compare each with each, print and write.

    Raises:
        SettingsError: an option is for two documents.
        DocumentError: there are fewer than two documents.
    """
    for name in ("level", "sentences", "subtopics", "maps"):
        if getattr(options, name):
            raise SettingsError(f"--{name} is for two documents, not {_described(sources)}; leave it out, or name two")
    if options.repeats_of is not None:
        raise SettingsError(
            f"--repeats-of is for two documents, not {_described(sources)}, which say themselves what repeats; "
            "leave it out, or name two"
        )
    if options.reports is not None and options.html is None and options.output is None:
        raise SettingsError(f"--reports {options.reports} needs --html, the page that leads to them; give it too")
    OUTPUTS.prepare(options, sources)
    if options.reports:
        folder = _reports_folder(options)
        if folder.exists() and not folder.is_dir():
            raise OutputError(f"{folder} is a file, and reports go to a folder of this name; move it")
        if not options.overwrite:
            require_own_files(folder, map(report_name, range(1, options.reports + 1)))

    from ..documents.readers import ReadingReport
    from ..runtime.progress import progress_bar

    report = ReadingReport()
    documents = list(read_many(sources, options, report))
    if not documents:
        raise no_documents(sources, report)
    encoder = load_encoder(options)
    if skips_unencodable(options, sources):
        documents = list(encodable(documents, encoder, report))
    if len(documents) < 2:
        reason = f"; {report.skipped[0].source}: {report.skipped[0].reason}" if report.skipped else ""
        raise DocumentError(f"{' '.join(sources)} holds {counted(len(documents), 'document')}; name two{reason}")
    encoder, _ = without_repeats(encoder, documents, options)
    with noting_languages(encoder) as noted, progress_bar(None, len(documents)) as bar:
        encoded = []
        for document in noted(documents):
            encoded.append(encoder.encode_levels(document))
            bar.update(1)
    comparison = encoder.compare_all(encoded)
    notes: list[str] = []
    links = _write_reports(comparison, encoder, options) if options.reports is not None else {}
    target = OUTPUTS.write(
        options,
        html=lambda path: comparison.to_html(path, links=links),
        json=lambda path: write_json(path, comparison.to_dict()),
        csv=comparison.to_csv,
        plot=comparison.plot_documents,
        figure=lambda path: _draw_levels(comparison, path, notes),
    )
    if target is None:
        return
    _print(target, comparison)
    print_lines(target, notes)
    list_left_out(target, report)
    OUTPUTS.report(options, target)
    if links:
        written(target, [_reports_folder(options)])


def _draw_levels(comparison: DrawnMutualComparison, path: str, notes: list[str]) -> None:
    """Draw as many documents at all levels as one picture can show, and note how many are left out."""
    from ..analysis.comparisons import DrawnMutualComparison

    shown = comparison.documents[:MOST_DOCUMENTS]
    DrawnMutualComparison(shown, comparison.model, comparison.similarity).plot(path)
    left = len(comparison.documents) - len(shown)
    if left:
        notes.append(
            f"{path} shows the first {len(shown)} documents; {left:,} more fit in no such picture, --plot has all"
        )


def _write_reports(
    comparison: DrawnMutualComparison, encoder: DocumentEncoder, options: argparse.Namespace
) -> dict[tuple[int, int], str]:
    """Write reports on the closest pairs beside the page, and give their links."""
    from ..runtime.progress import progress_bar

    folder = _reports_folder(options)
    links: dict[tuple[int, int], str] = {}
    pairs = comparison.pairs(options.reports)
    with progress_bar(None, len(pairs), "Comparing", "pairs") as bar:
        for number, (a, b, _) in enumerate(pairs, start=1):
            name = report_name(number)
            report = encoder.compare(comparison.documents[a], comparison.documents[b])
            note_own_file(report.to_html(folder / name))
            links[a, b] = f"{quote(folder.name)}/{name}"
            bar.update(1)
    return links


def _reports_folder(options: argparse.Namespace) -> Path:
    page = Path(options.html)
    return page.with_name(f"{page.stem}-reports")


def _print(target: Console, comparison: DrawnMutualComparison) -> None:
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
    rows = Table([names("documents"), "score", names("closest sections", 36), names("", 36), "score"])
    for i, j in pairs:
        block = comparison.sections_of(i, j)
        best = [int(place) for place in np.unravel_index(block.argmax(), block.shape)]
        closest = [
            encoded[k].segmented.document.section_name(encoded[k].section_numbers[row])
            for k, row in zip((i, j), best, strict=True)
        ]
        rows.add(f"D{i + 1} D{j + 1}", float(scores[i, j]), *closest, float(block.max()))
    rows.print(target)
    if not are_all:
        print_lines(target, [f"the closest of {len(all_pairs):,} pairs; --json and --csv have all"])
    target.print()
    for place in shown:
        target.print(coverage_line(f"D{place + 1}", encoded[place].segmented.coverage))


def _described(sources: list[str]) -> str:
    return str(len(sources)) if len(sources) > 2 else f"all in {' and '.join(filter(_may_hold_many, sources))}"


def _name(encoded: EncodedDocument) -> str:
    document: Any = encoded.segmented.document
    return f"{document.title} [{document.id}]" if document.title else str(document.id)
