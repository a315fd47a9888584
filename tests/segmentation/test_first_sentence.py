"""The first sentence of a document."""

from __future__ import annotations

from graphdoc.documents.document import Document
from graphdoc.documents.section import Section
from graphdoc.segmentation.sentences import first_sentence, without_first_sentence


def test_it_is_that_of_the_first_section_with_text() -> None:
    document = Document("d", (Section(" \n", heading="A"), Section("One\nrises. Two falls.", heading="B")), title="T")
    assert first_sentence(document) == "One rises."
    rest = without_first_sentence(document)
    assert [section.text for section in rest.sections] == [" \n", "Two falls."]
    assert (rest.id, rest.title, rest.sections[1].heading) == ("d", "T", "B")
    assert first_sentence(rest) == "Two falls."


def test_a_document_of_one_sentence_or_none_is_left_without_text() -> None:
    assert without_first_sentence(Document.from_text("One rises.")).is_empty
    empty = Document("d", (Section(""),))
    assert without_first_sentence(empty) == empty
    assert first_sentence(empty) == ""


def test_a_long_text_is_not_searched_to_its_end() -> None:
    document = Document.from_text("tide " * 100_000)
    assert len(first_sentence(document)) < 5_000
