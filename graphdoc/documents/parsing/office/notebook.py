"""Notebooks of Jupyter (IPYNB) to sections: their Markdown, and their code as it stands."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from ....errors import DocumentError
from ..html import dropped_metadata
from ..markdown import parse_markdown
from ..outline import ParsedDocument

_FENCES = re.compile(r"^ {0,3}(`{3,})", re.MULTILINE)


def parse_notebook(text: str) -> ParsedDocument:
    """Parse a notebook.

    Args:
        text: its JSON, of format 3 or 4.

    Returns:
        Title, sections and metadata; outputs of cells are left out and counted.

    Raises:
        DocumentError: it is no notebook.
    """
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"it is no notebook: invalid JSON ({error}); save it again") from None
    dropped: Counter[str] = Counter()
    parsed = parse_markdown("\n\n".join(_pieces(_cells(notebook), dropped)))
    found = dict(parsed.metadata)
    counts = Counter(found.pop("dropped_elements", {})) + dropped
    title = notebook.get("metadata", {}).get("title") if isinstance(notebook.get("metadata"), dict) else None
    return ParsedDocument(
        parsed.sections, parsed.title or (title if isinstance(title, str) else ""), found | dropped_metadata(counts)
    )


def _cells(notebook: Any) -> list[Any]:
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if cells is None and isinstance(notebook, dict) and isinstance(notebook.get("worksheets"), list):
        cells = [
            cell for sheet in notebook["worksheets"] if isinstance(sheet, dict) for cell in sheet.get("cells", [])
        ]
    if not isinstance(cells, list):
        raise DocumentError("it is no notebook: it has no cells; save it again")
    return cells


def _pieces(cells: list[Any], dropped: Counter[str]) -> Iterator[str]:
    for cell in cells:
        if not isinstance(cell, Mapping):
            continue
        source = cell.get("source", cell.get("input", ""))
        source = "".join(map(str, source)) if isinstance(source, list) else str(source)
        match cell.get("cell_type"):
            case "markdown":
                yield source
            case "heading":
                level = cell.get("level", 1)
                yield f"{'#' * (level if isinstance(level, int) and 1 <= level <= 6 else 1)} {source}"
            case _ if source.strip():
                # A fence longer than any inside keeps the code together.
                longest = max((len(fence) for fence in _FENCES.findall(source)), default=2)
                fence = "`" * max(longest + 1, 3)
                yield f"{fence}\n{source}\n{fence}"
        dropped["output"] += len(cell.get("outputs") or ()) if isinstance(cell.get("outputs"), list) else 0
