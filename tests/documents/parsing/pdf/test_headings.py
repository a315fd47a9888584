"""What looks like a heading and is none, and headings that do not look like one."""

from __future__ import annotations

import pytest
from pdf_files import LINES, Words, paragraph, write_pdf

from graphdoc.documents.parsing.outline import ParsedDocument
from graphdoc.documents.parsing.pdf.reader import parse_pdf


def read(*pages: list[Words]) -> ParsedDocument:
    return parse_pdf(write_pdf(pages))


def names(parsed: ParsedDocument) -> list[str]:
    return [section.heading for section in parsed.sections if section.heading]


def sections(*lines: Words, below: int = 72) -> list[Words]:
    """A page with two headings, and lines with a paragraph below each, which begins at a place."""
    words = [Words(72, 790, "High water", 14, "B"), *paragraph(72, 770, LINES)]
    words += [Words(72, 710, "Low water", 14, "B"), *paragraph(72, 690, LINES)]
    for number, line in enumerate(lines):
        top = 630 - 70 * number
        words += [Words(line.left, top, line.text, line.size, line.font), *paragraph(below, top - 16, LINES)]
    return words


@pytest.mark.parametrize(
    "line",
    [
        Words(72, 0, "Note", 10, "B"),
        Words(72, 0, "Avertissement", 12, "B"),
        Words(72, 0, "Semantics:", 10, "B"),
        Words(72, 0, "-b, --backend", 10, "B"),
        Words(72, 0, "X X f n", 14, "B"),
        Words(131, 0, "Storage daemon", 10, "B"),
    ],
    ids=lambda line: line.text,
)
def test_boxes_options_formulas_and_words_of_pictures_are_no_headings(line: Words) -> None:
    parsed = read(sections(line))
    assert names(parsed) == ["High water", "Low water"]
    assert line.text in parsed.sections[1].text


def test_terms_of_a_list_are_no_headings() -> None:
    terms = [Words(72, 0, "Ebb gate", 10, "B"), Words(72, 0, "Flood gate", 10, "B")]
    assert names(read(sections(*terms, below=96))) == ["High water", "Low water"]
    # Where all headings stand out to the left, these do not differ from the others.
    hanging = [
        Words(line.left + 24 * (line.font == "F"), line.base, line.text, line.size, line.font)
        for line in sections(*terms)
    ]
    assert names(read(hanging)) == ["High water", "Low water", "Ebb gate", "Flood gate"]


@pytest.mark.parametrize("text", ["[2016/05/16 v0.2]", "How to install gates."])
def test_bold_lines_apart_from_the_text_are_headings(text: str) -> None:
    assert names(read(sections(Words(72, 0, text, 10, "B")))) == ["High water", "Low water", text]


def test_code_after_a_deep_number_is_a_heading() -> None:
    page = [*sections(), Words(72, 630, "3.1.2", 10, "B"), Words(102, 630, "load_gauge()", 10, "C")]
    page += [Words(72, 610, "gauge load_gauge(name)", 10, "C"), *paragraph(72, 590, LINES)]
    assert names(read(page)) == ["High water", "Low water", "3.1.2 load_gauge()"]


def test_letters_set_lower_and_higher_stay_in_their_word() -> None:
    logo = [Words(72, 630, "The L", 14, "B"), Words(107, 633, "A", 9, "B"), Words(113, 630, "T", 14, "B")]
    logo += [Words(122, 627, "E", 14, "B"), Words(131, 630, "X of tides", 14, "B")]
    assert names(read([*sections(), *logo, *paragraph(72, 610, LINES)]))[-1] == "The LATEX of tides"


def test_a_number_in_words_above_a_heading_is_left_out_and_counted() -> None:
    page = [Words(460, 780, "TWO", 14, "B"), Words(72, 740, "High water", 14, "B"), *paragraph(72, 720, LINES)]
    parsed = read(sections(), page)
    assert names(parsed) == ["High water", "Low water", "High water"]
    assert parsed.metadata["dropped_elements"] == {"number in words": 1}


@pytest.mark.parametrize(("upper", "lower"), ["FH", "HF"])
def test_of_looks_that_rank_alike_the_first_stands_above(upper: str, lower: str) -> None:
    fonts = (upper, lower, upper)
    page = [Words(72, 790, "Tides", 20, "B"), *paragraph(72, 770, LINES)]
    for number, font in enumerate(fonts):
        page += [Words(72, 700 - 80 * number, f"Part {font}", 14, font), *paragraph(72, 680 - 80 * number, LINES)]
    first, second, third = [section.level for section in read(page).sections if section.heading]
    assert first == third < second


def test_a_slide_that_goes_on_keeps_its_heading_once() -> None:
    slides = [[Words(72, 700, "High water", 20, "B"), *paragraph(72, 660, [line])] for line in LINES]
    parsed = read(sections(), *slides)
    assert names(parsed) == ["High water", "Low water", "High water"]
    assert [line in parsed.sections[2].text for line in LINES] == [True] * 3
    assert parsed.metadata["dropped_elements"] == {"running head": 2}
