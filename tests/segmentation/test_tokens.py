"""Tests of tokens that threads take from one tokenizer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from graphdoc import DocumentEncoder
from graphdoc.segmentation.context import short_token_ids, token_ids, token_spans, without_limits


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return [" ".join(["Tides rise and fall."] * repeats) for repeats in (1, 4, 30)]


def test_a_loaded_tokenizer_neither_pads_nor_cuts(mini: DocumentEncoder, texts: list[str]) -> None:
    backend = mini.tokenizer.backend_tokenizer
    assert backend.padding is None and backend.truncation is None
    assert len({len(row) for row in token_ids(mini.tokenizer, texts)}) == 3


def test_short_ids_are_the_first_and_the_end(mini: DocumentEncoder, texts: list[str]) -> None:
    whole = token_ids(mini.tokenizer, texts)
    cut = short_token_ids(mini.tokenizer, texts, 16)
    assert list(map(len, whole)) == [7, 22, 152] and list(map(len, cut)) == [7, 16, 16]
    assert cut[0] == whole[0] and cut[2] == [*whole[2][:15], mini.tokenizer.sep_token_id]


def test_limits_of_a_file_are_taken_out(mini: DocumentEncoder, texts: list[str]) -> None:
    backend = mini.tokenizer.backend_tokenizer
    backend.enable_truncation(16)
    backend.enable_padding(length=16)
    without_limits(mini.tokenizer)
    assert backend.padding is None and backend.truncation is None


def test_short_ids_change_nothing_for_other_threads(mini: DocumentEncoder, texts: list[str]) -> None:
    expected = token_ids(mini.tokenizer, texts)
    with ThreadPoolExecutor(4) as threads:
        short = []
        whole = []
        for _ in range(40):
            short.append(threads.submit(short_token_ids, mini.tokenizer, texts, 16))
            # What another thread would meet between this call and its own.
            assert short[-1].result() and mini.tokenizer.backend_tokenizer.truncation is None
            whole.append(threads.submit(token_ids, mini.tokenizer, texts))
        assert all(found.result() == expected for found in whole)
        assert all(max(map(len, found.result())) == 16 for found in short)


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
