"""graphdoc encode: vectors of documents, on the screen or in a folder."""

from __future__ import annotations

import argparse
import os

from ..errors import OutputError
from ..runtime.files import write_csv
from ..runtime.text import counted
from .arguments import (
    add_model_arguments,
    add_ray_argument,
    add_reading_arguments,
    load_encoder,
    positive,
    prepare_for_ray,
)
from .languages import noting_languages
from .outputs import Outputs, require_name, write_json
from .repeated import add_repeats_argument, without_repeats
from .sources import encodable, no_documents, read_many, skips_unencodable
from .summaries import list_left_out, list_without_id, print_lines
from .tables import MOST_ROWS, Column, Table, console, more_rows, names, percent

HELP = "encode documents into vectors"
DESCRIPTION = """Encode documents into vectors.

With --output the vectors go to a folder of Parquet shards with a manifest: any number of documents, in constant
memory. A run that was interrupted goes on where it stopped when the same command is given again. Under torchrun or
accelerate launch every process takes its share; with --ray those of a Ray cluster do, and the folder is written here.
Without --output a table of the documents and their nearest neighbours is shown."""
EPILOG = """examples:
  graphdoc encode papers/ --output vectors/
  graphdoc encode corpus.jsonl.gz --text-column body --output vectors/ --dtype bfloat16 --on-error skip
  graphdoc encode *.md --json vectors.json
  graphdoc encode papers/ --output passages/ --level passage --columns title,text
  torchrun --nproc-per-node 8 -m graphdoc encode corpus/ --output vectors/
  graphdoc encode corpus/ --output vectors/ --ray head-node:6379
"""

# What graphdoc.vectors.shards can write beside vectors; it is not imported before it is used.
TEXT_COLUMNS = ("title", "text")
OUTPUTS = Outputs(
    folder=False,
    json=(None, "write ids and vectors as JSON (- for standard output)"),
    csv=(None, "write ids and vectors as CSV"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("sources", metavar="SOURCE", nargs="+", help="files, folders, globs, corpora or -")
    parser.add_argument(
        "--level",
        choices=("document", "section", "passage", "sentence"),
        default="document",
        help="what gets a vector (default: document)",
    )
    parser.add_argument("--normalize", action="store_true", help="bring vectors to unit length")
    output = OUTPUTS.add_to(parser)
    output.add_argument("--output", metavar="FOLDER", help="write Parquet shards (id, vector) and manifest.json there")
    output.add_argument(
        "--shard-size", type=positive, default=1024, metavar="N", help="documents a shard (default: 1024)"
    )
    output.add_argument(
        "--columns",
        type=_columns,
        default=(),
        metavar="NAMES",
        help="also write title, text or title,text: the title of the document, the text of what each vector is of",
    )
    output.add_argument("--overwrite", action="store_true", help="replace another run's output in the folder")
    add_ray_argument(output)
    add_model_arguments(parser)
    add_repeats_argument(add_reading_arguments(parser))


def _columns(value: str) -> tuple[str, ...]:
    """Names of columns, with commas between them."""
    names = tuple(name.strip() for name in value.split(","))
    for name in names:
        if name not in TEXT_COLUMNS:
            raise argparse.ArgumentTypeError(f"{name!r} is no column; give {', '.join(TEXT_COLUMNS)} or both")
    return names


def run(options: argparse.Namespace) -> None:
    """Encode, print and write."""
    if options.output is not None:
        require_name(options.output)
        if options.json or options.csv:
            raise OutputError("--output cannot be combined with --json or --csv; run the command twice")
    elif options.columns:
        raise OutputError(f"--columns {','.join(options.columns)} needs --output FOLDER")
    elif options.ray is not None:
        raise OutputError(f"--ray {options.ray} needs --output FOLDER")
    elif options.level != "document":
        raise OutputError(f"--level {options.level} needs --output FOLDER; all else holds document vectors only")
    OUTPUTS.prepare(options, options.sources, [options.output])
    if options.output:
        _encode_to_folder(options)
    else:
        _encode_here(options)


def _encode_to_folder(options: argparse.Namespace) -> None:
    from ..documents.readers import ReadingReport

    report = ReadingReport()
    documents = read_many(options.sources, options, report)
    prepare_for_ray(options)
    encoder = load_encoder(options)
    with noting_languages(encoder) as noted:
        encoder, corpus = without_repeats(encoder, noted(documents), options)
        manifest = encoder.encode_to_disk(
            corpus,
            options.output,
            level=options.level,
            normalize=options.normalize,
            shard_size=options.shard_size,
            overwrite=options.overwrite,
            on_error="skip" if skips_unencodable(options, options.sources) else "stop",
            report=report,
            ray=options.ray,
            columns=options.columns,
        )
    # Every process of a job has the manifest; one of them reports.
    if os.environ.get("RANK", "0") == "0":
        target = console()
        manifest.summarise(target)
        list_without_id(target, report)


def _encode_here(options: argparse.Namespace) -> None:
    import numpy as np

    from ..documents.readers import ReadingReport

    report = ReadingReport()
    documents = list(read_many(options.sources, options, report))
    encoder = load_encoder(options) if documents else None
    if encoder is not None and skips_unencodable(options, options.sources):
        documents = list(encodable(documents, encoder, report))
    if encoder is None or not documents:
        raise no_documents(options.sources, report)
    encoder, _ = without_repeats(encoder, documents, options)
    with noting_languages(encoder) as noted:
        encoded = list(encoder.stream(list(noted(documents))))
    vectors = np.concatenate([vector.numpy() for _, vector in encoded])
    if options.normalize:
        from sklearn.preprocessing import normalize

        vectors = normalize(vectors)
    ids = [document.id for document in documents]
    target = OUTPUTS.write(
        options,
        json=lambda path: write_json(path, {"model": encoder.describe(), "ids": ids, "vectors": vectors.tolist()}),
        csv=lambda path: write_csv(
            path,
            ["id", *map(str, range(vectors.shape[1]))],
            ([id, *vector] for id, vector in zip(ids, vectors, strict=True)),
        ),
    )
    if target is None:
        return
    from ..similarity.cosine import similarity_matrix
    from ..similarity.kinds import similarity_of

    similarity = similarity_matrix(
        vectors[:MOST_ROWS], vectors, similarity_of(encoder.model.config.similarity).vectors
    )
    rows = Table([names("document", 44), "passages", Column("coverage", percent), names("nearest", 44), "score"])
    for row, (segmented, _) in enumerate(encoded[:MOST_ROWS]):
        others = [column for column in range(len(ids)) if column != row]
        best = max(others, key=lambda column: similarity[row, column]) if others else None
        coverage = segmented.coverage
        nearest = ("", "") if best is None else (ids[best], float(similarity[row, best]))
        rows.add(ids[row], coverage.encoded_passages, coverage.share, *nearest)
    rows.print(target)
    more_rows(target, len(ids), "document")
    target.print()
    print_lines(
        target, [f"{counted(len(ids), 'document')}, vectors of {vectors.shape[1]} numbers, model {encoder.name}"]
    )
    list_left_out(target, report)
    list_without_id(target, report)
    OUTPUTS.report(options, target)
