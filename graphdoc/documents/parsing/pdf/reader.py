"""PDF files to sections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from ....errors import DocumentError
from ..outline import Break, Outline, ParsedDocument, joined_lines, parsed_document, words
from .blocks import Block, BlockBuilder, TextJoiner, note_mark
from .file_process import damage, named_pages, read_pages
from .furniture import take_contents, take_furniture
from .headings import HeadingFinder, heading_text
from .page import Line, Page, body_style, lines_of, read_page

_SCAN = 0.5
# Formulas and lists have a few signs of fonts without meanings, a page of text in such a font almost nothing else.
_UNREADABLE = 0.3


def parse_pdf(content: bytes) -> ParsedDocument:
    """Parse a PDF file.

    Its metadata are ``dropped_elements`` (running heads and the like), ``warnings`` (pages and strings that could not
    be read) and ``file_title``, where the file gives another title than its pages.
    """
    described, contents, warnings = read_pages(content)
    warnings += damage(content)
    unreadable = [number for number, page in contents if page["unknown"] > _UNREADABLE]
    _refuse_unreadable(unreadable, len(contents), warnings)
    contents = [(number, page | {"pieces": []} if number in unreadable else page) for number, page in contents]
    pages = [read_page(page, number) for number, page in contents]
    _say_missing(pages, contents, warnings)
    dropped = take_furniture(pages)
    lines: list[Line] = []
    for page in pages:
        lines += lines_of(page, lines[-1].column + 1 if lines else 0)
    lines, entries = take_contents(lines)
    dropped["table of contents"] = entries
    size, bold = body_style(lines)
    blocks = BlockBuilder(lines, size, bold).blocks()
    joiner = TextJoiner(lines)
    finder = HeadingFinder(blocks, size, bold, described["outline"], joiner)
    levels = finder.find()
    labels = finder.labels(levels)
    again = finder.repeated(levels)
    dropped["running head"] += len(again)
    dropped["number in words"] += sum(not label for label in labels.values())
    title_place = _title(blocks, levels, str(described["title"]), joiner)
    outline = _written(blocks, levels, labels, {title_place} | again, joiner)
    for page in pages:
        for row in page.aside:
            outline.separate(Break.PARAGRAPH)
            outline.write(joined_lines(row.text))
    parsed = outline.finish(opening_title=title_place < 0)
    # Signs of footnotes may follow it.
    title = heading_text(joiner.text(blocks[title_place].lines)).rstrip(" ∗†‡") if title_place >= 0 else parsed.title
    return parsed_document(parsed.sections, title, dropped, warnings, file_title=joined_lines(str(described["title"])))


def _title(blocks: Sequence[Block], levels: dict[int, int], named: str, joiner: TextJoiner) -> int:
    """The heading on the first page that is the title, the one the file names or the only largest; -1 if none is."""
    opening = [place for place in levels if blocks[place].first.page == blocks[0].first.page]
    if not opening:
        return -1
    for place in opening[:3]:
        if named and words(joiner.text(blocks[place].lines)) == words(named):
            return place
    largest = max(levels, key=lambda place: (blocks[place].first.size, -place))
    sizes = [blocks[place].first.size for place in levels if place != largest]
    if largest in opening[:3] and (not sizes or blocks[largest].first.size > max(sizes) + 0.4):
        return largest
    return -1


def _written(
    blocks: Sequence[Block], levels: dict[int, int], labels: dict[int, str], left_out: set[int], joiner: TextJoiner
) -> Outline:
    outline = Outline()
    waiting: list[Block] = []
    marks: dict[int, set[str]] = {}
    for block in blocks:
        if block.kind == "note":
            marks.setdefault(block.first.page, set()).add(note_mark(block.first))
    for place, block in enumerate(blocks):
        if place in left_out:
            continue
        if block.kind == "note":
            waiting.append(block)
            continue
        if waiting and (place in levels or waiting[0].first.page < block.first.page):
            _write_notes(outline, waiting, joiner)
        here = frozenset().union(*(marks.get(line.page, set()) for line in block.lines))
        if place + 1 in labels:
            continue
        if place in levels:
            text = heading_text(joiner.text(block.lines, here))
            outline.start_section(f"{labels.get(place, '')} {text}", levels[place])
            continue
        before = blocks[place - 1].kind if place else ""
        outline.separate(Break.LINE if block.kind in ("item", "table") and before == block.kind else Break.PARAGRAPH)
        if block.kind in ("code", "table"):
            rows = _laid_out(block.lines) if block.kind == "code" else (line.text for line in block.lines)
            outline.write("\n".join(rows))
        else:
            outline.write(joiner.text(block.lines, here))
        outline.separate(Break.PARAGRAPH if block.kind != "item" else Break.LINE)
    _write_notes(outline, waiting, joiner)
    return outline


def _write_notes(outline: Outline, waiting: list[Block], joiner: TextJoiner) -> None:
    for block in waiting:
        outline.separate(Break.PARAGRAPH)
        mark = note_mark(block.first)
        text = joiner.text(block.lines)
        outline.write(text.removeprefix(mark).lstrip(" .)") or text)
        outline.separate(Break.PARAGRAPH)
    waiting.clear()


def _laid_out(lines: Sequence[Line]) -> Iterator[str]:
    """Lines of code with the white space that their places mean."""
    edge = min(line.left for line in lines)
    for line in lines:
        width = (line.right - line.left) / max(len(line.text), 1) or 1.0
        yield " " * min(round((line.left - edge) / width), 40) + line.text.replace("\t", "    ")


def _refuse_unreadable(unreadable: Sequence[int], count: int, warnings: list[str]) -> None:
    """Refuse a file whose fonts do not say which letters they show, or name its pages that do not."""
    if not unreadable:
        return
    fix = "OCR reads them, for example: ocrmypdf --force-ocr unreadable.pdf text.pdf"
    if len(unreadable) == count:
        raise DocumentError(f"its text cannot be read: its fonts do not say which letters their signs are; {fix}")
    pages = named_pages([number + 1 for number in unreadable])
    warnings.append(f"pages left out, whose fonts do not say which letters their signs are: {pages}; {fix}")


def _say_missing(pages: Sequence[Page], contents: Sequence[tuple[int, dict[str, Any]]], warnings: list[str]) -> None:
    """Refuse a scan, and name pages that are pictures, strings that were cut, and characters that are unknown."""
    empty = [page for page in pages if not page.rows and not page.aside]
    pictures = [page.number + 1 for page in empty if page.pictures > _SCAN]
    if pictures and len(empty) == len(pages):
        raise DocumentError(
            f"it is a scan: its {len(pages)} {'page is a picture' if len(pages) == 1 else 'pages are pictures'} "
            "without text; add the text by OCR, for example with: ocrmypdf scan.pdf text.pdf"
        )
    if pictures:
        warnings.append(f"pages that are pictures without text: {named_pages(pictures)}; OCR adds their text")
    unmapped = Counter({number + 1: int(page["unmapped"]) for number, page in contents if page["unmapped"]})
    if unmapped:
        warnings.append(
            f"{unmapped.total():,} characters without a known meaning, written as U+FFFD, on pages: "
            f"{named_pages(sorted(unmapped))}"
        )
    cut = [number + 1 for number, page in contents if page["cut"]]
    if cut:
        warnings.append(f"strings of more than 32,767 characters, cut there, on pages: {named_pages(cut)}")
