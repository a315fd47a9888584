"""Passages that occur in several documents of a corpus."""

from __future__ import annotations

import random
import re
from collections import Counter
from functools import partial

import numpy as np
import pytest
from collections_of_topics import LICENCE, WORDS, sentences
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer
from typed import Backbones, Encoders, Patch

from graphdoc.documents.document import Document
from graphdoc.documents.section import Section
from graphdoc.segmentation import Repeats, SegmentationConfig, Segmenter, find_repeats, repeats
from graphdoc.segmentation.repeats import RepeatLister, shingles_of
from graphdoc.segmentation.segmenter import repeats_in


def corpus(count: int = 6, own: int = 20) -> list[Document]:
    """Documents of their own words, each with the licence, of another year, as a section at its end."""
    return [
        Document(
            f"d{number}",
            (
                Section(sentences(number, own), heading="About"),
                Section(f"Copyright {1990 + number}. {LICENCE}", heading="Licence"),
            ),
        )
        for number in range(count)
    ]


@pytest.fixture(scope="module")
def segmenter(backbone_folder: Backbones) -> Segmenter:
    tokenizer = AutoTokenizer.from_pretrained(backbone_folder("bert"))
    return Segmenter(tokenizer, SegmentationConfig(max_tokens=120, passage_words=40))


def without_repeats(segmenter: Segmenter, found: Repeats, **config: object) -> Segmenter:
    return Segmenter(segmenter.tokenizer, SegmentationConfig(max_tokens=120, passage_words=40, **config), found)  # type: ignore[arg-type]


def test_shingles_are_five_words_in_a_row_with_all_numbers_alike() -> None:
    text = "On 3 May 1911 the Water rose, and the water fell."
    words = re.findall(r"\w+", re.sub(r"\d+", "0", text.lower()))
    fives = [tuple(words[place : place + 5]) for place in range(len(words) - 4)]
    found = shingles_of(text)
    assert len(found) == len(fives) and len(set(found.tolist())) == len(set(fives))
    assert np.array_equal(found, shingles_of("on 28 MAY 2020: the water rose and the water fell"))
    assert len(shingles_of("the water")) == 1 and not np.array_equal(shingles_of("the water"), shingles_of("the"))
    assert len(shingles_of("")) == len(shingles_of(" ... ")) == 0
    assert len(shingles_of("水が上がり下がる")) == 4
    # Marks belong to their letters.
    assert len(shingles_of("\u0928\u092e\u0938\u094d\u0924\u0947 \u092d\u093e\u0930\u0924")) == 1
    assert (shingles_of("cafe\u0301 au lait") == shingles_of("cafe au lait")).all()


@given(st.lists(st.lists(st.sampled_from(WORDS[:6]), max_size=9).map(" ".join), min_size=1, max_size=12))
def test_counts_are_those_of_a_loop_over_documents(texts: list[str]) -> None:
    documents = [Document(str(place), (Section(text),)) for place, text in enumerate(texts)]
    counts = Counter(one for text in texts for one in set(shingles_of(text).tolist()))
    for least in (2, 3):
        found = find_repeats(documents, least_documents=least, least_share=0)
        assert found.hashes.tolist() == sorted(one for one, count in counts.items() if count >= least)
        assert find_repeats(documents[::-1], least_documents=least, least_share=0).describe() == found.describe()


def test_a_licence_that_differs_by_a_year_is_left_out_and_counted(segmenter: Segmenter) -> None:
    documents = corpus()
    own = without_repeats(segmenter, find_repeats(documents))
    for document in documents:
        before, after = segmenter.segment(document), own.segment(document)
        assert [after.text(one) for one in after.passages] == [
            before.text(one) for one in before.passages if one.section == 0
        ]
        coverage = after.coverage
        assert coverage.left_out == {"repeated": len(document.sections[1].text.strip())}
        assert coverage.encoded_characters + sum(coverage.left_out.values()) == coverage.characters
        assert (coverage.passages, coverage.documents_not_whole) == (len(before.passages), 1)
        assert "kept_repeats" not in coverage.to_dict()
    stranger = Document("new", (Section(sentences(99, 20)), Section(LICENCE)))
    for segmented in (own.segment(stranger), own.sentences(stranger), own.chunks(stranger, 120)):
        assert {one.section for one in segmented.passages} == {0}
    # The limit of passages counts those that are encoded.
    turned = [Document(one.id, one.sections[::-1]) for one in documents]
    segmented = without_repeats(segmenter, find_repeats(turned), max_passages=2).segment(turned[0])
    assert [one.section for one in segmented.passages] == [1, 1]
    assert segmented.coverage.left_out.keys() == {"repeated", "passage limit"}


def test_a_licence_in_the_middle_of_a_section_is_found_wherever_passages_end(segmenter: Segmenter) -> None:
    licence = LICENCE + sentences(77, 6)
    documents = [
        Document(f"d{place}", (Section(f"{sentences(place, 20 + place)} {licence} {sentences(50 + place, 20)}"),))
        for place in range(5)
    ]
    own = without_repeats(segmenter, find_repeats(documents))
    for document in documents:
        segmented = own.segment(document)
        start = document.text.index("Permission is")
        left = set(range(start, start + len(licence)))
        for passage in segmented.passages:
            left -= set(range(passage.start, passage.end))
        # Passages at its edges hold words of both kinds.
        assert len(left) > len(licence) / 2
        assert segmented.coverage.left_out["repeated"] < 1.3 * len(licence)


