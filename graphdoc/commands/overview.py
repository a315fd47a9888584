"""graphdoc overview: a whole collection at a glance, without labels, as a page, tables and JSON."""

from __future__ import annotations

import logging
from collections.abc import Sized
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ..documents.readers import ReadingReport
from ..errors import DocumentError, OtherDocumentsError, OutputError, SettingsError
from ..runtime.imports import quick_imports
from ..runtime.text import counted, one_line
from .options import COUNT, OUTPUT, EncodingModel, File, Json, Overwrite
from .output import Outputs, Reports, Table, TableColumn, Terminal, check_apart, folder_next_to, write_json
from .output import names as column_names
from .sources import KEEP, LEAVE_OUT, Reading, RepeatsOption, noting_languages, without_repeats

if TYPE_CHECKING:
    from ..encoder import DocumentEncoder
    from ..overview import Overview
    from ..overview.names import EditedName
    from ..similarity import Comparison, EncodedDocument

logger = logging.getLogger("graphdoc")

NO_GROUPS = "no groups: there are too few documents for any, or they are all alike or all apart"
SHOWN_GROUPS, SHOWN_PAIRS, SHOWN_OUTLIERS = 20, 5, 3
# Documents whose vectors are held for further reports.
_KEPT_ENCODED = 64


def overview(
    *sources: str,
    repeats: RepeatsOption = LEAVE_OUT,
    html: File = None,
    json: Json = None,
    csv: File = None,
    names: File = None,
    reports: Annotated[int | None, OUTPUT, COUNT] = None,
    vectors: Annotated[str | None, OUTPUT] = None,
    no_fit: bool = False,
    overwrite: Overwrite = False,
    model: EncodingModel = EncodingModel(),
    reading: Reading = Reading(),
) -> None:
    """Look at a collection of 2 to 20,000 documents as a whole, without labels.

    The page has a map on which close documents are alike, groups named by their keywords, the closest pairs,
    near-duplicates, outliers, the neighbours of every document, what was left out as repeated, a table and a search;
    one file that needs no network.

    Vectors go to a folder next to the output, from which a run that was interrupted goes on; --vectors names another
    one. A folder that graphdoc encode has finished is taken as it is, and no model is loaded.

    Usage examples:
      graphdoc overview papers/ --html overview.html --reports 50     with reports on the 50 closest pairs

    Args:
        sources: files, folders, globs, corpora or -
        repeats: leave out passages that occur in 3 documents and 1 in 100 at least, such as licences, or keep them
        html: write the page, one file that needs no network
        csv: write a row for every document: group, place on the map, nearest document
        names: table of the names of groups, to be edited: written where it is missing, read where it is there
        reports: number of closest pairs that get a comparison report, in a folder next to --html
        vectors: folder of vectors, finished or to be written (default: next to the output)
        no_fit: take vectors as they are; otherwise those of 50 documents and more are fitted to the collection: what
            all documents share is subtracted, and the collection's own words are added to them
        overwrite: replace the vectors that the folder holds, and files that graphdoc did not write
    """
    if not sources and vectors is None:
        raise DocumentError("there is nothing to look at; name documents, or a folder of vectors with --vectors")
    group_names: list[EditedName] | None = None
    if names is not None and Path(names).exists():
        from ..overview.names import read_names

        group_names, names = read_names(names), None
    outputs = Outputs(sources, html=html, json=json, csv=csv, names=names)
    if reports is not None and (html is None or not sources or "-" in sources):
        raise SettingsError(f"--reports {reports} needs --html, and documents that can be read a second time")
    linked = None if reports is None or html is None else Reports(html, reports, overwrite=overwrite)
    folder = Path(vectors) if vectors is not None else None
    if folder is None and outputs.paths:
        folder = folder_next_to(outputs.paths[0], "vectors")
    check_apart(sources, [], [vectors if vectors is not None else folder])
    report = ReadingReport()
    notes: list[str] = []
    links: dict[tuple[int, int], str] = {}
    # Vectors that were asked for are taken as they are; those next to the output are made or completed.
    stored = folder if vectors is not None and not overwrite and (Path(vectors) / ".manifest.json").exists() else None
    if stored is not None and linked is not None:
        raise SettingsError(f"--reports needs a run that encodes, and {stored} is finished; leave out --vectors")
    if stored is not None:
        whole = _of_vectors(stored, sources, repeats, reading, report, fit=not no_fit)
        unread = sum(not digest.sketch for digest in whole.documents)
        if unknown := report.documents - (len(whole.documents) - unread):
            notes.append(f"{counted(unknown, 'document')} without a vector in {folder}: left out")
        if unread:
            notes.append(f"{counted(unread, 'vector')} of documents that were not read: shown by their ids")
    else:
        documents = reading.documents(sources, report)
        with quick_imports():
            from ..overview import Overview

        most = model.most_passages
        encoder = model.load().with_max_passages(most)
        encoder, kept = without_repeats(encoder, noting_languages(encoder, documents), repeats)
        given: dict[str, Any] = {"report": report, "on_error": reading.on_unencodable(sources), "fit": not no_fit}
        make = partial(Overview.from_documents, encoder, kept, vectors=folder, max_passages=most, **given)
        try:
            whole = make(overwrite=overwrite)
        except OtherDocumentsError:
            if vectors is not None or not isinstance(kept, Sized):
                raise
            logger.warning("the documents have changed since %s was made; all are encoded again", folder)
            whole = make(overwrite=True)
        if linked is not None:
            links = _write_reports(linked, whole, sources, reading, encoder)
    if group_names is not None:
        whole = whole.with_names(group_names)
    named = sources or [str(folder)]
    name = ", ".join("Standard input" if name == "-" else Path(name).resolve().name for name in named)
    from ..overview.names import write_names

    target = outputs.write(
        html=lambda path: whole.to_html(path, name=name, links=links),
        json=lambda path: write_json(path, whole.to_dict()),
        csv=lambda path: whole.to_csv(path),
        names=lambda path: write_names(path, whole.groups, [digest.id for digest in whole.documents]),
    )
    _print(target, whole)
    target.lines(notes)
    outputs.report(target, report, *([linked.folder] if links and linked is not None else []))


