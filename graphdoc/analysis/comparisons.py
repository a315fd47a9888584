"""Comparisons that draw themselves: what :meth:`graphdoc.DocumentEncoder.compare` gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, overload

from ..runtime.files import write_text
from ..similarity.comparison import Comparison, Level
from ..similarity.mutual_comparison import MutualComparison

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class DrawnComparison(Comparison):
    """Two documents compared at every level, as data, as a report and as a picture."""

    @overload
    def to_html(self, path: None = None) -> str: ...
    @overload
    def to_html(self, path: str | Path) -> Path: ...
    def to_html(self, path: str | Path | None = None) -> str | Path:
        """Write the self-contained report, one file that needs no network.

        Args:
            path: file to write, atomically; None returns the page instead.

        Returns:
            The file, or without one the HTML text.

        Raises:
            OutputError: the file cannot be written.
        """
        from .report.page import render_report

        page = render_report(self.to_dict())
        return page if path is None else write_text(path, page)

    def plot(self, path: str | Path | None = None, level: Level = "section") -> Figure:
        """Draw the matrix of a level as a heat map.

        Args:
            path: image file to write (PNG, SVG or PDF by its suffix); None only returns the figure.
            level: ``section``, ``passage``, ``paragraph`` or ``sentence``.

        Raises:
            OutputError: the file cannot be written.
        """
        from .figures.comparison import plot_comparison

        return plot_comparison(self, path, level)


@dataclass(frozen=True, repr=False)
class DrawnMutualComparison(MutualComparison):
    """Several documents, every part with every other, as data and as a picture."""

    def plot(self, path: str | Path | None = None) -> Figure:
        """Draw documents, sections and passages as matrices, and the texts of the strongest pairs of passages.

        Args:
            path: image file to write (PNG, SVG or PDF by its suffix); None only returns the figure.

        Raises:
            OutputError: the file cannot be written.
        """
        from .figures.comparison import plot_mutual_comparison

        return plot_mutual_comparison(self, path)

    def plot_documents(self, path: str | Path | None = None) -> Figure:
        """Draw the similarities of any number of documents as one matrix, those that are alike next to each other.

        Args:
            path: image file to write (PNG, SVG or PDF by its suffix); None only returns the figure.

        Raises:
            OutputError: the file cannot be written.
        """
        from .figures.canvas import document_name
        from .figures.comparison import plot_matrix

        names = [document_name(encoded.segmented.document) for encoded in self.documents]
        return plot_matrix(self.document_scores, names, self.similarity, str(self.model.get("name")), path)

    @overload
    def to_html(self, path: None = None, *, links: Mapping[tuple[int, int], str] | None = None) -> str: ...
    @overload
    def to_html(self, path: str | Path, *, links: Mapping[tuple[int, int], str] | None = None) -> Path: ...
    def to_html(
        self, path: str | Path | None = None, *, links: Mapping[tuple[int, int], str] | None = None
    ) -> str | Path:
        """Write the page of scores, one file that needs no network.

        Args:
            path: file to write, atomically; None returns the page instead.
            links: by the rows of a pair, where its report is, relative to the page.

        Returns:
            The file, or without one the HTML text.

        Raises:
            OutputError: the file cannot be written.
        """
        from .pages.matrix import render_matrix

        page = render_matrix(self.to_dict(), links or {})
        return page if path is None else write_text(path, page)
