"""The results of a search with a document as a page, and a comparison report for every hit."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from ..analysis.search_page.page import write_search_page
from ..documents.document import Document
from ..inference.all_levels import with_sentences
from ..runtime.files import write_text
from .hit_report import hit_report
from .index import DocumentIndex
from .results import SearchResults
from .sentence_settings import BY_SENTENCES


def comparisons_of(path: str | Path) -> Path:
    """The folder beside a page that the comparison reports of its hits lie in."""
    page = Path(path)
    return page.with_name(f"{page.stem}-comparisons")


def comparison_name(rank: int) -> str:
    """Name of the comparison report of a hit."""
    return f"{rank:03d}.html"


def write_page_with_comparisons(
    index: DocumentIndex, results: SearchResults, query: Document, path: str | Path
) -> Path:
    """Write the page of a search with a document; each hit leads to its comparison with that document.

    Of a search by sentences the comparison has these too, and the score of the search. The reports lie in a folder
    beside the page, ``hits-comparisons`` for ``hits.html``. Vectors of the hits are read from the index.

    Args:
        index: the index.
        results: what the search found.
        query: the document that was asked with.
        path: the HTML file.

    Returns:
        The file.

    Raises:
        OutputError: a file cannot be written.
    """
    page, folder = Path(path), comparisons_of(path)
    content = results.to_dict(explain=True, excerpt=True)
    by_sentences = results.by in BY_SENTENCES
    encoded = index.encoder.encode_levels(query)
    if by_sentences:
        encoded = with_sentences(index.encoder, encoded, paragraph=index.paragraph)
    for hit, shown in zip(results, content["hits"], strict=True):
        report = folder / comparison_name(hit.rank)
        comparison = index.encoder.compare(encoded, index.encoded(hit.id, sentences=by_sentences))
        write_text(report, hit_report(comparison, hit.alignment))
        shown["comparison"] = f"{quote(folder.name)}/{report.name}"
    return write_search_page(content, page)
