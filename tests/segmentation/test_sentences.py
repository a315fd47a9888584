from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from typed import Backbones, Encoders, Log

from graphdoc import DocumentEncoder
from graphdoc.corpus.corpus import prepare_run_corpus
from graphdoc.documents.document import Document
from graphdoc.documents.section import Section
from graphdoc.errors import DocumentError, ModelError, OutputError
from graphdoc.inference.levels import sentence_segmenter
from graphdoc.inference.segmenting import Workers, segment_in_order
from graphdoc.retrieval.index import DocumentIndex
from graphdoc.retrieval.sentences import encode_sentences
from graphdoc.segmentation.segmenter import CONTEXT_DIVISOR, SegmentationConfig, Segmenter
from graphdoc.segmentation.sentences import cut_at_white_space, first_sentence, split_sentences, without_first_sentence
from graphdoc.segmentation.spans import Coverage, short_token_ids, token_ids, token_spans, without_limits
from graphdoc.settings.pretraining import SentencePairSettings, SubDocumentSettings
from graphdoc.vectors.folder import Manifest

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
        ("Half \ufffd here. Whole 😀 there.", ["Half \ufffd here.", "Whole 😀 there."]), (" \n\n \u3000", []),
        ("Certain, cert. denied, 412 U.S. 9. See id.", ["Certain, cert. denied, 412 U.S. 9.", "See id."]),
        ("By Fed. R. Civ. P. 12(b)(6) it is. So held.", ["By Fed. R. Civ. P. 12(b)(6) it is.", "So held."]),
        ("See 12 Wm. & Mary L. Rev. 34. It holds.", ["See 12 Wm. & Mary L. Rev. 34.", "It holds."]),
        ("Roe et ux. v. Poe, T.C. Memo. 2001-5. He lost.", ["Roe et ux. v. Poe, T.C. Memo. 2001-5.", "He lost."]),
        ("In J. Am. Chem. Soc. 2001, 4. It was.", ["In J. Am. Chem. Soc. 2001, 4.", "It was."]),
        ("In Proc. Natl. Acad. Sci. USA 98. It was.", ["In Proc. Natl. Acad. Sci. USA 98.", "It was."]),
        ("He joined the Soc. The rest is known.", ["He joined the Soc.", "The rest is known."]),
        ("It relied on Smith v. Jones, 410 U.S. 113. Good.", ["It relied on Smith v. Jones, 410 U.S. 113.", "Good."]),
        ("The 9th Cir. 1999 affirmed. Others did not.", ["The 9th Cir. 1999 affirmed.", "Others did not."]),
        ("Roe et al. [2004] sat. Poe et al. (2005) ran.", ["Roe et al. [2004] sat.", "Poe et al. (2005) ran."]),
        ("He met Al. They left.", ["He met Al.", "They left."]),
    ],
)  # fmt: skip
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


TEXT = "The grains must stay whole. Steam rises through the rice. Nobody may open the lid. The mould grows at night. "


def document_of(title: str = "Koji", heading: str = "Steaming", text: str = TEXT * 5) -> Document:
    return Document("d", (Section(text, heading=heading), Section("Short.", heading="")), title=title)


@pytest.fixture(scope="module", params=["bert", "roberta"])
def tokenizer(request: pytest.FixtureRequest, backbone_folder: Backbones) -> PreTrainedTokenizerFast:
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
        assert 0 < len(ids) - special - span.tokens <= (60 - special) // CONTEXT_DIVISOR
    assert Coverage.from_dict(found.coverage.to_dict()) == found.coverage
    assert Coverage.from_dict(plain.coverage.to_dict()) == plain.coverage


def test_sentences_queries_and_words_have_none(tiny_encoder: Encoders) -> None:
    encoder, plain = (tiny_encoder("bert", context=context) for context in ("both", "none"))
    document = document_of()
    with pytest.raises(DocumentError, match="no text to encode"):
        encoder.encode(Document("d", (Section(" ", heading="Lids"),), title="Koji"))
    # Whether documents are cut here or by workers.
    several = [replace(document_of(title=title), id=title) for title in ("Koji", "Miso")] * 40
    found = [vectors.numpy() for _, vectors in encoder.stream(several, workers=1)]
    assert not np.allclose(found[0], found[1], atol=1e-3) and np.allclose(found[0], found[78], atol=1e-5)
    assert np.array_equal(encoder.encode(document, level="sentence"), plain.encode(document, level="sentence"))
    assert np.array_equal(encoder.encode_query("Rice is steamed."), plain.encode_query("Rice is steamed."))
    assert not np.allclose(encoder.encode(document), plain.encode(document))
    assert encoder.describe()["context"] == "both" and "context" not in plain.describe()
    comparison = encoder.compare(document, document)
    assert comparison.passage_contributions.sum() == pytest.approx(comparison.document, abs=1e-6)


@pytest.mark.parametrize(
    ("context", "prefixes"),
    [("title", ["Koji. ", "Koji. "]), ("heading", ["Steaming. ", ""]), ("both", ["Koji. Steaming. ", "Koji. "])],
)
def test_sentences_have_a_context_of_their_own(tiny_encoder: Encoders, context: str, prefixes: list[str]) -> None:
    encoder, plain = (tiny_encoder("bert", sentence_context=one) for one in (context, "none"))
    document = document_of()
    found, before = (sentence_segmenter(one).segment(document) for one in (encoder, plain))
    assert found.texts == before.texts and len(found.texts) == 21
    for span, ids, text in zip(found.passages, found.token_ids, found.texts, strict=True):
        assert list(ids) == encoder.tokenizer(prefixes[span.section] + text)["input_ids"]
    assert np.array_equal(encoder.encode(document), plain.encode(document))
    vectors, without = (one.encode(document, level="sentence") for one in (encoder, plain))
    assert not np.allclose(vectors, without, atol=1e-3)
    compared = encoder.encode_levels(document, sentences=True).sentence_vectors
    assert compared is not None and np.allclose(compared, vectors, atol=1e-5)
    (kept,) = encode_sentences(encoder, [document], "section")
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert np.allclose(kept.vectors, unit, atol=1e-3)
    assert encoder.describe()["sentence_context"] == context and "sentence_context" not in plain.describe()


