"""graphdoc overview: a whole collection at a glance, without labels, as a page, tables and JSON."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Iterable, Sized
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DocumentError, OtherDocumentsError, OutputError, SettingsError
from ..runtime.files import require_own_files
from ..runtime.memory import quick_imports
from ..runtime.text import counted
from .arguments import add_model_arguments, add_reading_arguments, load_encoder, positive, whole
from .languages import noting_languages
from .outputs import Outputs, check_apart, report_name, require_name, write_json, written
from .overview_pairs import beside, command_of, encoder_of, reports_folder, write_reports
from .overview_summary import print_overview
from .repeated import KEEP, add_repeats_argument, repeats_in, without_repeats
from .sources import read_many, skips_unencodable
from .summaries import list_left_out, list_without_id, print_lines

if TYPE_CHECKING:
    from ..analysis.overview_page.content import Report
    from ..documents.document import Document
    from ..documents.readers import ReadingReport
    from ..encoder import DocumentEncoder
    from ..overview import Overview
    from ..segmentation.repeats import Repeats
    from ..vectors.folder import Manifest
    from ..vectors.writer import OnError

logger = logging.getLogger(__name__)

HELP = "see a whole collection: a map, groups with names, closest pairs, copies and outliers"
DESCRIPTION = """Look at a collection of 2 to 20,000 documents as a whole, without labels.

The page has a map on which close documents are alike, groups named by their telling words, the closest pairs,
near-duplicates, outliers, the neighbours of every document, what was left out as repeated, a table and a search; one
file that needs no network.

Vectors go to a folder beside the output, from which a run that was interrupted goes on; --vectors names another one. A
folder that graphdoc encode has finished is taken as it is, and no model is loaded."""
EPILOG = """examples:
  graphdoc overview papers/ --html overview.html
  graphdoc overview papers/ --html overview.html --reports 50     with reports on the 50 closest pairs
  graphdoc overview corpus.jsonl.gz --vectors vectors/ --html overview.html --json overview.json --csv documents.csv
