from __future__ import annotations

import pytest

from graphdoc.documents.document import Document
from graphdoc.runtime.wording import counted, section_name


def test_counts() -> None:
    assert [counted(count, "section") for count in (0, 1, 2, 3000)] == [
        "0 sections",
        "1 section",
        "2 sections",
        "3,000 sections",
    ]


@pytest.mark.parametrize(
    ("heading", "number", "sections", "name"),
    [
        ("Salt", 0, 1, "Salt"),
        ("", 0, 1, "Whole text"),
        ("", 0, 2, "Opening"),
        ("", 1, 2, "Without heading"),
    ],
)
def test_names_of_sections(heading: str, number: int, sections: int, name: str) -> None:
    assert section_name(heading, number, sections) == name


def test_names_of_the_sections_of_a_document() -> None:
    assert Document.from_text("Some words.").section_name(0) == "Whole text"
    document = Document.from_markdown("Words.\n\n# Salt\n\nMore.\n\n# Air\n\nMore.")
    assert [document.section_name(number) for number in range(3)] == ["Opening", "Salt", "Air"]
