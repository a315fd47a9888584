from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typed import Encoders, Log

from graphdoc.documents.document import Document
from graphdoc.documents.section import Section
from graphdoc.inference.segmenting import Workers, segment_in_order
from graphdoc.segmentation.sentences import cut_at_white_space, first_sentence, split_sentences, without_first_sentence
from graphdoc.segmentation.spans import Coverage

FAMILY = "\U0001f469\u200d\U0001f469\u200d\U0001f467"
PIECES = st.sampled_from(
    ["A cat sat. ", "e.g. this", "approx. ", "Am 3. Okt. ", "1. ", "(1) ", "\n", "\n\n", "\r\n", "  \n \n",
     "这是。", "いぬ！", "كلب؟ ", "😀", FAMILY, "e\u0301", "\u200b", "\u3000", "\u2029", "\x00", "x" * 30, "...", "?!",
     "“Yes.” ", "("]
)  # fmt: skip
TEXTS = st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=40).map("".join))


def sentences(text: str, language: str = "en") -> list[str]:
    return [text[start:end] for start, end in split_sentences(text, language)]


def cut_sentences(text: str, longest: int | None, language: str = "en") -> list[tuple[int, int]]:
    spans = split_sentences(text, language)
    return [part for span in spans for part in (cut_at_white_space(text, *span, longest) if longest else [span])]


