"""graphdoc encode: vectors of documents, as Parquet, JSON or CSV."""

from __future__ import annotations

import os
from typing import Annotated, Literal

from ..documents.readers import ReadingReport
from ..errors import OutputError
from ..runtime.text import counted
from .options import COUNT, OUTPUT, EncodingModel, Json, Overwrite, model_for_ray
from .output import (
    MOST_ROWS,
    Column,
    Outputs,
    Table,
    console,
    list_left_out,
    list_without_id,
    more_rows,
    names,
    percent,
    print_lines,
    require_name,
    write_json,
)
from .sources import LEAVE_OUT, Reading, RepeatsOption, noting_languages, without_repeats

TextColumn = Literal["title", "text"]


def encode(
    *sources: str,
    level: Literal["document", "section", "passage", "sentence"] = "document",
    repeats: RepeatsOption = LEAVE_OUT,
    output: Annotated[str | None, OUTPUT] = None,
    include: Annotated[tuple[TextColumn, ...], OUTPUT] = (),
    shard_size: Annotated[int, OUTPUT, COUNT] = 1024,
    overwrite: Overwrite = False,
    ray: Annotated[str | None, OUTPUT] = None,
    json: Json = None,
    model: EncodingModel = EncodingModel(),
    reading: Reading = Reading(),
) -> None:
    """Encode documents as vectors.

    Without --output the vectors go to --json, and a table shows the nearest document of each. With --output
    they go to a folder, shard by shard in constant memory; give the same command again after an interruption, and only
    what is missing is encoded. Under torchrun or accelerate launch every process encodes its share.

    Usage examples:
      graphdoc encode papers/                                   nearest documents on the terminal
      graphdoc encode papers/ notes/*.md --output vectors/
      graphdoc encode corpus.jsonl.gz --level passage --include text --output passages/
      graphdoc encode corpus.parquet --output vectors/ --dtype bfloat16

    Args:
        sources: files, folders, globs, corpora or -
        level: what gets a vector
        repeats: leave out passages that occur in 3 documents and 1 in 100 at least, such as licences, or keep them
        output: write Parquet shards (id, vector) and manifest.json to this folder
        include: also write the title of the document, or the text of what each vector is of; may be repeated
        shard_size: documents of a shard
        overwrite: replace another run's vectors in the folder
        ray: encode on a Ray cluster: local (made for this run), auto (running here), HOST:PORT or ray://HOST:PORT
    """
    if output is not None:
        require_name(output)
        if json:
            raise OutputError("--output cannot be combined with --json; run the command twice")
    elif level != "document" or include or ray:
        raise OutputError("--level, --include and --ray need --output FOLDER")
    outputs = Outputs(sources, folders=[output], json=json)
    report = ReadingReport()
    if output is None:
        _encode_here(outputs, sources, repeats, model, reading, report)
        return
    documents = reading.many(sources, report)
    encoder = model_for_ray(model, ray).load()
    with noting_languages(encoder) as noted:
        encoder, corpus = without_repeats(encoder, noted(documents), repeats)
        manifest = encoder.encode_to_disk(
            corpus,
            output,
            level=level,
            shard_size=shard_size,
            overwrite=overwrite,
            on_error=reading.on_unencodable(sources),
            report=report,
            ray=ray,
            columns=include,
        )
    # Every process of a job has the manifest; one of them reports.
    if os.environ.get("RANK", "0") == "0":
        target = console()
        manifest.summarise(target)
        list_without_id(target, report)


def _encode_here(
    outputs: Outputs,
    sources: tuple[str, ...],
    repeats: str,
    model: EncodingModel,
    reading: Reading,
    report: ReadingReport,
) -> None:
    import numpy as np

    documents, encoder = reading.all_with_model(sources, model, report)
    encoder, _ = without_repeats(encoder, documents, repeats)
    with noting_languages(encoder) as noted:
        encoded = list(encoder.stream(list(noted(documents))))
    vectors = np.concatenate([vector.numpy() for _, vector in encoded])
    ids = [document.id for document in documents]
    target = outputs.write(
        json=lambda path: write_json(path, {"model": encoder.describe(), "ids": ids, "vectors": vectors.tolist()})
    )
    if target is None:
        return
    from ..similarity.kinds import similarity_matrix, similarity_of

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
    outputs.report(target)