"""

OUTPUTS = Outputs(
    html=("overview.html", "write the page, one file that needs no network"),
    json=("overview.json", "write everything as JSON (- for standard output)"),
    csv=("documents.csv", "write a row for every document: group, place on the map, nearest document"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("sources", metavar="SOURCE", nargs="*", help="files, folders, globs, corpora or -")
    group = parser.add_argument_group("overview")
    group.add_argument(
        "--neighbours", type=positive, default=10, metavar="N", help="nearest documents of each (default: 10)"
    )
    group.add_argument(
        "--duplicates",
        type=_cosine,
        default=0.98,
        metavar="COSINE",
        help="cosine from which two documents are near-duplicates (default: 0.98)",
    )
    group.add_argument(
        "--group-size",
        type=positive,
        metavar="N",
        help="documents that a group has at least (default: by their number)",
    )
    group.add_argument("--seed", type=whole, default=0, help="seed of the map and the groups (default: 0)")
    output = OUTPUTS.add_to(parser)
    output.add_argument("--title", metavar="TEXT", help="what the page calls the collection (default: its sources)")
    output.add_argument(
        "--reports", type=positive, metavar="N", help="also write reports on the N closest pairs, in a folder beside"
    )
    output.add_argument(
        "--vectors", metavar="FOLDER", help="folder of vectors, finished or to be written (default: beside the output)"
    )
    add_model_arguments(parser)
    add_repeats_argument(add_reading_arguments(parser))


def run(options: argparse.Namespace) -> None:
    """Read, encode, lay out, print and write."""
    if not options.sources and options.vectors is None:
        raise DocumentError("there is nothing to look at; name documents, or a folder of vectors with --vectors")
    OUTPUTS.prepare(options, options.sources)
    if options.reports is not None and (options.html is None or not options.sources or "-" in options.sources):
        raise SettingsError(
            f"--reports {options.reports} needs --html, and documents that can be read a second time; name files"
        )
    folder = _folder(options)
    if options.reports and not options.overwrite:
        require_own_files(reports_folder(options), map(report_name, range(1, options.reports + 1)))

    from ..documents.readers import ReadingReport

    report = ReadingReport(places={})
    is_stored, keeps_repeats = _is_stored(options), options.repeats == KEEP
    overview, encoder, notes = _overview(options, folder, report, is_stored=is_stored)
    pairs: list[Report] = []
    if options.reports:
        pairs, coverage = write_reports(options, overview, encoder())
        # Where all of the documents were encoded here, it was said of all of them.
        if is_stored:
            coverage.warn()

    def write_page(path: str) -> None:
        title = options.title or ", ".join(map(_source_name, options.sources or [options.vectors]))
        command = command_of(options, overview, folder, report.places or {}, is_stored=is_stored)
        overview.to_html(path, name=title, reports=pairs, command=command, keeps_repeats=keeps_repeats)

    target = OUTPUTS.write(
        options,
        html=write_page,
        json=lambda path: write_json(path, overview.to_dict()),
        csv=lambda path: overview.to_csv(path),
    )
    if target is None:
        return
    print_overview(target, overview, keeps_repeats=keeps_repeats)
    print_lines(target, notes)
    list_left_out(target, report)
    list_without_id(target, report)
    OUTPUTS.report(options, target)
    if pairs:
        written(target, [reports_folder(options)])


def _is_stored(options: argparse.Namespace) -> bool:
    """Whether the vectors are there, and are taken as they are."""
    if options.vectors is None or options.overwrite:
        return False
    with quick_imports():
        from ..vectors.folder import MANIFEST_FILE
    return (Path(options.vectors) / MANIFEST_FILE).exists()


def _overview(
    options: argparse.Namespace, folder: Path | None, report: ReadingReport, *, is_stored: bool
) -> tuple[Overview, Callable[[], DocumentEncoder], list[str]]:
    """The overview, what gives the encoder of its vectors, and what has to be said of the overview."""
    with quick_imports():
        from ..overview import Overview
    from ..vectors.folder import ANOTHER_FOLDER, Manifest, read_vectors

    documents: Iterable[Document] = read_many(options.sources, options, report) if options.sources else ()
    chosen = {name: getattr(options, name) for name in ("neighbours", "duplicates", "group_size", "seed")}
    if is_stored:
        manifest = Manifest.read(options.vectors)
        level = manifest.settings.get("level", "document")
        if level != "document":
            raise OutputError(
                f"{options.vectors} holds vectors of {level} level; encode into another folder without --level"
            )
        if options.repeats == KEEP and manifest.model.get("repeats"):
            raise SettingsError(
                f"--repeats keep: the vectors of {options.vectors} leave out what repeats; encode anew with --repeats "
                "keep"
            )
        ids, vectors = read_vectors(options.vectors)
        left_out, documents = _left_out(manifest, documents, options)
        known = set(ids)
        without = 0

        def counted_documents() -> Any:
            nonlocal without
            for document in documents:
                without += document.id not in known
                yield document

        language = str(manifest.model.get("language") or "en")
        overview = Overview.of_vectors(
            ids,
            vectors,
            counted_documents(),
            model=manifest.model,
            language=language,
            repeats=left_out,
            **chosen,
        )
        notes = []
        if without:
            notes.append(f"{counted(without, 'document')} without a vector in {options.vectors}: left out")
        unread = sum(not digest.fingerprint for digest in overview.documents)
        if unread:
            notes.append(f"{counted(unread, 'vector')} of documents that were not read: shown by their ids")
        return overview, lambda: encoder_of(options, manifest).leaving_out(left_out), notes
    encoder = load_encoder(options)
    try:
        with noting_languages(encoder) as noted:
            encoder, kept = without_repeats(encoder, noted(documents), options)

            def made(*, overwrite: bool) -> Overview:
                on_error: OnError = "skip" if skips_unencodable(options, options.sources) else "stop"
                return Overview.of(
                    encoder, kept, vectors=folder, report=report, on_error=on_error, overwrite=overwrite, **chosen
                )

            try:
                overview = made(overwrite=options.overwrite)
            except OtherDocumentsError:
                # Vectors that somebody asked for are kept, and what was read once cannot be read again.
                if options.vectors is not None or not isinstance(kept, Sized):
                    raise
                logger.warning("the documents have changed since %s was made; all are encoded anew", folder)
                overview = made(overwrite=True)
    except OutputError as error:
        if options.vectors is None and folder is not None and ANOTHER_FOLDER in str(error):
            kept_there = f"{folder} holds the vectors of an earlier overview, which lies beside it"
            fix = "replace them with --overwrite, or give another folder with --vectors"
            raise OutputError(f"{kept_there}; {str(error).replace(ANOTHER_FOLDER, fix)}") from error
        raise
    return overview, lambda: encoder, []


def _left_out(
    manifest: Manifest, documents: Iterable[Document], options: argparse.Namespace
) -> tuple[Repeats | None, Iterable[Document]]:
    """What stored vectors leave out as repeated, and the documents, which may be such as are read only once."""
    from ..vectors.folder import read_repeats

    left_out = read_repeats(manifest.folder)
    if left_out is None and manifest.model.get("repeats") and options.sources:
        # Vectors of before it was kept with them.
        from ..documents.readers.streams import KeptDocuments

        documents = KeptDocuments(documents)
        left_out = repeats_in(documents, options)
        # Of some of the documents, or of others, something else is found.
        if left_out is not None and left_out.describe() != manifest.model["repeats"]:
            left_out = None
    return left_out, documents


def _folder(options: argparse.Namespace) -> Path | None:
    """Where vectors go: where they are wanted, else beside the first output; None for nowhere.

    Raises:
        OutputError: it lies in a folder that is read.
    """
    if options.vectors is not None:
        require_name(options.vectors)
        check_apart(options.sources, [], [options.vectors])
        return Path(options.vectors)
    first = next((path for path in OUTPUTS.paths(options) if path != "-"), None)
    if first is None:
        return None
    folder = beside(first, "vectors")
    try:
        check_apart(options.sources, [], [str(folder)])
    except OutputError as error:
        raise OutputError(f"{error} with --vectors") from None
    return folder


def _source_name(source: str) -> str:
    return Path(source).resolve().name if source != "-" else "Standard input"


def _cosine(value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number <= 1:
        raise argparse.ArgumentTypeError(f"{value!r} is not a cosine above 0 and not above 1")
    return number