def _of_vectors(
    folder: Path, sources: tuple[str, ...], repeats: str, reading: Reading, report: ReadingReport, *, fit: bool
) -> Overview:
    with quick_imports():
        from ..overview import Overview
    from ..vectors.folder import Manifest, read_repeats, read_vectors

    manifest = Manifest.read(folder)
    if manifest.settings.get("level", "document") != "document":
        raise OutputError(f"{folder} holds no vectors of whole documents; encode into another folder without --level")
    if repeats == KEEP and manifest.model.get("repeats"):
        raise SettingsError(f"--repeats keep: the vectors of {folder} leave out what repeats; encode them again")
    return Overview.from_vectors(
        *read_vectors(folder),
        reading.documents(sources, report) if sources else (),
        model=manifest.model,
        language=str(manifest.model.get("language") or "en"),
        repeats=read_repeats(folder),
        coverage=manifest.coverage,
        fit=fit,
    )


def _write_reports(
    folder: Reports, whole: Overview, sources: tuple[str, ...], reading: Reading, encoder: DocumentEncoder
) -> dict[tuple[int, int], str]:
    """Compare the closest pairs; their documents are read a second time, since texts are not held."""
    from ..inference.levels import encode_all_levels

    pairs = whole.pairs(folder.most)
    wanted = {whole.documents[row].id for a, b, _ in pairs for row in (a, b)}
    documents = {document.id: document for document in reading.documents(sources) if document.id in wanted}

    # Close documents come in several pairs, one soon after the other.
    @lru_cache(_KEPT_ENCODED)
    def encoded(id: str) -> EncodedDocument:
        return encode_all_levels(encoder, encoder.segment_with_text(documents[id]))

    def compare(a: int, b: int) -> Comparison | None:
        ids = [whole.documents[row].id for row in (a, b)]
        return encoder.compare(*map(encoded, ids)) if documents.keys() >= set(ids) else None

    return folder.write(pairs, compare)


def _print(target: Terminal, whole: Overview) -> None:
    from ..similarity.background import percent_closer

    title = [digest.title for digest in whole.documents]
    if whole.groups:
        rows = Table(["group", "documents", column_names("name", 60), column_names("most typical", 44)])
        for group in whole.groups[:SHOWN_GROUPS]:
            rows.add(group.number, len(group.rows), group.name, title[group.typical[0]])
        rows.print(target)
        target.more(len(whole.groups), "group", SHOWN_GROUPS)
        target.print()
    background = whole.background
    closer = [] if background is None else [TableColumn("closer than", percent_closer)]
    cosine = "fitted cosine" if whole.settings["fit"] else "cosine"
    pairs = Table([cosine, *closer, column_names("closest pairs", 44), column_names("", 44)])
    for a, b, score in whole.pairs(SHOWN_PAIRS):
        pairs.add(score, *([] if background is None else [background.share(score)]), title[a], title[b])
    pairs.print(target)
    if background is not None:
        fitted = "fitted cosine: of words, and of vectors without what all share; " if whole.settings["fit"] else ""
        target.lines([f"{fitted}closer than: the share of pairs here that have less; compare measures otherwise"])
    target.print()
    sizes = [counted(len(title), "document"), counted(len(whole.groups), "group")]
    sizes += [f"{(whole.group_of < 0).sum():,} in none"] if whole.groups else []
    sizes += [f"model {whole.model['name']}"] if whole.model.get("name") else []
    copies = f"{counted(sum(map(len, whole.duplicates)), 'document')} in {counted(len(whole.duplicates), 'set')}"
    before = " before the fit" if whole.settings["fit"] else ""
    far = ", ".join(one_line(title[row], 60) for row in whole.outliers(SHOWN_OUTLIERS))
    target.lines(
        [
            ", ".join(sizes),
            *([] if whole.groups else [NO_GROUPS]),
            f"near-duplicates: {copies} (cosine of {whole.settings['duplicates']}{before}, or nearly the same text)",
            *_repeated(whole),
            *([f"farthest from all others: {far}"] if whole.neighbours.closeness.std() > 1e-6 else []),
        ]
    )


def _repeated(whole: Overview) -> list[str]:
    """Lines on what was left out as repeated; none if nothing was."""
    repeated = whole.repeats
    if not whole.knows_repeats:
        return ["left out as repeated: not known; encode the documents again (--overwrite)"]
    if not repeated.passages:
        return []
    passages, characters = counted(len(repeated.passages), "passage"), counted(repeated.characters, "character")
    line = f"left out as repeated: {passages}, {characters}, of {counted(repeated.shortened, 'document')}"
    mostly = repeated.mostly_repeated
    return [f"{line}; {counted(mostly, 'document')} mostly boilerplate, which was kept" if mostly else line]
