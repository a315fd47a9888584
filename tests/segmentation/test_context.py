from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from graphdoc.documents.document import Document
from graphdoc.documents.section import Section
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import DocumentError, ModelError, SettingsError
from graphdoc.retrieval.rows import tokens_hash
from graphdoc.segmentation.context import SHARE
from graphdoc.segmentation.coverage import Coverage
from graphdoc.segmentation.segmenter import SegmentationConfig, Segmenter

EncoderFactory = Callable[..., DocumentEncoder]
TEXT = "The grains must stay whole. Steam rises through the rice. Nobody may open the lid. The mould grows at night. "


def document_of(title: str = "Koji", heading: str = "Steaming", text: str = TEXT * 5) -> Document:
    return Document("d", (Section(text, heading=heading), Section("Short.", heading="")), title=title)


@pytest.fixture(scope="module", params=["bert", "roberta"])
def tokenizer(request: pytest.FixtureRequest, backbone_folder: Callable[[str], Path]) -> PreTrainedTokenizerFast:
    found: PreTrainedTokenizerFast = AutoTokenizer.from_pretrained(backbone_folder(request.param))
    return found


def segmenter(tokenizer: PreTrainedTokenizerFast, **settings: object) -> Segmenter:
    return Segmenter(tokenizer, SegmentationConfig(**{"passage_words": 12, "max_tokens": 60, **settings}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("context", "prefixes"),
    [("title", ["Koji. ", "Koji. "]), ("heading", ["Steaming. ", ""]), ("both", ["Koji. Steaming. ", "Koji. "])],
)
def test_it_stands_in_front_of_the_tokens_and_nowhere_else(
    tokenizer: PreTrainedTokenizerFast, context: str, prefixes: list[str]
) -> None:
    document = document_of()
    plain = segmenter(tokenizer, max_tokens=80).segment(document)
    found = segmenter(tokenizer, max_tokens=80, context=context).segment(document)
    assert [(one.section, one.start, one.end) for one in found.passages] == [
        (one.section, one.start, one.end) for one in plain.passages
    ]
    assert found.texts == plain.texts
    for span, ids, text in zip(found.passages, found.token_ids, found.texts, strict=True):
        assert list(ids) == tokenizer(prefixes[span.section] + text)["input_ids"]
    own = [len(tokenizer(prefixes[one.section].rstrip())["input_ids"]) for one in found.passages]
    assert [one.tokens for one in found.passages] == [
        len(ids) - count for ids, count in zip(found.token_ids, own, strict=True)
    ]
    assert found.coverage.encoded_characters == plain.coverage.encoded_characters == found.coverage.characters


def test_none_is_as_it_was(tokenizer: PreTrainedTokenizerFast) -> None:
    found = segmenter(tokenizer, context="none").segment(document_of())
    for ids, text in zip(found.token_ids, found.texts, strict=True):
        assert list(ids) == tokenizer(text)["input_ids"]
    assert "shortened_contexts" not in found.coverage.to_dict()


words = st.lists(st.text("abcdefg", min_size=1, max_size=9), min_size=0, max_size=60).map(" ".join)


@given(title=words, heading=words, text=words, unit=st.sampled_from(["passage", "chunk"]))
def test_whatever_it_is_passages_fit_and_hold_all_of_the_text(
    tokenizer: PreTrainedTokenizerFast, title: str, heading: str, text: str, unit: str
) -> None:
    document = Document("d", (Section(text, heading=heading),), title=title)
    most = 24
    found = segmenter(tokenizer, max_tokens=most, context="both", unit=unit).segment(document)
    assert all(len(ids) <= most for ids in found.token_ids)
    assert "".join("".join(found.texts).split()) == "".join(text.split())
    assert found.coverage.share == 1
    assert found.coverage.encoded_tokens == sum(one.tokens for one in found.passages)
    assert all(one.tokens > 0 for one in found.passages)


def test_a_long_one_is_cut_and_counted(tokenizer: PreTrainedTokenizerFast) -> None:
    document = document_of(title="A title of very many words. " * 40, heading="A heading " * 40)
    found = segmenter(tokenizer, context="both").segment(document)
    plain = segmenter(tokenizer).segment(document)
    assert found.coverage.shortened_contexts == len(found.passages) > 0
    assert "".join(found.texts) == "".join(plain.texts)
    special = tokenizer.num_special_tokens_to_add()
    for span, ids in zip(found.passages, found.token_ids, strict=True):
        assert len(ids) <= 60
        assert 0 < len(ids) - special - span.tokens <= (60 - special) // SHARE
    values = found.coverage.to_dict()
    assert Coverage.from_dict(values) == found.coverage
    assert Coverage.from_dict(plain.coverage.to_dict()) == plain.coverage


def test_a_passage_over_the_limit_with_it_is_cut_at_sentence_ends(tokenizer: PreTrainedTokenizerFast) -> None:
    limit = max(
        len(ids) for ids in segmenter(tokenizer, passage_words=20, max_tokens=80).segment(document_of()).token_ids
    )
    settings = {"passage_words": 20, "max_tokens": limit}
    plain = segmenter(tokenizer, **settings).segment(document_of())
    found = segmenter(tokenizer, context="both", **settings).segment(document_of())
    assert len(found.passages) > len(plain.passages)
    assert all(text.endswith(".") for text in found.texts)
    assert all(len(ids) <= limit for ids in found.token_ids)


def test_sentences_queries_and_words_have_none(tiny_encoder: EncoderFactory) -> None:
    encoder, plain = (tiny_encoder("bert", context=context) for context in ("both", "none"))
    document = document_of()
    for level in ("sentence",):
        assert np.array_equal(encoder.encode(document, level=level), plain.encode(document, level=level))  # type: ignore[call-overload]
    assert np.array_equal(encoder.encode_query("Rice is steamed."), plain.encode_query("Rice is steamed."))
    assert not np.allclose(encoder.encode(document), plain.encode(document))
    assert encoder.describe()["context"] == "both" and "context" not in plain.describe()
    comparison = encoder.compare(document, document)
    assert comparison.passage_contributions.sum() == pytest.approx(comparison.document, abs=1e-6)


def test_an_edited_title_is_encoded_anew(tiny_encoder: EncoderFactory) -> None:
    encoder, plain = (tiny_encoder("bert", context=context) for context in ("title", "none"))
    for one, same in ((plain, True), (encoder, False)):
        before, after = (one.segment(document_of(title=title)).token_ids for title in ("Koji", "Miso"))
        assert ([tokens_hash(ids) for ids in before] == [tokens_hash(ids) for ids in after]) is same


def test_headings_alone_are_no_text(tiny_encoder: EncoderFactory) -> None:
    encoder = tiny_encoder("bert", context="both")
    document = Document("d", (Section("", heading="Steaming"), Section(" ", heading="Lids")), title="Koji")
    assert encoder.segment(document).passages == ()
    with pytest.raises(DocumentError, match="no text to encode"):
        encoder.encode(document)


def test_bad_settings(tokenizer: PreTrainedTokenizerFast, tiny_encoder: EncoderFactory) -> None:
    with pytest.raises(SettingsError, match="context"):
        segmenter(tokenizer, context="titles")
    with pytest.raises(ModelError, match="context"):
        tiny_encoder("bert", context="titles")
