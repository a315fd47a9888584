"""What the terminal shows of several documents compared with each other."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from .summaries import coverage_line, plain, table

if TYPE_CHECKING:
    from rich.console import Console

    from ..similarity import MutualComparison


def summarise_all(target: Console, comparison: MutualComparison) -> None:
    """Print the score of every two documents with their closest sections, and what was encoded.

    Args:
        target: where to print.
        comparison: the documents.
    """
    documents = comparison.documents
    for number, encoded in enumerate(documents, start=1):
        document = encoded.segmented.document
        target.print(plain(f"D{number}  {document.title or document.id} [{document.id}]"))
    target.print(f"\n{comparison.similarity}, model {plain(str(comparison.model['name'])).markup}\n")
    rows = table(
        ("documents", "left"), ("score", "right"), ("closest sections", "left"), ("", "left"), ("score", "right")
    )
    for i, j in combinations(range(len(documents)), 2):
        (top, bottom), (left, right) = (comparison.first_sections[k : k + 2] for k in (i, j))
        block = comparison.sections[top:bottom, left:right]
        best = [int(place) for place in np.unravel_index(block.argmax(), block.shape)]
        names = []
        for k, row in zip((i, j), best, strict=True):
            number = documents[k].section_numbers[row]
            names.append(plain(documents[k].segmented.document.section_name(number), 36))
        score = comparison.document_scores[i, j]
        rows.add_row(f"D{i + 1} D{j + 1}", f"{score:.3f}", *names, f"{block[best[0], best[1]]:.3f}")
    target.print(rows)
    target.print()
    for number, encoded in enumerate(documents, start=1):
        target.print(coverage_line(f"D{number}", encoded.segmented.coverage))
