"""The pairs of an overview: reports on the closest ones, and the command that compares any two."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from ..documents.parsing.formats import is_corpus, split_suffix
from ..errors import SettingsError
from ..runtime.files import note_own_file
from .arguments import COLUMNS, load_encoder
from .outputs import report_name
from .sources import read_many

if TYPE_CHECKING:
    from ..analysis.overview_page.content import Command, Report
    from ..encoder import DocumentEncoder
    from ..overview import Overview
    from ..segmentation.spans import Coverage
    from ..similarity.encoded_document import EncodedDocument
    from ..vectors.folder import Manifest

# Documents whose vectors are held for further reports.
_KEPT_ENCODED = 64
# Parts of a description that leave a model the same.
_MAY_DIFFER = ("dtype", "repeats")
# What readers call a row of a corpus: the file, and a line or a row.
_ROW = re.compile(r"(?P<file>.+?):(?: row )?\d+")


def encoder_of(options: argparse.Namespace, manifest: Manifest) -> DocumentEncoder:
    """The encoder that the arguments name, if it is the one of stored vectors, to whose scores reports belong.

    Args:
        options: the arguments of the command.
        manifest: of the vectors.

    Raises:
        SettingsError: it is another one.
    """
    encoder = load_encoder(options)
    here = json.loads(json.dumps(encoder.describe()))
    for name, now in here.items():
        before = manifest.model.get(name, now)
        if before != now and name not in _MAY_DIFFER:
            raise SettingsError(
                f"--reports: {manifest.folder} was made with {name}={before!r}, and the model has {now!r}; give "
                "--model and --max-passages as they were"
            )
    return encoder


def write_reports(
    options: argparse.Namespace, overview: Overview, encoder: DocumentEncoder
) -> tuple[list[Report], Coverage]:
    """Compare the closest pairs; their documents are read a second time, since texts are not held.

    Args:
        options: the arguments of the command.
        overview: the overview.
        encoder: what its vectors were made with.

    Returns:
        The reports, and what of their documents was encoded.
    """
    from ..analysis.overview_page.content import Report
    from ..inference.all_levels import encode_all_levels
    from ..runtime.progress import progress_bar
    from ..segmentation.spans import Coverage

    pairs = overview.pairs(options.reports)
    wanted = {overview.documents[row].id for a, b, _ in pairs for row in (a, b)}
    found = {one.id: one for one in read_many(options.sources, options) if one.id in wanted}
    folder = reports_folder(options)
    reports: list[Report] = []
    coverage: dict[str, Coverage] = {}

    # Close documents come in several pairs, one soon after the other.
    @lru_cache(_KEPT_ENCODED)
    def encoded(id: str) -> EncodedDocument:
        segmented = encoder.segment_with_text(found[id])
        coverage[id] = segmented.coverage
        return encode_all_levels(encoder, segmented)

    with progress_bar(None, len(pairs), "Comparing", "pairs") as bar:
        for number, (a, b, _) in enumerate(pairs, start=1):
            ids = [overview.documents[row].id for row in (a, b)]
            if all(id in found for id in ids):
                name = report_name(number)
                note_own_file(encoder.compare(*map(encoded, ids)).to_html(folder / name))
                reports.append(Report(a, b, f"{quote(folder.name)}/{name}"))
            bar.update(1)
    return reports, sum(coverage.values(), Coverage())


def reports_folder(options: argparse.Namespace) -> Path:
    """Where reports go: beside the page."""
    return beside(options.html, "reports")


def beside(file: str, what: str) -> Path:
    """A folder beside a file, called after it and what it holds."""
    path = Path(file)
    return path.with_name(f"{path.stem}-{what}")


def _place(id: str, place: str | None) -> str | None:
    """What a command calls a document that was read; None where it cannot name it."""
    if place is None:
        return None
    row = _ROW.fullmatch(place)
    if row is not None and is_corpus(split_suffix(Path(row["file"]))[1]):
        return f"{row['file']}#{id}"
    return place if Path(place).is_file() else None


def command_of(
    options: argparse.Namespace, overview: Overview, folder: Path | None, places: Mapping[str, str], *, is_stored: bool
) -> Command:
    """The command that compares two of the documents as the page does.

    Args:
        options: the arguments of the command.
        overview: the overview.
        folder: where its vectors are.
        places: where documents were read, by their ids.
        is_stored: whether the vectors were there, made with settings that the arguments do not say.
    """
    from ..analysis.overview_page.content import Command

    made_with = vars(options)
    if is_stored:
        made_with = made_with | {
            key: overview.model[key] for key in ("dtype", "max_passages") if key in overview.model
        }
        # Of a model in a folder, the record has the last part of its name alone.
        name = str(overview.model.get("name", options.model))
        made_with["model"] = options.model if Path(options.model).name == name else name
    given = [] if made_with["model"] == "mini" else _option("model", made_with["model"])
    if made_with["dtype"] != "auto":
        given += _option("dtype", made_with["dtype"])
    if "max_passages" in made_with:
        given += ["--max-passages", "all" if made_with["max_passages"] is None else str(made_with["max_passages"])]
    if overview.model.get("repeats") and folder is not None:
        given += _option("repeats-of", folder)
    if options.no_text_headings:
        given.append("--no-text-headings")
    for name in COLUMNS:
        if (column := getattr(options, f"{name}_column")) != name:
            given += _option(f"{name}-column", column)
    if options.encoding != "utf-8":
        given += _option("encoding", options.encoding)
    named = [_place(digest.id, places.get(digest.id)) for digest in overview.documents]
    return Command(named, shlex.join([*given, "--html", "report.html"]))


def _option(name: str, value: object) -> list[str]:
    """An option and its value, which may begin as options do."""
    return [f"--{name}={value}"] if str(value).startswith("-") else [f"--{name}", str(value)]
