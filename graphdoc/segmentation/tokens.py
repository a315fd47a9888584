"""Tokens of texts, as every part of the package takes them, so that threads can share one tokenizer.

A fast tokenizer keeps padding and truncation as its own state. A call that asks for either changes what a call in
another thread gives, so nothing here asks for them: what must be short is cut afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from transformers import BatchEncoding, PreTrainedTokenizerBase, PreTrainedTokenizerFast


def without_limits(tokenizer: PreTrainedTokenizerBase) -> None:
    """Take out the padding and truncation that a tokenizer's file sets, so that no call has to.

    Args:
        tokenizer: a fast tokenizer that no other thread uses yet; it changes.
    """
    backend = cast("PreTrainedTokenizerFast", tokenizer).backend_tokenizer
    backend.no_padding()
    backend.no_truncation()


def tokenise(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> BatchEncoding:
    """Token ids and offsets of texts, special tokens included, neither padded nor cut."""
    encoded: BatchEncoding = tokenizer(
        list(texts),
        padding=False,
        truncation=False,
        return_attention_mask=False,
        return_token_type_ids=False,
        verbose=False,
    )
    return encoded


def short_token_ids(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], most: int) -> list[list[int]]:
    """Token ids of texts; of one over the limit the first ones, and the last, which ends a text for most models.

    Args:
        tokenizer: a fast tokenizer.
        texts: the texts.
        most: most tokens of a text, special tokens included.
    """
    rows = cast("list[list[int]]", tokenise(tokenizer, texts)["input_ids"])
    return [row if len(row) <= most else [*row[: most - 1], row[-1]] for row in rows]


def token_spans(encoded: BatchEncoding, position: int, after: int = 0) -> list[tuple[int, int]]:
    """Spans of the tokens of one text, special tokens and those of what stands before it left out.

    Args:
        encoded: the texts.
        position: which one.
        after: characters that stand before it; spans count from its own first one.
    """
    encoding = encoded[position]
    pairs = zip(encoding.offsets, encoding.special_tokens_mask, strict=True)
    spans = [span for span, special in pairs if not special]
    return [(max(start - after, 0), end - after) for start, end in spans if end > after] if after else spans
