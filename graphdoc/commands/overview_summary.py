"""What graphdoc overview prints: groups, closest pairs, and what there is besides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.text import counted, one_line
from .repeated import KEEP
from .summaries import print_lines
from .tables import Column, Table, names

if TYPE_CHECKING:
    from rich.console import Console

    from ..overview import Overview

SHOWN_GROUPS, SHOWN_PAIRS, SHOWN_OUTLIERS = 20, 5, 3


def print_overview(target: Console, overview: Overview, *, keeps_repeats: bool) -> None:
    """Print what is in a collection.

    Args:
        target: where to.
        overview: the overview.
        keeps_repeats: whether what repeats was left in on purpose.
    """
    title = [digest.title for digest in overview.documents]
    without = int((overview.group_of < 0).sum())
    rows = Table([Column("group"), Column("documents"), names("telling words", 44), names("most typical", 44)])
    for group in overview.groups[:SHOWN_GROUPS]:
        rows.add(group.number, len(group.rows), ", ".join(group.words[:5]), title[group.typical[0]])
    if overview.groups:
        rows.print(target)
        if len(overview.groups) > SHOWN_GROUPS:
            print_lines(target, [f"... and {counted(len(overview.groups) - SHOWN_GROUPS, 'more group')}"])
        target.print()
    pairs = Table(["cosine", names("closest pairs", 44), names("", 44)])
    for a, b, score in overview.pairs(SHOWN_PAIRS):
        pairs.add(score, title[a], title[b])
    pairs.print(target)
    target.print()
    copies = sum(map(len, overview.duplicates))
    far = ", ".join(one_line(title[row], 60) for row in overview.outliers(SHOWN_OUTLIERS))
    model = overview.model.get("name")
    print_lines(
        target,
        [
            f"{counted(len(title), 'document')}, {counted(len(overview.groups), 'group')}"
            + (f", {without:,} in none" if overview.groups else "")
            + (f", model {model}" if model else ""),
            f"near-duplicates: {counted(copies, 'document')} in {counted(len(overview.duplicates), 'set')}"
            f" (cosine of {overview.settings['duplicates']} or the same text)",
            *_repeated(overview, keeps_repeats),
            f"farthest from all others: {far}",
        ],
    )


def _repeated(overview: Overview, keeps_repeats: bool) -> list[str]:
    """What is said of what was left out as repeated; nothing where nothing was."""
    found = overview.repeats
    if keeps_repeats:
        return [f"left out as repeated: nothing, since --repeats {KEEP} keeps it"]
    if not overview.knows_repeats:
        return [
            "left out as repeated: not known; name all documents of the vectors, or encode them again (--overwrite)"
        ]
    if not found.passages:
        kept = f"{counted(found.kept, 'document')} of little else, kept whole"
        return [f"left out as repeated: nothing; {kept}"] if found.kept else []
    passages, characters = counted(len(found.passages), "passage"), counted(found.characters, "character")
    kept = f"; {counted(found.kept, 'document')} of little else, kept whole" if found.kept else ""
    return [
        f"left out as repeated: {passages}, {characters} without the space between them, of "
        f"{counted(found.shortened, 'document')}{kept}"
    ]