@given(TEXTS, st.sampled_from([None, 1, 7, 50]), st.sampled_from(["en", "de", "zh"]))
def test_every_character_but_white_space_is_in_one_span(text: str, longest: int | None, language: str) -> None:
    spans = cut_sentences(text, longest, language)
    assert "".join("".join(text[start:end].split()) for start, end in spans) == "".join(text.split())
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    for start, end in spans:
        assert 0 <= start < end <= len(text)
        assert text[start:end] == text[start:end].strip()
        assert longest is None or end - start <= longest


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We saw approx. 30 cases. Then none.", ["We saw approx. 30 cases.", "Then none."]),
        ("Am 3. Okt. kam er. Dann ging er.", ["Am 3. Okt. kam er.", "Dann ging er."]),
        ("Seit dem 1. Januar gilt es. So ist es.", ["Seit dem 1. Januar gilt es.", "So ist es."]),
        ("It rained in Okt. Then it stopped.", ["It rained in Okt.", "Then it stopped."]),
        ("See Fig. 3b and Eq. 4.2. It holds.", ["See Fig. 3b and Eq. 4.2.", "It holds."]),
        ("By Eqs. (3) and Tab. 2 it holds. It does.", ["By Eqs. (3) and Tab. 2 it holds.", "It does."]),
        ("Smith et al. 2019 and Lee et. al. agree. Good.", ["Smith et al. 2019 and Lee et. al. agree.", "Good."]),
        ("J. R. R. Tolkien wrote it. I read it.", ["J. R. R. Tolkien wrote it.", "I read it."]),
        ("In Vol. 3 it ends. Vol. is short.", ["In Vol. 3 it ends.", "Vol. is short."]),
        ("1. First point. 2. Second point.", ["1. First point.", "2. Second point."]),
        ("(1) The cat sat. The dog ran.", ["(1) The cat sat.", "The dog ran."]),
        ("It is 5. The rest is 6.", ["It is 5.", "The rest is 6."]),
        ("One line\nand the next. End", ["One line\nand the next.", "End"]),
        ("no stop\n \t\nnext paragraph\r\n\r\nlast", ["no stop", "next paragraph", "last"]),
        ("这是一个句子。那是另一个！", ["这是一个句子。", "那是另一个！"]),
        ("Half \ufffd here. Whole 😀 there.", ["Half \ufffd here.", "Whole 😀 there."]),
        (" \n\n \u3000", []),
        (
            "So it was, cert. denied, 412 U.S. 9. See id. at 117.",
            ["So it was, cert. denied, 412 U.S. 9.", "See id. at 117."],
        ),
        (
            "Under Fed. R. Civ. P. 12(b)(6) it is proper. So held.",
            ["Under Fed. R. Civ. P. 12(b)(6) it is proper.", "So held."],
        ),
        ("It relied on Smith v. Jones, 410 U.S. 113. Good.", ["It relied on Smith v. Jones, 410 U.S. 113.", "Good."]),
        ("The 9th Cir. 1999 affirmed. Others did not.", ["The 9th Cir. 1999 affirmed.", "Others did not."]),
        (
            "So Roe et al. [2004] dissented. Poe et al. (2005) agreed.",
            ["So Roe et al. [2004] dissented.", "Poe et al. (2005) agreed."],
        ),
        ("He met Al. They left.", ["He met Al.", "They left."]),
    ],
)
def test_sentences_are_those_of_a_reader(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


def test_a_cut_without_white_space_leaves_accents_and_joined_emoji_whole() -> None:
    text = "e\u0301" * 10 + FAMILY * 10
    pieces = [text[start:end] for start, end in cut_sentences(text, 11)]
    assert "".join(pieces) == text
    assert not any(piece[0] in "\u0301\u200d" or piece[-1] == "\u200d" for piece in pieces)


def test_a_sentence_longer_than_a_window_ends_where_it_should() -> None:
    text = "so " * 5_000 + "it ends. Then another. And one more."
    assert sentences(text)[1:] == ["Then another.", "And one more."]
    # So does one of a paragraph longer than a window.
    sentence = "The committee met on Monday, and nothing came of it."
    assert sentences(f"{sentence} " * 2_000) == [sentence] * 2_000


def test_it_is_that_of_the_first_section_with_text() -> None:
    document = Document("d", (Section(" \n", heading="A"), Section("One\nrises. Two falls.", heading="B")), title="T")
    assert first_sentence(document) == "One rises."
    rest = without_first_sentence(document)
    assert [section.text for section in rest.sections] == [" \n", "Two falls."]
    assert (rest.id, rest.title, rest.sections[1].heading) == ("d", "T", "B")
    assert first_sentence(rest) == "Two falls."
    assert without_first_sentence(Document.from_text("One rises.")).is_empty
    empty = Document("d", (Section(""),))
    assert without_first_sentence(empty) == empty and first_sentence(empty) == ""


CUT = Coverage(100, 60, 25, 15, 3, 2, {"passage limit": 30, "no tokens": 10}, 1, 2, 1, 1)
WHOLE = Coverage(50, 50, 12, 12, 1, 1, documents=1)


def test_coverages_add_up_are_read_back_and_say_once_what_was_left_out(caplog: Log) -> None:
    total = CUT + WHOLE + CUT
    assert total == Coverage(250, 170, 62, 42, 7, 5, {"passage limit": 60, "no tokens": 20}, 2, 4, 3, 2)
    assert total.share == pytest.approx(0.68) and CUT.documents == WHOLE.documents == 1
    running = same = Coverage()
    running += CUT
    assert same is running == CUT and running.left_out is not CUT.left_out
    assert Coverage.from_dict(CUT.to_dict()) == CUT and Coverage().share == 1.0
    WHOLE.warn()
    assert not caplog.records
    (CUT + WHOLE).warn()
    CUT.warn("a")
    first, second = (record.getMessage() for record in caplog.records)
    assert all(part in first for part in ("1 of 2 documents", "30 characters: passage limit", "max_passages"))
    assert "document 'a'" in second


def test_text_of_furniture_is_counted_in_characters(tiny_encoder: Encoders) -> None:
    page = (
        "<html><head><title>Tides</title><script>let a = 1;</script></head><body><nav><a href='/a'>Home page</a></nav>"
        "<main><h1>Tides</h1><p>Tides rise and fall twice a day.</p><p hidden>Not shown.</p></main>"
        "<footer>Copyright 2020, all rights reserved<script>b()</script></footer></body></html>"
    )
    document = Document.from_html(page, id="tides")
    left_out = ("Home page", "Not shown.", "Copyright 2020, all rights reserved")
    expected = sum(len("".join(text.split())) for text in left_out)
    encoder = tiny_encoder("bert")
    coverage = encoder.segment(document).coverage
    assert (coverage.furniture, coverage.to_dict()["furniture"], coverage.share) == (expected, expected, 1)
    assert (coverage + coverage).furniture == 2 * expected
    assert Coverage.from_dict(coverage.to_dict()) == coverage
    assert encoder.segment(Document.from_html("<main><p>Tides rise.</p></main>")).coverage.furniture == 0
    # What travels to other processes is counted there.
    (cut,) = segment_in_order([document], encoder.segmenter, Workers(1, 0))
    assert cut.coverage == coverage and cut.document is document
