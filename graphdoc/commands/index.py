"""graphdoc index: documents in an index that is kept up to date."""

from __future__ import annotations

import argparse
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from ..errors import SettingsError
from ..runtime.memory import quick_imports
from ..runtime.text import counted
from .arguments import add_model_arguments, add_reading_arguments, load_encoder
from .languages import noting_languages
from .outputs import check_apart, require_name, write_json
from .repeated import KEEP, LEAVE_OUT
from .sources import no_documents, read_many, skips_unencodable
from .summaries import list_left_out, list_without_id, print_lines
from .tables import console

if TYPE_CHECKING:
    from ..documents.readers import ReadingReport
    from ..retrieval.index import DocumentIndex
    from ..retrieval.updating import UpdateReport

_PARAGRAPHS = {"section": "section", "blank_line": "part between blank lines", "passage": "passage"}

HELP = "index documents to search them, and bring an index up to date"
DESCRIPTION = """Index documents, so that graphdoc search finds them by words and by vectors.

Give the same command again to bring the index up to date: documents that are new are added, those that changed are
replaced, and of these only passages whose text changed are encoded. Documents that are missing from the sources stay;
--delete removes them. A run that was interrupted goes on where it stopped.

INDEX is a folder, or a place in an object store such as s3://bucket/index."""
EPILOG = """examples:
  graphdoc index papers/ --output papers.index
  graphdoc index papers/ --output papers.index               again: only what is new or changed is encoded
  graphdoc index papers/ --output papers.index --sentences   made so that documents are ranked by sentences too
  graphdoc index --output papers.index --delete smith2019    remove a document
  graphdoc index --output papers.index --describe
  graphdoc search papers.index "graph attention"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("sources", metavar="SOURCE", nargs="*", default=[], help="files, folders, globs, corpora or -")
    group = parser.add_argument_group("index")
    group.add_argument("--output", metavar="INDEX", required=True, help="the index, which is made if there is none")
    group.add_argument(
        "--sentences",
        action="store_true",
        help="keep the vectors of all sentences, by which search --document ranks with --by sentences",
    )
    group.add_argument(
        "--paragraph",
        choices=("section", "blank_line", "passage"),
        help="with --sentences: which of them belong together (default: as the model says, for most section)",
    )
    group.add_argument(
        "--repeats",
        choices=(LEAVE_OUT, KEEP),
        help="leave out passages that occur in 3 documents and 1 in 100 at least, such as licences, or keep them "
        f"(default: {LEAVE_OUT}, or as the index was made)",
    )
    group.add_argument(
        "--delete", metavar="ID", action="append", default=[], help="remove a document; may be repeated"
    )
    group.add_argument("--maintain", action="store_true", help="bring statistics and search structures up to date now")
    group.add_argument("--describe", action="store_true", help="show what the index holds and was made with")
    group.add_argument(
        "--json", metavar="FILE", help="write what was done and what the index holds as JSON (- for standard output)"
    )
    add_model_arguments(parser)
    parser.set_defaults(model=None)
    add_reading_arguments(parser)


def run(options: argparse.Namespace) -> None:
    """Index, delete, maintain and describe, in this order."""
    require_name(options.output)
    if not (options.sources or options.delete or options.maintain or options.describe):
        raise SettingsError(
            "there is nothing to do; name documents to index, or give --delete, --maintain or --describe"
        )
    if options.paragraph is not None and not options.sentences:
        raise SettingsError(f"--paragraph {options.paragraph} says which sentences belong together; give --sentences")
    check_apart(options.sources, [options.json] if options.json else [], [folder_of(options.output)])
    index = open_index(options) if not options.sources or _exists(options.output) else None
    if index is not None and options.sentences:
        _require_sentences(index, options.paragraph)
    if index is not None and options.repeats not in (None, index.record.get("repeats", KEEP)):
        raise SettingsError(
            f"--repeats {options.repeats}: {index.place} was made with {index.record.get('repeats', KEEP)}; leave it "
            "out, or index the documents into another place"
        )
    done: dict[str, Any] = {}
    report = update_index(options, index, options.sources, options.output) if options.sources else None
    if report is not None:
        index, update, reading = report
        done["update"] = _as_dict(update)
    assert index is not None
    unknown: list[str] = []
    if options.delete:
        unknown = [id for id in options.delete if id not in index]
        done["deleted"] = index.delete(options.delete)
    if options.maintain:
        index.maintain()
    state = index.state()
    about = index.describe() | {
        "rows": state.rows,
        "waiting": state.waiting,
        "kept_sentences": index.count_sentences(),
    }
    if options.json:
        write_json(options.json, {**done, "index": about})
        if options.json == "-":
            return
    target = console()
    if report is not None:
        print_lines(target, update_lines(update))
        list_left_out(target, reading)
        list_without_id(target, reading)
    if options.delete:
        line = f"deleted: {counted(done['deleted'], 'document')}"
        print_lines(target, [line + (f"; not there: {', '.join(unknown)}" if unknown else "")])
    sizes = [counted(about[f"{name}s"], name) for name in ("document", "passage")]
    if index.paragraph is not None:
        sizes.append(counted(about["kept_sentences"], "sentence"))
    lines = [f"{index.place}: {', '.join(sizes)}"]
    if options.describe:
        model = about["model"]
        if index.paragraph is not None:
            lines.append(f"with sentences; those of a {_PARAGRAPHS[index.paragraph]} belong together")
        lines += [
            f"model {model['name']} ({model['backbone']}, {model['graph_kind']} graph, {model['dtype']})",
            f"{counted(about['rows'], 'row')}, {about['waiting']:,} waiting for maintenance",
            "fields: " + (", ".join(f"{name} ({held})" for name, held in about["fields"].items()) or "none"),
        ]
    if index.is_maintenance_due:
        lines.append("maintenance is due: run it with --maintain")
    print_lines(target, lines)


def _require_sentences(index: DocumentIndex, paragraph: str | None) -> None:
    """Refuse an index that keeps no sentences, or has other paragraphs."""
    if index.paragraph is None:
        raise SettingsError(
            f"{index.place} was made without sentences, and --sentences cannot be added to it; index the documents "
            "into another place"
        )
    if paragraph not in (None, index.paragraph):
        raise SettingsError(
            f"--paragraph {paragraph}: in {index.place} it is {index.paragraph}; leave it out, or index the documents "
            "into another place"
        )


def folder_of(place: str) -> str | None:
    """The folder that an index lies in; None where it is in none."""
    from ..retrieval.places import place_of

    folder = place_of(place).folder
    return None if folder is None else str(folder)


def _exists(place: str) -> bool:
    with quick_imports():
        from ..retrieval.index import DocumentIndex

    return DocumentIndex.exists(place)


def open_index(options: argparse.Namespace, place: str | None = None) -> DocumentIndex:
    """Open an index with the model that the arguments name, or with its own, loaded as they say."""
    with quick_imports():
        from ..retrieval.index import DocumentIndex

    where = options.output if place is None else place
    options.dtype = options.dtype or "auto"
    if options.model is not None:
        return DocumentIndex.open(where, load_encoder(options))
    given = {} if options.dtype == "auto" else {"dtype": options.dtype}
    given |= {} if options.device is None else {"device": options.device}
    given |= {"max_passages": options.max_passages} if hasattr(options, "max_passages") else {}
    # Without any of these it is loaded when it is needed; a search by words never needs it.
    return DocumentIndex.open(where, **given)


def update_index(
    options: argparse.Namespace,
    index: DocumentIndex | None,
    sources: list[str],
    place: str,
) -> tuple[DocumentIndex, UpdateReport, ReadingReport]:
    """Bring an index up to date with sources, or make it where there is none.

    Raises:
        DocumentError: there is nothing in the sources, or a document cannot be indexed.
    """
    from ..documents.readers import ReadingReport

    with quick_imports():
        from ..retrieval.index import DocumentIndex

    reading = ReadingReport()
    documents = read_many(sources, options, reading)
    first = list(islice(documents, 1))
    if not first:
        raise no_documents(sources, reading)
    if index is None:
        # Only now that there is something to put into it.
        options.model = options.model or "mini"
        sentences = getattr(options, "paragraph", None) or getattr(options, "sentences", False)
        keeps = getattr(options, "repeats", None) == KEEP
        index = DocumentIndex.create(place, load_encoder(options), sentences=sentences, repeats=keeps)
    with noting_languages(index.encoder) as noted:
        read = noted(chain(first, documents))
        report = index.update(read, on_error="skip" if skips_unencodable(options, sources) else "stop")
    reading.leave_out(report.skipped)
    return index, report, reading


def _as_dict(report: UpdateReport) -> dict[str, Any]:
    return {
        **{
            name: getattr(report, name)
            for name in (
                "added",
                "replaced",
                "unchanged",
                "encoded_passages",
                "known_passages",
                "encoded_sentences",
                "rebuilt",
                "numbers_without_column",
            )
        },
        "coverage": report.coverage.to_dict(),
        "skipped": [{"source": one.source, "reason": one.reason} for one in report.skipped],
    }


def update_lines(report: UpdateReport) -> list[str]:
    """What an update did, for the terminal."""
    lines = [
        f"added {counted(report.added, 'document')}, replaced {report.replaced:,}, left {report.unchanged:,} as they "
        f"were; encoded {counted(report.encoded_passages, 'passage')}"
        + (f", knew {report.known_passages:,} already" if report.known_passages else "")
        + (f"; encoded {counted(report.encoded_sentences, 'sentence')}" if report.encoded_sentences else "")
    ]
    if report.rebuilt:
        lines.append(f"rebuilt {counted(report.rebuilt, 'document')}, in which other passages repeat than before")
    if report.numbers_without_column:
        lines.append(
            f"found by no filter: {counted(report.numbers_without_column, 'number')} in metadata that no column holds "
            "(not a number, infinity, from 2^63)"
        )
    coverage = report.coverage
    if coverage.documents_not_whole:
        reasons = ", ".join(f"{counted(count, 'character')}: {reason}" for reason, count in coverage.left_out.items())
        lines.append(
            f"not indexed whole: {counted(coverage.documents_not_whole, 'document')} ({reasons}); --max-passages all "
            "indexes every passage"
        )
    return lines
