"""graphdoc repeats: the passages that occur in several documents of a corpus."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from functools import partial
from typing import Any

from ..runtime.files import write_csv
from ..runtime.text import counted, one_line
from .arguments import add_model_arguments, add_reading_arguments, load_encoder, positive
from .outputs import JSON, Outputs, write_json
from .sources import no_documents, read_many
from .summaries import list_left_out, print_lines
from .tables import Table, names

HELP = "list the passages that occur in several documents, such as licences"
DESCRIPTION = """List the passages that occur in several documents of a corpus, exactly or nearly, such as licences.

Commands that read a corpus leave them out, unless they are given --repeats keep. A passage is listed once, as the
first document has it, with the number of documents and some of them. Of a document of
which more than three quarters repeat, or more than half in five passages and more, as in versions of one text, nothing
is left out."""
EPILOG = """examples:
  graphdoc repeats papers/
  graphdoc repeats papers/ --csv repeats.csv --top 50
"""
OUTPUTS = Outputs(
    json=("repeats.json", JSON), csv=("repeats.csv", "write a row for every passage: text, numbers, examples")
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("sources", metavar="SOURCE", nargs="+", help="files, folders, globs, corpora or -")
    parser.add_argument("--top", type=positive, default=20, metavar="N", help="passages to print (default: 20)")
    OUTPUTS.add_to(parser)
    add_model_arguments(parser)
    add_reading_arguments(parser)


def run(options: argparse.Namespace) -> None:
    """Count, list, print and write."""
    OUTPUTS.prepare(options, options.sources)
    from ..documents.readers import ReadingReport
    from ..documents.readers.streams import KeptDocuments
    from ..segmentation.repeats import RepeatLister, find_repeats
    from ..segmentation.segmenter import repeated_in

    report = ReadingReport()
    documents = KeptDocuments(read_many(options.sources, options, report))
    if not len(documents):
        raise no_documents(options.sources, report)
    repeats = find_repeats(documents)
    lister = RepeatLister(partial(repeated_in, repeats=repeats, config=load_encoder(options).segmenter.config))
    for document in documents:
        lister.add(document)
    found = lister.found()
    values: dict[str, Any] = {"least_documents": repeats.least, **asdict(found)}
    target = OUTPUTS.write(
        options,
        json=lambda path: write_json(path, values),
        csv=lambda path: write_csv(
            path,
            ["documents", "occurrences", "characters", "examples", "text"],
            [
                [one.documents, one.occurrences, one.characters, "; ".join(one.examples), one.text]
                for one in found.passages
            ],
        ),
    )
    if target is None:
        return
    if found.passages:
        rows = Table(["documents", names("repeated passage", 70), names("such as", 30)])
        for one in found.passages[: options.top]:
            rows.add(one.documents, one_line(one.text, 200), ", ".join(one.examples))
        rows.print(target)
        if len(found.passages) > options.top:
            more = counted(len(found.passages) - options.top, "more passage")
            print_lines(target, [f"... and {more}; --csv and --json have all"])
        target.print()
    kept = f"; {counted(found.kept, 'document')} of little else, kept whole" if found.kept else ""
    passages, characters = counted(len(found.passages), "passage"), counted(found.characters, "character")
    print_lines(
        target,
        [
            f"{counted(found.documents, 'document')}, {found.with_repeats:,} with a passage that {repeats.least:,} or "
            f"more have: {passages}, {characters} in all{kept}"
        ],
    )
    list_left_out(target, report)
    OUTPUTS.report(options, target)