def test_what_is_learned_of_sentences_has_no_title(tiny_encoder: Encoders, tmp_path: Path) -> None:
    encoder, plain = (tiny_encoder("bert", sentence_context=one, context=one) for one in ("title", "none"))
    texts = [sentence_segmenter(one, with_context=False).segment(document_of()) for one in (encoder, plain)]
    assert texts[0].token_ids == texts[1].token_ids
    sentences = [tiny_encoder("bert", context=one, unit="sentence") for one in ("title", "none")]
    assert sentences[0].segment(document_of()).token_ids == sentences[1].segment(document_of()).token_ids
    path = tmp_path / "documents.jsonl"
    rows = [{"id": str(number), "title": "Koji", "text": f"{TEXT * 9} {number}."} for number in range(4)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = {"source": str(path), "cache": str(tmp_path / "cache")}
    found: dict[str, list[list[list[int]]]] = {}
    for settings in (SentencePairSettings(corpus=source), SubDocumentSettings(corpus=source)):  # type: ignore[arg-type]
        for name, one in (("titled", encoder), ("plain", plain)):
            corpus = prepare_run_corpus(settings, one.segmenter, "section", show_progress_bar=False)
            own = [[list(map(int, ids)) for ids in corpus[number].token_ids] for number in range(4)]
            found[f"{type(settings).__name__} {name}"] = own
    assert found["SentencePairSettings titled"] == found["SentencePairSettings plain"]
    # Passages are trained on with their context.
    ids = list(encoder.tokenizer("Koji. ", add_special_tokens=False)["input_ids"])
    for before, own in zip(found["SubDocumentSettings plain"], found["SubDocumentSettings titled"], strict=True):
        assert [one[:1] + one[1 + len(ids) :] for one in own] == before
        assert all(one[1 : 1 + len(ids)] == ids for one in own)


def test_folders_of_vectors_name_it_where_they_depend_on_it(tiny_encoder: Encoders, tmp_path: Path) -> None:
    encoder = tiny_encoder("bert", sentence_context="title")
    for level, is_named in (("document", False), ("passage", False), ("sentence", True)):
        encoder.encode_to_disk([document_of()], tmp_path / level, level=level)  # type: ignore[arg-type]
        assert ("sentence_context" in Manifest.read(tmp_path / level).model) is is_named
    plain = tiny_encoder("bert")
    plain.encode_to_disk([document_of()], tmp_path / "document", level="document")
    with pytest.raises(OutputError, match="sentence_context was 'title'"):
        plain.encode_to_disk([document_of()], tmp_path / "sentence", level="sentence")
    for sentences in (False, True):
        folder = tmp_path / f"index-{sentences}"
        DocumentIndex.create(folder, encoder, sentences=sentences).update([document_of()])
        if sentences:
            with pytest.raises(ModelError, match="sentence_context was 'title'"):
                DocumentIndex.open(folder, plain)
        else:
            assert len(DocumentIndex.open(folder, plain)) == 1


def test_ids_and_spans_are_those_of_the_library(mini: DocumentEncoder) -> None:
    text = "Tides rise \u00e9\u4e2d\u6587, un\u00adhyphen\u200bated \U0001f600 [SEP] ends."
    expected = mini.tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True)
    assert token_ids(mini.tokenizer, [text, "A."])[0] == expected["input_ids"]
    assert token_ids(mini.tokenizer, []) == []
    # In order of the text, those of its own special tokens left out: whatever the library masks.
    kept = zip(expected["offset_mapping"], expected["special_tokens_mask"], strict=True)
    assert token_spans(mini.tokenizer, text) == [tuple(span) for span, masked in kept if not masked]
    own = token_spans(mini.tokenizer, text[6:])
    assert token_spans(mini.tokenizer, text, 6) == own and own[0] == (0, 4)


def test_limits_are_no_state_of_the_tokenizer_for_other_threads(mini: DocumentEncoder) -> None:
    texts = [" ".join(["Tides rise and fall."] * repeats) for repeats in (1, 4, 30)]
    backend = mini.tokenizer.backend_tokenizer
    backend.enable_truncation(16)
    backend.enable_padding(length=16)
    without_limits(mini.tokenizer)
    assert backend.padding is None and backend.truncation is None
    whole, cut = token_ids(mini.tokenizer, texts), short_token_ids(mini.tokenizer, texts, 16)
    assert list(map(len, whole)) == [7, 22, 152] and list(map(len, cut)) == [7, 16, 16]
    assert cut[0] == whole[0] and cut[2] == [*whole[2][:15], mini.tokenizer.sep_token_id]
    with ThreadPoolExecutor(4) as threads:
        for _ in range(20):
            short = threads.submit(short_token_ids, mini.tokenizer, texts, 16)
            # What another thread would meet between this call and its own.
            assert short.result() == cut and backend.truncation is None
            assert threads.submit(token_ids, mini.tokenizer, texts).result() == whole
