from __future__ import annotations

from graphdoc.documents.document import Document
from graphdoc.documents.readers.streams import LeftOutSections

TEXT = "# Tides\n\nOpening.\n\n## Abstract\n\nShort.\n\n### Aims\n\nTo know.\n\n## Methods\n\nWalls.\n"


def test_sections_go_with_all_below_them() -> None:
    document = Document.from_markdown(TEXT, id="a")
    other = Document.from_markdown("## Waves\n\nHigh.", id="b")
    sections = LeftOutSections((" abstract", "Nothing"))
    first, second = sections.without([document, other])
    assert [section.text for section in first.sections] == ["Opening.", "Walls."]
    assert (first.id, first.title) == (document.id, document.title)
    assert second is other
    assert sections.counts == {" abstract": 2, "Nothing": 0}


def test_a_document_of_nothing_else_has_no_text() -> None:
    document = Document.from_markdown("## ABSTRACT\n\nShort.", id="a")
    (left,) = LeftOutSections(("Abstract",)).without([document])
    assert left.is_empty