@pytest.mark.parametrize(("clauses", "shared", "is_kept"), [(10, 6, True), (10, 4, False), (3, 2, False), (4, 4, True)])
def test_versions_share_many_passages_and_a_notice_is_few(
    segmenter: Segmenter, clauses: int, shared: int, is_kept: bool
) -> None:
    # Of a short letter a notice may be more than half.
    documents = [
        Document(
            f"v{place}",
            tuple(Section(sentences(one if one < shared else 100 * (place + 1) + one, 3)) for one in range(clauses)),
        )
        for place in range(3)
    ]
    strangers = [Document(f"s{place}", (Section(sentences(1000 + place, 30)),)) for place in range(2)]
    own = without_repeats(segmenter, find_repeats([*documents, *strangers]))
    for document in documents:
        coverage = own.segment(document).coverage
        assert coverage.to_dict().get("kept_repeats", 0) == is_kept == own.repeated(document)[1]
        assert bool(coverage.left_out) != is_kept


def test_two_alike_among_others_lose_nothing(segmenter: Segmenter) -> None:
    documents = [Document(f"d{place}", (Section(sentences(place // 2, 20)),)) for place in range(8)]
    assert not find_repeats(documents)
    assert not find_repeats([]) and not find_repeats(corpus(2)) and not find_repeats([Document("empty", ())] * 5)


def test_the_share_of_documents_counts_in_a_large_corpus() -> None:
    documents = [Document(str(place), (Section(sentences(place, 1)),)) for place in range(500)]
    documents += [Document(f"l{place}", (Section(LICENCE),)) for place in range(4)]
    assert find_repeats(documents).least_documents == 6 and not find_repeats(documents)
    assert find_repeats(documents, least_share=0).is_repeated(LICENCE)


def test_of_a_very_large_corpus_a_sample_is_counted(monkeypatch: Patch) -> None:
    documents = corpus(200)
    monkeypatch.setattr(repeats, "_MOST_HASHES", 20_000)
    found = [find_repeats(order) for order in (documents, documents[::-1], documents[50:] + documents[:50])]
    assert 20 < found[0].documents < 100 and found[0].is_repeated(LICENCE)
    assert len({one.describe()["hash"] for one in found}) == 1


def test_the_list_has_every_passage_once_with_its_documents(segmenter: Segmenter) -> None:
    documents = [*corpus(), Document("other", (Section(sentences(70, 20)),))]
    lister = RepeatLister(partial(repeats_in, repeats=find_repeats(documents), config=segmenter.config))
    for document in documents:
        lister.add(document)
    found = lister.result()
    assert (found.documents, found.with_repeats, found.mostly_repeated) == (7, 6, 0)
    assert {one.documents for one in found.passages} == {6} and found.passages[0].examples == ["d0", "d1", "d2"]
    assert " ".join(sorted((one.text for one in found.passages), key=LICENCE.find)).endswith(LICENCE.strip()[-60:])
    assert sum(one.characters for one in found.passages) <= sum(len(one.sections[-1].text) for one in documents[:6])


def test_tables_of_numbers_do_not_repeat() -> None:
    draw = random.Random(0)
    documents = [
        Document.from_text(
            sentences(number, 12) + "\n\n" + " ".join(f"{draw.uniform(0, 200):.2f}" for _ in range(200)),
            id=f"d{number}",
        )
        for number in range(6)
    ]
    found = find_repeats(documents)
    assert not any(found.is_repeated(document.text[-1000:]) for document in documents)
    assert len(shingles_of("12.5 7 8.25 1990 3")) == 0
    # A year in a sentence may differ, and names with numbers in them are words.
    assert (shingles_of("in the year 1990 it rained") == shingles_of("in the year 2024 it rained")).all()
    assert (shingles_of("plant rice11x grows well here") != shingles_of("plant rice12x grows well here")).all()


def test_vectors_are_those_of_documents_without_the_passages(tiny_encoder: Encoders) -> None:
    encoder, documents = tiny_encoder("bert", readout="mean", trained=True), corpus()
    own = encoder.without_repeats(find_repeats(documents))
    vectors = own.encode(documents)
    without = [Document(one.id, one.sections[:1]) for one in documents]
    np.testing.assert_allclose(vectors, encoder.encode(without), atol=1e-5)
    # Nothing depends on the documents that are encoded together.
    np.testing.assert_allclose(own.encode(documents[2]), vectors[2], atol=1e-5)
    comparison = own.compare(documents[0], documents[1])
    assert comparison.section_contributions.sum() == pytest.approx(comparison.document, abs=1e-5)
    assert encoder.segmenter.repeats is None and "repeats" not in encoder.describe()
    assert own.describe()["repeats"] == find_repeats(documents).describe() != {}
