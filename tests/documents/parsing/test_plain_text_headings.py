from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphdoc import read_documents
from graphdoc.documents.document import Document
from graphdoc.documents.parsing.plain_text import parse_plain_text

WORDS = "The tide came in over the marsh at noon and left it again before the night had begun."


def outline_of(text: str) -> list[tuple[int, str]]:
    return [(section.level, section.heading) for section in parse_plain_text(text).sections if section.heading]


def letters(text: str) -> str:
    return "".join(filter(str.isalnum, text))


def test_text_without_headings_is_one_section() -> None:
    text = f"{WORDS}\n\n- one\n- two\n\nThe USA joined.\n\n{WORDS}"
    assert [section.text for section in parse_plain_text(text).sections] == [text]


def test_lists_and_tables_are_no_headings() -> None:
    assert outline_of("1. milk\n\n2. bread\n\n3. tea\n") == []
    assert outline_of("A NOTE TO ALL\n\nALL OF THIS IS IN CAPITALS, AS TELEGRAMS ARE.\n") == []
    assert outline_of(f"name    age    town\n-------------------\nann     7      Ham\n\n{WORDS}") == []


def test_chapters_after_a_table_of_contents() -> None:
    contents = "CHAPTER I\n\nCHAPTER II\n\nCHAPTER III\n\n"
    chapters = "\n\n".join(f"CHAPTER {number}\n\n{WORDS}" for number in ("I", "II", "III"))
    assert outline_of(contents + chapters)[-3:] == [(1, "CHAPTER I"), (1, "CHAPTER II"), (1, "CHAPTER III")]


def test_divided_words_are_joined() -> None:
    text = (
        "The embankment held, and the embank-\nment was dry. A well-known rule, a well-\nknown law; "
        "the South-\nWest wind, hyphen\xad\nated."
    )
    assert parse_plain_text(text).sections[0].text == (
        "The embankment held, and the embankment was dry. A well-known rule, a well-known law; the South-West wind, "
        "hyphenated."
    )


def test_switch(tmp_path: Path) -> None:
    text = f"TIDES\n\n{WORDS}\n\nGATES\n\n{WORDS} {WORDS}\n"
    file = tmp_path / "tides.txt"
    file.write_text(text)
    assert [section.heading for section in Document.from_file(file).sections] == ["TIDES", "GATES"]
    whole = Document.from_file(file, text_headings=False)
    assert [(section.heading, section.text) for section in whole.sections] == [("", text.rstrip("\n"))]
    (read,) = read_documents(file, text_headings=False)
    assert read.sections == whole.sections
    # A string is a text, whatever its lines look like.
    assert len(Document.from_text(text).sections) == 1


@pytest.mark.parametrize(
    "text", ["A\n\n" * 20_000, "1. A\n\n" * 20_000, "AA\n--\n" * 20_000, "A-\n" * 20_000, " " * 100_000, "x" * 100_000]
)
def test_long_texts_of_one_kind_of_line(text: str) -> None:
    assert parse_plain_text(text).sections is not None


@settings(deadline=None)
@given(st.text(alphabet="ab AB1.-=~\n\t", max_size=200))
def test_no_letter_is_lost(text: str) -> None:
    parsed = parse_plain_text(text)
    read = parsed.title + "".join(section.heading + section.text for section in parsed.sections)
    assert letters(read) == letters(text)
