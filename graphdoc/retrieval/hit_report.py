"""Pages of hits: a comparison report for each, and the page of a search with a document that leads to them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..analysis.report.page import render_report
from ..analysis.search_page.page import write_search_page
from ..documents.document import Document
from ..inference.all_levels import with_sentences
from ..runtime.files import write_text
from ..similarity.comparison import Comparison
from ..similarity.encoded_document import EncodedDocument
from .alignments import HitAlignment
from .index import DocumentIndex
from .results import SearchResults
from .search import BY_SENTENCES
from .sentences import SentenceDocument


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
        query: the query document.
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


def hit_report(comparison: Comparison, aligned: HitAlignment | None = None) -> str:
    """Return the report of a hit beside the query document, as an HTML page.

    A comparison knows nothing of the search that led to it: it looks in both directions and never normalises. Here
    the alignment is that of the search, whose contributions add up to the score of the hit. The report shows passages
    that the model reads; pairs with sentences beyond them are counted and left out.

    Args:
        comparison: the query document and the hit, with sentences.
        aligned: what the score is made of; None where the search was not by sentences.
    """
    content = comparison.to_dict()
    if aligned is not None:
        pairs, left = _shown(aligned, comparison)
        if pairs:
            content["alignment"] = {"by": aligned.alignment.by, "score": aligned.score, "pairs": pairs}
        content["search"] = {
            "by": aligned.alignment.by,
            "score": aligned.score,
            "direction": aligned.direction,
            "normalisation": aligned.normalisation,
            "aligned": bool(pairs),
            "left_out": left,
        }
    return render_report(content)


def _shown(aligned: HitAlignment, comparison: Comparison) -> tuple[list[dict[str, Any]], int]:
    """The pairs of paragraphs with the numbers that parts have in the comparison, and how many are not in it."""
    if aligned.whole or comparison.a.sentences is None or comparison.b.sentences is None:
        return [], 0
    sides = {"source": comparison.a, "candidate": comparison.b}
    rows = {"source": _rows(aligned.source, comparison.a), "candidate": _rows(aligned.candidate, comparison.b)}
    shown, left = [], 0
    for pair in aligned.alignment.to_dict()["pairs"]:
        sentences = [
            {**part, **{side: numbers[part[side]] for side, numbers in rows.items()}}
            for part in pair["sentences"]
            if all(part[side] in numbers for side, numbers in rows.items())
        ]
        left += len(pair["sentences"]) - len(sentences)
        firsts = {side: numbers.get(aligned.first_sentence(side, pair[side])) for side, numbers in rows.items()}
        if sentences:
            firsts = {side: sentences[0][side] for side in rows}
        elif pair["sentences"] or None in firsts.values():
            left += not pair["sentences"]
            continue
        shown.append({**pair, "sentences": sentences, **_paragraphs(firsts, sides)})
    return shown, left


def _rows(document: SentenceDocument, encoded: EncodedDocument) -> dict[int, int]:
    """By number of a sentence in its document the number that it has in the comparison."""
    rows = {(span.section, span.start, span.end): row for row, span in enumerate(encoded.sentences or ())}
    places = enumerate(map(tuple, document.sentences.places[:, :3].tolist()))
    return {number: rows[place] for number, place in places if place in rows}


def _paragraphs(sentences: Mapping[str, int | None], sides: Mapping[str, EncodedDocument]) -> dict[str, int]:
    found = {}
    for side, encoded in sides.items():
        assert encoded.paragraph_rows is not None
        found[side] = int(encoded.paragraph_rows[sentences[side]])
    return found
