"""The HTML page of a classifier's mistakes: what was expected, what was given, and the passages behind it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ...analysis.pages import page
from ...analysis.pages.marks import marked
from ...runtime.files import write_text
from ...runtime.text import counted
from ..classification import ClassificationScores, Mistake

# A page of twenty books would be slow to open; the whole text is a link away.
MOST_CHARACTERS = 20_000

_TEMPLATE = Path(__file__).parent / "mistakes.html"
_STYLE = Path(page.__file__).parent / "page.css"


def write_mistakes(
    path: str | Path,
    mistakes: Sequence[Mistake],
    scores: ClassificationScores,
    model: str,
    *,
    places: Mapping[str, str] | None = None,
    passages: int = 3,
) -> Path:
    """Write the page of a classifier's mistakes, one file that needs no network.

    Args:
        path: the HTML file; links to documents are relative to its folder.
        mistakes: the mistakes, in the order in which they are shown.
        scores: what was measured on all documents.
        model: name of the model.
        places: where documents were found, by id: a file, or a file and the row in it.
        passages: most passages of a mistake.

    Returns:
        The file.

    Raises:
        OutputError: the file cannot be written.
    """
    folder = Path(os.path.realpath(path)).parent
    return write_text(path, render_mistakes(mistakes, scores, model, places, passages, folder))


def render_mistakes(
    mistakes: Sequence[Mistake],
    scores: ClassificationScores,
    model: str,
    places: Mapping[str, str] | None = None,
    passages: int = 3,
    folder: Path | None = None,
) -> str:
    """The page of a classifier's mistakes (see :func:`write_mistakes`).

    Args:
        mistakes: the mistakes, in the order in which they are shown.
        scores: what was measured on all documents.
        model: name of the model.
        places: where documents were found, by id.
        passages: most passages of a mistake.
        folder: where the page will lie; None for the current folder.
    """
    wrong = scores.documents - round(scores.accuracy * scores.documents)
    summary = (
        f"{wrong:,} of {counted(scores.documents, 'document')} got other labels than theirs "
        f"(accuracy {scores.accuracy:.3f}, macro F1 {scores.macro_f1:.3f})"
    )
    if mistakes:
        subject = "is the mistake" if len(mistakes) == 1 else f"are the {len(mistakes):,} mistakes"
        summary += f"; below {subject} that the model is most sure of"
    shown = [_shown(mistake, passages, places or {}, folder or Path.cwd()) for mistake in mistakes]
    return page.render(_TEMPLATE, {"model": model, "summary": f"{summary}.", "mistakes": shown}, styles=[_STYLE])


def _shown(mistake: Mistake, passages: int, places: Mapping[str, str], folder: Path) -> dict[str, Any]:
    """What the page shows of one mistake."""
    content = mistake.to_dict(passages)
    probabilities = content["probabilities"]
    place = places.get(content["id"], "")
    pieces, left_out = _text_of(mistake, content["passages"])
    return {
        **content,
        "title": content["title"] or content["id"],
        "place": place,
        "href": _link(place, folder),
        "probability": f"{probabilities[content['label']]:.3f}",
        "truth": [
            (name, f"{probabilities[name]:.3f}" if name in probabilities else None) for name in content["truth"]
        ],
        "coverage": f"{content['coverage']:.0%}",
        "explained": list(probabilities),
        "passages": [
            {**passage, "contributions": [f"{value:+.3f}" for value in passage["contributions"].values()]}
            for passage in content["passages"]
        ],
        "sections": pieces,
        "left_out": f"{counted(left_out, 'more character')} are not shown" if left_out else "",
    }


def _text_of(mistake: Mistake, listed: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """The sections of a document in marked and unmarked pieces, and how many characters of it are left out."""
    sections, room, left_out = [], MOST_CHARACTERS, 0
    for number, section in enumerate(mistake.prediction.document.sections):
        text = section.text[:room]
        left_out += len(section.text) - len(text)
        room -= len(text)
        spans = [(entry["start"], entry["end"]) for entry in listed if entry["section"] == number]
        if section.text and not text:
            continue
        sections.append({"heading": section.heading, "pieces": marked(text, spans)})
    return sections, left_out


def _link(place: str, folder: Path) -> str | None:
    """A link from a folder to the file that a place names; None if it names none."""
    file = place
    while file and not Path(file).is_file():
        # What follows the last colon is a row or line.
        file = file.rpartition(":")[0]
    return quote(Path(os.path.relpath(os.path.realpath(file), folder)).as_posix()) if file else None
