"""Masks on tokens, for masked language modelling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from transformers import DataCollatorForLanguageModeling, PreTrainedTokenizerBase

from ..errors import ModelError
from .draws import Rows, random_generator

MASKED_SHARE = 0.15

Tokens = npt.NDArray[np.integer[Any]]


class MaskedSentence(NamedTuple):
    """A sentence, some of whose tokens are masked.

    Args:
        token_ids: ``(tokens,)``, as the transformer sees them.
        places: ``(masked,)``, which of them are to be guessed.
        tokens: ``(masked,)``, the tokens that stood there.
    """

    token_ids: Tokens
    places: Rows
    tokens: Rows


class TokenMasks:
    """Masks tokens as BERT and RoBERTa do (Devlin et al. 2019, section 3.1), by the collator of transformers.

    Of all tokens but the special ones, 15 % are chosen; of these 80 % become the mask token, 10 % any token, and 10 %
    stay. What is drawn depends on the key alone.

    Args:
        tokenizer: knows the special tokens.
        share: share of tokens that are chosen.

    Raises:
        ModelError: the tokenizer has no mask token.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, share: float = MASKED_SHARE) -> None:
        if tokenizer.mask_token is None:
            raise ModelError(
                "its tokenizer has no mask token; start from an encoder trained by masked language modelling, such as "
                "roberta-base, or train without masks (loss.mlm_weight=0 and loss.contrast_on=clean)"
            )
        self._special = np.array(tokenizer.all_special_ids)
        self._collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=share)

    def draw(self, sentences: Sequence[Tokens], *key: int | str) -> list[MaskedSentence]:
        """Mask sentences that belong together.

        Args:
            sentences: token ids of every sentence, special tokens included.
            key: what the draw depends on.
        """
        together = torch.from_numpy(np.concatenate(sentences).astype(np.int64)).unsqueeze(0)
        special = torch.from_numpy(np.isin(together.numpy(), self._special))
        seed = int(random_generator("masks", *key).integers(2**63))
        self._collator.generator = torch.Generator().manual_seed(seed)
        inputs, labels = self._collator.torch_mask_tokens(together, special_tokens_mask=special)
        # What is left as it is has a negative label.
        chosen = [part.numpy() for part in (inputs[0], labels[0])]
        ends = np.cumsum([len(one) for one in sentences])[:-1]
        return [
            MaskedSentence(ids, np.flatnonzero(label >= 0), label[label >= 0])
            for ids, label in zip(*(np.split(part, ends) for part in chosen), strict=True)
        ]
