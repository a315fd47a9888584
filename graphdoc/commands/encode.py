"""graphdoc encode: vectors of documents, on the screen or in a folder."""

from __future__ import annotations

import argparse
import os

from ..errors import OutputError
from ..runtime.wording import counted
from .arguments import (
    add_model_arguments,
    add_reading_arguments,
    check_apart,
    check_outputs,
    encodable,
    load_encoder,
    no_documents,
    positive,
    read_many,
    write_json,
)
from .summaries import MOST_ROWS, console, list_left_out, list_without_id, more_rows, plain, table, written

NAME = "encode"
HELP = "encode documents into vectors"
DESCRIPTION = """Encode documents into vectors.

With --output the vectors go to a folder of Parquet shards with a manifest: any number of documents, in constant
memory. A run that was interrupted goes on where it stopped when the same command is given again. Under torchrun or
accelerate launch every process takes its share. Without --output a table of the documents and their nearest
neighbours is shown."""
EPILOG = """examples:
  graphdoc encode papers/ --output vectors/
  graphdoc encode corpus.jsonl.gz --text-column body --output vectors/ --dtype bfloat16 --on-error skip
  graphdoc encode *.md --json vectors.json
  torchrun --nproc-per-node 8 -m graphdoc encode corpus/ --output vectors/
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("sources", metavar="SOURCE", nargs="+", help="files, folders, globs, corpora or -")
    parser.add_argument(
        "--level",
        choices=("document", "section", "passage"),
        default="document",
        help="what gets a vector (default: document)",
    )
    parser.add_argument("--normalize", action="store_true", help="bring vectors to unit length")
    output = parser.add_argument_group("output")
    output.add_argument("--output", metavar="FOLDER", help="write Parquet shards (id, vector) and manifest.json there")
    output.add_argument(
        "--shard-size", type=positive, default=1024, metavar="N", help="documents a shard (default: 1024)"
    )
    output.add_argument("--overwrite", action="store_true", help="replace another run's output in the folder")
    output.add_argument("--json", metavar="FILE", help="write ids and vectors as JSON (- for standard output)")
    output.add_argument("--csv", metavar="FILE", help="write ids and vectors as CSV")
    add_model_arguments(parser)
    add_reading_arguments(parser)


def run(options: argparse.Namespace) -> None:
    """Encode, print and write."""
    if options.output and (options.json or options.csv):
        raise OutputError("--output cannot be combined with --json or --csv; run the command twice")
    if options.output == "":
        raise OutputError("the name of the output folder is empty")
    if options.level != "document" and not options.output:
        raise OutputError(f"--level {options.level} needs --output FOLDER; all else holds document vectors only")
    check_outputs(options, "json", "csv")
    check_apart(options.sources, options.json, options.csv, folder=options.output)
    if options.output:
        _encode_to_folder(options)
    else:
        _encode_here(options)


def _encode_to_folder(options: argparse.Namespace) -> None:
    from ..documents.readers import ReadingReport

    report = ReadingReport()
    documents = read_many(options.sources, options, report)
    manifest = load_encoder(options).encode_to_disk(
        documents,
        options.output,
        level=options.level,
        normalize=options.normalize,
        shard_size=options.shard_size,
        overwrite=options.overwrite,
        on_error=options.on_error,
        report=report,
    )
    # Every process of a job has the manifest; one of them tells.
    if os.environ.get("RANK", "0") == "0":
        target = console()
        manifest.summarise(target)
        list_without_id(target, report)


def _encode_here(options: argparse.Namespace) -> None:
    import numpy as np
    from sklearn.preprocessing import normalize

    from ..documents.readers import ReadingReport
    from ..similarity.cosine import similarity_matrix

    report = ReadingReport()
    documents = list(read_many(options.sources, options, report))
    encoder = load_encoder(options) if documents else None
    if encoder is not None and options.on_error == "skip":
        documents = list(encodable(documents, encoder, report))
    if encoder is None or not documents:
        raise no_documents(options.sources, report)
    encoded = list(encoder.stream(documents))
    vectors = np.concatenate([vector.numpy() for _, vector in encoded])
    if options.normalize:
        vectors = normalize(vectors)
    ids = [document.id for document in documents]
    if options.json:
        write_json(options.json, {"model": encoder.describe(), "ids": ids, "vectors": vectors.tolist()})
    if options.csv:
        import pandas as pd

        from ..runtime.files import write_text

        write_text(options.csv, pd.DataFrame(vectors, index=pd.Index(ids, name="id")).to_csv(lineterminator="\n"))
    if options.json == "-":
        return
    target = console()
    similarity = similarity_matrix(vectors[:MOST_ROWS], vectors, encoder.model.config.similarity)
    rows = table(
        ("document", "left"), ("passages", "right"), ("coverage", "right"), ("nearest", "left"), ("score", "right")
    )
    for row, (segmented, _) in enumerate(encoded[:MOST_ROWS]):
        others = [column for column in range(len(ids)) if column != row]
        best = max(others, key=lambda column: similarity[row, column]) if others else None
        rows.add_row(
            plain(ids[row], 44),
            str(segmented.coverage.encoded_passages),
            f"{segmented.coverage.share:.0%}",
            plain(ids[best], 44) if best is not None else "",
            f"{similarity[row, best]:.3f}" if best is not None else "",
        )
    target.print(rows)
    more_rows(target, MOST_ROWS, len(ids), "document")
    target.print()
    target.print(
        plain(f"{counted(len(ids), 'document')}, vectors of {vectors.shape[1]} numbers, model {encoder.name}")
    )
    list_left_out(target, report)
    list_without_id(target, report)
    written(target, (options.json, options.csv))
