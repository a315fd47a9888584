from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from graphdoc.documents.document import Document
from graphdoc.documents.section import Section
from graphdoc.encoder import DocumentEncoder
from graphdoc.segmentation.segmenter import SegmentationConfig, Segmenter, paragraph_numbers
from graphdoc.settings.document import Paragraph


@pytest.fixture(scope="module")
def segmenter(mini: DocumentEncoder) -> Segmenter:
    tokenizer = mini.tokenizer
    assert isinstance(tokenizer, PreTrainedTokenizerFast)
    return Segmenter(tokenizer, SegmentationConfig(passage_words=8, unit="sentence", max_passages=None))


def numbers(segmenter: Segmenter, paragraph: Paragraph, *texts: str) -> list[int]:
    document = Document("d", tuple(Section(text) for text in texts))
    found = paragraph_numbers(segmenter.segment(document), paragraph, segmenter)
    assert found.dtype == np.int32
    return found.tolist()


TEXT = "Rice is washed. It is steamed.\n \t\nKoji grows on it.\n\n\nSalt is added. Then it waits."


def test_sections_with_text_are_counted(segmenter: Segmenter) -> None:
    assert numbers(segmenter, "section", TEXT, "  ", "The end. It is eaten.") == [0, 0, 0, 0, 0, 1, 1]


def test_blank_lines_part_paragraphs(segmenter: Segmenter) -> None:
    assert numbers(segmenter, "blank_line", TEXT, "", "The end.\nIt is eaten.") == [0, 0, 1, 2, 2, 3, 3]
    assert numbers(segmenter, "blank_line", "\n\nIt rains. It pours.\n\n") == [0, 0]


def test_passages_are_those_that_the_segmenter_cuts(segmenter: Segmenter) -> None:
    found = numbers(segmenter, "passage", "Rice is washed well. It is steamed. " * 6, "Salt.")
    assert found == sorted(found)
    assert found[-1] == found[-2] + 1
    assert 2 < len(set(found)) < len(found)


def test_a_sentence_cut_for_its_length_stays_in_its_paragraph(segmenter: Segmenter) -> None:
    long = "word " * 600
    assert len(found := numbers(segmenter, "blank_line", f"{long}.\n\nShort.")) > 2
    assert set(found[:-1]) == {0}
    assert found[-1] == 1


def test_a_document_without_text_has_none(segmenter: Segmenter) -> None:
    assert numbers(segmenter, "section", " ") == []


@given(
    texts=st.lists(st.text("Ab. \n", max_size=60), min_size=1, max_size=4),
    paragraph=st.sampled_from(["section", "blank_line", "passage"]),
)
def test_numbers_have_no_gaps_and_stay_in_a_section(
    segmenter: Segmenter, texts: list[str], paragraph: Paragraph
) -> None:
    document = Document("d", tuple(Section(text) for text in texts))
    sentences = segmenter.segment(document)
    found = paragraph_numbers(sentences, paragraph, segmenter).tolist()
    assert len(found) == len(sentences.passages)
    assert found == sorted(found)
    assert sorted(set(found)) == list(range(len(set(found))))
    sections: dict[int, set[int]] = {}
    for number, span in zip(found, sentences.passages, strict=True):
        sections.setdefault(number, set()).add(span.section)
    assert all(len(own) == 1 for own in sections.values())


def test_sentences_as_the_unit_are_those_of_the_method(segmenter: Segmenter) -> None:
    document = Document.from_text(TEXT, id="d")
    assert segmenter.segment(document) == segmenter.sentences(document)
    assert len(segmenter.segment(document).passages) == 5
    first = Segmenter(segmenter.tokenizer, SegmentationConfig(unit="sentence", max_passages=2)).segment(document)
    assert (len(first.passages), first.coverage.passages) == (2, 5)
