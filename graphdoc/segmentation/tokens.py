"""Tokens of texts, as every part of the package takes them, so that threads can share one tokenizer.

A fast tokenizer keeps padding and truncation as its own state. A call of transformers that asks for either changes
what a call in another thread gives, so nothing here asks for them: what must be short is cut afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast


def without_limits(tokenizer: PreTrainedTokenizerBase) -> None:
    """Take out the padding and truncation that a tokenizer's file sets, so that no call has to.

    Args:
        tokenizer: a fast tokenizer; it changes if it has either, so no other thread may use it yet.
    """
    backend = _backend(tokenizer)
    if backend.padding is not None:
        backend.no_padding()
    if backend.truncation is not None:
        backend.no_truncation()
    if backend.encode_special_tokens != tokenizer.split_special_tokens:
        backend.encode_special_tokens = tokenizer.split_special_tokens


def token_ids(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    """Token ids of texts, special tokens included, neither padded nor cut.

    Args:
        tokenizer: a fast tokenizer :func:`without_limits`.
        texts: the texts.
    """
    # Places in the text are not looked up, which takes a fifth off the time.
    return [encoding.ids for encoding in _backend(tokenizer).encode_batch_fast(list(texts))]


def short_token_ids(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], most: int) -> list[list[int]]:
    """Token ids of texts; of one over the limit the first ones, and the last, which ends a text for most models.

    Args:
        tokenizer: a fast tokenizer :func:`without_limits`.
        texts: the texts.
        most: most tokens of a text, special tokens included.
    """
    rows = token_ids(tokenizer, texts)
    return [row if len(row) <= most else [*row[: most - 1], row[-1]] for row in rows]


def token_spans(tokenizer: PreTrainedTokenizerBase, text: str, after: int = 0) -> list[tuple[int, int]]:
    """Spans of the tokens of a text, special tokens and those of what stands before it left out.

    Args:
        tokenizer: a fast tokenizer :func:`without_limits`.
        text: the text, with what stands before it.
        after: characters that stand before it; spans count from its own first one.
    """
    encoding = _backend(tokenizer).encode(text)
    pairs = zip(encoding.offsets, encoding.special_tokens_mask, strict=True)
    spans = [span for span, special in pairs if not special]
    return [(max(start - after, 0), end - after) for start, end in spans if end > after] if after else spans


def _backend(tokenizer: PreTrainedTokenizerBase) -> Tokenizer:
    return cast("PreTrainedTokenizerFast", tokenizer).backend_tokenizer
