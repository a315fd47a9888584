"""graphdoc index and serve: documents in an index that is kept up to date, and served over HTTP."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from ..documents.readers import ReadingReport
from ..errors import OutputError, SettingsError
from ..runtime.imports import quick_imports
from ..runtime.text import counted
from ..settings.document import Paragraph
from .options import OUTPUT, EncodingModel, Json, ModelOptions
from .output import Outputs, Terminal, write_json
from .sources import KEEP, LEAVE_OUT, CorpusReading, Reading, RepeatsOption, not_empty, noting_languages

if TYPE_CHECKING:
    from ..retrieval.index import DocumentIndex
    from ..retrieval.updating import UpdateReport


def index(
    *sources: str,
    output: Annotated[str, OUTPUT],
    sentences: Paragraph | None = None,
    repeats: RepeatsOption | None = None,
    delete: tuple[str, ...] = (),
    maintain: bool = False,
    describe: bool = False,
    json: Json = None,
    model: EncodingModel = EncodingModel(),
    reading: Reading = Reading(),
) -> None:
    """Index documents, so that graphdoc search finds them by words and by vectors.

    Give the same command again to bring the index up to date: documents that are new are added, those that changed are
    replaced, and of these only passages whose text changed are encoded. Documents that are missing from the sources
    stay; --delete removes them. A run that was interrupted goes on where it stopped.

    Usage examples:
      graphdoc index papers/ --output papers.index
      graphdoc index papers/ --output papers.index               again: only what is new or changed is encoded
      graphdoc index papers/ --output papers.index --sentences section
      graphdoc index --output papers.index --delete smith2019    remove a document

    Args:
        sources: files, folders, globs, corpora or -
        output: the index, which is made if there is none: a folder, or a place in an object store (s3://bucket/index)
        sentences: keep the vectors of all sentences, by which search --document ranks with --by sentences; those of a
            section, part between blank lines or passage belong together
        repeats: leave out passages that occur in 3 documents and 1 in 100 at least, such as licences, or keep them
            (default: leave-out, or as the index was made)
        delete: id of a document that is removed; may be repeated
        maintain: bring statistics and search structures up to date now
        describe: show what the index holds and was made with
    """
    if not (sources or delete or maintain or describe):
        raise SettingsError("there is nothing to do; name documents, or give --delete, --maintain or --describe")
    if sources:
        # What is missing is found before the import, which takes seconds; nothing is read yet.
        reading.documents(sources)
    with quick_imports():
        from ..retrieval.index import DocumentIndex
        from ..retrieval.lance import folder_of

    folder = folder_of(output) if output else None
    outputs = Outputs(sources, folders=[folder if output else ""], json=json)
    if folder is not None and folder.is_file():
        raise OutputError(f"{folder} is a file; name a folder for the index")
    opened = model.open_index(output) if not sources or DocumentIndex.exists(output) else None
    if opened is not None:
        made_with = {"sentences": opened.paragraph or "no sentences", "repeats": opened.record.get("repeats", KEEP)}
        for option, value in (("sentences", sentences), ("repeats", repeats)):
            if value not in (None, made_with[option]):
                raise SettingsError(
                    f"--{option} {value}: {opened.path} was made with {made_with[option]}; leave it out, or index "
                    "the documents into another path"
                )
    done: dict[str, Any] = {}
    lines: list[str] = []
    report = ReadingReport()
    if sources:
        opened, update = update_index(
            opened, output, sources, model, reading, report, sentences=sentences or False, repeats=repeats
        )
        done["update"] = {**asdict(update), "coverage": update.coverage.to_dict()}
        lines += update_lines(update)
    assert opened is not None
    if delete:
        unknown = [id for id in delete if id not in opened]
        done["deleted"] = opened.delete(list(delete))
        not_there = f"; not there: {', '.join(unknown)}" if unknown else ""
        lines.append(f"deleted: {counted(done['deleted'], 'document')}{not_there}")
    if maintain:
        opened.maintain()
    state = opened.state()
    about = opened.describe() | {name: getattr(state, name) for name in ("rows", "waiting", "unindexed")}
    target = outputs.write(json=lambda path: write_json(path, {**done, "index": about}))
    sizes = [counted(about[f"{name}s"], name) for name in ("document", "passage")]
    lines.append(f"{opened.path}: {', '.join(sizes)}")
    if describe:
        lines += _description(opened, about)
    if state.is_maintenance_due:
        lines.append("maintenance is due: run it with --maintain")
    target.lines(lines)
    outputs.report(target, report)


def _description(opened: DocumentIndex, about: dict[str, Any]) -> list[str]:
    model = about["model"]
    graph = model["graph_kind"] if model["graph_layers"] else "no"
    return [
        f"sentences kept, by {opened.paragraph}" if opened.paragraph else "no sentences kept",
        f"model {model['name']} ({model['backbone']}, {graph} graph, {model['dtype']})",
        f"{counted(about['rows'], 'row')}, {about['unindexed']:,} not yet indexed",
        "fields: " + (", ".join(f"{name} ({kind})" for name, kind in about["fields"].items()) or "none"),
    ]


def update_index(
    opened: DocumentIndex | None,
    path: str,
    sources: tuple[str, ...],
    model: ModelOptions,
    reading: CorpusReading,
    report: ReadingReport,
    *,
    sentences: Paragraph | bool = False,
    repeats: str | None = None,
) -> tuple[DocumentIndex, UpdateReport]:
    """Bring an index up to date with sources, or make it at a path where there is none."""
    with quick_imports():
        from ..retrieval.index import DocumentIndex

    documents = not_empty(reading.documents(sources, report), sources, report)
    if opened is None:
        # Only now that there is something to put into it.
        kept, most = (repeats or LEAVE_OUT) == KEEP, model.most_passages
        opened = DocumentIndex.create(path, model.load(), sentences=sentences, repeats=kept, max_passages=most)
    update = opened.update(noting_languages(opened.encoder, documents), on_error=reading.on_unencodable(sources))
    report.leave_out(update.skipped)
    return opened, update


def update_lines(report: UpdateReport) -> list[str]:
    """Lines on what an update did, for the terminal."""
    lines = [
        f"added {counted(report.added, 'document')}, replaced {report.replaced:,}, unchanged {report.unchanged:,}; "
        f"encoded {counted(report.encoded_passages, 'passage')}"
        + (f", reused {report.known_passages:,}" if report.known_passages else "")
        + (f"; encoded {counted(report.encoded_sentences, 'sentence')}" if report.encoded_sentences else "")
    ]
    if report.rebuilt:
        lines.append(f"rebuilt {counted(report.rebuilt, 'document')}, in which other passages repeat than before")
    coverage = report.coverage
    if coverage.documents_not_whole:
        reasons = ", ".join(f"{counted(count, 'character')}: {reason}" for reason, count in coverage.left_out.items())
        lines.append(
            f"not indexed whole: {counted(coverage.documents_not_whole, 'document')} ({reasons}); --max-passages all "
            "indexes every passage"
        )
    return lines


def serve(
    index: str,
    /,
    *,
    host: str = "127.0.0.1",
    port: Annotated[int, Parameter(validator=Number(gte=1, lte=65_535))] = 8765,
    name: tuple[str, ...] = (),
    model: ModelOptions = ModelOptions(),
) -> None:
    """Serve an index over HTTP until interrupted.

    The page is at http://127.0.0.1:8765/, JSON at /search?q=..., tools for agents (MCP) at /mcp, and a description of
    all at /openapi.json. What is served can be read by everybody who reaches the address; without --host that is this
    machine alone. The server reads the index and no other file; queries and numbers of hits are limited.

    Usage examples:
      graphdoc serve papers.index --port 9000
      curl 'http://127.0.0.1:8765/search?q=tides&top_k=3'

    Args:
        index: an index that graphdoc index has written
        host: address to listen at; 127.0.0.1 is this machine
        port: port to listen at
        name: a name by which browsers reach it; may be repeated
    """
    from ..serving.application import LOOPBACK, search_application
    from ..serving.application import serve as run_server
    from ..serving.service import SearchService

    opened = model.open_index(index)
    hosts = dict.fromkeys((*LOOPBACK, *((host,) if host != "0.0.0.0" else ()), *name))
    application = search_application(SearchService(opened), hosts=tuple(hosts))
    # Loaded before the first request has to wait for it.
    encoder = opened.encoder
    state = opened.state()

    def announce(address: str) -> None:
        serving = f"serving {state.documents:,} documents of {opened.path} with {encoder.name} at {address}"
        Terminal().lines([f"{serving} (Ctrl-C ends it)"])
        # Whoever started it through a pipe waits for this line.
        sys.stdout.flush()

    run_server(application, host, port, announce)
