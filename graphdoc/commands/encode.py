"""graphdoc encode: vectors of documents, as Parquet, JSON or CSV."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Annotated, Any, Literal

from ..documents.readers import ReadingReport
from ..errors import OutputError
from ..runtime.text import counted
from .options import COUNT, OUTPUT, EncodingModel, Json, Overwrite
from .output import MOST_ROWS, Outputs, Table, TableColumn, Terminal, names, whole_percent, write_json
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
      graphdoc encode corpus.jsonl.gz --level passage --include text --output passages/

    Args:
        sources: files, folders, globs, corpora or -
        level: what gets a vector
        repeats: leave out passages that occur in 3 documents and 1 in 100 at least, such as licences, or keep them
        output: write Parquet shards (id, vector) and .manifest.json to this folder
        include: also write the title of the document, or the text of what each vector is of; may be repeated
        shard_size: documents of a shard
        overwrite: replace another run's vectors in the folder
        ray: encode on a Ray cluster: local (made for this run), auto (running here), HOST:PORT or ray://HOST:PORT
    """
    if output is None and (level != "document" or include or ray):
        raise OutputError("--level, --include and --ray need --output FOLDER")
    if output is not None and json:
        raise OutputError("--output cannot be combined with --json; run the command twice")
    outputs = Outputs(sources, folders=[output], json=json)
    report = ReadingReport()
    if output is None:
        _encode_here(outputs, report, repeats, model, reading, *sources)
        return
    documents = reading.documents(sources, report)
    if ray is not None:
        from ..runtime.ray import require_cluster

        require_cluster(ray)
        model = replace(model, device="cpu")
    encoder = model.load()
    encoder, corpus = without_repeats(encoder, noting_languages(encoder, documents), repeats)
    options: dict[str, Any] = {"level": level, "shard_size": shard_size, "overwrite": overwrite, "columns": include}
    options |= {"on_error": reading.on_unencodable(sources), "report": report, "ray": ray}
    manifest = encoder.encode_to_disk(corpus, output, **options)
    # Every process of a job has the manifest; one of them reports.
    if os.environ.get("RANK", "0") == "0":
        target = Terminal()
        manifest.summarize(target)
        target.without_id(report)


def _encode_here(
    outputs: Outputs, report: ReadingReport, repeats: str, model: EncodingModel, reading: Reading, *sources: str
) -> None:
    import numpy as np

    documents, encoder = reading.all_with_model(sources, model, report)
    encoder, _ = without_repeats(encoder, documents, repeats)
    encoded = list(encoder.stream(list(noting_languages(encoder, documents))))
    vectors = np.concatenate([vector.numpy() for _, vector in encoded])
    ids = [document.id for document in documents]
    target = outputs.write(
        json=lambda path: write_json(path, {"model": encoder.describe(), "ids": ids, "vectors": vectors.tolist()})
    )
    from ..similarity.kinds import similarity_matrix, similarity_of

    kind = similarity_of(encoder.model.config.similarity).vector_similarity
    similarity = similarity_matrix(vectors[:MOST_ROWS], vectors, kind)
    np.fill_diagonal(similarity, -np.inf)
    rows = Table(
        [names("document", 44), "passages", TableColumn("coverage", whole_percent), names("nearest", 44), "score"]
    )
    for row, scores in enumerate(similarity):
        coverage = encoded[row][0].coverage
        nearest = (ids[scores.argmax()], float(scores.max())) if len(ids) > 1 else ("", "")
        rows.add(ids[row], coverage.encoded_passages, coverage.share, *nearest)
    rows.print(target)
    target.more(len(ids), "document")
    size = f"{counted(len(ids), 'document')}, vectors of {vectors.shape[1]} numbers"
    target.print()
    target.lines([f"{size}, model {encoder.name}"])
    outputs.report(target, report)
